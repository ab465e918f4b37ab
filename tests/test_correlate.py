"""One event for one call: the store holds the same whatever the order, batching and repetition of its reports."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.batch import SENDERS, Batch
from collector.columns import Row
from collector.correlate import memory as module
from collector.correlate.changes import Changes, Named
from collector.correlate.correlate import Correlator
from collector.correlate.fold import adding, fold
from collector.correlate.gather import keys_of
from collector.correlate.pacing import Later
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.schema import SCHEMA_VERSION
from collector.engine.duckdb.store import Store
from collector.recent import Recent
from collector.times import DAY, HOUR, SECOND
from tests.memory import Memory, commit
from tests.recorded import emptied
from tests.reports import CALLS, NOW, Slow, batch, made, pieces, report, span, told
from tests.search import searching


@pytest.fixture
def store(store: Store) -> Store:
    """The store that the tests of this module share, with nothing in it."""
    return emptied(store)


def store_all(
    engine: Store | Memory, groups: Sequence[Sequence[Batch]], correlator: Correlator | None = None
) -> list[Row]:
    """Commits the groups one after another and returns the events, without ids and receive times."""
    commit(engine, groups, correlator)
    return events(engine)


def events(engine: Store | Memory) -> list[Row]:
    hidden = {"event_id", "received_ns", "report_rank", "outcome_strength", "target_guessed"}
    rows = engine.rows() if isinstance(engine, Memory) else engine.rows("select * from events")
    found = [{name: value for name, value in row.items() if value is not None and name not in hidden} for row in rows]
    return sorted(found, key=str)


def test_log_and_span_of_one_call_are_one_event(store: Store) -> None:
    link = {"t1": "S"}
    found = store_all(store, [[batch(report(message="no such file"))], [batch(span(duration_ms=5.0), sessions=link)]])
    assert len(found) == 1
    assert (found[0]["outcome"], found[0]["message"], found[0]["duration_ms"]) == ("error", "no such file", 5.0)
    assert (found[0]["session"], found[0]["trace_id"]) == ("S", "t1")


def test_a_session_that_comes_later_reaches_what_was_stored_before(store: Store) -> None:
    first = store_all(store, [[batch(span())]])
    assert (first[0]["session"], first[0]["session_source"]) == ("t1", "trace_id")
    correlator = Correlator(Lookup(store), fresh=False)
    found = store_all(store, [[batch(sessions={"t1": "S"})]], correlator)
    assert (found[0]["session"], found[0]["session_source"]) == ("S", "trace")
    assert store_all(store, [[batch(report())]], correlator)[0]["outcome"] == "error"
    assert len(events(store)) == 1


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_session_of_a_trace_is_what_the_first_that_began_names(
    store: Store, order: tuple[int, ...], remembers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sub-agent's conversation, whose name may be the smaller one, does not take over the calls of the agent."""
    if not remembers:
        monkeypatch.setattr(module, "TRACES_REMEMBERED", 0)
    began = {"a sub-agent's": NOW, "the agent's": NOW - 1}
    pieces = [batch(sessions={"t1": one}, named_ns={"t1": ns}) for one, ns in began.items()] + [batch(span())]
    found = store_all(store, [[pieces[place]] for place in order])
    assert [(one["session"], one["session_source"]) for one in found] == [("the agent's", "trace")]


def test_an_event_has_one_id_whenever_its_session_comes(store: Store) -> None:
    """Calls of one instant are ordered by it."""
    link = {"t1": "S"}
    ids = []
    for groups in ([[batch(sessions=link)], [batch(span())]], [[batch(span())], [batch(sessions=link)]]):
        for table in ("events", "keys", "requests", "trace_session"):
            store.execute(f"delete from {table}")
        assert store_all(store, groups)[0]["session"] == "S"
        ids += [row["event_id"] for row in store.rows("select event_id from events")]
    assert ids == [ids[0]] * 2


@pytest.mark.parametrize("after_ns", [0, 2 * HOUR, 30 * HOUR])
def test_a_call_is_corrected_however_old_its_event_is(store: Store, after_ns: int) -> None:
    store_all(store, [[batch(report(message="no such file"))]])
    late = batch(span(session="S", session_source="record", received_ns=NOW + after_ns))
    late.received_ns += after_ns
    [found] = store_all(store, [[late]], Correlator(Lookup(store), fresh=False))
    assert (found["outcome"], found["message"], found["trace_id"]) == ("error", "no such file", "t1")


