// Chapter 14: BLEU of one translation, n-gram by n-gram, by the chapter's definition
import {el, make, style, write, keep} from './dom.js'
import {range, fixed} from './words.js'
import {presets, textField, caption} from './live_parts.js'

const REFERENCE = 'a small dog runs through water'
const EXAMPLES = [['The chapter’s', 'a small dog runs through snow'],
                  ['Too short', 'a small dog runs'],
                  ['A cheat', 'a a a a a a'],
                  ['Two words changed places', 'a dog small runs through water'],
                  ['The same in other words', 'a little dog is running through the water']]

const wordsOf = text => text.trim().split(/\s+/).filter(word => word)

function ngrams(words, n) {
  return range(Math.max(0, words.length - n + 1)).map(
    i => words.slice(i, i + n).join(' '))
}

function counted(grams) {
  const counts = new Map()
  for (const gram of grams) counts.set(gram, 1 + (counts.get(gram) ?? 0))
  return counts
}

// Each n-gram of the translation: 'hit', 'clipped' (found once too often) or 'miss'
function judged(translation, reference, n) {
  const wanted = counted(ngrams(reference, n)), left = new Map(wanted)
  return ngrams(translation, n).map(gram => {
    const rest = left.get(gram) ?? 0
    left.set(gram, rest - 1)
    return {gram, is: rest > 0 ? 'hit' : wanted.has(gram) ? 'clipped' : 'miss'}
  })
}

function bleu(translation, reference) { // lists of words; in percent
  const rows = [1, 2, 3, 4].map(n => judged(translation, reference, n))
  const hits = rows.map(row => row.filter(({is}) => is === 'hit').length)
  const precisions = hits.map((hit, i) => hit / rows[i].length)
  const product = precisions.reduce((a, b) => a * b)
  const c = translation.length, r = reference.length
  const brevity = Math.min(1, Math.exp(1 - r / c))
  return {rows, hits, precisions, brevity, c, r, score: 100 * brevity * product**0.25}
}

function inWords({rows, c, r, brevity, score}) {
  if (c < 4) return `A translation of ${c} ${c === 1 ? 'word' : 'words'} has no sequence `
    + 'of four, and the chapter’s BLEU would divide by zero.'
  const short = brevity < 1 ? `e^(1 − ${r}/${c}) = ${fixed(brevity)}` : '1'
  const none = rows.findIndex(row => !row.some(({is}) => is === 'hit'))
  const zero = none < 0 ? '' : ` One precision of 0 makes the product 0.`
  return `BLEU = ${fixed(score, 1)}. The brevity penalty is ${short}, with ${c} words for `
    + `${r}.${zero}`
}

const MEANING = {hit: 'in the reference', clipped: 'more often than in the reference',
                 miss: 'not in the reference'}

function fillRow(node, i, {rows, hits, precisions}) {
  const [name, grams, count, bar] = node.children, n_found = rows[i].length
  write(name, i ? `${i + 1} in a row` : 'words')
  const newGram = make('li', 'span', 'span')
  keep(grams, rows[i], newGram, (item, {gram, is}) => {
    const [shown, meaning] = item.children
    item.className = is
    meaning.className = 'unseen'
    write(shown, gram)
    write(meaning, `, ${MEANING[is]}`)
  })
  write(count, `${hits[i]} of ${n_found}`)
  const [rod, number] = bar.children, p = n_found ? precisions[i] : 0
  style(rod, {'--p': p})
  write(number, n_found ? fixed(p) : '–')
}

function newRow() {
  const bar = el('div', {className: 'live-bar'}, el('i'), el('span'))
  const grams = el('ul', {className: 'live-grams'})
  return el('div', {className: 'live-ngram'}, el('b'), grams, el('span'), bar)
}

function bleuFigure(stage) {
  const state = {translation: EXAMPLES[0][1], reference: REFERENCE}, says = caption()
  const box = el('div', {className: 'live-ngrams'})
  const set = change => {
    Object.assign(state, change)
    const found = bleu(wordsOf(state.translation), wordsOf(state.reference))
    keep(box, range(4), newRow, (node, i) => fillRow(node, i, found))
    says.tell(inWords(found))
  }
  const translation = textField('Translation', {value: state.translation, lang: 'en'},
    text => set({translation: text}))
  const reference = textField('Reference', {value: REFERENCE, lang: 'en'},
    text => set({reference: text}))
  const examples = presets('Translations', EXAMPLES.map(
    ([name, text]) => [name, () => translation.set(text)]))
  stage.append(reference.node, translation.node, examples, box, says.node)
  set({})
}

export {bleuFigure, bleu, wordsOf}
