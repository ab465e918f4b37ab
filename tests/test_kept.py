"""The kept tables equal what is computed from scratch and from the events, in whatever order these arrived."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.columns import TABLES
from collector.commands.bulk import bulk
from collector.correlate.changes import Changes
from collector.correlate.in_order import Sessions
from collector.engine.duckdb.derive import COUNTED, FIRSTS, KEPT
from collector.engine.duckdb.derive import DIMENSIONS as OF_CHAINS
from collector.engine.duckdb.derive_loop import Keeper, rest_after
from collector.engine.duckdb.store import Store
from collector.errors import OutOfMemory
from collector.query.costs import costs
from collector.query.filters import DIMENSIONS, Selection, terms_of
from collector.query.retries import AS_OF_END, EVENTS, chains, judged, retries
from collector.query.signals import signals
from collector.query.streaks import (
    COLUMNS,
    KINDS,
    SCOPES,
    Scope,
    streak_sql,
    streaks,
    streaks_from_events,
    streaks_then,
)
from collector.recognise.identify import key64
from tests.conftest import RunningCollector, misstep
from tests.cpu import cpu_seconds
from tests.recorded import DAY, HOUR, MINUTE, NOW, Event, event, failed, replacing
from tests.reference import BESIDE, MOST_EVENTS, apart, in_order, many_sessions, recorded_sessions
from tests.search import searching

EVER = Selection(0, 2**62, failure_only=("roo-code",))  # also for generated events with today's times
LATER = replace(EVER, clock_ns=NOW - 10 * DAY + 2 * HOUR)  # some sessions are silent by then
ALL_SETS = [(scope, kind) for scope in SCOPES for kind in KINDS]
SHOWN = ", ".join((*COLUMNS, "limit_times", "first_tool", "first_model"))
SESSIONS = 30
NOTED = "insert into changed (service, session, time_ns) select service, session, min(time_ns) from events group by all"
JUDGED = "retried, recovered, identical_retry, recovered_identical, recovered_changed, attempts, seconds"


def emptied(store: Store) -> Store:
    for table in ("events", "changed", *KEPT):
        store.execute(f"delete from {table}")
    store.open_sessions.clear()
    return store


def contents(store: Store) -> dict[str, list[Any]]:
    """Every row of the kept tables."""
    return {
        "streaks": sorted(map(repr, store.rows("from kept_streaks"))),
        "chains": sorted(map(repr, store.rows("from kept_chains"))),
        "newest": sorted(map(repr, store.rows("from kept_newest"))),
    }


def asked(store: Store, sql: str, selection: Selection = EVER) -> list[str]:
    return sorted(repr(dict(sorted(row.items()))) for row in store.rows(sql, selection.params()))


def compared(store: Store, sets: Sequence[tuple[str, str]]) -> None:
    """The updated tables equal those computed from scratch, and both agree with the events."""
    kept_up = contents(store)
    for scope, kind in sets:
        questions = (sql(LATER, Scope(scope, kind, 2), ["tool", "model"]) for sql in (streak_sql, streaks_from_events))
        found, said = (asked(store, f"select {SHOWN} from ({question})", LATER) for question in questions)
        assert found == said, (scope, kind)
    for when in (EVER, LATER):
        assert asked(store, f"select event_id, {JUDGED} from ({chains(when)})", when) == asked(
            store, f"select event_id, {JUDGED} from ({judged(when, EVENTS, known_by=AS_OF_END)}) where begins", when
        )
    for _ in store.rebuild():
        pass
    assert contents(store) == kept_up


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[list[Event], list[int], bool]]:
    """Sessions in the order of their arrival: each step adds events, removes some earlier ones (merged with others, or
    by retention) or changes them, and may be followed by a turn of the keeper.
    """
    waiting = draw(recorded_sessions())
    steps: list[tuple[list[Event], list[int], bool]] = []
    stored: dict[int, Event] = {}
    while waiting:
        size = draw(st.integers(1, 6))
        coming, waiting = waiting[:size], waiting[size:]
        gone = draw(st.lists(st.sampled_from(sorted(stored)), max_size=2, unique=True)) if stored else []
        for number in gone:
            changed = draw(st.sampled_from(["removed", "flipped", "moved", "joined"]))
            one = dict(stored.pop(number))
            if changed == "flipped":
                one["outcome"] = "ok" if one["outcome"] != "ok" else "error"
            elif changed == "moved":
                one["time_ns"] += draw(st.sampled_from([-2, -1, 1, 2])) * draw(st.sampled_from([1, MINUTE, HOUR]))
            elif changed == "joined":
                one["session"] = "s2"
            if changed != "removed":
                coming = [*coming, one]
        stored |= {one["event_id"]: one for one in coming}
        steps.append((coming, gone, draw(st.booleans())))
    return steps


@st.composite
def many_arrivals(draw: st.DrawFn) -> list[tuple[list[Event], list[int], bool]]:
    """Several of `arrivals` beside each other: each step of one is a step of all."""
    drawn = draw(st.lists(arrivals(), min_size=1, max_size=BESIDE))
    steps: list[tuple[list[Event], list[int], bool]] = []
    for some in zip_longest(*drawn, fillvalue=([], [], False)):
        coming = [one for number, (events, _, _) in enumerate(some) for one in apart(events, number)]
        gone = [one + MOST_EVENTS * number for number, (_, ids, _) in enumerate(some) for one in ids]
        steps.append((coming, gone, sum(kept for *_, kept in some) * 2 >= len(some)))
    return steps


@pytest.mark.parametrize("since_ns", [None, 2 * HOUR])
@searching(0.12)  # each example holds several
@given(steps=many_arrivals(), most=st.sampled_from([1, 1000]), one=st.sampled_from(ALL_SETS), place=st.floats(0, 1))
def test_streaks_as_known_at_an_earlier_time_are_what_the_events_until_then_say(
    store: Store,
    since_ns: int | None,
    steps: Sequence[tuple[list[Event], list[int], bool]],
    most: int,
    one: tuple[str, str],
    place: float,
) -> None:
    """Some sessions went on since, some are not recomputed yet, and the others are read from the kept streaks."""
    emptied(store)
    asked_for = Scope(*one, 2)
    for coming, gone, kept in steps:
        replacing(store, gone, coming)
        if kept:
            store.keep_up(most)
        times = [row["time_ns"] for row in store.rows("select time_ns from events order by time_ns")]
        end = times[int(place * (len(times) - 1))] + 1 if times else NOW
        then = Selection(end - since_ns if since_ns else 0, end, failure_only=("roo-code",))
        questions = (sql(then, asked_for, ["tool", "model"]) for sql in (streaks_then, streaks_from_events))
        found, said = (asked(store, f"select {SHOWN} from ({question})", then) for question in questions)
        assert found == said


@searching(0.12)  # each example holds several
@given(steps=many_arrivals(), most=st.sampled_from([1, 2, 1000]), one=st.sampled_from(ALL_SETS))
def test_what_is_kept_up_is_what_the_events_say(
    store: Store, steps: Sequence[tuple[list[Event], list[int], bool]], most: int, one: tuple[str, str]
) -> None:
    emptied(store)
    for coming, gone, kept in steps:
        replacing(store, gone, coming)
        if kept:
            store.keep_up(most)
    while store.keep_up(most):
        pass
    compared(store, [one])


def generated(session: str, dice: random.Random) -> list[Event]:
    """A session in order: streaks in all scopes, some over pauses, with the agent's own counts, and retries."""
    events, time_ns = [], NOW - 20 * HOUR + dice.randrange(HOUR)
    for number in range(dice.randrange(4, 30)):
        time_ns += dice.choice([0, 1, MINUTE, 9 * MINUTE, 40 * MINUTE, HOUR, HOUR + 1])
        failed_call = dice.random() < 0.5
        outcome = dice.choice(["error", "error", "error", "denied", "cancelled"]) if failed_call else "ok"
        one = event(0, time_ns=time_ns, session=session, outcome=outcome, received_ns=NOW - HOUR + dice.randrange(HOUR))
        one |= {"event_id": key64(session, str(number)), "sequence": number if dice.random() < 0.8 else None}
        one |= {"tool": dice.choice(["read", "read", "edit", None]), "target": dice.choice(["/a", "/b", None])}
        one |= {"operation": dice.choice(["tool"] * 5 + ["model"]), "subagent": dice.choice([None, None, "helper"])}
        one |= {"duration_ms": dice.choice([None, 5.0, 1_500.0]), "params_hash": dice.choice([1, 2, None])}
        one |= {"input_tokens": dice.choice([None, 100]), "cost_usd": dice.choice([None, 0.25])}
        if outcome == "error":
            asks = dice.random() < 0.1
            one |= {
                "error_class": "ConsecutiveMistakeError" if asks else "FileNotFoundError",
                "mistake": dice.random() < 0.7,
            }
            one |= {"target_guessed": dice.random() < 0.2 or None, "retry_after_ms": dice.choice([None, 60_000])}
            one |= {"reported_streak": dice.choice([None, None, 1, 2])}
        if one["operation"] == "model":
            one |= {"model": dice.choice(["m1", "m2"]), "model_from": "record", "tool": None, "target": None}
        events.append({name: value for name, value in one.items() if value is not None})
    return events


