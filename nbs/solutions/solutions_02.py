"""Solutions of the exercises of chapter 02."""
import torch
from transformer_nb.multihead import causal_mask

def bias_matters():
    """Exercise 2. Keys: q·(k_j + b) = q·k_j + q·b, the same for every key of the row.

    A softmax sees only differences, so the weights stay. A bias on the queries adds b·k_j,
    which differs from key to key. A bias on the values is added to every output, because
    the weights of a row sum to one: Σ w_j (v_j + b) = Σ w_j v_j + b.
    """
    return True, False, True

def soft_difference(p, d):
    """Exercise 3. Head 0 minus head 1 is (2p - 1)(x_1 - x_2), so divide by 2p - 1.

    The entries grow without bound as p approaches 1/2: heads that hardly differ bring
    almost the same average, and the little that tells them apart has to be amplified, along
    with any noise. At p = 1/2 both bring the same, and nothing helps.
    """
    eye = torch.eye(d) / (2*p - 1)
    return torch.cat([eye, -eye])

def window_mask(t, width):
    """Exercise 4. The causal triangle without the one that ends `width` positions earlier.

    Each layer carries information `width - 1` positions further, so the last of n positions
    depends on the first after ceil((n - 1) / (width - 1)) layers.
    """
    too_far = causal_mask(t).tril(-width)
    return causal_mask(t) & ~too_far

@torch.no_grad()
def permute_heads(m, order):
    """Exercise 5. All four matrices move: the three projections head by head, and W^O in
    blocks of d_v rows, which are the rows of one head.

    Indexing with a list makes a copy, so that nothing is overwritten before it is read.
    """
    blocks = m.W_O.unflatten(0, (m.n_heads, -1))
    for W in (m.W_Q, m.W_K, m.W_V, blocks): W.copy_(W[order])
