// A tour of two minutes. Each step goes to a state of the page, points at something, says
// what happened there, and asks.
import {$, write, enable} from './dom.js'
import {model} from './store.js'

const tour = {at: null} // number of the step; null: there is no tour
let goTo, before // how to go to a link, and where the reader was

function startTour() {
  before = location.hash
  showStep(0)
  $('tour-next').focus()
}

function endTour() {
  if (tour.at === null) return
  tour.at = null
  pointAt(null)
  $('tour').hidden = true
  goTo(before)
  $('start-tour').focus()
}

function showStep(i) {
  const steps = model().tour
  if (i === steps.length) return endTour()
  const {link, point, says, asks} = steps[i]
  tour.at = i
  goTo(`#${link}`)
  write($('tour-title'), `Tour, ${i + 1} of ${steps.length}`)
  write($('tour-says'), says)
  write($('tour-asks'), asks)
  write($('tour-next'), i + 1 === steps.length ? 'Your turn' : 'Next')
  enable($('tour-back'), i > 0)
  $('tour').hidden = false
  pointAt($(point.slice(1)))
}

function pointAt(node) {
  document.querySelector('.pointed')?.classList.remove('pointed')
  if (!node) return
  node.classList.add('pointed')
  const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches
  const isTall = node.offsetHeight > innerHeight / 2 // its beginning matters most
  const block = isTall ? 'start' : 'center', behavior = isStill ? 'auto' : 'smooth'
  node.scrollIntoView({block, behavior})
}

function listenToTour(go) {
  goTo = go
  $('start-tour').onclick = startTour
  $('tour-next').onclick = () => showStep(tour.at + 1)
  $('tour-back').onclick = () => {
    if (tour.at > 0) showStep(tour.at - 1)
  }
  $('tour-end').onclick = endTour
}

function drawTourButton() { $('start-tour').hidden = !model().tour?.length }

export {tour, endTour, listenToTour, drawTourButton}
