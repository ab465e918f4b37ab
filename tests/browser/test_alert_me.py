"""From a group to a saved rule and a firing alert, as a person does it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests.browser.conftest import Dashboard, Tab
from tests.conftest import RunningCollector
from tests.traffic import rule_file, two_versions

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.deep)])
def test_two_clicks_lead_from_the_overview_to_a_rule_and_whether_it_would_have_paged(
    open_tab: Callable[..., Tab], tmp_path: Path, width: int
) -> None:
    rules = tmp_path / "alerts.yaml"
    rules.write_text(f"# Ours.\n{rule_file()}")
    running = RunningCollector(tmp_path, {"RULES": str(rules)}).start()
    assert running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC)))).is_success
    group = running.kept_up().get("/api/v1/groups", **{"from": "-7d"}, sort="-events", limit=1)["rows"][0]
    title = f"{group['error_class']} in {group['tool']}"
    dashboard = Dashboard(running)
    tab = open_tab(dashboard, width)
    page = tab.page
    tab.open(f"{dashboard.url}/?from=-7d", "Overview")
    page.get_by_role("link", name=re.compile(f"^{group['error_class']} .*new · ")).first.click()
    tab.wait(title)
    page.get_by_role("button", name="Alert me").click()
    expect(page.get_by_text("It would ")).to_be_visible()
    assert "alert=me" in page.url
    expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()
    tab.check()
    page.get_by_text("a day", exact=True).click()
    page.wait_for_timeout(500)
    tab.wait(title)
    page.get_by_label("More than this many errors").fill("0")
    page.get_by_label("More than this many errors").press("Enter")
    expect(page.get_by_text("would have fired")).to_be_visible()
    page.get_by_role("button", name="Save the rule").click()
    watched = page.get_by_role("link", name="Alert: ")
    expect(watched).to_be_visible()
    [_, rule] = yaml.safe_load(rules.read_text())["rules"]
    assert (rule["where"], rule["condition"], rule["window"]) == ({"fingerprint": group["fingerprint"]}, "> 0", "24h")
    watched.click()
    tab.wait("Alerts")
    expect(page.get_by_text(f"■ Firing {rule['name']}")).to_be_visible()
    expect(page.get_by_label("Rule, as YAML")).to_have_css("font-family", re.compile("mono"))
    tab.check()
    dashboard.stop()
    running.stop()
