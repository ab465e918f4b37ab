"""The dashboard as a web application: Streamlit, told where it lies, its libraries loaded before anybody comes."""

import gc
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from dashboard import menu
from dashboard.components import NARROW_PX, WIDTH

# Opened at a page's own address, Streamlit would first look for its server below that address: two 404s in the
# browser's console and two round trips. Whatever a proxy puts before it, the last part is the page.
# Wider than this, lines are too long to read; links begin where their headings do, and are not cut.
# Whoever goes through the page by keyboard sees where they are: a grey ground alone is hardly seen.
# The width of the window is known to the page from the start: in a narrow one, tables have fewer columns.
WHERE = """<head><script>
document.cookie = "%s=" + innerWidth + "; path=/; SameSite=Strict"
window.__streamlit = {BACKEND_BASE_URL: location.origin + location.pathname.replace(/\\/(%s)\\/?$/, "/")}
</script><style>
[data-testid=stMainBlockContainer] {max-width: 1800px}
[data-testid=stMain] [data-testid=stPageLink-NavLink] {position: relative; left: -0.5rem}
[data-testid=stMain] [data-testid=stPageLink-NavLink] :is(span, div, p) {white-space: normal}
[data-testid=stApp] :is(a[data-testid], button):focus-visible {outline: 2px solid; outline-offset: -2px}
@media (max-width: %dpx) {[data-testid=stMain] [data-testid=stMainBlockContainer] {padding-inline: 1.5rem}}
</style>"""
INDEX = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
PAGE = INDEX.replace("<head>", WHERE % (WIDTH, "|".join(menu.TITLES), NARROW_PX), 1)


async def index(request: Request) -> HTMLResponse:
    """The document that every page starts from."""
    return HTMLResponse(PAGE, headers={"Cache-Control": "no-cache"})


def warm() -> None:
    """Loads what the first page needs, down to the checks of a first chart.

    What is loaded then stays: Streamlit looks through all objects for garbage after each run of a page or part.
    """
    import polars as pl

    from dashboard import colours, components, shares  # noqa: F401

    rows = pl.DataFrame({"attribution": ["model"], "errors": [1.0], "label": ["1"]})
    json.dumps(shares.share_bar(rows, colours.LIGHT).to_dict())
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def started(app: st.App) -> AsyncIterator[None]:
    """Warms up beside the server, which answers at once."""
    threading.Thread(target=warm, daemon=True).start()
    yield


app = st.App("main.py", lifespan=started, routes=[Route(f"/{name}", index) for name in ("", *menu.TITLES)])
