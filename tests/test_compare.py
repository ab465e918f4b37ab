"""Comparing selections: values against plain Python, intervals against published ones and against simulations."""

from __future__ import annotations

import io
import random
from typing import Any

import polars as pl
import pytest

from collector.engine.duckdb.store import Store
from collector.query.breakdowns import timeseries
from collector.query.compare import COMPARED, compare
from collector.query.filters import BadParameter, Selection, select
from collector.query.verdicts import Gathered, Side, Unit, count, judge, newcombe, per_session, percent, rate
from tests.recorded import HOUR, MINUTE, NOW, SILENT, Event, event, failed, holding, mixed

NOW_AND_BEFORE = Selection(NOW - 5 * HOUR, NOW, failure_only=SILENT)


def alone(part: int, whole: int) -> Gathered:
    """This many calls, each in a session of its own."""
    return Gathered(whole, part, whole, part, part, whole)


# The arithmetic
# ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "difference", "low", "high"),
    [  # the examples of Newcombe (1998), table II, method 10
        ((48, 80), (56, 70), 0.2, 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.6, 0.1705, 0.8090),
        ((2, 7), (6, 7), 0.5714, 0.0582, 0.8062),
        ((0, 29), (5, 56), 0.0893, -0.0381, 0.1926),
        ((0, 20), (0, 10), 0.0, -0.1611, 0.2775),
        ((0, 10), (10, 10), 1.0, 0.6075, 1.0),
    ],
)
def test_a_difference_of_rates_has_newcombes_interval(
    a: tuple[int, int], b: tuple[int, int], difference: float, low: float, high: float
) -> None:
    found = newcombe(rate(alone(*a), alone(*b)), rate(alone(*b), alone(*a)))
    assert found is not None
    # k sessions of one call each increase the variance by k ÷ (k - 1), visible in the second digit of samples of ten
    assert found == pytest.approx((difference, low, high), abs=0.05 if min(a[1], b[1]) < 20 else 0.005)


def test_calls_of_one_session_count_as_one_when_they_end_alike() -> None:
    stuck = rate(Gathered(1, 40, 40, 1600, 1600, 1600), alone(4, 100))
    assert stuck.low is not None
    assert stuck.low < 0.25
    spread = rate(Gathered(10, 40, 400, 8 * 4 + 2 * 16 * 16 / 2, 1600, 16000), alone(4, 100))
    independent = rate(alone(40, 400), alone(4, 100))
    assert spread.low is not None
    assert independent.low is not None
    assert independent.low >= spread.low


@pytest.mark.parametrize(
    ("unit", "a", "b", "verdict", "sentence"),
    [
        (Unit("rate", 1), rate(alone(78, 1904), alone(226, 2310)), rate(alone(226, 2310), alone(78, 1904)), "worse",
         "worse: 4.1 % → 9.8 % (+5.7 pts, between +4.2 and +7.2), n = 1,904 and 2,310 calls"),
        (Unit("rate", -1), rate(alone(5, 100), alone(60, 100)), rate(alone(60, 100), alone(5, 100)), "better",
         "better: 5.0 % → 60.0 % (+55.0 pts, between +43.4 and +64.5), n = 100 and 100 calls"),
        (Unit("rate", 1), rate(alone(1, 19), alone(20, 20)), rate(alone(20, 20), alone(1, 19)), "too_few",
         "too few calls to compare: 5.3 % → 100 %, n = 19 and 20 calls"),
        (Unit("rate", 1), rate(alone(40, 1000), alone(46, 1000)), rate(alone(46, 1000), alone(40, 1000)), "unclear",
         "no clear difference: 4.0 % → 4.6 %, n = 1,000 and 1,000 calls; it would take about"
         " 9,000 more calls to tell"),
        (Unit("count", 0), count(alone(100, 100)), count(alone(300, 300)), "more",
         "more: 100 → 300 (+200, between +161 and +240)"),
        (Unit("count", 1, "error"), count(alone(2, 900)), count(alone(5, 900)), "too_few",
         "too few errors to compare: 2 → 5"),
        (Unit("rate", 1), Side(None, None, None, 0, 0), rate(alone(3, 40), Gathered()), "too_few",
         "too few calls to compare: nothing → 7.5 %, n = 0 and 40 calls"),
    ],
)  # fmt: skip
def test_a_verdict_says_it_with_its_numbers(unit: Unit, a: Side, b: Side, verdict: str, sentence: str) -> None:
    found = judge(unit, a, b)
    assert (found["verdict"], found["sentence"]) == (verdict, sentence)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0004, "< 0.1 %"), (0.041, "4.1 %"), (0.99951, "> 99.9 %"), (1, "100 %")],
)
def test_a_share_reads_zero_only_where_it_is(share: float, text: str) -> None:
    assert percent(share) == text


