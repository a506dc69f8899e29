// The keyboard: Tab goes from group to group, the arrows within one
import {$} from './dom.js'
import {state, update, undo} from './store.js'
import {goThroughExamples} from './share.js'
import {tour, endTour} from './tour.js'
import {closeBox} from './machine_open.js'

function reachable(box) {
  const buttons = [...box.querySelectorAll('button:not(:disabled)')]
  return buttons.filter(node => node.offsetParent)
}

function drawRoving() { // Tab reaches one button of each group
  const boxes = [...document.querySelectorAll('[data-roving]')]
  const groups = boxes.map(reachable) // all are looked at before one is changed
  groups.forEach((nodes, i) => {
    const first = tabStop(boxes[i], nodes)
    for (const node of nodes) node.tabIndex = node === first ? 0 : -1
  })
}

function tabStop(box, nodes) { // where one is, the last one used, the chosen one
  const chosen = node => node.matches('[aria-pressed=true], [aria-selected=true]')
  if (nodes.includes(document.activeElement)) return document.activeElement
  if (nodes.includes(box.used)) return box.used
  return nodes.find(chosen) ?? nodes[0]
}

function onArrow(event) {
  const box = event.target.closest('[data-roving]')
  if (!box || event.ctrlKey || event.altKey || event.metaKey) return
  const nodes = reachable(box), i = nodes.indexOf(event.target)
  const across = Number(box.dataset.across ?? 1), down = Number(box.dataset.down ?? 1)
  const places = {ArrowRight: i + across, ArrowLeft: i - across, ArrowDown: i + down,
                  ArrowUp: i - down, Home: 0, End: nodes.length - 1}
  const next = nodes[places[event.key]]
  if (!next) return
  event.preventDefault()
  box.used = next
  next.tabIndex = 0
  next.focus()
  drawRoving()
}

function closeExamples() {
  $('examples').open = false
  $('examples').firstElementChild.focus()
}

// Closes the examples, else leaves the tour, a box of the machine, the big type, the pin
function onEscape() {
  if ($('examples').open) return closeExamples()
  if (tour.at !== null) return endTour()
  if (state.box && state.view === 'machine') return closeBox()
  update(state.present ? {present: false} : {pin: null, hover: null})
}

const CLICKER = {PageDown: 1, PageUp: -1}

function onClicker(event) { // to the next example or the last one; the page stays in place
  const by = CLICKER[event.key]
  if (!by) return
  event.preventDefault()
  goThroughExamples(by)
}

function onKey(event) {
  if (event.key === 'Escape') onEscape()
  if (state.present) onClicker(event)
  const isCtrl = event.ctrlKey || event.metaKey
  const isUndo = event.key === 'z' && isCtrl && !event.shiftKey
  if (isUndo && event.target !== $('text')) {
    event.preventDefault()
    undo()
  }
  onArrow(event)
}

export {drawRoving, onKey}
