"""A real Chromium and a real dashboard over a real collector, for tests that look at pages as a person does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from dashboard import launch
from tests.conftest import HTTP, RunningCollector, free_port, wait_until

expect.set_options(timeout=20_000)  # beside other tests a page may take longer than the five seconds that are usual
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


@pytest.fixture(scope="module")
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
        wait_until(self._ready, 60)

    def _ready(self) -> bool:
        try:
            return HTTP.get(f"{self.url}/_stcore/health").is_success
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


class Tab:
    """A page of the browser that remembers what went wrong in it and whom it called."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url, host))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
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

    def check(self) -> None:
        """Nothing is broken, cut off at the side, or fetched from elsewhere."""
        assert self.page.get_by_test_id("stException").count() == 0
        assert self.page.get_by_text("failed (id").count() == 0
        assert self.errors == []
        assert self.strangers == []
        overflow = (
            "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth }"
        )
        assert self.page.evaluate(overflow) <= 0
        if self.page.viewport_size and self.page.viewport_size["width"] >= 1440:  # narrower ones scroll their tables
            assert self.page.evaluate(CUT) == []


@pytest.fixture
def tab(browser: Browser, busy: Dashboard) -> Iterator[Tab]:
    """A tab of a large window on the `busy` dashboard of the module."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield Tab(context, busy.url)
    context.close()
