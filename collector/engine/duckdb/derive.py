"""Derived tables kept beside the events: streaks, retry chains, the newest event of each service, and counts of each
hour.

`keep` updates them for sessions that changed. However late or often events came, the result is the same as when
computed from scratch: what an event can no longer change is left alone, the rest is recomputed (sql/bounds.sql says
why). `count_hours` recounts whole hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, NamedTuple

import duckdb

from collector.columns import TABLES
from collector.correlate.in_order import Sessions
from collector.engine.duckdb.connection import all_or_nothing, used
from collector.engine.duckdb.derive_in_order import Statements as InOrder
from collector.engine.duckdb.derive_in_order import Taken, keep_in_order, put, taken_from
from collector.engine.duckdb.notes import MODELLED
from collector.engine.duckdb.open import DATABASE
from collector.streak_rules import ACTED_ON, ASKED_NS, IDLE_NS, LAST, PATIENCE, WINDOW_NS
from collector.times import HOUR, MAX_NS

COUNTED = {  # tables of hourly counts and their dimensions
    table: [name for name in TABLES[table] if name in TABLES["events"] and name != "time_ns"]
    for table in ("hourly", "hourly_sessions")
}
HOURS = (*COUNTED, "stale_hours")
OF_SESSIONS = ("kept_streaks", "kept_chains", "kept_newest", "hourly_chains", "stale_chains")
KEPT = (*OF_SESSIONS, *HOURS)
MOST_HOURS = 12  # per transaction

FIRSTS = [name for name in TABLES["kept_streaks"] if name.startswith("first_") and name != "first_event_id"]
NO_DIMENSIONS = ("event_id", "time_ns", "retryable_declared")
DIMENSIONS = [name for name in TABLES["kept_chains"] if name in TABLES["events"] and name not in NO_DIMENSIONS]
FACTS = {  # column of `hourly`: which events it counts
    "with_session": "session is not null",
    "with_params": "params_hash is not null",
    "with_sequence": "sequence is not null",
    "with_declared": "outcome = 'error' and retryable_declared is not null",
}

UNMODELLED = "select count(*), min(from_ns), bool_and(added) from unmodelled"
NEWEST_OF_ALL = """
  insert into kept_newest
  select project, service, max(time_ns) from events
  where exists (
      select 1 from services s where s.service is not distinct from events.service
        and s.project is not distinct from events.project)
    and not exists (
      select 1 from found f where f.service is not distinct from events.service
        and f.project is not distinct from events.project)
  group by project, service
"""
# Sessions that begin at the same time are in one part. Events outside of the sessions are not read, however late.
SLICES = """
  select min(from_ns), max(from_ns), coalesce(max(until_ns), 0), count(*)
  from (
    select min(time_ns) as from_ns, max(time_ns) filter (session is not null) as until_ns,
      (rank() over (order by min(time_ns)) - 1) // ? as part
    from events group by project, service, session
  )
  group by part order by part
"""

CHAINS = {  # column of `hourly_chains`: which chains it counts
    "errors": "true",
    "retried": "retried",
    "repaired": "repaired",
    "repaired_identical": "same",
    "repaired_changed": "not same",
    "identical_retries": "identical_retry",
    "told_to_wait": "honoured is not null",
    "honoured": "honoured",
    "declared": "retryable_declared is not null",
    "declared_retryable": "retryable_declared",
}

# Of chains, too, hours in `changed` are stale: those of removed events are gone already (retention.py).
STALE = """
  select time_ns, true from {notes}
  union all select distinct time_ns - time_ns % $hour, true from changed
  union all select max(time_ns) + $hour, false from {counts}
