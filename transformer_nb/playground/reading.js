// Chapter 08a: what people type -> what the model reads, and back. The same functions as in
// Python, with the same patterns, which the exporter wrote down. No page is needed here.
import {strip} from './tokenizer.js'

class Reader {
  // Patterns as `packed_reading` makes them
  constructor(packed, tokenizer) {
    const {letters, capitals, longest, held, umlauts, marks, entities, ...patterns} = packed
    Object.assign(this, {tokenizer, longest, held, umlauts, marks, entities})
    const sets = {'%letters%': letters, '%capitals%': capitals}
    const whole = pattern => pattern.replace(/%(?:letters|capitals)%/g, name => sets[name])
    this.patterns = Object.fromEntries(Object.entries(patterns).map(
      ([name, pattern]) => [name, new RegExp(whole(pattern), 'gu')]))
    literal = this.patterns.literal
  }

  has(name, text) { return text.search(this.patterns[name]) >= 0 }

  hold(name, text) { // -> the text without its literals, and what puts them back
    const {held, patterns} = this, found = []
    const hold = (all, literal) => literal ? (found.push(literal), held) : ` ${all} `
    const back = part => part.replaceAll(held, () => found.shift() ?? held)
    return [text.replace(patterns[name], hold), back]
  }

  // ---- Where a sentence ends -----------------------------------------------------------

  paragraphs(text, exact = false) { // none blank, each in the form that the tokenizer cuts
    const parts = text.replace(/\r\n?/g, '\n').split(/\n[ \t]*\n/)
    const form = part => exact ? this.tokenizer.normalize(part) : this.tidy(part)
    return parts.map(form).filter(strip)
  }

  tidy(text) { // entities are characters, and spaces are where they belong
    const {entity, foreign, needless, escape, inner, stray, gap, dash} = this.patterns
    const named = text.replace(entity, (all, name) => character(this.entities, all, name))
    const [left, back] = this.hold('literal', named)
    const known = left.replace(foreign, mark => this.marks[mark])
    const bare = known.replace(needless, '').replace(escape, ' ').replace(inner, 'i')
    const plain = this.tokenizer.normalize(bare).replace(stray, '')
    return back(plain.replace(gap, ' ').replace(dash, ' - ').replace(/^ /, ''))
  }

  split(text) { // a paragraph -> sentences; joined by spaces, they are the text
    const name = this.has('capital', text) ? 'break_' : 'break_small', sentences = []
    let start = 0, seen = 0, hasLetter = false
    const whole = text.replace(literal, all => '_'.repeat(all.length))
    for (const match of whole.matchAll(this.patterns[name])) {
      const [found, mark] = match, {index} = match
      const end = index + mark.length, after = index + found.length
      hasLetter ||= this.has('letter', text.slice(seen, end))
      seen = end
      const near = text.slice(Math.max(start, end - this.longest), end)
      // what has no letter is such as the number of an item
      if (!hasLetter || this.goesOn(near, text.slice(after, after + this.longest))) continue
      sentences.push(text.slice(start, end))
      start = seen = after
      hasLetter = false
    }
    return [...sentences, text.slice(start)].filter(Boolean)
  }

  goesOn(piece, rest) { // does the sentence go on after this mark?
    const tail = piece.toLowerCase()
    if (this.has('no_ordinal', tail)) return false
    if (this.has('short', tail) || this.has('ordinal', tail)) return true
    if (this.has('short_number', tail) && this.has('digit', rest)) return true
    if (this.has('short_small', tail) && this.has('small', rest)) return true
    return this.has('number_end', tail) && this.has('month', rest)
  }

  // ---- How a sentence is read ----------------------------------------------------------

  read(typed) { // of which nothing may be left to translate: then `read` is empty
    if (this.has('whole', typed)) return this.readInBrackets(typed)
    const [apart, back] = this.hold('symbols', typed)
    const tokens = apart.match(this.patterns.token)?.map(back) ?? []
    const [before, inner, after] = this.stripSymbols(tokens)
    const left_out = inner.filter(token => this.isSymbol(token))
    const words = inner.filter(token => !this.isSymbol(token))
    const sentence = keptAs(typed)
    if (!this.has('letter', words.join(' ').replace(literal, ''))) return sentence
    const [text, tail] = this.withoutTail(words.join(' ').replace(this.patterns.stray, ''))
    Object.assign(sentence, {before: before.join(' '), after: after.join(' '),
                             left_out: left_out.join(' '), tail})
    return Object.assign(sentence, this.asSentence(text))
  }

