// Races: what is done quickly, or while something else is on its way. Each story is told three
// times, with other delays; at the end of each the page rests, shows the sentence that stands in
// its field, and has fixed no token of another one. `settle` looks.
import test from 'node:test'
import assert from 'node:assert/strict'
import {Page} from './page.mjs'

const SEEDS = [1, 22, 333]
const ONE = 'Two men walk.', TWO = 'A dog sleeps there.', LONG = 'She sees a red car in the old town.'
const FIVE = 'One man eats. Two men walk. A dog sleeps there. She sees it. We go home now.'

function race(name, story, options) {
  test(name, async () => {
    for (const seed of SEEDS) {
      const page = await Page.open(seed, options)
      await story(page, seed)
      await page.settle()
    }
  })
}

const shows = (page, german) => assert.equal(page.german, `Translation: Deutsch: ${german}`)
const fixed = page => assert.deepEqual([...page.state.force], [])
async function ready(page, text) {
  page.type(text)
  await page.settle()
}

// ---- Busy for ever ---------------------------------------------------------------------

for (const ms of [61, 64, 70, 80, 95]) {
  race(`of two sentences the first is clicked ${ms} ms after they were typed`, async page => {
    page.type(`${ONE} ${TWO}`)
    await page.wait(ms)
    page.click(page.sentence(0))
    await page.settle()
    shows(page, ONE)
  })
}

race('five sentences are clicked one after the other', async page => {
  page.type(FIVE)
  await page.wait(70)
  for (const i of [0, 3, 1, 4, 2, 0, 2]) {
    page.click(page.sentence(i))
    await page.wait(3)
  }
  await page.settle()
  shows(page, TWO)
})

race('exactly as typed, twice', async page => {
  await ready(page, 'hi you there')
  for (const _ of [0, 1]) {
    page.click('exact')
    await page.wait(2)
  }
  await page.settle()
  assert.equal(page.state.exact, false)
})

race('exactly as typed, while it is being translated', async page => {
  page.type('hi you there')
  await page.wait(405)
  page.click('exact')
  await page.settle()
  shows(page, 'hi you there')
})

for (const ms of [0, 1, 5]) {
  race(`a beam of 4, 2, 4 within ${2 * ms} ms`, async page => {
    page.view('step')
    await page.settle()
    for (const n of [2, 4]) {
      page.pick('beam', n)
      await page.wait(ms)
    }
    await page.settle()
    assert.equal(page.state.beam, 4)
  })
  race(`Break, Step, Break within ${2 * ms} ms, while heads are costed`, async page => {
    page.view('break')
    await page.wait(6)
    for (const view of ['step', 'break']) {
      page.view(view)
      await page.wait(ms)
    }
  })
}

race('all views, one for each millisecond', async page => {
  await ready(page, LONG)
  for (let i = 0; i < 40; i++) {
    page.view(['type', 'machine', 'looked', 'break', 'step', 'inside'][i * 5 % 6])
    await page.wait(1)
  }
})

race('α moves while one types', async page => {
  for (const [i, alpha] of [0, 0.6, 1, 0, 1, 0.6].entries()) {
    page.type(LONG.slice(0, 10 + 4 * i))
    page.pick('alpha', alpha)
    await page.wait(9)
  }
  assert.equal(page.state.alpha, 0.6)
})

race('ninety sentences come to rest', async page => {
  page.type(Array.from({length: 90}, (_, i) => `No ${i} is.`).join(' '))
  await page.settle()
})

race('a part goes off and on again before its translation is here', async page => {
  page.view('break')
  for (const ms of [1, 4, 2, 9]) {
    page.click(page.button('surgery', 'cross-attention'))
    await page.wait(ms)
  }
  await page.settle()
  shows(page, page.text)
})

race('experiments are tried while one types', async page => {
  for (let i = 0; i < 6; i++) {
    page.type(`A dog ${'sleeps '.repeat(i)}there.`)
    await page.wait(i % 2 ? 3 : 70)
    page.click(page.$('experiments').children[i % 3])
  }
})

// ---- Whose translation is taken away ------------------------------------------------------

race('the visitor’s words stay where they are in the other language', async page => {
  await ready(page, 'Ich habe Hunger.')
  page.click('turn')
  await page.settle()
  assert.deepEqual([page.state.model, page.text], ['de-en', 'Ich habe Hunger.'])
})

