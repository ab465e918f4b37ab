"""Whether retrying helps: storms against plain Python, declared against observed retryability, and waits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.engine.duckdb.open import SETTINGS
from collector.engine.duckdb.store import Store
from collector.query.filters import Selection, select
from collector.query.retries import curve, retries, storms
from collector.times import SECOND
from tests.recorded import DAY, HOUR, MINUTE, NOW, Event, event, failed, holding

EVER = Selection(0, NOW + DAY, failure_only=("roo-code",))


def limited(number: int, at_ns: int, **fields: Any) -> Event:
    """A model request that a provider's rate limit refused."""
    base: Event = {
        "operation": "model", "tool": None, "error_class": "RateLimitError", "category": "rate_limit", "mistake": False,
        "recovery": "retry", "attribution": "provider", "time_ns": at_ns,
    }  # fmt: skip
    return failed(number, **(base | fields))


STORM = ("error_class", "started", "ended", "calls", "sessions", "most_in_a_minute")


def expected_storms(events: Sequence[Event], window: int, least: int) -> list[tuple[Any, ...]]:
    """(class, started, ended, calls, sessions, most in a minute), by the definition, error by error."""
    found = []
    for name in {one["error_class"] for one in events if one["outcome"] == "error"}:
        mine = sorted(
            (one for one in events if one["outcome"] == "error" and one["error_class"] == name),
            key=lambda one: (one["time_ns"], one["event_id"]),
        )
        inside = set()
        for first in range(len(mine) - least + 1):
            if mine[first + least - 1]["time_ns"] - mine[first]["time_ns"] <= window:
                inside |= set(range(first, first + least))
        run: list[Event] = []
        for place in [*sorted(inside), None]:
            one = None if place is None else mine[place]
            if run and (one is None or one["time_ns"] - run[-1]["time_ns"] > window):
                sessions = {(each.get("service"), each["session"]) for each in run if "session" in each}
                busiest = max(Counter(each["time_ns"] // MINUTE for each in run).values())
                found.append((name, run[0]["time_ns"], run[-1]["time_ns"], len(run), len(sessions), busiest))
                run = []
            if one is not None:
                run.append(one)
    return sorted(found)


@pytest.mark.parametrize("seed", range(12))
def test_storms_are_what_the_definition_says(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    events = []
    for number in range(dice.choice([30, 150, 300])):
        at = NOW - dice.choice([10, 12, 40]) * MINUTE - round(dice.expovariate(1 / 90) * SECOND)
        at -= at % ([1, SECOND, 10 * SECOND][seed % 3])  # many agents tell whole seconds only
        fields: dict[str, Any] = {"session": dice.choice([*"abc", None])}
        fields["error_class"] = dice.choice(["RateLimitError", "OverloadedError"])
        events.append(limited(number, at, **fields) if dice.random() < 0.8 else event(number, time_ns=at))
    holding(store, events)
    window, least = dice.choice([10, 60]) * SECOND, dice.choice([2, 5, 10])
    asked = storms(EVER, window, least, limit=1000)
    told = asked.rows(store)
    assert sorted(tuple(row[name] for name in STORM) for row in told) == expected_storms(events, window, least)
    assert replace(asked, sql=asked.at_once).rows(store) == told


def test_storms_are_found_among_more_errors_than_the_engine_handles_at_once(store: Store) -> None:
    """The engine sorts in parts and in threads; what reads the sorted errors relies on their order."""
    holding(store, [])
    store.execute(f"""insert into events
        (event_id, time_ns, received_ns, service, session, operation, outcome, error_class)
      select range, {NOW} - (hash(range) % 17_000)::bigint * {SECOND}, {NOW}, 'bulk', 's' || range % 97,
        'model', 'error', 'Class' || range % 3
      from range(130_000)""")
    for _ in store.rebuild():
        pass
    events = store.rows("select error_class, outcome, time_ns, event_id, service, session from events")
    found = [tuple(row[name] for name in STORM) for row in storms(EVER, 2 * SECOND, 12, limit=100_000).rows(store)]
    assert len(found) > 400
    assert sorted(found) == expected_storms(events, 2 * SECOND, 12)


def test_errors_of_one_second_are_one_storm_each(store: Store) -> None:
    limits = [
        limited(11 * service + number, NOW - HOUR if number else NOW, provider=f"p{service}")
        for number in range(11)
        for service in range(40)
    ]
    holding(store, random.Random(1).sample(limits, len(limits)))
    assert [row["calls"] for row in storms(EVER, MINUTE, 10, ["provider"]).rows(store)] == [10] * 40


def burst(start: int, many: int, first: int, **fields: Any) -> list[Event]:
    return [limited(first + step, start + step * SECOND, session=f"s{step % 4}", **fields) for step in range(many)]


def test_a_storm_is_told_with_its_state_and_its_densest_minute(store: Store) -> None:
    holding(store, [*burst(NOW - HOUR, 90, 0), *burst(NOW - 30 * SECOND, 10, 500), event(1000, time_ns=NOW)])
    now, before = storms(EVER, MINUTE, 10).rows(store)
    assert (now["state"], now["calls"], now["sessions"]) == ("ongoing", 10, 4)
    assert (before["state"], before["calls"], before["most_in_a_minute"]) == ("ended", 90, 60)
    assert before["started"] == NOW - HOUR
    assert [row["state"] for row in storms(EVER, MINUTE, 10, state="ended").rows(store)] == ["ended"]
    assert storms(EVER, MINUTE, 11, state="ongoing").rows(store) == []


def test_the_busiest_minute_is_one_of_the_clock_while_the_storm_lasted(store: Store) -> None:
    minute = NOW // MINUTE * MINUTE
    holding(store, [*burst(minute - HOUR - 20 * SECOND, 50, 0), *burst(minute - HOUR + 30 * MINUTE, 55, 500)])
    assert [row["most_in_a_minute"] for row in storms(EVER, MINUTE, 10).rows(store)] == [55, 30]


@pytest.mark.parametrize("sort", ["-ended", "calls", "-sessions", "error_class"])
def test_the_first_storms_are_those_of_the_whole_list(store: Store, sort: str) -> None:
    bursts = [
        burst(NOW - (40 - each) * 10 * MINUTE, 10 + each * 7 % 30, each * 100, error_class=f"Class{each * 3 % 40:02}")
        for each in range(40)
    ]
    holding(store, [one for each in bursts for one in each])
    every = storms(EVER, MINUTE, 10, sort=[sort]).rows(store)
    assert len(every) == 40
    assert storms(EVER, MINUTE, 10, sort=[sort], limit=7).rows(store) == every[:8]


def test_a_storm_that_goes_on_after_the_range_is_whole_and_one_that_began_after_is_left_out(store: Store) -> None:
    holding(store, [*burst(NOW - HOUR, 20, 0), *burst(NOW - HOUR // 2, 60, 500)])
    [row] = storms(Selection(NOW - HOUR - MINUTE, NOW - HOUR + 3 * SECOND), MINUTE, 10).rows(store)
    assert (row["calls"], row["ended"], row["state"]) == (20, NOW - HOUR + 19 * SECOND, "ended")


def test_a_storm_that_began_before_the_range_is_whole_and_one_that_ended_before_is_left_out(store: Store) -> None:
    holding(store, [*burst(NOW - 2 * HOUR, 20, 0), *burst(NOW - HOUR - 30 * SECOND, 60, 500)])
    [row] = storms(Selection(NOW - HOUR, NOW), MINUTE, 10).rows(store)
    assert (row["calls"], row["started"]) == (60, NOW - HOUR - 30 * SECOND)


def test_storms_are_told_apart_by_dimensions_and_chosen_by_filters(store: Store) -> None:
    holding(store, [*burst(NOW - HOUR, 20, 0, provider="one"), *burst(NOW - HOUR, 15, 500, provider="two")])
    assert {row["provider"]: row["calls"] for row in storms(EVER, MINUTE, 10, ["provider"]).rows(store)} == {
        "one": 20, "two": 15,
    }  # fmt: skip
    only = select({"provider": "two", "from": "-2h"}, NOW)
    assert [row["calls"] for row in storms(only, MINUTE, 10).rows(store)] == [15]


@pytest.mark.parametrize(
    ("asked", "waits", "took_ms", "told", "honoured"),
    [
        (5000, 5, 0, 1, 1),
        (5000, 4, 0, 1, 0),
        (5000, 8, 4000, 1, 0),  # it ended after 8 s, but began after 4
        (5000, 9, 4000, 1, 1),
        (5000, 4.8, 0, 1, 1),  # rounded
        (None, 1, 0, 0, 0),
        (5000, 1900, 0, 0, 0),  # after half an hour it is not a retry
    ],
)
def test_waiting_as_told_is_judged_by_the_start_of_the_next_attempt(
    store: Store, asked: int | None, waits: float, took_ms: int, told: int, honoured: int
) -> None:
    first = limited(1, NOW - 2 * HOUR, retry_after_ms=asked)
    then = limited(2, NOW - 2 * HOUR + round(waits * SECOND), duration_ms=float(took_ms), outcome="ok")
    holding(store, [first, then, event(3, time_ns=NOW)])
    [row] = retries(EVER, []).rows(store)
    assert (row["told_to_wait"], row["honoured"]) == (told, honoured)
    [storm] = storms(EVER, MINUTE, 1).rows(store)
    assert (storm["told_to_wait"], storm["honoured"]) == (told, honoured)


def test_a_retry_is_wasted_where_no_later_one_helps(store: Store) -> None:
    vain = [failed(200 - step, session="vain") for step in range(4)]  # three retries, without success
    healed = [failed(200 - step, session="well") for step in range(3)] + [event(190, event_id=99, session="well")]
    holding(store, [*vain, *[one | {"event_id": one["event_id"] + 1000} for one in healed], event(1)])
    [row] = retries(EVER, []).rows(store)
    assert (row["retried"], row["recovered"], row["wasted_retries"]) == (6, 3, 3)


def tried(name: str, said: bool | None, worked: int, of: int, first: int) -> list[Event]:
    """This many errors, each retried once, this many with success; one session each."""
    events = []
    for number in range(of):
        fields: dict[str, Any] = {"session": f"{name}{number}", "service": "api"}
        events.append(failed(first + 2 * number, error_class=name, retryable_declared=said,
                             time_ns=NOW - 2 * HOUR, **fields))  # fmt: skip
        again = event if number < worked else failed
        events.append(again(first + 2 * number + 1, time_ns=NOW - 2 * HOUR + SECOND, **fields))
    return events


def test_what_was_said_and_what_was_seen_disagree_first(store: Store) -> None:
    cases = {"Never": (True, 1, 40), "Works": (False, 36, 40), "Fair": (True, 30, 40), "Few": (True, 0, 9)}
    events = [event(1)]
    for place, (name, case) in enumerate(cases.items()):
        events += tried(name, *case, first=10_000 * (place + 1))
    holding(store, events)
    rows = [row for row in retries(EVER, ["error_class", "source"]).rows(store) if row["error_class"] in cases]
    assert [row["error_class"] for row in rows[:2]] == ["Never", "Works"]
    assert {row["error_class"]: (row["verdict"], row["disagreement"]) for row in rows} == {
        "Never": ("seldom_works", 39), "Works": ("often_works", 36), "Fair": ("agrees", 0), "Few": ("unclear", 0),
    }  # fmt: skip
    assert {row["error_class"]: row["said_retryable"] for row in rows}["Works"] is False


def test_the_taxonomy_speaks_where_the_agent_is_silent(store: Store) -> None:
    quiet = tried("Quiet", None, 0, 30, 10_000)
    holding(store, [event(1), *quiet])
    rows = {row["error_class"]: row for row in retries(EVER, ["error_class"]).rows(store)}
    assert (rows["Quiet"]["declared"], rows["Quiet"]["said_retryable"], rows["Quiet"]["verdict"]) == (
        0, True, "seldom_works",
    )  # fmt: skip


def test_recovery_by_attempt_and_time_is_told_class_by_class(store: Store) -> None:
    events = [*tried("Seldom", None, 4, 40, first=10_000), *tried("Often", None, 30, 50, first=20_000), event(1)]
    holding(store, events)
    rows = curve(EVER, ["error_class"]).rows(store)
    found = {(row["error_class"], row["axis"], row["at"]): (row["recovered"], row["retried"]) for row in rows}
    assert found["Seldom", "attempts", 1] == found["Seldom", "attempts", 50] == found["Seldom", "seconds", 1] == (4, 40)
    assert found["Often", "attempts", 1] == found["Often", "seconds", 1800] == (30, 50)
    for row in curve(EVER, []).rows(store):
        each = [found[name, row["axis"], row["at"]] for name in ("Seldom", "Often")]
        assert (row["recovered"], row["retried"]) == tuple(map(sum, zip(*each, strict=True)))


def test_the_medians_of_more_than_a_million_repaired_errors_need_little_memory(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path}/many.duckdb"
    store = Store.open(url)
    with store.transaction() as cursor:
        cursor.execute(
            """insert into kept_chains by name
            select i as event_id, i * 1000000 as time_ns, 'error' as outcome, 'T' as error_class, 'gen-ai' as source,
              's' as session, true as retried, true as repaired, false as identical_retry, 1 as attempts,
              1 + i % 2 as seconds
            from range(1500000) as numbers(i)"""
        )
    store.close()
    store = Store.open(url, SETTINGS | {"memory_limit": "40MB", "temp_directory": ""})
    for by in ([], ["error_class"]):
        [row] = retries(Selection(0, NOW), by).rows(store)
        assert (row["recovered"], row["median_attempts"], row["median_seconds"]) == (1_500_000, 1, 1.5)
    store.close()
