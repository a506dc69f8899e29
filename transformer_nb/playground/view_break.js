// Break: what is switched off, and what came of it
import {$, el, make, button, attributes, write, keep} from './dom.js'
import {fixed, likelier, marked} from './words.js'
import {state, now, languages, toggle} from './store.js'
import {STACKS, OTHERS, spokenHead, isCovered} from './parts.js'
import {drawHeads, headsLegend, drawKinds} from './heads.js'

function drawBreak() {
  const parts = [...Object.keys(STACKS), ...Object.keys(OTHERS)]
  keep($('surgery'), parts, button('switch'), (node, part) => {
    const name = STACKS[part] ?? OTHERS[part][1]
    write(node, name)
    fillSwitch(node, part, name)
  })
  keep($('honest'), outcome(), make('div', 'dt', 'dd', 'dd'), fillOutcome)
  drawKinds($('kinds-break'))
  drawHeads($('switches'), fillHead, fillLayer)
  write($('switches-legend'), headsLegend())
}

function fillSwitch(node, part, name) {
  attributes(node, {role: 'switch', 'aria-checked': !state.off.includes(part),
                    'aria-label': name})
  node.onclick = () => toggle(part)
}

function fillHead(node, head) {
  fillSwitch(node, head, spokenHead(head))
  node.classList.toggle('covered', isCovered(head, state.off))
}

function fillLayer(node, part) {
  const [kind, layer] = part.split('.')
  write(node, 'all')
  fillSwitch(node, part, `${kind}, all heads of layer ${layer}`)
}

// Once something is off, three lines: name, text (or words that are marked), numbers
function outcome() {
  if (!now.scene?.off.length) return []
  const {intact, written, old, back} = now.scene, isSame = written.text === intact.text
  const change = `log p ${fixed(intact.log_prob)} → ${fixed(old.log_prob)}: `
    + likelier(old.log_prob - intact.log_prob)
  const inBroken = isSame ? 'Unchanged. That is normal: other heads can stand in.'
    : `log p ${fixed(written.log_prob)} in the broken model`
  const inIntact = isSame ? 'The same text as before.'
    : `log p ${fixed(back.log_prob)}: `
      + `${likelier(back.log_prob - intact.log_prob)} than the old text`
  return [
    ['Old text, scored by the broken model', intact.text, change],
    ['New text', isSame ? written.text : marked(intact.text, written.text), inBroken],
    ['New text, scored by the intact model', written.text, inIntact]]
}

function fillOutcome(node, [name, text, verdict]) {
  const [title, body, small] = node.children
  body.lang = languages().tgt
  write(title, name)
  write(small, verdict)
  if (typeof text === 'string') write(body, text)
  else body.replaceChildren(...text.flatMap(markedWord))
}

function markedWord({sign, word}) { // -> nodes and text
  if (!sign) return [word]
  const tag = {'−': 'del', '+': 'ins'}[sign]
  const space = /^[.,;:!?]/.test(word) ? '' : ' '
  return [space, el(tag, {textContent: word.trim()})]
}

export {drawBreak, fillSwitch}
