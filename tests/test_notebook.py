"Figures: labels are text, whatever a token looks like."
import io
import pytest, torch
from transformer_nb.support.notebook import heatmap, new_axes

@pytest.mark.parametrize('token', ['$$', r'$\foo$', '$x$'])
def test_a_dollar_is_a_dollar(token):
    ax = heatmap(torch.ones(1, 1), [token], [token], ax=new_axes())
    ax.figure.savefig(io.BytesIO(), format='svg')
    assert not any(label.get_parse_math() for label in ax.get_xticklabels())
