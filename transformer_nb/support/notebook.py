"""One look for the figures, one way to begin a chapter, and exercises that never break it."""

import json, os, re, sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
import torch
from torch import Tensor
from torch.testing import assert_close
from transformer_nb.support.core import set_seed

INK = '#808080' # gray that is readable on a light and on a dark page
COLORS = ['#0072B2', '#E69F00', '#009E73', '#D55E00', '#CC79A7', '#56B4E9', '#F0E442', INK]

def figure_style():
    "Give all later figures of this process the look of the book"
    import matplotlib.pyplot as plt
    drawn = 'text.', 'axes.label', 'axes.edge', 'axes.title', 'xtick.', 'ytick.', 'grid.'
    plt.rcParams.update({f'{part}color': INK for part in drawn})
    paper = 'figure.facecolor', 'axes.facecolor', 'savefig.facecolor'
    plt.rcParams.update(dict.fromkeys(paper, 'none') | {
        'legend.frameon': False,
        'axes.prop_cycle': plt.cycler(color=COLORS),
        'axes.spines.top': False,
        'axes.spines.right': False,
        'figure.constrained_layout.use': True,
        'figure.figsize': (6, 3),
        'axes.titlesize': 10,
        'svg.hashsalt': 'transformer_nb'})

def new_axes(**options): # options of `plt.subplots`, such as `figsize`
    "The axes of a new figure"
    import matplotlib.pyplot as plt
    _, ax = plt.subplots(**options)
    return ax

def new_grid(rows:int, columns:int, **options): # options of `plt.subplots`
    "A new figure, and its axes as a matrix (rows, columns), even if there is only one"
    import matplotlib.pyplot as plt
    return plt.subplots(rows, columns, squeeze=False, **options)

def heatmap(matrix:Tensor,                   # what to draw (rows, columns)
            rows:Sequence[str]|None=None,    # labels of the rows
            columns:Sequence[str]|None=None, # labels of the columns
            xlabel:str='', ylabel:str='', title:str='',
            ax=None,                         # axes to draw on; by default a new figure
            **kwargs):                       # passed to `imshow`, such as `vmin` and `vmax`
    "Draw a matrix as colored squares, the first row at the top; returns the axes"
    if ax is None: ax = new_axes()
    values = torch.as_tensor(matrix).detach().cpu().float()
    image = ax.imshow(values.numpy(), aspect='auto', **kwargs)
    if rows is not None: ax.set_yticks(range(len(rows)), rows, parse_math=False)
    if columns is not None:
        longest = max(len(name) for name in columns)
        rotation = 90 if longest > 2 else 0
        ax.set_xticks(range(len(columns)), columns, rotation=rotation,
                      parse_math=False) # a dollar is a dollar
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    ax.figure.colorbar(image, ax=ax)
    return ax

_ENCODER = [
    ('Embedding', '04'),
    ('+ positions', '04'),
    ('Self-attention', '01 02'),
    ('Add, norm', '03'),
    ('Feed-forward', '03'),
    ('Add, norm', '03')]
_DECODER = [
    ('Embedding', '04'),
    ('+ positions', '04'),
    ('Masked self-attention', '01 02'),
    ('Add, norm', '03'),
    ('Cross-attention', '01 02'),
    ('Add, norm', '03'),
    ('Feed-forward', '03'),
    ('Add, norm', '03'),
    ('Linear, softmax', '04')]
_COLOR_OF = {'01 02': 0, '03': 1, '04': 2, '05': 3, '06': 4, '07': 4} # in COLORS

def _rounded(x:float, y:float, width:float, height:float, **options): # center and size
    from matplotlib.patches import FancyBboxPatch
    corner = x - width/2, y - height/2
    style = 'round,pad=0,rounding_size=.12'
    return FancyBboxPatch(corner, width, height, boxstyle=style, **options)

def _map_arrow(ax, start:tuple[float,float], end:tuple[float,float]):
    style = dict(arrowstyle='-|>', color=INK, lw=.8, shrinkA=0, shrinkB=0)
    ax.annotate('', end, start, arrowprops=style)

