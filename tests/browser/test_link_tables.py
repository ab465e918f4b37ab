"""Tables as people use them: rows are links, order and page are in the address, text from outside stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Dashboard, Tab
from tests.conftest import RunningCollector

pytestmark = pytest.mark.browser

SESSIONS = 45
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><b>![x](http://evil.example/a.png)"
SCHEME = "javascript:alert(1)"
TURNED = "abc\u202etxt.exe"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Sessions `session-00` to `session-44`, each with as many errors, and some with names to be afraid of."""
    running = RunningCollector(tmp_path_factory.mktemp("busy")).start()
    failed = {"level": "error", "category": "tool_validation", "tool": "edit", "error_type": "MissingParameterError"}
    entries = [
        failed | {"task_id": f"session-{number:02d}", "message": "no path"}
        for number in range(SESSIONS)
        for _ in range(number + 1)
    ]
    entries += [failed | {"task_id": name, "message": name} for name in (HOSTILE, SCHEME, TURNED)]
    assert running.post("/v1/events", json.dumps(entries)).is_success
    dashboard = Dashboard(running.kept_up())
    yield dashboard
    dashboard.stop()
    running.stop()


def subjects(tab: Tab) -> Locator:
    """The first cell of each row."""
    return tab.page.locator(".link-table [scope=row]")


def headings(tab: Tab, name: str) -> Locator:
    return tab.page.get_by_role("columnheader", name=name)


def opened(busy: Dashboard, tab: Tab, link: str = "") -> None:
    tab.open(f"{busy.url}/sessions?refresh=0{link}", "Sessions")
    expect(subjects(tab).first).to_be_visible()


def test_one_click_anywhere_on_a_row_opens_it_in_the_same_session_and_back_returns(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab)
    tab.page.evaluate("window.same = true")
    tab.page.locator(".link-table tbody tr").nth(1).locator("td").nth(3).click()
    tab.page.wait_for_url(re.compile("/session\\?"))
    assert parse_qs(urlsplit(tab.page.url).query)["session"] == ["session-43"]
    expect(tab.page.get_by_text("session-43").first).to_be_visible()
    assert tab.page.evaluate("window.same")  # no reload
    tab.page.go_back()
    tab.wait("Sessions")
    expect(subjects(tab).first).to_have_text("session-44")
    assert tab.page.evaluate("window.same")
    tab.check()


@pytest.mark.parametrize("how", ["middle", "control"])
def test_a_middle_or_control_click_opens_a_tab(busy: Dashboard, tab: Tab, how: str) -> None:
    opened(busy, tab)
    before = tab.page.url
    cell = tab.page.locator(".link-table tbody tr").nth(2).locator("td").nth(4)
    with tab.page.context.expect_page() as other:
        cell.click(button="middle") if how == "middle" else cell.click(modifiers=["Control"])
    assert parse_qs(urlsplit(other.value.url).query)["session"] == ["session-42"]
    assert urlsplit(other.value.url).path == "/session"
    assert tab.page.url == before


def test_rows_are_links_for_the_keyboard_and_hearers_of_the_page(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab)
    table = tab.page.get_by_role("table", name=re.compile(r"Sessions\. Worst streak: 45 in session session-44"))
    expect(table).to_be_visible()
    rows = table.get_by_role("row")
    assert rows.count() == 21
    assert rows.nth(1).get_by_role("link").count() == 1  # once, not in every cell
    expect(rows.nth(1).get_by_role("rowheader")).to_have_text("session-44")
    expect(rows.nth(1).get_by_role("img")).to_have_accessible_name("45 error")
    link = rows.nth(1).get_by_role("link", name="session-44")
    expect(link).to_have_attribute("href", re.compile(f"^{busy.url}/session\\?.*session=session-44"))
    link.focus()
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "session-43"
    assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(re.compile("session=session-43"))


def test_order_and_page_are_in_the_address_and_are_of_all_rows(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab)
    expect(headings(tab, "streak")).to_have_attribute("aria-sort", "descending")
    expect(tab.page.get_by_text(f"1–20 of {SESSIONS + 3}")).to_be_visible()
    tab.page.get_by_role("link", name="Next →").click()
    expect(tab.page).to_have_url(re.compile(r"page=2"))
    expect(subjects(tab).first).to_have_text("session-24")
    headings(tab, "session").get_by_role("link").click()
    expect(tab.page).to_have_url(re.compile(r"sort=session(&|$)"))
    assert "page=" not in tab.page.url
    expect(headings(tab, "session")).to_have_attribute("aria-sort", "ascending")
    headings(tab, "session").get_by_role("link").click()
    expect(tab.page).to_have_url(re.compile(r"sort=-session"))
    expect(subjects(tab).first).to_have_text("session-44")
    tab.page.go_back()
    expect(tab.page).to_have_url(re.compile(r"sort=session(&|$)"))
    tab.page.go_back()
    expect(subjects(tab).first).to_have_text("session-24")
    shared = tab.page.url
    tab.page.goto("about:blank")
    tab.open(shared, "Sessions")
    expect(subjects(tab).first).to_have_text("session-24")
    tab.check()


def test_text_from_outside_stays_text_and_leads_nowhere_else(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "&rows=200")
    expect(subjects(tab)).to_have_count(SESSIONS + 3)
    shown = subjects(tab).all_inner_texts()
    assert {HOSTILE, SCHEME, "abctxt.exe"} <= set(shown)
    assert tab.page.locator(".link-table :is(img, b, script)").count() == 0
    links = tab.page.locator(".link-table a[href]").evaluate_all("links => links.map(link => link.href)")
    assert all(link.startswith(f"{busy.url}/") for link in links)
    subjects(tab).filter(has_text=SCHEME).click()
    tab.page.wait_for_url(re.compile("/session\\?"))
    assert parse_qs(urlsplit(tab.page.url).query)["session"] == [SCHEME]
    assert "taken" not in tab.page.title()
    tab.check()


def test_text_of_a_row_can_be_marked_and_copied_whole(busy: Dashboard, tab: Tab) -> None:
    opened(busy, tab, "&rows=200")
    cell = subjects(tab).filter(has_text="onerror")
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box
    before, middle = tab.page.url, box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + 9, middle)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] - 4, middle, steps=5)
    tab.page.mouse.up()
    assert HOSTILE.startswith(tab.page.evaluate("String(document.getSelection())")[:20])
    assert len(tab.page.evaluate("String(document.getSelection())")) > 20
    assert tab.page.url == before


@pytest.mark.parametrize("width", [390, 900])
def test_a_narrow_window_scrolls_the_table_and_not_the_page(
    open_tab: Callable[..., Tab], busy: Dashboard, width: int
) -> None:
    tab = open_tab(busy, width, scheme="dark")
    opened(busy, tab)
    tab.check()  # nothing is wider than the window
    box = headings(tab, "errors").bounding_box()
    assert box
    assert box["x"] + box["width"] <= width
