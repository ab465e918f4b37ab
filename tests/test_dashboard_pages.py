"""Every page on a real collector with demo traffic: it renders, no part fails, and its numbers are the API's."""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

import httpx
import polars as pl
import pytest
import streamlit as st
import yaml
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import ButtonGroup, Selectbox

from collector.classify.classify import load_taxonomy
from dashboard import launch
from dashboard.access import sign_in
from dashboard.data import agents
from dashboard.data.client import Answer, Collector
from dashboard.data.filters import escaped
from dashboard.menu import TITLES
from dashboard.page import WIDTH, Page, same_clock, same_clocks
from dashboard.parts import rule_words, seen_before, sentences, session_story, words
from dashboard.start import FRESH_S
from tests.conftest import APP, RunningCollector, free_port, largest_file, misstep, wait_until
from tests.doors import cline, logs, spans
from tests.shown import recorder, selected, table, tables
from tests.traffic import rule_file, two_versions

PAGES = [
    "errors", "tools", "models", "sessions", "retries", "streaks", "compare", "alerts", "sources", "health", "live",
]  # fmt: skip
RANGE = {"from": "-7d"}
SWITCHES = {"State", "Sort by", "Scope", "Kind", "A limit of 5 by", "A limit of 3 by", "Compare", "Rank", "Calls"}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with a day of the demo's agents."""
    folder = tmp_path_factory.mktemp("busy")
    running = RunningCollector(folder).start()
    sent = misstep("demo", "--to", running.url, "--sessions", "12", "--seed", "7", cwd=folder)
    assert sent.returncode == 0, sent.stderr
    yield running.kept_up()
    running.stop()


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with two days of a coder whose version 3.2 breaks its diff tool."""
    running = RunningCollector(tmp_path_factory.mktemp("coder")).start()
    assert running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC)))).is_success
    yield running.kept_up()
    running.stop()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with a few calls, of which a tool's two without a service ended well."""
    running = RunningCollector(tmp_path_factory.mktemp("few")).start()
    failed = {"outcome": "error", "error_class": "TimeoutError", "message": "m", "session": "s"}
    calls = [failed | {"tool": "t"}, {"tool": "t", "outcome": "ok", "session": "s"}] * 2
    calls += [failed | {"operation": "model"}]
    calls += [failed | {"tool": "t", "service": name} for name in ("coder", "web", "web", "cli", "cli")]
    assert running.post("/v1/events", json.dumps(calls)).is_success
    yield running.kept_up()
    running.stop()


def captions(app: AppTest) -> list[str]:
    return [caption.value for caption in app.caption]


def metric(app: AppTest, label: str) -> str:
    return next(str(metric.value) for metric in app.metric if metric.label == label)


def check(app: AppTest, title: str) -> None:
    """The page is complete, without an exception and without a part that failed."""
    [named] = [each.value for each in app.title]
    assert named == title or captions(app)[0].startswith(f"{title} · ")
    assert not app.exception
    assert not [said for said in captions(app) if "failed (id" in said]


# Lists that are whole without a limit: of few rows, or ten thousand by default.
WHOLE = {"health", "classes", "rules", "samples", "timeseries", "receivers"}


