"Sphinx reads docs/_build/pages, which pages.py makes; `make docs` runs both."
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent/'tools')]
import doors, repository
settings = repository.settings(HERE.parent)

project, author, release = settings['title'], settings['author'], settings['version']
project_copyright = settings['copyright']
html_title, language = f"{project}: {settings['description']}", 'en'
extensions = ['myst_nb', 'sphinx_copybutton', 'formulas', 'look']
myst_enable_extensions = ['amsmath', 'attrs_block', 'deflist', 'dollarmath']
myst_heading_anchors = 3
nb_execution_mode, nb_merge_streams = 'off', True
highlight_language = 'python'
html_math_renderer = 'mathml'

html_theme = 'basic' # templates/layout.html is what one sees
html_static_path, html_css_files = [str(HERE/'static')], ['book.css']
html_js_files = ['book.js', 'questions.js', 'figures.js']
html_extra_path = [str(HERE/'_build/extra')]   # translate_here.html
html_favicon = str(HERE/'static/favicon.svg')
home = repository.repository(HERE.parent)
html_context = {'promise': settings['description'], 'source': home and home.url,
                'last_run': doors.last_run(HERE.parent)}
templates_path = [str(HERE/'templates')]
html_show_sourcelink, html_copy_source = False, False
copybutton_selector = 'div:not(.output) > div.highlight > pre' # not what is printed
copybutton_image_svg = '<span>Copy</span>' # a word, which is its name, too
