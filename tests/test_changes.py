"""What explains a change: contributions against plain Python, that they add up, and that a known cause comes first."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.query import changes as module
from collector.query.changes import EXPLAINED, MEASURES, VOLUME, added, changes
from collector.query.filters import BY_NAME, Selection
from tests.recorded import HOUR, MINUTE, NOW, SILENT, Event, event, failed, holding, mixed

HALF = Selection(NOW - 5 * HOUR, NOW, failure_only=SILENT)


def random_events(seed: int, many: int = 900) -> list[Event]:
    dice = random.Random(seed)
    events = mixed(many, seed)
    for one in events:
        one["model"] = dice.choice(["old"] if one["time_ns"] < NOW - 5 * HOUR else ["old", "new"])
        if one.get("session") in ("p", "q"):  # sessions in which everything that is usually the same is the same
            one["session"] += f" of {one['service']}, {one['source']}, {one['model']}"
        if one["outcome"] == "error":
            one |= {"error_class": dice.choice("AB"), "fingerprint": dice.randrange(4), "mistake": dice.random() < 0.7}
    return events


def counted(events: list[Event], measure: str) -> tuple[int, int]:
    """Errors and calls, as the measure defines them."""
    if measure.endswith("_rate"):
        events = [one for one in events if one["source"] not in SILENT and one["outcome"] in ("ok", "error")]
    errors = [one for one in events if one["outcome"] == "error"]
    return sum(not measure.startswith("mistake") or one["mistake"] for one in errors), len(events)


def expected(events: list[Event], measure: str, name: str) -> dict[Any, tuple[float, float]]:
    """Value → (traffic, rate), by the definitions in the documentation."""
    halves = [
        [one for one in events if one["time_ns"] < NOW - 5 * HOUR],
        [one for one in events if one["time_ns"] >= NOW - 5 * HOUR],
    ]
    totals = [counted(half, measure) for half in halves]
    found = {}
    for value in {one.get(name) for one in events}:
        both = [counted([one for one in half if one.get(name) == value], measure) for half in halves]
        if BY_NAME[name].about == "end":
            both = [(errors, calls) for (errors, _), (_, calls) in zip(both, totals, strict=True)]
        rates = [errors / calls if calls else None for errors, calls in both]
        fewer = took_over(halves, measure, name) if BY_NAME[name].about == "call" else 0.0
        before, after = rates[0] if rates[0] is not None else rates[1], rates[1] if rates[1] is not None else rates[0]
        if before is None or after is None:
            continue
        if measure.endswith("_rate"):
            old, new = (calls / total for (_, calls), (_, total) in zip(both, totals, strict=True))
            usual = sum(errors / calls for errors, calls in totals) / 2
            found[value] = (new - old) * ((before + after) / 2 - usual), (after - before) * (old + new) / 2
        else:
            (_, old), (_, new) = both
            found[value] = (new - old) * (before + after) / 2, (after - before) * (old + new) / 2
        if rates[0] is None and fewer is not None and BY_NAME[name].about == "call":
            change, weight = sum(found[value]), new
            found[value] = change - (after - fewer) * weight, (after - fewer) * weight
    return found


def took_over(halves: list[list[Event]], measure: str, name: str) -> float | None:
    """How often the calls failed whose place others took: of each value, as many as it has fewer now."""
    errors = calls = 0.0
    for value in {one.get(name) for half in halves for one in half}:
        (e, c), (_, now) = (counted([one for one in half if one.get(name) == value], measure) for half in halves)
        if c > now:
            errors, calls = errors + e * (c - now) / c, calls + c - now
    return errors / calls if calls else None


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_contributions_are_what_plain_counting_gives_and_add_up(store: Store, measure: str, seed: int) -> None:
    events = random_events(seed)
    holding(store, events)
    rows = changes(HALF, measure, limit=10_000).rows(store)
    by_name: dict[str, dict[Any, Any]] = defaultdict(dict)
    for row in rows:
        by_name[row["dimension"]][row["value"]] = row
    (e_a, c_a), (e_b, c_b) = (
        counted([one for one in events if (one["time_ns"] >= NOW - 5 * HOUR) == late], measure)
        for late in (False, True)
    )
    whole = e_b / c_b - e_a / c_a if measure.endswith("_rate") else e_b - e_a
    for values in by_name.values():
        assert sum(row["contribution"] for row in values.values()) == pytest.approx(whole)
        if whole:
            assert sum(row["share"] for row in values.values()) == pytest.approx(1)
    for name in EXPLAINED:
        told = {
            None if value is None else str(value): parts for value, parts in expected(events, measure, name).items()
        }
        for value, (traffic, rate) in told.items():
            if value is None and BY_NAME[name].about == "end":
                continue  # successful calls have no class
            row = by_name[name][value]
            assert (row["traffic"], row["rate"]) == (pytest.approx(traffic), pytest.approx(rate))
            assert row["contribution"] == pytest.approx(traffic + rate)
    assert (VOLUME in by_name) != measure.endswith("_rate")


@pytest.mark.parametrize("measure", MEASURES)
def test_intervals_rest_on_what_each_session_has(store: Store, measure: str) -> None:
    """Σ part² over the sessions of a value, from which verdicts follow; an event without one is its own session."""
    events = random_events(4)
    holding(store, events)
    told = (statement.rows(store) for statement in changes(HALF, measure).asked)
    found = added(rows for rows in told if rows and "dimension" in rows[0])
    for name in EXPLAINED:
        sessions: dict[Any, list[Event]] = defaultdict(list)
        for one in events:
            if one["time_ns"] >= NOW - 5 * HOUR:
                session = (one["service"], one["session"]) if "session" in one else one["event_id"]
                sessions[one.get(name), session].append(one)
        squares: dict[Any, int] = defaultdict(int)
        for (value, _), members in sessions.items():
            squares[None if value is None else str(value)] += counted(members, measure)[0] ** 2
        assert {value: both.b.parts2 for value, both in found[name].items() if both.b.parts2} == {
            value: number for value, number in squares.items() if number
        }, name


def story() -> list[Event]:
    """Twenty sessions of two versions; in the second half, the diff tool of the new one fails with a new message."""
    dice = random.Random(5)
    events: list[Event] = []
    for session in range(40):
        late = session >= 20
        version = "3.2" if late and session % 2 else "3.1"
        for step in range(25):
            tool = dice.choice(["apply_diff", "read_file", "shell", "search"])
            broken = tool == "apply_diff" and version == "3.2"
            fails = dice.random() < (0.7 if broken else 0.05)
            fields: dict[str, Any] = {
                "session": f"s{session}", "tool": tool, "service_version": version,
                "time_ns": NOW - (1 if late else 6) * HOUR - dice.randrange(3 * HOUR) + step,
            }  # fmt: skip
            if fails and broken:
                fields |= {"error_class": "DiffApplyFailedError", "fingerprint": 77, "template": "no hunk <n> matches"}
            place = len(events)
            events.append(failed(place, **fields) if fails else event(place, **fields))
    return events


def test_the_culprit_comes_first_with_a_sentence(store: Store) -> None:
    holding(store, story())
    rows = [row for row in changes(HALF, "errors").rows(store) if row["dimension"] != VOLUME]
    first = {(row["dimension"], row["value"]) for row in rows[:4]}
    assert first >= {("tool", "apply_diff"), ("error_class", "DiffApplyFailedError"), ("fingerprint", "77")}
    found = {(row["dimension"], row["value"]): row for row in rows}
    assert found["service_version", "3.2"]["state"] == "new"
    assert found["fingerprint", "77"]["sentence"].startswith("new: DiffApplyFailedError of apply_diff: ")
    assert found["fingerprint", "77"]["sentence"].endswith("of the rise: no hunk <n> matches")
    assert found["tool", "apply_diff"]["verdict"] == "worse"
    assert "it fails more often" in found["tool", "apply_diff"]["sentence"]
    assert found["tool", "shell"]["verdict"] in ("unclear", "too_few")
    assert found["operation", "tool"]["share"] == pytest.approx(1)
    assert rows.index(found["operation", "tool"]) > rows.index(found["tool", "apply_diff"])


def test_one_error_and_one_call_are_not_errors_and_calls(store: Store) -> None:
    holding(store, [event(0, time_ns=NOW - 6 * HOUR, tool="read_file"), failed(1, time_ns=NOW - HOUR, tool="shell")])
    rows = {(row["dimension"], row["value"]): row["sentence"] for row in changes(HALF, "errors").rows(store)}
    assert rows["tool", "shell"].startswith("tool = shell: 1 more error, ")
    assert rows["tool", "shell"].endswith("; new, 1 of 1 call failed")


def test_a_group_seen_long_before_is_not_new(store: Store) -> None:
    holding(store, [*story(), failed(5000, fingerprint=77)])
    rows = {row["value"]: row for row in changes(HALF, "errors", ["fingerprint"]).rows(store)}
    assert rows["77"]["state"] is None
    assert not rows["77"]["sentence"].startswith("new")


def test_a_group_that_only_the_period_before_has_is_told_by_its_class(store: Store) -> None:
    gone = {"fingerprint": 5, "error_class": "DiskFullError", "tool": "write_file", "template": "no space left"}
    holding(store, [*story(), *(failed(400 + number, event_id=9_000 + number, **gone) for number in range(9))])
    rows = {row["value"]: row for row in changes(HALF, "errors", ["fingerprint"]).rows(store)}
    assert rows["5"]["state"] == "gone"
    assert rows["5"]["sentence"].startswith("DiskFullError of write_file: 9 fewer errors")
    assert rows["5"]["sentence"].endswith(": no space left")


def test_volume_tells_sessions_calls_and_rate_apart(store: Store) -> None:
    def period(first: int, sessions: int, calls: int, errors: int, hours: int) -> list[Event]:
        return [
            (failed if call < errors else event)(
                first + session * calls + call, session=f"{first}-{session}", time_ns=NOW - hours * HOUR + call * MINUTE
            )
            for session in range(sessions)
            for call in range(calls)
        ]

    holding(store, [*period(0, 10, 10, 2, 9), *period(1000, 20, 10, 2, 4)])
    rows = {row["value"]: row for row in changes(HALF, "errors").rows(store) if row["dimension"] == VOLUME}
    assert {name: row["contribution"] for name, row in rows.items()} == {
        "sessions": 20, "calls_per_session": 0, "error_rate": 0,
    }  # fmt: skip
    assert rows["sessions"]["sentence"] == "sessions 10 → 20: 20 more errors, 100 % of the rise"
    holding(store, [*period(0, 10, 10, 2, 9), *period(1000, 10, 10, 5, 4)])
    rows = {row["value"]: row for row in changes(HALF, "errors").rows(store) if row["dimension"] == VOLUME}
    assert rows["error_rate"]["contribution"] == pytest.approx(30)
    unrated = [event(number, time_ns=NOW - 4 * HOUR, session="1000-0", outcome=outcome)
               for number, outcome in ((2000, "cancelled"), (2001, "denied"))]  # fmt: skip
    holding(store, [*period(0, 10, 10, 4, 9), *period(1000, 20, 10, 3, 4), *unrated])
    rows = {row["value"]: row for row in changes(HALF, "errors").rows(store) if row["dimension"] == VOLUME}
    assert sum(row["contribution"] for row in rows.values()) == pytest.approx(20)
    # The rate of calls that ended as ok or as an error is 30.0 %.
    assert rows["error_rate"]["sentence"].startswith(
        "errors per call 40.0 % → 29.7 % (of all calls, cancelled, denied and unknown too): "
    )
    assert rows["error_rate"]["sentence"].endswith("fewer errors, against the trend")
    assert rows["calls_per_session"]["sentence"].startswith("calls per session 10.0 → 10.1: ")
    assert rows["sessions"]["share"] > 1
    assert rows["sessions"]["sentence"] == "sessions 10 → 20: 35 more errors, more than all of the rise"
    holding(store, period(1000, 10, 10, 5, 4))
    rows = {row["value"]: row for row in changes(HALF, "errors").rows(store) if row["dimension"] == VOLUME}
    assert rows["sessions"]["contribution"] == pytest.approx(50)  # without events before, everything is new traffic


def test_an_empty_value_has_the_name_that_it_has_elsewhere(store: Store) -> None:
    holding(store, [failed(number, session=f"s{number}", model=None) for number in range(100, 140)])
    [row] = changes(HALF, "errors", ["model"]).rows(store)
    assert row["sentence"].startswith("model = (none): 40 more errors, 100 % of the rise")


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [((1, 30), (4, 61), "rise"), ((2, 37), (1, 31), "fall"), ((1, 30), (25, 31), "rise"), ((2, 30), (1, 61), "fall")],
)
def test_all_of_a_change_is_100_percent_whatever_floats_make_of_it(
    store: Store, before: tuple[int, int], now: tuple[int, int], said: str
) -> None:
    events = [
        (failed if number < errors else event)(first + number, time_ns=NOW - hours * HOUR, session=f"s{number}")
        for first, hours, (errors, calls) in ((0, 9, before), (1000, 4, now))
        for number in range(calls)
    ]
    holding(store, events)
    [row] = changes(HALF, "errors", ["service"]).rows(store)
    assert f", 100 % of the {said}; " in row["sentence"]


def test_volume_is_told_where_it_is_asked_for(store: Store) -> None:
    holding(store, random_events(1))
    told = {name: changes(HALF, "errors", by).rows(store) for name, by in (
        ("all", ()), ("tools", ["tool"]), ("volume", ["volume"]), ("both", ["tool", "volume"])
    )}  # fmt: skip
    of_all = [row for row in told["all"] if row["dimension"] == VOLUME]
    assert [row["value"] for row in of_all] == ["sessions", "calls_per_session", "error_rate"]
    assert VOLUME not in {row["dimension"] for row in told["tools"]}
    assert told["volume"] == of_all
    assert told["both"] == of_all + told["tools"]
    assert changes(HALF, "error_rate", ["volume"]).rows(store) == []


def test_nothing_changed_where_nothing_happened(store: Store) -> None:
    holding(store, [])
    assert changes(HALF, "errors").rows(store) == []
    holding(store, [failed(500), failed(100)])
    rows = changes(HALF, "errors", ["tool"]).rows(store)
    assert [(row["contribution"], row["share"]) for row in rows if row["dimension"] == "tool"] == [(0, None)]


@pytest.mark.parametrize("measure", ["errors", "error_rate"])
def test_of_many_values_those_with_most_errors_are_compared(
    store: Store, monkeypatch: pytest.MonkeyPatch, measure: str
) -> None:
    """A name that is different in every call must not cost time and memory for each; the rest stays exact."""
    events = story()
    for number in range(60):
        where = {"time_ns": NOW - number * MINUTE, "session": f"s{number}", "tool": f"tool {number}"}
        events.append(failed(10_000 + number, **where))
    holding(store, events)
    all_rows = {(row["dimension"], row["value"]): row for row in changes(HALF, measure, limit=10_000).rows(store)}
    monkeypatch.setattr(module, "MOST_VALUES", 3)
    rows = changes(HALF, measure, limit=10_000).rows(store)
    tools = [row["value"] for row in rows if row["dimension"] == "tool"]
    assert len(tools) <= 6  # three of each side
    most = max((row for row in all_rows.values() if row["dimension"] == "tool"), key=lambda row: row["b_errors"])
    assert most["value"] in tools
    for row in rows:
        if row["dimension"] in (VOLUME, "service", "model", "tool") and row["value"] in (most["value"], None):
            assert row == all_rows[row["dimension"], row["value"]]
