"""Reads the page's JavaScript, far enough to hold it to the rules of Python's lines.

It knows comments, strings, templates and regular expressions, and takes the rest for code
as this book writes it: spaces around operators, a function ends where its indentation does.
"""
import re

IMPORT = re.compile(r"^import \{([^}]*)\} from '\./(\w+)\.js'$", re.M)
EXPORT = re.compile(r'^export \{([^}]*)\}$', re.M)
TEMPLATE = r'\$\{((?:[^{}`]|`[^`]*`|\{[^{}]*\})*)\}' # what stands in ${…}
NO_CODE = re.compile(rf'''
    //[^\n]* | /\*.*?\*/                                       # comments
    | '(?:\\.|[^'\\\n])*' | "(?:\\.|[^"\\\n])*"                # strings
    | `(?:\\.|{TEMPLATE}|[^`\\])*`                             # templates
    | (?<=[(,=:\[!&|?{{}};>\s])/(?![*/\s])(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+/[a-z]*
    ''', re.S | re.X)
OPERATIONS = [re.compile(pattern) for pattern in (
    r'[\w$\])]\(',                      # a call
    r'(?<![.\d])\??\.[A-Za-z_$\[(]',    # an attribute
    r'[\w$\])]\[',                      # a subscript
    r' (?:[-+*/%&|<>?]|&&|\|\||\?\?|[<>]=|[=!]==?|in|instanceof) ',
    r'\*\*', r'=>', r'(?<!\w)![\w$(]', r'\btypeof ')]
KEYWORDS = r'(?!\s*(?:if|for|while|switch|catch)\b)'
METHOD = re.compile(rf'{KEYWORDS}\s*(?:async |static )*(?:function)?\*? ?[\w$]+\(.*\) \{{')
FUNCTION = re.compile(rf'{METHOD.pattern}$|.*=> \{{$')

def names(listed): return [name.strip() for name in listed.split(',')]

def imports(source): # (names, module) of each line of import
    return [(names(listed), module) for listed, module in IMPORT.findall(source)]

def exports(source):
    return [name for listed in EXPORT.findall(source) for name in names(listed)]

def code_of(source):
    "Without comments and texts, on the same lines; what a template computes stays"
    def kept(match):
        text = match[0]
        inside = re.findall(TEMPLATE, text) if text.startswith('`') else []
        return ' '.join(map(code_of, inside)) + '\n' * text.count('\n')
    return NO_CODE.sub(kept, source)

def operations(line): # of code
    n = sum(len(pattern.findall(line)) for pattern in OPERATIONS)
    return n - bool(METHOD.match(line)) # which is no call

def functions(source): # -> first line and number of lines of each
    lines = code_of(source).splitlines()
    indents = [len(line) - len(line.lstrip()) if line.strip() else 999 for line in lines]
    for i, line in enumerate(lines):
        if not FUNCTION.match(line.rstrip()): continue
        below = range(i + 1, len(lines))
        end = next((j for j in below if indents[j] <= indents[i]), len(lines) - 1)
        yield i + 1, end - i + 1