def sessions(dice: random.Random, many: int, alike: float) -> Gathered:
    """Sessions of one agent whose error rates vary around 0.1, as much as `alike` says."""
    sums = [0.0] * 5
    for _ in range(many):
        whole, own = dice.randrange(1, 30), dice.betavariate(0.1 / alike, 0.9 / alike)
        part = sum(dice.random() < own for _ in range(whole))
        for place, value in enumerate((part, whole, part * part, part * whole, whole * whole)):
            sums[place] += value
    return Gathered(many, *sums)


@pytest.mark.parametrize("alike", [0.01, 0.5, 2.0])
def test_equal_agents_are_seldom_told_apart(alike: float) -> None:
    """At 95 %, chance may cause a verdict in one of twenty; without regard to sessions it would be every second."""
    dice, shouts, naive = random.Random(7), 0, 0
    for _ in range(600):
        a, b = sessions(dice, 60, alike), sessions(dice, 60, alike)
        shouts += judge(Unit("rate", 1), rate(a, b), rate(b, a))["verdict"] != "unclear"
        plain = [alone(int(one.part), int(one.whole)) for one in (a, b)]
        naive += judge(Unit("rate", 1), rate(*plain), rate(*reversed(plain)))["verdict"] != "unclear"
    assert shouts / 600 < 0.09
    assert alike < 0.1 or naive / 600 > 0.2


def test_a_true_difference_is_found() -> None:
    dice, found = random.Random(7), 0
    for _ in range(100):
        a, b = sessions(dice, 200, 0.05), sessions(dice, 200, 0.05)
        parts2, cross = b.wholes2 - 2 * b.cross + b.parts2, b.wholes2 - b.cross
        worse = Gathered(b.sessions, b.whole - b.part, b.whole, parts2, cross, b.wholes2)
        found += judge(Unit("rate", 1), rate(a, worse), rate(worse, a))["verdict"] == "worse"
    assert found == 100


def test_counts_of_few_stuck_sessions_do_not_shout() -> None:
    assert (
        judge(Unit("count", 1), count(Gathered(3, 9, 900, 27, 0, 0)), count(Gathered(1, 40, 900, 1600, 0, 0)))[
            "verdict"
        ]
        == "unclear"
    )
    assert judge(Unit("count", 1), count(alone(9, 900)), count(alone(40, 900)))["verdict"] == "worse"


def test_a_mean_per_session_spreads_as_its_sessions_do() -> None:
    even, one = per_session(Gathered(50, 100, 50, 200, 100, 50)), per_session(Gathered(50, 100, 50, 10_000, 100, 50))
    assert even.value == one.value == 2
    assert even.high is not None
    assert one.high is not None
    assert even.high < 2.5 < 4 < one.high


# Over a store
# ---------------------------------------------------------------------------


def expected(name: str, events: list[Event], side: list[Event] | None = None) -> tuple[float | None, int]:
    """The value of a measure and what it is computed from, in plain Python; of the whole side if this differs."""
    rated, all_rated = (
        [one for one in some if one["source"] not in SILENT and one["outcome"] in ("ok", "error")]
        for some in (events, side or events)
    )
    errors = [one for one in events if one["outcome"] == "error"]
    keys = {(one["service"], one["session"]) for one in events if "session" in one}
    inside = [one for one in errors if "session" in one]

    def of(part: int, whole: int) -> tuple[float | None, int]:
        return (part / whole if whole else None), whole

    match name:
        case "error_rate" | "mistake_rate":
            return of(sum(one["outcome"] == "error" for one in rated), len(rated))
        case "unclassified_rate":
            return of(0, len(errors))
        case "cancelled_rate" | "denied_rate" | "unknown_rate":
            return of(sum(one["outcome"] == name.removesuffix("_rate") for one in events), len(events))
        case "calls":
            return len(events), len(events)
        case "errors" | "mistakes":
            return len(errors), len(events)
        case "errors_per_1000":
            return of(1000 * sum(one["outcome"] == "error" for one in rated), len(all_rated))
        case "sessions":
            return len(keys), len(events)
        case "hit_rate":
            return of(len({(one["service"], one["session"]) for one in inside}), len(keys))
        case "errors_per_session" | "mistakes_per_session":
            return of(len(inside), len(keys))
    durations = sorted(one["duration_ms"] for one in events)
    place = (len(durations) - 1) * {"p50_ms": 0.5, "p95_ms": 0.95}[name]
    low = int(place)
    return durations[low] + (durations[min(low + 1, len(durations) - 1)] - durations[low]) * (place - low), len(events)


