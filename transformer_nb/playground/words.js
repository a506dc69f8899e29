// Numbers, tokens and differences, as the page writes them
const sum = numbers => numbers.reduce((a, b) => a + b, 0)
const range = n => Array.from({length: n}, (_, i) => i)

const fixed = (x, n = 2) => x.toFixed(n).replace('-', '−')
const percent = p => p < 0.005 ? '<1%' : `${Math.round(100 * p)}%`

function likelier(delta) {
  const size = fixed(Math.abs(delta))
  return `${size} nats ${delta < 0 ? 'less' : 'more'} likely`
}

const isSpecial = ({text}) => /^<\/?s>$/.test(text)
const beginsWord = piece => !piece || piece.text.startsWith(' ') || isSpecial(piece)

// The i-th token of a sentence, by itself; -n goes on with a word
function label({text, byte}, i = 1) {
  if (isSpecial({text})) return text === '<s>' ? 'start' : 'end'
  if (byte) return `${byte[2]} ${byte[0]}/${byte[1]}`
  if (/^ +$/.test(text)) return text.replaceAll(' ', '␣')
  if (text === '\xa0') return 'no-break ␣' // which looks like nothing, too
  const goesOn = i > 0 && /^[\p{L}\p{N}]/u.test(text)
  return goesOn ? `-${text}` : text.replace(/^ /, '')
}

function wordsOf(text) {
  return Array.isArray(text) ? text : text.match(/ ?[\p{L}\p{N}]+| ?\S/gu) ?? []
}

// n[i][j]: how many words x from i on and y from j on have in common, in this order
function commonWords(x, y) {
  const zeros = () => new Array(y.length + 1).fill(0)
  const n = range(x.length + 1).map(zeros)
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      n[i][j] = Math.max(n[i + 1][j], n[i][j + 1])
      if (x[i] === y[j]) n[i][j] = 1 + n[i + 1][j + 1]
    }
  }
  return n
}

// Words (or ids) of a and b in one row: − only in a, + only in b
function marked(a, b) {
  const x = wordsOf(a), y = wordsOf(b), n = commonWords(x, y), row = []
  let i = 0, j = 0
  while (i < x.length || j < y.length) {
    const xEnded = i === x.length, yEnded = j === y.length
    if (!xEnded && !yEnded && x[i] === y[j]) {
      row.push({sign: '', word: x[i++]})
      j++
    } else if (yEnded || !xEnded && n[i + 1][j] >= n[i][j + 1]) {
      row.push({sign: '−', word: x[i++]})
    } else row.push({sign: '+', word: y[j++]})
  }
  return row
}

function permuted(list, random = Math.random) { // each order is as likely
  const all = [...list]
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1)), other = all[j]
    all[j] = all[i]
    all[i] = other
  }
  return all
}

export {sum, range, fixed, percent, likelier, isSpecial, beginsWord, label,
        marked, permuted}
