// All that a chapter loads for its live figures at first. It waits until one of them is
// nearly in view, and only then loads what they share. A plain script, not a module, so
// that a chapter opened as a file is as alive as one that comes from a server.
(() => {
  const folder = new URL('.', document.currentScript.src)
  let loading // the style sheet and the figures, once for a page

  function load() {
    const files = [['link', {rel: 'stylesheet', href: `${folder}live.css`}],
                   ['script', {src: `${folder}live.js`}]]
    return Promise.all(files.map(([tag, properties]) => new Promise((onload, onerror) => {
      const node = document.createElement(tag)
      document.head.append(Object.assign(node, properties, {onload, onerror}))
    })))
  }

  // What takes longest comes beside all else, for live_model.js
  const early = globalThis.tnbEarly = {} // by name of the file: the answer, once
  const isPacked = location.protocol !== 'file:' && 'DecompressionStream' in globalThis
  function ask(file) { if (isPacked) early[file] ??= fetch(`${folder}${file}.bin`) }

  async function start(box) {
    watcher.unobserve(box)
    if (box.dataset.model) ask(`${box.dataset.model}_weights`)
    try { await (loading ??= load()) }
    catch {
      loading = undefined // or it would be missing for ever
      return offer(box)
    }
    modules.live.start(box)
  }

  function offer(box) {
    const textContent = 'This figure could not be loaded. Try again'
    const again = Object.assign(document.createElement('button'), {textContent})
    again.onclick = () => {
      again.remove()
      start(box)
    }
    box.append(again)
  }

  const watcher = new IntersectionObserver(entries => {
    for (const {isIntersecting, target} of entries) if (isIntersecting) start(target)
  }, {rootMargin: '400px'})

  for (const box of document.querySelectorAll('.live')) {
    box.hidden = false // without JavaScript it stays away, and the printed figure stands
    box.oninput = () => box.classList.add('live-old') // what stands there, until it is new
    watcher.observe(box)
  }
})()
