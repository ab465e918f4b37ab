"""Events for tests of the query half: builders with sane defaults, and a store that holds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collector.query.filters import SECOND
from collector.store.changes import Changes
from collector.store.store import Store

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 1_795_297_311_123_456_789  # 2026-11-21T21:41:51.123456789Z

Event = dict[str, Any]


def event(number: int, **fields: Any) -> Event:
    """A tool call that ended well, `number` minutes before NOW and with that id; None takes a field away."""
    base: Event = {
        "event_id": number, "time_ns": NOW - number * MINUTE, "source": "codex", "source_signal": "log",
        "service": "api", "session": "s1", "operation": "tool", "outcome": "ok", "tool": "read_file",
    }  # fmt: skip
    whole = base | fields
    whole.setdefault("received_ns", whole["time_ns"])
    return {name: value for name, value in whole.items() if value is not None}


def failed(number: int, **fields: Any) -> Event:
    """The same call as a mistake: a file that does not exist."""
    base: Event = {
        "outcome": "error", "domain": "tool", "category": "file_operation", "error_class": "FileNotFoundError",
        "classified_by": "message", "severity": "error", "attribution": "model", "recovery": "fix_and_retry",
        "mistake": True, "retryable": True, "fatal": False, "message": "File /a does not exist",
        "fingerprint": 2**64 - 1, "template": "File <path> does not exist",
    }  # fmt: skip
    return event(number, **(base | fields))


def holding(store: Store, events: Iterable[Event]) -> Store:
    """The store with these events and no others, and nothing said of their groups."""
    store.execute("delete from events")
    store.execute("delete from group_marks")
    store.write(Changes(NOW, events=list(events)))
    for _ in store.rebuild():
        pass
    return store