OF_CHAINS = ("lasting_rate", "recovery_rate", "streak_rate", "lasting", "not_known_yet")
PLAIN = [name for name in COMPARED if name not in OF_CHAINS]


@pytest.mark.parametrize("name", PLAIN)
def test_both_sides_are_what_plain_counting_gives(store: Store, name: str) -> None:
    events = mixed(1500)
    holding(store, events)
    halves = {
        "a": [one for one in events if one["time_ns"] < NOW - 5 * HOUR],
        "b": [one for one in events if one["time_ns"] >= NOW - 5 * HOUR],
    }
    for row in [*compare(NOW_AND_BEFORE, [name]).rows(store), *compare(NOW_AND_BEFORE, [name], ["tool"]).rows(store)]:
        for side, half in halves.items():
            mine = [one for one in half if "tool" not in row or one.get("tool") == row["tool"]]
            value, whole = expected(name, mine, half)
            assert (row[side], row[f"{side}_whole"]) == (pytest.approx(value), whole)
            assert row[f"{side}_low"] <= row[side] <= row[f"{side}_high"]
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["difference"] == pytest.approx(row["b"] - row["a"])


def test_two_values_of_a_dimension_are_compared_within_the_range_and_the_filters(store: Store) -> None:
    events = mixed(1500)
    holding(store, events)
    inside = [one for one in events if one["time_ns"] >= NOW - 5 * HOUR and one.get("tool") == "a"]
    selection = select({"from": "-5h", "tool": "a"}, NOW, failure_only=SILENT)
    [row] = compare(selection, ["error_rate"], dimension="service", a="api", b="web").rows(store)
    for side, service in (("a", "api"), ("b", "web")):
        value, whole = expected("error_rate", [one for one in inside if one["service"] == service])
        assert (row[side], row[f"{side}_whole"]) == (pytest.approx(value), whole)
    [row] = compare(selection, ["calls"], dimension="tool", a="a", b="!a").rows(store)
    assert (row["a"], row["b"]) == (len(inside), 0)  # the filter on the same dimension still holds
    [row] = compare(NOW_AND_BEFORE, ["calls"], dimension="tool", a="a,b", b="!a").rows(store)
    both = [one for one in events if one["time_ns"] >= NOW - 5 * HOUR]
    assert row["a"] == sum(one.get("tool") in ("a", "b") for one in both)
    assert row["b"] == sum(one.get("tool") not in ("a", "b") for one in both)
    assert row["verdict"] in ("more", "fewer", "unclear")  # more of one than of the other is neither better nor worse


def test_retries_and_streaks_of_both_periods(store: Store) -> None:
    now = [failed(61), failed(60), event(59), failed(55), failed(54), failed(53)]
    before = [failed(number + 300, session="s0") for number in (61, 60, 50)] + [event(349, session="s0", tool="other")]
    holding(store, [*now, *before, event(1, session="late")])
    measures = ["lasting_rate", "recovery_rate", "streak_rate", "errors_per_session", "lasting", "not_known_yet"]
    rows = {row["measure"]: row for row in compare(Selection(NOW - 5 * HOUR, NOW), measures).rows(store)}
    found = {name: (row["a"], row["a_whole"], row["b"], row["b_whole"]) for name, row in rows.items()}
    assert found == {
        "lasting_rate": (1, 3, 3 / 5, 5),
        "recovery_rate": (0, 2, 0.5, 4),
        "streak_rate": (1, 1, 0.5, 2),
        "errors_per_session": (3, 1, 2.5, 2),
        "lasting": (3, 3, 3, 5),
        "not_known_yet": (0, 3, 0, 5),
    }
    [streaks] = compare(Selection(0, NOW), ["streak_rate"], dimension="session", a="s0", b="s1").rows(store)
    assert (streaks["a"], streaks["a_whole"], streaks["b"], streaks["b_whole"]) == (1, 1, 1, 1)


