"""The page's link and the API's parameters have the same grammar, and every link can be read."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.alerts.notify import describe
from collector.alerts.rules import Rule, parse_condition
from collector.alerts.state import Alert, State
from collector.query.filters import select, terms_of_rule
from dashboard import launch
from dashboard.data.filters import CHOICES, DIMENSIONS, NUMBERS, VIEW_KEYS, Condition, Filters, parse

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)

FREE = [name for name in DIMENSIONS if name not in CHOICES and name not in NUMBERS]
values = st.lists(st.text("ab,!\\ é", max_size=6) | st.text(max_size=12), max_size=3, unique=True).map(tuple)
conditions = st.builds(Condition, st.sampled_from(FREE), values, values).filter(lambda c: c.allowed or c.excluded)
ranges = st.sampled_from(
    [
        ("-24h", ""),
        ("-15m", ""),
        ("-7d", "-1h"),
        ("2026-11-21T10:00:00Z", ""),
        ("2026-11-21T10:00:00Z", "2026-11-21T12:00:00+01:00"),
    ]
)


@st.composite
def filters(draw: st.DrawFn) -> Filters:
    made = Filters(*draw(ranges), text=draw(st.text(max_size=20)))
    for condition in draw(st.lists(conditions, max_size=5)):
        made = made.set(condition.dimension, condition.allowed, condition.excluded)
    return made.showing(**draw(st.dictionaries(st.sampled_from(VIEW_KEYS), st.text(max_size=8))))


@given(filters())
def test_a_link_is_read_back_as_the_filters_that_wrote_it(wanted: Filters) -> None:
    link = urlencode(wanted.query())
    assert parse(dict(parse_qsl(link, keep_blank_values=True))) == wanted


@given(filters())
def test_the_api_gets_the_conditions_of_the_link_and_always_a_range(wanted: Filters) -> None:
    sent = wanted.api()
    assert sent["from"] == wanted.start
    assert {name: text for name, text in sent.items() if name in DIMENSIONS} == {
        name: text for name, text in wanted.query().items() if name in DIMENSIONS
    }
    assert not sent.keys() & set(VIEW_KEYS)


@given(st.dictionaries(st.one_of(st.sampled_from([*DIMENSIONS, *VIEW_KEYS, "from", "to", "q"]), st.text()), st.text()))
def test_any_link_is_read_and_what_was_read_is_stable(query: dict[str, str]) -> None:
    once = parse(query)
    assert parse(once.query()).query() == once.query()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, {}),
        ({"from": "-24h"}, {}),
        ({"from": "-7d"}, {"from": "-7d"}),
        ({"tool": "a,b"}, {"tool": "a,b"}),
        ({"tool": "!a"}, {"tool": "!a"}),
        ({"tool": "!a,b"}, {"tool": "b,!a"}),
        ({"tool": r"\![x](http://h)"}, {"tool": r"\![x](http://h)"}),
        ({"target": r"a\,b"}, {"target": r"a\,b"}),
        ({"session": ""}, {"session": ""}),
        ({"mistake": "true"}, {"mistake": "true"}),
        ({"refresh": "0", "sort": "-errors"}, {"sort": "-errors", "refresh": "0"}),
    ],
)
def test_links(query: dict[str, str], expected: dict[str, str]) -> None:
    filters = parse(query)
    assert (filters.query(), filters.ignored) == (expected, ())


@pytest.mark.parametrize(
    "query",
    [
        {"toool": "a"},
        {"mistake": "yes"},
        {"outcome": "!broken"},
        {"status_code": "four"},
        {"fingerprint": "-1"},
        {"from": "yesterday"},
        {"from": "now"},
        {"from": "-"},
        {"from": "-1h30"},
        {"to": "24h"},
        {"view": "zz"},
    ],
)
def test_what_is_not_understood_is_kept_to_be_said(query: dict[str, str]) -> None:
    [(name, value)] = query.items()
    assert parse(query) == Filters(ignored=(f"{name}={value}",))


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("-1h30m", "now", 5400),
        ("-500ms", "", 0.5),
        ("-2d12h", "", 216_000),
        ("2026-11-21T10:00:00", "2026-11-21T11:00:00Z", 3600),
        ("2026-11-21", "2026-11-22", 86_400),
        ("2026-11-21T10:00:00 02:00", "2026-11-21T09:00:00Z", 3600),
        ("2026-11-21t10:00:00.123456789z", "2026-11-21T10:00:01.123456789Z", 1),
        ("-999999w", "", 50 * 365 * 86_400),
    ],
)
def test_times_of_the_api_s_grammar_are_times_of_a_link(start: str, end: str, seconds: float) -> None:
    filters = parse({"from": start, "to": end} if end else {"from": start})
    assert (filters.seconds, filters.ignored) == (seconds, ())
    first, last = filters.span(NOW)
    assert (last - first).total_seconds() == seconds
    now_ns = int(NOW.timestamp()) * 10**9
    assert select(filters.api(), now_ns) == select({"from": start, "to": end or "now"}, now_ns)
    assert parse(filters.query()) == filters


def test_a_range_that_ends_before_it_starts_is_not_asked_for() -> None:
    filters = parse({"from": "2026-11-21T12:00:00Z", "to": "2026-11-21T11:00:00Z"})
    assert (filters.start, filters.end) == ("-24h", "")
    assert filters.ignored == ("from=2026-11-21T12:00:00Z to=2026-11-21T11:00:00Z",)
    for link, said in (
        ({"from": "-1h", "to": "-24h"}, "from=-1h to=-24h"),
        ({"from": "2026-11-21T10:00:00Z", "to": "-50w"}, "from=2026-11-21T10:00:00Z to=-50w"),
        ({"from": "2999-01-01T00:00:00Z"}, "from=2999-01-01T00:00:00Z to=now"),
    ):
        assert parse(link) == Filters(ignored=(said,))


def test_a_value_that_starts_with_an_exclamation_mark_or_holds_a_comma_stays_one_value() -> None:
    filters = Filters().set("tool", ["!not, a negation", "b"])
    assert filters.api()["tool"] == r"\!not\, a negation,b"
    assert parse(filters.query()).values("tool") == ("!not, a negation", "b")


def evidence(where: dict[str, Any], labels: dict[str, str]) -> Filters:
    rule = Rule("r", "errors", parse_condition("> 0", "errors"), where)
    now_ns = int(NOW.timestamp()) * 10**9
    alert = Alert("r", tuple(labels.items()), State.FIRING, 1.0, 1, 0.0, now_ns, now_ns)
    page, _, query = describe(rule, alert, scrub=str).evidence.partition("?")
    assert page == "errors"
    return parse(dict(parse_qsl(query, keep_blank_values=True)))


@pytest.mark.parametrize(
    "where", [{"mistake": True}, {"tool": "!a,b"}, {"tool": ["a", "!\\b"]}, {"status_code": "429"}, {"tool": ""}]
)
def test_the_evidence_of_an_alert_is_what_its_rule_counts(where: dict[str, Any]) -> None:
    filters = evidence(where, {})
    assert filters.ignored == ()
    now_ns = int(NOW.timestamp()) * 10**9
    assert select(filters.api(), now_ns).terms == terms_of_rule(where)


def test_a_label_of_an_alert_is_a_value_whatever_it_begins_with() -> None:
    filters = evidence({"tool": "a"}, {"tool": "!x,y", "service": ""})
    assert (filters.values("tool"), filters.values("service")) == (("!x,y",), ("",))


@pytest.mark.parametrize(
    ("mine", "other", "both"),
    [
        ("", "error", "error"),
        ("ok,error", "error", "error"),
        ("!denied", "error", "error,!denied"),
        ("ok", "!denied", "ok,!denied"),
        ("ok", "error", "error,!error"),
        ("!error", "error", "error,!error"),
    ],
)
def test_what_a_part_asks_for_only_narrows_the_filters(mine: str, other: str, both: str) -> None:
    filters = parse({"outcome": mine} if mine else {})
    assert filters.also("outcome", other) == both
    assert filters.also("limit", "10") == "10"


@pytest.mark.parametrize(
    ("values", "excluded", "both"),
    [(["b"], False, "a,b,!c"), (["b"], True, "a,!c,!b"), (["c"], False, "a,c"), (["a"], True, "!c,!a")],
)
def test_a_further_filter_on_a_dimension_leaves_the_earlier_one(values: list[str], excluded: bool, both: str) -> None:
    added = parse({"tool": "a,!c"}).adding("tool", values, excluded=excluded)
    assert added.query() == {"tool": both}


def test_setting_no_value_removes_the_condition() -> None:
    assert Filters().set("tool", ["a"]).set("tool") == Filters()


def test_another_page_keeps_what_was_chosen_but_not_what_the_page_was_about() -> None:
    open_page = parse({"tool": "apply_diff", "service": "web", "from": "-7d", "sort": "-errors", "tz": "UTC"})
    assert open_page.carried("tool").query() == {"from": "-7d", "service": "web", "tz": "UTC"}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"mistake": "true"}, ["mistake"]),
        ({"mistake": "!true"}, []),  # calls that went well are no mistakes
        ({"recovered": "false", "tool": "t"}, ["recovered"]),
        ({"attribution": "!model"}, []),
        ({"attribution": "!model,!"}, ["attribution"]),
        ({"category": ","}, []),
        ({"error_class": "A,B", "outcome": "error"}, ["error_class", "outcome"]),
        ({"error_class": "A,"}, []),  # or none
        ({"outcome": "!ok"}, ["outcome"]),
        ({"outcome": "ok,error"}, []),
        ({"fingerprint": "1", "q": "no such"}, ["fingerprint", "q"]),
        ({"status_code": "1"}, []),
        ({"service": "s"}, []),
    ],
)
def test_which_filters_no_call_that_went_well_matches(query: dict[str, str], names: list[str]) -> None:
    assert list(parse(query).of_failures) == names


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("-15m", "", 900.0),
        ("-7d", "", 604_800.0),
        ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", 3600.0),
        ("2026-11-21T10:00:00Z", "", None),
        ("-7d", "-1d", None),
    ],
)
def test_length_of_a_range(start: str, end: str, seconds: float | None) -> None:
    assert Filters(start, end).seconds == seconds


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [("-24h", "", (-24, 0)), ("-7d", "-1h", (-168, -1)), ("2026-11-21T10:00:00Z", "", (-2, 0))],
)
def test_first_and_last_moment_of_a_range(start: str, end: str, hours: tuple[int, int]) -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert Filters(start, end).span(now) == tuple(now + timedelta(hours=hour) for hour in hours)


@pytest.mark.parametrize(
    ("start", "end", "still"),
    [
        ("-2h", "-1h", ("2026-11-23T10:00:00Z", "2026-11-23T11:00:00Z")),
        ("-24h", "", ("2026-11-22T12:00:00Z", "2026-11-23T12:00:00Z")),
        ("2026-11-21T10:00:00.5+01:00", "", ("2026-11-21T10:00:00.5+01:00", "2026-11-23T12:00:00Z")),
        ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z")),
    ],
)
def test_a_link_with_times_that_stay_has_no_relative_one(start: str, end: str, still: tuple[str, str]) -> None:
    kept = Filters(start, end, text="x").still(NOW)
    assert (kept.start, kept.end, kept.text) == (*still, "x")


def test_a_column_of_ones_own_is_a_filter() -> None:
    code = "from dashboard.data import filters; print(filters.parse({'prompt.version': '7,!8', 'team': 'x'}).api())"
    environ = launch.environment(os.environ, dimensions=("team", "prompt.version"))
    said = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True).stdout
    assert "'team': 'x', 'prompt.version': '7,!8'" in said
