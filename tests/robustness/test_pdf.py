"The book as one PDF: a small site is printed."
import io, re
import pytest
import pdf

pypdf = pytest.importorskip('pypdf')

NAV = '''<nav class="bd-links">
<p class="caption"><span class="caption-text">Part I</span></p>
<a class="reference internal" href="01.html">01 One</a>
<a class="reference internal" href="02.html">02 Two</a>
<a class="reference internal" href="translate_here.html">Translate</a></nav>'''
LONG = 'x' * 200
PAGES = {
    'index.html': f'{NAV}<article><h1>Book</h1><a href="02.html#far">far</a></article>',
    '01.html': f'''<article><section id="one"><h1>One</h1><section id="own"><h2>Own</h2>
        <a href="#own">here</a> <a href="02.html">two</a> <a href="alive.html">alive</a>
        <a href="https://example.org/">out</a><pre>{LONG} the end of the line</pre>
        <details><summary>fold</summary><p>what the fold holds</p></details></section>
        </section></article>''',
    '02.html': '''<article><h1>Two</h1><div style="height: 1500px">tall</div>
        <section id="far"><h2>Far below</h2></section></article>'''}

@pytest.fixture(scope='module')
def book(chromium, tmp_path_factory):
    "A site of three pages, printed, and what was wrong"
    folder = tmp_path_factory.mktemp('site').resolve()
    for name, text in PAGES.items(): (folder/name).write_text(text, encoding='utf8')
    tab = chromium.new_page()
    data, problems = pdf.printed(tab, pdf.one_page(folder), folder)
    tab.close()
    return pypdf.PdfReader(io.BytesIO(data)), problems

def links(reader, number):
    return [a.get_object() for a in reader.pages[number].get('/Annots') or []]

def target(reader, link): # page in the book, from 0
    place = reader.named_destinations[link['/Dest']]
    return reader.get_destination_page_number(place)

def test_order_numbers_folds_and_outline(book):
    reader, problems = book
    found = [page.extract_text() for page in reader.pages]
    assert problems == [] and len(found) == 6 # cover, contents, pages, one of two sheets
    assert re.search(r'Contents.*01 One\s*4\s*02 Two\s*5', found[1], re.S)
    assert 'what the fold holds' in found[3]
    assert [text.split()[0] for text in found[1:]] == ['2', '3', '4', '5', '6']
    titles = [x.title for x in reader.outline if not isinstance(x, list)]
    assert titles == ['Contents', 'Book', 'One', 'Two']

def test_links_lead_to_places_in_the_book(book):
    reader, _ = book
    [far] = links(reader, 2)
    assert target(reader, far) == 5 # not the first sheet of its page
    here, two, out = links(reader, 3) # and not the page for the screen
    assert target(reader, here) == 3 and target(reader, two) == 4
    assert out['/A']['/URI'] == 'https://example.org/'
    assert [target(reader, link) for link in links(reader, 1)] == [2, 3, 4]

CUT = {'<pre>short</pre>': None, f'<pre>{LONG}</pre>': None, # is made smaller
       '<img src="x" style="width: 900px">': 'too wide',
       '<a href="#gone">x</a>': 'gone leads nowhere',
       '<span class="math">x</span>': '0 of 1 formulas'}

def test_what_a_sheet_would_cut_off_is_seen(chromium, tmp_path):
    tab = chromium.new_page()
    for body, problem in CUT.items():
        _, found = pdf.printed(tab, f'<article>{body}</article>', tmp_path)
        assert problem in found[0] if problem else found == [], body
    tab.close()
