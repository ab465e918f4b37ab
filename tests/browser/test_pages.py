"""The dashboard as a person sees it: a real Chromium on a real dashboard over a real collector with demo traffic."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import polars as pl
import pytest
from _pytest.mark import ParameterSet
from PIL import Image
from playwright.sync_api import Browser, Locator, expect

from dashboard import menu
from dashboard.charts import colours
from dashboard.data import agents
from dashboard.parts import sentences, words
from tests.browser.conftest import Dashboard, Tab
from tests.conftest import RunningCollector, misstep
from tests.traffic import storm, two_versions

pytestmark = pytest.mark.browser

MENU = [title for group in menu.MENU.values() for _, title in group]
DETAILS = list(menu.DETAILS.values())
LOOKS = [(1440, "light"), (900, "dark")]
HOSTILE = "![x](http://evil.example/a.png) :material/bolt: http://evil.example/b"


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
    dashboard = Dashboard(running.kept_up())
    yield dashboard
    dashboard.stop()
    running.stop()


@pytest.fixture(scope="module")
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


@pytest.mark.timeout(600)  # six pages, on machines that are busy otherwise
@pytest.mark.parametrize(("first", "width", "scheme"), [(place, *look) for place, look in enumerate(LOOKS)])
def test_every_page_of_the_menu_is_whole(
    open_tab: Callable[..., Tab], busy: Dashboard, first: int, width: int, scheme: str
) -> None:
    """Each in one look, widths and themes by turns, opened from the menu."""
    tab = open_tab(busy, width, scheme=scheme)
    tab.open(f"{busy.url}/health?from=-7d&refresh=0", "Health")
    for title in MENU[first :: len(LOOKS)]:
        tab.page.get_by_test_id("stSidebar").get_by_role("link", name=title).click()
        expect(tab.page).to_have_title(f"{title} · Misstep")
        tab.wait(title)
        tab.check()


def looks() -> Iterator[ParameterSet]:
    """Details in one look, widths and themes by turns; all pages in all looks where searches are larger."""
    for number, title in enumerate([*DETAILS, *MENU]):
        for place, (width, scheme) in enumerate(LOOKS):
            marks = [] if title in DETAILS and number % len(LOOKS) == place else [pytest.mark.deep]
            yield pytest.param(title, width, scheme, marks=marks)


@pytest.mark.parametrize(("title", "width", "scheme"), [*looks()])
def test_every_page_is_whole_at_every_width_and_in_both_themes(
    open_tab: Callable[..., Tab],
    busy: Dashboard,
    details: dict[str, dict[str, str]],
    title: str,
    width: int,
    scheme: str,
) -> None:
    tab, link = open_tab(busy, width, scheme=scheme), {"from": "-7d"} | details.get(title, {})
    place = "" if title == "Overview" else next(name for name, named in menu.TITLES.items() if named == title)
    tab.open(f"{busy.url}/{place}?{urlencode(link)}", title)
    named = tab.page.locator("h1").inner_text()
    expect(tab.page).to_have_title(f"{named} · Misstep")
    assert (named == title) == (title not in details)
    tab.check()


def test_small_grey_text_can_be_read_in_the_theme_that_is_chosen(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/sources?from=-7d", "Sources")
    assert tab.page.locator("[data-testid=stCaptionContainer] code").count()
    tab.check()
    switch = tab.page.get_by_role("group", name="Theme")
    expect(switch.get_by_role("button", name="auto")).to_have_attribute("aria-pressed", "true")
    switch.get_by_role("button", name="dark").click()
    expect(tab.page.get_by_test_id("stApp")).to_have_css("background-color", "rgb(20, 22, 26)")
    tab.wait("Sources")
    tab.check()
    tab.open(f"{busy.url}/tools?from=-7d", "Tools")  # it counts on every page
    expect(tab.page.get_by_test_id("stApp")).to_have_css("background-color", "rgb(20, 22, 26)")
    tab.check()


def test_counts_in_tables_are_written_as_elsewhere_whatever_the_browsers_language(
    browser: Browser, busy: Dashboard, tab: Tab
) -> None:
    many = [{"tool": "often", "outcome": "ok", "session": "often"}] * 1_234
    assert busy.collector.post("/v1/events", json.dumps(many)).is_success
    with browser.new_context(locale="de-DE") as context:
        for each in (tab, Tab(context.new_page(), busy.url)):
            each.open(f"{busy.url}/tools?{urlencode({'tool': 'often'})}", "Tools")
            expect(each.page.locator(".link-table td.number").first).to_have_text("1,234")


def test_a_new_group_is_told_in_one_line(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/?from=-7d&refresh=0", "Overview")
    told = tab.page.get_by_test_id("stPageLink-NavLink").filter(has_text=re.compile(r"(new|regressed) · .+ events?\b"))
    expect(told.first).to_be_visible()
    boxes = [row.bounding_box() for row in told.all()]
    assert all(box and box["height"] < 36 for box in boxes)  # two lines are 49


def test_the_menu_keeps_the_filters_and_back_restores_them(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    tab.page.get_by_role("radio", name="7d").click()
    expect(tab.page).to_have_url(re.compile(r"from=-7d"))
    tools = tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Tools")
    expect(tools).to_have_attribute("href", re.compile(r"from=-7d"))
    tools.click()
    tab.wait("Tools")
    assert parse_qs(urlsplit(tab.page.url).query) == {"from": ["-7d"]}
    expect(tab.page.get_by_role("radio", name="7d")).to_be_checked()
    tab.page.go_back()
    tab.wait("Overview")
    tab.check()


@pytest.mark.parametrize("titles", [
    ("Errors", "Retries", "Errors"),
    pytest.param(("Errors", "Streaks", "Retries", "Sessions", "Errors"), marks=pytest.mark.deep),
])  # fmt: skip
def test_the_bar_shows_what_it_filters_by_on_every_page_of_the_menu(
    busy: Dashboard, tab: Tab, titles: tuple[str, ...]
) -> None:
    tab.open(f"{busy.url}/tools?from=-7d&refresh=0", "Tools")
    text, week = tab.page.get_by_placeholder("In the message"), tab.page.get_by_role("radio", name="7d")
    text.fill("e")
    text.press("Enter")
    expect(tab.page).to_have_url(re.compile("q=e"))
    for title in titles:
        tab.page.get_by_test_id("stSidebar").get_by_role("link", name=title).click()
        tab.wait(title)
        expect(week).to_be_checked()
        expect(text).to_have_value("e")
    tab.page.get_by_role("radio", name="30d").click()
    expect(tab.page).to_have_url(re.compile("from=-30d"))
    text.fill("")
    text.press("Enter")
    expect(tab.page).not_to_have_url(re.compile("q="))
    expect(tab.page.get_by_role("radio", name="30d")).to_be_checked()
    tab.check()


def test_a_link_to_the_same_page_changes_the_address_and_back_undoes_it(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/tools?tool=nosuch&from=-7d", "Tools")
    main = tab.page.get_by_test_id("stMain")
    main.get_by_role("link", name="Remove tool →").click()
    expect(tab.page).to_have_url(f"{busy.url}/tools?from=-7d")
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Errors").click()
    tab.wait("Errors")
    tab.page.go_back()
    tab.wait("Tools")
    expect(tab.page).to_have_url(f"{busy.url}/tools?from=-7d")
    tab.page.go_back()
    expect(tab.page).to_have_url(re.compile("tool=nosuch"))
    expect(main.get_by_role("link", name="Remove tool →")).to_be_visible()
    tab.check()


def test_every_link_and_button_is_reached_and_marked_by_keyboard(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/?from=-7d&refresh=0", "Overview")
    links = tab.page.get_by_test_id("stPageLink-NavLink")
    for part in ("Fix first", "What changed", "New and regressed groups", "Right now"):
        expect(tab.page.get_by_role("heading", name=part)).to_be_visible(timeout=60_000)
    expect(links).not_to_have_count(0)
    tab.wait("Overview")
    marked = """() => {
        const e = document.activeElement
        return [e.tagName === 'BUTTON' ? 'button' : e.dataset.testid, getComputedStyle(e).outlineStyle]
    }"""
    found = []
    for _ in range(3 * links.count()):
        tab.page.keyboard.press("Tab")
        found.append(tab.page.evaluate(marked))
    assert found.count(["stPageLink-NavLink", "solid"]) >= links.count()
    assert ["stPageLink-NavLink", "none"] not in found
    assert ["button", "solid"] in found
    assert ["button", "none"] not in found


def test_which_tool_should_we_fix_first(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    asked = {"by": "tool", "operation": "tool", "sort": "-lasting,-not_known_yet,-errors", "limit": 1}
    [worst] = busy.collector.get("/api/v1/retries", **asked)["rows"]
    named = re.compile(rf"^[█▒▁\s]*{worst['tool']}\s.*lasting")
    tab.page.get_by_test_id("stMain").get_by_role("link", name=named).click()
    tab.wait("Tool")
    expect(tab.page.get_by_role("heading", name=worst["tool"])).to_be_visible()
    tab.check()


def test_why_did_this_session_fail(busy: Dashboard, tab: Tab) -> None:
    now = datetime.now(UTC)
    call = {"service": "nightly", "tool": "run_tests", "session": "night-1"}
    failed = {"outcome": "error", "error_class": "CommandTimeoutError", "message": "no answer in 60 s"}
    calls = [
        call | {"outcome": "ok", "time": (now - timedelta(hours=5)).isoformat()},
        call | failed | {"time": (now - timedelta(hours=4, minutes=59)).isoformat()},
        call | {"outcome": "ok", "session": "night-2", "time": (now - timedelta(hours=1)).isoformat()},
    ]
    assert busy.collector.post("/v1/events", json.dumps(calls)).is_success
    busy.collector.kept_up()
    tab.open(f"{busy.url}/", "Overview")
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Sessions", exact=True).click()
    tab.wait("Sessions")
    tab.page.get_by_role("radio", name="ended in error").click()
    expect(tab.page).to_have_url(re.compile("state=error"))
    tab.page.get_by_test_id("stMain").get_by_role("link", name="night-1", exact=True).click()
    tab.wait("night-1")
    main = tab.page.get_by_test_id("stMain")
    expect(main.get_by_text("Ended in an unrepaired CommandTimeoutError after 2 calls")).to_be_visible()
    expect(main.get_by_text("That was its last call, run_tests.")).to_be_visible()
    expect(main.get_by_text("no answer in 60 s")).to_be_visible()
    tab.check()


def test_which_model_makes_most_mistakes_and_what_did_it_cost(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/", "Overview")
    main = tab.page.get_by_test_id("stMain")
    [cost] = busy.collector.get("/api/v1/costs")["rows"]
    said = sentences.failing_cost(cost).replace("**", "").replace("\u00a0", " ")
    expect(main.get_by_text(said)).to_be_visible()
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Models").click()
    tab.wait("Models")
    calls, mistakes = Counter[str](), Counter[str]()
    for event in busy.collector.get("/api/v1/events", operation="tool", outcome="ok,error", limit=10_000)["rows"]:
        if event["source"] != "roo-code":  # which tells only of failures
            calls[event["model"] or "(none)"] += 1
            mistakes[event["model"] or "(none)"] += bool(event["mistake"])
    share, most = max((mistakes[model] / calls[model], model) for model in calls if calls[model] >= 20)
    told = f"{most} makes most mistakes, in {words.rate(share)} of {calls[most]:,} calls".replace("\u00a0", " ")
    expect(main.get_by_text(told)).to_be_visible()
    tab.check()


def test_did_version_3_2_make_it_worse(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/?from=-7d&service=coder", "Overview")
    tab.page.get_by_test_id("stSidebar").get_by_role("link", name="Compare").click()
    tab.wait("Compare")
    main = tab.page.get_by_test_id("stMain")
    expect(main.get_by_text("3.1 → 3.2")).to_be_visible()
    expect(main.get_by_text(re.compile("^Error rate: ▲ Worse"))).to_be_visible()
    tab.check()


def test_a_chosen_version_is_compared_with_the_one_before_it(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/compare?from=-7d", "Compare")
    for version, before in (("3.2", "3.1"), ("2.5.0", "2.4.0")):
        tab.choose(re.compile("after"), version)
        expect(tab.page.get_by_text(f"{before} → {version}")).to_be_visible()


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
    assert "$MISSTEP_QUERY_TOKEN" in tab.page.get_by_test_id("stCode").last.inner_text()
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
    tab.wait("Errors")  # a click while the page still runs may be lost
    tab.page.get_by_role("button", name="Not the model's fault").click()
    expect(tab.page).to_have_url(re.compile("attribution=%21model|attribution=!model"))
    tab.wait("Errors")
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
    expect(tab.page).to_have_url(re.compile("from=20.*to=20"))
    tab.page.get_by_role("button", name="Zoom out").click()
    expect(tab.page).not_to_have_url(re.compile("from="))
    tab.check()


def chart_under(tab: Tab, title: str) -> Locator:
    """The chart of the part with that title."""
    part = tab.page.get_by_test_id("stMain").get_by_role("heading", name=title, exact=True)
    part.scroll_into_view_if_needed()
    chart = part.locator('xpath=following::*[@data-testid="stVegaLiteChart"][1]')
    expect(chart.locator("canvas, svg").first).to_be_visible()
    tab.page.wait_for_timeout(300)
    return chart


def click_colour(chart: Locator, colour: str, *, last: bool = False) -> None:
    """Clicks a mark of that colour: the first from above, or the last, where a legend stands above the marks."""
    chart.scroll_into_view_if_needed()
    picture = Image.open(BytesIO(chart.screenshot())).convert("RGB")
    wide, wanted, points = picture.width, bytes.fromhex(colour[1:]), picture.tobytes()

    def hit(place: int) -> bool:
        column = (points[3 * (place + row * wide) : 3 * (place + row * wide) + 3] for row in (-1, 0, 1))
        return all(abs(one[part] - wanted[part]) < 30 for one in column for part in range(3))

    inside = range(wide, wide * (picture.height - 1))
    place = next((place for place in (reversed(inside) if last else inside) if hit(place)), None)
    assert place is not None, f"nothing is {colour} in this chart"
    chart.click(position={"x": place % wide, "y": place // wide})


def test_a_click_on_a_category_of_the_legend_filters_by_it(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/?from=-7d&refresh=0", "Overview")
    click_colour(chart_under(tab, "Errors over time"), colours.LIGHT.category["execution"])
    expect(tab.page).to_have_url(re.compile("category=execution"))
    tab.check()


def test_a_click_on_a_bar_filters_by_whose_turn_it_is(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/?from=-7d&refresh=0", "Overview")
    click_colour(chart_under(tab, "Whose turn is it"), colours.LIGHT.attribution["provider"])
    expect(tab.page).to_have_url(re.compile("attribution=provider"))
    tab.check()


def test_a_click_on_a_point_leads_to_its_tool(busy: Dashboard, tab: Tab) -> None:
    tab.open(f"{busy.url}/tools?from=-7d&refresh=0", "Tools")
    click_colour(chart_under(tab, "Calls and error rate"), colours.LIGHT.attribution["model"], last=True)
    open_it = tab.page.get_by_test_id("stMain").get_by_role("link", name=re.compile("^Open "))
    expect(open_it).to_be_visible()
    tool = open_it.inner_text().removeprefix("Open ").removesuffix(" →")
    open_it.click()
    tab.wait("Tool")
    expect(tab.page.get_by_role("heading", name=tool, exact=True)).to_be_visible()
    tab.check()


def test_a_click_on_a_cell_leads_to_its_errors(busy: Dashboard, tab: Tab) -> None:
    asked = {"from": "-7d", "by": "tool,error_class", "operation": "tool", "outcome": "error", "limit": 100}
    pairs = {(row["tool"], row["error_class"]) for row in busy.collector.get("/api/v1/breakdown", **asked)["rows"]}
    tab.open(f"{busy.url}/tools?from=-7d&refresh=0", "Tools")
    click_colour(chart_under(tab, "Tool × class"), "#D9967C")
    link = tab.page.get_by_test_id("stMain").get_by_role("link", name=re.compile("Error of .* →$"))
    expect(link).to_be_visible()
    link.click()
    tab.wait("Errors")
    query = parse_qs(urlsplit(tab.page.url).query)
    assert (query["tool"][0], query["error_class"][0]) in pairs
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


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("Session", "session"),
        ("Errors", "tool"),
        *(pytest.param(*page, marks=pytest.mark.deep) for page in (("Overview", ""), ("Tools", ""), ("Tool", "tool"))),
    ],
)
def test_text_of_an_agent_makes_no_image_link_or_icon(busy: Dashboard, tab: Tab, title: str, named: str) -> None:
    link = {named: HOSTILE.replace("!", r"\!")} if named else {}
    tab.open(f"{busy.url}/{title.lower()}?{urlencode({'from': '-7d'} | link)}", title)
    main = tab.page.get_by_test_id("stMain")
    assert main.locator('img[src*="evil"], a[href^="http://evil"]').count() == 0
    assert main.get_by_text("bolt", exact=True).count() == 0
    tab.check()


def test_the_first_event_appears_by_itself_within_five_seconds(open_tab: Callable[..., Tab], tmp_path: Path) -> None:
    running = RunningCollector(tmp_path).start()
    dashboard = Dashboard(running)
    try:
        tab = open_tab(dashboard)
        began = time.monotonic()
        tab.open(dashboard.url, "Overview")
        opening_ms = (time.monotonic() - began) * 1000  # which tells how busy the machine is
        expect(tab.page.get_by_text("Nothing received yet. Point an agent here:")).to_be_visible()
        tab.choose("Your agent", "No agent yet: one made-up call")
        expect(tab.page.get_by_text("0 of 5 have arrived.")).to_be_visible()
        line = agents.CURL.format(http=running.url)
        assert tab.page.get_by_test_id("stCode").first.inner_text().strip() == line
        sent = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        assert "partialSuccess" not in sent.stdout, sent.stdout
        expect(tab.page.get_by_text("MissingParameterError")).to_be_visible(timeout=max(5_000, 3 * opening_ms))
        expect(tab.page.get_by_text("✓ Anything from No agent yet")).to_be_visible()
        tab.check()
        tab.page.get_by_role("button", name="Close the checklist").click()
        expect(tab.page).not_to_have_url(re.compile("setup"))
        expect(tab.page.get_by_text("Anything from")).to_have_count(0)
        tab.check()
        [event] = running.events()
        assert event["error_class"] == "MissingParameterError"
        assert event["params"]["password"].startswith("[redacted:")
    finally:
        dashboard.stop()
        running.stop()