race('in the other language, and turned round at once', async page => {
  page.type('Ich habe Hunger.')
  page.click('turn')
  await page.settle()
  assert.deepEqual([page.state.model, page.text], ['de-en', 'Ich habe Hunger.'])
})

race('in the other language, by the list of models', async page => {
  page.type('Ich habe Hunger.')
  page.pick('model', 'de-en')
  await page.settle()
  assert.deepEqual([page.state.model, page.text], ['de-en', 'Ich habe Hunger.'])
})

race('typed and turned round at once', async page => {
  page.type(ONE)
  page.click('turn')
  await page.settle()
  assert.deepEqual([page.state.model, page.text], ['de-en', `Deutsch: ${ONE}`])
})

race('turned round while the first of two sentences is on its way', async page => {
  page.type(`${ONE} ${TWO}`)
  await page.wait(64)
  page.click('turn')
  await page.settle()
  assert.equal(page.text, `Deutsch: ${ONE} Deutsch: ${TWO}`)
})

race('turned round, and typed on before it happens', async page => {
  page.type(ONE)
  page.click('turn')
  page.type(LONG)
  await page.settle()
  assert.deepEqual([page.state.model, page.text], ['en-de', LONG])
})

race('turned round there and back', async page => {
  page.type(ONE)
  page.click('turn')
  await page.settle()
  page.click('turn')
  await page.settle()
  assert.equal(page.state.model, 'en-de')
})

race('typed and copied at once', async page => {
  page.type(ONE)
  page.click('copy-text')
  await page.settle()
  assert.deepEqual(page.copied, [`Deutsch: ${ONE}`])
})

race('copied, and typed on before it is here', async page => {
  page.type(ONE)
  page.click('copy-text')
  page.type(LONG)
  await page.settle()
  assert.deepEqual(page.copied, [`Deutsch: ${ONE}`])
  shows(page, LONG)
})

race('two paragraphs are copied before they are translated', async page => {
  page.type(`${ONE}\n\n${TWO}`)
  await page.wait(63)
  page.click('copy-text')
  await page.settle()
  assert.deepEqual(page.copied, [`Deutsch: ${ONE}\n\nDeutsch: ${TWO}`])
})

race('typed, and the link copied at once', async page => {
  page.type(ONE)
  page.click('copy-link')
  await page.settle()
  assert.match(page.copied[0], /Two\+men\+walk/)
})

race('copied while it fails: that is not said to be a copy', async page => {
  page.engine.failing = method => method === 'translate'
  page.type(ONE)
  page.click('copy-text')
  await page.wait(600)
  assert.match(page.$('copy-text').textContent, /Could not/)
  assert.deepEqual(page.copied, [])
})

// ---- What an action acts on ---------------------------------------------------------------

race('typed and shuffled at once', async page => {
  page.type(LONG)
  page.click(page.button('experiments', 'Shuffle'))
  await page.settle()
  const words = text => text.toLowerCase().match(/\w+/g).sort()
  assert.deepEqual(words(page.text), words(LONG))
})

race('shuffled, undone, shuffled, undone', async page => {
  await ready(page, LONG)
  for (let i = 0; i < 4; i++) {
    page.click(i % 2 ? page.$('undo') : page.button('experiments', 'Shuffle'))
    await page.wait(3)
  }
  assert.equal(page.text, LONG)
})

for (const ms of [0, 30, 61, 66]) {
  race(`a choice on a card of the sentence before, ${ms} ms after the new one`, async page => {
    await ready(page, ONE)
    page.type(LONG)
    await page.wait(ms)
    page.click(page.choice(2))
    await page.settle()
    fixed(page)
    shows(page, LONG)
  })
}

race('a choice on a card, when the new sentence is known already', async page => {
  for (const text of [LONG, ONE]) await ready(page, text)
  page.type(LONG)
  page.click(page.choice(2))
  await page.settle()
  fixed(page)
  shows(page, LONG)
})

race('a choice on a card, and then another sentence', async page => {
  await ready(page, ONE)
  page.click(page.choice(1))
  page.type(LONG)
  await page.settle()
  fixed(page)
})

