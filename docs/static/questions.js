// The questions at the end of a chapter: of each list with its answer in a fold this makes
// radio buttons that say why an answer is right or wrong. Nothing is stored, nobody counts.
const html = text => document.createRange().createContextualFragment(text)

// What follows the letter, by letter, in a list
function byLetter(list) {
  const found = new Map()
  for (const item of list.children) {
    const copy = (item.querySelector(':scope > p') ?? item).cloneNode(true)
    const letter = copy.querySelector('strong')
    letter.remove()
    found.set(letter.textContent, copy.innerHTML.trim())
  }
  return found
}

// Why each answer is right or wrong, by letter
function reasons(fold) {
  const why = byLetter(fold.querySelector('ul'))
  for (const [letter, reason] of why) why.set(letter, `<strong>No.</strong> ${reason}`)
  const right = fold.querySelector('p').cloneNode(true)
  const letter = right.querySelector('strong')
  letter.remove()
  const because = right.innerHTML.trim().replace(/^is right\.\s*/, '')
  why.set(letter.textContent, `<strong>Right.</strong> ${because}`)
  return [why, letter.textContent]
}

function choices(answers, name) {
  return [...answers].map(([letter, text]) =>
    `<label><input type="radio" name="${name}" value="${letter}" autocomplete="off">
     <span>${text}</span></label>`).join('')
}

function ask(question, number) {
  const name = `question-${number}`
  const [why, right] = reasons(question.querySelector('details'))
  question.querySelector('p').id = name
  question.append(html(`<form>
    <fieldset aria-labelledby="${name}">
      ${choices(byLetter(question.querySelector(':scope > ul')), name)}
    </fieldset>
    <button>Check<span class="visually-hidden"> question ${number}</span></button>
    <p class="verdict" role="status"></p>
  </form>`))
  const form = question.querySelector('form')
  const verdict = form.querySelector('.verdict')
  form.onchange = () => { verdict.replaceChildren() }
  form.onsubmit = event => {
    event.preventDefault()
    const chosen = form.querySelector('input:checked')?.value
    verdict.innerHTML = why.get(chosen) ?? 'Choose an answer first.'
    verdict.classList.toggle('right', chosen === right)
  }
}

document.addEventListener('DOMContentLoaded', () => {
  document.querySelectorAll('.question').forEach((question, i) => ask(question, i + 1))
})