def repaired(before: int, service: str, version: str) -> list[Event]:
    """Forty errors half a minute apart, the last of them this many minutes before NOW; every second is repaired."""
    calls: list[Event] = []
    for number in range(40):
        at = NOW - before * MINUTE - number * MINUTE // 2
        one = {"service": service, "service_version": version, "session": f"{service}{version}{number}"}
        again = {"time_ns": at + MINUTE // 3, "tool": None if number % 2 else "read_file"}
        first = 1000 * before + 2 * number
        calls += [failed(first, **one | {"time_ns": at}), event(first + 1, **one | again)]
    return calls


def test_errors_that_may_still_be_repaired_make_no_version_better(store: Store) -> None:
    """Of the last half hour only successes are known: all its known errors are repaired ones."""
    holding(store, [*repaired(180, "api", "1"), *repaired(60, "api", "2"), *repaired(1, "api", "3")])
    asked = select({"from": "-5h"}, NOW, failure_only=SILENT)

    def told(b: str) -> dict[str, tuple[float | None, int, str]]:
        measures = ["lasting_rate", "recovery_rate"]
        rows = compare(asked, measures, dimension="service_version", a="1", b=b).rows(store)
        assert [(row["a"], row["a_whole"]) for row in rows] == [(0.5, 40), (1, 20)]
        return {row["measure"]: (row["b"], row["b_whole"], row["verdict"]) for row in rows}

    assert told("2") == {"lasting_rate": (0.5, 40, "unclear"), "recovery_rate": (1, 20, "unclear")}
    assert told("3") == {"lasting_rate": (None, 0, "too_few"), "recovery_rate": (1, 20, "unclear")}
    now, late = event(0, event_id=9, time_ns=NOW - 2 * MINUTE + 30 * MINUTE), {"service": "web"}
    holding(store, [*repaired(180, "api", "1"), *repaired(1, "api", "3"), now | late])
    assert told("3")["lasting_rate"] == (None, 0, "too_few")  # another service's events say nothing of this one
    holding(store, [*repaired(180, "api", "1"), *repaired(1, "api", "3"), now])
    # An error of exactly that age may still be repaired by an event of the same time.
    assert told("3")["lasting_rate"][:2] == (19 / 37, 37)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (850, 322_000, "850 ms → 5 m 22 s (+5 m 21 s, between +5 m 21 s and +5 m 21 s)"),
        (1.2, 1.5, "1.2 ms → 1.5 ms (+0.3 ms, between +0.3 ms and +0.3 ms)"),
        (9.7, 12, "9.7 ms → 12 ms (+2.3 ms, between +2.3 ms and +2.3 ms)"),
    ],
)
def test_durations_are_written_as_in_tables_and_short_ones_so_that_they_differ(
    store: Store, before: float, now: float, said: str
) -> None:
    holding(store, [event(number, duration_ms=now if number < 30 else before) for number in range(60)])
    [row] = compare(Selection(NOW - 30 * MINUTE + 1, NOW + 1), ["p50_ms"]).rows(store)
    assert row["sentence"] == f"worse: {said}, n = 30 and 30 calls"


def test_one_call_is_not_calls(store: Store) -> None:
    holding(store, [failed(1, tool="a"), event(2, tool="a"), event(3, tool="b")])
    [row] = compare(Selection(0, NOW), ["error_rate"], dimension="tool", a="a", b="b").rows(store)
    assert row["sentence"].endswith("n = 2 and 1 call")


def test_what_has_a_value_is_compared_with_what_has_none(store: Store) -> None:
    holding(store, [failed(1, model="m"), failed(2), event(3)])
    [row] = compare(Selection(0, NOW), ["calls"], dimension="model", a="", b="m").rows(store)
    assert (row["a"], row["b"]) == (2, 1)


def test_measures_say_together_what_each_says_alone(store: Store) -> None:
    holding(store, mixed(1500))
    for by in ([], ["tool"]):
        together = compare(NOW_AND_BEFORE, list(COMPARED), by).rows(store)
        assert together == [row for name in COMPARED for row in compare(NOW_AND_BEFORE, [name], by).rows(store)]


