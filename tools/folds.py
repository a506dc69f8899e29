#!/usr/bin/env python3
"""JupyterLab folds what the site folds: writes the metadata of the cells in all chapters.
It hides what follows a heading, up to the cell of the next one; so the heading of an aside
is a cell of its own, and the heading that ends an aside begins one. Of folded code it shows
the first line, so that line says what the cell holds.

    python tools/folds.py
"""
import ast, json, re
from book import ROOT, cells_of, chapters, is_import, is_preparation

FOLDED = '### Aside:', '## Relative to ' # headings of what is folded
COLLAPSED = 'jp-MarkdownHeadingCollapsed'
SECTION = re.compile(r'^(?=#{1,3} )', re.M)
FENCED = re.compile(r'^```.*?^```', re.M | re.S)

def sections(source):
    "What begins with a heading, after what stands before the first one"
    plain = FENCED.sub(lambda m: re.sub('(?m)^#', '.', m[0]), source)
    ends = [*(m.start() for m in SECTION.finditer(plain)), len(source)]
    return [source[a:b] for a, b in zip([0, *ends], ends) if a < b]

def divided(source, is_open):
    "The texts of the cells that JupyterLab needs, and whether an aside is open at the end"
    parts = []
    for text in sections(source):
        is_heading = bool(SECTION.match(text))
        if parts and not (is_heading and is_open) and not text.startswith(FOLDED):
            parts[-1] += text
        else: parts.append(text)
        if is_heading: is_open = text.startswith(FOLDED)
        if is_heading and is_open:
            heading, _, rest = parts.pop().partition('\n')
            parts += [heading, rest] if rest.strip() else [heading]
    return [part.strip('\n') for part in parts], is_open

# What a cell holds, in a line: on its fold

def one_line(node, source):
    "First line of a docstring, else the last comment of the signature, else the signature"
    if isinstance(node, ast.Assign):
        line = ast.unparse(node)
        return f'`{line[:70]} …`' if len(line) > 70 else f'`{line}`'
    if doc := ast.get_docstring(node): return doc.split('\n')[0]
    first, last = node.lineno - 1, max(node.lineno, node.body[0].lineno - 1)
    signature = '\n'.join(source.splitlines()[first:last])
    comments = re.findall(r'#\s*(.*)', signature)
    if comments: return comments[-1]
    if isinstance(node, ast.ClassDef): return f'`{node.name}`'
    names = ', '.join(a.arg for a in node.args.args)
    return f'`{node.name}({names})`'

def names_of(node):
    "What a statement defines; a patched method belongs to the class of its first argument"
    if isinstance(node, ast.Assign):
        targets = [n for target in node.targets for n in ast.walk(target)]
        return [n.id for n in targets if isinstance(n, ast.Name)]
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)): return []
    decorators = ' '.join(map(ast.unparse, node.decorator_list))
    if 'patch' not in decorators: return [node.name]
    of_class = ast.unparse(node.args.args[0].annotation)
    return [f'{of_class}.{node.name}']

def definitions(source):
    "Names that a cell defines, each with its line; `_private` ones left out"
    for node in ast.parse(source).body:
        found = [(name, one_line(node, source)) for name in names_of(node)]
        if isinstance(node, ast.ClassDef):
            methods = [f for f in node.body if isinstance(f, ast.FunctionDef)]
            found += [(f'{node.name}.{f.name}', one_line(f, source)) for f in methods]
        yield from ((n, line) for n, line in found if not re.search(r'(^|\.)_', n))

def prompt_of(cell):
    "What stands on the fold of a cell that prepares or exports"
    if any(map(is_import, ast.parse(cell.text).body)):
        whose = 'the module' if 'export' in cell.flags else 'this chapter'
        return f'Imports of {whose}'
    lines = [line if line[0] == '`' else f'{name}: {line}'
             for name, line in definitions(cell.text)]
    return ' · '.join(lines).replace('`', '') or what_it_holds(cell)

def what_it_holds(cell):
    "The names that a cell defines, else how its last statement begins"
    nodes = ast.parse(cell.text).body
    made = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names = [name for node in made for name in names_of(node) if name != '_']
    if len(made) == 1 and names:
        line = one_line(made[0], cell.text)
        return line.strip('`') if line[0] == '`' else f'{names[0]}: {line}'.replace('`', '')
    if names: return ', '.join(dict.fromkeys(names))
    last = cell.text.splitlines()[nodes[-1].lineno - 1]
    return f'Code that ends in {last[:60]}'

MOST = 83 # characters

def words_of(cell, after): # after: the text below it, where it is a caption
    figure = re.match(r'\*(Figure \w+\.\d+):', after)
    if 'echo' in cell.flags and figure: return f'draws {figure[1]}'
    words = what_it_holds(cell) if {'fold', 'echo'} & cell.flags else prompt_of(cell)
    return words if len(words) <= MOST else f'{words[:MOST - 2].rpartition(" ")[0]} …'

def told(cell, after):
    "Its source, with a first line that JupyterLab shows where the code is folded"
    is_told = bool(cell.directives.get('fold'))
    if is_told or not cell.hides_code or not cell.text: return cell.source
    if is_preparation(cell.text) and not cell.flags: return cell.source # it imports
    source = re.sub(r'^#\| fold *\n', '', cell.source, count=1, flags=re.M)
    return f'#| fold {words_of(cell, after)}\n{source}'

def folded(notebook):
    "The cells as they should be stored"
    made, is_open, all_cells = [], False, cells_of(notebook)
    below = [*(cell.text for cell in all_cells[1:]), '']
    for cell, stored, after in zip(all_cells, notebook['cells'], below):
        metadata = {name: x for name, x in stored['metadata'].items()
                    if name not in ('jupyter', COLLAPSED)}
        if cell.folds: metadata['jupyter'] = cell.folds
        parts = [told(cell, after) if cell.kind == 'code' else cell.source]
        if cell.kind == 'markdown': cut, is_open = divided(cell.source, is_open)
        if cell.kind == 'markdown' and len(cut) > 1: parts = cut
        for i, part in enumerate(parts): # the first keeps the id
            own = {COLLAPSED: True} if part.startswith(FOLDED) else {}
            name = f'{stored["id"]}-{i}' if i else stored['id']
            made.append(stored | dict(id=name, metadata=metadata | own,
                                      source=part.splitlines(keepends=True)))
    return made

def fold(path):
    "True if the file was changed"
    before = path.read_text(encoding='utf8')
    notebook = json.loads(before)
    notebook['cells'] = folded(notebook)
    after = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + '\n'
    if after != before: path.write_text(after, encoding='utf8')
    return after != before

if __name__ == '__main__':
    for path in chapters(ROOT):
        if fold(path): print(f'folded {path.name}')
