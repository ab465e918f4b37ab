"""The dashboard as a person sees it: a real Chromium on a real dashboard over a real collector with demo traffic."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import polars as pl
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from dashboard import launch, menu, sentences, start
from tests.conftest import RunningCollector, free_port, misstep, wait_until
from tests.traffic import storm, two_versions

pytestmark = pytest.mark.browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MENU = [title for group in menu.MENU.values() for _, title in group]
DETAILS = list(menu.DETAILS.values())
LOOKS = [(1440, "light"), (900, "dark")]
HOSTILE = "![x](http://evil.example/a.png) :material/bolt: http://evil.example/b"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, else the one that Playwright fetched."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield chromium
        chromium.close()


class Dashboard:
    """A dashboard process over a collector."""

    def __init__(self, collector: RunningCollector) -> None:
        self.collector = collector
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = launch.environment(os.environ, collector.url) | {"MISSTEP_OTLP_URL": collector.url}
        # From another folder than the project's: its settings lie beside it.
        self.process = subprocess.Popen(launch.command(port), env=environment, cwd=collector.folder)
        wait_until(self._ready, 60)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/_stcore/health").is_success
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Over the demo's agents and one whose tool has a hostile name."""
    folder = tmp_path_factory.mktemp("busy")
    running = RunningCollector(folder).start()
    assert misstep("demo", "--to", running.url, "--sessions", "20", "--seed", "3", cwd=folder).returncode == 0
    entry = {"level": "error", "category": "tool_validation", "tool": HOSTILE, "error_type": "MissingParameterError"}
    answer = running.post("/v1/events", json.dumps(entry | {"message": HOSTILE, "task_id": HOSTILE}))
    assert answer.is_success, answer.text
    assert running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC)))).is_success
    assert running.post("/v1/events", json.dumps(storm(datetime.now(UTC)))).is_success
    dashboard = Dashboard(running)
    yield dashboard
    dashboard.stop()
    running.stop()


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
        expect(self.page.locator("h1")).to_have_text(title, timeout=30_000)
        expect(self.page.locator('[data-test-script-state="notRunning"]')).to_be_attached(timeout=30_000)
        self.page.wait_for_timeout(500)

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


@pytest.fixture
def tab(browser: Browser, busy: Dashboard) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield Tab(context, busy.url)
    context.close()


def details(busy: Dashboard) -> dict[str, dict[str, str]]:
    """What the pages of one tool, group and session are opened with."""
    group = busy.collector.get("/api/v1/groups", **{"from": "-7d"}, sort="-events", limit=1)["rows"][0]
    session = busy.collector.get("/api/v1/sessions", **{"from": "-7d"}, limit=1)["rows"][0]
    tool = busy.collector.get("/api/v1/breakdown", **{"from": "-7d"}, by="tool", operation="tool")["rows"][0]
    return {
        "Tool": {"tool": tool["tool"]},
        "Group": {"fingerprint": group["fingerprint"]},
        "Session": {"session": session["session"], "service": session["service"]},
        "Streak": {"session": session["session"], "service": session["service"]},
    }


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("title", [*MENU, *DETAILS])
def test_every_page_is_whole_at_every_width_and_in_both_themes(
    browser: Browser, busy: Dashboard, tmp_path: Path, title: str, width: int, scheme: str
) -> None:
    link = {"from": "-7d"} | details(busy).get(title, {})
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    tab = Tab(context, busy.url)
    place = "" if title == "Overview" else next(name for name, named in menu.TITLES.items() if named == title)
    tab.open(f"{busy.url}/{place}?{urlencode(link)}", title)
    tab.page.screenshot(path=tmp_path / f"{title.lower()}-{width}-{scheme}.png", full_page=True)
    tab.check()
    context.close()


