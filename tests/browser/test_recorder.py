"""The recorder as people use it: calls are links, keys step through errors, and the address has the selection."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Dashboard, Tab
from tests.conftest import RunningCollector

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
LETTERS = "ooeooeoeoo"  # of the short session; an e is an error


def calls(session: str, letters: str, **about: Any) -> list[dict[str, Any]]:
    """A call a second until now."""
    first = datetime.now(UTC) - timedelta(seconds=len(letters))
    failed = {"outcome": "error", "error_class": "DiffApplyFailedError", "message": "no such hunk"}
    return [
        {"session": session, "tool": "apply_diff", "call_id": f"{session}-{place}", "duration_ms": 300, "outcome": "ok",
         "time": (first + timedelta(seconds=place)).isoformat(), "params": {"path": f"{place}.py"}}
        | (failed if letter == "e" else {}) | about
        for place, letter in enumerate(letters)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    running = RunningCollector(tmp_path_factory.mktemp("recorder")).start()
    sent = [*calls("short", LETTERS), *calls("hostile", "oe", tool=HOSTILE)]
    sent += calls("long", "e" + "o" * 998 + "e" + "o" * 1_000 + "e")
    assert running.post("/v1/events", json.dumps(sent)).is_success
    dashboard = Dashboard(running.kept_up())
    yield dashboard
    dashboard.stop()
    running.stop()


def opened(busy: Dashboard, tab: Tab, session: str, event: str = "") -> None:
    tab.page.goto(f"{busy.url}/session?session={session}&refresh=0{event and '&event=' + event}")
    expect(place(tab)).to_be_visible(timeout=30_000)


def place(tab: Tab) -> Locator:
    """Where the selected call is."""
    return tab.page.locator(".recorder .ways span")


def ids(busy: Dashboard, session: str) -> list[str]:
    rows = busy.collector.get(f"/api/v1/sessions/{session}", columns="outcome")["rows"]
    return [row["event_id"] for row in rows]


def in_step(tab: Tab, number: int, of: int) -> None:
    """Chart, list, detail and address have the same call."""
    expect(place(tab)).to_have_text(re.compile(rf"^Call {number} of {of:,}\b"))
    expect(tab.page.locator(".recorder .mark.selected")).to_have_attribute("title", re.compile(rf"^call {number}: "))
    expect(tab.page.locator(".link-table [scope=row]", has_text="▸")).to_have_text(f"▸ {number}")
    expect(tab.page.get_by_test_id("stJson").get_by_text(f"{number - 1}.py")).to_be_visible()


def event_of(tab: Tab) -> str:
    return parse_qs(urlsplit(tab.page.url).query)["event"][0]


def test_a_call_that_is_selected_is_in_the_address_and_in_what_is_shared(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "short")
    in_step(tab, 3, 10)  # the first error
    tab.page.evaluate("window.same = true")
    tab.page.locator(".recorder .mark").nth(4).click()
    in_step(tab, 5, 10)
    assert event_of(tab) == ids(busy, "short")[4]
    tab.page.locator(".link-table tbody tr").nth(6).click()
    in_step(tab, 7, 10)
    assert tab.page.evaluate("window.same")  # no reload
    tab.page.get_by_role("button", name="Share").click()
    expect(tab.page.get_by_text(f"event={ids(busy, 'short')[6]}").first).to_be_visible()
    tab.page.keyboard.press("Escape")
    tab.page.go_back()
    in_step(tab, 5, 10)
    tab.page.reload()
    in_step(tab, 5, 10)
    tab.check()


def test_keys_and_buttons_step_through_errors_and_calls(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "short")
    in_step(tab, 3, 10)
    for key, number in (("n", 6), ("n", 8), ("p", 6)):
        tab.page.keyboard.press(key)
        in_step(tab, number, 10)
    tab.page.get_by_role("link", name="error →").click()
    in_step(tab, 8, 10)
    tab.page.keyboard.press("n")  # there is no later one
    in_step(tab, 8, 10)
    tab.page.get_by_role("link", name="← call").focus()
    tab.page.keyboard.press("ArrowLeft")
    in_step(tab, 7, 10)
    tab.page.keyboard.press("Enter")
    in_step(tab, 6, 10)
    expect(tab.page.get_by_role("link", name="← call")).to_be_focused()
    tab.check()


def test_a_middle_click_opens_a_call_in_a_tab(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "short")
    with tab.page.context.expect_page() as other:
        tab.page.locator(".recorder .mark").nth(7).click(button="middle")
    assert parse_qs(urlsplit(other.value.url).query)["event"] == [ids(busy, "short")[7]]


def test_a_long_session_shows_where_its_part_is_and_leads_elsewhere(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "long", ids(busy, "long")[1_500])
    expect(place(tab)).to_have_text("Call 1,501 of 2,001")
    assert tab.page.locator(".recorder .track .mark").count() < 300
    expect(tab.page.get_by_role("img", name=re.compile("^The whole session: 2,001 calls, 3 errors"))).to_be_visible()
    tab.page.keyboard.press("p")
    expect(place(tab)).to_have_text("Call 1,000 of 2,001, error 2 of 3")
    tab.page.locator(".recorder .strip .mark").last.click()
    expect(place(tab)).to_have_text("Call 2,001 of 2,001, error 3 of 3")
    tab.check()


def test_texts_of_agents_stay_text(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "hostile")
    expect(tab.page.locator(".recorder .name", has_text="<img src=x")).to_be_visible()
    assert tab.page.locator(".recorder img").count() == 0
    assert "taken" not in tab.page.title()
    tab.check()


@pytest.mark.parametrize("width", [390, 900])
def test_it_fits_narrow_windows(open_tab: Callable[..., Tab], busy: Dashboard, width: int) -> None:
    tab = open_tab(busy, width)
    opened(busy, tab, "long")
    box = tab.page.locator(".recorder .board").bounding_box()
    assert box
    assert box["x"] + box["width"] <= width
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
