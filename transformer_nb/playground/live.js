// The live figures of the chapters, by the names that the chapters call them
import {el} from './dom.js'
import {learning} from './live_learning.js'
import {merges} from './live_merges.js'
import {neighbors} from './live_neighbors.js'
import {positions} from './live_positions.js'
import {query} from './live_query.js'
import {shuffle} from './live_shuffle.js'
import {translation} from './live_translation.js'
import {writer} from './live_writer.js'

const FIGURES = {learning, merges, neighbors, positions, query, shuffle, translation,
                 writer}

async function start(box) { // once; what goes wrong is said in its place
  if (box.dataset.started) return
  box.dataset.started = 'yes'
  const stage = box.querySelector('.live-stage')
  try { await FIGURES[box.dataset.live](stage) }
  catch ({message}) {
    const textContent = `This figure could not be brought to life: ${message}.`
    const again = el('button', {type: 'button', textContent: 'Try again', onclick() {
      stage.replaceChildren()
      delete box.dataset.started
      start(box)
    }})
    stage.append(el('p', {textContent, className: 'live-says', role: 'alert'}), again)
  }
}

export {start, FIGURES}
