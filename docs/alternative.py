"""What a figure shows, in words, for those who cannot see it: its panels, axes and ranges,
the names of lines and rows, the words of a drawing. In the file they are outlines of
letters, with a comment beside each. The caption, which stands below, says what to see.
"""
import html, re
from xml.etree import ElementTree as ET

MOST = 24   # names in a list; of a longer one, the first and the last are told
PANELS = 5  # of more, the first is told

def alternative(svg):
    "In sentences; '' for a picture that Matplotlib did not draw"
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    figure = ET.fromstring(svg, parser)
    panels = [panel for panel in map(Panel, groups(figure, 'axes')) if panel.sentences]
    beside = told('Beside them' if panels else 'Words', words(figure, 'axes'))
    scales = [panel.scale for panel in panels if panel.scale]
    panels = [panel for panel in panels if not panel.scale]
    if len(panels) == 1: found = panels[0].sentences
    else: found = list(several(panels))
    return ' '.join(filter(None, [*found, beside, *scales[:1]]))

def several(panels):
    "What panels have in common is said once"
    if not panels: return
    yield f'{len(panels)} panels.'
    are_alike = len({tuple(panel.axes) for panel in panels}) == 1
    if len(panels) > PANELS: panels, are_alike = panels[:1], False
    for i, panel in enumerate(panels, 1):
        said = panel.names if are_alike else panel.sentences
        if said: yield f'Panel {i}: {" ".join(said)}'
    if are_alike: yield from panels[0].axes

def name_of(group): return group.get('id', '') if isinstance(group.tag, str) else ''

def groups(parent, kind):
    "Groups that Matplotlib calls `kind_1`, `kind_2`, …, not those inside another of them"
    for child in parent:
        if re.fullmatch(rf'{kind}_\d+', name_of(child)): yield child
        else: yield from groups(child, kind)

def words(parent, *less):
    "The texts in a group, without those in groups of these kinds"
    for child in parent:
        if child.tag is ET.Comment: yield plain(child.text)
        elif not any(re.fullmatch(rf'{kind}_\d+', name_of(child)) for kind in less):
            yield from words(child, *less)

def plain(text):
    "Without the marks of a formula"
    text = re.sub(r'\\math\w+|\\text\b|\\[,;! ]|[${}]', '', html.unescape(text.strip()))
    for command, sign in (('\\sqrt', '√'), ('\\cdot', '·'), ('\\', '')):
        text = text.replace(command, sign)
    return text

def told(what, names):
    "One sentence, each name once"
    names = [name for name in dict.fromkeys(names) if name]
    if not names: return ''
    if len(names) > MOST: names = [*names[:MOST - 2], '…', names[-1]]
    return f'{what}: {"; ".join(names)}.'

class Panel:
    "What the axes of a panel say, and the names of what is in it"
    def __init__(self, group):
        axes = [self.axis(group, 1, 'Horizontal', 'xtick'),
                self.axis(group, 0, 'Vertical', 'ytick')]
        inside = words(group, r'matplotlib\.axis', 'legend')
        legend = [name for part in groups(group, 'legend') for name in words(part)]
        names = [told('Words', inside), told('Legend', legend)]
        self.axes, self.names = list(filter(None, axes)), list(filter(None, names))
        self.sentences = self.names + self.axes
        is_scale = not self.names and len(self.axes) == 1 and 'from' in self.axes[0]
        self.scale = ''
        if is_scale: self.scale = re.sub(r'^\w+', 'Colors', self.axes[0])

    def axis(self, group, parity, direction, kind):
        "Matplotlib counts the axes of a figure: odd ones horizontal, even ones vertical"
        found = [g for g in group.iter() if name_of(g).startswith('matplotlib.axis_')
                 and int(name_of(g).partition('_')[2]) % 2 == parity]
        ticks = [name for g in found for tick in groups(g, kind) for name in words(tick)]
        label = ' '.join(word for g in found for word in words(g, kind))
        title = f'{direction}, {label}' if label else direction
        if len(ticks) > 2 and all(map(is_number, ticks)):
            return f'{title}: from {ticks[0]} to {ticks[-1]}.'
        return told(title, ticks) or (f'{title}.' if label else '')

NUMBER = re.compile(r'[−-]?\d[\d,.]*( ?[%kM]|\^[−-]?\d+)?')

def is_number(text): return bool(NUMBER.fullmatch(text))