def test_reports_of_a_call_are_forgotten_together(store: Store) -> None:
    for after_ns, one in (
        (0, report(message="no such file")),
        (20 * HOUR, span(session="S", session_source="record")),
    ):
        late = batch(one | {"received_ns": NOW + after_ns})
        late.received_ns += after_ns
        store_all(store, [[late]], Correlator(Lookup(store), fresh=False))
    left = []
    for hours in (25, 45):
        store.prune(NOW + hours * HOUR, 90 * DAY)
        left.append(store.count("reports"))
    assert left == [2, 0]
    assert len(events(store)) == 1


def test_what_was_stored_is_asked_for_once_however_many_reports_come(store: Store) -> None:
    """After a restart: with one query for each report, 2,000 of them took seconds."""
    asked: list[str] = []

    class Noting(Lookup):
        def known_sessions(self, traces: Sequence[str]) -> dict[str, Named]:
            asked.append("sessions")
            return super().known_sessions(traces)

        def orphaned(self, traces: Sequence[str], now_ns: int) -> set[int]:
            asked.append("orphaned")
            return super().orphaned(traces, now_ns)

    store_all(store, [[batch(span(trace_id="t9", span_id="a9"), sessions={"t0": "S0"})]])
    spans = [span(trace_id=f"t{number}", span_id=f"a{number}", call_id=f"c{number}") for number in range(5)]
    correlator = Correlator(Noting(store), fresh=False)
    found = store_all(store, [[batch(*spans, sessions={"t1": "S1"})]], correlator)
    assert {one["trace_id"]: one["session"] for one in found} == {
        "t0": "S0", "t1": "S1", "t2": "t2", "t3": "t3", "t4": "t4", "t9": "t9",
    }  # fmt: skip
    assert asked == ["sessions"]  # no stored event has lost its session to t1
    found = store_all(store, [[batch(sessions={"t9": "S9"})]], correlator)
    assert next(one["session"] for one in found if one["trace_id"] == "t9") == "S9"
    assert asked.count("orphaned") == 1  # the sessions may be asked for later, where looking up takes long
    assert asked.count("sessions") <= 2


def test_two_events_that_come_to_share_a_key_become_the_older(store: Store) -> None:
    correlator = Correlator(Lookup(store), fresh=True)
    store_all(store, [[batch(report(received_ns=NOW - 5))]], correlator)
    store_all(store, [[batch(span(call_id=None))]], correlator)
    ids = [row["event_id"] for row in store.rows("select event_id from events order by received_ns")]
    bridge = span(session="S", session_source="record")
    assert len(store_all(store, [[batch(bridge)]], correlator)) == 1
    assert store.rows("select event_id from events") == [{"event_id": ids[0]}]
    assert store.rows("select old_id, event_id from redirects") == [{"old_id": ids[1], "event_id": ids[0]}]


def test_a_report_that_tells_no_outcome_waits_for_one(store: Store) -> None:
    decision = report(outcome=None, error_class=None, target="a.py", _strength=0)
    correlator = Correlator(Lookup(store), fresh=True)
    assert store_all(store, [[batch(decision)]], correlator) == []
    found = store_all(store, [[batch(report(tool=None))]], correlator)
    assert [(one["outcome"], one["target"], one["tool"]) for one in found] == [("error", "a.py", "read")]


@pytest.mark.parametrize(
    "first",
    [
        {"outcome": None, "error_class": None, "_strength": 0},
        {"_lends": True},
    ],
)
def test_an_event_is_received_when_there_is_one(store: Store, first: Row) -> None:
    """Not when its first report arrived, which may be before events that a live view has shown."""
    correlator = Correlator(Lookup(store), fresh=True)
    assert store_all(store, [[batch(report(received_ns=NOW + 1, **first))]], correlator) == []
    store_all(store, [[batch(report(received_ns=NOW + 9, message="no"))]], correlator)
    assert store.rows("select received_ns from events") == [{"received_ns": NOW + 9}]
    store_all(store, [[batch(span(received_ns=NOW + 12, session="S", session_source="record"))]], correlator)
    assert store.rows("select received_ns, trace_id from events") == [{"received_ns": NOW + 9, "trace_id": "t1"}]


def test_the_same_request_adds_nothing_even_after_a_restart(store: Store) -> None:
    once = batch(report())
    for group in ([once, once], [once]):
        store_all(store, [group], Correlator(Lookup(store), fresh=False))
    assert len(events(store)) == 1
    assert store.accounting() == {"accepted": 6, "stored": 1, "no_event": 1, "duplicate": 4}


