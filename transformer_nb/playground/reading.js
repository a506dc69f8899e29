// Chapter 08a: what people type -> what the model reads, and back. The same functions as in
// Python, with the same patterns, which the exporter wrote down. No page is needed here.
import {SPACES, strip} from './tokenizer.js'

class Reader {
  constructor(patterns, tokenizer) {
    this.tokenizer = tokenizer
    this.patterns = Object.fromEntries(Object.entries(patterns).map(
      ([name, pattern]) => [name, new RegExp(pattern, 'gu')]))
  }

  has(name, text) { return text.search(this.patterns[name]) >= 0 }

  // ---- Where a sentence ends -----------------------------------------------------------

  paragraphs(text, exact = false) { // none blank, each in the form that the tokenizer cuts
    const parts = text.replace(/\r\n?/g, '\n').split(/\n[ \t]*\n/)
    const form = part => exact ? this.tokenizer.normalize(part) : this.tidy(part)
    return parts.map(form).filter(strip)
  }

  tidy(text) { // entities are characters, and spaces are where they belong
    const plain = this.tokenizer.normalize(text.replace(this.patterns.entity, character))
    const isOne = token => this.has('address', token) || this.has('link', token)
    const apart = token => isOne(token) ? token : token.replace(this.patterns.gap, ' ')
    return plain.split(' ').map(apart).join(' ').replace(this.patterns.stray, '$1')
  }

  split(text) { // a paragraph -> sentences; joined by spaces, they are the text
    const name = this.has('capital', text) ? 'break_' : 'break_small', sentences = []
    let start = 0
    for (const match of text.matchAll(this.patterns[name])) {
      const [found, mark] = match, {index} = match
      const piece = text.slice(start, index + mark.length), end = index + found.length
      if (this.goesOn(piece, text.slice(end))) continue
      sentences.push(piece)
      start = end
    }
    return [...sentences, text.slice(start)].filter(Boolean)
  }

  goesOn(piece, rest) { // does the sentence go on after this mark?
    if (!this.has('letter', piece)) return true // such as the number of an item
    const tail = piece.toLowerCase()
    if (this.has('no_ordinal', tail)) return false
    if (this.has('short', tail) || this.has('ordinal', tail)) return true
    if (this.has('short_number', tail) && this.has('digit', rest)) return true
    return this.has('number_end', tail) && this.has('month', rest)
  }

  // ---- How a sentence is read ----------------------------------------------------------

  read(typed) { // of which nothing may be left to translate: then `read` is empty
    const apart = typed.replace(this.patterns.symbols, ' $& ')
    const tokens = apart.split(new RegExp(`[${SPACES}]+`)).filter(Boolean)
    const [before, inner, after] = this.stripSymbols(tokens)
    const sentence = {typed, read: '', before: '', after: '', left_out: '',
                      is_loud: false, has_mark: true}
    if (!this.isLanguage(inner)) return sentence
    const isLeftOut = token => this.has('symbolic', token)
    const [plain, left_out] = [inner.filter(x => !isLeftOut(x)), inner.filter(isLeftOut)]
    Object.assign(sentence, {before: before.join(' '), after: after.join(' '),
                             left_out: left_out.join(' ')})
    return Object.assign(sentence, this.asSentence(plain.join(' ')))
  }

  stripSymbols(tokens) { // -> before, between and after
    let start = 0, end = tokens.length
    while (start < end && this.has('symbolic', tokens[start])) start++
    while (end > start && this.has('symbolic', tokens[end - 1])) end--
    if (end - start > 1 && this.isItem(tokens[start], tokens[start + 1])) start++
    return [tokens.slice(0, start), tokens.slice(start, end), tokens.slice(end)]
  }

  isItem(token, following) { // does it number or mark what follows?
    if (!this.has('item', token) || this.has('month', following)) return false
    return !(token.endsWith('.') && isSmall([...following][0]))
  }

  isLanguage(tokens) { // or does it come back as it is?
    const isWord = token => !this.has('address', token) && !this.has('symbolic', token)
    return this.has('letter', tokens.filter(isWord).join(' '))
  }

