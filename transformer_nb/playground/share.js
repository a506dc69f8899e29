// What can be taken away: the translation, and a link to all that is on the page; and the
// page for a whole room
import {$, attributes, write} from './dom.js'
import {state, update, model} from './store.js'
import {wholeTranslation} from './scene.js'

const A_MOMENT = 2000 // ms

function copies(button, textOf) {
  const name = button.textContent
  button.onclick = async () => {
    const copied = textOf().then(text => navigator.clipboard.writeText(text))
    write(button, await copied.then(() => 'Copied', () => 'Could not copy'))
    setTimeout(() => write(button, name), A_MOMENT)
  }
}

function drawPresent() {
  document.body.classList.toggle('present', state.present)
  attributes($('present'), {'aria-pressed': state.present})
}

function goThroughExamples(by) { // a clicker sends Page Up and Page Down
  const texts = (model().examples ?? []).map(example => example.text)
  const text = texts[texts.indexOf(state.text.trim()) + by]
  if (text) update({text, nth: 0, off: []})
}

function listenToSharing() {
  $('copy-link').hidden = location.protocol === 'about:' // a frame has no address
  copies($('copy-link'), async () => location.href)
  copies($('copy-text'), wholeTranslation)
  $('present').onclick = () => update({present: !state.present})
}

export {drawPresent, goThroughExamples, listenToSharing}