"""


def bounded_sum(name: str) -> str:
    """The sum of a column as SQL, at most the largest number of 64 bits; `least` would make that of no values."""
    return f"case when sum({name}) > {MAX_NS} then {MAX_NS} else sum({name}) end::bigint"


@cache
def _statements(name: str) -> Sequence[str]:
    text = resources.files("collector.engine.duckdb").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return text.format(
        dimensions=", ".join(f"e.{name}" for name in DIMENSIONS),
        firsts=", ".join(f"told.{name.removeprefix('first_')} as {name}" for name in FIRSTS),
        **{table: ", ".join(names) for table, names in COUNTED.items()},
        acted_on=ACTED_ON,
        database=DATABASE,
        last=LAST,
        sum_of_input=bounded_sum("told.input_tokens"),
        sum_of_output=bounded_sum("told.output_tokens"),
        facts=_counts(FACTS),
        chains=_counts(CHAINS),
        most=MOST_HOURS,
    ).split(";\n")


def _counts(conditions: Mapping[str, str]) -> str:
    return ", ".join(f"count(*) filter ({condition}) as {name}" for name, condition in conditions.items())


class Slice(NamedTuple):
    """Some sessions that are not computed yet: when the first and the last of them begin, and when all have ended."""

    first_ns: int
    last_ns: int
    until_ns: int
    sessions: int


def keep_up(
    cursor: duckdb.DuckDBPyConnection,
    writing: AbstractContextManager[object],
    sessions: Sessions,
    most: int,
    part: Slice | None,
    *,
    noting: bool,
) -> int:
    """Updates up to `most` changed sessions, or those of `part`; returns how many. Holds the lock of writing until it
    sees what was written, `noting` what the cluster lacks then. What is open is remembered in `sessions`.
    """
    if part:
        sessions.clear()
    try:
        with ExitStack() as turn:
            with writing:
                model_calls(cursor, most, part, after=[MODELLED] if noting else ())
                turn.enter_context(all_or_nothing(cursor))
                given = take(cursor, most, part)
            return keep(cursor, given, None if part else sessions, noting=noting)
    except BaseException:
        sessions.clear()  # of what they have now, some is not stored
        raise


def model_calls(cursor: duckdb.DuckDBPyConnection, most: int, part: Slice | None, after: Sequence[str] = ()) -> None:
    """Gives the calls of up to `most` changed sessions, or those of `part`, the models that asked for them, in one
    transaction, with the statements `after`. Nobody else may change events meanwhile.
    """
    given = _between(most, part)
    choose, ask, *find, done, note = _statements("models")
    with all_or_nothing(cursor):
        _run(cursor, choose, given)
        sessions, since, added = cursor.execute(UNMODELLED).fetchone() or (0, None, True)
        if sessions:
            given |= {"since_ns": since or 0, "window": ASKED_NS, "hour": HOUR}
            _run(cursor, ask, given)
            [[asked]] = cursor.fetchall()
            again = bool(asked) or not added  # else no call has a request, nor had one
            for statement in find if again else ():
                _run(cursor, statement, given)
            _run(cursor, done, given)
            for statement in (note, *after) if again else ():
                _run(cursor, statement, given)


def take(cursor: duckdb.DuckDBPyConnection, most: int, part: Slice | None) -> dict[str, Any]:
    """Takes up to `most` changed sessions, or those of `part`, whose calls have their models, in the caller's
    transaction, the first statement of which this must be: then all changes that it sees are noted. Returns what `keep`
    needs to know.
    """
    given = _between(most, part) | {"window": WINDOW_NS, "idle": IDLE_NS, "patience": PATIENCE, "hour": HOUR}
    choose, done = _statements("take")
    _run(cursor, choose, given)
    given["taken"] = taken_from(cursor)
    if given["taken"]:
        _run(cursor, done, given)
    return given


def keep(
    cursor: duckdb.DuckDBPyConnection, given: dict[str, Any], sessions: Sessions | None, *, noting: bool = False
) -> int:
    """Updates the sessions that were taken, in the caller's transaction, `noting` what the cluster lacks then; returns
    how many. Those whose events came in order are looked for in `sessions`, if there are any. Leaves temporary tables
    on the cursor, which must be the caller's own.
    """
    taken: Sequence[Taken] = given.pop("taken")
    if not taken:
        return 0
    given["changed_ns"] = min(one.from_ns for one in taken)
    hours = {hour for one in taken for hour in one.hours}
    done, of_errors = 0, set[int]()
    if sessions is not None:
        done, turn = keep_in_order(cursor, _in_order(), sessions, taken, given)
        of_errors = put(cursor, _in_order().put, turn, noting=noting)
    _stale(cursor, hours, hours | of_errors)  # where there may be no chain any more, too
    if done < len(taken):
        _compute(cursor, given, noting=noting)
    return len(taken)


def _compute(cursor: duckdb.DuckDBPyConnection, given: dict[str, Any], *, noting: bool) -> None:
    """Computes the taken sessions from their events."""
    for statement in _statements("bounds"):
        _run(cursor, statement, given)
    low, newest = cursor.execute(
        "select (select min(begin_ns) from bounds), (select min(time_ns) from services)"
    ).fetchone() or (None, None)
    given |= {"low_ns": low or 0, "newest_ns": newest}
    statements = _statements("keep")
    if noting:
        statements = [*_statements("note_before"), *statements, *_statements("note_after")]
    for statement in statements:
        _run(cursor, statement, given)
    if _newest_gone(cursor):
        cursor.execute(NEWEST_OF_ALL)


def _between(most: int, part: Slice | None) -> dict[str, Any]:
    first, last, until, most = part or (0, MAX_NS, MAX_NS, most)
    return {
        "first_ns": first, "last_ns": last, "until_ns": until, "high_ns": until, "most": most,
        "nothing_kept": part is not None,
    }  # fmt: skip


def _stale(cursor: duckdb.DuckDBPyConnection, of_events: Set[int], of_chains: Set[int]) -> None:
    """Notes hours to be counted anew."""
    noted = cursor.execute("select time_ns, false from stale_hours union all select time_ns, true from stale_chains")
    for hour, is_of_chains in noted.fetchall():
        if is_of_chains:
            of_chains = of_chains - {hour}
        else:
            of_events = of_events - {hour}
    for table, hours in (("stale_hours", of_events), ("stale_chains", of_chains)):
        if hours:
            cursor.execute(f"insert into {table} select unnest($hours::bigint[])", {"hours": sorted(hours)})


@cache
def _in_order() -> InOrder:
    begun, events, without, newest, done = _statements("in_order")
    named = {text.split(maxsplit=2)[1].rstrip(":"): text for text in _statements("in_order_put")}
    return InOrder(begun, events, without, newest, done, named)


def count_hours(cursor: duckdb.DuckDBPyConnection) -> int:
    """Recounts past hours in which something changed, in one transaction; returns how many."""
    with all_or_nothing(cursor):
        return _recount(cursor, "count") + _recount(cursor, "count_chains")


def _recount(cursor: duckdb.DuckDBPyConnection, name: str) -> int:
    """Recounts the hours that the first statement of sql/<name>.sql chooses; returns how many."""
    choose, *count = _statements(name)
    _run(cursor, choose, {"hour": HOUR, "window": WINDOW_NS})
    hours = [hour for (hour,) in cursor.execute("select time_ns from counted_hours").fetchall()]
    if hours:
        given = {"hour": HOUR, "hours": hours, "low_ns": min(hours), "high_ns": max(hours) + HOUR}
        for statement in count:
            _run(cursor, statement, given)
    return len(hours)


def whole_hours(
    cursor: duckdb.DuckDBPyConnection, spans: Iterable[tuple[int, int]], *, chains: bool
) -> list[tuple[int, int]]:
    """For each range (from, until), the longest run of whole hours whose counts of events (or `chains`) are up to date,
    as (from, until); an empty one at its end if there is none.
    """
    notes, counts = ("stale_chains", "hourly_chains") if chains else ("stale_hours", "hourly")
    told = cursor.execute(STALE.format(notes=notes, counts=counts), {"hour": HOUR}).fetchall()
    stale = {hour for hour, changed in told if changed}
    counted = next(hour for hour, changed in told if not changed) or 0
    return [_longest(start, until, stale, counted) for start, until in spans]


def _longest(start: int, until: int, stale: set[int], counted: int) -> tuple[int, int]:
    low, high = -(-start // HOUR) * HOUR, min(until // HOUR * HOUR, counted)
    if low >= high:
        return until, until
    ends = (low - HOUR, *sorted(hour for hour in stale if low <= hour < high), high)
    return max(((before + HOUR, after) for before, after in pairwise(ends)), key=lambda run: run[1] - run[0])


def _run(cursor: duckdb.DuckDBPyConnection, statement: str, given: dict[str, Any]) -> None:
    cursor.execute(statement, used(statement, given))


def _newest_gone(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether the event noted as a service's newest is gone: it was removed, or its time changed."""
    [[gone]] = cursor.execute("select (select count(*) from services) > (select count(*) from found)").fetchall()
    return bool(gone)


def forget(cursor: duckdb.DuckDBPyConnection) -> None:
    """Empties the derived tables and notes every session and hour as changed, so that all is computed again."""
    for table in (*OF_SESSIONS, "changed"):
        cursor.execute(f"delete from {table}")
    cursor.execute(
        "insert into changed (project, service, session, time_ns)"
        " select project, service, session, min(time_ns) from events group by all"
    )
    for table in HOURS:
        cursor.execute(f"delete from {table}")
    cursor.execute("insert into stale_hours select distinct time_ns - time_ns % ? from events", [HOUR])


def slices(cursor: duckdb.DuckDBPyConnection, most: int) -> list[Slice]:
    """All sessions in parts of about `most`, ordered by their beginning, for `compute` after `forget`."""
    return [Slice(*row) for row in cursor.execute(SLICES, [most]).fetchall()]