def test_calls_without_any_identity_stay_apart(store: Store) -> None:
    alone = report(session=None, session_source=None, call_id=None)
    assert len(store_all(store, [[batch(alone, alone)], [batch(alone)]])) == 3


def test_a_failed_commit_leaves_no_trace(store: Store) -> None:
    correlator = Correlator(Lookup(store), fresh=True)
    lost = batch(report())
    correlator.plan([lost])  # and the store fails
    assert len(store_all(store, [[lost]], correlator)) == 1


def test_operations_do_not_share_a_call_id(store: Store) -> None:
    assert len(store_all(store, [[batch(report(), report(operation="model"))]])) == 2


OUTCOMES = [
    (("ok", 10), ("error", 40), "error"),
    (("ok", 20), ("error", 40), "error"),
    (("error", 40), ("denied", 60), "denied"),
    (("error", 40), ("cancelled", 50), "cancelled"),
    (("unknown", 1), ("ok", 2), "ok"),
    (("unknown", 1), ("error", 5), "error"),
    (("ok", 10), ("ok", 20), "ok"),
]


@pytest.mark.parametrize(("one", "other", "expected"), OUTCOMES)
def test_the_surest_outcome_wins(one: tuple[str, int], other: tuple[str, int], expected: str) -> None:
    reports = [report(outcome=name, _strength=strength) for name, strength in (one, other)]
    assert fold(reports)["outcome"] == fold(reports[::-1])["outcome"] == expected


def test_the_specific_class_wins_over_the_trusted_signal() -> None:
    trusted = report(error_class="UnknownError", _rank=90, message="it failed")
    specific = report(error_class="FileNotFoundError", _rank=1, suggestion="look")
    row = fold([trusted, specific])
    assert (row["error_class"], row["message"], row["suggestion"]) == ("FileNotFoundError", "it failed", "look")


TOLD = [
    ("again", {}, False),
    ("of another session", {"session": "T"}, False),
    ("in a trace of its own", {"trace_id": "t9"}, True),
    ("with a guess", {"session": "g", "session_source": "trace"}, True),
    ("before the call", {"received_ns": NOW - 1}, True),
    ("with more secrets", {"redactions": 2}, True),
    ("with its model", {"model": "m"}, True),
    ("with its place", {"_site": ["", "ab"]}, True),
    ("with another key", {"_keys": [7]}, True),
    ("as sure as the call", {"_strength": 40}, True),
    ("ranked as the call", {"_rank": 40}, True),
    ("as failed", {"outcome": "error"}, True),
    ("without a session", {"session": None, "session_source": None}, True),
]


@pytest.mark.parametrize(("fields", "adds"), [case[1:] for case in TOLD], ids=[case[0] for case in TOLD])
def test_what_is_told_again_adds_nothing(fields: dict[str, Any], adds: bool) -> None:
    call, again = report(trace_id=None), told(1, **({"session": "S", "session_source": "record"} | fields))
    assert adding([again], [call]) == ([again] if adds else [])
    assert adding([again, call], []) == ([again, call] if adds else [call])
    assert adding([again], []) == [again] == adding([again], [call | {"outcome": "ok"}])
    assert adding([again], [call | {"_lends": True}]) == [again] == adding([again], [call | {"_twin": ["x"]}])


SESSIONS: list[dict[str, Any]] = [
    {"session": "S", "session_source": "record"},
    {"session": "g", "session_source": "trace"},
    {"session": None, "session_source": None},
]
LINES = st.tuples(
    st.booleans(), st.sampled_from(SESSIONS), st.sampled_from(["ok", "error", None]), st.booleans(),
    st.sampled_from([(3, 2), (30, 10), (40, 40)]), st.integers(0, 3),
)  # fmt: skip


@searching(4)
@given(st.lists(LINES, max_size=8))
def test_a_fold_takes_nothing_from_what_is_left_out(
    lines: list[tuple[bool, dict[str, Any], str | None, bool, tuple[int, int], int]],
) -> None:
    """Whatever else arrives, before or after."""
    made = []
    for is_told, session, outcome, named, (rank, strength), at in lines:
        model = f"m{at}" if named else None
        fields: dict[str, Any] = {"trace_id": "t1", "received_ns": NOW + at, "model": model, **session}
        if named:
            fields["target"] = f"/{at}"
        if is_told:
            made.append(told(1, **fields))
        else:
            failed = (
                {"error_class": "UnknownError", "message": f"{at}"} if outcome == "error" else {"error_class": None}
            )
            made.append(report(**fields, **failed, outcome=outcome, _rank=rank, _strength=strength))
    for cut in range(len(made)):
        known, later = made[:cut], made[cut + 1 :]
        kept = [*known, *adding(made[cut : cut + 1], known), *later]
        assert present(fold(kept)) == present(fold(made))


