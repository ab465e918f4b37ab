"""How sessions ended and what they cost: the list, the summary of one, and a count by hand."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.engine.duckdb.store import Store
from collector.query.filters import Selection, terms_of
from collector.query.queries import session_events, token
from collector.query.sessions import STATES, sessions
from collector.streak_rules import LAST
from tests.conftest import RunningCollector
from tests.recorded import DAY, HOUR, MINUTE, NOW, SILENT, Event, event, failed, holding
from tests.reference import (
    CHECKED,
    counts,
    expected_end,
    expected_streaks,
    in_order,
    many_sessions,
    newest_by_service,
    session_of,
)

LATER = NOW + 2 * HOUR
EVER = Selection(0, LATER, failure_only=SILENT, clock_ns=LATER)

# An event by one letter: ok, error, cancelled, denied, unknown of a tool, in capitals of a model request;
# a failure of the agent itself is 1, a run that went well 0.
OUTCOMES = {"o": "ok", "e": "error", "c": "cancelled", "d": "denied", "u": "unknown", "1": "error", "0": "ok"}
ENDS = {
    "o": "ok",
    "oeo": "ok",  # repaired
    "oe": "error",
    "oeO": "error",  # the model answered nevertheless
    "oeOO0": "error",
    "oeU": "error",
    "oc": "cancelled",
    "ocO": "cancelled",
    "oed": "denied",
    "dO": "denied",
    "oeu": "unknown",  # nobody told whether the last call repaired it
    "eu0": "unknown",
    "oEO": "ok",  # the request was sent again
    "oE": "error",  # the provider had the last word
    "oEEE": "error",
    "oEoO": "ok",
    "oC": "cancelled",
    "o1": "error",
    "o1O": "error",
    "o1o": "ok",  # the agent went on
    "e10": "error",
    "OO": "ok",  # nothing but requests
    "OE": "error",
    "OEO": "ok",
    "OU": "unknown",
    "0": "ok",
}


def told(letters: str, first_id: int = 0, **fields: Any) -> list[Event]:
    """The events of a session in order, one a minute until NOW."""
    found = []
    for place, letter in enumerate(letters):
        operation = "agent" if letter in "01" else "model" if letter.isupper() else "tool"
        about: Event = {"operation": operation, "outcome": OUTCOMES[letter.lower()], "session": letters}
        about |= {"event_id": first_id + place, "tool": "edit" if operation == "tool" else None}
        make = failed if about["outcome"] == "error" else event
        found.append(make(len(letters) - place - 1, **about | fields))
    return found


def rows_of(store: Store, selection: Selection = EVER, **asked: Any) -> dict[str, dict[str, Any]]:
    return {row["session"]: row for row in sessions(selection, limit=1000, **asked).rows(store)}


def test_a_session_ends_as_its_last_call_did(store: Store) -> None:
    holding(store, [one for number, letters in enumerate(ENDS) for one in told(letters, 100 * number)])
    found = rows_of(store)
    assert {session: row["state"] for session, row in found.items()} == ENDS
    for session, row in found.items():
        last = session[row["last_event_id"] % 100]
        assert OUTCOMES[last.lower()] == row["last_outcome"] == row["state"]
        assert row["ended_in"] == row["last_class"] == ("FileNotFoundError" if row["state"] == "error" else None)
        assert row["last_tool"] == ("edit" if last in "oecdu" else None)
    for state in STATES:
        assert rows_of(store, state=state).keys() == {session for session, end in ENDS.items() if end == state}


def test_a_session_may_go_on_until_nothing_was_heard_of_it_for_an_hour(store: Store) -> None:
    def state(service: str, clock_ns: int) -> str:
        selection = Selection(0, NOW + 1, tuple(terms_of("service", service)), clock_ns=clock_ns)
        return str(next(iter(rows_of(store, selection).values()))["state"])

    busy = [event(8, event_id=8, service="busy", session="another", time_ns=NOW + 2 * HOUR)]
    late = told("oe", 20, service="late", received_ns=NOW + HOUR)
    holding(store, [*told("oe", 10, service="quiet"), *told("oe", 30, service="busy"), *late, *busy])
    assert [state("quiet", NOW + after) for after in (MINUTE, HOUR, HOUR + 1)] == ["open", "open", "error"]
    assert state("late", NOW + HOUR + 1) == "open"
    assert state("busy", NOW + MINUTE) == "error"  # its service went on for two hours without it


def test_who_tells_only_of_failures_does_not_tell_how_a_session_ended(store: Store) -> None:
    holding(store, told("ee", source="roo-code"))
    row = rows_of(store)["ee"]
    assert (row["state"], row["ended_in"], row["last_class"]) == ("unknown", None, "FileNotFoundError")


def test_the_end_is_that_of_the_whole_session_whatever_is_selected(store: Store) -> None:
    holding(store, [*told("oooe"), *told("d", 50, session="oooe", time_ns=NOW + HOUR, received_ns=NOW)])
    for terms, end_ns, calls in (((), LATER, 5), (tuple(terms_of("outcome", "ok")), LATER, 3), ((), NOW - MINUTE, 2)):
        selection = Selection(0, end_ns, terms, clock_ns=LATER)
        row = rows_of(store, selection)["oooe"]
        assert (row["calls"], row["state"]) == (calls, "denied")


def test_tokens_and_money_are_of_those_that_tell_them(store: Store) -> None:
    spent = {"input_tokens": 100, "output_tokens": 7, "cost_usd": 0.125}
    events = told("OOo", 0, session="told", **{}) + told("OOo", 10, session="untold")
    for one in events[:2]:
        one |= spent
    events += [one | spent | {"input_tokens": 2**63 - 1} for one in told("OO", 20, session="absurd")]
    holding(store, events)
    found = rows_of(store)
    names = ("requests", "tool_calls", "with_tokens", "with_cost", "input_tokens", "output_tokens", "cost_usd")
    assert [found["told"][name] for name in names] == [2, 1, 2, 2, 200, 14, 0.25]
    assert [found["untold"][name] for name in names] == [2, 1, 0, 0, None, None, None]
    assert found["absurd"]["input_tokens"] == 2**63 - 1


@CHECKED
@given(events=many_sessions(), clock_ns=st.sampled_from([NOW - 9 * DAY, NOW - 10 * DAY + HOUR, NOW]))
def test_every_column_is_a_recount_by_hand(store: Store, events: list[Event], clock_ns: int) -> None:
    newest = newest_by_service(events)
    mine: dict[tuple[Any, ...], list[Event]] = {}
    for one in in_order(holding_session(events)):
        mine.setdefault(session_of(one), []).append(one)
    selection = Selection(0, NOW, failure_only=SILENT, clock_ns=clock_ns)
    found = sessions(selection, limit=1000).rows(holding(store, events))
    assert {(row["service"], row["session"]) for row in found} == mine.keys()
    states = Counter(row["state"] for row in found)
    for row in found:
        own = mine[row["service"], row["session"]]
        streaks = expected_streaks(own, "session", "mistake", 3)
        assert row["state"] == expected_end(own, newest[row["service"]], clock_ns)
        assert (row["calls"], row["errors"]) == (len(own), sum(counts(one, "error") for one in own))
        assert row["streaks"] == sum(streak["length"] >= 2 for streak in streaks)
        assert row["last_received"] == max(one["received_ns"] for one in own)
        lasted_s = (own[-1]["time_ns"] - own[0]["time_ns"]) / 1e9
        assert row["seconds"] == pytest.approx(lasted_s, abs=1e-6)  # a moment in ns is no exact float
    for state, number in states.most_common()[-1:]:  # the rarest of this example
        assert len(sessions(selection, limit=1000, state=state).rows(store)) == number


def holding_session(events: list[Event]) -> list[Event]:
    """The events that are of a session."""
    return [one for one in events if one.get("session") is not None]


def test_the_api_tells_the_same_of_one_session_as_of_all(shared: RunningCollector) -> None:
    service = "sessions-api"
    base = {"service": service, "tool": "apply_diff", "session": "a/b"}
    times = [f"{datetime.now(UTC) - timedelta(seconds=9 - place):%FT%T}Z" for place in range(4)]
    sent = [base | {"call_id": at, "time": at, "outcome": "ok"} for at in times]
    sent[-1] |= {"outcome": "error", "error_class": "DiffApplyFailedError", "message": "no"}
    assert shared.post("/v1/events", json.dumps(sent)).is_success
    shared.kept_up()
    [listed] = shared.get("/api/v1/sessions", service=service)["rows"]
    body = shared.get("/api/v1/sessions/a%2Fb", service=service)
    assert body["summary"] == listed
    assert (listed["state"], listed["last_class"]) == ("open", "DiffApplyFailedError")
    assert listed["last_event_id"] == body["rows"][-1]["event_id"]
    assert shared.get("/api/v1/sessions/a%2Fb", service="another")["summary"] is None
    assert shared.get("/api/v1/sessions", service=service, state="error")["rows"] == []


def test_the_events_of_a_session_are_told_in_the_columns_that_are_asked_for(store: Store) -> None:
    holding(store, told("oEdu", 7))
    whole = session_events(EVER, "oEdu", 10).rows(store)
    short = session_events(EVER, "oEdu", 10, columns=("outcome", "tool")).rows(store)
    assert short == [{name: row[name] for name in ("time", "sequence", "event_id", "outcome", "tool")} for row in whole]
    first = token(whole[0]["time"], LAST, whole[0]["event_id"])
    assert session_events(EVER, "oEdu", 10, first, ("outcome", "tool")).rows(store) == short[1:]