def test_clear_differences_come_first_and_largest_first(store: Store) -> None:
    events: list[Event] = []
    for tool, before, after, many in (
        ("calm", 10, 11, 100),
        ("bad", 5, 90, 100),
        ("rare", 0, 5, 5),
        ("mend", 40, 5, 100),
    ):
        for share, hours in ((before, 7), (after, 2)):
            for number in range(many):
                fields: dict[str, Any] = {
                    "tool": tool, "session": None, "time_ns": NOW - hours * HOUR - number * MINUTE // 2,
                }  # fmt: skip
                place = len(events)
                events.append(failed(place, **fields) if number < share else event(place, **fields))
    holding(store, events)
    rows = compare(NOW_AND_BEFORE, [], ["tool"]).rows(store)
    assert [(row["tool"], row["verdict"]) for row in rows] == [
        ("bad", "worse"), ("mend", "better"), ("calm", "unclear"), ("rare", "too_few"),
    ]  # fmt: skip
    assert rows[0]["sentence"].startswith("worse: 5.0 % → 90.0 % (+85.0 pts")
    assert [row["tool"] for row in compare(NOW_AND_BEFORE, [], ["tool"], sort=["-tool"], limit=2).rows(store)] == [
        "rare", "mend", "calm",
    ]  # fmt: skip
    frame = pl.read_ipc_stream(io.BytesIO(compare(NOW_AND_BEFORE, [], ["tool"], limit=2).arrow(store)))
    assert frame["tool"].to_list() == ["bad", "mend"]


def test_nothing_to_compare_is_said(store: Store) -> None:
    holding(store, [])
    [row] = compare(NOW_AND_BEFORE, []).rows(store)
    assert (row["a"], row["b"], row["verdict"]) == (None, None, "too_few")
    assert compare(NOW_AND_BEFORE, ["p95_ms"], ["tool"]).rows(store) == []
    assert pl.read_ipc_stream(io.BytesIO(compare(NOW_AND_BEFORE, [], ["tool"]).arrow(store))).columns[:2] == [
        "measure", "tool",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"a": "3.1"}, "dimension"),
        ({"dimension": "model", "a": "m"}, "b"),
        ({"dimension": "model", "b": "m"}, "a"),
        ({"dimension": "mistake", "a": "yes", "b": "true"}, "a"),
        ({"sort": ["-p95"]}, "sort"),
    ],
)
def test_what_cannot_be_compared_is_named(asked: dict[str, Any], parameter: str) -> None:
    with pytest.raises(BadParameter) as refused:
        compare(NOW_AND_BEFORE, [], **asked)
    assert refused.value.parameter == parameter


def test_the_period_before_lies_over_this_one_in_a_timeseries(store: Store) -> None:
    events = mixed(1500)
    holding(store, events)
    start = NOW - NOW % HOUR - 4 * HOUR
    now, before = Selection(start, start + 4 * HOUR), Selection(start - 4 * HOUR, start)
    both = {row["time"]: row for row in timeseries(now, HOUR, [], ["sessions"], previous=True).rows(store)}
    for row in timeseries(now, HOUR, [], ["sessions"]).rows(store):
        assert {name: both[row["time"]][name] for name in row} == row
    for row in timeseries(before, HOUR, [], ["sessions"]).rows(store):
        shifted = both[row["time"] + 4 * HOUR]
        for name in ("calls", "errors", "error_rate", "low", "high", "sessions"):
            assert shifted[f"previous_{name}"] == row[name]


def test_classes_are_compared_by_calls_of_the_whole_side(store: Store) -> None:
    """A version that is called half as often and has half the errors is not better."""
    calls: list[Event] = []
    for service, share, lots in (("api", 10, 100), ("web", 10, 50)):
        for lot in range(lots):
            one = {"service": service, "session": f"{service}-{lot}"}
            calls.append(failed(60, event_id=len(calls), **one))
            calls += [event(60, event_id=len(calls) + place, **one) for place in range(share - 1)]
    calls += [failed(60, event_id=5000 + n, session=f"x{n}", error_class="NoChangeError") for n in range(40)]
    holding(store, calls)
    asked, measures = select({"from": "-5h"}, NOW), ["errors_per_1000", "errors"]
    rows = compare(asked, measures, ["error_class"], dimension="service", a="api", b="web").rows(store)
    told = {(row["measure"], row["error_class"]): row for row in rows}
    same, gone = (told["errors_per_1000", name] for name in ("FileNotFoundError", "NoChangeError"))
    assert (same["a"], same["b"], same["verdict"]) == (pytest.approx(100_000 / 1040), 100, "unclear")
    assert told["errors", "FileNotFoundError"]["verdict"] == "fewer"
    assert (gone["a_part"], gone["b_part"], gone["b_whole"], gone["verdict"]) == (40, 0, 500, "better")
    assert gone["sentence"].startswith("better: 38.46 → 0.00 (-38.46, between ")
    assert gone["sentence"].endswith("n = 1,040 and 500 calls")
    assert rows[0] == gone
