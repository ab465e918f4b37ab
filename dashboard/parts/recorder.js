// A session's calls as lanes over time: what the server has placed, drawn in per cent, so that it fits any width.
const drawn = new WeakMap() // what each place shows, as JSON
const listening = new WeakMap() // what ends each place's listening to keys
const KEYS = { n: "error-after", p: "error-before", ArrowLeft: "before", ArrowRight: "after" }

export default function ({ data, parentElement }) {
  const place = parentElement.querySelector(".recorder")
  place.onclick = clicked
  listen(place)
  const said = JSON.stringify(data)
  if (drawn.get(place) !== said) {
    drawn.set(place, said)
    draw(place, data)
  }
  return () => listening.get(place)?.abort()
}

function draw(place, data) {
  for (const [outcome, colour] of Object.entries(data.colours)) place.style.setProperty(`--${outcome}`, colour)
  const focus = place.contains(document.activeElement) ? document.activeElement.dataset.way : null
  place.replaceChildren(ways(data), ...(data.strip ? [strip(data.strip)] : []), board(data))
  if (focus) place.querySelector(`[data-way="${focus}"]`)?.focus({ preventScroll: true })
}

function clicked(event) {
  const link = event.target.closest("a[href]")
  if (!link || link.target || !plain(event)) return
  event.preventDefault()
  follow(link.href)
}

// n and p lead to the next and previous error wherever the focus is, but where somebody writes; arrows only in here.
function listen(place) {
  listening.get(place)?.abort()
  const ended = new AbortController()
  listening.set(place, ended)
  const key = event => {
    const writing = event.target.closest?.("input, textarea, select, [contenteditable=true], [role=dialog]")
    const inside = place.contains(event.target)
    if (!KEYS[event.key] || writing || !plain(event) || (event.key.length > 1 && !inside)) return
    const link = place.querySelector(`[data-way="${KEYS[event.key]}"][href]`)
    if (!link) return
    event.preventDefault()
    follow(link.href)
  }
  document.addEventListener("keydown", key, { signal: ended.signal })
}

function ways({ ways, place }) {
  const nav = made("nav", "ways")
  nav.setAttribute("aria-label", "Calls and errors")
  for (const { way, label, key, href } of ways) {
    const link = made("a", "", label)
    link.dataset.way = way
    link.title = `Key: ${key}`
    if (href) leading(link, href)
    else link.setAttribute("aria-disabled", "true")
    nav.append(link)
  }
  nav.append(made("span", "", place))
  return nav
}

function strip({ bins, from, to, label }) {
  const box = made("div", "strip")
  box.append(...bins.map(bin => {
    const link = placed(mark(bin), bin)
    link.style.height = `${100 * bin.height}%`
    return link
  }))
  const shown = hidden("", "shown")
  box.append(placed(shown, { from, to }))
  picture(box, label)
  return box
}

function board({ lanes, marks, joins, brackets, folds, ticks, cursor, label }) {
  const board = made("div", "board")
  const tracks = lanes.map(lane => track(board, lane))
  for (const join of joins) {
    const line = placed(hidden("", "join"), join)
    line.style.setProperty("--level", join.level)
    tracks[join.lane].append(line)
  }
  for (const one of brackets) {
    const bracket = placed(mark(one), one)
    bracket.classList.add("bracket", ...(one.inside ? ["inside"] : []))
    bracket.append(made("span", "", one.label))
    tracks[one.lane].append(bracket)
  }
  for (const one of marks) {
    const shape = placed(mark(one), one)
    shape.style.setProperty("--level", one.level)
    if (one.text) shape.append(made("span", "", one.text))
    tracks[one.lane].append(shape)
  }
  const axis = track(board, { kind: "axis", label: "", note: "", depth: 0, levels: 1 })
  axis.append(...ticks.map(tick => placed(made("span", "tick", tick.label), { from: tick.at })))
  board.append(behind(folds, cursor))
  picture(board, label)
  return board
}

// One picture with one sentence: its calls are listed below, as links for the keyboard and for screen readers.
function picture(box, label) {
  box.setAttribute("role", "img")
  box.setAttribute("aria-label", label)
}

function track(board, { kind, label, note, depth, levels }) {
  const name = made("div", `name ${kind}`)
  name.style.setProperty("--depth", depth)
  name.title = note ? `${label}: ${note}` : label
  const said = made("span", "", label)
  said.dir = "auto"
  name.append(said, made("small", "", note))
  const line = made("div", `track ${kind}`)
  line.style.setProperty("--levels", levels)
  board.append(name, line)
  return line
}

function behind(folds, cursor) {
  const box = made("div", "behind")
  box.append(...folds.map(fold => {
    const band = placed(made("span", "fold"), fold)
    band.append(made("span", "", fold.label))
    return band
  }))
  if (cursor) box.append(placed(hidden("", "cursor"), cursor))
  return box
}

function mark({ href, title, outcome, selected }) {
  const link = leading(made("a", `mark ${outcome}`), href)
  link.tabIndex = -1
  link.draggable = false
  link.title = title
  if (selected) link.classList.add("selected")
  return link
}

function placed(element, { from, to = from }) {
  element.style.left = `${100 * from}%`
  element.style.width = `${100 * (to - from)}%`
  return element
}