def present(row: Any) -> Row:
    """The row as a store would return it."""
    return {name: value for name, value in row.items() if value is not None}


def test_an_ok_event_keeps_nothing_of_a_failure() -> None:
    row = fold(
        [report(outcome="ok", _strength=20, message=None, error_class=None), report(outcome=None, message="text")]
    )
    assert row["outcome"] == "ok"
    assert not {"message", "error_class", "template", "fingerprint"} & set(row)


def test_an_ok_event_has_no_target_of_a_text_that_was_taken_for_an_error() -> None:
    own = report(outcome="ok", _strength=20)
    text = report(outcome="error", _strength=5, _rank=3, target="404", target_guessed=True)
    assert fold([own, text])["target"] is None
    failed = fold([own | {"outcome": "error"}, text])
    assert (failed["target"], failed["target_guessed"]) == ("404", True)
    known = fold([own | {"outcome": "error"}, text, report(outcome=None, _rank=1, target="/a")])
    assert (known["target"], known.get("target_guessed")) == ("/a", None)
    assert fold([own, text, report(outcome=None, _rank=1, target="/a")])["target"] == "/a"
    again = told(1, session="S", session_source="record", trace_id=None, target="/a")
    for settled, adds in (("error", [again]), ("ok", [])):  # what settled the call as failed may yet be outweighed
        assert adding([again], [report(outcome=settled, error_class=None, target="/b")]) == adds


def test_forgotten_keys_are_looked_up() -> None:
    recent: Recent[int] = Recent(2)
    for number in range(3):
        recent.put(number, number)
    before = recent.whole
    for number in range(3, 7):
        recent.put(number, number)
    assert (before, recent.whole) == (True, False)
    assert (recent.get(0), recent.get(6)) == (None, 6)


@searching(4)
@given(CALLS, st.randoms(use_true_random=False), st.sets(st.integers(0, 2)), st.sampled_from(["", "forgets", "late"]))
def test_order_batching_and_repetition_change_nothing(
    calls: list[tuple[int, int, int, str]], chance: random.Random, linked: set[int], trouble: str
) -> None:
    """Also where the correlator remembers nothing, and where it asks the store only now and then."""
    reports = made(calls)
    sessions = {f"t{trace}": f"S{trace}" for trace in sorted(linked)}
    expected = store_all(Memory(), [[batch(*reports, sessions=sessions, named_ns=dict.fromkeys(sessions, NOW))]])
    requests = pieces(reports, sessions, chance)
    memory, clock = Memory(), Slow()
    correlator = Correlator(memory, fresh=not trouble, later=Later(clock, clock))
    with ExitStack() as forgetting:
        if trouble == "late":
            for name in ("KEYS_REMEMBERED", "TRACES_REMEMBERED"):
                forgetting.enter_context(patch.object(module, name, 0))
        while requests:
            size = chance.randint(1, 3)
            if trouble == "forgets" or (trouble and chance.random() < 0.2):
                correlator = Correlator(memory, fresh=False, later=Later(clock, clock))
            store_all(memory, [requests[:size]], correlator)
            requests = requests[size:]
        clock.now += 100
        found = store_all(memory, [[batch(identity=b"the last request")]], correlator)
    assert found == expected


def test_spans_are_of_the_numbered_attempt_whose_record_comes_after_them(store: Store) -> None:
    known = {"session": "S", "session_source": "record", "call_id": "c1"}
    reports = [
        report(attempt=1, time_ns=NOW + 5 * SECOND + 9, **known),
        report(attempt=2, time_ns=NOW + 12 * SECOND + 9, outcome="ok", error_class=None, _strength=20, **known),
        span(time_ns=NOW + 5 * SECOND, duration_ms=5000.0, span_id="a1", outcome="error", **known),
        span(time_ns=NOW + 12 * SECOND, duration_ms=2000.0, span_id="a2", _strength=20, **known),
    ]
    found = sorted(store_all(store, [[batch(one)] for one in reports]), key=lambda row: row["attempt"])
    assert [(row["outcome"], row["span_id"], row["duration_ms"]) for row in found] == [
        ("error", "a1", 5000.0), ("ok", "a2", 2000.0),
    ]  # fmt: skip


