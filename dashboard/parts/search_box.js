// The search box. All text comes from outside: it is only ever set as text.
const BASE = window.__streamlit?.BACKEND_BASE_URL ?? document.baseURI
const PAUSE_MS = 200 // in typing, until it is asked
const LEAST = 2
const boxes = new WeakMap() // the parts of each place

export default function ({ data, parentElement, setStateValue }) {
  const place = parentElement.querySelector(".search-box")
  const box = boxes.get(place) ?? built(place)
  box.ask = text => setStateValue("q", text)
  box.data = data
  answered(box)
  document.removeEventListener("keydown", box.shortcut)
  document.addEventListener("keydown", box.shortcut)
  return () => { if (!place.isConnected) document.removeEventListener("keydown", box.shortcut) }
}

function built(place) {
  const opener = made("button", "opener")
  opener.append(made("span", "loupe", "⌕"), made("span", "word", "Search"), made("kbd", "", "/"))
  opener.setAttribute("aria-label", "Search")
  opener.setAttribute("aria-keyshortcuts", "/ Meta+K Control+K")
  const dialog = made("dialog")
  dialog.setAttribute("aria-label", "Search")
  const input = made("input")
  Object.assign(input, { type: "search", maxLength: 200, autocomplete: "off", spellcheck: false,
    placeholder: "Id, tool, class, service, model, words of a message" })
  input.setAttribute("aria-label", "Search: an id or its beginning, a name, words of a message")
  const close = made("button", "close", "Esc")
  close.setAttribute("aria-label", "Close")
  const head = made("div", "head")
  head.append(input, close)
  const said = made("p", "said")
  said.setAttribute("role", "status")
  const found = made("div", "found")
  dialog.append(head, found, said)
  place.replaceChildren(opener, dialog)
  const box = { place, dialog, input, said, found, timer: 0 }
  boxes.set(place, box)
  opener.onclick = () => open(box)
  close.onclick = () => dialog.close()
  input.oninput = () => typed(box)
  dialog.onkeydown = event => moved(box, event)
  dialog.onclick = event => event.target === dialog ? dialog.close() : clicked(box, event)
  box.shortcut = event => pressed(box, event)
  return box
}

function open(box) {
  if (!box.dialog.open) box.dialog.showModal()
  box.input.select()
  box.input.focus()
}

// `/` where nobody writes, and ⌘K or Ctrl-K anywhere.
function pressed(box, event) {
  const at = event.composedPath()[0]
  const writes = at instanceof Element && (at.closest("input, textarea, select") || at.isContentEditable)
  const command = (event.metaKey || event.ctrlKey) && !event.altKey && event.key.toLowerCase() === "k"
  const slash = event.key === "/" && !event.metaKey && !event.ctrlKey && !event.altKey && !writes
  if (!command && !slash) return
  event.preventDefault()
  open(box)
}

function typed(box) {
  clearTimeout(box.timer)
  const text = box.input.value.trim()
  if (text.length >= LEAST) box.timer = setTimeout(() => box.ask(text), PAUSE_MS)
  answered(box)
}

function answered(box) {
  const { data, input, found, said } = box
  const text = input.value.trim()
  if (text.length < LEAST) {
    found.replaceChildren()
    said.textContent = ""
  } else if (data?.q !== text) {
    said.textContent = "Searching…" // what was found before stays until then
  } else {
    const kept = found.contains(document.activeElement) ? document.activeElement.href : null
    found.replaceChildren(...(data.found ?? []).map(part))
    said.textContent = data.said ?? ""
    if (kept) ([...links(box)].find(link => link.href === kept) ?? input).focus()
  }
}

function part({ title, more, hits }) {
  const section = made("section")
  const head = made("h3", "", title)
  if (more) head.append(made("span", "more", more))
  const list = made("ul")
  list.append(...hits.map(({ to, name, facts }) => {
    const line = made("li")
    const link = line.appendChild(made("a"))
    const address = new URL(to, BASE)
    if (address.href.startsWith(BASE)) link.href = address.href
    link.append(bidi(made("span", "name", name)), bidi(made("span", "facts", facts)))
    return line
  }))
  section.append(head, list)
  return section
}

function bidi(element) {
  element.dir = "auto"
  return element
}

function links(box) {
  return box.found.querySelectorAll("a[href]")
}

// Arrow keys go through the links, Enter in the box opens the first. No key reaches the page below.
function moved(box, event) {
  event.stopPropagation()
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") event.preventDefault()
  if (event.key === "Escape") { // which a search field would take to empty itself
    event.preventDefault()
    box.dialog.close()
  }
  const all = [...links(box)]
  const at = all.indexOf(document.activeElement)
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (step && all.length) {
    event.preventDefault()
    ;(all[at + step] ?? (step < 0 ? box.input : all[at])).focus()
  } else if (event.key === "Enter" && document.activeElement === box.input) {
    event.preventDefault()
    if (box.data?.q === box.input.value.trim()) all[0]?.click()
  }
}

// The browser opens tabs by itself; a plain click stays inside the session.
function clicked(box, event) {
  const link = event.target.closest("a[href]")
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  event.preventDefault()
  box.dialog.close()
  history.pushState({}, "", link.href)
  dispatchEvent(new PopStateEvent("popstate"))
  document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0)
}

function made(name, kind = "", text = "") {
  const element = document.createElement(name)
  if (kind) element.className = kind
  element.append(text)
  return element
}
