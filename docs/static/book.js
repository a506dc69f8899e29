// What a page of the site can do: its theme, the contents on a phone, the search by Ctrl+K,
// and the section where the reader is. Without it, all of the text is there.
const root = document.documentElement
const MODES = {auto: 'as the system', light: 'light', dark: 'dark'}

function stored() {
  try { return localStorage.getItem('mode') } catch { return null }
}

function store(mode) {
  try { localStorage.setItem('mode', mode) } catch { /* for this page only */ }
}

// `mode` is what was chosen; the theme is what is seen
function applyMode(mode) {
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = mode === 'auto' ? (isDark ? 'dark' : 'light') : mode
}

function themeButton() {
  const button = document.querySelector('button.theme')
  let mode = stored()
  if (!(mode in MODES)) mode = 'auto'
  const show = () => { button.querySelector('span').textContent = MODES[mode] }
  button.onclick = () => {
    const names = Object.keys(MODES)
    mode = names[(names.indexOf(mode) + 1) % names.length]
    store(mode)
    applyMode(mode)
    show()
  }
  matchMedia('(prefers-color-scheme: dark)').onchange = () => applyMode(mode)
  show()
}

// On a phone the contents lie over the page
function menuButton() {
  const button = document.querySelector('button.menu')
  const contents = document.getElementById('contents')
  const open = isOpen => {
    button.setAttribute('aria-expanded', isOpen)
    root.classList.toggle('reading-contents', isOpen)
    if (isOpen) contents.querySelector('a').focus()
    else button.focus()
  }
  const isOpen = () => button.getAttribute('aria-expanded') === 'true'
  button.onclick = () => open(!isOpen())
  contents.addEventListener('click', event => {
    if (isOpen() && event.target.closest('a')) open(false)
  })
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && isOpen()) open(false)
  })
  return open
}

function searchKey(openContents) {
  document.addEventListener('keydown', event => {
    if (event.key !== 'k' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    const input = document.querySelector('.search input')
    if (!input.checkVisibility()) openContents(true)
    input.focus()
    input.select()
  })
}

function named(hash) { // an element, or null, as for #100%
  try { return document.getElementById(decodeURIComponent(hash.slice(1))) }
  catch { return null }
}

// Marks the section that is being read, in the contents
function whereYouAre() {
  const links = new Map()
  for (const link of document.querySelectorAll('.sections a[href^="#"]')) {
    const section = named(link.hash)
    if (section) links.set(section, link)
  }
  const sections = [...links.keys()]
  function mark() {
    const above = sections.filter(s => s.getBoundingClientRect().top < innerHeight / 3)
    const here = links.get(above.at(-1))
    for (const link of links.values()) link.classList.toggle('here', link === here)
  }
  let waits = false
  addEventListener('scroll', () => {
    if (waits) return
    waits = true
    requestAnimationFrame(() => { mark(); waits = false })
  }, {passive: true})
  mark()
}

// The link to this page comes into view in the contents
function showCurrent() {
  const contents = document.getElementById('contents')
  const current = contents.querySelector('[aria-current]')
  if (current) contents.scrollTop = current.offsetTop - contents.clientHeight / 3
}

// What is wider than the page can be scrolled by keyboard
function reachWide() {
  for (const box of document.querySelectorAll('article :is(pre, .table-wrapper, div.math)')) {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0
    else box.removeAttribute('tabindex')
  }
}

// Paper has no clicks
function openForPrint() {
  addEventListener('beforeprint', () => {
    for (const fold of document.querySelectorAll('article details')) fold.open = true
  })
}

// A link into a fold opens it
function openTarget() {
  const target = named(location.hash)
  const fold = target?.closest('details:not([open])')
  if (!fold) return
  fold.open = true
  target.scrollIntoView()
}

document.addEventListener('DOMContentLoaded', () => {
  themeButton()
  searchKey(menuButton())
  whereYouAre()
  showCurrent()
  openForPrint()
  openTarget()
  reachWide()
  addEventListener('resize', reachWide)
  addEventListener('hashchange', openTarget)
})