@pytest.mark.parametrize("late", [0.0, 0.05], ids=["in order", "some late or doubled"])
def test_a_session_that_grows_is_kept_up_as_if_computed_at_once(store: Store, late: float) -> None:
    """Many sessions at once, each in pieces; between them the keeper takes some, with what it kept of them before."""
    dice = random.Random(4)
    emptied(store)
    left = [generated(f"s{number}", dice) for number in range(SESSIONS)]
    for events in left:
        if dice.random() < late * 4:
            dice.shuffle(events)
    seen: list[Event] = []
    while any(left):
        coming: list[Event] = []
        for events in left:
            size = dice.choice([0, 2, 9])
            coming, events[:] = coming + events[:size], events[size:]
        again = [one for one in seen if dice.random() < late]
        replacing(store, [one["event_id"] for one in again], coming + again)
        seen = coming
        for _ in range(dice.randrange(2)):
            store.keep_up(SESSIONS * 2 // 3)
    while store.keep_up():
        pass
    compared(store, [("session", "mistake"), ("target", "error")])


@pytest.mark.parametrize("most", [0, 100, 100_000])
def test_sessions_in_order_are_kept_up_without_reading_them_again(
    store: Store, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is remembered of them; what is open in the others is read once more."""
    dice = random.Random(most)
    emptied(store)
    monkeypatch.setattr(store, "open_sessions", Sessions(most))
    left = [in_order(generated(f"s{number}", dice)) for number in range(2 * SESSIONS)]
    for one in chain.from_iterable(left):
        if one["operation"] == "model":  # one that began before calls of an earlier turn would give them its model
            one.pop("duration_ms", None)
    with monkeypatch.context() as only:
        only.setattr("collector.engine.duckdb.derive._compute", None)
        while any(left):
            coming = [events.pop(0) for events in left for _ in range(dice.randrange(9)) if events]
            for events, first in [(events, events[0]) for events in left if events]:
                peers = [one for one in events if one["time_ns"] == last_of(coming, first["session"])]
                coming, events[:] = coming + peers, events[len(peers) :]
            dice.shuffle(coming)
            replacing(store, [], coming)
            store.keep_up()
    compared(store, [("session", "mistake"), ("tool", "error")])


def test_what_is_kept_up_in_order_is_noted_for_the_cluster(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of each row that is new or other than before, and that of each that is gone."""
    dice = random.Random(5)
    emptied(store)
    monkeypatch.setattr(store, "publishing", True)
    left = [in_order(generated(f"s{number}", dice)) for number in range(SESSIONS // 6)]
    before: set[tuple[Any, ...]] = set()
    while any(left):
        replacing(store, [], [events.pop(0) for events in left for _ in range(4) if events])
        store.execute("delete from unpublished")
        store.keep_up()
        now = {tuple(row.values()) for row in store.rows(PLACED)}
        noted = store.rows(f"select {PLACE} from unpublished where about != 'events'")
        assert {row[:5] for row in before ^ now} == {tuple(row.values()) for row in noted} != set()
        before = now
    store.execute("delete from unpublished")


PLACE = "about, time_ns, event_id, scope, kind"
PLACED = """
  select 'kept_streaks' as about, started as time_ns, first_event_id as event_id, scope, kind, k::varchar as found
  from kept_streaks k
  union all select 'kept_chains', time_ns, event_id, null, null, k::varchar from kept_chains k
"""


def last_of(events: Sequence[Event], session: str) -> int:
    return max((one["time_ns"] for one in events if one["session"] == session), default=0)


@searching(0.12)  # each example holds several
@given(events=many_sessions(), cut=st.integers(0, 40), one=st.sampled_from(ALL_SETS))
def test_retention_takes_streaks_and_chains_along(
    store: Store, events: list[Event], cut: int, one: tuple[str, str]
) -> None:
    emptied(store)
    store.write(Changes(NOW, events=events))
    store.keep_up()
    before = min(each["time_ns"] for each in events) + cut * 20 * MINUTE
    assert store.prune(NOW, NOW - before) == sum(each["received_ns"] < before for each in events)
    store.keep_up()
    compared(store, [one])


def test_what_retention_leaves_of_a_streak_is_a_streak(store: Store) -> None:
    """Its first mistake arrived after the others, so it stays longer, and too early for its chain to reach them."""
    late = failed(90, received_ns=NOW)
    rest = [failed(48, received_ns=NOW - 3 * HOUR), event(47, received_ns=NOW - 3 * HOUR)]
    emptied(store).write(Changes(NOW, events=[late, *rest]))
    while store.keep_up():
        pass
    assert {row["length"] for row in store.rows("select length from kept_streaks")} == {2}
    assert store.prune(NOW, HOUR) == 2
    while store.keep_up():
        pass
    assert {row["length"] for row in store.rows("select length from kept_streaks")} == {1}
    compared(store, ALL_SETS)


@pytest.mark.parametrize(
    "earlier", [event(20), failed(20), event(20, operation="model", tool=None)], ids=["success", "mistake", "request"]
)
def test_what_comes_late_is_not_taken_for_what_was_open_after_it(store: Store, earlier: Event) -> None:
    """After a start nothing is remembered of a session: what is open in it was kept, and may begin later."""
    emptied(store)
    for coming in (failed(10), earlier):
        store.open_sessions.clear()
        store.write(Changes(NOW, events=[coming]))
        while store.keep_up():
            pass
    kept = contents(store)
    for _ in store.rebuild():
        pass
    assert contents(store) == kept


def test_a_target_that_only_a_message_names_does_not_part_an_error_from_its_retry(store: Store) -> None:
    told = {"target": "/a", "target_guessed": True}
    emptied(store).write(Changes(NOW, events=[failed(9, **told), failed(8, **told), event(7)]))
    while store.keep_up():
        pass
    chained = store.rows("select retried, repaired, target from kept_chains")
    assert chained == [{"retried": True, "repaired": True, "target": "/a"}] * 2
    assert {row["scope"] for row in store.rows("select scope from kept_streaks")} == {"session", "tool"}
    compared(store, ALL_SETS)
    store.execute("update events set target_guessed = null")
    for _ in store.rebuild():
        pass
    assert {row["repaired"] for row in store.rows("select repaired from kept_chains")} == {False}
    compared(store, ALL_SETS)


def test_a_made_up_month_kept_up_equals_the_plain_reading(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'month.duckdb'}"
    bulk(url, 2_000, 3, NOW)
    store = Store.open(url)
    assert store.behind() == 0
    compared(store, ALL_SETS)
    store.close()


def test_filters_choose_by_the_first_event_whatever_they_ask(store: Store) -> None:
    emptied(store)
    one = [failed(9, message="No such file A"), failed(8, tool="write", message="other"), event(7)]
    two = [failed(6, session="s2", message="other"), failed(5, session="s2", message="No such file A")]
    store.write(Changes(NOW, events=[*one, *two, event(1, session="s3")]))
    store.keep_up()

    def found(**filters: str) -> list[int]:
        terms = tuple(term for name, text in filters.items() if name != "q" for term in terms_of(name, text))
        selection = Selection(0, NOW + DAY, terms, filters.get("q", ""))
        return sorted(row["first_event_id"] for row in streaks(selection, Scope()).rows(store))

    assert found() == [6, 9]
    assert found(q="FILE a") == [9]
    assert found(tool="write") == []
    assert found(recovered="true") == [9]
    assert found(session="s2", error_class="FileNotFoundError") == [6]
    errors = retries(Selection(0, NOW + DAY, text="FILE a"), []).rows(store)[0]["errors"]
    assert errors == 2


def test_every_dimension_can_choose() -> None:
    names = {each.name for each in DIMENSIONS} - {"recovered"}
    assert set(OF_CHAINS) == names | {"asked_by"}  # what failures cost needs it too
    assert {name.removeprefix("first_") for name in FIRSTS} == names - {"project", "service", "session", "subagent"}


def test_dimensions_are_kept_with_the_types_of_events() -> None:
    names = {each.name for each in DIMENSIONS} - {"recovered"}
    assert set(COUNTED["hourly"]) == names - {"target", "session", "subagent", "trace_id"}, "many values in an hour"
    assert set(COUNTED["hourly_sessions"]) - {"session"} < set(COUNTED["hourly"])
    assert set(COUNTED["hourly"]) < set(TABLES["hourly_chains"])
    for table in ("kept_streaks", "kept_chains", "hourly_chains", *COUNTED):
        kinds = {name.removeprefix("first_"): kind for name, kind in TABLES[table].items()}
        kinds = {name: kind for name, kind in kinds.items() if name in names}
        assert kinds.items() <= TABLES["events"].items(), table


def test_the_keeper_is_done_when_it_says_so() -> None:
    store = Store.open("duckdb://:memory:")
    keeper = Keeper(store)
    assert not keeper.settle(0.05)
    assert keeper.waiting_s() >= 0.05
    keeper.start()
    for number in range(5):
        store.write(Changes(NOW, events=[failed(50 - number)]))
        keeper.noted()
        assert keeper.settle(20)
        assert keeper.waiting_s() == 0
        assert store.rows("select length from kept_streaks where kind = 'both' and scope = 'session'") == [
            {"length": number + 1}
        ]
    keeper.close()
    store.close()


def test_sums_beyond_any_number_hold_up_no_other_session(store: Store) -> None:
    """Of tokens, more than any call can have."""
    many = [failed(number, session=f"s{number}") for number in range(1, 40)]
    beyond = [failed(40 + each, session="bad", input_tokens=2**62) for each in range(3)]
    emptied(store).write(Changes(NOW, events=many + beyond))
    while store.keep_up():
        pass
    assert store.rows("select count(distinct session) as n from kept_streaks") == [{"n": 40}]
    assert store.rows("select max(input_tokens) as n from kept_streaks") == [{"n": 2**63 - 1}]
    assert costs(EVER, []).rows(store)[0]["input_tokens"] == 2**63 - 1


def test_where_memory_is_short_fewer_sessions_are_computed_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, tried = [5_000], []

    def keep_up(most: int) -> int:
        tried.append(most)
        if most > 600:
            raise OutOfMemory("could not allocate block")
        done = min(most, left[0])
        left[0] -= done
        return done

    monkeypatch.setattr(store, "keep_up", keep_up)
    keeper = Keeper(store)
    keeper.start()
    assert keeper.settle(20)
    keeper.close()
    assert left == [0]
    assert tried[:4] == [2_000, 500, 2_000, 500]


def test_nobody_waits_where_the_last_turn_took_longer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def keep_up(most: int) -> int:
        begun.set()
        return 0 if ended.wait(60) else 1

    monkeypatch.setattr(store, "keep_up", keep_up)
    keeper = Keeper(store)
    keeper.start()
    assert begun.wait(20)
    assert not keeper.settle(1.0)  # it waits without success
    ended.set()
    assert keeper.settle(20)
    ended.clear()
    keeper.noted()
    asked = time.monotonic()
    assert not keeper.settle(0.9)
    assert time.monotonic() - asked < 0.9
    ended.set()
    keeper.close()


LONG = """
insert into events by name
select {start} + range * 1000000 as time_ns, {start} as received_ns, range::ubigint as event_id, range as params_hash,
  'agent' as source, 'service' as service, 'log' as source_signal, 'endless' as session, 'tool' as operation,
  'read' as tool, {counted} as reported_streak, fails as mistake, case when fails then 'error' else 'ok' end as outcome,
  case when fails then 'FileNotFoundError' end as error_class
from (select range, {fails} as fails from range({calls}))
"""


def endless(store: Store, calls: int, fails: str, counted: str = "null") -> None:
    """One session with many calls, of which those fail for which `fails` is true of their number, `range`."""
    emptied(store).execute(LONG.format(start=NOW, calls=calls, fails=fails, counted=counted))
    store.execute(NOTED)


OVER_EVENTS = {
    name: f"select bit_xor(hash(found)) from ({sql}) found"  # of all columns: without them, windows are left out
    for name, sql in {
        "streaks": streaks_from_events(EVER, Scope("session", "error", 2), ["tool"]),
        "chains": judged(EVER, EVENTS, known_by=AS_OF_END),
        "signals": signals(EVER, "mistake").sql,
    }.items()
}


@pytest.mark.parametrize(
    "fails",
    ["range % 2 = 0", *(pytest.param(each, marks=pytest.mark.deep) for each in ("true", "false", "range % 9 < 3"))],
)
@pytest.mark.parametrize("by", ["keeper", *OVER_EVENTS])
def test_a_long_session_takes_time_in_proportion_to_its_length(store: Store, by: str, fails: str) -> None:
    """Four times as many calls take about four times as long, and never sixteen times."""

    def once() -> None:
        if by == "keeper":
            store.execute(NOTED)
            store.keep_up()
        else:
            store.rows(OVER_EVENTS[by], EVER.params())

    took = []
    for calls in (10_000, 40_000):
        endless(store, calls, fails, counted="case when range % 1000 = 0 then 1 end")
        took.append(cpu_seconds(once, tries=2))
    assert took[1] < 8 * took[0]


def test_a_keeper_that_is_closed_ends_within_a_turn_and_another_does_what_is_left(store: Store) -> None:
    endless(store, 300_000, "range % 2 = 0")
    keeper = Keeper(store)
    keeper.start()
    time.sleep(0.1)
    began = time.monotonic()
    keeper.close()
    assert time.monotonic() - began < 20
    assert store.behind() == 1
    assert store.count("kept_streaks") == 0
    endless(store, 6, "range % 2 = 0")
    keeper = Keeper(store)
    keeper.start()
    assert keeper.settle(20)
    keeper.close()
    assert store.behind() == 0


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.01, 1), (0.5, 4.5), (60, 10)])
def test_a_long_turn_is_not_followed_by_a_rest_in_which_as_many_sessions_pile_up(took_s: float, rest_s: float) -> None:
    assert rest_after(took_s) == rest_s


def test_no_answer_waits_for_hours_that_are_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(store, "count_hours", lambda: 0 if answered.wait(60) else 1)
    keeper = Keeper(store)
    keeper.start()
    assert keeper.settle(20)
    answered.set()
    keeper.close()


def test_what_was_noted_is_done_after_a_crash(collector: RunningCollector) -> None:
    """The table `changed` is part of the commit: if a collector is killed before its turn, the next one catches up."""
    first = [{"outcome": "error", "tool": "read", "session": "s1", "error_class": "FileNotFoundError"}] * 3
    for number, one in enumerate(first):
        assert collector.post("/v1/events", json.dumps(one | {"call_id": str(number)})).is_success
    collector.kill()
    collector.restart()
    deadline = time.monotonic() + 60
    while [row["length"] for row in collector.get("/api/v1/streaks", **{"from": "-1h"})["rows"]] != [3]:
        assert time.monotonic() < deadline  # the journal is stored first; a busy machine is slow
    collector.kept_up()
    said = httpx.get(f"{collector.url}/metrics").text
    assert "\nmisstep_keeper_sessions 0.0\n" in said
    assert "\nmisstep_keeper_seconds 0.0\n" in said


def test_rebuild_as_a_command(collector: RunningCollector) -> None:
    assert collector.post("/v1/events", json.dumps({"outcome": "error", "tool": "read", "session": "s1"})).is_success
    url = f"duckdb:///{collector.store}"
    left = [Path(f"{collector.store}{end}") for end in (".backup", ".tmp/rows")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    refused = misstep("rebuild", "--store", url, cwd=collector.folder)
    assert refused.returncode == 2
    assert "is in use" in refused.stderr
    assert all(path.exists() for path in left)
    collector.stop()
    nowhere = collector.folder / "elsewhere.duckdb"
    missing = misstep("rebuild", "--store", f"duckdb:///{nowhere}", cwd=collector.folder)
    assert (missing.returncode, nowhere.exists()) == (2, False)
    assert f"there is no store at {nowhere}" in missing.stderr
    done = misstep("rebuild", "--store", url, cwd=collector.folder)
    assert (done.returncode, done.stdout) == (0, f"1 session recomputed in {url}\n")
    assert not any(path.exists() for path in left)
