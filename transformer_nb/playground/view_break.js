// Break: what is switched off, and what came of it
import {$, el, make, button, attributes, write, keep} from './dom.js'
import {fixed, likelier, marked} from './words.js'
import {state, now, toggle} from './store.js'
import {OTHERS, spokenHead} from './parts.js'
import {drawHeads, headsLegend, drawKinds} from './heads.js'

function drawBreak() {
  keep($('honest'), outcome(), make('div', 'dt', 'dd', 'dd'), fillOutcome)
  keep($('surgery'), Object.keys(OTHERS), button('switch'), (node, part) => {
    const [, name] = OTHERS[part]
    write(node, name)
    fillSwitch(node, part, name)
  })
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
  const [kind, layer] = head.split('.')
  fillSwitch(node, head, spokenHead(head))
  node.classList.toggle('covered', state.off.includes(`${kind}.${layer}`))
}

function fillLayer(node, part) {
  const [kind, layer] = part.split('.')
  write(node, 'all')
  fillSwitch(node, part, `${kind}, all heads of layer ${layer}`)
}

// Three lines, whatever came of it: name, text (or words that are marked), numbers
function outcome() {
  const {scene} = now, isBroken = scene?.off.length > 0
  const names = ['Old text, scored by the broken model', 'New text',
                 'New text, scored by the intact model']
  if (!isBroken) {
    const text = scene?.intact.text ?? ''
    return [[names[0], text, 'Nothing is switched off yet.'],
            [names[1], '–', ''], [names[2], '–', '']]
  }
  const {intact, written, old, back} = scene, isSame = written.text === intact.text
  const change = `log p ${fixed(intact.log_prob)} → ${fixed(old.log_prob)}: `
    + likelier(old.log_prob - intact.log_prob)
  const inBroken = isSame ? 'Unchanged. That is normal: other heads can stand in.'
    : `log p ${fixed(written.log_prob)} in the broken model`
  const inIntact = isSame ? 'The same text as before.'
    : `log p ${fixed(back.log_prob)}: `
      + `${likelier(back.log_prob - intact.log_prob)} than the old text`
  return [
    [names[0], intact.text, change],
    [names[1], isSame ? written.text : marked(intact.text, written.text), inBroken],
    [names[2], written.text, inIntact]]
}

function fillOutcome(node, [name, text, verdict]) {
  const [title, body, small] = node.children
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

export {drawBreak}
