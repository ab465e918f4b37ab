"""What a few characters name: ids by their beginning, names, groups and messages by what they contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.engine import Reads
from collector.engine.duckdb.arrow import arrow_stream
from collector.engine.duckdb.open import DATABASE
from collector.query.filters import BadParameter, Selection
from collector.query.hours import ever
from collector.query.queries import newest_ns
from collector.query.statement import Row, load
from collector.times import DAY, rfc3339

LEAST_OF_ID, MOST_CHARS = 6, 200
LATELY_DAYS = 7  # before the newest event: there are many messages and ids of calls, all different
TYPES = {
    "kind": "varchar", "value": "varchar", "text": "varchar", "service": "varchar", "session": "varchar",
    "event_id": "ubigint", "fingerprint": "ubigint", "events": "bigint", "last_seen": "timestamp", "found": "bigint",
}  # fmt: skip
CALL = "concat_ws(' · ', tool, coalesce(error_class, outcome))"
ABOUT = "left(concat_ws(': ', error_class, {}), 300)"


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be found: `matches` says by which condition on events, for a text; empty if nothing can be found by it.

    Of a kind without `matches`, the names in the column are looked through. `text` describes the newest event of each.
    """

    column: str
    matches: Callable[[str], str] | None = None
    by: str = ""
    text: str = "null"

    def sql(self, name: str, q: str) -> str:
        """The statement; empty if nothing of the kind can be found by `q`."""
        if self.matches is None:
            found = load("search_names").format(column=self.column, ever=ever().source)
        elif matches := self.matches(q):
            found = load("search_events").format(column=self.column, matches=matches, by=self.by or self.column)
        else:
            return ""
        return load("search").format(kind=name, found=found, text=self.text, database=DATABASE)


def _id(column: str, condition: str = "") -> Callable[[str], str]:
    matches = f"starts_with({column}, $q){condition}"
    return lambda q: matches if len(q) >= LEAST_OF_ID and not re.search(r"\s", q) else ""


def _group(q: str) -> str:
    either = f" or {_begins('fingerprint', q)}" if _is_number(q) else ""
    return f"fingerprint is not null and (contains(lower(template), lower($q)){either})"


def _is_number(q: str) -> bool:
    return LEAST_OF_ID <= len(q) <= 20 and q.isascii() and q.isdecimal() and q[0] != "0"


def _begins(column: str, digits: str) -> str:
    """Whether a 64-bit id begins with these digits, as SQL: one range for each number of digits that may follow."""
    spans = ((int(digits) * 10**more, (int(digits) + 1) * 10**more - 1) for more in range(21 - len(digits)))
    ranges = [(low, min(high, 2**64 - 1)) for low, high in spans if low < 2**64]
    either = " or ".join(f"{column} between {low}::ubigint and {high}::ubigint" for low, high in ranges)
    return f"({either or 'false'})"


LATELY = " and time_ns >= $since_ns"
# In the order of the answer.
KINDS: Mapping[str, Kind] = {
    "session": Kind("session", _id("session"), by="session, service"),
    "trace": Kind("trace_id", _id("trace_id", " or starts_with(trace_id, lower($q))")),
    "call": Kind("call_id", _id("call_id", LATELY), text=CALL),
    "event": Kind("event_id", lambda q: _begins("event_id", q) if _is_number(q) else "", text=CALL),
    "tool": Kind("tool"),
    "class": Kind("error_class"),
    "service": Kind("service"),
    "model": Kind("model"),
    "group": Kind("fingerprint", _group, text=ABOUT.format("template")),
    "message": Kind(
        "fingerprint", lambda _: f"contains(lower(message), lower($q)){LATELY}", text=ABOUT.format("message")
    ),
}
OLDER_CALLS = Kind("call_id", _id("call_id", " and time_ns < $since_ns"), text=CALL)


@dataclass(frozen=True, slots=True)
class Search:
    """The answer to one text: at most `each` rows of every kind, and how many there are."""

    q: str
    each: int
    limit: int
    times: tuple[str, ...] = ("last_seen",)
    of_kept: bool = False
    of_clock: bool = False

    def rows(self, store: Reads, timeout_s: float = 30) -> list[Row]:
        """Rows of `TYPES`, kind by kind. Calls of long ago are looked for where nothing else is found."""
        params = {**Selection(0, 0).params(), "q": self.q, "most": self.each, "since_ns": since(store)}

        def of(kinds: Mapping[str, Kind]) -> list[Row]:
            asked = filter(None, (kind.sql(name, self.q) for name, kind in kinds.items()))
            return [row for sql in asked for row in store.rows(sql, params, timeout_s=timeout_s)]

        return of(KINDS) or of({"call": OLDER_CALLS})

    def arrow(self, store: Reads, timeout_s: float = 30) -> bytes:
        """The rows as an Arrow IPC stream."""
        return arrow_stream(self.rows(store, timeout_s), TYPES)


def search(text: str, each: int) -> Search:
    """What a text names. Raises BadParameter where there is nothing to look for."""
    q = text.strip()
    if not 0 < len(q) <= MOST_CHARS:
        raise BadParameter("q", text[:MOST_CHARS], f"q is what to look for, of 1 to {MOST_CHARS} characters")
    return Search(q, each, each * len(KINDS))


def since(store: Reads) -> int:
    """Since when messages and ids of calls are looked through."""
    return max(0, (newest_ns(store) or 0) - LATELY_DAYS * DAY)


def told(state: Any, _: Selection, options: Mapping[str, Any]) -> Callable[[Row, Sequence[Row]], None]:
    """Completes the answer with what was looked for, and how far."""

    def complete(body: Row, rows: Sequence[Row]) -> None:
        found = {row["kind"]: row["found"] for row in rows}
        asked = (name for name, kind in KINDS.items() if kind.sql(name, options["q"].strip()))
        body["kinds"] = {name: found.get(name, 0) for name in asked}
        body["truncated"] = any(row["found"] > options["limit"] for row in rows)
        body["since"] = rfc3339(since(state.store))
        body["ids_from"] = LEAST_OF_ID
        del body["from"], body["to"]

    return complete