def _map_box(ax, x:float, y:float, width:float, text:str,
             chapters:str,   # such as '01 02'
             here:str|None): # number of this chapter, whose boxes stand out
    color = COLORS[_COLOR_OF[chapters]]
    stands_out = here is None or here in chapters
    face = color + '40' if stands_out else 'none'
    edge = color if stands_out else INK
    ax.add_patch(_rounded(x, y, width, .64, fc=face, ec=edge, lw=1 if stands_out else .4))
    weight = 'bold' if stands_out and here else 'normal'
    style = dict(va='center', size=8, weight=weight)
    ax.text(x - width/2 + .2, y, text, ha='left', **style)
    ax.text(x + width/2 - .2, y, chapters.replace(' ', '–'), ha='right', **style)

def _map_column(ax, x:float, parts:list[tuple[str,str]], here:str|None):
    for y, (text, chapters) in enumerate(parts):
        _map_box(ax, x, y, 3.9, text, chapters, here)
        if y > 0: _map_arrow(ax, (x, y - .68), (x, y - .33))

def _map_layers(ax, x:float, rows:int, side:int, # -1: paths on the left, 1: on the right
                here:str|None):
    "The frame around the sub-layers of one layer, and the residual path around each"
    frame = dict(fc='none', ec=INK, ls='--', lw=.8)
    if here == '05': frame |= dict(ec=COLORS[3], lw=2)
    path = dict(color=COLORS[1] if here in (None, '03') else INK, lw=1)
    edge, bend = x + 1.95*side, x + 2.2*side
    for y in range(2, 2 + rows, 2): # below a sub-layer, to the box after it
        ax.plot([x, bend, bend, edge], [y - .5, y - .5, y + 1, y + 1], **path)
        ax.plot(edge, y + 1, '<' if side > 0 else '>', ms=3, c=path['color'])
    ax.add_patch(_rounded(x, rows/2 + 1.42, 4.8, rows + .1, **frame))
    ax.text(x + 2.55*side, rows/2 + 1.4, 'N×', size=9, va='center',
            ha='left' if side > 0 else 'right')

def draw_map(here:str|None=None): # number of a chapter of Part I, such as '03'
    "The Transformer and the chapters that build it; with `here`, *you are here*"
    ax = new_axes(figsize=(6.2, 4.4))
    _map_column(ax, 0, _ENCODER, here)
    _map_column(ax, 5.6, _DECODER, here)
    _map_layers(ax, 0, 4, -1, here)
    _map_layers(ax, 5.6, 6, 1, here)
    ax.plot([0, 0, 2.8, 2.8], [5.33, 6.1, 6.1, 4], color=INK, lw=.8)
    _map_arrow(ax, (2.8, 4), (3.63, 4))
    weight = 'bold' if here == '05' else 'normal'
    ax.text(-2, 8, 'all of it: 05', size=8, weight=weight)
    ax.text(-2.3, 5.65, 'encoder', size=8)
    ax.text(3.3, 8.5, 'decoder', size=8)
    _map_box(ax, 2.8, -1.2, 9.5, 'Optimizer, schedule, label smoothing', '06', here)
    _map_box(ax, 2.8, -2.05, 9.5, 'The copy task: training and decoding', '07', here)
    ax.set(xlim=(-3.2, 8.8), ylim=(-2.5, 9.2))
    ax.axis('off')
    return ax

_NOTE = 'skipped: a {} cell, with the output that is stored; to run it, set TNB_SLOW=1'

def skip_heavy_cells(lines:list[str] # source of a cell, line by line
                    )->list[str]:    # the same, or one line that shows what is stored
    "Replace a cell headed `#| slow` or `#| cuda`, unless the environment has `TNB_SLOW`"
    source = ''.join(lines)
    heavy = re.search(r'^#\|\s*(slow|cuda)(?!\S)', source, re.M)
    if not heavy or os.environ.get('TNB_SLOW'): return lines
    return ['from transformer_nb.support.notebook import show_stored\n',
            f'show_stored({_NOTE.format(heavy[1])!r}, {source!r})\n']

def _open_notebooks()->list[Path]: # the one that Jupyter runs; else all in this folder
    name = os.environ.get('JPY_SESSION_NAME') or '' # set by Jupyter's server
    own = [path for path in (Path(name), Path(Path(name).name)) if path.suffix == '.ipynb']
    return [path for path in own if path.is_file()] or sorted(Path().glob('*.ipynb'))

def _stored_outputs(source:str)->list[dict]: # of the cell with this source, if it is stored
    for path in _open_notebooks():
        for cell in json.loads(path.read_text(encoding='utf8'))['cells']:
            if ''.join(cell['source']).strip() == source.strip(): return cell['outputs']
    return []

_SKIPPED = {'transformer_nb': 'skipped'} # metadata of the note, which is not shown again

