"""The live figures of the chapters, written to a folder that the pages share.

In a chapter, a comment on a line of its own stands where a live figure should be:

    <!-- live NAME: what to try, and what to look for -->

Jupyter shows nothing there, and neither does the site without JavaScript. Otherwise
`live_load.js`, which is all that the page loads at first, waits until the reader is near,
and then loads `live.js` with all figures and the engine. Only figures that need the model
load `header.js` and `weights.js`. All are plain scripts, which a page that was opened as a
file may load as well. None asks the network for anything.
"""
import base64, json, re
from transformer_nb.export import _header_and_weights, _join, _read

MODEL = 'multi30k-en-de' # the folder in nbs/models of the model that lives in the site
COMMENT = re.compile(r'^<!-- live (\w+): (.*?) -->$', re.M)
BOX = ('<div class="live" data-live="{name}" role="group" aria-label="Live figure: {name}" '
       'hidden>\n\n**Try it.** {words}\n\n<div class="live-stage"></div></div>')
LOADER = '\n\n<script src="live/live_load.js" defer></script>'

def names(text): return [name for name, _ in COMMENT.findall(text)]

def boxes(text):
    "Markdown with a box in the place of each comment"
    return COMMENT.sub(lambda m: BOX.format(name=m[1], words=m[2]), text)

def scripts(folder, model): # -> text of each file, by name
    header, weights = _header_and_weights(folder/model)
    engine = json.dumps(_join('worker'), ensure_ascii=False)
    encoded = base64.b64encode(weights).decode()
    known = f'globalThis.tnb = {{megabytes: {len(encoded) / 1e6:.0f}, engine: {engine}}}\n'
    return {'live_load.js': _read('live_load.js'),
            'live.css': _read('live.css'),
            'live.js': known + _join('live'),
            'header.js': f'tnb.header = {json.dumps(header, ensure_ascii=False)}\n',
            'weights.js': f'tnb.weights = "{encoded}"\n'}

def write(models, out):
    "What the pages of the site load from their folder `live`"
    out.mkdir(parents=True, exist_ok=True)
    for name, text in scripts(models, MODEL).items():
        (out/name).write_text(text, encoding='utf8')
