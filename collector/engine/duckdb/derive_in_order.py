"""Writes what `collector.correlate.in_order` makes of sessions whose events came in order into the derived tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import duckdb

from collector.columns import TABLES
from collector.correlate.chains import Error
from collector.correlate.changes import Whose
from collector.correlate.followed import Call
from collector.correlate.in_order import Session, Sessions, Turn
from collector.correlate.streaks import Streak
from collector.engine.duckdb.arrow import ArrowColumns
from collector.times import HOUR, MAX_NS

MOST_EVENTS = 50_000  # in one turn: they are in memory until they are sorted
PIECE = 2_048  # of them, as Python's objects at once

SPENT = ("calls", "busy_ms", "told", "input_tokens", "output_tokens", "cost_usd")
LISTS = {"since": "integer[]", "classes": "varchar[]", "tools": "varchar[]"}
PLACE = ("first_event_id", "scope", "kind", "started")
OPEN = (*PLACE, "until_ns", "heard_ns")
STREAK = (
    *OPEN, "was", "row", "only_tool", "only_target", "length", "ended", "succeeded", "since", "classes", "tools",
    "last_event_id", "from_sequence", "to_sequence",
)  # fmt: skip
OUTCOME = ("retried", "next_id", "next_duration_ms", "next_request", "honoured", "repaired", "identical_retry", "same")
HEARD = ("event_id", "time_ns", "heard_ns")
ERROR = (*HEARD, *OUTCOME, "attempts", "seconds")
STREAKS = TABLES["kept_streaks"] | LISTS | {"was": "varchar", "row": "bigint"}
CHAINS = TABLES["kept_chains"] | {"row": "bigint"}
Columns = dict[str, Sequence[Any]]


class Taken(NamedTuple):
    """A session that changed, and since when."""

    number: int
    project: str | None
    service: str | None
    session: str | None
    from_ns: int
    added: bool  # only
    hours: list[int]  # in which it did

    @property
    def whose(self) -> Whose:
        return self.project, self.service, self.session


class Statements(NamedTuple):
    """Those of sql/in_order.sql in their order, and by name those of sql/in_order_put.sql."""

    begun: str
    events: str
    without: str
    newest: str
    done: str
    put: Mapping[str, str]


def taken_from(cursor: duckdb.DuckDBPyConnection) -> list[Taken]:
    """The sessions that are taken."""
    sql = "select number, project, service, session, from_ns, added, hours from taken"
    return [Taken(*row) for row in cursor.execute(sql).fetchall()]


def keep_in_order(
    cursor: duckdb.DuckDBPyConnection,
    statements: Statements,
    sessions: Sessions,
    taken: Sequence[Taken],
    given: Mapping[str, Any],
) -> tuple[int, Turn]:
    """Takes those of the taken sessions whose events came in order, and forgets the others. Returns how many, and what
    is different, which `put` writes.
    """
    added = {one.number: one for one in taken if one.added and one.session is not None}
    known = {number: session for number, one in added.items() if (session := sessions.known(one.whose))}
    unknown = [*added.keys() - known.keys()]
    begun = dict(_fetched(cursor, statements.begun, given, unknown=unknown)) if unknown else {}
    wanted = {"numbers": list(begun), "begins": list(begun.values()), "most": MOST_EVENTS}
    low_ns = min((given["changed_ns"], *begun.values()))
    turn, newest, done = Turn(), _Newest(), set[int]()
    for number, rows in groupby(_fetched(cursor, statements.events, given, **wanted, low_ns=low_ns), itemgetter(0)):
        one, session = added[number], known.get(number) or Session()
        _take(session, (Call._make(row[1:]) for row in rows), one.from_ns, turn)
        sessions.remember(one.whose, session)
        newest.note(one.project, one.service, session.last_ns)
        done.add(number)
    for one in taken:
        if one.number not in done:
            sessions.forget(one.whose)
    without = {one.number for one in taken if one.added and one.session is None}
    if without:
        for row in _fetched(cursor, statements.without, given):
            newest.note(*row)
    newest.put(cursor, statements.newest)
    if len(done) + len(without) < len(taken):
        cursor.execute(statements.done, {"done": sorted(done)})
    return len(done) + len(without), turn


class _Newest(dict[tuple[str | None, str | None], int]):
    """The time of the newest event by project and service."""

    def note(self, project: str | None, service: str | None, time_ns: int) -> None:
        """An event."""
        self[project, service] = max(time_ns, self.get((project, service), time_ns))

    def put(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Writes those that are newer than what is kept."""
        if self:
            projects, services = zip(*self, strict=True)
            columns = {"project": projects, "service": services, "time_ns": list(self.values())}
            incoming = ArrowColumns(columns, TABLES["kept_newest"])  # noqa: F841 -- DuckDB finds it by its name
            cursor.execute(sql)


