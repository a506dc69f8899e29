// The page's tokenizer and reading on texts, for frozen.py: node frozen.js script given out
const fs = require('fs'), [script, given, out] = process.argv.slice(2)
globalThis.modules = {}, globalThis.onmessage = null
require('vm').runInThisContext(fs.readFileSync(script, 'utf8'))
const {tokenizer: {Tokenizer}, reading: {Reader}} = modules
const {header, texts} = JSON.parse(fs.readFileSync(given, 'utf8'))
const tokenizer = new Tokenizer(header), reader = new Reader(header.patterns, tokenizer)
fs.writeFileSync(out, JSON.stringify(texts.map(text => [tokenizer.encode(text),
  reader.paragraphs(text).map(x => reader.split(x).map(y => reader.read(y)))])))
process.exit() // a channel of the worker is open
