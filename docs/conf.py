"Sphinx reads docs/_build/pages, which pages.py makes; `make docs` runs both."
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent/'tools')]
import doors, repository
settings = repository.settings(HERE.parent)

project, author, release = settings['title'], settings['author'], settings['version']
project_copyright = settings['copyright']
html_title, language = project, 'en'
extensions = ['myst_nb', 'sphinx_copybutton', 'sphinx-mathjax-offline']
myst_enable_extensions = ['amsmath', 'attrs_block', 'deflist', 'dollarmath']
myst_heading_anchors = 3
nb_execution_mode, nb_merge_streams = 'off', True
highlight_language = 'python'

html_theme = 'sphinx_book_theme'
html_static_path, html_css_files = [str(HERE/'static')], ['book.css']
html_extra_path = [str(HERE/'_build/extra')]   # translate_here.html
html_favicon = str(HERE/'static/favicon.svg')
html_context = {'default_mode': 'auto'}
templates_path = [str(HERE/'templates')]
html_sidebars = {'**': ['home.html', 'search-button-field.html', 'sbt-sidebar-nav.html']}
html_show_sourcelink, html_copy_source = False, False
html_theme_options = {
    'navbar_persistent': [],          # one search box, not two
    'use_download_button': False, 'use_fullscreen_button': False,
    'extra_footer': f'<p>{doors.last_run(HERE.parent)}</p>',
    'show_toc_level': 2, 'home_page_in_toc': False,
    'pygments_light_style': 'a11y-high-contrast-light',
    'pygments_dark_style': 'a11y-high-contrast-dark',
}
# what is typed, not what is printed
copybutton_selector = 'div:not(.output) > div.highlight > pre'