def _take(session: Session, calls: Iterable[Call], from_ns: int, turn: Turn) -> None:
    """Takes calls; what is kept of those before `from_ns` is as it should be."""
    for old, some in groupby(calls, key=lambda call: call.time_ns < from_ns):
        if old:
            session.take(some, before := Turn())
            before.stored()
        else:
            session.take(some, turn)


def _fetched(
    cursor: duckdb.DuckDBPyConnection, sql: str, given: Mapping[str, Any], **more: Any
) -> Iterator[tuple[Any, ...]]:
    cursor.execute(sql, {name: value for name, value in {**given, **more}.items() if f"${name}" in sql})
    while rows := cursor.fetchmany(PIECE):
        yield from rows


def put(cursor: duckdb.DuckDBPyConnection, put: Mapping[str, str], turn: Turn, *, noting: bool) -> set[int]:
    """Writes what is different, `noting` it for the cluster; returns the hours of the errors."""
    new = [one for one in turn.streaks if one.was is None and one.row is not None]
    parted = [one for one in turn.streaks if one.was is None and one.row is None]
    longer = [one for one in turn.streaks if one.was is not None]
    streaks = _Put(cursor, put, STREAKS)
    streaks.put("new_streaks", _whole(new), "row")
    streaks.put("parted_streaks", _columns(parted, PLACE), "started")
    for one in parted:
        one.was = one.kind
    streaks.put("longer_streaks", _whole([*longer, *parted]), "started")
    streaks.put("closed_streaks", _columns(turn.closed, OPEN) | _spent(turn.closed), "started")
    streaks.put("lasting_streaks", _columns(turn.lasting, OPEN), "started")
    errors = _Put(cursor, put, CHAINS)
    errors.put("new_errors", _columns(turn.errors, (*ERROR, "row")), "row")
    errors.put("tried_errors", _columns(turn.tried, ERROR), "time_ns")
    errors.put("heard_errors", _columns(turn.heard, HEARD), "time_ns")
    changed = [*turn.errors, *turn.tried, *turn.heard]
    if noting:
        streaks.put("note_streaks", _columns([*turn.streaks, *turn.closed, *turn.lasting], (*PLACE, "was")), "started")
        errors.put("note_errors", _columns(changed, HEARD), "time_ns")
    turn.stored()
    return {error.time_ns // HOUR * HOUR for error in changed}


class _Put(NamedTuple):
    cursor: duckdb.DuckDBPyConnection
    statements: Mapping[str, str]
    types: Mapping[str, str]

    def put(self, name: str, columns: Columns, near: str) -> None:
        """Runs a statement over these rows, all of which are between the least and the greatest value of a column."""
        if places := columns[near]:
            incoming = ArrowColumns(columns, self.types)  # noqa: F841 -- DuckDB finds it by its name
            self.cursor.execute(self.statements[name], {"low": min(places), "high": max(places)})


def _columns(rows: Sequence[Streak] | Sequence[Error], names: Sequence[str]) -> Columns:
    return {name: [*map(attrgetter(name), rows)] for name in names}


def _whole(streaks: Sequence[Streak]) -> Columns:
    return _columns(streaks, STREAK) | _spent(streaks)


def _spent(streaks: Sequence[Streak]) -> Columns:
    spent = zip(*(one.spent for one in streaks), strict=True) if streaks else [()] * len(SPENT)
    found: Columns = {name: list(values) for name, values in zip(SPENT, spent, strict=True)}
    for name in ("input_tokens", "output_tokens"):
        found[name] = [value if value is None else min(value, MAX_NS) for value in found[name]]
    return found
