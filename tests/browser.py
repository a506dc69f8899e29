"Pages that are watched while a test uses them."
DESK, PHONE = dict(width=1280, height=900), dict(width=390, height=800)
FORGET = '''() => { // what one test stores is not there for the next
    try { localStorage.clear(), sessionStorage.clear() } catch { /* of no origin */ }
}'''

class Pages:
    """The first page of a test is the window that all tests of a file share: to open one
    takes longer than to read most pages. One with options has a context of its own"""
    def __init__(self, browser, window):
        self.browser, self.window = browser, window
        self.allowed = ['file:', 'data:', 'blob:'] # whom a page may ask
        self.is_free, self.contexts, self.complaints = True, [], []
        self.watchers = dict(console=self.on_console, request=self.on_request,
                             pageerror=self.on_error)

    def on_error(self, error): self.complaints.append(str(error))

    def on_console(self, message):
        if message.type in ('error', 'warning'): self.complaints.append(message.text)

    def on_request(self, request):
        if not request.url.startswith(tuple(self.allowed)):
            self.complaints.append(request.url)

    def page(self, viewport=DESK, own=False, **options):
        "`own`: in a context of its own, even without options"
        if own or options or not self.is_free:
            self.contexts.append(self.browser.new_context(viewport=viewport, **options))
            page = self.contexts[-1].new_page()
        else:
            self.is_free, page = False, self.window
            page.set_viewport_size(viewport)
        for event, watcher in self.watchers.items(): page.on(event, watcher)
        return page

    def close(self):
        for context in self.contexts: context.close()
        if self.is_free: return
        for event, watcher in self.watchers.items():
            self.window.remove_listener(event, watcher)
        self.window.evaluate(FORGET)
        self.window.emulate_media(media='null')
        self.window.mouse.move(0, 0)
        self.window.goto('about:blank')
