"""A real Chromium and a real dashboard over a real collector, for tests that look at pages as a person does."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, TimeoutError, expect, sync_playwright

from dashboard import launch
from tests.conftest import HTTP, RunningCollector, free_port, wait_until

expect.set_options(timeout=60_000)  # beside other tests a page may take longer than the five seconds that are usual
# The tables that are wider than their frames, each as its headings.
CUT = """() => [...document.querySelectorAll('.link-table .frame')]
    .filter(frame => frame.scrollWidth > frame.clientWidth).map(frame => frame.querySelector('thead').innerText)"""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="package")  # other tests run loops of their own, beside which Playwright's cannot stay
def browser() -> Iterator[Browser]:
    """The system's Chromium, else the one that Playwright fetched."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield chromium
        chromium.close()


class Dashboard:
    """A dashboard process over a collector."""

    def __init__(self, collector: RunningCollector, port: int = 0) -> None:
        self.collector = collector
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = launch.environment(os.environ, collector.url)
        # From another folder than the project's: its settings lie beside it.
        self.process = subprocess.Popen(launch.command(port), env=environment, cwd=collector.folder)
        wait_until(self._ready)

    def _ready(self) -> bool:
        try:
            return HTTP.get(f"{self.url}/_stcore/health").is_success
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


# Texts that WCAG finds too faint for what is behind them: contrast below 4.5, of large ones and icons below 3. Not
# words on marks of charts and on the slider's thumb, which lie beside what they are drawn on.
FAINT = """() => {
    const number = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a] }
    const over = ([r, g, b, a], back) => [r, g, b].map((v, place) => v * a + back[place] * (1 - a))
    const light = colour => colour.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0)
    const lineage = e => { const found = []; for (; e; e = e.parentElement) found.push(e); return found }
    const icon = own => own.fontFamily.includes("Material Symbols")
    const drawn = ".role-axis-label text, .role-axis-title text, .role-legend-label text, .role-title text"
    const seen = e => e.textContent.trim() && e.checkVisibility({opacityProperty: true, visibilityProperty: true})
        && !e.closest(":disabled, [aria-disabled=true], [data-testid=stSlider], .search-box")
    const texts = [...document.querySelectorAll("[data-testid=stApp] :not(svg *, svg, style, script)")]
        .filter(e => [...e.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()))
    return [...texts, ...document.querySelectorAll(drawn)].filter(seen).flatMap(e => {
        const own = getComputedStyle(e), above = lineage(e), drawn = e.namespaceURI.endsWith("svg")
        const first = drawn ? own.fillOpacity : 1
        const opacity = above.reduce((product, each) => product * getComputedStyle(each).opacity, first)
        const back = above.map(each => number(getComputedStyle(each).backgroundColor)).reverse()
            .reduce((behind, layer) => over(layer, behind), [255, 255, 255])
        const [r, g, b, a] = number(drawn ? own.fill : own.color)
        const [dark, bright] = [over([r, g, b, a * opacity], back), back].map(light).sort((one, other) => one - other)
        const contrast = (bright + 0.05) / (dark + 0.05), least = parseFloat(own.fontSize) >= 24 || icon(own) ? 3 : 4.5
        return contrast < least ? [`${e.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`] : []
    })
}"""


class Tab:
    """A page of the browser that remembers what went wrong in it and whom it called, on any host but its own."""

    def __init__(self, page: Page, host: str) -> None:
        self.page = page
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self._listeners: dict[str, Callable[..., None]] = {
            "console": self._heard,
            "pageerror": lambda error: self.errors.append(str(error)),
            "request": lambda request: self._asked(request.url, host),
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)  # type: ignore[call-overload]

    def leave(self) -> None:
        """As if nobody had been here: nothing is remembered, and nothing else is open."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        for other in self.page.context.pages:
            if other != self.page:
                other.close()
        if self.page.url.startswith("http"):
            self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.context.clear_cookies()
        self.page.goto("about:blank")

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" or message.text.startswith("WARN"):  # as Vega's warnings do
            self.errors.append(message.text)

    def _asked(self, url: str, host: str) -> None:
        if urlsplit(url).scheme in {"http", "https"} and not url.startswith(host):
            self.strangers.append(url)

    def open(self, url: str, title: str) -> None:
        self.page.goto(url)
        self.wait(title)

    def wait(self, title: str) -> None:
        """Until the page of that title has run."""
        named = self.page.locator("h1, [data-testid=stCaptionContainer]")
        expect(named.filter(has_text=re.compile(f"^{title}( · |$)")).first).to_be_visible(timeout=60_000)
        for _ in range(2):  # a page that learns the window's width runs again at once
            expect(self.page.locator('[data-test-script-state="notRunning"]')).to_be_attached(timeout=60_000)
            self.page.wait_for_timeout(100)

    def choose(self, label: str | re.Pattern[str], option: str) -> None:
        """Chooses from a list; again if the page was drawn anew meanwhile, which takes the click back."""
        box = self.page.get_by_role("combobox", name=label)
        for _ in range(5):
            with contextlib.suppress(AssertionError, TimeoutError):
                box.click(timeout=10_000)
                self.page.get_by_role("option", name=option, exact=True).click(timeout=10_000)
                return expect(box).to_have_value(option, timeout=10_000)
        raise AssertionError(f"{label}: {option} cannot be chosen")

    def check(self) -> None:
        """Nothing is broken, cut off at the side, or fetched from elsewhere."""
        assert self.page.get_by_test_id("stException").count() == 0
        assert self.page.get_by_text("failed (id").count() == 0
        assert self.errors == []
        assert self.strangers == []
        self._settled()
        overflow = (
            "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth }"
        )
        assert self.page.evaluate(overflow) <= 0
        if self.page.viewport_size and self.page.viewport_size["width"] >= 1440:  # narrower ones scroll their tables
            assert self.page.evaluate(CUT) == []

    def _settled(self) -> None:
        """No text is too faint, once what fades in has done so."""
        for _ in range(30):
            if not (faint := self.page.evaluate(FAINT)):
                return
            self.page.wait_for_timeout(100)
        assert faint == []


@pytest.fixture(scope="package")
def page(browser: Browser) -> Page:
    """The one tab of most tests, one after the other: a new one takes longer than what they look at."""
    opened = browser.new_context().new_page()
    opened.set_default_timeout(60_000)
    return opened


@pytest.fixture
def open_tab(page: Page) -> Iterator[Callable[..., Tab]]:
    """Opens the tab on a dashboard, in a window of that width and height and in that theme."""
    opened: list[Tab] = []

    def open_it(dashboard: Dashboard, width: int = 1440, height: int = 900, scheme: str = "light") -> Tab:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        opened.append(Tab(page, dashboard.url))
        return opened[-1]

    yield open_it
    for tab in opened:
        tab.leave()


@pytest.fixture
def tab(open_tab: Callable[..., Tab], busy: Dashboard) -> Tab:
    """A large window on the `busy` dashboard of the module."""
    return open_tab(busy)
