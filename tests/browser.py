"Pages that are watched while a test uses them."
DESK, PHONE = dict(width=1280, height=900), dict(width=390, height=800)
PLAIN = dict(media='null', color_scheme='light', reduced_motion='no-preference',
             forced_colors='none')
PATIENCE = 50_000 # ms for whatever a test waits for: a broken page is red in a minute
SLEEP = 'ms => new Promise(done => setTimeout(done, ms))'
FORGET = '''() => { // what one test stores is not there for the next
    try { localStorage.clear(), sessionStorage.clear() } catch { /* of no origin */ }
}'''
AGAIN = '''() => { // what earlier tests drew from a page that stays open does not matter
    let n = 1
    Math.random = () => (n = n * 16807 % 2147483647) / 2147483647
}'''

def patient(open_it):
    "A method of the browser whose pages wait as long as that"
    def opened(**options):
        made = open_it(**options)
        made.set_default_timeout(PATIENCE)
        return made
    return opened

def pause(page, ms):
    """By the clock of the page, hence after whatever it had put off for a shorter time, on
    a busy machine, too (`wait_for_timeout` goes by a clock of its own)"""
    page.evaluate(SLEEP, ms)

class Pages:
    """The first page of a test is the window that all tests of a file share: to open one
    takes longer than to read most pages. One with options has a context of its own. Kept
    pages stay as a test leaves them: to start a model takes longer than most tests"""
    def __init__(self, browser, window, kept):
        self.browser, self.window, self.kept = browser, window, kept
        self.allowed = ['file:', 'data:', 'blob:'] # whom a page may ask
        self.is_free, self.contexts, self.complaints = True, [], []
        self.shared = [] # pages that other tests use, too
        self.watchers = dict(console=self.on_console, request=self.on_request,
                             pageerror=self.on_error)

    def on_error(self, error): self.complaints.append(str(error))

    def on_console(self, message):
        if message.type in ('error', 'warning'): self.complaints.append(message.text)

    def on_request(self, request):
        if not request.url.startswith(tuple(self.allowed)):
            self.complaints.append(request.url)

    def watch(self, page):
        for event, watcher in self.watchers.items(): page.on(event, watcher)

    def page(self, viewport=DESK, own=False, **options):
        "`own`: in a context of its own, even without options"
        if own or options or not self.is_free:
            self.contexts.append(self.browser.new_context(viewport=viewport, **options))
            page = self.contexts[-1].new_page()
            self.watch(page)
        else:
            self.is_free = False
            page = self.share(self.window, viewport)
        return page

    def keep(self, address, viewport=DESK, **media):
        "The page of this address, which the first test that asks for it opens"
        if address not in self.kept: self.kept[address] = self.browser.new_page()
        return self.share(self.kept[address], viewport, **media)

    def share(self, page, viewport, **media):
        if page not in self.shared: self.watch(page)
        self.shared.append(page)
        page.set_viewport_size(viewport)
        page.emulate_media(**PLAIN | media)
        page.evaluate(AGAIN)
        return page

    def close(self):
        for context in self.contexts: context.close()
        for page in set(self.shared):
            for event in self.watchers: page.remove_listener(event, self.watchers[event])
            page.evaluate(FORGET)
            page.mouse.move(0, 0)
        if not self.is_free: self.window.goto('about:blank')
