"""The dashboard as a web application: Streamlit, told its own address, with its libraries loaded at start."""

import gc
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from dashboard import launch, menu
from dashboard.access import sign_in
from dashboard.access.host_guard import Callers, names
from dashboard.access.sign_in_return import Back
from dashboard.page import NARROW_PX, VISITED, WIDTH

# The script sets Streamlit's base URL: opened at a page's own address, it would first look for its server below that
# address, which costs two round trips and two 404s in the browser's console. The last part of the path is always the
# page, whatever prefix a proxy adds. The cookie tells the server the window's width: narrow ones get fewer columns.
# Two more tell when a page was looked at last, and when the visit before this one ended: a visit ends when no page has
# been looked at for half an hour.
# Where the menu lies over the page, it closes after a choice.
# The style limits the width, since longer lines are hard to read; puts the search box beside the title, above
# Streamlit's own bar; aligns links with their headings and wraps them; greys what is out of date at once after a
# second, since a browser that fades it draws the page sixty times a second while the new answers come in; shows YAML
# that is edited in the font of code; outlines what has the keyboard focus, since a grey background alone is hard to
# see; and gives small grey text, the words of charts and code a contrast of at least 4.5:1.
# The theme that a person chose counts on every page: Streamlit remembers one for each address.
WHERE = """<head><script>
{
  const theme = localStorage.getItem("misstep-theme")
  if (theme) localStorage.setItem(`stActiveTheme-${location.pathname}-v2`, JSON.stringify(theme))
}
document.cookie = "%s=" + innerWidth + "; path=/; SameSite=Strict"
{
  const [SEEN, SINCE, PAUSE_MS] = ["misstep-seen", "%s", 30 * 60 * 1000]
  const cookie = (name, value) => document.cookie = `${name}=${value}; path=/; SameSite=Strict; max-age=31536000`
  const seen = Number(document.cookie.match(`(?:^|; )${SEEN}=([0-9]+)`)?.[1] ?? 0)
  const looks = () => document.hidden || cookie(SEEN, Date.now())
  if (seen && Date.now() - seen > PAUSE_MS) cookie(SINCE, seen)
  looks()
  setInterval(looks, 60 * 1000)
  document.addEventListener("visibilitychange", looks)
}
addEventListener("click", ({target}) => {
  if (innerWidth < %d && target.closest?.("[data-testid=stSidebar] a"))
    document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click()
})
window.__streamlit = {BACKEND_BASE_URL: location.origin + location.pathname.replace(/\\/(%s)\\/?$/, "/")}
</script><style>
[data-testid=stMainBlockContainer] {max-width: 1800px; position: relative}
[data-testid=stApp] .st-key-search {position: absolute; top: 1.5rem; right: 5rem; width: auto; z-index: 999991}
[data-testid=stApp] .st-key-quick [role=group] {flex-wrap: wrap}
[data-testid=stMain] h1 {padding-right: 8rem}
[data-testid=stMain] [data-testid=stPageLink-NavLink] {position: relative; left: -0.5rem}
[data-testid=stMain] [data-testid=stPageLink-NavLink] :is(span, div, p) {white-space: normal}
[data-testid=stApp] [data-testid=stCaptionContainer] {opacity: 0.66}
[data-testid=stApp] [data-testid=stCaptionContainer] code {color: inherit; font-size: 0.92em}
[data-testid=stApp] .vega-embed :is(.role-axis-label, .role-axis-title, .role-legend-label, .role-title) text {
  fill: currentColor; fill-opacity: 0.7
}
[data-testid=stCode] .token {color: inherit}
[class*=st-key-yaml] textarea {font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace}
[data-testid=stElementContainer][data-stale=true] {transition: opacity 0s 1s}
[data-testid=stApp] :is(a[data-testid], button):focus-visible {outline: 2px solid; outline-offset: -2px}
@media (min-width: 1280px) {
  [data-testid=stApp] .st-key-filters {flex-wrap: nowrap; gap: 0.4rem}
  [data-testid=stApp] .st-key-filters > * {flex-shrink: 0}
  [data-testid=stApp] .st-key-filters > :is(.st-key-open-service, .st-key-open-tool, .st-key-message-text) {
    flex-shrink: 1; min-width: 4rem
  }
  [data-testid=stApp] .st-key-filters button {
    padding-inline: 0.5rem; white-space: nowrap; max-width: 100%%; overflow: hidden
  }
}
@media (max-width: 1600px) {
  [data-testid=stMain] [data-testid=stMainBlockContainer] {padding-inline: 2.5rem}
  [data-testid=stApp] .st-key-search {right: 2.5rem}
}
@media (max-width: %dpx) {
  [data-testid=stMain] [data-testid=stMainBlockContainer] {padding-inline: 1.5rem}
  [data-testid=stApp] .st-key-search {right: 1.5rem}
}
</style>"""
MENU_OVER_PX = 768  # in narrower windows, Streamlit draws the menu over the page
INDEX = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
PAGE = INDEX.replace("<head>", WHERE % (WIDTH, VISITED, MENU_OVER_PX, "|".join(menu.TITLES), NARROW_PX), 1)


async def index(request: Request) -> HTMLResponse:
    """The HTML document of every page."""
    return HTMLResponse(PAGE, headers={"Cache-Control": "no-cache"})


async def first(request: Request) -> RedirectResponse:
    """Leads to the first page, which Streamlit knows by no name; relative, since a proxy may add a prefix."""
    place = "../" if request.url.path.endswith("/") else "./"
    return RedirectResponse(f"{place}?{request.url.query}" if request.url.query else place)


def warm() -> None:
    """Loads what the first page needs, including what checks a chart.

    The garbage collector then leaves these objects out: Streamlit runs it after each run of a page or part.
    """
    import polars as pl

    from dashboard.charts import colours, proportions
    from dashboard.parts import components  # noqa: F401

    rows = pl.DataFrame({"attribution": ["model"], "errors": [1.0], "label": ["1"]})
    json.dumps(proportions.share_bar(rows, colours.LIGHT).to_dict())
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def started(app: st.App) -> AsyncIterator[None]:
    """Warms up in a thread, so that the server answers at once."""
    threading.Thread(target=warm, daemon=True).start()
    yield


HOSTS = names(
    st.get_option("server.address") or "",
    launch.listed(os.environ, "MISSTEP_ALLOWED_HOSTS"),
    signs_in=sign_in.AT_START,
)
app = st.App(
    "main.py",
    lifespan=started,
    routes=[
        *(Route(f"/{menu.FIRST}{end}", first) for end in ("", "/")),
        *(Route(f"/{name}", index) for name in ("", *menu.TITLES)),
    ],
    middleware=[Middleware(Callers, allowed=HOSTS), Middleware(Back)],
)
