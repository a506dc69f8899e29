// The book around the page, where there is one: its theme, and links to its chapters
import {$} from './dom.js'

function followTheme() { // that was chosen on the site; otherwise the system's holds
  let theme
  try { theme = localStorage.getItem('mode') }
  catch {} // a frame in a notebook may not look
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
}

function linkChapters() {
  const book = document.querySelector('link[rel=contents]')?.getAttribute('href')
  $('to-book').hidden = book === undefined
  if (book === undefined) return // plain text then
  $('to-book').href = `${book}index.html`
  for (const link of document.querySelectorAll('a[data-chapter]')) {
    link.href = `${book}${link.dataset.chapter}.html`
  }
}

export {followTheme, linkChapters}
