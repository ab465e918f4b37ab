// A table whose rows are links.
const SVG = "http://www.w3.org/2000/svg"
const END = 6 // characters of a cut name that stay visible
const HELD = 8000 // ms for which rows stay where they are under a pointer that has moved
const drawn = new WeakMap() // what each place shows: all of it as JSON, and of which view it is
let moved = 0

addEventListener("pointermove", () => { moved = Date.now() }, { passive: true })

export default function ({ data, parentElement }) {
  const place = parentElement.querySelector(".link-table")
  const before = drawn.get(place)
  const now = { said: JSON.stringify(data), view: data.view }
  if (before?.said === now.said) return
  place.onpointerleave = () => draw(place, data, now)
  if (before?.view !== data.view || !place.matches(":hover") || Date.now() - moved > HELD) draw(place, data, now)
}

function draw(place, data, now) {
  drawn.set(place, now)
  place.onpointerleave = null
  const focus = place.contains(document.activeElement) ? document.activeElement.href : null
  const left = place.firstElementChild?.scrollLeft ?? 0
  place.replaceChildren(scroller(data), ...(data.foot ? [foot(data)] : []))
  place.firstElementChild.scrollLeft = left
  if (focus) [...place.querySelectorAll("a[href]")].find(link => link.href === focus)?.focus({ preventScroll: true })
  place.onclick = clicked
  place.onpointerover = reached
}

function clicked(event) {
  const row = event.target.closest("tr, nav")
  const link = event.target.closest("a[href]") ?? row?.querySelector("[scope=row] a[href]")
  if (!link || link.target || !plain(event)) return
  event.preventDefault()
  const selected = document.getSelection()
  if (!selected.isCollapsed && selected.containsNode(row, true)) return // somebody copies
  follow(link.href)
}

// Every cell of the row under the pointer leads where the row leads. Without one, a row is a single link, so that
// neither the keyboard nor a screen reader meets the same link in each cell.
function reached({ target }) {
  const row = target.closest("tr")
  const link = row?.querySelector("[scope=row] > a")
  if (!link || row.dataset.reached) return
  row.dataset.reached = "yes"
  for (const cell of row.querySelectorAll("td > a:not([href])")) {
    cell.href = link.href
    cell.target = link.target
    cell.tabIndex = -1
  }
  row.onpointerleave = () => {
    delete row.dataset.reached
    for (const cell of row.querySelectorAll("td > a[tabindex]")) cell.removeAttribute("href")
  }
}

function scroller(data) {
  const frame = made("div", "frame")
  const table = frame.appendChild(made("table"))
  table.appendChild(made("caption", "", data.caption))
  const head = table.createTHead().insertRow()
  head.append(...data.columns.map(heading))
  table.createTBody().append(...data.rows.map(row => line(row, data.columns)))
  return frame
}

function heading(column) {
  const cell = made("th", column.kind)
  cell.scope = "col"
  cell.title = column.help
  if (column.sorted) cell.setAttribute("aria-sort", column.sorted)
  const label = column.to ? leading(made("a"), column.to) : made("span")
  label.append(column.label)
  if (column.sorted) label.append(hidden(column.sorted === "ascending" ? " ▲" : " ▼"))
  cell.append(label)
  return cell
}

function line({ to, cells }, columns) {
  const row = made("tr")
  cells.forEach((cell, place) => {
    const column = columns[place]
    const box = row.appendChild(made(place ? "td" : "th", `${column.kind} ${column.fills ? "fills" : ""}`))
    if (!place) box.scope = "row"
    const link = box.appendChild(made(to ? "a" : "span"))
    link.draggable = false // so that a drag selects its text
    if (to && !place) leading(link, to)
    link.append(...content(typeof cell === "object" ? cell : { text: cell }, column))
  })
  return row
}

function content(cell, column) {
  const parts = cell.text ? [words(cell.text, column)] : []
  if (cell.depth) parts[0].style.marginInlineStart = `${cell.depth}em`
  if (cell.tone) parts[0].style.color = cell.tone
  if (cell.quiet) parts[0].classList.add("quiet")
  if (cell.share !== undefined) parts.push(bar(cell.share, column.colour))
  if (cell.bars) parts.push(bars(cell, column))
  return parts
}

function words(text, { most, ends }) {
  const letters = [...text]
  const cut = made("span", "cut")
  cut.dir = "auto"
  cut.style.setProperty("--most", most)
  cut.title = letters.length > most / 2 ? text : ""
  if (!ends || letters.length <= 3 * END) return cut.append(text), cut
  cut.classList.add("ends")
  cut.append(made("span", "start", letters.slice(0, -END).join("")), made("span", "", letters.slice(-END).join("")))
  return cut
}

function bar(share, colour) {
  const box = hidden("", "share")
  box.style.setProperty("--share", share)
  if (colour) box.style.setProperty("--colour", colour)
  return box
}

// Bars of the heights 0 to 1, each in its colour.
function bars({ bars, colours, title }, { colour }) {
  const picture = document.createElementNS(SVG, "svg")
  const about = { viewBox: `0 0 ${3 * bars.length} 20`, width: 3 * bars.length, preserveAspectRatio: "none" }
  give(picture, { ...about, role: "img", "aria-label": title })
  bars.forEach((height, place) => {
    if (!height) return
    const box = picture.appendChild(document.createElementNS(SVG, "rect"))
    const size = Math.max(20 * height, 1)
    give(box, { x: place * 3, y: 20 - size, width: 2, height: size, fill: colours?.[place] ?? colour })
  })
  return picture
}

function foot({ foot, caption }) {
  const nav = made("nav")
  nav.setAttribute("aria-label", `Pages of: ${caption}`)
  nav.append(made("span", "", foot.said), ...foot.links.map(({ label, to }) => leading(made("a", "", label), to)))
  return nav
}