  readInBrackets(typed) {
    const [first, ...rest] = [...typed], last = rest.pop()
    const read = this.read(strip(rest.join('')))
    if (!read.read) return keptAs(typed)
    return {...read, typed, before: first + read.before, after: read.after + last}
  }

  withoutTail(plain) { // of `?!` the model reads the question mark, of `:` nothing
    const at = plain.search(this.patterns.tail)
    if (at < 0) return [plain, '']
    const text = plain.slice(0, at), tail = plain.slice(at)
    if (!'!?'.includes(tail[0])) return [text, tail]
    const run = text.at(-1) + tail
    return [text.slice(0, -1) + (run.includes('?') ? '?' : '!'), run]
  }

  isSymbol(token) { // brackets that the vocabulary has as one piece are language
    const isGroup = token.length > 1 && '(['.includes(token[0])
    if (isGroup && this.tokenizer.encode(`a ${token[0]}`).length === 2) return false
    return this.has('symbolic', token)
  }

  stripSymbols(tokens) { // -> before, between and after; markup of a part is between
    let start = 0, end = tokens.length
    while (start < end && this.isSymbol(tokens[start])) start++
    while (end > start && this.isSymbol(tokens[end - 1])) end--
    if (end - start > 1 && this.isItem(tokens[start], tokens[start + 1])) start++
    while (start < end && this.isSymbol(tokens[start])) start++
    if (tokens.slice(start, end).some(token => this.has('markup', token))) {
      while (start && this.has('markup', tokens[start - 1])) start--
      while (end < tokens.length && this.has('markup', tokens[end])) end++
    }
    return [tokens.slice(0, start), tokens.slice(start, end), tokens.slice(end)]
  }

  isItem(token, following) { // does it number or mark what follows?
    if (!this.has('item', token) || this.has('month', following)) return false
    return !('.0123456789'.includes(token.at(-1)) && isSmall([...following][0]))
  }

