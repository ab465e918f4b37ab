"""Streaks and retry chains: the SQL against a plain, slow implementation, on random sessions and examples."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.engine.duckdb.store import Store
from collector.query.filters import Selection, select, terms_of
from collector.query.retries import AS_OF_END, EVENTS, curve, judged, retries
from collector.query.streaks import AGENTS_COLUMNS, COLUMNS, Scope, limits, streaks, summary
from tests.recorded import DAY, HOUR, MINUTE, NOW, SILENT, Event, event, failed, holding, measure
from tests.reference import CHECKED, expected_chains, expected_streaks, many_sessions, session_of

EVER = Selection(0, NOW + DAY)
BEGUN = NOW - 10 * DAY  # recorded sessions begin then
# Whether a session is still expected to go on depends on the collector's clock.
CLOCKS = st.sampled_from([0, BEGUN, *(BEGUN + hours * HOUR + more for hours in (1, 2, 3, 5, 9) for more in (0, 1))])


def ever(clock_ns: int) -> Selection:
    return Selection(0, NOW + DAY, failure_only=SILENT, clock_ns=clock_ns)


SHOWN = (
    "first_event_id", "last_event_id", "length", "started", "ended", "state", "limit_times", "limit_reached", "classes",
    "tools",
)  # fmt: skip


@pytest.mark.parametrize(("scope", "kind"), [
    pytest.param(scope, kind, marks=[] if place == other else pytest.mark.deep)
    for place, scope in enumerate(("session", "tool", "target"))
    for other, kind in enumerate(("mistake", "error", "denied"))
])  # fmt: skip
@CHECKED
@given(events=many_sessions(), clock_ns=CLOCKS)
def test_streaks_are_what_the_rules_say(
    store: Store, scope: str, kind: str, events: list[Event], clock_ns: int
) -> None:
    holding(store, events)
    asked = Scope(scope, kind, 2)
    rows = streaks(ever(clock_ns), asked, limit=1000).rows(store)
    found = sorted(({name: row[name] for name in SHOWN} for row in rows), key=lambda row: row["last_event_id"])
    assert found == expected_streaks(events, scope, kind, 2, clock_ns)


@CHECKED
@given(events=many_sessions(), start=st.integers(0, 30), length=st.integers(0, 30))
def test_a_range_and_a_filter_choose_streaks_and_never_cut_them(
    store: Store, events: list[Event], start: int, length: int
) -> None:
    """The range applies to the last event, a filter to the first; neither changes the streak."""
    holding(store, events)
    start_ns = NOW - 10 * DAY + start * 20 * MINUTE
    end_ns = start_ns + length * 20 * MINUTE
    chosen = Selection(start_ns, end_ns, tuple(terms_of("tool", "!read")))
    rows = streaks(chosen, Scope(), limit=1000).rows(store)
    by_id = {one["event_id"]: one for one in events}
    wanted = {
        one["last_event_id"]: (one["length"], one["state"])
        for one in expected_streaks(events, "session", "mistake", 3)
        if start_ns <= one["ended"] < end_ns and by_id[one["first_event_id"]].get("tool") != "read"
    }
    assert {row["last_event_id"]: (row["length"], row["state"]) for row in rows} == wanted


@pytest.mark.parametrize("name", ["streak", "streaks", "recovery_rate"])
@CHECKED
@given(events=many_sessions())
def test_what_an_alert_sees_is_what_was_known_then(store: Store, name: str, events: list[Event]) -> None:
    """The measures of a past window equal those of a store that ends with it."""
    end = NOW - 10 * DAY + 2 * HOUR
    seen = []
    for some in (events, [one for one in events if one["time_ns"] < end]):
        holding(store, some)
        samples = measure(store, name, {}, ["session"], end - HOUR, end, failure_only=SILENT)
        seen.append(sorted(map(str, samples)))
    assert seen[0] == seen[1]


JUDGED = ("retried", "recovered", "identical_retry", "recovered_identical", "recovered_changed", "attempts")


@CHECKED
@given(events=many_sessions(), clock_ns=CLOCKS)
def test_retry_chains_are_what_the_rules_say(store: Store, events: list[Event], clock_ns: int) -> None:
    holding(store, events)
    selection = ever(clock_ns)
    sql = f"select event_id, {', '.join(JUDGED)} from ({judged(selection, EVENTS, known_by=AS_OF_END)}) where begins"
    rows = store.rows(sql, selection.params())
    assert {row["event_id"]: tuple(row[name] for name in JUDGED) for row in rows} == expected_chains(events, clock_ns)


@CHECKED
@given(events=many_sessions(), clock_ns=CLOCKS)
def test_retries_and_their_curve_count_the_chains(store: Store, events: list[Event], clock_ns: int) -> None:
    holding(store, events)
    selection = ever(clock_ns)
    chains = expected_chains(events, clock_ns)
    by_id = {one["event_id"]: one for one in events}
    rated = [chain for number, chain in chains.items() if chain[0] and by_id[number]["source"] not in SILENT]
    total = retries(selection, []).rows(store)[0]
    assert total["errors"] == len(chains)
    assert total["retried"] == sum(chain[0] for chain in chains.values())
    assert total["rated"] == len(rated)
    assert total["recovered"] == sum(chain[1] is True for chain in chains.values())
    assert total["lasting"] == sum(chain[1] is False for chain in chains.values())
    assert total["not_known_yet"] == sum(chain[1] is None for chain in chains.values())
    assert total["identical_retries"] == sum(chain[2] for chain in chains.values())
    assert total["recovery_rate"] == (
        pytest.approx(sum(chain[1] is True for chain in rated) / len(rated)) if rated else None
    )
    for row in curve(selection, []).rows(store):
        if row["axis"] == "attempts":
            assert row["retried"] == len(rated)
            assert row["recovered"] == sum(chain[5] is not None and chain[5] <= row["at"] for chain in rated)


@CHECKED
@given(events=many_sessions())
def test_summary_and_limits_follow_from_the_streaks(store: Store, events: list[Event]) -> None:
    holding(store, events)
    every = expected_streaks(events, "session", "mistake", 3)
    by_id = {one["event_id"]: one for one in events}
    rows = summary(EVER, Scope()).rows(store)
    assert [row["length"] for row in rows] == list(range(1, max((one["length"] for one in every), default=0) + 1))
    for row in rows:
        reached = [one for one in every if one["length"] >= row["length"]]
        assert row["streaks"] == len(reached)
        assert row["reached_next"] == sum(one["length"] > row["length"] for one in reached)
        assert row["hazard"] == pytest.approx(row["reached_next"] / row["streaks"])
        assert row["low"] <= row["hazard"] <= row["high"]
        for state in ("open", "recovered", "ended"):
            assert row[state] == sum(one["state"] == state for one in reached)
    for row in limits(Selection(0, NOW + DAY, failure_only=SILENT), Scope(), []).rows(store):
        sessions: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for one in every:
            if one["length"] >= row["mistake_limit"]:
                sessions[session_of(by_id[one["first_event_id"]])].append(one)
        assert row["interrupted"] == len(sessions)
        firsts = [by_id[one["first_event_id"]] for one in every]
        silent = {session_of(one) for one in firsts if one.get("source") in SILENT}
        rated = [runs for whose, runs in sessions.items() if whose not in silent]
        assert row["rated"] == len(rated)
        states = [{one["state"] for one in runs} for runs in rated]
        mended = states.count({"recovered"})
        assert row["recovered"] == mended
        assert row["not_known_yet"] == sum("open" in told and "ended" not in told for told in states)
        share = mended / len(rated) if rated else None
        assert row["recovery_rate"] == (None if share is None else pytest.approx(share))
        saved = [one["length"] - row["mistake_limit"] for runs in sessions.values() for one in runs]
        assert row["mistakes_saved"] == sum(saved)
        used_tools = [one for one in events if one["operation"] == "tool" and one.get("session") is not None]
        assert row["sessions"] == len({session_of(one) for one in used_tools})


def test_a_session_with_a_streak_counts_though_its_calls_in_the_range_have_another_model(store: Store) -> None:
    events = [failed(10, model="a", session="s"), failed(9, model="b", session="s"), event(8, model="b", session="s")]
    holding(store, events)
    rows = limits(Selection(NOW - 9 * MINUTE, NOW), Scope(), ["model"]).rows(store)
    assert [(row["model"], row["mistake_limit"], row["sessions"], row["interrupted"]) for row in rows] == [
        ("a", 1, 1, 1), ("a", 2, 1, 1),
    ]  # fmt: skip


def test_sessions_with_calls_and_sessions_with_streaks_are_counted_together(store: Store) -> None:
    """One began a streak of search before the range and called another tool in it; two only called search."""
    events = [failed(40, session="a", tool="search"), failed(20, session="a", tool="read")]
    events += [event(25, session="b", tool="search"), event(24, session="c", tool="search")]
    holding(store, events)
    rows = limits(Selection(NOW - 30 * MINUTE, NOW - 10 * MINUTE), Scope(), ["tool"]).rows(store)
    assert [(row["tool"], row["mistake_limit"], row["sessions"], row["interrupted"]) for row in rows] == [
        ("search", 1, 3, 1), ("search", 2, 3, 1),
    ]  # fmt: skip


# Examples
# -------------------------------------------------------------------------------------------------------------


def only(store: Store, events: list[Event], scope: str = "session", kind: str = "mistake") -> dict[str, Any]:
    rows = streaks(EVER, Scope(scope, kind), limit=10).rows(holding(store, events))
    assert len(rows) == 1
    return rows[0]


def test_three_mistakes_are_open_until_a_success(store: Store) -> None:
    mistakes = [failed(number) for number in (9, 8, 7)]
    assert only(store, mistakes)["state"] == "open"
    streak = only(store, [*mistakes, event(6)])
    assert (streak["length"], streak["state"], streak["limit_reached"], streak["tool"]) == (
        3,
        "recovered",
        True,
        "read_file",
    )


def test_what_does_not_count_neither_extends_nor_ends(store: Store) -> None:
    between = [
        failed(8, mistake=False, error_class="TimeoutError"),
        event(7, outcome="cancelled"),
        event(6, outcome="denied"),
        event(6, outcome="unknown", event_id=66),
    ]
    streak = only(store, [failed(9), *between, failed(5)])
    assert (streak["length"], streak["state"]) == (2, "open")


def test_an_idle_hour_ends_a_streak_but_not_while_the_session_thinks(store: Store) -> None:
    apart = [failed(200), failed(100)]
    assert sorted(row["state"] for row in streaks(EVER, Scope()).rows(holding(store, apart))) == ["ended", "open"]
    thinking = event(150, operation="model", tool=None)
    assert only(store, [*apart, thinking])["length"] == 2


def test_open_is_judged_by_the_newest_event_of_the_service(store: Store) -> None:
    assert only(store, [failed(100), event(1, service="web", session="other")])["state"] == "open"
    assert only(store, [failed(100), event(1, session="other")])["state"] == "ended"


def test_a_sub_agent_has_streaks_of_its_own(store: Store) -> None:
    rows = streaks(EVER, Scope()).rows(holding(store, [failed(9), event(8, subagent="helper"), failed(7)]))
    assert [(row["length"], row["state"]) for row in rows] == [(2, "open")]


def test_a_success_of_another_file_leaves_the_streak_on_this_one(store: Store) -> None:
    events = [failed(9, target="/a"), event(8, target="/b"), failed(7, target="/a")]
    streak = only(store, events, "target")
    assert (streak["length"], streak["target"], streak["limit_reached"]) == (2, "/a", True)
    assert len(streaks(EVER, Scope("session")).rows(store)) == 2


def test_calls_that_name_no_target_have_no_streak_on_one(store: Store) -> None:
    assert streaks(EVER, Scope("target")).rows(holding(store, [failed(9), failed(8)])) == []


def test_events_without_a_session_are_in_no_streak_and_no_chain(store: Store) -> None:
    holding(store, [failed(9, session=None), event(8, session=None)])
    assert streaks(EVER, Scope()).rows(store) == []
    assert retries(EVER, []).rows(store)[0]["errors"] == 0


def test_the_limit_is_reached_again_after_the_agent_asked(store: Store) -> None:
    """Roo Code counts to three, asks its user, and counts from one again; its report of that is not a mistake."""
    count = [failed(20 - number, reported_streak=reported) for number, reported in enumerate((1, 2, 3, 1, 2, 3))]
    assert only(store, count)["limit_times"] == 2
    numbers = (1, 2, 3, None, 1, None, 3)  # a mistake without a number does not hide that the count fell
    gaps = [failed(20 - number, reported_streak=reported) for number, reported in enumerate(numbers)]
    assert only(store, gaps)["limit_times"] == 2
    silent = [failed(20 - number) for number in range(6)]
    assert only(store, silent)["limit_times"] == 1
    asked = failed(17, event_id=99, operation="agent", tool=None, mistake=None, error_class="ConsecutiveMistakeError")
    again = only(store, [*silent, asked | {"time_ns": NOW - 17 * MINUTE - 1}])
    assert (again["length"], again["limit_times"]) == (6, 2)
    assert only(store, [*silent, asked | {"time_ns": NOW - 17 * MINUTE - 1, "subagent": "helper"}])["limit_times"] == 1


def test_a_source_that_reports_only_failures_cannot_recover(store: Store) -> None:
    holding(store, [failed(99, source="roo-code"), failed(98, source="roo-code"), event(1, session="other")])
    selection = Selection(0, NOW, failure_only=SILENT)
    streak = streaks(selection, Scope()).rows(store)[0]
    assert (streak["state"], streak["can_recover"]) == ("ended", False)
    row = retries(selection, ["source"]).rows(store)[0]
    assert (row["errors"], row["retried"], row["rated"], row["recovery_rate"]) == (2, 1, 0, None)


def test_a_streak_is_found_by_how_its_first_error_went_on(store: Store) -> None:
    events = [failed(99), failed(98), event(97), failed(50, session="s2"), event(1)]
    holding(store, events)
    lost = streaks(select({"from": "-7d", "recovered": "false"}, NOW), Scope()).rows(store)
    assert [row["session"] for row in lost] == ["s2"]


def test_a_page_is_the_beginning_of_the_whole_list(store: Store) -> None:
    """Also if the lists and the agent's own reports are read only for the rows of the page."""
    dice = random.Random(3)
    events = []
    for number in range(400):
        fields: dict[str, Any] = {"session": f"s{dice.randrange(9)}", "tool": dice.choice("ab")}
        match dice.choice(("ok", "mistake", "mistake", "stop")):
            case "ok":
                events.append(event(number, **fields))
            case "mistake":
                events.append(failed(number, **fields, reported_streak=dice.choice([None, 1, 2])))
            case "stop":
                events.append(failed(number, **fields, operation="agent", category="state", mistake=False))
    holding(store, events)
    for column in (*COLUMNS, *AGENTS_COLUMNS):
        for sort in (column, f"-{column}"):
            whole = streaks(EVER, Scope(), min_length=2, sort=[sort], limit=1000).rows(store)
            assert len(whole) > 9
            assert streaks(EVER, Scope(), min_length=2, sort=[sort], limit=2).rows(store) == whole[:3]
    assert {row["agent_stopped"] for row in whole} == {True, False}


