// The picture of the machine, and what a box of it shows when it is opened. Its numbers are
// compared with PyTorch's in test_playground.py; here, what is easily lost.
import test from 'node:test'
import assert from 'node:assert/strict'
import {Page} from './page.mjs'

const WORDS = 'She sees a red car in the old town.'

async function machine(at, text = WORDS) {
  const page = await Page.open(1, {hash: `#machine?pin=${at}&t=${encodeURIComponent(text)}`})
  await page.settle()
  return page
}

const parts = (page, kind) => page.$('machine-picture').querySelectorAll(`.${kind}`)
const number = (node, name) => Number(node.getAttribute(name))

test('vectors of tokens that are not written yet are not there', async () => {
  for (const at of [0, 2, 5]) {
    const page = await machine(at), {tiles} = page.$('machine-picture').plan
    parts(page, 'tiles').forEach((node, i) => {
      const {data, width, height} = node.getAttribute('href').image, lane = 8 // pixels
      const isPainted = k => data[4 * width * (lane * k + 1) + 3] > 0
      const lanes = Array.from({length: height / lane}, (_, k) => k).filter(isPainted)
      const {stack} = tiles[i], n = stack === 'decoder' ? at + 1 : height / lane
      assert.deepEqual(lanes, Array.from({length: n}, (_, k) => k))
    })
    assert.equal(parts(page, 'network').length, 2 * 10 + 2 * (at + 1))
  }
})

test('cross-attention reaches over both sentences', async () => {
  const page = await machine(2), {plan} = page.$('machine-picture')
  for (const box of parts(page, 'box')) {
    const key = box.getAttribute('data-key'), isCross = key.startsWith('cross')
    const top = number(box, 'y'), bottom = top + number(box, 'height')
    const isOfSentence = isCross || key.includes('encoder') || key === 'memory'
    assert.equal(top <= plan.edges.encoder[0], isOfSentence, key)
    assert.equal(bottom >= plan.edges.decoder[1], isCross || !isOfSentence, key)
  }
})

test('what is written has a bar, though others are likelier', async () => {
  const page = await machine(2), {choices} = page.inside('machine_words')
  const others = Array.from({length: 5}, (_, i) => ({id: 50 + i, text: ' a', prob: 0.15}))
  const seen = {alternatives: [others], token_log_probs: [Math.log(0.05)]}
  const shown = choices({seen, ids: [7], tgt: [{text: ' b'}]}, 0)
  assert.deepEqual(Array.from(shown, ({id, isWritten}) => [id, isWritten]),
    [[50, false], [51, false], [52, false], [53, false], [7, true]])
  assert.ok(Math.abs(shown[4].prob - 0.05) < 1e-9)
  assert.equal(parts(page, 'bar').filter(bar => bar.classList.has('written')).length, 1)
})

test('a box keeps the head that was chosen in it', async () => {
  const page = await machine(2)
  const open = key => page.click(page.$('machine-boxes').children.find(
    node => node.dataset.box === key))
  page.update({head: 'cross.2.2'})
  open('cross.2')
  assert.equal(page.state.head, 'cross.2.2')
  page.inside('machine_open').closeBox()
  open('cross.2')
  assert.equal(page.state.head, 'cross.2.2')
  open('decoder.1') // in another one, its first
  assert.equal(page.state.head, 'decoder.1.1')
})

test('at its end, Play begins once more, and ends there again', async () => {
  const page = await machine(0), end = page.now.scene.tgt.length - 1
  page.pinIt(`t${end}`)
  page.click('machine-play')
  assert.equal(page.state.pin, 't0')
  await page.wait(2500)
  assert.equal(page.state.pin, 't2')
  await page.wait(20_000)
  assert.deepEqual([page.state.pin, page.$('machine-play').textContent], [`t${end}`, 'Play'])
})

test('what plays stays with its sentence', async () => {
  const page = await machine(0)
  page.click('machine-play')
  await page.wait(3000)
  page.type('Two men walk.')
  await page.settle()
  await page.wait(9000)
  assert.ok(Number(page.state.pin.slice(1)) < page.now.scene.tgt.length)
})

test('in the step view, Play at the end begins once more', async () => {
  const page = await Page.open(1, {hash: '#step?t=A+dog.'})
  page.$('step').max = 3
  page.state.step = 3
  page.click('play')
  assert.equal(page.state.step, 1)
})

test('what cannot be read back no longer shows what was', async () => {
  const page = await Page.open(1), [says, quote] = page.$('way-back').children
  page.type('Two men walk.')
  await page.settle()
  assert.equal(quote.hidden, false)
  assert.match(quote.textContent, /Two men walk/)
  page.engine.failing = (method, {model}) => method === 'translate' && model === 'de-en'
  page.type(WORDS)
  await page.settle()
  assert.equal(quote.hidden, true)
  assert.match(says.textContent, /cannot be read back: it broke/)
})