@pytest.mark.parametrize("page", ["overview", *PAGES])
def test_every_page_shows_real_data(
    busy: RunningCollector, open_app: Callable[..., AppTest], page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of its lists is cut at the API's default."""
    asked: list[tuple[str, Mapping[str, str]]] = []
    ask = Collector.ask

    def noted(self: Collector, path: str, params: Mapping[str, str] | None = None, **how: Any) -> Answer:
        asked.append((path, params or {}))
        return ask(self, path, params, **how)

    monkeypatch.setattr(Collector, "ask", noted)
    app = open_app(busy.url, page, from_="-6d")
    check(app, page.capitalize())
    assert not app.error
    assert not [said for said in captions(app) if said.startswith("No calls")]
    totals = {"breakdown", "compare", "retries", "retries/curve", "costs"}  # one row for each measure
    lists = [(path, params) for path, params in asked
             if path.rpartition("/")[2] not in WHOLE and ("by" in params or path not in totals)]  # fmt: skip
    assert asked
    assert [one for one in lists if "limit" not in one[1] and one[1].get("by") not in {"attribution"}] == []


def test_the_overviews_figures_are_the_apis(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(busy.url, from_="-7d")
    check(app, "Overview")
    [total] = busy.get("/api/v1/breakdown", **RANGE)["rows"]
    [retries] = busy.get("/api/v1/retries", **RANGE)["rows"]
    [hit] = busy.get("/api/v1/breakdown", **RANGE, outcome="error", measures="sessions")["rows"]
    assert metric(app, "Error rate") == words.rate(total["error_rate"])
    assert metric(app, "Lasting errors") == words.count(retries["lasting"])
    assert metric(app, "Sessions hit") == words.count(hit["sessions"])


@pytest.mark.parametrize("page", ["overview", "tools", "tool", "compare", "changes"])
def test_where_only_failures_match_nothing_is_said_to_fail_always(
    coder: RunningCollector, open_app: Callable[..., AppTest], page: str
) -> None:
    about = {"tool": "apply_diff"} if page == "tool" else {}
    app = open_app(coder.url, page, mistake="true", **about)
    check(app, TITLES[page])
    texts = [*captions(app), *(each.value for each in app.markdown), *(str(each.value) for each in app.metric)]
    texts += [link.proto.label for link in app.get("page_link")]
    assert [said for said in texts if re.search(r"100\s%.*(call|fail)|of all$", said)] == []
    assert not [each for each in tables(app) if "error_rate" in each.columns]
    if page == "overview":
        [now] = coder.get("/api/v1/breakdown", mistake="true")["rows"]
        assert metric(app, "Errors") == words.count(now["errors"])
        assert any(f"**{words.plural(now['errors'], 'error')}**" in each.value for each in app.markdown)


def test_failures_that_are_new_are_worse_than_none(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    collector, now = start_collector(), time.time()
    calls = [
        {"service": "s", "session": f"{n}", "call_id": f"c{n}", "tool": "t", "outcome": "ok", "timestamp": now - 9_000}
        for n in range(50)
    ]
    calls += [
        {"service": "s", "session": f"e{n}", "call_id": f"e{n}", "tool": "t", "error_class": "RateLimitError"}
        for n in range(50)
    ]
    collector.post("/v1/events", json.dumps(calls).encode())
    for page in ("overview", "changes"):
        app = open_app(collector.url, page, from_="-1h", error_class="RateLimitError")
        check(app, TITLES[page])
        said = [each.value for each in app.markdown]
        assert [text for text in said if "Worse" in text or "worse" in text], said
        assert not [text for text in captions(app) if "Nothing to compare" in text]


def test_the_overview_says_how_many_errors_may_still_be_repaired(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """They are not among the lasting ones: neither in the figure nor in the lists."""
    now = datetime.now(UTC)
    failed = {"service": "s", "tool": "t", "outcome": "error", "error_class": "TimeoutError", "message": "late"}
    calls = [
        failed | {"session": f"s{minutes}", "time": (now - timedelta(minutes=minutes)).isoformat()}
        for minutes in (1, 10, 100)
    ]
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    app = open_app(collector.url)
    check(app, "Overview")
    assert metric(app, "Lasting errors") == "1"
    assert "2 not known yet" in captions(app)
    labels = [link.proto.label for link in app.get("page_link")]
    assert any("1 lasting · 2 not known yet" in label for label in labels), labels


def test_a_filter_of_the_link_is_a_filter_of_the_page(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    worst = busy.get("/api/v1/breakdown", **RANGE, by="tool", operation="tool")["rows"][0]
    app = open_app(busy.url, "tool", from_="-7d", tool=worst["tool"])
    check(app, "Tool")
    assert [each.value for each in app.title] == [words.plain(worst["tool"])]
    assert metric(app, "Error rate") == words.rough(worst["error_rate"], worst["rated"])


def test_a_group_opens_with_its_message_and_advice(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    group = busy.get("/api/v1/groups", **RANGE, sort="-events", limit=1)["rows"][0]
    app = open_app(busy.url, "group", from_="-7d", fingerprint=group["fingerprint"])
    check(app, "Group")
    assert group["template"] in [each.value for each in app.text]
    assert metric(app, "Events") == words.count(group["events"])
    [meant] = [row for row in busy.get("/api/v1/classes")["rows"] if row["error_class"] == group["error_class"]]
    advice = f"**{words.plain(meant['title'])}.** {words.plain(meant['advice_person'])}"
    assert advice in [each.value for each in app.markdown]


def test_a_group_counts_its_events_in_each_session_and_shows_the_oldest(
    shared: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    denied = {
        "service": "s",
        "tool": "counted",
        "outcome": "denied",
        "error_class": "ApprovalDeniedError",
        "message": "no",
    }
    start = datetime.now(UTC) - timedelta(hours=2)
    many = 70  # more than are read to choose samples from
    calls = [
        denied | {"session": f"s-{n % 2}", "time": (start + timedelta(seconds=n)).isoformat()} for n in range(many)
    ]
    later = denied | {"time": (start + timedelta(hours=1)).isoformat()}
    calls += [later | {"service": f"without-{n % 9}"} for n in range(9 * many)]  # more of them, but in no session
    assert shared.post("/v1/events", json.dumps(calls)).is_success
    shared.kept_up()
    [group] = shared.get("/api/v1/groups", tool="counted")["rows"]
    app = open_app(shared.url, "group", fingerprint=group["fingerprint"], tz="UTC")
    check(app, "Group")
    assert table(app, "calls")["calls"] == [many / 2, many / 2]
    shown = [said.partition(" · ")[0] for said in captions(app) if " · denied" in said]
    first = words.clock(start, ZoneInfo("UTC"), now=datetime.now(UTC))
    assert first in shown


def test_a_session_is_told_step_by_step(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    session = busy.get("/api/v1/sessions", **RANGE, limit=1)["rows"][0]
    app = open_app(busy.url, "session", session=session["session"], service=session["service"])
    check(app, "Session")
    events = busy.get(f"/api/v1/sessions/{session['session']}", service=session["service"])["rows"]
    assert any(f" after {words.plural(len(events), 'call')}, " in each.value for each in app.markdown)
    assert len(recorder(app)["marks"]) == len(events)


def test_a_session_is_told_whole_whatever_filters_its_link_brought(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    streak = busy.get("/api/v1/streaks", **RANGE, sort="-length", state="recovered", limit=1)["rows"][0]
    link = {"session": streak["session"], "service": streak["service"]}
    brought = {"tool": "nope", "outcome": "ok", "q": "nope", "from_": "-1s"}
    for page, title in (("session", "Session"), ("streak", "Streak")):
        alone, filtered = (open_app(busy.url, page, **link, **more) for more in ({}, brought))
        check(filtered, title)
        assert table(filtered, "call", "took").rows == table(alone, "call", "took").rows
        said = [[re.sub("came .* ago", "", each.value) for each in app.markdown] for app in (filtered, alone)]
        assert said[0] == said[1]


def test_a_session_of_a_service_with_signs_of_the_filters_grammar_is_found(
    shared: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    failed = {"tool": "t", "outcome": "error", "error_class": "ContentNotFoundError", "message": "m"}
    calls = [failed | {"service": "!a,b\\c", "session": "s", "model": "m-1"} for _ in range(2)]
    assert shared.post("/v1/events", json.dumps(calls)).is_success
    shared.kept_up()
    link = {"session": "s", "service": escaped("!a,b\\c")}
    app = open_app(shared.url, "session", **link)
    check(app, "Session")
    assert len(recorder(app)["marks"]) == 2
    assert any(said.startswith(words.plain("!a,b\\c") + r" · m\-1 · began ") for said in captions(app))
    check(open_app(shared.url, "streak", **link), "Streak")


def test_the_event_that_a_link_names_is_opened_also_in_a_session_that_was_open_before(
    shared: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    failed = {
        "tool": "t",
        "outcome": "error",
        "error_class": "ContentNotFoundError",
        "message": "m",
        "session": "named",
    }
    assert shared.post("/v1/events", json.dumps([failed] * 3)).is_success
    ids = [row["event_id"] for row in shared.get("/api/v1/sessions/named")["rows"]]
    app = open_app(shared.url, "session", session="named", event=ids[1])
    assert selected(app) == "Call 2 of 3"
    app.query_params["event"] = ids[2]
    app.run()
    assert selected(app) == "Call 3 of 3"
    app.query_params["event"] = "1"
    app.run()
    assert "The event of the link is not in this session." in captions(app)


def test_of_a_long_session_what_the_link_names_is_shown_with_the_totals_of_all(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    many, late = 700, 500
    calls = [
        {"tool": "t", "outcome": "ok", "session": "s", "time": (start + timedelta(seconds=n)).isoformat()}
        for n in range(many)
    ]
    for call in calls[late : late + 3]:
        call.update(outcome="error", error_class="ContentNotFoundError", message="m")
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    [streak] = collector.get("/api/v1/streaks", min_length=3)["rows"]
    app = open_app(collector.url, "streak", session="s", started=streak["started"])
    check(app, "Streak")
    assert [mark["title"].partition(":")[0] for mark in recorder(app)["marks"]] == [
        f"call {order:,}" for order in range(late + 1, late + 5)
    ]
    app = open_app(collector.url, "session", session="s")
    check(app, "Session")
    assert any(f" after {many:,} calls, 1 streak, " in each.value for each in app.markdown)
    assert selected(app) == f"Call {late + 1:,} of {many:,}"  # the first error
    assert tables(app)[0].foot == f"calls {late - 6:,} to {late + 8:,} of {many:,}"
    assert len(recorder(app)["marks"]) == session_story.WINDOW[0]
    strip = recorder(app)["strip"]
    assert sum("0 errors" not in each["title"] for each in strip["bins"]) == 1
    assert strip["from"] * many < late < strip["to"] * many
    other = {"tool": "t", "outcome": "ok", "session": "other", "time": datetime.now(UTC).isoformat()}
    assert collector.post("/v1/events", json.dumps(other)).is_success
    [elsewhere] = collector.get("/api/v1/events", session="other")["rows"]
    app = open_app(collector.url, "session", session="s", event=elsewhere["event_id"])
    assert "The event of the link is not in this session." in captions(app)
    assert selected(app) == f"Call {late + 1:,} of {many:,}"
    last = collector.get("/api/v1/events", session="s", limit=1)["rows"][0]["event_id"]
    assert selected(open_app(collector.url, "session", session="s", event=last)) == f"Call {many:,} of {many:,}"


def test_a_session_of_many_streaks_is_told_with_all_of_them(
    shared: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """The longest is the first of more than a list of the API has by default."""
    start = datetime.now(UTC) - timedelta(minutes=50)
    bad = {"outcome": "error", "error_class": "FileNotFoundError", "message": "no such file"}
    outcomes = [*9 * [bad], {"outcome": "ok"}, *110 * [bad, bad, {"outcome": "ok"}]]
    calls = [
        {"service": "many", "session": "many", "tool": "edit", "time": (start + timedelta(seconds=5 * n)).isoformat()}
        | outcome
        for n, outcome in enumerate(outcomes)
    ]
    assert shared.post("/v1/events", json.dumps(calls)).is_success
    shared.kept_up()
    app = open_app(shared.url, "session", session="many", service="many")
    check(app, "Session")
    assert metric(app, "Streaks") == "111"
    assert "the longest of 9" in captions(app)
    oldest = (start - timedelta(seconds=1)).isoformat()
    app = open_app(shared.url, "streak", session="many", service="many", started=oldest)
    check(app, "Streak")
    assert any(each.value.startswith("9 in a row") for each in app.subheader)


def test_the_page_of_a_streak_whose_events_are_gone_says_so(
    shared: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"tool": "t", "outcome": "error", "error_class": "ContentNotFoundError", "message": "m", "session": "gone"}
    assert shared.post("/v1/events", json.dumps([failed, failed])).is_success
    shared.kept_up()
    nothing = session_story.Story("gone", pl.DataFrame(), {}, cut=False)
    monkeypatch.setattr("dashboard.parts.session_story.told", lambda *_: nothing)
    app = open_app(shared.url, "streak", session="gone")
    check(app, "Streak")
    assert "Its events are no longer kept." in captions(app)


def test_parameters_that_are_one_text_are_shown_as_text(
    shared: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    call = {"tool": "apply_patch", "outcome": "error", "message": "no", "session": "text", "params": "*** Begin Patch"}
    assert shared.post("/v1/events", json.dumps(call)).is_success
    app = open_app(shared.url, "session", session="text")
    check(app, "Session")
    assert "*** Begin Patch" in [each.value for each in app.code]
    assert not app.json


@pytest.mark.parametrize(
    ("page", "asked"),
    [("session", "sessions-"), ("streak", "streaks"), ("health", "health"), ("alerts", "rules")],
)
def test_every_page_is_shared_with_its_queries(
    busy: RunningCollector, open_app: Callable[..., AppTest], page: str, asked: str
) -> None:
    session = busy.get("/api/v1/streaks", **RANGE, sort="-length", limit=1)["rows"][0]
    app = open_app(busy.url, page, session=session["session"], service=session["service"])
    check(app, page.capitalize())
    assert any("Share" in each.proto.popover.label for each in app.get("popover"))
    assert any(question.name.startswith(asked) for question in app.session_state["share-asked"][2])


def test_a_filter_for_no_value_is_told_as_one(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(busy.url, "tools", from_="-7d", tool="", model="!")
    check(app, "Tools")
    assert "model ≠ \\(none\\) ×" in {button.label for button in app.button}
    assert "tool: \\(none\\)" in {each.proto.popover.label for each in app.get("popover")}  # said there alone


def test_the_chart_of_a_group_shows_its_denied_calls_too(
    shared: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    call = {"tool": "drawn", "outcome": "denied", "error_class": "ToolPermissionError", "message": "the user said no"}
    assert shared.post("/v1/events", json.dumps([call | {"session": "s", "agent": "a"}] * 2)).is_success
    [group] = shared.get("/api/v1/groups", tool="drawn")["rows"]
    app = open_app(shared.url, "group", fingerprint=group["fingerprint"])
    check(app, "Group")
    frames_of = {
        each.proto.alt: [pl.read_ipc_stream(part.data.data) for part in each.proto.datasets]
        for each in app.get("vega_lite_chart")
    }
    [when] = [part for part in frames_of["Errors of this group over time."] if "errors" in part.columns]
    assert when["errors"].sum() == group["events"] == 2
    assert any(said.startswith("Most often in a (100") for said in frames_of)


@pytest.mark.parametrize("page", ["tool", "group", "session", "streak"])
def test_a_detail_page_without_its_subject_says_where_to_choose_one(
    busy: RunningCollector, open_app: Callable[..., AppTest], page: str
) -> None:
    app = open_app(busy.url, page)
    check(app, page.capitalize())
    assert any(link.proto.label.startswith("Choose a ") for link in app.get("page_link"))


@pytest.mark.parametrize(
    ("page", "link", "said"),
    [
        ("tool", {"tool": "nope"}, "0 have tool \\= nope."),
        ("group", {"fingerprint": "123"}, "There is no group with fingerprint 123"),
        ("session", {"session": "nope"}, "No event of this session is kept"),
        ("streak", {"session": "nope"}, "Session nope has no such streak."),
    ],
)
def test_a_detail_page_of_what_is_not_there_says_so_and_nothing_else(
    busy: RunningCollector, open_app: Callable[..., AppTest], page: str, link: dict[str, str], said: str
) -> None:
    app = open_app(busy.url, page, from_="-7d", **link)
    check(app, page.capitalize())
    assert [each for each in captions(app) if said in each]
    assert any(link.proto.label.startswith("Choose a ") for link in app.get("page_link"))
    assert not app.metric
    assert not [each.value for each in app.subheader if each.value != "nope"]


def test_a_group_that_is_not_in_the_range_is_shown_with_the_way_to_its_last_day(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    group = busy.get("/api/v1/groups", **RANGE, sort="-events", limit=1)["rows"][0]
    app = open_app(busy.url, "group", fingerprint=group["fingerprint"], service="nobody")
    check(app, "Group")
    said = "Nothing of it matches in the last 24\u00a0h; the figures are those of all time."
    assert said in [each.value for each in app.markdown]
    assert [each.value for each in app.subheader] == ["Advice"]
    [way] = [link.proto for link in app.get("page_link") if link.proto.label == "Show it →"]
    assert "service" not in way.query_string
    assert f"fingerprint={group['fingerprint']}" in way.query_string


def test_a_streak_that_did_not_begin_when_the_link_says_is_not_shown_as_that_one(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    streak = busy.get("/api/v1/streaks", **RANGE, sort="-length", limit=1)["rows"][0]
    link = {"session": streak["session"], "service": streak["service"]}
    said = "No streak of this session began when the link says: this is its longest."
    assert said in captions(open_app(busy.url, "streak", started="2020-01-01T00:00:00+00:00", **link))
    assert said not in captions(open_app(busy.url, "streak", **link))
    assert said not in captions(open_app(busy.url, "streak", started=streak["started"], **link))  # as the API writes it
    assert said in captions(open_app(busy.url, "streak", started="yesterday", **link))


def test_a_filter_that_matches_nothing_says_what_was_looked_for(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    app = open_app(busy.url, "tools", from_="-7d", tool="aply_diff")
    check(app, "Tools")
    assert any(said.endswith("in the last 7\u00a0d, 0 have tool \\= aply\\_diff.") for said in captions(app))


def test_calls_that_match_are_not_said_to_be_missing_where_only_their_streaks_are(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    running = start_collector()
    calls = [{"tool": "t", "service": "a", "outcome": "ok", "session": "s"} for _ in range(3)]
    assert running.post("/v1/events", json.dumps(calls)).is_success
    app = open_app(running.url, "streaks", service="a")
    check(app, "Streaks")
    assert "No streaks among the 3 calls with service \\= a in the last 24\u00a0h." in captions(app)
    app = open_app(running.url, "errors")
    assert "No errors among the 3 calls in the last 24\u00a0h." in captions(app)


@pytest.mark.parametrize(
    ("page", "link", "said"),
    [
        ("errors", {"outcome": "ok"}, "No errors among the 2 calls with outcome \\= ok in"),
        (
            "tools",
            {"operation": "model"},
            "No tool calls among the 1 call with operation \\= model in",
        ),
        ("overview", {"operation": "model"}, "No tool failed."),
        ("retries", {"operation": "model"}, "No tool failed."),
        ("tools", {"outcome": "ok"}, "No tool failed."),
    ],
)
def test_no_part_of_a_page_shows_what_its_filter_excludes(
    few: RunningCollector, open_app: Callable[..., AppTest], page: str, link: dict[str, str], said: str
) -> None:
    app = open_app(few.url, page, **link)
    check(app, page.capitalize())
    assert [each for each in captions(app) if each.startswith(said)]
    assert "No tool failed." not in captions(open_app(few.url, page))


def test_what_only_older_data_has_is_a_link_away(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    running = start_collector()
    past = datetime.now(UTC) - timedelta(days=3)
    call = {"tool": "t", "outcome": "error", "message": "m", "session": "s", "time": past.isoformat()}
    assert running.post("/v1/events", json.dumps(call)).is_success
    for page in ("overview", "tools", "errors", "compare"):
        app = open_app(running.url, page)
        check(app, page.capitalize())
        assert not app.subheader or page in {"tools", "errors"}
        assert "Nothing in the last 24\u00a0h. Last event 3\u00a0d ago." in [each.value for each in app.markdown], page


def test_the_rows_of_tables_are_the_apis(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    tools = {row["tool"]: row for row in busy.get("/api/v1/breakdown", **RANGE, by="tool", operation="tool")["rows"]}
    lasting = {
        row["tool"]: row["lasting"] for row in busy.get("/api/v1/retries", **RANGE, by="tool", operation="tool")["rows"]
    }
    shown = table(open_app(busy.url, "tools", from_="-7d", rows="200"), "tool")
    assert set(shown["tool"]) == set(tools) - {None}
    for row in shown.rows:
        said = tools[row["tool"]]
        assert [row[name] for name in ("calls", "errors", "cancelled", "denied")] == [
            said[name] for name in ("calls", "errors", "cancelled", "denied")
        ]
        assert row["error_rate"] == words.rate_of(said["error_rate"], said["rated"])
        assert row["lasting"] == lasting.get(row["tool"], 0)
    groups = busy.get("/api/v1/groups", **RANGE, limit=500, measures="recovery_rate", sort="-events")["rows"]
    app = open_app(busy.url, "errors", from_="-7d", rows="200", **{"tree.rows": "200"})
    shown = table(app, "template")
    assert shown["events"] == sorted((row["events"] for row in groups), reverse=True)
    assert {int(said.split()[2].replace(",", "")) for said in shown["trend"]} == {max(row["trend"]) for row in groups}
    assert sorted(shown["spread_words"]) == sorted(words.line(words.rate(row["spread"])) for row in groups)
    assert parse_qsl(urlsplit(shown.links[0]).query)[-1] == ("fingerprint", groups[0]["fingerprint"])
    tree = table(app, "share")
    classes = busy.get("/api/v1/breakdown", **RANGE, by="error_class", outcome="error")["rows"]
    named = dict(zip(tree["name"], tree["errors"], strict=True))
    assert {row["error_class"]: row["errors"] for row in classes}.items() <= named.items()


def test_a_long_name_does_not_make_the_filter_bar_longer(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    app = open_app(busy.url, "errors", from_="-7d", service="an-agent-with-a-long-name")
    [service] = [each.proto.popover.label for each in app.get("popover") if "service" in each.proto.popover.label]
    assert len(service.replace("\\", "")) <= len("service: ") + 16


def test_the_figures_of_retries_and_streaks_are_the_apis(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    app = open_app(busy.url, "retries", from_="-7d")
    [total] = busy.get("/api/v1/retries", **RANGE)["rows"]
    assert metric(app, "Tried again") == words.count(total["retried"])
    assert metric(app, "Recovery") == words.rough(total["recovery_rate"], total["rated"])
    [cost] = busy.get("/api/v1/costs", **RANGE)["rows"]
    assert metric(app, "Retries in vain") == words.count(cost["wasted_retries"])
    storms = busy.get("/api/v1/retries/storms", **RANGE)["rows"]
    assert bool(storms) == ("No storm in this range." not in captions(app))
    app = open_app(busy.url, "streaks", from_="-7d")
    limits = busy.get("/api/v1/streaks/limits", **RANGE, scope="session", kind="mistake")["rows"]
    said = sentences.limit(3, next(row for row in limits if row["mistake_limit"] == 3))
    assert said in [each.value for each in app.markdown]


def test_of_many_groups_the_most_frequent_is_found_though_others_were_seen_later(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    collector = start_collector()
    now = datetime.now(UTC)
    failed = {"outcome": "error", "error_class": "FileNotFoundError", "message": "no such file", "session": "s"}
    sent = [
        failed | {"tool": f"tool{number}", "time": (now - timedelta(seconds=number)).isoformat()}
        for number in (*range(500), 3600, 3600, 3600)
    ]
    assert collector.post("/v1/events", json.dumps(sent)).is_success
    app = open_app(collector.kept_up().url, "errors", sort="-events")
    check(app, "Errors")
    groups = table(app, "template")
    assert (groups["tool"][0], groups["events"][0], groups.foot) == ("tool3600", 3, "1–20 of the first 500")
    [states] = [each for each in app.button_group if "New 500+" in each.options]
    assert "All 500+" in states.options
    assert {"Regressed", "Ongoing", "Resolved"} <= {*states.options}
    app = open_app(collector.url)
    check(app, "Overview")
    rows = [each.proto.label for each in app.get("page_link") if "tool3600" in each.proto.label]
    assert any("3 events" in label for label in rows)


def test_verdicts_are_the_apis(coder: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(coder.url, "compare", from_="-7d")
    check(app, "Compare")
    assert [each.value for each in app.selectbox if each.label.startswith(("A", "B"))] == ["3.1", "3.2"]
    sides = {"dimension": "service_version", "a": "3.1", "b": "3.2"}
    [row] = coder.get("/api/v1/compare", **RANGE, measure="error_rate", **sides)["rows"]
    assert row["verdict"] == "worse"
    said = f"Error rate: {sentences.compared(row['verdict'], row['sentence'])}"
    assert said in [each.value for each in app.markdown]
    tools = coder.get("/api/v1/compare", **RANGE, measure="error_rate", by="tool", operation="tool", **sides)["rows"]
    worse = [row["tool"] for row in sorted(tools, key=lambda row: -row["difference"]) if row["verdict"] == "worse"]
    assert worse
    assert f":red[▲ Worse]: {', '.join(map(words.plain, worse))}" in [each.value for each in app.markdown]
    app = open_app(coder.url, from_="-24h")
    check(app, "Overview")
    verdicts = [each.value for each in app.markdown if each.value.startswith(":red[▲ Worse]")]
    assert [said.partition("Most of it: ")[2] for said in verdicts] == ["tool \\= apply\\_diff on version \\= 3\\.2."]
    assert "At equal traffic · errors before → now" in captions(app)
    [row] = [each.proto.label for each in app.get("page_link") if "**tool \\= apply\\_diff**" in each.proto.label]
    assert re.search(r":gray\[[\d,]+ more · [\d,]+ → [\d,]+ of [\d,]+ calls( · also .*)?\]$", row), row
    app = open_app(coder.url, "changes", from_="-24h")
    check(app, "What changed")
    volume = coder.get("/api/v1/changes", **{"from": "-24h"}, measure="errors")["rows"]
    told = [row["sentence"].partition(" → ")[2] for row in volume if row["dimension"] == "volume"]
    assert len(told) == 3
    assert all(any(said.endswith(words.plain(part)) for said in captions(app)) for part in told)
    assert any(said.startswith("Errors per call ") for said in captions(app))


def test_a_class_of_compare_leads_to_the_errors_of_its_row(
    collector: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, error = datetime.now(UTC), {"outcome": "error", "error_class": "TimeoutError", "message": "late"}
    calls = [
        {"service": service, "service_version": version, "session": f"{service}{version}{number}", "tool": "t",
         "outcome": "ok", "time": (now - timedelta(hours=hours, minutes=number)).isoformat()}
        | (error if number < errors else {})
        for service, version, hours, errors in (
            ("co,der", "!1", 12, 3), ("co,der", "1,5", 10, 4), ("co,der", "2", 8, 5), ("web", "2", 6, 7)
        ) for number in range(30)
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    for view in ({"a": "!1", "b": "1,5"}, {"a": "1,5", "b": "2"}, {"by": "service"}):
        app = open_app(collector.url, "compare", **view)
        check(app, "Compare")
        classes = table(app, "a_part", "b_part")
        asked = dict(parse_qsl(urlsplit(classes.links[0]).query)) | {"from": "-24h"}
        [told] = collector.get("/api/v1/breakdown", **asked, by="error_class")["rows"]
        assert told["errors"] == classes["a_part"][0] + classes["b_part"][0]


def test_a_period_of_which_most_is_not_kept_is_not_compared(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """As a range of the length of the retention, before which a few events are left."""
    now = datetime.now(UTC)
    error = {"outcome": "error", "error_class": "TimeoutError", "message": "late"}
    calls = [
        {"service": "s", "session": f"s{hours}-{number}", "tool": "t",
         "time": (now - timedelta(hours=hours, seconds=number)).isoformat()}
        | (error if number % 2 else {"outcome": "ok"})
        for hours, many in ((25, 4), (20, 90), (5, 40)) for number in range(many)
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    app = open_app(collector.url)
    check(app, "Overview")
    said = "Nothing to compare with in the 24\u00a0h before."
    assert any(each.value.endswith(f"calls failed. {said}") for each in app.markdown)
    assert [each.delta for each in app.metric] == [""] * 5
    assert said in captions(app)
    assert not any("grey line" in each for each in captions(app))
    assert "Compare versions, models or agents instead →" in [link.proto.label for link in app.get("page_link")]
    for page, about in (("changes", {}), ("compare", {"by": "period"})):
        assert said in captions(open_app(collector.url, page, **about))
    app = open_app(collector.url, from_="-13h")
    assert not any(said.startswith("Nothing to compare") for said in captions(app))


def test_only_what_is_left_out_of_the_tools_by_class_is_said(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    classes = [name for name, row in load_taxonomy().classes.items() if row.domain == "tool"][:17]
    failed = {"tool": "flux", "outcome": "error", "message": "no", "session": "s"}
    assert collector.post("/v1/events", json.dumps([failed | {"error_type": name} for name in classes])).is_success
    app = open_app(collector.url, "tools")
    check(app, "Tools")
    assert "Shown: the 15 most frequent of 17 classes." in captions(app)


def test_the_period_before_is_kept_however_many_versions_there_are(
    coder: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(seen_before.VERSIONS_EVER, "limit", "1")  # the version that began 23 hours ago
    app = open_app(coder.url, "changes", from_="-20h")
    check(app, "What changed")
    assert not any(said.startswith("Nothing to compare") for said in captions(app))


def test_the_period_before_has_a_length_wherever_the_range_ends(
    coder: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    ranges = [
        ("overview", "-24h", "-1h", "23 h"),
        ("changes", "-90h", "-45h", "45 h"),
        ("compare", "-9h", "-1h", "8 h"),
    ]
    for page, begin, end, length in ranges:
        app = open_app(coder.url, page, from_=begin, to=end, by="period")
        check(app, {"changes": "What changed"}.get(page, page.capitalize()))
        said = [text.replace("\u00a0", " ") for text in [*(each.value for each in app.markdown), *captions(app)]]
        assert [text for text in said if f"the {length} before" in text], said


def test_the_line_of_the_period_before_is_drawn_in_any_zone(
    coder: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    for zone in ("UTC", "Asia/Kathmandu"):
        app = open_app(coder.url, from_="-24h30m", tz=zone)  # in buckets of an hour, and Nepal is 5:45 ahead
        check(app, "Overview")
        [chart] = [each.proto for each in app.get("vega_lite_chart") if "over time by category" in each.proto.alt]
        parts = [pl.read_ipc_stream(part.data.data) for part in chart.datasets]
        [before] = [part["previous_errors"] for part in parts if "previous_errors" in part.columns]
        [total] = coder.get("/api/v1/breakdown", **{"from": "-24h30m", "previous": "true"})["rows"]
        assert before.sum() == total["previous_errors"]


UTC_ZONE, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
NEW_YORK, KATHMANDU = ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu")


@pytest.mark.parametrize(
    ("moment", "chosen", "browsers", "drawn"),
    [
        ("2026-10-24T10:00Z", BERLIN, UTC_ZONE, "2026-10-24T12:00Z"),  # a summer's day, also read in winter
        ("2026-10-26T10:00Z", BERLIN, UTC_ZONE, "2026-10-26T11:00Z"),
        ("2026-10-26T10:00Z", BERLIN, NEW_YORK, "2026-10-26T15:00Z"),  # the one has put its clocks back
        ("2026-03-10T10:00Z", UTC_ZONE, NEW_YORK, "2026-03-10T14:00Z"),
        ("2026-07-01T10:00Z", KATHMANDU, BERLIN, "2026-07-01T13:45Z"),
        ("2026-10-25T00:30Z", BERLIN, BERLIN, "2026-10-25T00:30Z"),
        ("2026-10-25T01:30Z", BERLIN, BERLIN, "2026-10-25T01:30Z"),
    ],
)
def test_a_chart_shows_the_clock_of_the_chosen_zone_at_each_time(
    moment: str, chosen: ZoneInfo, browsers: ZoneInfo, drawn: str
) -> None:
    at, there = datetime.fromisoformat(moment), datetime.fromisoformat(drawn)
    assert same_clock(at, chosen, browsers) == there
    assert same_clock(there, browsers, chosen) == at


@pytest.mark.parametrize(
    ("begins", "ends", "drawn"),
    [
        ("2026-10-25T00:30Z", "2026-10-25T01:30Z", ("2026-10-25T02:30Z", "2026-10-25T03:30Z")),  # Berlin: 2:30, twice
        ("2026-10-25T00:50Z", "2026-10-25T01:05Z", ("2026-10-25T02:50Z", "2026-10-25T03:05Z")),
        ("2026-10-24T22:00Z", "2026-10-25T23:00Z", ("2026-10-25T00:00Z", "2026-10-26T00:00Z")),  # a day of 25 hours
    ],
)
def test_a_range_in_which_clocks_are_put_back_has_a_width(begins: str, ends: str, drawn: tuple[str, str]) -> None:
    found = same_clocks(datetime.fromisoformat(begins), datetime.fromisoformat(ends), BERLIN, UTC_ZONE)
    assert found == tuple(map(datetime.fromisoformat, drawn))


def test_a_range_on_the_other_side_of_a_clock_change_is_drawn_with_its_clock(
    shared: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    other = now.astimezone(BERLIN).utcoffset()
    start = next(day for weeks in range(1, 60) if (day := now - timedelta(weeks=weeks)).astimezone(BERLIN).utcoffset()
                 != other).replace(hour=10, minute=0, second=0, microsecond=0)  # fmt: skip
    bad = {"tool": "t", "outcome": "error", "error_class": "FileNotFoundError", "message": "m", "session": "s"}
    assert shared.post("/v1/events", json.dumps(bad | {"time": start.isoformat()})).is_success
    shared.kept_up()
    span = {"from_": (start - timedelta(hours=2)).isoformat(), "to": (start + timedelta(hours=4)).isoformat()}
    app = open_app(shared.url, "errors", tz="Europe/Berlin", **span)
    check(app, "Errors")
    [chart] = [each.proto for each in app.get("vega_lite_chart") if "over time" in each.proto.alt]
    [bar] = pl.read_ipc_stream(chart.datasets[0].data.data)["time"]
    assert bar.replace(tzinfo=None) == start.astimezone(BERLIN).replace(tzinfo=None)
    axis = json.loads(chart.spec)["layer"][0]["encoding"]["x"]["scale"]["domain"]
    clocks = [
        datetime.fromtimestamp(int(end["expr"]) / 1000, UTC).hour for end in axis
    ]  # a browser without a zone is in UTC
    assert clocks == [(start + timedelta(hours=n)).astimezone(BERLIN).hour for n in (-2, 4)]


def test_a_group_is_resolved_and_noted_from_its_page(coder: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    group = coder.get("/api/v1/groups", **RANGE, sort="-events", limit=1)["rows"][0]
    place = f"/api/v1/groups/{group['fingerprint']}"
    app = open_app(coder.url, "group", from_="-7d", fingerprint=group["fingerprint"])
    check(app, "Group")
    next(button for button in app.button if button.label == "Resolve").click().run()
    assert coder.get(place)["state"] == "resolved"
    app.text_area[0].input("seen by us")
    next(button for button in app.button if button.label == "Save").click().run()
    assert coder.get(place)["note"] == "seen by us"
    assert "Note: seen by us" in captions(app)
    next(button for button in app.button if button.label == "Reopen").click().run()
    assert coder.get(place)["state"] != "resolved"
    check(app, "Group")


def test_a_group_is_ignored_and_linked_from_its_page(coder: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    group = coder.get("/api/v1/groups", **RANGE, sort="-events", limit=1)["rows"][0]
    place = f"/api/v1/groups/{group['fingerprint']}"
    app = open_app(coder.url, "group", from_="-7d", fingerprint=group["fingerprint"])

    def press(label: str) -> None:
        next(button for button in app.button if button.label == label).click().run()

    app.number_input[0].set_value(7)
    app.number_input[1].set_value(3)
    press("Ignore")
    found = coder.get(place)
    assert (found["state"], found["until_events"], found["until_sessions"]) == ("ignored", 7, 3)
    assert any("since then 0 of 7 events and 0 of 3 sessions." in said for said in captions(app))
    field = next(one for one in app.text_input if one.label.startswith("Its address"))
    field.input("javascript:alert(1)")
    press("Link")
    assert any(said.startswith("Not saved: issue is an address") for said in captions(app))
    next(one for one in app.text_input if one.label.startswith("Its address")).input("https://t.example/AGENT-7")
    press("Link")
    assert coder.get(place)["issue"] == "https://t.example/AGENT-7"
    [link] = [one.proto for one in app.get("link_button")]
    assert (link.url, link.label) == ("https://t.example/AGENT-7", r"t\.example · AGENT\-7 ↗")
    press("Reopen")
    assert coder.get(place)["state"] != "ignored"
    check(app, "Group")


def test_a_view_is_saved_opened_and_removed(coder: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    name = "Mine of [x](http://evil.example) <b>"
    app = open_app(coder.url, "errors", from_="-7d", tool="a,b", q="it's")
    next(one for one in app.text_input if one.label.startswith("A name")).input(name)
    next(button for button in app.button if button.label == "Save view").click().run()
    [view] = coder.get("/api/v1/views")["rows"]
    assert (view["name"], view["page"], view["query"]) == (name, "errors", "from=-7d&tool=a%2Cb&q=it%27s")
    again = open_app(coder.url, "overview")
    [link] = [one.proto for one in again.get("page_link") if one.proto.label.startswith("Mine")]
    assert link.page == "errors"
    assert dict(parse_qsl(link.query_string)) == {"from": "-7d", "tool": "a,b", "q": "it's"}
    next(button for button in again.button if button.label.startswith("Remove Mine")).click().run()
    assert coder.get("/api/v1/views")["rows"] == []
    check(again, "Overview")


def test_a_streak_is_told_with_what_ended_it(busy: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    streak = busy.get("/api/v1/streaks", **RANGE, sort="-length", state="recovered", limit=1)["rows"][0]
    app = open_app(busy.url, "streak", session=streak["session"], service=streak["service"])
    check(app, "Streak")
    assert any(each.value.endswith("a success ended it.") for each in app.markdown)
    outcomes = [mark["outcome"] for mark in recorder(app)["marks"]]
    assert outcomes[-1] == "ok"
    assert outcomes.count("error") >= streak["length"]
    assert recorder(app)["brackets"][0]["title"] == f"{streak['length']} in a row, repaired"


def test_what_a_link_says_wrongly_is_said_and_left_out(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    app = open_app(busy.url, "tools", from_="-7d", toool="x")
    check(app, "Tools")
    assert any(said.startswith("Ignored from the link: toool") for said in captions(app))


@pytest.mark.parametrize(
    ("page", "link", "known"),
    [
        ("errors", {"tz": "Nowhere", "refresh": "abc", "state": "foo", "sort": "bar", "limit": "9"}, ""),
        ("streaks", {"scope": "foo", "limit": "99", "kind": "x", "by": "y"}, ""),
        ("streak", {"scope": "foo", "kind": "x"}, ""),
        ("compare", {"by": "zz"}, ""),
        ("compare", {"a": "zz", "b": "yy", "by": "model"}, "by"),
        ("errors", {"state": "new", "sort": "events", "tz": "UTC", "refresh": "30"}, "state sort tz refresh"),
    ],
)
def test_what_a_view_does_not_know_is_said_and_the_usual_shown(
    busy: RunningCollector, open_app: Callable[..., AppTest], page: str, link: dict[str, str], known: str
) -> None:
    session = busy.get("/api/v1/streaks", **RANGE, sort="-length", limit=1)["rows"][0]["session"]
    app = open_app(busy.url, page, from_="-7d", **link, **({"session": session} if page == "streak" else {}))
    check(app, page.capitalize())
    told = [each.removeprefix("Ignored from the link: ") for each in captions(app) if each.startswith("Ignored")]
    named = {part.replace("\\", "") for parts in told for part in parts.split(r"\, ")}
    assert named == {f"{name}={value}" for name, value in link.items() if name not in known.split()}
    assert not [each for each in captions(app) if "older than this page" in each]
    if "refresh" in link:
        assert any(f"⟳ {'30' if known else '10'} s" in each.proto.label for each in app.get("menu_button"))


def test_an_empty_collector_shows_how_to_point_an_agent_at_it(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    app = open_app(collector.url)
    check(app, "Overview")
    [choice] = app.selectbox
    assert choice.options == [agent.title for agent in agents.agents().values()]
    assert "Nothing received yet. Point an agent here:" in [each.value for each in app.subheader]
    assert "0 of 7 have arrived. This page notices what comes by itself." in captions(app)
    [command] = [each.value for each in app.code if " demo " in each.value]
    assert shutil.which(command.split()[0])
    assert command.endswith(f" demo --to {collector.url}")
    assert any(each.value.endswith(f" connect claude-code --url {collector.url}") for each in app.code)
    [said] = [each for each in captions(app) if "OTEL_LOG_RAW_API_BODIES=1" in each]
    assert "It costs: the first 60 KB of each request" in said
    assert f"BETA_TRACING_ENDPOINT={collector.url}" in said
    for page in PAGES:
        app = open_app(collector.url, page)
        check(app, page.capitalize())
        assert ("Nothing received yet." in captions(app)) == (page not in {"alerts", "health"}), page
    call = {"event.name": "tool_result", "session.id": "s", "tool_name": "Read", "success": "true"}
    collector.post("/v1/logs", logs({"attributes": call}, service="claude-code"))
    untold = [
        each for each in captions(open_app(collector.url, "sources", from_="1970-01-01")) if "does not tell" in each
    ]
    refused, details = untold
    assert "does not tell calls refused by validation" in refused
    assert "`misstep connect claude-code --with raw-bodies`" in refused
    assert "does not tell arguments of calls and texts of errors (`docs/agents/claude-code.md`)" in details


def ticks(app: AppTest) -> dict[str, str]:
    """The checklist: each mark by what it is about."""
    found = (re.match(r"(\S) \*\*(.+?)\*\* · (.+)", each.value) for each in app.markdown)
    return {each[2]: f"{each[1]} {each[3]}" for each in found if each}


def test_what_arrives_is_ticked_off_and_what_is_missing_has_its_price(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    refused = next(each["what"] for each in agents.agents()["claude-code"].untold)
    refused, details = f"C{refused[1:]}", "Arguments of calls and texts of errors"
    request = {"event.name": "api_request", "session.id": "s", "model": "claude-sonnet-5", "request_id": "r"}
    call = {"event.name": "tool_result", "session.id": "s", "tool_name": "Read", "success": "true"}
    collector.post("/v1/logs", logs({"attributes": request}, service="claude-code"))
    app = open_app(collector.url, setup="claude-code", from_="1970-01-01")
    assert ticks(app)["Anything from Claude Code"].startswith("✓ arrived · last ")
    assert (ticks(app)[refused], ticks(app)[details]) == ("○ not yet", "○ not yet")  # no call could show them
    assert ticks(app)["A running call that you interrupt"] == "– not told"

    collector.post("/v1/logs", logs({"attributes": call | {"tool_use_id": "t1"}}, service="claude-code"))
    time.sleep(FRESH_S)  # what the page shows may be as old
    app = open_app(collector.url, setup="claude-code", from_="1970-01-01")
    assert ticks(app)["How each call ended"] == "✓ arrived"
    assert (ticks(app)[refused], ticks(app)[details]) == ("✗ missing", "✗ missing")
    assert any(said.startswith("- `OTEL_LOG_TOOL_DETAILS=1`. It costs: arguments of calls") for said in captions(app))
    assert app.metric[0].label == "Error rate"  # the figures stand below

    detailed = call | {"tool_use_id": "t2", "tool_input": '{"file_path": "a.py"}'}
    collector.post("/v1/logs", logs({"attributes": detailed}, service="claude-code"))
    time.sleep(FRESH_S)
    app = open_app(collector.url, setup="claude-code", from_="1970-01-01")
    assert (ticks(app)[refused], ticks(app)[details]) == ("✗ missing", "✓ arrived")
    assert not any("OTEL_LOG_TOOL_DETAILS=1" in said for said in captions(app))
    other = open_app(collector.url, setup="codex", from_="1970-01-01")
    assert ticks(other)["Anything from Codex CLI"] == "○ not yet"
    assert "Also arrived: claude\\-code." in captions(other)
    assert f'endpoint = "{collector.url}/v1/logs"' in other.code[0].value


def test_who_sends_only_metrics_is_seen_and_an_unknown_error_has_a_row_to_paste(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    agent = {"attributes": [{"key": "service.name", "value": {"stringValue": "continue-cli"}}]}
    points = {"name": "continue.calls", "sum": {"dataPoints": [{"asInt": "1"}]}}
    metrics = {"resourceMetrics": [{"resource": agent, "scopeMetrics": [{"metrics": [points]}]}]}
    collector.post("/v1/metrics", json.dumps(metrics))
    odd = {"tool": "flux", "outcome": "error", "message": "the flux went sideways", "session": "s"}
    collector.post("/v1/events", json.dumps(odd))
    app = open_app(collector.url, "sources", from_="-7d")
    check(app, "Sources")
    senders = table(app, "source", "reports")
    assert dict(zip(senders["source"], senders["reports"], strict=True)) == {
        "continue": "seen, no tool data",
        "event": "all calls",
    }
    assert any(said.startswith("**continue\\-cli**: seen, no tool data.") for said in captions(app))
    assert [each.value for each in app.text] == ["the flux went sideways"]
    [row] = [tomllib.loads(each.value)["messages"][0] for each in app.code if "[[messages]]" in each.value]
    assert (row["where"], row["examples"]) == (["tool"], ["the flux went sideways"])


def test_in_a_narrow_window_a_sender_without_a_service_has_the_name_of_its_source(
    collector: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"tool": "flux", "outcome": "error", "message": "no", "session": "s"}
    collector.post("/v1/events", json.dumps([failed, failed | {"service": "web"}]))
    monkeypatch.setattr(type(st.context), "cookies", {WIDTH: "900"})
    app = open_app(collector.url, "sources")
    check(app, "Sources")
    assert set(table(app, "sender")["sender"]) == {"event", "web"}


def test_the_last_answer_stays_while_the_collector_is_away(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], tmp_path: Path
) -> None:
    running = start_collector()
    misstep("demo", "--to", running.url, "--sessions", "2", "--seed", "1", cwd=tmp_path)
    app = open_app(running.url, "health")
    before = metric(app, "Events")
    running.stop()
    wait_until(lambda: bool(app.run().error), lambda: "the page does not say that the collector is away")
    assert app.error[0].value.startswith("Collector at 127.0.0.1:")
    assert metric(app, "Events") == before
    told = re.search(r" \(since (\d\d:\d\d:\d\d)\)\. Showing (\d\d:\d\d:\d\d)\. Retrying\.", app.error[0].value)
    assert told
    assert told[2] <= told[1]


def test_what_is_shown_while_the_collector_is_away_is_as_old_as_the_oldest_answer_and_no_fault_of_the_rules(
    start_collector: Callable[..., RunningCollector],
    open_app: Callable[..., AppTest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "rules.yaml").write_text(rule_file())
    running = start_collector(RULES=str(tmp_path / "rules.yaml"))
    wait_until(lambda: running.get("/api/v1/rules")["rows"][0]["evaluated"])
    app = open_app(running.url, "alerts", tz="UTC")
    check(app, "Alerts")
    monkeypatch.setattr(Page, "now", property(lambda page: datetime.now(UTC) + timedelta(minutes=5)))
    stale = "The rules were last evaluated 5"
    assert [each.value.startswith(stale) for each in app.run().error] == [True]
    running.stop()
    wait_until(lambda: any("does not answer" in each.value for each in app.run().error))
    assert not any(each.value.startswith(stale) for each in app.error)
    oldest = min(fetched for _, fetched in app.session_state["share-asked"][2].values())
    assert f" Showing {words.clock(oldest, ZoneInfo('UTC'), now=oldest)}. " in app.error[0].value


def test_the_last_answer_of_a_collector_that_is_stuck_is_shown_with_its_age(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start_collector()
    assert running.post("/v1/events", b'{"tool": "t", "outcome": "ok"}').is_success
    monkeypatch.setattr("dashboard.data.client.TIMEOUT_S", 2.0)
    app = open_app(running.url, "tools")
    check(app, "Tools")
    assert running.process is not None
    running.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: any(re.match(r"This is \d+\u00a0s old: ", each) for each in captions(app.run())))
        assert table(app, "tool")["tool"] == ["t"]
        app = open_app(running.url, "tools", service="s")  # what was never answered
        said = [each.proto.label for each in app.get("page_link") if each.proto.label.startswith("The last")]
        assert said
        assert set(said) == {"The last hour →"}
    finally:
        running.process.send_signal(signal.SIGCONT)


def test_live_shows_errors_only_and_pauses_by_its_link(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    calls = [{"tool": "t", "outcome": outcome, "message": "m"} for outcome in ("ok", "error")]
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    app = open_app(collector.url, "live")
    check(app, "Live")
    assert [each.value for each in app.toggle] == [False, False]
    assert sorted(table(app, "outcome")["outcome"]) == ["error", "ok"]
    for toggle in range(2):
        app.toggle[toggle].set_value(True).run()
    assert (app.query_params["refresh"], app.query_params["outcome"]) == ("0", "error")
    assert table(app, "outcome")["outcome"] == ["error"]
    app = open_app(collector.url, "live", outcome="error", refresh="0")
    assert [each.value for each in app.toggle] == [True, True]
    for toggle in range(2):
        app.toggle[toggle].set_value(False).run()
    assert not {"refresh", "outcome"} & set(app.query_params)


def test_zooming_out_never_zooms_in(shared: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    now = datetime.now(UTC)
    week = [(now - timedelta(days=days)).isoformat() for days in (8, 1)]
    app = open_app(shared.url, "errors", from_=week[0], to=week[1])
    app.session_state["filters-zoomed"] = [("-30d", ""), ("-24h", ""), tuple(week)]
    next(button for button in app.button if button.label == "Zoom out").click().run()
    assert (app.query_params["from"], "to" in app.query_params) == ("-30d", False)
    app.session_state["filters-zoomed"] = [("-30d", "")]
    next(group for group in app.button_group if group.label == "Range").set_value("1h").run()
    assert "filters-zoomed" not in app.session_state


@pytest.mark.parametrize("page", ["overview", "tool", "retries"])
def test_of_a_collector_that_never_answered_nothing_is_said_but_that(
    open_app: Callable[..., AppTest], page: str
) -> None:
    place = f"127.0.0.1:{free_port()}"
    app = open_app(f"http://{place}", page, tool="t")
    check(app, page.capitalize())
    assert [said.value.partition(" (since ")[0] for said in app.error] == [f"Collector at {place} does not answer"]
    assert "MISSTEP_COLLECTOR_URL" in app.error[0].value
    assert [said for said in captions(app) if "does not answer" in said] == [
        words.plain(f"Collector at {place} does not answer.")
    ]


def test_the_collectors_own_errors_are_on_the_health_page(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    running = start_collector()
    assert running.process is not None
    with largest_file(running.process.pid, running.store.with_name("misstep.duckdb.wal").stat().st_size):
        assert running.post("/v1/events", b'{"tool": "t", "outcome": "ok"}').status_code == 200  # it is in the journal
        running.get("/api/v1/health")
        assert running.post("/v1/events", b'{"tool": "u", "outcome": "ok"}').status_code == 503
    assert running.post("/v1/traces", b"{").status_code == 400
    app = open_app(running.url, "health")
    why = table(app, "why", "requests")
    assert dict(zip(why["why"], why["requests"], strict=True)) == {"unavailable": 1, "malformed": 1}
    assert table(app, "what to do")["what to do"] == ["make room on its disk"]


def test_an_error_of_the_collector_has_its_cause_and_the_readers_time(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], tmp_path: Path
) -> None:
    webhook = f'{{webhook: "http://127.0.0.1:{free_port()}/"}}'
    rules = f"{rule_file()}receivers: {{team: {webhook}}}\n"
    (tmp_path / "rules.yaml").write_text(rules.replace("15m", "2d"))
    running = start_collector(RULES=str(tmp_path / "rules.yaml"))
    assert running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC)))).is_success
    wait_until(lambda: len(running.get("/api/v1/health")["errors"]) > 1)
    app = open_app(running.url, "health", tz="Asia/Kathmandu")
    check(app, "Health")
    errors = table(app, "what")
    assert errors.columns == ["time", "what", "why"]
    assert "stamina.retry_scheduled" in errors["what"]
    assert all("cannot be reached" in why for why in errors["why"])
    newest = datetime.fromisoformat(running.get("/api/v1/health")["errors"][-1]["timestamp"])
    assert errors["time"][0] == f"{newest.astimezone(ZoneInfo('Asia/Kathmandu')):%-d %b %H:%M:%S}"


def test_what_a_list_leaves_out_or_cuts_is_told(collector: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    start = datetime.now(UTC) - timedelta(minutes=30)
    sessions = [f"0b0e6f3a-7d0c-4c1e-9a53-{number:012}" for number in range(21)]
    calls = [
        {"service": "s", "session": session, "tool": f"tool-{place % 8}", "model": f"model-{place % 7}",
         "outcome": "error", "error_class": "ContentNotFoundError", "message": "no such text",
         "time": (start + timedelta(seconds=40 * place + turn)).isoformat()}
        for place, session in enumerate(sessions) for turn in range(3)
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    app = open_app(collector.url)
    check(app, "Overview")
    links = {each.proto.label: each.proto.query_string for each in app.get("page_link")}
    assert links["All 8 new →"] == "state=new"
    assert "of 21 sessions →" in links
    assert f"{words.rate(1.0)} of all" in captions(app)
    app = open_app(collector.url, "sessions")
    check(app, "Sessions")
    listed = table(app, "session", "worst_streak")
    assert {*listed["session"]} <= {*sessions}
    assert [dict(parse_qsl(urlsplit(link).query))["session"] for link in listed.links] == listed["session"]
    app = open_app(collector.url, "streaks")
    check(app, "Streaks")
    assert table(app, "interrupted").foot == "7 of 7"


@pytest.mark.parametrize("by", ["model", "agent", "tool"])
def test_a_limit_is_told_by_model_agent_and_tool(
    busy: RunningCollector, open_app: Callable[..., AppTest], by: str
) -> None:
    asked = {"scope": "session", "kind": "mistake", "by": by, "limit": 1_000}
    rows = busy.get("/api/v1/streaks/limits", **RANGE, **asked)["rows"]
    stopped = {row[by]: row["interrupted"] for row in rows if row["mistake_limit"] == 2}
    app = open_app(busy.url, "streaks", from_="-6d", by=by, limit="2")
    check(app, "Streaks")
    limits = table(app, "interrupted")
    shown = dict(zip(limits[by], limits["interrupted"], strict=True))
    assert shown == {"(none)" if name is None else name: count for name, count in stopped.items()}
    assert stopped


def test_no_tool_is_left_out_of_what_a_limit_would_have_done(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """Each has a row for every limit: more than a list of the API has by default."""
    start = datetime.now(UTC) - timedelta(minutes=30)
    bad = {"outcome": "error", "error_class": "FileNotFoundError", "message": "no such file"}
    calls = [
        {"session": f"s{tool}", "tool": f"t{tool}", "time": (start + timedelta(seconds=turn)).isoformat()}
        | (bad if turn < 10 else {"outcome": "ok"})
        for tool in range(150) for turn in range(11)
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    app = open_app(collector.url, "streaks", by="tool")
    check(app, "Streaks")
    assert table(app, "interrupted").foot == "1–12 of 150"


def test_who_is_silent_longest_is_told_first_and_how_many_more_are(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    running = start_collector()
    now = datetime.now(UTC)
    calls = [
        {"service": f"after-{hours}", "tool": "t", "outcome": "ok", "time": (now - timedelta(hours=hours)).isoformat()}
        for hours in (0, 2, 3, 4, 5, 6)
    ]
    assert running.post("/v1/events", json.dumps(calls)).is_success
    app = open_app(running.url)
    check(app, "Overview")
    links = [each.proto.label for each in app.get("page_link") if "silent" in each.proto.label]
    assert re.findall(r"after\W+(\d)", " ".join(links)) == ["6", "5", "4"]
    assert links[-1] == "2 more silent →"


def test_a_missing_token_is_said_with_its_remedy(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest]
) -> None:
    running = start_collector(QUERY_TOKENS="open-sesame")
    refused = captions(open_app(running.url, "tools"))
    assert any("MISSTEP\\_QUERY\\_TOKEN" in said for said in refused)
    allowed = captions(open_app(running.url, "tools", token="open-sesame"))
    assert not any("TOKEN" in said for said in allowed)


def test_the_command_names_the_app_its_port_and_its_collector() -> None:
    command = launch.command(8600, "0.0.0.0")
    assert command[1:5] == ["-P", "-m", "streamlit", "run"]
    assert Path(command[5]) == Path(APP).with_name("app.py")
    assert {"--server.port=8600", "--server.address=0.0.0.0"} <= set(command)
    environment = launch.environment({"PATH": "/bin", "MISSTEP_TRACE_URL": "t"}, collector="http://c:1", token="k")
    expected: dict[str, Any] = {
        "PATH": "/bin",
        "MISSTEP_COLLECTOR_URL": "http://c:1",
        "MISSTEP_QUERY_TOKEN": "k",
        "MISSTEP_TRACE_URL": "t",
    }
    assert environment.items() >= expected.items()


def test_errors_without_a_session_are_not_said_to_be_none(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    call = {"tool": "read_file", "outcome": "error", "error_class": "FileNotFoundError", "message": "no"}
    assert collector.post("/v1/events", json.dumps(call)).is_success
    collector.kept_up()
    app = open_app(collector.url)
    check(app, "Overview")
    assert "No tool failed." not in captions(app)
    assert any(said.startswith("No error of a tool has a session") for said in captions(app))
    labels = [each.proto.label for each in app.get("page_link")]
    assert "Tools by their error rates →" in labels
    assert any(label.startswith("of 0 errors with a session") for label in labels), labels


def test_a_sender_of_nothing_but_errors_is_asked_for_its_successes(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=30)
    call = {
        "tool": "read_file",
        "outcome": "error",
        "error_class": "FileNotFoundError",
        "session": "s",
        "message": "no",
    }
    failing = [
        call | {"service": service, "time": (began + timedelta(seconds=number)).isoformat()}
        for service, times in (("all-fail", 20), ("some-fail", 20), ("few", 19))
        for number in range(times)
    ]
    fine = {"tool": "read_file", "outcome": "ok", "session": "s", "service": "some-fail", "time": began.isoformat()}
    assert collector.post("/v1/events", json.dumps([*failing, fine])).is_success
    collector.kept_up()
    app = open_app(collector.url, "sources")
    check(app, "Sources")
    rows = {row["service"]: row["reports"] for row in table(app, "service").rows}
    assert rows == {"all-fail": "only failed calls", "some-fail": "all calls", "few": "all calls"}
    [said] = [said for said in captions(app) if "calls failed" in said]
    assert said.startswith(f"**{words.plain('all-fail')}**: all 20 calls failed.")
    assert said.endswith(f"{words.plain('send the calls that ended well too')}.")
    app = open_app(collector.url, "sources", outcome="error")  # the filter leaves out the others
    assert not any("calls failed" in said for said in captions(app))
    for page in ("session", "streak"):
        app = open_app(collector.url, page, session="s", service="all-fail")
        check(app, page.capitalize())
        assert any(re.search(r"\bbegan .*\d\d:\d\d:\d\d, 30\u00a0min\u00a0ago$", said) for said in captions(app))


def test_every_rate_of_sampled_calls_is_marked(collector: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    times = {"startTimeUnixNano": str(time.time_ns() - 10**6), "endTimeUnixNano": str(time.time_ns())}
    names = {"gen_ai.tool.name": "read", "gen_ai.conversation.id": "c", "error.type": "FileNotFoundError"}
    span = {"name": "execute_tool read", "traceState": "ot=th:e66", "attributes": names}
    collector.post("/v1/traces", spans(span | times, service="web-agent"))
    mark = "sampled upstream, about 1 in 10 kept"
    for page in ("overview", "tools", "errors", "retries", "streaks"):
        app = open_app(collector.url, page)
        check(app, page.capitalize())
        assert mark in captions(app), (page, captions(app))
    app = open_app(collector.url, "sources")
    told = [words.plain("web-agent"), mark, words.plain("tracestate ot=th")]
    assert any(all(word in said for word in told) for said in captions(app))


def test_an_agents_own_count_stands_beside_ours(collector: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    now = time.time_ns()
    failures = [cline("task.tool_used", tool="write_to_file", success=False, ulid="t1") for _ in range(2)]
    stopped = cline("task.mistake_limit_reached", ulid="t1", consecutiveMistakes=6, reason="tool_execution_failed")
    records = [one | {"timeUnixNano": str(now - 10**10 + n * 10**9)} for n, one in enumerate([*failures, stopped])]
    collector.post("/v1/logs", logs(*records, service="cline"))
    collector.kept_up()
    app = open_app(collector.url, "streaks", kind="error")
    check(app, "Streaks")
    assert any(f"{words.rate_of(0, 1)}** agree with ours" in each.value for each in app.markdown)
    assert any("its limit was reached" in said and words.WHY["not_seen"] in said for said in captions(app))


def test_nothing_is_shown_before_sign_in_where_it_is_asked_for(
    busy: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = AppTest.from_file(APP, default_timeout=60)
    app.secrets = {"auth": {"redirect_uri": "http://localhost/oauth2callback", "cookie_secret": "c", "client_id": "i"}}
    monkeypatch.setenv("MISSTEP_COLLECTOR_URL", busy.url)
    app.run()
    assert [each.value for each in app.title] == ["Misstep"]
    assert [each.label for each in app.button] == ["Sign in"]
    assert not app.metric


def test_nothing_is_shown_where_sign_in_was_asked_for_and_its_secrets_are_gone(
    busy: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "AT_START", True)
    app = open_app(busy.url)
    assert [each.value for each in app.title] == ["Misstep"]
    assert ["Sign-in is not available" in each.value for each in app.warning] == [True]
    assert not app.button
    assert not app.metric


def test_an_alert_leads_to_its_evidence_and_is_silenced_and_its_rule_is_tried(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(rule_file("2d"))
    running = start_collector(RULES=str(rules))
    running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC))))
    wait_until(lambda: running.get("/api/v1/alerts")["rows"])
    app = open_app(running.url, "alerts", from_="-1h", tz="UTC")
    check(app, "Alerts")
    [alert] = running.get("/api/v1/alerts")["rows"]
    assert any("■ Firing" in each.value and words.plain(alert["rule"]) in each.value for each in app.markdown)
    [evidence] = [each.proto for each in app.get("page_link") if each.proto.label == "Open evidence →"]
    page, _, query = alert["evidence"].partition("?")
    assert (evidence.page, dict(parse_qsl(evidence.query_string))) == (page, dict(parse_qsl(query)) | {"tz": "UTC"})
    assert {"from", "to"} <= set(dict(parse_qsl(query)))
    key = f"silence-{alert['rule']}-{json.dumps(alert['labels'], separators=(',', ':'))}"
    app.session_state[key] = True
    next(button for button in app.button if button.label == "Silence it").click().run()
    assert "A silence needs a reason." in [said.replace("\\", "") for said in captions(app)]
    [opened] = [each for each in app.get("popover") if each.proto.popover.label == "Silence"]
    assert [said.value.replace("\\", "") for said in opened.caption] == ["A silence needs a reason."]
    assert opened.proto.popover.open
    assert running.get("/api/v1/silences")["rows"] == []
    [reason] = [each for each in app.text_input if each.label == "Reason"]
    reason.input("being mended")
    next(button for button in app.button if button.label == "Silence it").click().run()
    assert [row["reason"] for row in running.get("/api/v1/silences")["rows"]] == ["being mended"]
    [state] = [each.value for each in app.markdown if each.value.startswith("No alert is firing.")]
    assert re.match(r"No alert is firing\. (◧ \d+ pending · )?\d+ rules?, evaluated ", state), state
    assert [each.proto.popover.open for each in app.get("popover") if each.proto.popover.label == "Silence"] == [False]
    menu = [each.proto.label for each in open_app(running.url, "tools").get("page_link")]
    assert "Alerts" in menu
    assert metric(open_app(running.url), "Alerts") == "0 firing"
    next(button for button in app.button if button.label == "End").click().run()
    assert running.get("/api/v1/silences")["rows"] == []
    next(toggle for toggle in app.toggle if toggle.label.startswith("Try content-not-found")).set_value(True).run()
    check(app, "Alerts")
    text = str(app.text_area[0].value)
    typed = {"Content-Type": "application/yaml"}
    asked: Any = {"params": {"from": "-7d", "step": "5m"}, "headers": typed, "timeout": 30}
    tried = httpx.post(f"{running.url}/api/v1/rules/backtest", content=rule_words.file_of(text), **asked).json()["rows"]
    fired, pages = words.plural(tried[0]["fired"], "time"), words.plural(tried[0]["pages"], "page")
    told = f"It would have fired **{fired}** ({pages}): "
    assert any(each.value.startswith(told) for each in app.markdown)
    rules.unlink()
    wait_until(lambda: running.get("/api/v1/alerts")["mistakes"])
    assert any("what was read from it stays in force" in each.value for each in open_app(running.url, "alerts").error)


def test_every_one_of_many_alerts_is_counted_and_can_be_found(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], tmp_path: Path
) -> None:
    """More than a list of the API has by default."""
    rules = tmp_path / "rules.yaml"
    lasting = "    window: 1h\n    condition: '>= 4'\n"
    rules.write_text(f"rules:\n  - name: stuck\n    measure: streak\n    by: [service, session]\n{lasting}")
    running = start_collector(RULES=str(rules))
    start = datetime.now(UTC) - timedelta(minutes=1)
    bad = {"outcome": "error", "error_class": "InvalidParameterError", "message": "bad pattern", "tool": "grep"}
    many = 130
    calls = [
        bad | {"service": "s", "session": f"s-{session}", "time": (start + timedelta(seconds=n)).isoformat()}
        for session in range(many) for n in range(4)
    ]  # fmt: skip
    assert running.post("/v1/events", json.dumps(calls)).is_success
    wait_until(lambda: len(running.get("/api/v1/alerts", limit=1000, state="firing")["rows"]) == many)
    for number in range(105):
        silence = {"rule": "stuck", "labels": {"session": f"s-{number}"}, "duration": "1h", "author": "a",
                   "reason": f"known {number}"}  # fmt: skip
        assert running.post("/api/v1/silences", json.dumps(silence)).is_success
    loud = many - 105
    app = open_app(running.url)
    assert metric(app, "Alerts") == f"{loud} firing"
    assert f"Alerts · {loud} firing" in [each.proto.label for each in app.get("page_link")]
    app = open_app(running.url, "alerts", **{"quiet.rows": "200", "loud.rows": "200"})
    check(app, "Alerts")
    assert any(each.value.startswith(f"■ {loud} firing · ") for each in app.markdown)
    more = table(app, "compared")
    shown = {word for each in app.markdown for word in re.findall(r"■ Firing.*session s\\-(\d+)", each.value)}
    listed = {text.rpartition("s-")[2] for text in more["about"]}
    assert (len(shown), len(listed), len(shown | listed)) == (loud + 50, 55, many)
    ends = [button for button in app.button if button.label == "End"]
    assert len(ends) == 105


def test_a_group_becomes_an_alert_with_two_clicks(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], tmp_path: Path
) -> None:
    rules = tmp_path / "alerts.yaml"
    mine = "# Ours.\nreceivers:\n  team: {webhook: 'http://127.0.0.1:1/hook'}  # the on-call\n" + rule_file()
    rules.write_text(mine)
    running = start_collector(RULES=str(rules))
    assert running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC)))).is_success
    group = running.kept_up().get("/api/v1/groups", **RANGE, sort="-events", limit=1)["rows"][0]
    app = open_app(running.url, "group", fingerprint=group["fingerprint"], from_="-7d")
    next(button for button in app.button if button.label == "Alert me").click().run()
    check(app, "Group")
    assert any("would have fired **" in each.value or "not have fired" in each.value for each in app.markdown)
    threshold = next(each for each in app.number_input if each.label == "More than this many errors")
    rule = rule_words.for_group(group, name="one", window="1h", threshold=0, notify=["team"])
    asked: Any = {"params": {"from": "-7d", "step": "5m"}, "headers": {"Content-Type": "application/yaml"}}
    found = httpx.post(f"{running.url}/api/v1/rules/suggest", content=rule_words.as_file(rule), timeout=30, **asked)
    assert threshold.value == found.json()["rows"][0]["suggested"]["threshold"]
    assert [each.value for each in app.multiselect] == [["team"]]
    threshold.set_value(2).run()
    next(button for button in app.button if button.label == "Save the rule").click().run()
    check(app, "Group")
    written = rules.read_text()
    assert written.startswith(mine)
    name = rule_words.name_for(group, ["content-not-found"])
    assert yaml.safe_load(written)["rules"][1] == {**rule, "name": name, "condition": "> 2"}
    assert any(each.proto.label.startswith(f"Alert: **{words.plain(name)}**") for each in app.get("page_link"))
    assert name in [row["name"] for row in running.get("/api/v1/rules")["rows"]]

    app = open_app(running.url, "alerts", rule=name)
    check(app, "Alerts")
    [text] = app.text_area
    text.set_value(str(text.value).replace("> 2", "> oops")).run()
    assert any("write a comparison" in said.replace("\\", "") for said in captions(app))
    next(button for button in app.button if button.label == "Save").click().run()
    assert ["field 'condition'" in each.value.replace("\\", "") for each in app.error] == [True]
    assert rules.read_text() == written
    next(each for each in app.text_area).set_value(str(text.value).replace("> oops", "> 3")).run()
    next(button for button in app.button if button.label == "Save").click().run()
    assert rules.read_text() == written.replace("'> 2'", "'> 3'")
    next(button for button in app.button if button.label == "Remove it").click().run()
    assert rules.read_text() == mine
    assert running.get("/api/v1/rules")["rows"][-1]["name"] == "content-not-found"


def test_moving_the_threshold_of_a_tried_rule_asks_about_the_same_week(
    start_collector: Callable[..., RunningCollector],
    open_app: Callable[..., AppTest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(rule_file())
    running = start_collector(RULES=str(rules))
    assert running.post("/v1/events", json.dumps(two_versions(datetime.now(UTC)))).is_success
    asked: list[dict[str, str]] = []
    real = Collector.try_rules

    def noted(self: Collector, path: str, rules: str, params: dict[str, str]) -> Answer:
        asked.append(dict(params))
        return real(self, path, rules, params)

    monkeypatch.setattr(Collector, "try_rules", noted)
    app = open_app(running.url, "alerts")
    next(toggle for toggle in app.toggle if toggle.label.startswith("Try content-not-found")).set_value(True).run()
    for number in (1.0, 1000.0):
        next(each for each in app.number_input if each.label == "Another threshold").set_value(number).run()
        check(app, "Alerts")
    assert [params.pop("threshold", "") for params in asked] == ["", "1", "1000"]
    assert all(params == asked[0] for params in asked)
    assert any("would **not have fired**" in each.value for each in app.markdown)


@pytest.fixture(scope="module")
def busy_api() -> Iterator[str]:
    """An API that is too busy for every query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"error": {"message": "this took longer than 20 s: narrow the range"}}).encode()
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["overview", *PAGES, "changes"])
def test_a_page_that_gets_no_answer_says_why_and_nothing_of_it_fails(
    busy_api: str, open_app: Callable[..., AppTest], name: str
) -> None:
    app = open_app(busy_api, name)
    assert not app.exception
    assert not [said for said in captions(app) if "failed (id" in said]
    assert any("narrow the range" in said.replace("\\", "") for said in captions(app))


@pytest.mark.parametrize(
    ("page", "link", "shown"),
    [
        ("errors", {"state": "new"}, ["new"]),
        ("streaks", {"scope": "tool", "kind": "error", "limit": "5", "by": "tool"}, ["tool", "error", "tool", 5]),
        ("compare", {"by": "service", "a": "coder", "b": "web"}, ["service", "coder", "web"]),
    ],
)
def test_what_a_view_shows_is_what_its_link_says_also_after_back(
    few: RunningCollector, open_app: Callable[..., AppTest], page: str, link: dict[str, str], shown: list[Any]
) -> None:
    app = open_app(few.url, page)

    def chosen() -> list[Any]:
        widgets = [*(each for each in app.button_group if each.label in SWITCHES), *app.selectbox, *app.slider]
        return [each.value for each in widgets]

    usual = chosen()
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    check(app, page.capitalize())
    assert chosen() == shown
    for name in link:
        del app.query_params[name]
    app.run()
    assert chosen() == usual


def test_a_version_is_not_compared_with_itself(coder: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(coder.url, "compare", from_="-7d", a="3.2", b="3.2")
    check(app, "Compare")
    assert [(each.value, "3.2" in each.options) for each in app.selectbox] == [("3.2", True), ("3.1", False)]
    assert words.plain("b=3.2") in "".join(said for said in captions(app) if said.startswith("Ignored"))
    next(group for group in app.button_group if group.label == "Compare").set_value("model").run()
    assert not {"a", "b"} & set(app.query_params)


def test_columns_of_your_own_are_compared_from_a_list_which_is_never_cut_off(
    coder: RunningCollector, open_app: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(app: AppTest) -> tuple[object, list[str]]:
        [way] = [each for each in [*app.button_group, *app.selectbox] if each.label == "Compare"]
        return type(way), list(way.options)

    usual = ["version", "model", "agent", "service", "environment", "period"]
    assert chosen(open_app(coder.url, "compare", from_="-7d")) == (ButtonGroup, usual)
    monkeypatch.setattr("dashboard.data.filters.OWN", ("team", "prompt.version"))
    app = open_app(coder.url, "compare", from_="-7d")
    check(app, "Compare")
    assert chosen(app) == (Selectbox, [*usual[:-1], "team", "prompt.version", "period"])


@pytest.fixture
def side_by_side(collector: RunningCollector) -> RunningCollector:
    """Version 2 came after 1 nine hours ago and both run on, 1 last; 3 came half an hour ago."""
    now = datetime.now(UTC)
    called = {"service": "coder", "tool": "read_file"}
    ran = {"1": (600, 90, 20, 1), "2": (540, 100, 10), "3": (30, 5)}
    calls = [
        called | {"service_version": version, "session": f"{version}-{minutes}", "outcome": outcome,
                  "time": (now - timedelta(minutes=minutes)).isoformat()}
        | ({"error_class": "TimeoutError", "message": "late"} if outcome == "error" else {})
        for version, when in ran.items() for minutes in when for outcome in ("ok", "error")
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    return collector.kept_up()


def test_versions_side_by_side_were_not_deployed_in_the_range(
    side_by_side: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    for since, deploys in (("-2h", {"coder 3"}), ("-24h", {"coder 2", "coder 3"})):
        app = open_app(side_by_side.url, from_=since)
        check(app, "Overview")
        [chart] = [each.proto for each in app.get("vega_lite_chart") if "over time by category" in each.proto.alt]
        parts = [pl.read_ipc_stream(part.data.data) for part in chart.datasets]
        assert {label for part in parts if "label" in part.columns for label in part["label"]} == deploys


def test_the_newest_versions_are_those_deployed_last(
    side_by_side: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """Version 2 is called first in the range, 1 after it."""
    app = open_app(side_by_side.url, "compare", from_="-105m")
    check(app, "Compare")
    assert [each.value for each in app.selectbox if each.label.startswith(("A", "B"))] == ["2", "3"]
    app = open_app(side_by_side.url, "compare", from_="-105m", b="2")
    assert [each.value for each in app.selectbox if each.label.startswith(("A", "B"))] == ["1", "2"]


def test_versions_are_compared_within_one_service(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """Both services have a version 2, and that of the other one always fails."""
    now = datetime.now(UTC)
    error = {"outcome": "error", "error_class": "TimeoutError", "message": "late"}
    calls = [
        {"service": service, "service_version": version, "session": f"{service}{version}{number}", "tool": "t",
         "outcome": "ok", "time": (now - timedelta(hours=hours, minutes=number)).isoformat()} | (error if bad else {})
        for service, version, hours, many, bad in
        (("co,der", "1", 9, 30, False), ("co,der", "2", 5, 30, False), ("web", "2", 3, 50, True))
        for number in range(many)
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    for about, heading, n in (
        ({}, "**1** → **2** of co\\,der", "0 %, n = 30 and 30 calls"),
        ({"a": "2", "b": "1"}, "**2** → **1** of co\\,der", "0 %, n = 30 and 30 calls"),
        ({"service": "!x"}, "**1** → **2** of co\\,der", "0 %, n = 30 and 30 calls"),
        ({"service": "co\\,der,web"}, "**1** → **2**", "n = 30 and 80 calls"),
    ):
        app = open_app(collector.url, "compare", **about)
        check(app, "Compare")
        said = [each.value for each in app.markdown]
        assert heading in said
        assert any(line.startswith("Error rate:") and line.endswith(words.plain(n)) for line in said), said


def test_the_limit_of_the_simulator_is_part_of_the_link(
    busy: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    rows = busy.get("/api/v1/streaks/limits", **RANGE, scope="session", kind="mistake")["rows"]
    said = {row["mistake_limit"]: sentences.limit(row["mistake_limit"], row) for row in rows}
    longest = max(said)
    app = open_app(busy.url, "streaks", from_="-7d", limit=str(longest))
    check(app, "Streaks")
    assert said[longest] in [each.value for each in app.markdown]
    app.slider[0].set_value(2).run()
    assert said[2] in [each.value for each in app.markdown]
    assert app.query_params["limit"] == "2"
    app.slider[0].set_value(3).run()
    assert "limit" not in app.query_params
    assert open_app(busy.url, "streaks", limit="99").slider[0].value == 3


def test_a_version_first_seen_after_a_past_range_is_not_offered(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """Version 1 ran before the range, 2 and 3 in it, 4 after it."""
    now = datetime.now(UTC)
    calls = [
        {"service": "coder", "service_version": version, "tool": "t", "outcome": "ok", "session": version,
         "time": (now - timedelta(hours=hours)).isoformat()}
        for version, hours in (("1", 30), ("2", 20), ("3", 12), ("4", 2))
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).is_success
    collector.kept_up()
    past = [(now - timedelta(hours=hours)).isoformat() for hours in (24, 10)]
    for range_, offered in (({"from_": past[0], "to": past[1]}, {"1", "2", "3"}), ({"from_": "-24h"}, {*"1234"})):
        app = open_app(collector.url, "compare", **range_)
        check(app, "Compare")
        [first] = [each for each in app.selectbox if each.label.startswith("A")]
        assert {*first.options} == offered


def test_what_is_the_same_events_by_another_name_is_listed_once(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    """All but one error of a service are those of its agent; two tools fail as often as each other, by chance."""
    now = datetime.now(UTC)

    def calls(hours: int, failed: int) -> list[dict[str, Any]]:
        return [
            {"service": "shop", "agent": "other" if number == 0 else "fixer", "tool": f"t{number % 2}",
             "session": f"{hours}-{number}", "time": (now - timedelta(hours=hours, seconds=number)).isoformat()}
            | ({"outcome": "error", "error_class": "TimeoutError", "message": f"late {chr(97 + number % 2)}"}
               if number < failed else {"outcome": "ok"})
            for number in range(200)
        ]  # fmt: skip

    for sent in (calls(71, 20), calls(40, 0), calls(10, 120)):
        assert collector.post("/v1/events", json.dumps(sent)).is_success
    collector.kept_up()
    app = open_app(collector.url, "changes", from_="-36h")
    check(app, "What changed")
    listed = [each.proto.label for each in app.get("page_link") if "more · " in each.proto.label]
    assert listed, captions(app)
    [one] = [label for label in listed if "fixer" in label]
    assert "service \\= shop" in one
    assert "also" in one
    assert not [label for label in listed if "t0" in label and "t1" in label]