race('a choice on a card is undone in another sentence', async page => {
  await ready(page, ONE)
  page.click(page.choice(0))
  await page.settle()
  page.click(page.choice(1))
  await page.settle()
  page.type(LONG)
  page.click('undo')
  await page.settle()
  fixed(page)
})

race('a choice on a card, undone at once', async page => {
  await ready(page, ONE)
  page.click(page.choice(1))
  await page.wait(2)
  page.click('undo')
  await page.settle()
  fixed(page)
  shows(page, ONE)
})

race('a choice, then the other sentence, then undone', async page => {
  await ready(page, `${ONE} ${TWO}`)
  page.click(page.choice(1))
  await page.wait(2)
  page.click(page.sentence(0))
  page.click('undo')
  await page.settle()
  fixed(page)
})

race('a choice is kept when its sentence is not left', async page => {
  await ready(page, ONE)
  page.click(page.choice(1))
  await page.settle()
  shows(page, `${ONE} forced 2`)
})

race('a token of the sentence before is no pin of the new one', async page => {
  await ready(page, ONE)
  page.type(LONG)
  page.click(page.$('tgt').children[1])
  await page.settle()
  assert.equal(page.state.pin, null)
})

race('a chosen example wins over what was typed before', async page => {
  page.type(LONG)
  page.click(page.$('examples-list').children[1].children[0])
  await page.settle()
  shows(page, 'A cat sees a dog.')
})

race('the clicker goes through examples faster than they are translated', async page => {
  page.click('present')
  for (const key of ['PageDown', 'PageDown', 'PageUp', 'PageDown']) {
    page.press(key)
    await page.wait(2)
  }
  await page.settle()
  shows(page, 'Go!')
})

race('another sentence is typed while the first one is pinned by Escape', async page => {
  page.type(LONG)
  page.press('Escape', {target: page.$('text')})
  assert.equal(page.state.text, LONG)
})

race('typed, and the tour begins at once: afterwards it is there again', async page => {
  page.type(LONG)
  page.click('start-tour')
  await page.settle()
  page.click('tour-end')
  await page.settle()
  shows(page, LONG)
})

race('what is typed on the tour stays when it ends', async page => {
  page.click('start-tour')
  await page.settle()
  page.type(LONG)
  page.click('tour-end')
  await page.settle()
  shows(page, LONG)
})

race('through the tour faster than it translates', async page => {
  page.click('start-tour')
  for (let i = 0; i < 3; i++) {
    await page.wait(1)
    page.click(i === 1 ? 'tour-back' : 'tour-next')
  }
})

race('back and forth in the history while it translates', async page => {
  page.type(LONG)
  for (const hash of ['#looked?t=A+dog.', '#type?t=Go+on!', '#step?t=She+sees+it.']) {
    await page.wait(3)
    page.world.location.hash = hash
    page.fire(page.body, 'popstate', {state: null})
  }
  await page.settle()
  shows(page, 'She sees it.')
})

race('the field is emptied while its sentence is translated', async page => {
  page.type(LONG)
  await page.wait(403)
  page.type('')
  await page.settle()
  assert.equal(page.now.scene, null)
})

race('a sentence is clicked that is being deleted', async page => {
  await ready(page, FIVE)
  page.type(ONE)
  page.click(page.sentence(4))
  await page.settle()
  shows(page, ONE)
})

// ---- Typing ----------------------------------------------------------------------------

race('six to eight milliseconds a key', async page => {
  for (let i = 1; i <= LONG.length; i++) {
    page.type(LONG.slice(0, i))
    await page.wait(6 + i % 3)
  }
  await page.settle()
  shows(page, LONG)
})

race('a word for each translation', async page => {
  for (const [i] of LONG.split(' ').entries()) {
    page.type(LONG.split(' ').slice(0, i + 1).join(' ') + ' ')
    await page.wait(63)
  }
})

race('twenty texts in a fifth of a second', async page => {
  for (let i = 0; i < 20; i++) {
    page.update({text: `Text ${i} is here.`, nth: 0})
    await page.wait(10)
  }
})

race('A, B, A', async page => {
  for (const text of [ONE, TWO, ONE]) {
    page.type(text)
    await page.wait(62)
  }
  await page.settle()
  shows(page, ONE)
})

