"""The live figures of the chapters, written to a folder that the pages share.

In a chapter, a comment on a line of its own stands where a live figure should be:

    <!-- live NAME: what to try, and what to look for -->

Jupyter shows nothing there, but a line below it, `*(On the site, …)*`, says so, which the
site leaves out. Without JavaScript the site shows nothing there, either. Otherwise
`live_load.js`, which is all that the page loads at first, waits until the reader is near,
and then loads `live.js` with all figures and the engine. Only figures that need the model
load its `…_header` and `…_weights`. There are two of each: a plain script, which a page
that was opened as a file may load, too, and a file that is compressed and fetched, because
it has a third fewer bytes. None asks any other machine for anything.
"""
import base64, gzip, json, re
from safetensors.torch import load_file
from transformer_nb.attention import CHARACTERS
from transformer_nb.formats.page import _header_and_weights, _join, _read

# What lives in the site, by what the figures call it: models and, without weights, a
# tokenizer; and their folders
MODELS, TOKENIZERS = {'everyday': 'everyday-en-de'}, {'captions': 'multi30k-en-de'}
IN_JUPYTER = r'(?:\n\n\*\(On the site, .*\)\*)?' # a line for those who see no figure
COMMENT = re.compile(rf'^<!-- live (\w+): (.*?) -->{IN_JUPYTER}$', re.M)
# Of the first page; of the examples, the first that the model translates like that is shown
EXAMPLES = {'I think that she will come tomorrow.':
            'Ich denke, dass sie morgen kommen wird.',
            'He wants to buy a new car tomorrow.': 'Er will morgen ein neues Auto kaufen.',
            'I love you.': 'Ich liebe dich.',
            'I know that he is ill.': 'Ich weiß, dass er krank ist.'}
LONGEST, SHOWN = 120, 10
# Pixels that each takes as it begins, in windows 320, 390, 768 and 1,280 wide: its place
# is kept from the beginning, so that what stands below does not move when it comes
HEIGHTS = {'learning': (538, 586, 640, 640), 'merges': (864, 777, 473, 440),
           'neighbors': (725, 698, 542, 542), 'positions': (1051, 1026, 690, 690),
           'query': (1320, 1266, 722, 722), 'shuffle': (669, 591, 370, 337),
           'translation': (949, 738, 505, 471), 'writer': (748, 629, 435, 399)}
PLACES = ('narrow', 'phone', 'tablet', 'wide') # as book.css calls them
BOX = ('<div class="live" data-live="{name}" role="group" aria-label="Live figure: {name}" '
       'style="{heights}" hidden>\n\n**Try it.** {words}\n\n'
       '<div class="live-stage"></div></div>')
LOADER = '\n\n<script src="live/live_load.js" defer></script>'

def names(text): return [name for name, _ in COMMENT.findall(text)]

def boxes(text):
    "Markdown with a box in the place of each comment"
    def box(m): return BOX.format(name=m[1], words=m[2], heights=heights(m[1]))
    return COMMENT.sub(box, text)

def heights(name):
    return ';'.join(f'--live-{at}:{px}px' for at, px in zip(PLACES, HEIGHTS[name]))

def shared(megabytes): # of each model -> text of each file that all figures need, by name
    known = dict(megabytes=megabytes, engine=_join('worker'), headers={}, weights={},
                 examples=list(EXAMPLES), longest=LONGEST)
    return {'live_load.js': _read('live_load.js'),
            'live.css': _read('live.css'),
            'live.js': f'globalThis.tnb = {as_json(known)}\n' + _join('live')}

def writer(folder): # the model of chapter 07a, in half precision
    tensors = load_file(folder/'model.safetensors')
    config = json.loads((folder/'config.json').read_text(encoding='utf8'))
    halves = [x.numpy().astype('<f2') for x in tensors.values()]
    weights = b''.join(map(bytes, halves))
    shapes = [(name, x.shape) for name, x in tensors.items()]
    return dict(config=config, tensors=shapes, characters=CHARACTERS,
                weights=base64.b64encode(weights).decode())

def learning(file): # pictures of a training, for a slider
    rows = map(json.loads, file.read_text(encoding='utf8').splitlines())
    return dict(pictures=list(rows), shown=SHOWN)

def as_json(x): return json.dumps(x, ensure_ascii=False)

def packed(data): return gzip.compress(data, mtime=0)

def both_headers(name, header): # -> name and bytes of each file
    text = as_json(header)
    yield f'{name}_header.js', f'tnb.headers.{name} = {text}\n'.encode()
    yield f'{name}_header.bin', packed(text.encode())

def both_weights(name, weights):
    encoded = base64.b64encode(weights).decode()
    yield f'{name}_weights.js', f'tnb.weights.{name} = "{encoded}"\n'.encode()
    yield f'{name}_weights.bin', packed(weights)

def write(models, out):
    "What the pages of the site load from their folder `live`"
    headers, files = {}, {}
    for name, folder in MODELS.items():
        headers[name], weights = _header_and_weights(models/folder)
        headers[name]['key'] = name # of two models, both may be English to German
        files |= both_weights(name, weights)
    for name, folder in TOKENIZERS.items():
        headers[name], _ = _header_and_weights(models/folder)
    headers['writer'] = writer(models/'writer')
    headers['learning'] = learning(models.parent/'results/learning.jsonl')
    for name, header in headers.items(): files |= both_headers(name, header)
    sizes = {name: len(files[f'{name}_weights.bin']) for name in MODELS}
    scripts = shared({name: round(size / 1e6, 1) for name, size in sizes.items()})
    files |= {name: text.encode() for name, text in scripts.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items(): (out/name).write_bytes(data)
