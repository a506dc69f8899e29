// Chapter 08: text to ids and back. It needs nothing but the language itself. What
// Python and the page share, `shared`, is written by the exporter.
import {UNK, SPACES} from './shared.js'

// Each byte is shown as one character: itself if it can be printed, else one from U+0100 on
function byteAlphabet() {
  const printable = b => (b > 32 && b < 127) || (b > 160 && b < 256 && b !== 173)
  let next = 256
  return Array.from({length: 256}, (_, b) => String.fromCharCode(printable(b) ? b : next++))
}

const pairKey = (a, b) => a * 2**20 + b // of two ids
const NO_PAIR = [Infinity]               // its rank: it is never merged

class Tokenizer {
  constructor({tokens, merges, normalizer}) {
    const alphabet = byteAlphabet()
    const byteOf = new Map(alphabet.map((character, b) => [character, b]))
    this.tokens = tokens                                               // by id
    this.bytes = tokens.map(token => Array.from(token, c => byteOf.get(c)))
    const ids = new Map(tokens.map((token, id) => [token, id]))
    this.idOfByte = alphabet.map(character => ids.get(character))
    this.merges = new Map()                         // by two ids: the rank, the new id
    merges.forEach(([a, b, merged], rank) =>
      this.merges.set(pairKey(a, b), [rank, merged]))

    const S = '\\p{White_Space}', L = '\\p{L}', N = '\\p{N}' // \s counts U+FEFF, too
    const words = `'s|'t|'re|'ve|'m|'ll|'d| ?${L}+| ?${N}+| ?[^${S}${L}${N}]+`
    this.word = new RegExp(`${words}|${S}+(?![^${S}])|${S}+`, 'gu')
    this.steps = normalizer.map(step => step && [new RegExp(step[0], 'gu'), step[1]])
  }

  normalize(text) { // as chapter 08 does it, step by step; nothing where there are no steps
    for (const step of this.steps) {
      if (step) text = text.replaceAll(...step)
      else text = text.normalize('NFC')
    }
    return text.toWellFormed()
  }

  encode(text) { // any string -> ids, without `<s>` and `</s>`
    const ids = [], utf8 = new TextEncoder() // which replaces half of a surrogate pair
    for (const [word] of this.normalize(text).matchAll(this.word)) {
      const bytes = utf8.encode(word)
      ids.push(...this.merge(Array.from(bytes, b => this.idOfByte[b])))
    }
    return ids
  }

  characters() { // frequent enough to be part of a merge
    if (this.known) return this.known
    const pieces = this.tokens.map((_, id) => this.decode([id]))
    return this.known = new Set(pieces.filter(x => [...x].length > 1).join(''))
  }

  merge(ids) { // of a word: the pair that was learned first, the leftmost of several; again
    const pairAt = i => this.merges.get(pairKey(ids[i], ids[i + 1])) ?? NO_PAIR
    const ranks = ids.map((_, i) => pairAt(i)[0]) // of the pair that begins here
    while (true) {
      let best = 0
      for (let i = 1; i < ids.length; i++) if (ranks[i] < ranks[best]) best = i
      if (!(ranks[best] < Infinity)) return ids
      const [, merged] = pairAt(best)
      ids.splice(best, 2, merged)
      ranks.splice(best, 1)
      ranks[best] = pairAt(best)[0]
      if (best > 0) ranks[best - 1] = pairAt(best - 1)[0]
    }
  }

  decode(ids) { // special tokens are left out; bytes that are not UTF-8 become U+FFFD
    const bytes = ids.filter(id => id > UNK).flatMap(id => this.bytes[id])
    return new TextDecoder('utf-8', {ignoreBOM: true}).decode(new Uint8Array(bytes))
  }

  text(ids) { // on one line, as `Translator.text`
    return strip(this.decode(ids).replace(/[\x00-\x08\x0a-\x1f\x7f-\x9f]/g, ' '))
  }

  // What to show for each token; `byte` where it begins or ends inside a character
  pieces(ids) {
    const bytes = ids.flatMap(id => id > UNK ? this.bytes[id] : [0])
    const characters = characterOfBytes(bytes)
    let at = 0
    return ids.map(id => {
      if (id <= UNK) return at++, {id, text: this.tokens[id]}
      const first = characters[at], last = characters[at + this.bytes[id].length - 1]
      at += this.bytes[id].length
      const text = this.decode([id])
      if (first.n === 1 && last.n === last.of) return {id, text}
      const split = first.n > 1 ? first : last
      return {id, text: this.tokens[id], byte: [split.n, split.of, split.character]}
    })
  }
}

// Of each byte: the character it belongs to, its place n in it, and how many there are
function characterOfBytes(bytes) {
  const utf8 = new TextDecoder('utf-8', {ignoreBOM: true}), found = []
  while (found.length < bytes.length) {
    const start = found.length, b = bytes[start]
    let of = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1
    const character = utf8.decode(new Uint8Array(bytes.slice(start, start + of)))
    if (character.includes('\ufffd')) of = 1 // a part without the rest
    for (let n = 1; n <= of; n++) found.push({n, of, character})
  }
  return found
}

// Python's str.strip; JavaScript's trim removes other characters
function strip(text) {
  return text.replace(new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, 'g'), '')
}

export {Tokenizer, strip, pairKey}
