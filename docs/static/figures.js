// A click on a figure, or on its button, shows it alone: as large as the window, or as it
// was drawn, whichever is more. Escape, the button and a click on the picture close it.
const FIGURES = `article :is(.cell_output img, p > img:only-child)`

// Without the window's edges; a picture that is smaller than the room grows to fill it
function width(image, room) {
  const {naturalWidth, naturalHeight} = image
  const fits = Math.min(room.clientWidth / naturalWidth, room.clientHeight / naturalHeight)
  return Math.floor(naturalWidth * Math.max(1, 0.97 * fits))
}

function makeWindow() {
  const made = document.createElement('dialog')
  made.className = 'figure-window'
  made.innerHTML = `<header>
      <p id="figure-words" tabindex="0"></p><button>Close</button></header>
    <div class="picture" tabindex="0" role="group" aria-label="The figure"></div>`
  made.setAttribute('aria-labelledby', 'figure-words')
  made.querySelector('button').onclick = () => made.close()
  made.addEventListener('click', event => {
    if (event.target.matches('img, .picture')) made.close()
  })
  made.addEventListener('keydown', event => { if (event.key === 'Escape') made.close() })
  document.body.append(made)
  return made
}

// The paragraph below a figure that says what it shows
function captionOf(image) {
  let box = (image.closest('.cell') ?? image.closest('p')).nextElementSibling
  while (box?.matches('span')) box = box.nextElementSibling // an anchor
  return box?.matches('p.caption') ? box : null
}

function open(image, caption) {
  const shown = document.querySelector('.figure-window') ?? makeWindow()
  const picture = shown.querySelector('.picture')
  const words = caption?.cloneNode(true)
  words?.querySelector('.open-figure').remove()
  shown.querySelector('#figure-words').innerHTML = words?.innerHTML ?? image.alt
  const copy = Object.assign(new Image(), {src: image.src, alt: image.alt})
  picture.replaceChildren(copy)
  shown.showModal()
  copy.decode().then(() => { copy.width = width(copy, picture) }, () => {})
}

function openable(image) {
  const caption = captionOf(image)
  const name = caption?.querySelector('strong')?.textContent.replace(':', '')
  const button = document.createElement('button')
  button.className = 'open-figure'
  button.type = 'button'
  button.textContent = '⤢'
  button.setAttribute('aria-label', `${name ?? 'Picture'} at full size`)
  button.onclick = image.onclick = () => open(image, caption)
  image.classList.add('can-open')
  if (caption) caption.append(' ', button)
  else image.closest('.cell_output, p').after(button)
}

document.addEventListener('DOMContentLoaded', () => {
  for (const image of document.querySelectorAll(FIGURES)) {
    if (!image.closest('a, .live')) openable(image)
  }
})