race('a character of several keys is waited for', async page => {
  page.$('text').value = LONG
  page.fire(page.$('text'), 'input', {isComposing: true})
  await page.wait(900)
  assert.notEqual(page.state.text, LONG)
  page.fire(page.$('text'), 'compositionend')
})

// ---- Beside others ---------------------------------------------------------------------

race('thirty questions of a script at once', async page => {
  page.type(LONG)
  const texts = Array.from({length: 30}, (_, i) => `Text ${i}.`)
  const all = Promise.all(texts.map(text => page.world.tnb.translate(text)))
  await page.settle()
  assert.deepEqual((await all).map(({text}) => text), texts.map(text => `Deutsch: ${text}`))
  shows(page, LONG)
})

race('a script asks for what the page is asking for', async page => {
  page.type(LONG)
  await page.wait(404)
  const found = page.world.tnb.translate(LONG)
  await page.settle()
  assert.equal((await found).text, `Deutsch: ${LONG}`)
})

race('what the engine has in one go stops nothing', async page => {
  page.view('inside')
  await page.settle()
  const {length} = page.engine.asked
  page.type(LONG)
  await page.wait(404)
  page.pick('pair-head', 'cross.1.2')
  await page.settle()
  const again = page.engine.asked.slice(length).filter(({method}) => method === 'translate')
  assert.equal(again.filter(({text}) => text === LONG).length, 1)
})

// ---- Failures --------------------------------------------------------------------------

race('what failed leaves no other sentence’s translation, and can be tried again', async page => {
  await ready(page, ONE)
  page.engine.failing = (method, {text}) => text === LONG
  page.type(LONG)
  await page.settle()
  assert.equal(page.$('tgt').children.length, 0)
  assert.match(page.$('status').textContent, /No translation: it broke/)
  assert.equal(page.$('again').hidden, false)
  page.engine.failing = undefined
  page.click('again')
  await page.settle()
  shows(page, LONG)
  assert.equal(page.$('again').hidden, true)
})

race('after a failure the next sentence is translated', async page => {
  page.engine.failing = (method, {text}) => text === LONG
  page.type(LONG)
  await page.settle()
  page.type(ONE)
  await page.settle()
  shows(page, ONE)
})

race('a failure is forgotten when its sentence comes again', async page => {
  page.engine.failing = (method, {text}) => text === LONG
  page.type(LONG)
  await page.settle()
  page.engine.failing = undefined
  page.type(ONE)
  await page.settle()
  page.type(LONG)
  await page.settle()
  shows(page, LONG)
})

race('a failure of the way back leaves the translation alone', async page => {
  page.engine.failing = (method, {model}) => method === 'translate' && model === 'de-en'
  page.type(LONG)
  await page.settle()
  shows(page, LONG)
})

// ---- Whatever comes to mind -------------------------------------------------------------

const TEXTS = [ONE, TWO, LONG, FIVE, `${ONE} ${TWO}`, 'hi you', '', 'Ich habe Hunger.', '😀']
const DEEDS = [
  (page, n) => page.type(TEXTS[n % TEXTS.length]),
  (page, n) => page.click(page.sentence(n % 5)),
  (page, n) => page.click(page.choice(n % 4)),
  (page, n) => page.view(['type', 'machine', 'looked', 'break', 'step', 'inside'][n % 6]),
  page => page.click('undo'), page => page.click('reset'), page => page.click('turn'),
  page => page.click('copy-text'),
  (page, n) => page.click(page.$('experiments').children[n % 4]),
  (page, n) => page.click(page.button('surgery', ['encoder', 'cross'][n % 2])),
  (page, n) => page.pick('beam', [1, 2, 4, 8][n % 4]),
  page => page.click('exact'),
  (page, n) => page.click(page.$('tgt').children[n % 3]),
  (page, n) => page.press(['Escape', 'ArrowLeft'][n % 2])]

for (let walk = 1; walk <= 10; walk++) {
  test(`whatever comes to mind, ${walk}`, async () => {
    for (const seed of SEEDS) {
      const page = await Page.open(1000 * walk + seed)
      for (let i = 0; i < 40; i++) {
        const n = Math.floor(1000 * page.random())
        DEEDS[Math.floor(DEEDS.length * page.random())](page, n)
        await page.wait([0, 1, 5, 20, 70, 420][n % 6])
      }
      await page.settle()
    }
  })
}
