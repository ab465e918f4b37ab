"""Counts read from hours that the store has counted equal those counted event by event."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from collector.engine.duckdb.derive import KEPT, Slice
from collector.engine.duckdb.store import Store
from collector.engine.whole_hours import WholeHours, edges
from collector.query.breakdowns import breakdown, timeseries, values
from collector.query.changes import changes
from collector.query.compare import compare
from collector.query.filters import Selection, terms_of
from collector.query.groups import groups
from collector.query.queries import sources
from collector.query.retries import retries
from collector.query.statement import Answer
from collector.query.streaks import Scope, limits
from tests.recorded import DAY, HOUR, MINUTE, NOW, SILENT, Event, counted, event, failed, holding, replacing
from tests.search import EXAMPLES

RANGES = [
    (NOW - 30 * HOUR, NOW),
    (NOW - 2 * DAY - 7, NOW - HOUR + 1),
    (NOW // HOUR * HOUR - 5 * HOUR, NOW),
    (0, NOW + DAY),
]


def made(dice: random.Random, number: int) -> Event:
    """An event of the last 40 hours; half of the events are in a few of these."""
    hour = dice.choice([0, 1, 2, 17, 18, dice.randrange(40)])
    fields: dict[str, Any] = {
        "event_id": number, "time_ns": NOW - hour * HOUR - dice.randrange(HOUR), "tool": dice.choice(["a", "b", None]),
        "service": dice.choice(["api", "web"]), "session": dice.choice(["p", "q", None]),
        "source": dice.choice(["codex", "roo-code"]), "model": dice.choice(["m", None]),
        "params_hash": dice.choice([1, None]),
    }  # fmt: skip
    fields["received_ns"] = fields["time_ns"] + MINUTE
    if dice.random() < 0.4:
        return failed(
            number, **fields, retryable_declared=dice.choice([True, None]), fingerprint=dice.choice([1, 2, 3])
        )
    return event(number, outcome=dice.choice(["ok", "ok", "cancelled", "denied", "unknown"]), **fields)


def by_key(events: Sequence[Event], *names: str) -> dict[tuple[Any, ...], list[Event]]:
    found = defaultdict(list)
    for one in events:
        found[tuple(one.get(name) for name in names)].append(one)
    return found


def compared(store: Store, events: Sequence[Event], start: int, end: int) -> None:
    selection = Selection(start, end, failure_only=SILENT)
    inside = [one for one in events if start <= one["time_ns"] < end]
    for by in (["tool", "error_class"], ["service"]):
        asked = breakdown(selection, by, limit=1000)
        assert "hourly" in asked.sql
        found = {tuple(row[name] for name in by): row for row in asked.rows(store)}
        _equal(found, {key: counted(mine) for key, mine in by_key(inside, *by).items()})
    only = Selection(start, end, tuple(terms_of("tool", "!a")), failure_only=SILENT)
    [whole] = breakdown(only, []).rows(store)
    _equal({(): whole}, {(): counted([one for one in inside if one.get("tool") != "a"])})
    kinds = {row["value"]: (row["calls"], row["errors"]) for row in values(selection, "source", "", [], 10).rows(store)}
    assert kinds == {
        key: (len(mine), sum(one["outcome"] == "error" for one in mine))
        for (key,), mine in by_key(inside, "source").items()
    }
    told = {(row["source"], row["service"]): row for row in sources(selection).rows(store) if row["tool_data"]}
    for key, mine in by_key(inside, "source", "service").items():
        errors = [one for one in mine if one["outcome"] == "error"]
        left_open = sum(one["outcome"] == "unknown" for one in mine)
        row = told[key]
        assert (row["events"], row["errors"], row["unknown"]) == (len(mine), len(errors), left_open)
        calls = [one for one in mine if one.get("operation") == "tool"]
        for fact, name, of in (
            ("session", "session", mine),
            ("parameters", "params_hash", calls),
            ("model", "model", mine),
        ):
            share = sum(one.get(name) is not None for one in of) / len(of) if of else None
            assert told[key]["coverage"][fact] == (None if share is None else pytest.approx(share))
        known = sum(one["outcome"] != "unknown" for one in calls) / len(calls) if calls else None
        assert row["coverage"]["outcome"] == (None if known is None else pytest.approx(known))
        declared = sum(one.get("retryable_declared") is not None for one in errors) / len(errors) if errors else None
        assert told[key]["coverage"]["retryable"] == (None if declared is None else pytest.approx(declared))


def groups_seen(store: Store, events: Sequence[Event], start: int, end: int) -> None:
    """When each group of the range was seen for the first and the last time ever, and whether it is new."""
    of = by_key([one for one in events if one.get("fingerprint")], "fingerprint")
    shown = {key: mine for (key,), mine in of.items() if any(start <= one["time_ns"] < end for one in mine)}
    first = {key: min(one["time_ns"] for one in mine) for key, mine in shown.items()}
    asked = groups(Selection(start, end))
    assert "hourly" in asked.sql
    found = {row["fingerprint"]: row for row in asked.rows(store)}
    assert {key: (row["first_seen"], row["last_seen"], row["state"]) for key, row in found.items()} == {
        key: (first[key], max(one["time_ns"] for one in mine), "new" if first[key] >= start else "ongoing")
        for key, mine in shown.items()
    }
    told = changes(Selection(start, end), "errors", ["fingerprint"]).rows(store)
    assert {row["value"]: row["state"] == "new" for row in told if row["b_errors"] and row["value"]} == {
        str(key): first[key] >= start
        for key, mine in shown.items()
        if any(one["outcome"] == "error" and start <= one["time_ns"] < end for one in mine)
    }


def by_session(store: Store, _: Sequence[Event], start: int, end: int) -> None:
    """Counts of sessions are the same from the hours and from the events, which a filter on targets requires."""
    selection = Selection(start, end, failure_only=SILENT)
    of_events = replace(selection, terms=tuple(terms_of("target", "!nowhere")))
    rates = ["error_rate", "mistake_rate", "hit_rate", "errors_per_session", "streak_rate", "calls"]
    asks: list[Callable[[Selection], Answer]] = [
        lambda s: breakdown(s, [], ["sessions"], previous=True),
        lambda s: breakdown(s, ["model", "service"], ["sessions"], limit=1000),
        lambda s: breakdown(s, ["session", "service"], limit=1000),
        lambda s: values(s, "session", "", [], 1000),
        lambda s: compare(s, rates),
        lambda s: compare(s, rates, ["model"], dimension="service", a="api", b="web"),
        lambda s: limits(s, Scope(), ["model"], previous=True),
        lambda s: changes(s, "errors", ["volume"]),
    ]
    for ask in asks:
        assert ask(selection).rows(store) == ask(of_events).rows(store)
    [asked] = compare(selection, rates[:1]).asked
    assert "from hourly_sessions" in asked.sql
    assert "hourly" not in str(compare(of_events, rates[:1]).asked)


def over_time(store: Store, events: Sequence[Event], *_: int) -> None:
    """Buckets of three hours, beside the period of equal length before."""
    start, bucket = NOW - 15 * HOUR, 3 * HOUR
    asked = timeseries(Selection(start, NOW, failure_only=SILENT), bucket, ["tool"], previous=True)
    assert "hourly" in asked.sql
    found = {(row["time"], row["tool"]): row for row in asked.rows(store)}
    now, before = defaultdict(list), defaultdict(list)
    for one in events:
        if start <= one["time_ns"] < NOW:
            now[one["time_ns"] // bucket * bucket, one.get("tool")].append(one)
        elif start - 15 * HOUR <= one["time_ns"] < start:
            at = one["time_ns"] + 15 * HOUR
            before[at // bucket * bucket, one.get("tool")].append(one)
    assert found.keys() == now.keys() | before.keys()
    for key, row in found.items():
        assert {name: row[name] for name in counted(now[key])} == counted(now[key])
        assert (row["previous_calls"], row["previous_errors"]) == (
            len(before[key]), sum(one["outcome"] == "error" for one in before[key])
        )  # fmt: skip


def _equal(found: Mapping[Any, Mapping[str, Any]], expected: Mapping[Any, Mapping[str, Any]]) -> None:
    assert found.keys() == expected.keys()
    for key, counts in expected.items():
        assert {name: found[key][name] for name in counts} == counts


@pytest.mark.parametrize(
    ("start", "until", "expected"),
    [
        (0.5, 3.5, (1, 3)), (1, 3, (1, 3)), (0.5, 9.5, (5, 9)), (2.5, 7, (5, 7)), (0, 99, (5, 10)), (4, 5, (4, 4)),
        (3.2, 5.5, (4, 4)), (1.2, 1.8, (1.8, 1.8)), (1.5, 2.5, (2.5, 2.5)), (10, 12, (12, 12)), (11.5, 99, (99, 99)),
    ],
)  # fmt: skip
def test_the_longest_run_of_counted_hours_is_read_from_them(
    store: Store, start: float, until: float, expected: tuple[float, float]
) -> None:
    """Hours 0 to 9 are counted, and the fifth has changed since."""
    for table in ("events", "changed", *KEPT):
        store.execute(f"delete from {table}")
    store.execute("insert into stale_hours values ($hour)", {"hour": 4 * HOUR})
    hours = WholeHours("start", "until")
    low, high = hours.names()
    asked = f"select ${low} as low, ${high} as high, $start::bigint as start, $until::bigint as until"
    span = {"start": round(start * HOUR), "until": round(until * HOUR), **edges(hours)}
    assert [store.rows(asked, span)[0][name] for name in ("low", "high")] == [span["until"]] * 2, "none is counted"
    needed = [row["column_name"] for row in store.rows("describe hourly") if row["null"] == "NO"]
    zeros = ", ".join(f"0 as {name}" for name in needed if name != "time_ns")
    store.execute(f"insert into hourly by name select range as time_ns, {zeros} from range(0, {10 * HOUR}, {HOUR})")
    [row] = store.rows(asked, span)
    assert (row["low"], row["high"]) == tuple(round(hour * HOUR) for hour in expected)


def of_chains(store: Store, _: Sequence[Event], start: int, end: int) -> None:
    """Counts of chains equal the single chains, which a term on the session makes the query read."""
    every = tuple(terms_of("session", "!nobody"))
    for by, terms in (([], ()), (["service"], tuple(terms_of("model", "m"))), (["error_class", "tool"], ())):
        selection = Selection(start, end, terms, failure_only=SILENT)
        single = replace(selection, terms=(*terms, *every))
        assert "from hourly_chains" not in retries(single, by).sql
        for previous in (False, True):
            ours, theirs = (retries(one, by, previous=previous).rows(store) for one in (selection, single))
            assert ours == theirs


CHECKS: list[Callable[[Store, Sequence[Event], int, int], None]] = [
    compared, of_chains, groups_seen, by_session, over_time,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(max(2, EXAMPLES // 6)))
def test_counts_are_the_events_whatever_is_counted_already(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    for table in ("events", "changed", *KEPT):
        store.execute(f"delete from {table}")
    stored: dict[int, Event] = {}
    for step in range(7):
        coming = [made(dice, 1000 * step + number) for number in range(dice.choice([3, 60]))]
        gone = dice.sample(sorted(stored), min(len(stored), 5))
        for number in gone:
            one = stored.pop(number)
            if dice.random() < 0.7:  # merged: the same event, at another time
                coming.append(one | {"time_ns": one["time_ns"] - dice.randrange(2 * HOUR), "outcome": "denied"})
        replacing(store, gone, coming)
        stored |= {one["event_id"]: one for one in coming}
        if step == 5:
            oldest = NOW - 26 * HOUR
            store.prune(NOW, NOW - oldest)
            stored = {number: one for number, one in stored.items() if one["received_ns"] >= oldest}
        for _ in range(dice.randrange(3)):
            store.keep_up(dice.choice([1, 1000]))
            if dice.random() < 0.7:
                store.count_hours()
        if step % 2:
            dice.choice(CHECKS)(store, list(stored.values()), *dice.choice(RANGES))
    while store.keep_up() or store.count_hours():
        pass
    assert len(store.rows("from stale_hours")) == 1, "only the newest hour is read from the events"
    for place in (seed, seed + 2, seed + 4):  # the first two seeds make every check
        CHECKS[place % len(CHECKS)](store, list(stored.values()), *RANGES[seed % len(RANGES)])
    sums = "select (select sum(errors) from hourly_chains) as known, (select count(*) from kept_chains) as there"
    [row] = store.rows(sums)
    assert row["there"] >= row["known"] > row["there"] / 3
    for table, of_it in (("hourly", "true"), ("hourly_sessions", "session is not null")):
        [row] = (
            store.rows(f"""select (select sum(events) from {table}) as known, (select count(*) from events where {of_it}
          and time_ns < (select time_ns from stale_hours)) as there""")
        )
        assert row["known"] == row["there"] > len(stored) / 3


@pytest.mark.parametrize(
    ("by", "filters", "measures", "length", "bucket", "read"),
    [
        (["tool"], {}, [], DAY, HOUR, True),
        (["tool"], {"model": "m", "outcome": "!ok"}, [], DAY, HOUR, True),
        (["fingerprint"], {"fingerprint": "!1"}, [], DAY, HOUR, True),
        (["session"], {"model": "m"}, [], DAY, HOUR, True),
        (["session"], {"tool": "a"}, [], DAY, HOUR, False),
        (["tool"], {"target": "x"}, [], DAY, HOUR, False),
        (["tool"], {"recovered": "true"}, [], DAY, HOUR, False),
        (["tool"], {}, ["sessions", "p95_ms", "recovery_rate"], DAY, HOUR, True),
        (["tool"], {}, [], 2 * HOUR, HOUR, False),
        (["tool"], {}, [], DAY, 90 * MINUTE, False),
    ],
)
def test_only_what_hours_can_tell_is_read_from_them(
    store: Store, by: list[str], filters: dict[str, str], measures: list[str], length: int, bucket: int, read: bool
) -> None:
    holding(store, [failed(n, tool="a", model="m", session="p", target="x") for n in range(1, 300, 7)])
    terms = tuple(term for name, text in filters.items() for term in terms_of(name, text))
    asked = timeseries(Selection(NOW - length, NOW, terms), bucket, by, measures)
    assert ("hourly" in asked.sql) == read
    assert sum(row["calls"] for row in asked.rows(store)) == sum(
        NOW - length <= NOW - n * MINUTE for n in range(1, 300, 7) if filters.get("recovered") is None
    )


def test_words_in_messages_are_looked_up_in_events(store: Store) -> None:
    holding(store, [failed(n, message="odd" if n < 9 else "other") for n in range(1, 300, 7)])
    assert breakdown(Selection(NOW - DAY, NOW, text="odd"), []).rows(store)[0]["calls"] == 2


def test_a_rebuild_that_ends_half_way_leaves_no_hour_with_some_of_its_chains(store: Store) -> None:
    holding(store, [failed(n, session=f"s{n % 2}") for n in range(1, 600, 7)])
    asked = retries(Selection(NOW - DAY, NOW), [])
    answer = asked.rows(store)
    cut = Slice(0, NOW - 590 * MINUTE, NOW, 1)  # the session that began first
    store._forget()
    store.keep_up(part=cut)
    while store.count_hours():
        pass
    assert 0 < asked.rows(store)[0]["errors"] < answer[0]["errors"]
    while store.keep_up() or store.count_hours():
        pass
    assert asked.rows(store) == answer


def test_chains_that_retention_removed_are_not_counted_before_the_keeper_has_seen_it(store: Store) -> None:
    holding(store, [failed(n, session=f"s{n % 5}") for n in range(1, 3000, 7)])
    asked = retries(Selection(NOW - 3 * DAY, NOW), [])
    assert asked.rows(store)[0]["errors"] == 429
    store.prune(NOW, DAY)
    known = store.rows("select count(*) as n from kept_chains")[0]["n"]
    assert asked.rows(store)[0]["errors"] == known < store.rows("select sum(errors) as n from hourly_chains")[0]["n"]