def test_of_many_attempts_under_one_id_only_the_changed_are_written(store: Store) -> None:
    """Some model servers number the calls of each run anew: a session has hundreds with one id."""
    correlator = Correlator(Lookup(store), fresh=True)
    for number in range(20):
        known = {"time_ns": NOW + number * SECOND, "trace_id": f"t{number}", "session": "S", "session_source": "record"}
        called = span(call_id="c0", duration_ms=1.0, **known)
        result = told(0, **known, outcome="error", message=f"error {number}", _strength=20)
        for report_, rows in ((called, 1 if number != 1 else 2), (result, 1)):
            changes = correlator.plan([batch(report_)])
            assert (len(changes.events), len(changes.replaced)) == (rows, rows - (report_ is called)), number
            store.write(changes)
            correlator.learn(changes)
    assert [row["message"] for row in store.rows("select message from events order by time_ns")] == [
        f"error {number}" for number in range(20)
    ]


def test_the_store_file_survives_and_says_its_version(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path}/m.duckdb"
    first = Store.open(url)
    store_all(first, [[batch(report(message="kept"))]])
    first.close()
    again = Store.open(url)
    assert [one["message"] for one in events(again)] == ["kept"]
    assert again.rows("select value from meta where name = 'schema_version'") == [{"value": str(SCHEMA_VERSION)}]
    again.close()


def senders(number: int, *names: str, after_s: int = 0) -> Batch:
    one = batch()
    one.identity = number.to_bytes(16, "big")
    one.received_ns += after_s * 10**9
    one.senders = {("continue", name): f"m{number}" for name in names}
    return one


def test_who_sends_metrics_is_noted_once_a_minute(store: Store) -> None:
    correlator = Correlator(Lookup(store), fresh=True)
    for number, after_s in enumerate((0, 59, 60, 61)):
        store_all(store, [[senders(number, "cn", after_s=after_s)]], correlator)
    assert store.rows("select * from seen") == [
        {
            "source": "continue",
            "service": "cn",
            "project": "",
            "first_ns": NOW,
            "last_ns": NOW + 60 * 10**9,
            "metrics": "m2",
        }
    ]


def test_random_service_names_do_not_grow_the_table(store: Store) -> None:
    many = [f"s{number}" for number in range(SENDERS + 5)]
    store_all(store, [[senders(1, *many)]])
    forgetful = Correlator(Lookup(store), fresh=False)
    store_all(store, [[senders(2, "late")], [senders(3, "s0", after_s=60)]], forgetful)
    [(count, newest)] = [tuple(row.values()) for row in store.rows("select count(*), max(metrics) from seen")]
    assert (count, newest) == (SENDERS, "m3")
    store.prune(NOW + 90 * 10**9, 40 * 10**9)
    assert [row["service"] for row in store.rows("select service from seen")] == ["s0"]


def test_keys_need_a_session_that_is_more_than_a_guess() -> None:
    assert len(keys_of(report())) == 1
    assert len(keys_of(span(session="t1", session_source="trace_id"))) == 3
    assert len(keys_of(span(session="S", session_source="trace"))) == 4


@pytest.mark.parametrize("outcome", ["ok", None])  # without an outcome it is no event yet
def test_reports_whose_session_was_not_looked_for_are_found(store: Store, outcome: str | None) -> None:
    report = {"operation": "tool", "trace_id": "t", "span_id": "a", "source_signal": "span", "outcome": outcome}
    store_all(store, [[batch(report | {"time_ns": NOW, "received_ns": NOW})]])
    lookup = Lookup(store)
    assert lookup.misplaced(0) == {}
    store.write(Changes(NOW + 1, sessions={"t": (7, "s")}))
    assert lookup.misplaced(NOW) == {"t": (7, "s")}
    assert lookup.misplaced(NOW + 1) == {}


def test_an_event_without_any_key_gets_its_session_too(store: Store) -> None:
    """Only its place in its request identifies it, which no report says: nothing but its event can be found."""
    alone = report(session=None, session_source=None, call_id=None, trace_id="t1")
    assert keys_of(alone) == []
    store_all(store, [[batch(alone)], [batch(span(), sessions={"t1": "S"})]])
    assert store.rows("select distinct session, session_source from events") == [
        {"session": "S", "session_source": "trace"}
    ]
