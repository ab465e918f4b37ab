"""The head of a page: titles are names, filters are one row, and one button on a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Dashboard, Tab
from tests.conftest import RunningCollector

pytestmark = pytest.mark.browser

SERVICE = "an-agent-with-a-very-long-name"
TOOL = "apply_*diff*_to_every_file"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Over one session with three failed calls."""
    running = RunningCollector(tmp_path_factory.mktemp("busy")).start()
    failed = {"tool": TOOL, "service": SERVICE, "session": "run-1", "outcome": "error", "message": "no such text"}
    calls = [failed | {"error_class": "ContentNotFoundError", "params": {"path": str(number)}} for number in range(3)]
    assert running.post("/v1/events", json.dumps(calls)).is_success
    dashboard = Dashboard(running.kept_up())
    yield dashboard
    dashboard.stop()
    running.stop()


@pytest.mark.parametrize("pages", [2, pytest.param(5, marks=pytest.mark.deep)])
def test_page_and_browser_have_the_name_of_what_the_page_is_about(
    open_tab: Callable[..., Tab], busy: Dashboard, pages: int
) -> None:
    [group] = busy.collector.get("/api/v1/groups")["rows"]
    names = {
        f"tool?{urlencode({'tool': TOOL})}": TOOL,
        f"group?{urlencode({'fingerprint': group['fingerprint']})}": f"ContentNotFoundError in {TOOL}",
        "session?session=run-1": "run-1",
        "streak?session=run-1": "Streak in run-1",
        "tool?tool=a,b": "Tool",  # not one of them
    }
    tab = open_tab(busy, 1440)
    for link, name in islice(names.items(), pages):
        tab.page.goto(f"{busy.url}/{link}")
        expect(tab.page.locator("h1")).to_have_text(name, timeout=60_000)
        expect(tab.page).to_have_title(f"{name} · Misstep")


def test_filters_are_one_row_and_a_chosen_service_stands_there_once(
    open_tab: Callable[..., Tab], busy: Dashboard
) -> None:
    tab = open_tab(busy, 1280)
    tab.open(f"{busy.url}/tools?{urlencode({'service': SERVICE, 'tool': TOOL, 'refresh': '0'})}", "Tools")
    bar = tab.page.locator(".st-key-filters")
    buttons = bar.get_by_role("button")
    expect(buttons.last).to_be_visible()
    boxes = [box for box in (button.bounding_box() for button in buttons.all()) if box]
    assert len({round(box["y"] + box["height"] / 2) for box in boxes}) <= 2  # the range's are lower than others
    assert max(box["y"] for box in boxes) < min(box["y"] + box["height"] for box in boxes)
    assert max(box["x"] + box["width"] for box in boxes) <= 1280
    expect(tab.page.get_by_role("button", name=re.compile("an.agent"))).to_have_count(1)
    tab.check()


def test_on_a_phone_filters_and_menu_fold_after_a_choice(open_tab: Callable[..., Tab], busy: Dashboard) -> None:
    tab = open_tab(busy, 390)
    tab.open(f"{busy.url}/tools?from=-7d&refresh=0", "Tools")
    week = tab.page.get_by_role("radio", name="7d")
    expect(week).to_be_hidden()
    tab.page.get_by_text("Filters · last 7 d").click()
    expect(week).to_be_checked()
    tab.page.get_by_role("radio", name="24h").click()
    expect(tab.page.get_by_text("Filters · last 24 h")).to_be_visible()
    expect(tab.page.get_by_role("radio", name="24h")).to_be_hidden()
    assert "from=" not in tab.page.url
    tab.page.get_by_test_id("stExpandSidebarButton").click()
    sessions = tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Sessions")
    sessions.click()
    tab.wait("Sessions")
    expect(sessions).not_to_be_in_viewport()
    tab.check()
