// A tour of two minutes. Each step goes to a state of the page, points at something, says
// what happened there, and asks.
import {$, phone, write, enable, isStill} from './dom.js'
import {state, now, model} from './store.js'

// Number of the step (null: there is no tour), and whether its translation is here
const tour = {at: null, isHere: false}
let goTo, before, text // how to go to a link; where the reader was; what the step shows

function startTour() {
  before = location.hash
  showStep(0)
  $('tour-next').focus()
}

function endTour(next = $('start-tour')) { // what has the focus then
  if (tour.at === null) return
  tour.at = null
  pointAt(null)
  $('tour').hidden = true
  document.body.classList.remove('touring')
  if (state.text === text) goTo(before) // else it is the reader's own by now
  next.focus()
}

function showStep(i) {
  const steps = model().tour
  if (i === steps.length) return endTour($('text'))
  const {link, says, asks} = steps[i]
  tour.at = i
  tour.isHere = false
  write($('tour-title'), `Tour, ${i + 1} of ${steps.length}`)
  write($('tour-says'), says)
  write($('tour-asks'), asks)
  write($('tour-next'), i + 1 === steps.length ? 'Your turn' : 'Next')
  enable($('tour-back'), i > 0)
  $('tour').hidden = false
  $('tour').classList.remove('small')
  document.body.classList.add('touring')
  goTo(`#${link}`)
  text = state.text
}

function followTour() { // until the translation is here: what stands below it moves
  if (tour.at === null || tour.isHere) return
  const {point} = model().tour[tour.at]
  pointAt($(point.slice(1)))
  tour.isHere = !now.busy
}

const MARGIN = 16 // pixels

// Above the tour's box, or beside it where there is room; of what is taller, the beginning
// is seen, and beside the box also the translation that changes in Type
function pointAt(node) {
  const old = document.querySelector('.pointed')
  if (old !== node) old?.classList.remove('pointed')
  if (!node) return
  node.classList.add('pointed')
  const {right, bottom} = node.getBoundingClientRect()
  const box = $('tour').getBoundingClientRect(), isBeside = box.left >= right
  const first = isBeside && state.view === 'type' ? $('tgt') : node
  const {top} = first.getBoundingClientRect(), end = isBeside ? innerHeight : box.top
  const down = Math.min(top - MARGIN, bottom - end + MARGIN)
  scrollBy({top: down, behavior: isStill() ? 'auto' : 'smooth'})
}

// On a phone its box covers what the reader is asked to try: it is small until it is tapped
function makeRoom({target}) {
  if (phone.matches) $('tour').classList.toggle('small', !$('tour').contains(target))
}

function listenToTour(go) {
  goTo = go
  addEventListener('pointerdown', makeRoom)
  $('start-tour').onclick = startTour
  $('tour-next').onclick = () => showStep(tour.at + 1)
  $('tour-back').onclick = () => {
    if (tour.at > 0) showStep(tour.at - 1)
  }
  $('tour-end').onclick = () => endTour()
}

function drawTourButton() { $('start-tour').hidden = !model().tour?.length }

export {tour, startTour, endTour, followTour, listenToTour, drawTourButton}
