// For tests/node.py: the page with the book's own engine and model, asked and used by lines of
// JSON. After each deed everything comes to rest.
import readline from 'node:readline'
import vm from 'node:vm'
import {Page, isHidden} from './page.mjs'

let page
const all = selector => page.body.querySelectorAll(selector).filter(node => !isHidden(node))
const one = selector => all(selector)[0] ?? (() => { throw Error(`no ${selector}`) })()
const named = words => all('button').find(node => node.innerText.includes(words))

const does = {
  async open([hash]) {
    page = await Page.open(1, {hash})
    Object.assign(page.world, ...['store', 'parts', 'answers', 'scene', 'words'].map(
      name => page.inside(name)))
  },
  async go([hash]) { // as when the page has just been opened, and then follows a link
    const {shown} = page.inside('answers')
    for (const name in shown) delete shown[name]
    page.inside('store').past.length = 0
    page.$('text').value = ''
    Object.assign(page.now, {scene: null, trouble: '', wrong: '', ownPin: null, shuffle: null})
    Object.assign(page.state, {row: 0, col: 0, lines: 'layer'})
    page.world.location.hash = hash
    page.fire(page.body, 'popstate', {state: null})
    await page.settle()
  },
  async evaluate([script, arg]) {
    let value = vm.runInContext(`(${script})`, page.world)
    if (typeof value === 'function') value = value(arg)
    let isHere = false
    const found = Promise.resolve(value).finally(() => isHere = true)
    await page.clock.until(() => isHere, 10_000)
    return found
  },
  settle: () => page.settle(),
  wait: ([ms]) => page.wait(ms),
  type: ([text]) => (page.type(text), page.settle()),
  click: ([selector]) => (page.click(one(selector)), page.settle()),
  press: ([key, selector = 'main']) => (page.press(key, {target: one(selector)}), page.settle()),
  push: ([words]) => (page.click(named(words)), page.settle()), // the button that says so
  pick: ([id, value]) => (page.pick(id, value), page.settle()),
  texts: ([selector]) => all(selector).map(node => node.innerText.trim()),
  attributes: ([selector, name]) => all(selector).map(node => node.getAttribute(name) ?? null),
  styles: ([selector, name]) => all(selector).map(node => Number(node.style.values[name])),
  hash: () => page.world.location.hash,
}

readline.createInterface({input: process.stdin}).on('line', async line => {
  const [name, ...args] = JSON.parse(line)
  const answer = await Promise.resolve().then(() => does[name](args)).then(
    value => ({value}), error => ({error: String(error?.stack ?? error)}))
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}).on('close', () => process.exit())
