"JavaScript without a browser, in the Node that Playwright brings along."
import json, subprocess
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

    def evaluate(self, script, arg=None):
        self.process.stdin.write(json.dumps(dict(script=script, arg=arg)) + '\n')
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if 'error' in answer: raise RuntimeError(answer['error'])
        return answer.get('value')

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
