"""Events for tests of the query half: builders with sane defaults, and a store that holds them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from collector.columns import ALERTS_DDL, PEOPLE_DDL, TABLES, tables_of
from collector.correlate.changes import Changes
from collector.engine.duckdb.counted import UNTIL
from collector.engine.duckdb.store import Store
from collector.measures.families import MeasureQuery, measure_family
from collector.measures.measure import Sample
from collector.query.filters import terms_of_rule
from collector.report import as_report
from collector.times import SECOND

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 1_795_297_311_123_456_789  # 2026-11-21T21:41:51.123456789Z

ALL_TABLES = [*TABLES, *tables_of(ALERTS_DDL), *tables_of(PEOPLE_DDL)]

Event = Any  # a dict of columns, also with values that no event may have


def event(number: int, **fields: Any) -> Event:
    """A successful tool call, `number` minutes before NOW and with this id; a field that is None is left out."""
    base: Event = {
        "event_id": number, "time_ns": NOW - number * MINUTE, "source": "codex", "source_signal": "log",
        "service": "api", "session": "s1", "operation": "tool", "outcome": "ok", "tool": "read_file",
    }  # fmt: skip
    whole = base | fields
    whole.setdefault("received_ns", whole["time_ns"])
    return {name: value for name, value in whole.items() if value is not None}


def failed(number: int, **fields: Any) -> Event:
    """The same call as a mistake: the file does not exist."""
    base: Event = {
        "outcome": "error", "domain": "tool", "category": "file_operation", "error_class": "FileNotFoundError",
        "classified_by": "message", "severity": "error", "attribution": "model", "recovery": "fix_and_retry",
        "mistake": True, "retryable": True, "fatal": False, "message": "File /a does not exist",
        "fingerprint": 2**64 - 1, "template": "File <path> does not exist",
    }  # fmt: skip
    return event(number, **(base | fields))


def emptied(store: Store) -> Store:
    """The store with no rows, as if it had just been opened; that takes a fifth of the time."""
    store.execute_all((f"delete from {table}", {}) for table in ALL_TABLES)
    store.execute("delete from meta where name = $name", {"name": UNTIL})
    store.count_again()
    store.open_sessions.clear()
    return store


def replacing(store: Store, gone: Sequence[int], coming: list[Event]) -> None:
    """Writes these events in the place of stored ones."""
    old = store.rows("select * from events where event_id in (select unnest($ids::ubigint[]))", {"ids": list(gone)})
    store.write(Changes(NOW, events=coming, replaced=dict.fromkeys(gone, 0), old=[as_report(row) for row in old]))


_held: WeakKeyDictionary[Store, tuple[str, list[Event]]] = WeakKeyDictionary()


def holding(store: Store, events: Iterable[Event]) -> Store:
    """The store with exactly these events, and without notes on groups. Takes a tenth of a second, but no time where
    the test before asked for the same events, and nothing was written since.
    """
    events = list(events)
    if _held.get(store) == (store.version, events):
        return store
    store.execute("delete from events")
    store.execute("delete from group_marks")
    store.write(Changes(NOW, events=events))
    for _ in store.rebuild():
        pass
    _held[store] = store.version, [dict(each) for each in events]
    return store


SILENT = ("roo-code",)


def mixed(count: int = 600, seed: int = 3) -> list[Event]:
    """Events of four tools, two services, some sessions, over the last ten hours."""
    dice = random.Random(seed)
    events = []
    for number in range(count):
        fields: dict[str, Any] = {
            "event_id": number, "time_ns": NOW - 1 - dice.randrange(10 * HOUR),
            "tool": dice.choice(["a", "b", "c", None]),
            "service": dice.choice(["api", "web"]), "session": dice.choice([*"pqrst", None]),
            "duration_ms": dice.random() * 90,
            "source": dice.choice(["codex", "codex", "roo-code"]), "operation": dice.choice(["tool", "model"]),
        }  # fmt: skip
        how = dice.choice(["ok", "ok", "error", "cancelled", "denied", "unknown"])
        if fields["source"] in SILENT and how == "ok":
            how = "error"
        events.append(failed(number, **fields) if how == "error" else event(number, outcome=how, **fields))
    return events


def counted(events: Sequence[Event]) -> dict[str, Any]:
    """The counts of `breakdown` for these events, in plain Python."""
    outcomes = Counter(one["outcome"] for one in events)
    rated = [one["outcome"] for one in events if one["source"] not in SILENT and one["outcome"] in ("ok", "error")]
    return {
        "calls": len(events),
        "ok": outcomes["ok"],
        "errors": outcomes["error"],
        "cancelled": outcomes["cancelled"],
        "denied": outcomes["denied"],
        "unknown": outcomes["unknown"],
        "rated": len(rated),
        "error_rate": pytest.approx(rated.count("error") / len(rated)) if rated else None,
        "first_seen": min((one["time_ns"] for one in events), default=None),
        "last_seen": max((one["time_ns"] for one in events), default=None),
    }


def measure(
    store: Store,
    name: str,
    where: Mapping[str, list[str] | str | bool],
    by: Sequence[str],
    start_ns: int,
    end_ns: int,
    *,
    failure_only: Sequence[str] = (),
) -> list[Sample]:
    """The samples of one measure alone."""
    query = MeasureQuery(name, terms_of_rule(where), tuple(by), start_ns, end_ns)
    return measure_family(store, [query], failure_only)[0]