def show_stored(note:str,   # for the reader
                source:str): # of a cell that is not run
    "Show a note, and what the notebook's file has as the outputs of the cell"
    from IPython.display import publish_display_data
    publish_display_data({'text/plain': note}, metadata=_SKIPPED)
    for output in _stored_outputs(source):
        if output['output_type'] == 'stream':
            stream = getattr(sys, output['name'])
            stream.write(''.join(output['text']))
        elif output.get('metadata') != _SKIPPED and 'data' in output:
            data = {kind: ''.join(part) for kind, part in output['data'].items()}
            publish_display_data(data, metadata=output['metadata'])

def begin_chapter(seed:int=0): # for all random numbers of the chapter
    "Set seed and figure style, and skip heavy cells; for the first cell of a notebook"
    set_seed(seed)
    figure_style()
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError: return
    shell = get_ipython()
    if shell is None: return # a script
    set_matplotlib_formats('svg', metadata={'Date': None})
    transforms = shell.input_transformers_cleanup
    if skip_heavy_cells not in transforms: transforms.append(skip_heavy_cells)

def read_ladder(path:str|Path, # what `benchmarks/ladder.py` has written
                last:str,      # number of a chapter, such as '03'
               )->dict[str,list[dict]]: # name of each rung up to this chapter -> its runs
    rungs = {}
    for run in read_jsonl(path):
        if run['chapter'] <= last: rungs.setdefault(run['rung'], []).append(run)
    return rungs

def show_ladder(path:str|Path, last:str): # as for `read_ladder`
    "A line for each rung: the loss of three seeds, parameters, and what the first one wrote"
    print(f'{"nats per character":20} seeds 0 to 2    parameters  seed 0 writes')
    for rung, runs in read_ladder(path, last).items():
        three = ' '.join(f'{run["nats"]:.2f}' for run in runs[:3])
        size = f'{runs[0]["parameters"]:,}' if 'parameters' in runs[0] else ''
        print(f'{rung:20} {three:15} {size:>10}  {runs[0]["wrote"][0]}')

def draw_ladder(path:str|Path, last:str): # as for `read_ladder`
    "Each run is a dot; the rungs of this chapter are in color; returns the axes"
    rungs = read_ladder(path, last)
    ax = new_axes(figsize=(7.4, 3))
    means = []
    for x, runs in enumerate(rungs.values()):
        nats = [run['nats'] for run in runs]
        color = COLORS[0] if runs[0]['chapter'] == last else INK
        ax.plot([x] * len(nats), nats, 'o', ms=4, color=color, alpha=.6)
        means.append(sum(nats) / len(nats))
        ax.annotate(f'{means[x]:.2f}', (x, means[x]), (7, 0), va='center', size=8,
                    textcoords='offset points')
    ax.plot(means, color=INK, lw=.8)
    ax.set(ylabel='nats per character', xlim=(-.3, 8.7), ylim=(1.4, 2.35))
    ax.set_xticks(range(len(rungs)), [rung.replace(' ', '\n', 1) for rung in rungs])
    ax.tick_params(axis='x', labelsize=8)
    return ax

@contextmanager
def attempt():
    "Check an exercise in `with attempt():`; prints *solved*, or *not yet* and the reason"
    try: yield
    except Exception as e:
        reason = str(e).strip().split('\n')[0]
        print('not yet:', reason or type(e).__name__)
    else: print('solved')

randn64 = partial(torch.randn, dtype=torch.float64)
test_same = partial(assert_close, rtol=1e-12, atol=1e-12) # shapes, types, 12 digits

def _holders(old): # modules of the package, the notebook, and their classes
    for path, module in sys.modules.copy().items():
        if path != '__main__' and not path.startswith('transformer_nb'): continue
        classes = [x for x in vars(module).values() if isinstance(x, type)]
        for holder in [module, *classes]:
            if vars(holder).get(old.__name__) is old: yield holder

@contextmanager
def swap(old:Callable, new:Callable):
    "In `with swap(old, new):` package and notebook call `new` where they called `old`"
    holders = [*_holders(old)]
    if not holders: raise ValueError(f'{old!r} is not a function of the package')
    for holder in holders: setattr(holder, old.__name__, new)
    try: yield
    finally:
        for holder in holders: setattr(holder, old.__name__, old)

def read_jsonl(path:str|Path)->list[dict]: # an object per line
    with open(path, encoding='utf8') as file: return [json.loads(line) for line in file]