  asSentence(text) { // with a capital first and a mark at its end, and not in capitals
    const bare = text.replace(literal, '').replaceAll('ß', '') // which many keyboards have
    const letters = [...bare].filter(hasCase).length
    const is_loud = letters > 1 && bare === bare.toUpperCase()
    const is_small = letters > 0 && bare === bare.toLowerCase()
    const is_title = this.has('title', text) && this.has('english', text.toLowerCase())
    const typed = part => is_loud || is_title ? part.toLowerCase() : part
    const {negation, is_short} = this.patterns // where an apostrophe is missing
    const spelled = x => typed(x).replace(negation, "$1't").replace(is_short, "$1's")
    let plain = outside(x => this.respell(spelled(x)), text)
    if (is_loud || is_small || is_title) plain = this.recase(plain, is_loud)
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

  respell(text) { // odd words in another spelling, if that is one piece
    const {tokenizer} = this
    const pieces = word => { // within a text, or at its beginning
      const n = tokenizer.encode(`a ${word}`).length - 1
      return Math.min(n, tokenizer.encode(word).length) - word.split("'").length + 1
    }
    return text.replace(this.patterns.odd, word => {
      const other = this.best(this.respellings(word))
      return pieces(other) === 1 && pieces(word) > 1 ? other : word
    })
  }

  respellings(word) { // of one that looks odd
    if (this.has('acronym', word)) return [word]
    const [first, ...rest] = [...word], end = rest.join('')
    if (end !== end.toLowerCase()) {
      return [word.toLowerCase(), first.toUpperCase() + end.toLowerCase()]
    }
    const umlauts = word.replace(this.patterns.digraph, pair => this.umlauts[pair])
    return [umlauts, ...[word, umlauts].map(word => word.replaceAll('ss', 'ß'))]
  }

  best(words) { // the most frequent spelling
    const known = words.map(word => ({word, by: this.rareness(word)}))
    return known.reduce((a, b) => b.by < a.by ? b : a).word
  }

  recase(text, is_loud) { // in small letters -> each word as the vocabulary knows it best
    const best = word => this.best(spellings(word, is_loud))
    return this.capitalize(outside(x => x.replace(this.patterns.word, best), text))
  }

  rareness(word) { // how many tokens, and how late the last one was learned
    const [, ...ids] = this.tokenizer.encode(`a ${word}`) // with the space before it
    return ids.length * 2**20 + Math.max(...ids)
  }

  capitalize(text) { // at its beginning, unless that word has any within
    const [[all, marks, first] = []] = text.matchAll(this.patterns.first)
    if (this.has('begins', text) || !first || first !== first.toLowerCase()) return text
    return marks + capital(first) + text.slice(all.length)
  }

  // ---- What a reader should doubt ------------------------------------------------------

  doubts(source, translation) { // sentences, mostly none
    const numbers = text => text.match(this.patterns.number) ?? [], notes = []
    const ours = numbers(source), theirs = numbers(translation)
    const lost = without(ours, theirs), added = without(theirs, ours)
    const sides = [lost.length && `${lost.join(', ')} is missing`,
                   added.length && `${added.join(', ')} is new`].filter(Boolean)
    if (sides.length) notes.push(`the numbers differ: ${sides.join(' and ')}`)
    const literals = new Set(source.match(literal))
    const missing = [...literals].filter(x => !translation.includes(x))
    if (missing.length) notes.push(`not copied: ${missing.join(', ')}`)
    const isOdd = text => text.split('"').length % 2 === 0
    if (isOdd(translation) && !isOdd(source)) notes.push('a quotation mark is missing')
    return notes
  }

  strange(text) { // characters that the vocabulary hardly knows
    const {tokenizer} = this
    const odd = new Set(tokenizer.normalize(text).match(this.patterns.uncommon))
    return [...odd].filter(c => !tokenizer.characters().has(c)).join(' ')
  }
}

const isSmall = c => c === c.toLowerCase() && c !== c.toUpperCase()
const hasCase = c => c !== c.toLowerCase() || c !== c.toUpperCase()
const capital = word => [...word].map((c, i) => i ? c : c.toUpperCase()).join('')

function character(entities, entity, name) {
  if (name[0] !== '#') return Object.hasOwn(entities, name) ? entities[name] : entity
  const isHex = name[1] === 'x'
  const code = parseInt(name.slice(isHex ? 2 : 1), isHex ? 16 : 10)
  const isHalf = code >= 0xd800 && code < 0xe000 // of a pair
  return isHalf || code > 0x10ffff ? entity : String.fromCodePoint(code)
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
  const ours = numbers.map(valueOf), theirs = others.map(valueOf)
  const count = (list, x) => list.filter(y => y === x).length
  const isNoted = x => x.includes('.') || Number(x) > 12
  return numbers.filter((_, i) => {
    const x = ours[i], isFirst = ours.indexOf(x) === i
    return isFirst && isNoted(x) && count(ours, x) > count(theirs, x)
  })
}

const valueOf = number => number.replace(/[,:]/g, '.') // 3.50 and 3,50 are one number

// The translation of what is read -> of what was typed
function finish({typed, read, before, after, is_loud, has_mark, tail}, translation) {
  if (!read) return typed
  let text = is_loud ? outside(x => x.toUpperCase(), translation) : translation
  if (tail) text = text.replace(/[.!?]+$/, '') + tail
  else if (!has_mark) text = text.replace(/[.](["“”]?)$/u, '$1')
  const isApart = before && typed.startsWith(`${before} `)
  const isApartAfter = after && typed.endsWith(` ${after}`)
  return before + (isApart ? ' ' : '') + text + (isApartAfter ? ' ' : '') + after
}

let literal // what is not language: the same for every model
const outside = (change, text) => // of that
  text.split(literal).map((x, i) => i % 2 ? x : change(x)).join('')

const keptAs = typed => // it comes back as it is
  ({typed, read: '', before: '', after: '', left_out: '', is_loud: false, has_mark: true,
    tail: ''})
const exactly = typed => ({...keptAs(typed), read: typed}) // but for its form

export {Reader, finish, exactly}
