"JavaScript without a browser, in the Node that Playwright brings along."
import base64, json, os, subprocess
from pathlib import Path
from playwright._impl._driver import compute_driver_executable

NODE, _ = compute_driver_executable()
LISTEN = r'''
const vm = require('vm'), readline = require('readline')
globalThis.document = {} // what only a worker does is left out
globalThis.matchMedia = () => ({})
const say = x => process.stdout.write(JSON.stringify(x) + '\n')
readline.createInterface({input: process.stdin}).on('line', async line => {
  const {script, arg} = JSON.parse(line)
  try {
    let value = vm.runInThisContext(script)
    if (typeof value === 'function') value = value(arg)
    say({value: await value})
  } catch (error) { say({error: String(error?.stack ?? error)}) }
}).on('close', () => process.exit())
'''

class Node:
    "As a page of Playwright, as far as `evaluate` goes"
    def __init__(self, script=''):
        command = [NODE, '--input-type=commonjs', '-e', LISTEN]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, encoding='utf8', **pipes)
        self.evaluate(f'{script}\nundefined')

    def evaluate(self, script, arg=None): return self.ask(dict(script=script, arg=arg))

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + '\n')
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if 'error' in answer: raise RuntimeError(answer['error'])
        return answer.get('value')

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)

def packed(path, folders):
    "What tests/js/page.mjs needs of a page with these models"
    from transformer_nb.formats.page import (
        _header_and_weights, _join, _make_distinct, _read)
    headers = []
    for folder in folders:
        header, weights = _header_and_weights(folder)
        headers.append(header | dict(weights=base64.b64encode(weights).decode()))
    _make_distinct(headers)
    page = dict(script=_join('page'), engine=_join('worker'), markup=_read('page.html'),
                headers=headers, is_old=False)
    path.write_text(json.dumps(page), 'utf8')
    return path

class Window(Node):
    "A page with the book's own engine, in a document without layout (tests/js/drive.mjs)"
    def __init__(self, path):
        command = [NODE, Path(__file__).parent/'js/drive.mjs']
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, encoding='utf8', **pipes,
                                        env=os.environ | dict(TNB_PAGE=str(path)))
        self.ask(['open', ''])

    def evaluate(self, script, arg=None): return self.ask(['evaluate', script, arg])
    def __getattr__(self, name): return lambda *args: self.ask([name, *args])
    def text(self, selector): return '\n'.join(self.texts(selector))
    def count(self, selector): return len(self.texts(selector))

    def attribute(self, selector, name):
        first, *_ = self.attributes(selector, name)
        return first
