// What the components have in common. All text comes from outside: it is only ever set as text.
const BASE = window.__streamlit?.BACKEND_BASE_URL ?? document.baseURI

// A plain click stays inside the session; the browser opens tabs, and copies addresses, by itself.
function plain(event) {
  return !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
}

function follow(address) {
  const elsewhere = new URL(address).pathname !== location.pathname
  history.pushState({}, "", address)
  dispatchEvent(new PopStateEvent("popstate"))
  if (elsewhere) document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0)
}

// Links lead to http and https only; other sites open beside this one.
function leading(link, to) {
  const address = new URL(to, BASE)
  if (!["http:", "https:"].includes(address.protocol)) return link
  link.href = address.href
  if (!address.href.startsWith(BASE)) Object.assign(link, { target: "_blank", rel: "noreferrer" })
  return link
}

function give(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
}

function hidden(text, kind = "") {
  const box = made("span", kind, text)
  box.setAttribute("aria-hidden", "true")
  return box
}

function made(name, kind = "", text = "") {
  const element = document.createElement(name)
  if (kind) element.className = kind.trim()
  element.append(text)
  return element
}
