"""Runs of mistakes: streaks in three scopes and three kinds, their hazard by length, and the limit simulator.

A filter chooses streaks by their first event and never changes what belongs to one; the time range applies to the
last event. Whatever belongs to a streak is read, however long before or after the range it happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from collector.query.filters import DIMENSIONS, Selection
from collector.query.hours import counted
from collector.query.retries import AS_OF_END, beyond, chains, judged
from collector.query.statement import Statement, load, order_by, rates, share, wilson
from collector.streak_rules import ACTED_ON, IDLE_NS, LAST

SCOPES = {"session": (), "tool": ("tool",), "target": ("tool", ACTED_ON)}
KINDS = {
    "mistake": "outcome = 'error' and coalesce(mistake, false)",
    "error": "outcome = 'error'",
    "denied": "outcome = 'denied'",
}
STATES = ("open", "recovered", "ended")
LIMITS = {"session": 3, "tool": 3, "target": 2}

COLUMNS = (
    "project", "service", "session", "subagent", "tool", "target", "scope", "kind", "length", "started", "ended",
    "state", "limit_reached", "limit_times", "classes", "tools", "source", "can_recover", "agent", "model",
    "first_event_id", "last_event_id",
)  # fmt: skip
ORDER = ("from_sequence", "to_sequence")  # where first and last event stand among others of the same time
KEYS = ("project", "service", "session", "subagent")  # the same in all events of a streak
FIRSTS = [each.name for each in DIMENSIONS if each.name not in (*KEYS, "recovered")]
LISTS = ("limit_reached", "limit_times", "classes", "tools")  # what is read from lists, which is most of what a row is
AGENTS_COLUMNS = ("reported_streak", "agent_stopped")
# What an agent says of its own streak: a count on a failed call, or an event of the state category.
SAID = "(reported_streak is not null or coalesce(category = 'state', false))"
LIMIT_COLUMNS = (
    "sessions", "interrupted", "rated", "recovered", "not_known_yet", "recovery_rate", "low", "high", "mistakes_saved",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """Which runs count as streaks: the scope, the kind, and how many in a row reach the limit."""

    scope: str = "session"
    kind: str = "mistake"
    mistake_limit: int | None = None

    @property
    def limit(self) -> int:
        return self.mistake_limit or LIMITS[self.scope]


def streak_sql(selection: Selection, asked: Scope, firsts: Sequence[str] = (), newest: str = "kept_newest") -> str:
    """Every streak that the selection chooses, as SQL with the columns of `COLUMNS`, times in nanoseconds.

    Each dimension of `firsts` is added as `first_…`: its value in the streak's first event. Read from what the store
    keeps up (schemas/kept.sql). `newest`: a relation with the time of each service's newest event.
    """
    columns = beyond(selection, firsts)
    more = "".join(f", {column}" for column in columns)
    joined = f"join (select event_id, {', '.join(columns)} from events) on event_id = first_event_id" if columns else ""
    if selection.uses("recovered") or "recovered" in firsts:
        every = chains(Selection(0, 0, failure_only=selection.failure_only))
        more += ", recovered"
        joined += f" left join (select event_id as error_id, recovered from ({every})) on error_id = first_event_id"
    return load("kept_streaks").format(
        dimensions=", ".join(f"first_{name} as {name}" for name in FIRSTS),
        more=more,
        joined=joined,
        scope=asked.scope,
        kind=asked.kind,
        kinds=f"'{asked.kind}'" if asked.kind == "denied" else f"'{asked.kind}', 'both'",
        limit=asked.limit,
        chosen=selection.condition(),
        rated=selection.rated(),
        firsts="".join(f', "{name}" as "first_{name}"' for name in firsts),
        newest=newest,
        idle=IDLE_NS,
        start=selection.start,
        until=selection.until,
    )


def streaks_then(selection: Selection, asked: Scope, firsts: Sequence[str]) -> str:
    """The same if nothing after the range is known: what an alert would have seen at that time. `recovered` is not
    among `firsts`.
    """
    kept = streak_sql(selection, asked, firsts, newest="newest")
    computed = streaks_from_events(selection, asked, firsts, among="fresh")
    columns = ", ".join([*COLUMNS, *(f'"first_{name}"' for name in firsts)])
    return load("streaks_then").format(
        kept=f"select {columns} from ({kept})", computed=f"select {columns} from ({computed})"
    )


def streaks_from_events(selection: Selection, asked: Scope, firsts: Sequence[str], *, among: str = "") -> str:
    """The same as `streaks_then` from the events alone, also with `recovered`. `among`: a relation with the sessions to
    read, if not all.
    """
    return load("streaks").format(
        steps=streak_steps(selection, asked, judging="recovered" in firsts, among=among),
        idle=IDLE_NS,
        key=key_of(asked),
        firsts="".join(f', arg_min_null("{name}", place) as "first_{name}"' for name in firsts),
        scope=asked.scope,
        kind=asked.kind,
        limit=asked.limit,
        rated=selection.rated(),
    )


def streak_steps(selection: Selection, asked: Scope, *, judging: bool = False, among: str = "") -> str:
    """The relations of sql/streak_steps.sql, for a WITH: of these `counted` has the events of streaks."""
    counts = KINDS[asked.kind]
    touched = f"operation = 'tool' and session is not null and {counts}"
    joined = f"""semi join {among}
      on {among}.session = events.session and {among}.service is not distinct from events.service
        and {among}.project is not distinct from events.project"""
    theirs = """from events as theirs semi join touched
      on theirs.session = touched.session and theirs.service is not distinct from touched.service
        and theirs.project is not distinct from touched.project"""
    # Where they begin is found in three columns, so that the rest is read from there on alone.
    events = f"""select theirs.* {theirs}
      where time_ns < $until_ns and theirs.time_ns >= (select min(theirs.time_ns) {theirs})"""
    whole = judged(selection, events, known_by=AS_OF_END)
    return load("streak_steps").format(
        among=joined if among else "",
        touched=f"{touched} and time_ns >= $start_ns and time_ns < $until_ns",
        events=f"({whole if judging or selection.uses('recovered') else events})",
        idle=IDLE_NS,
        counts=counts,
        chosen=selection.condition(),
        key=key_of(asked),
        known=" and ".join(["true", *(f"{name} is not null" for name in SCOPES[asked.scope])]),
        # Roo Code's own count falls when it has asked the person; in narrower scopes it also falls for other tools'
        # sake.
        fell="coalesce(reported_streak < lag(reported_streak ignore nulls) over streak, false)"
        if asked.scope == "session"
        else "false",
    )


def key_of(asked: Scope) -> str:
    """The columns that say whose streak it is."""
    return ", ".join(("project", "service", "session", "subagent", *SCOPES[asked.scope]))


def streaks(
    selection: Selection,
    asked: Scope,
    *,
    min_length: int = 1,
    state: str | None = None,
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Statement:
    """The streaks themselves, newest first, with what the agent itself said of them."""
    narrowed = f"state = '{state}'" if state in STATES else "true"
    every = streak_sql(selection, asked)
    order = order_by(sort or ["-ended"], (*COLUMNS, *AGENTS_COLUMNS), ("last_event_id",))
    wide = {word.removeprefix("-") for word in sort} & {*LISTS, *AGENTS_COLUMNS}
    sql = load("agents_said").format(
        page=f"select first_event_id, ended from ({every}) where length >= $min_length and {narrowed}"
        + ("" if wide else f" order by {order} limit {limit + 1}"),
        columns=", ".join((*COLUMNS, *ORDER)),
        order=", ".join(ORDER),
        streaks=every,
        said=SAID,
        idle=IDLE_NS,
        last=LAST,
    )
    params = selection.params() | {"min_length": min_length}
    return Statement(sql, params, order, limit, ("started", "ended"), of_kept=True, of_clock=True)


def summary(
    selection: Selection, asked: Scope, sort: Sequence[str] = (), limit: int = 100, *, previous: bool = False
) -> Statement:
    """Per length: streaks that reached it, of these those that went on (hazard), recovered, are open, or ended."""
    columns = ("streaks", "reached_next", "hazard", "low", "high", *STATES)
    empty = dict.fromkeys(("streaks", "reached_next", *STATES), "0")
    written = partial(_summary, asked=asked)
    return rates(selection, written, ["length"], columns, empty, previous=previous, sort=sort, limit=limit)


def _summary(selection: Selection, asked: Scope) -> str:
    low, high = wilson("reached_next", "streaks")
    return f"""select length, streaks, reached_next, {share("reached_next", "streaks")} as hazard,
        {low} as low, {high} as high, recovered, open, ended
      from (
        select reached as length, count(*) as streaks, count(*) filter (length > reached) as reached_next,
          {", ".join(f"count(*) filter (state = '{state}') as {state}" for state in STATES)}
        from ({streak_sql(selection, asked)}), unnest(range(1, length + 1)) as steps(reached)
        group by reached)"""


def limits(
    selection: Selection,
    asked: Scope,
    by: Sequence[str],
    sort: Sequence[str] = (),
    limit: int = 1000,
    *,
    previous: bool = False,
) -> Statement:
    """Per limit: sessions it would have interrupted, those whose streaks all recovered, mistakes saved.

    Those that recovered, their rate, and those of which that is not known yet are of the sessions whose sources also
    report successes (`rated`).
    """
    columns = ("sessions", "interrupted", "rated", "recovered", "not_known_yet", "mistakes_saved")
    empty = dict.fromkeys(columns, "0")
    keys = (*by, "mistake_limit")
    written = partial(_limits, asked=asked, by=by)
    return rates(selection, written, keys, LIMIT_COLUMNS, empty, previous=previous, sort=sort, limit=limit)


def _limits(selection: Selection, asked: Scope, by: Sequence[str]) -> str:
    low, high = wilson("recovered", "rated")
    keys = [f'"{name}"' for name in by]
    return load("limits").format(
        keys="".join(f"{key}, " for key in keys),
        kind=f"hash({', '.join(keys)})" if keys else "0",
        firsts="".join(f'"first_{name}" as "{name}", ' for name in by),
        streaks=streak_sql(selection, asked, by),
        where=selection.where(),
        start=selection.start,
        source=counted(selection, [*by, "operation", "session"]).source,
        rate=share("recovered", "rated"),
        low=low,
        high=high,
    )
