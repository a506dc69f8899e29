"""Formulas of the site as MathML, which browsers set by themselves, with a font of 80 kB. A
page needs no script for them, and screen readers know them.

latex2mathml translates the TeX. What a browser would space otherwise than TeX does is
mended here: operators such as sin, bars, slashes, and a minus before its number.
"""
import re
from html import escape
from latex2mathml.converter import convert

OPEN = r'\(\[=,&;|<>≤≥·×+−±→←∣'
THIN = '0.167em'

def mathml(tex, display): # -> a `math` element
    tex = re.sub(r'\\[bB]igg?([(\[])', r'\\left\1', tex) # they grow with what they hold
    tex = re.sub(r'\\[bB]igg?([)\]])', r'\\right\1', tex)
    tex = tex.replace(r'\!', '')
    text = convert(tex, display='block' if display else 'inline')
    text = re.sub(r'&#x0*([0-9A-F]{2,5});', readable, text)
    return spaced(text)

def readable(m):
    "A character for its number, but for those that HTML would misread"
    return escape(chr(int(m[1], 16)), quote=False)

def spaced(text):
    "MathML with the spaces of TeX"
    text = re.sub(r'(<mtext[^>]*>)(.*?)(?=</mtext>)', lambda m: m[1] + literal(m[2]), text)
    text = text.replace('<mi>±</mi>', '<mo>±</mo>')
    text = re.sub('<mo(?: stretchy="false")?>([|‖/])</mo>',
                  r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', text)
    text = text.replace('<mrow><mo>&lt;</mo>', '<mrow><mo lspace="0" rspace="0">&lt;</mo>')
    before = rf'((?:<mrow>|<mo[^>]*>(?:[{OPEN}]|&lt;|&gt;|&amp;)</mo>))'
    text = re.sub(rf'{before}<mo>([−+±])</mo>', r'\1<mo form="prefix">\2</mo>', text)
    return named(text)

def literal(text): return escape(text.replace('&lt;', '<').replace('&gt;', '>'))

NAMES = 'sinh|cosh|tanh|sin|cos|ln|log|exp|min|max'

def named(text):
    "Functions by name, set apart from letters but not from their parentheses"
    def operator(m):
        follows = text[m.end():]
        opens = re.match(r'(?:<mrow>)?<mo[^>]*>[(\[]|<mn>\d+</mn></msub>', follows)
        right = '0' if opens else THIN
        left = '0' if text[:m.start()].endswith(('<mrow>', '</mo>')) else THIN
        return f'<mo lspace="{left}" rspace="{right}">{m[1]}</mo>'
    return re.sub(rf'<m[io]>({NAMES})</m[io]>', operator, text)

# For Sphinx

def set_inline(writer, node):
    writer.body.append(f'<span class="math">{mathml(node.astext(), False)}</span>')
    skip()

def set_block(writer, node):
    "With its number, if it has one, at the right"
    tex, _, number = node.astext().partition(r'\tag{')
    label = f'<span class="eqno">({number.rstrip("} ")})</span>' if number else ''
    formula = mathml(tex.strip(), True)
    writer.body.append(f'<div class="math">{formula}{label}</div>')
    skip()

def skip():
    from docutils.nodes import SkipNode
    raise SkipNode

def setup(app):
    app.add_html_math_renderer('mathml', (set_inline, None), (set_block, None))
    return dict(parallel_read_safe=True, parallel_write_safe=True)