STOPPED = {"operation": "agent", "category": "state", "mistake": False, "reported_streak": 7}
AT_ONCE: dict[str, tuple[list[tuple[int | None, Any]], bool, int | None]] = {
    "before the first mistake": ([(1, STOPPED), (2, "ok"), (3, "mistake")], False, None),
    "after the success": ([(1, "mistake"), (2, "ok"), (3, STOPPED)], False, None),
    "between": ([(1, "mistake"), (2, STOPPED), (3, "ok")], True, 7),
    "between two mistakes": ([(1, "mistake"), (2, STOPPED), (3, "mistake"), (4, "ok")], True, 7),
    "in the order of their ids": ([(None, "mistake"), (None, STOPPED), (None, "ok")], True, 7),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_what_an_agent_says_at_the_time_of_its_calls_is_put_in_order(store: Store, case: str) -> None:
    calls, stopped, count = AT_ONCE[case]
    events = []
    for number, (sequence, what) in enumerate(calls, 1):
        fields = {"sequence": sequence, "time_ns": NOW - HOUR}
        told = what if isinstance(what, dict) else {}
        events.append(event(number, **fields) if what == "ok" else failed(number, **fields, **told))
    [streak] = streaks(EVER, Scope()).rows(holding(store, events))
    assert (streak["agent_stopped"], streak["reported_streak"]) == (stopped, count)
    assert "from_sequence" not in streak


def test_order_of_arrival_changes_nothing(store: Store) -> None:
    order = random.Random(7)
    events = [
        failed(number, session=f"s{number % 5}") if number % 4 else event(number, session=f"s{number % 5}")
        for number in range(200)
    ]
    first = streaks(EVER, Scope(), limit=1000).rows(holding(store, events))
    order.shuffle(events)
    assert streaks(EVER, Scope(), limit=1000).rows(holding(store, events)) == first


def test_the_streak_measure_fires_and_resolves(store: Store) -> None:
    mistakes = [failed(number) for number in (9, 8, 7)]
    where = {"tool": "read_file"}
    holding(store, mistakes)
    sample = measure(store, "streak", where, ["service", "session"], NOW - HOUR, NOW)
    assert [(one.labels, one.value) for one in sample] == [({"service": "api", "session": "s1"}, 3.0)]
    holding(store, [*mistakes, event(6)])
    assert [one.value for one in measure(store, "streak", where, ["service", "session"], NOW - HOUR, NOW)] == [0.0]
