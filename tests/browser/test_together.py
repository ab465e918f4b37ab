"""Search, views, marks, decisions about groups, what is new since the last visit: as people use them in a browser."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Dashboard, Tab
from tests.conftest import HTTP, RunningCollector, wait_until

pytestmark = pytest.mark.browser

SESSION = "0199f2aa-7d31-7c10-bb1e-aa00cafe0001"
HOSTILE = "<img src=x onerror=alert(1)> ![x](http://evil.example/a.png)"
FAILED = {"service": "coder", "service_version": "1.7.2", "tool": "apply_diff", "outcome": "error", "session": SESSION,
          "error_class": "DiffApplyFailedError", "message": "no such hunk in the diff"}  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    running = RunningCollector(tmp_path_factory.mktemp("small")).start()
    others = [{**FAILED, "session": "two", "tool": HOSTILE, "message": f"it broke on {HOSTILE}"}]
    assert running.post("/v1/events", json.dumps([FAILED, {**FAILED, "outcome": "ok"}, *others])).is_success
    dashboard = Dashboard(running.kept_up())
    yield dashboard
    dashboard.stop()
    running.stop()


def widths(*usual: int) -> pytest.MarkDecorator:
    """A test in windows of these widths; of the others only where searches are larger."""
    deep = [pytest.param(width, marks=pytest.mark.deep) for width in (1440, 390) if width not in usual]
    return pytest.mark.parametrize("width", [*usual, *deep])


def asked(tab: Tab) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(tab.page.url).query).items()}


@widths(1440)
def test_a_session_is_found_by_its_beginning_with_the_keyboard_alone(
    open_tab: Callable[..., Tab], small: Dashboard, width: int
) -> None:
    tab = open_tab(small, width)
    page = tab.page
    tab.open(f"{small.url}/errors?from=-7d", "Errors")
    opener = page.get_by_role("button", name="Search", exact=True)
    expect(opener).to_be_visible()
    page.keyboard.press("/")
    box = page.get_by_role("searchbox")
    expect(box).to_be_focused()
    page.keyboard.type(SESSION[:9])
    hits = page.locator(".search-box .found a")
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text(SESSION)
    page.keyboard.press("ArrowDown")
    expect(hits).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/session\?"))
    assert asked(tab) == {"from": "-7d", "session": SESSION, "service": "coder"}
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.go_back()
    tab.wait("Errors")
    expect(opener).to_be_visible()
    page.keyboard.press("Control+k")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    tab.check()


@widths(390)
def test_hostile_names_are_texts_and_hits_are_links_to_copy(
    open_tab: Callable[..., Tab], small: Dashboard, width: int
) -> None:
    tab = open_tab(small, width)
    page = tab.page
    tab.open(f"{small.url}/", "Overview")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("searchbox").fill("onerror")
    hits = page.locator(".search-box .found a")
    expect(hits.filter(has_text=HOSTILE).first).to_be_visible()
    assert page.locator(".search-box img").count() == 0
    addresses = [hit.get_attribute("href") or "" for hit in hits.all()]
    assert addresses
    assert all(address.startswith(small.url) for address in addresses)
    page.get_by_role("searchbox").fill("nothing is called so")
    expect(page.locator(".search-box .said")).to_contain_text("Nothing found.")
    expect(hits).to_have_count(0)
    tab.check()


def test_a_group_is_resolved_in_a_version_and_comes_back_with_a_later_one(
    open_tab: Callable[..., Tab], small: Dashboard
) -> None:
    tab = open_tab(small, height=1200)
    rows = small.collector.get("/api/v1/groups")["rows"]
    group = next(row["fingerprint"] for row in rows if row["tool"] == "apply_diff")
    page, place = tab.page, f"/api/v1/groups/{group}"
    page.goto(f"{small.url}/group?fingerprint={group}")
    expect(page.get_by_role("heading", name="Samples")).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Resolve in").click()
    version = page.get_by_role("combobox", name="The version that mends it")
    version.fill("1.8.0")
    expect(page.get_by_role("option", name="1.8.0")).to_be_visible()
    version.press("Enter")
    expect(page.get_by_role("option")).to_have_count(0)
    page.get_by_test_id("stPopoverBody").get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("Resolved in coder 1.8.0")).to_be_visible()
    assert small.collector.get(place)["state"] == "resolved"
    for version_sent, state in (("1.7.2", "resolved"), ("1.10.0", "regressed")):
        sent = {**FAILED, "service_version": version_sent, "message": "no such hunk in the diff"}
        assert small.collector.post("/v1/events", json.dumps(sent)).is_success
        wait_until(lambda state=state: small.collector.get(place)["state"] == state)  # type: ignore[misc]
    expect(page.get_by_text("seen again in that version or a later one")).to_be_visible()
    tab.check()


def test_a_view_is_saved_in_the_menu_and_leads_back(open_tab: Callable[..., Tab], small: Dashboard) -> None:
    tab = open_tab(small, height=1000)
    page = tab.page
    tab.open(f"{small.url}/errors?from=-7d&tool=apply_diff", "Errors")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_label("A name for this page").fill(HOSTILE[:40])
    page.get_by_role("button", name="Save view").click()
    link = page.get_by_test_id("stSidebar").get_by_role("link", name=re.compile("onerror"))
    expect(link).to_be_visible()
    tab.open(f"{small.url}/tools", "Tools")
    link.click()
    tab.wait("Errors")
    assert asked(tab) == {"from": "-7d", "tool": "apply_diff"}
    tab.check()


def test_a_deploy_from_ci_is_drawn_and_can_be_removed(open_tab: Callable[..., Tab], small: Dashboard) -> None:
    tab = open_tab(small, height=1000)
    page, deploy = tab.page, {"text": "deploy", "service": "coder", "version": "1.8.0", "time": "-10m"}
    assert HTTP.post(f"{small.collector.url}/api/v1/marks", json=deploy).status_code == 201
    tab.open(f"{small.url}/?from=-1h", "Overview")
    page.get_by_role("button", name="Marks").click()
    body = page.get_by_test_id("stPopoverBody")
    expect(body.get_by_text("deploy coder 1.8.0")).to_be_visible()
    body.get_by_label("Mark this moment").fill("the new prompt")
    body.get_by_role("button", name="Add").click()
    expect(body.get_by_text("the new prompt")).to_be_visible()
    body.get_by_role("button", name="Remove").last.click()
    expect(body.get_by_text("deploy coder 1.8.0")).to_have_count(0)
    assert [row["text"] for row in small.collector.get("/api/v1/marks")["rows"]] == ["the new prompt"]
    tab.check()


def test_groups_that_are_new_since_the_last_visit_are_marked(open_tab: Callable[..., Tab], small: Dashboard) -> None:
    tab = open_tab(small, height=1000)
    context = tab.page.context
    tab.open(f"{small.url}/errors", "Errors")
    expect(tab.page.get_by_text("since your last visit")).to_have_count(0)  # the first visit has none before it
    hour_ago = int((time.time() - 3600) * 1000)
    context.add_cookies([{"name": "misstep-seen", "value": str(hour_ago), "url": small.url}])
    tab.open(f"{small.url}/errors", "Errors")  # the visit of an hour ago is over: this is another
    expect(tab.page.get_by_text("new since your last visit, which ended")).to_be_visible()
    expect(tab.page.get_by_text("● DiffApplyFailedError").first).to_be_visible()
    tab.open(f"{small.url}/errors", "Errors")  # and goes on with the next page
    expect(tab.page.get_by_text("new since your last visit, which ended")).to_be_visible()
    context.add_cookies([{"name": "misstep-visited", "value": "1e99<script>", "url": small.url}])
    tab.open(f"{small.url}/errors", "Errors")
    expect(tab.page.get_by_text("since your last visit")).to_have_count(0)
    tab.check()