def test_the_menu_keeps_the_filters_and_back_restores_them(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    tab.page.get_by_role("radio", name="7d").click()
    expect(tab.page).to_have_url(re.compile(r"from=-7d"))
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Tools").click()
    tab.wait("Tools")
    assert parse_qs(urlsplit(tab.page.url).query) == {"from": ["-7d"]}
    expect(tab.page.get_by_role("radio", name="7d")).to_be_checked()
    tab.page.go_back()
    tab.wait("Overview")
    tab.check()


def test_which_tool_should_we_fix_first(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    asked = {"by": "tool", "operation": "tool", "sort": "-lasting", "limit": 1}
    [worst] = busy.collector.get("/api/v1/retries", **asked)["rows"]
    tab.page.get_by_test_id("stMain").get_by_role("link", name=re.compile(f"^{worst['tool']}.*lasting")).click()
    tab.wait("Tool")
    expect(tab.page.get_by_role("heading", name=worst["tool"])).to_be_visible()
    tab.check()


def test_did_version_3_2_make_it_worse(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/?from=-7d&service=coder", "Overview")
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Compare").click()
    tab.wait("Compare")
    main = tab.page.get_by_test_id("stMain")
    expect(main.get_by_text("3.1 → 3.2")).to_be_visible()
    expect(main.get_by_text(re.compile("^Error rate: ▲ Worse"))).to_be_visible()
    tab.check()


def test_is_a_mistake_limit_of_3_right_for_us(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Streaks").click()
    tab.wait("Streaks")
    rows = busy.collector.get("/api/v1/streaks/limits", scope="session", kind="mistake")["rows"]
    said = sentences.limit(3, next(row for row in rows if row["mistake_limit"] == 3)).replace("**", "")
    expect(tab.page.get_by_test_id("stMain").get_by_text(said.replace("\u00a0", " "))).to_be_visible()
    tab.check()


def test_is_that_rate_limit_storm_over(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    row = tab.page.get_by_test_id("stMain").get_by_role("link", name=re.compile("^Storm of RateLimitError"))
    expect(row.first).to_contain_text("ended")
    row.first.click()
    tab.wait("Retries")
    expect(tab.page.get_by_role("heading", name="Storms")).to_be_visible()
    tab.check()


def test_a_view_is_sent_to_a_colleague_with_times_that_stay(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/tools?tool=apply_diff", "Tools")
    tab.page.get_by_role("button", name="Share").click()
    link = tab.page.get_by_test_id("stCode").first
    expect(link).to_contain_text("tool=apply_diff")
    told = parse_qs(urlsplit(link.inner_text().strip()).query)
    assert {"from", "to", "tool"} == set(told)
    assert (datetime.fromisoformat(told["to"][0]) - datetime.fromisoformat(told["from"][0])).days == 1
    assert "$MISSTEP_TOKEN" in tab.page.get_by_test_id("stCode").last.inner_text()
    tab.check()


def test_what_is_shown_is_downloaded_as_csv_and_parquet(busy: Dashboard, tab: Tab, tmp_path: Path) -> None:
    tab.open(f"{busy.url}/sessions?from=-7d", "Sessions")
    tab.page.get_by_role("button", name="Share").click()
    rows = busy.collector.get("/api/v1/sessions", **{"from": "-7d"}, limit=500)["rows"]
    for name, read in (("CSV", pl.read_csv), ("Parquet", pl.read_parquet)):
        with tab.page.expect_download() as waiting:
            tab.page.get_by_role("button", name=name, exact=True).click()
        file = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(file)
        frame = read(file)
        assert sorted(frame["session"]) == sorted(row["session"] for row in rows)
        assert frame["errors"].sum() == sum(row["errors"] for row in rows)
    tab.check()


def test_quick_filters_are_filters_of_the_link(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/errors?from=-7d", "Errors")
    tab.page.get_by_role("button", name="Mistakes only").click()
    expect(tab.page).to_have_url(re.compile("mistake=true"))
    tab.page.get_by_role("button", name="Not the model's fault").click()
    expect(tab.page).to_have_url(re.compile("attribution=%21model|attribution=!model"))
    tab.page.get_by_role("button", name="Mistakes only").click()
    expect(tab.page).not_to_have_url(re.compile("mistake=true"))
    tab.check()


def test_a_brush_zooms_and_zooming_out_leads_back(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    tab.page.get_by_role("heading", name="Errors over time").scroll_into_view_if_needed()
    chart = tab.page.locator(".st-key-errors, [class*=st-key-errors-]").get_by_test_id("stVegaLiteChart")
    box = chart.first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] * 0.6
    tab.page.mouse.move(box["x"] + box["width"] * 0.4, y)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=8)
    tab.page.mouse.up()
    expect(tab.page).to_have_url(re.compile("from=20.*to=20"), timeout=10_000)
    tab.page.get_by_role("button", name="Zoom out").click()
    expect(tab.page).not_to_have_url(re.compile("from="))
    tab.check()


def test_a_time_zone_of_the_readers_choice_stays_in_the_link(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/live", "Live")
    tab.page.get_by_role("button", name="⋯").click()
    tab.page.get_by_role("combobox", name=re.compile("Time zone")).fill("UTC")
    tab.page.get_by_role("option", name="UTC", exact=True).click()
    expect(tab.page).to_have_url(re.compile("tz=UTC"))
    tab.check()


def test_a_chip_removes_its_filter(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/errors?from=-7d&outcome=error&error_class=!TimeoutError", "Errors")
    tab.page.get_by_role("button", name="class ≠ TimeoutError").click()
    expect(tab.page).to_have_url(re.compile(r"/errors\?from=-7d&outcome=error$"))
    tab.check()


def test_text_of_an_agent_makes_no_image_link_or_icon(busy: Dashboard, tab: Tab) -> None:
    for place, title, link in [
        ("", "Overview", {}),
        ("tools", "Tools", {}),
        ("tool", "Tool", {"tool": HOSTILE.replace("!", r"\!")}),
        ("session", "Session", {"session": HOSTILE.replace("!", r"\!")}),
        ("errors", "Errors", {"tool": HOSTILE.replace("!", r"\!")}),
    ]:
        tab.open(f"{busy.url}/{place}?{urlencode({'from': '-7d'} | link)}", title)
        main = tab.page.get_by_test_id("stMain")
        assert main.locator('img[src*="evil"], a[href^="http://evil"]').count() == 0
        assert main.get_by_text("bolt", exact=True).count() == 0
        tab.check()


def test_the_first_event_appears_by_itself_within_five_seconds(browser: Browser, tmp_path: Path) -> None:
    running = RunningCollector(tmp_path).start()
    dashboard = Dashboard(running)
    try:
        tab = Tab(browser.new_context(), dashboard.url)
        tab.open(dashboard.url, "Overview")
        expect(tab.page.get_by_text("Nothing received yet. Point an agent here:")).to_be_visible()
        line = start.AGENTS["curl"][0].format(http=running.url)
        sent = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        assert "partialSuccess" not in sent.stdout, sent.stdout
        expect(tab.page.get_by_text("MissingParameterError")).to_be_visible(timeout=5_000)
        tab.check()
        [event] = running.events()
        assert event["error_class"] == "MissingParameterError"
        assert event["params"]["password"].startswith("[redacted:")
    finally:
        dashboard.stop()
        running.stop()