  asSentence(text) { // with a capital first and a mark at its end, and not in capitals
    const bare = text.replaceAll('ß', '') // which many keyboards write among capitals
    const letters = [...bare].filter(hasCase).length
    const is_loud = letters > 1 && bare === bare.toUpperCase()
    const is_small = letters > 0 && text === text.toLowerCase()
    let plain = is_loud ? text.toLowerCase() : text
    if (is_loud || is_small) plain = this.recase(plain, is_loud)
    const has_mark = this.has('mark', plain)
    return {read: this.capitalize(has_mark ? plain : this.withMark(plain)), is_loud,
            has_mark}
  }

  withMark(text) { // at its end, or within the quotation that ends it
    const mark = this.has('question', text.toLowerCase()) ? '?' : '.'
    const isQuotation = text.endsWith('"') && text.split('"').length % 2 === 1
    const at = text.length - isQuotation
    return text.slice(0, at) + mark + text.slice(at)
  }

  recase(text, is_loud) { // in small letters -> each word as the vocabulary knows it best
    const best = word => {
      const known = spellings(word, is_loud).map(word => ({word, by: this.rareness(word)}))
      return known.reduce((a, b) => b.by < a.by ? b : a).word
    }
    const recased = token =>
      this.has('address', token) ? token : token.replace(this.patterns.word, best)
    return this.capitalize(text.split(' ').map(recased).join(' '))
  }

  rareness(word) { // how many tokens, and how late the last one was learned
    const [, ...ids] = this.tokenizer.encode(`a ${word}`) // with the space before it
    return ids.length * 2**20 + Math.max(...ids)
  }

  capitalize(text) { // its first letter, unless the word has capitals within
    const [first] = text.match(this.patterns.word) ?? []
    const isAddress = this.has('address', text.split(' ')[0])
    if (isAddress || !first || first !== first.toLowerCase()) return text
    return text.replace(first, capital(first))
  }

  // ---- What a reader should doubt ------------------------------------------------------

  doubts(source, translation) { // sentences, mostly none
    const ours = this.numbers(source), theirs = this.numbers(translation), notes = []
    const lost = without(ours, theirs), added = without(theirs, ours)
    const sides = [lost.length && `${lost.join(', ')} is missing`,
                   added.length && `${added.join(', ')} is new`].filter(Boolean)
    if (sides.length) notes.push(`the numbers differ: ${sides.join(' and ')}`)
    const links = source.match(this.patterns.link) ?? []
    const missing = links.filter(link => !translation.includes(link))
    if (missing.length) notes.push(`not copied: ${missing.join(', ')}`)
    return notes
  }

  numbers(text) { // 3.50 and 3,50 are one number
    const found = text.match(this.patterns.number) ?? []
    return found.map(number => number.replace(/[,:]/g, '.'))
  }
}

const isSmall = c => c === c.toLowerCase() && c !== c.toUpperCase()
const hasCase = c => c !== c.toLowerCase() || c !== c.toUpperCase()
const capital = word => [...word].map((c, i) => i ? c : c.toUpperCase()).join('')

const ENTITIES = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' '}

function character(entity, name) {
  if (name in ENTITIES) return ENTITIES[name]
  const isHex = name[1] === 'x'
  return String.fromCodePoint(parseInt(name.slice(isHex ? 2 : 1), isHex ? 16 : 10))
}

function spellings(word, is_loud) { // of a word in small letters
  if (word === 'i') return ['I'] // which is English: German has no such word
  const found = [word, capital(word), word.toUpperCase()]
  if (!is_loud || !word.includes('ss')) return found // capitals have no ß
  const sharp = word.replaceAll('ss', 'ß')
  return [...found, sharp, capital(sharp)]
}

// Those of a list beyond those of the other, each once; small numbers may be words as well
function without(numbers, others) {
  const count = (list, x) => list.filter(y => y === x).length
  const isNoted = x => x.includes('.') || Number(x) > 12
  return [...new Set(numbers)].filter(
    x => isNoted(x) && count(numbers, x) > count(others, x))
}

// The translation of what is read -> of what was typed
function finish({typed, read, before, after, is_loud, has_mark}, translation) {
  if (!read) return typed
  const loud = is_loud ? translation.toUpperCase() : translation
  const written = has_mark ? loud : loud.replace(/[.](["“”]?)$/u, '$1')
  return [before, written, after].filter(Boolean).join(' ')
}

function exactly(typed) { // without any change but that of its form
  return {typed, read: typed, before: '', after: '', left_out: '', is_loud: false,
          has_mark: true}
}

export {Reader, finish, exactly}
