// On a phone the views are far below the sentence. While it is out of sight, a line at the
// top of the screen holds it and its translation.
import {$, write} from './dom.js'
import {now, languages} from './store.js'
import {sentence} from './sentences.js'

function drawSticky() { // it repeats what ears have heard, so they are spared
  const {scene} = now, [source, target] = $('sticky').children, {src, tgt} = languages()
  write(source, sentence())
  write(target, scene?.given ?? '')
  Object.assign(source, {lang: src})
  Object.assign(target, {lang: tgt})
  const isNew = Boolean(scene?.off.length) && scene.written.text !== scene.intact.text
  target.classList.toggle('changed', isNew)
}

function listenToScrolling() {
  const watcher = new IntersectionObserver(([{boundingClientRect: {bottom}}]) =>
    $('sticky').classList.toggle('seen', bottom <= 0))
  watcher.observe($('tgt'))
}

export {drawSticky, listenToScrolling}
