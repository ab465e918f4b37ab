"""The model of a tool call is that of the model request that asked for it, in whatever order they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.correlate.changes import Changes
from collector.correlate.fold import began_ns
from collector.engine.duckdb.store import Store
from tests.recorded import DAY, NOW, Event, event, replacing
from tests.reference import STEPS
from tests.search import searching
from tests.test_kept import emptied


def request(minutes: int, model: str | None = "m1", **fields: Any) -> Event:
    return event(minutes, operation="model", tool=None, model=model, model_from=model and "record", **fields)


def known(one: Event, events: Sequence[Event]) -> tuple[str | None, str | None]:
    """The model of a call and how it is known, by the rule, in plain Python."""
    if one.get("model_from") == "record":
        return one["model"], "record"
    requests = [each for each in events if each["operation"] == "model" and each.get("model")
                and one.get("session") and each.get("session") == one["session"]]  # fmt: skip

    def place(each: Event) -> int:
        return min(began_ns(each) + 1, int(each["time_ns"]))

    def last(asking: Sequence[Event], until_ns: int) -> Event | None:
        near = [each for each in asking if one["time_ns"] - DAY <= place(each) <= until_ns]
        return max(near, key=lambda each: (place(each), each["event_id"]), default=None)

    naming = [each for each in requests if one.get("call_id") in (each.get("asked") or "").split()]
    if found := last(naming, one["time_ns"]):
        return found["model"], "request"
    beside = [each for each in requests if each.get("subagent") == one.get("subagent") and not each.get("purpose")]
    if not one.get("duration_ms"):  # when it began is not known: only what had ended before it ended can have asked
        ended = [each for each in beside if one["time_ns"] - DAY <= each["time_ns"] <= one["time_ns"]]
        found = max(ended, key=lambda each: (each["time_ns"], each["event_id"]), default=None)
    else:
        found = last(beside, began_ns(one))
    return (found["model"], "session") if found else (None, None)


FIELDS = {
    "session": st.sampled_from(["s1", "s1", "s1", "s2", None]),
    "subagent": st.sampled_from([None, None, None, "helper"]),
    "duration_ms": st.sampled_from([None, 0.0, 1e-6, 5.0, 60_000.0, 1_800_000.0, 7_200_000.0]),
    "outcome": st.sampled_from(["ok", "ok", "error", "denied"]),
}
OF_REQUESTS = {
    "model": st.sampled_from(["m1", "m2", "m3", None]),
    "asked": st.sampled_from([None, None, "c1", "c2 c1", "c3"]),
    "purpose": st.sampled_from([None, None, None, "title"]),
}
OF_CALLS = {"call_id": st.sampled_from([None, "c1", "c2", "c3"]), "model": st.sampled_from([None, None, None, "own"])}


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    at, events = NOW - 10 * DAY, []
    for number in range(draw(st.integers(1, 16))):
        at += draw(STEPS)
        asks = draw(st.booleans())
        fields = {name: draw(some) for name, some in (FIELDS | (OF_REQUESTS if asks else OF_CALLS)).items()}
        fields["model_from"] = fields["model"] and "record"
        operation = {"operation": "model", "tool": None} if asks else {}
        events.append(event(number, event_id=number, time_ns=at, received_ns=at, service="api", **fields, **operation))
    return events


@pytest.mark.parametrize("part", range(2))  # so that none takes long
@searching(0.16)
@given(data=st.data(), events=conversations(), most=st.sampled_from([1, 1000]))
def test_models_are_what_the_rule_says_in_any_order_of_arrival(
    part: int, store: Store, data: st.DataObject, events: list[Event], most: int
) -> None:
    """Some arrive late, some are removed, and some move to another session, as when reports are merged."""
    emptied(store)
    now: dict[int, Event] = {}
    waiting = list(data.draw(st.permutations(events)))
    while waiting:
        size = data.draw(st.integers(1, 5))
        coming, waiting = waiting[:size], waiting[size:]
        gone = data.draw(st.lists(st.sampled_from(sorted(now)), max_size=2, unique=True)) if now else []
        for number in gone:
            one = now.pop(number)
            if data.draw(st.booleans()):
                coming = [*coming, one | {"session": data.draw(st.sampled_from(["s1", "s2"]))}]
        now |= {one["event_id"]: one for one in coming}
        replacing(store, gone, coming)
        if data.draw(st.booleans()):
            store.keep_up(most)
    while store.keep_up(most):
        pass
    told = told_models(store)
    assert told == {
        one["event_id"]: known(one, list(now.values())) for one in now.values() if one["operation"] == "tool"
    }
    hours = counts(store)
    for _ in store.rebuild():
        pass
    assert told_models(store) == told
    assert counts(store) == hours


def told_models(store: Store) -> dict[int, tuple[str | None, str | None]]:
    rows = store.rows("select event_id, model, model_from from events where operation = 'tool'")
    return {row["event_id"]: (row["model"], row["model_from"]) for row in rows}


def counts(store: Store) -> list[str]:
    """What is kept by model: hours, which are counted from the events where they are stale, streaks and chains."""
    while store.count_hours():
        pass
    hours = store.rows(
        "select time_ns, model, sum(events) as n from hourly where time_ns < (select max(time_ns) from events)"
        " - 3600000000000 group by all order by all"
    )
    streaks = store.rows("select first_event_id, scope, kind, first_model from kept_streaks order by all")
    chains = store.rows("select event_id, model from kept_chains order by all")
    return [*map(repr, hours), *map(repr, streaks), *map(repr, chains)]


def test_a_late_request_corrects_the_calls_after_it_and_their_counts(store: Store) -> None:
    calls = [event(180 - minute, session="s", event_id=minute + 1) for minute in range(3)]
    emptied(store).write(Changes(NOW, events=[*calls, event(0, session="other", event_id=99)]))
    store.keep_up()
    store.count_hours()
    assert {model for model, _ in told_models(store).values()} == {None}
    store.write(Changes(NOW, events=[request(179, "late", session="s", event_id=50)]))
    store.keep_up()
    store.count_hours()
    told = told_models(store)
    assert [told[number] for number in (1, 2, 3)] == [(None, None), ("late", "session"), ("late", "session")]
    [counted] = store.rows("select sum(events) as n from hourly where model = 'late' and operation = 'tool'")
    assert counted["n"] == 2


@pytest.mark.parametrize(
    ("requests", "call", "expected"),
    [
        ([request(9, "a")], {}, ("a", "session")),
        ([request(9, "a"), request(8, "b")], {}, ("b", "session")),
        ([request(9, "a"), request(6, "b")], {}, ("a", "session")),
        # a stream that is still answering has begun the call; what was asked for before is running no longer
        ([request(9, "a"), request(6, "b", duration_ms=90_000.0)], {"duration_ms": 1000.0}, ("b", "session")),
        ([request(6, "b", duration_ms=90_000.0)], {}, (None, None)),  # when this call began nobody says
        ([request(9, "a"), request(8, "b", purpose="title")], {}, ("a", "session")),
        ([request(9, "a", asked="c0 c1"), request(8, "b")], {"call_id": "c1"}, ("a", "request")),
        ([request(9, "a", asked="c1"), request(8, "b", asked="c1")], {"call_id": "c1"}, ("b", "request")),
        ([request(9, "a", asked="c1", subagent="x")], {"call_id": "c1"}, ("a", "request")),
        ([request(9, "a", subagent="x")], {}, (None, None)),
        ([request(9, "a", session="else")], {}, (None, None)),
        ([request(9, None), request(10, "a")], {}, ("a", "session")),
        ([request(2 * 24 * 60, "a")], {}, (None, None)),
        ([request(9, "a")], {"model": "own", "model_from": "record"}, ("own", "record")),
    ],
)
def test_which_request_asked(
    store: Store, requests: list[Event], call: Event, expected: tuple[str | None, str | None]
) -> None:
    rows: list[Event] = [{**one, "session": "else" if one["session"] == "else" else "s"} for one in requests]
    rows = [row | {"event_id": number} for number, row in enumerate(rows)]
    emptied(store).write(Changes(NOW, events=[*rows, event(7, event_id=100, session="s", **call)]))
    store.keep_up()
    assert told_models(store)[100] == expected
