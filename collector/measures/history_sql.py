"""The SQL of `history`: the value of each measure at many past evaluations.

An event counts from the first evaluation after it until it leaves the window. In between it changes when later events
show that it was retried, or how its retry chain ended. So each event adds a rise where it enters and a fall where it
leaves, and the running total of these is the value at every evaluation. No evaluation uses later events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from collector.measures.families import COUNTED, DISTINCT, FAILING, GONE, SHARES, needs_chains, returned, silence_start
from collector.query.filters import Selection
from collector.query.retries import AS_OF_END, EVENTS, judged
from collector.query.statement import load
from collector.query.streaks import Scope, key_of, streak_steps
from collector.streak_rules import IDLE_NS, WINDOW_NS
from collector.times import DAY, LONGEST

QUANTILE = "quantile_cont(duration_ms, 0.95) as value, count(duration_ms) as calls"
NEWEST = """any_value({at} - newest_ns) / 1e9 as value, count(*) filter (time_ns >= {since}) as calls"""


@dataclass(frozen=True, slots=True)
class Evaluations:
    """`count` times at which a rule is evaluated: `first_ns`, then every `step_ns`."""

    first_ns: int
    step_ns: int
    count: int

    def at(self, number: int) -> int:
        """The time of an evaluation."""
        return self.first_ns + number * self.step_ns

    def after(self, expression: str) -> str:
        """The number of the first evaluation after a time, as SQL."""
        number = f"({expression} - {self.first_ns}) // {self.step_ns} + 1"
        return f"case when {expression} < {self.first_ns} then 0 else {number} end"

    def shifted(self, by_ns: int) -> Evaluations:
        """The same evaluations, `by_ns` earlier."""
        return replace(self, first_ns=self.first_ns - by_ns)


@dataclass(frozen=True, slots=True)
class WindowedMeasure:
    """What a rule measures: `measure` of the selected events, per label set, over the window before each evaluation."""

    selection: Selection
    measure: str
    by: tuple[str, ...]
    evaluations: Evaluations
    window_ns: int

    @property
    def keys(self) -> str:
        return "".join(f'"{name}", ' for name in self.by)

    def over(self, order: str, *more: str) -> str:
        """An SQL window over one label set (and the columns `more`) in this order."""
        names = ", ".join((*(f'"{name}"' for name in self.by), *more))
        return f"({f'partition by {names}' if names else ''} order by {order})"


def statement(asked: WindowedMeasure) -> str:
    """Rows of `number, there, value, calls` where one of them changes, for each label set.

    For the measure `streak`, rows of `number, length, open, known`: the changes in the numbers of streaks.
    """
    chains = needs_chains(asked.measure, asked.selection, asked.by)
    if asked.measure == "silent":
        return _looks(asked, GONE, NEWEST) if chains else _silences(asked)
    if asked.measure == "p95_ms":
        return _looks(asked, asked.window_ns, QUANTILE) if chains else _quantiles(asked)
    if asked.measure in ("streak", "streaks"):
        return _runs(asked, _known_of_first(asked) if chains else "")
    spans = _chains(asked, asked.window_ns) if chains else _events(asked)
    if asked.measure in DISTINCT:
        return _distinct(asked, spans)
    if asked.measure == "failing_sessions":
        return _sessions(asked, spans)
    part, whole = SHARES.get(asked.measure, (COUNTED.get(asked.measure, ""), ""))
    rated = asked.selection.rated()
    part, whole = part.replace("{rated}", rated), whole.replace("{rated}", rated)
    counted = f"""select {asked.keys}enter_ns, leave_ns, coalesce({part}, false)::int as part,
      {f"coalesce({whole}, false)::int" if whole else "1"} as calls
      from ({spans}) where {asked.selection.condition()}"""
    return _totals(asked, _changes(asked, counted), "part / nullif(calls, 0)::double" if whole else "part")


def _events(asked: WindowedMeasure) -> str:
    """Every event, with the times at which it enters and leaves the window."""
    return f"""select *, time_ns as enter_ns, time_ns + {asked.window_ns} as leave_ns from events
      where time_ns >= $start_ns and time_ns < $until_ns"""


def _chains(asked: WindowedMeasure, kept_ns: int, events: str = EVENTS, since: str = "$start_ns") -> str:
    """Every event once for each state of its retry chain, with the times between which it counts in this state.

    `since` bounds the events that show that the half hour of a chain is over.
    """
    chains = judged(asked.selection, events, kept=", next_ns, ok.time_ns as ok_ns, heard_ns", known_by=AS_OF_END)
    return load("versions").format(judged=chains, kept=kept_ns, chain=WINDOW_NS, idle=IDLE_NS, since=since)


def _changes(asked: WindowedMeasure, spans: str) -> str:
    """The changes in the number of events, in `part` and in `calls` at each evaluation."""
    after = asked.evaluations.after
    return f"""with spans as ({spans})
      select {asked.keys}{after("enter_ns")} as number, count(*) as events, sum(part) as part, sum(calls) as calls
      from spans group by all
      union all
      select {asked.keys}{after("leave_ns")}, -count(*), -sum(part), -sum(calls) from spans group by all"""


def _totals(asked: WindowedMeasure, changes: str, value: str) -> str:
    """The running totals of changes."""
    return f"""select {asked.keys}number, events > 0 as there, {value} as value, calls::bigint as calls from (
      select {asked.keys}number, sum(events) over whole as events, sum(part) over whole as part,
        sum(calls) over whole as calls
      from (
        select {asked.keys}number, sum(events) as events, sum(part) as part, sum(calls) as calls
        from ({changes}) group by all having sum(events) <> 0 or sum(part) <> 0 or sum(calls) <> 0)
      window whole as {asked.over("number")})"""


def _distinct(asked: WindowedMeasure, spans: str) -> str:
    """The number of distinct sessions or groups: each counts while at least one of its events does."""
    after, keys = asked.evaluations.after, asked.keys
    begins, ends, counted = "enter_ns", "leave_ns", "spans"
    if asked.measure == "new_groups":
        # While the window begins more than a day after the service's first event, and contains the group's first event.
        begins, ends = (
            f"greatest(enter_ns, whose_ns + {asked.window_ns + DAY})",
            f"least(leave_ns, born_ns + {asked.window_ns})",
        )
        counted = """spans
          join (select fingerprint as thing, min(time_ns) as born_ns from events group by all) using (thing)
          join (select hash(project, service) as whose, min(time_ns) as whose_ns from events group by all)
            using (whose)"""
    if asked.measure == "regressed_groups":  # while the window contains the event with which the group came back
        begins, ends = "greatest(enter_ns, returned_ns)", f"least(leave_ns, returned_ns + {asked.window_ns})"
        counted = f"spans join (select fingerprint as thing, returned_ns from ({returned()})) using (thing)"
    return _totals(
        asked,
        f"""
      with spans as (
        select {keys}{DISTINCT[asked.measure]} as thing, hash(project, service) as whose, enter_ns, leave_ns
        from ({spans}) where {asked.selection.condition()}
      ),
      lives as (
        select {keys}thing, {after(begins)} as begins, {after(ends)} as ends from {counted}
        where thing is not null and {begins} < {ends}
      ),
      held as (
        select {keys}thing, number, (sum(held) over {asked.over("number", "thing")} > 0)::int as held
        from (
          select {keys}thing, number, sum(held) as held from (
            select {keys}thing, begins as number, 1 as held from lives where begins < ends
            union all
            select {keys}thing, ends, -1 from lives where begins < ends)
          group by all)
      )
      select {keys}number, 0 as events, held - coalesce(lag(held) over {asked.over("number", "thing")}, 0) as part,
        0 as calls
      from held
      union all select {keys}{after("enter_ns")}, count(*), 0, count(*) from spans group by all
      union all select {keys}{after("leave_ns")}, -count(*), 0, -count(*) from spans group by all""",
        "part",
    )


def _sessions(asked: WindowedMeasure, spans: str) -> str:
    """The share of the sessions with calls in the window in which more than half of the calls fail."""
    after, keys = asked.evaluations.after, asked.keys
    own = asked.over("number", "whose")
    whose = FAILING.replace("{rated}", asked.selection.rated())
    changes = f"""
      with spans as (
        select {keys}{whose} as whose, (outcome = 'error')::int as error, {after("enter_ns")} as enters,
          {after("leave_ns")} as leaves
        from ({spans}) where {asked.selection.condition()} and {whose} is not null
      ),
      totals as (
        select {keys}whose, number, sum(calls) over {own} as calls, sum(errors) over {own} as errors
        from (
          select {keys}whose, number, sum(calls) as calls, sum(errors) as errors from (
            select {keys}whose, enters as number, 1 as calls, error as errors from spans
            union all
            select {keys}whose, leaves, -1, -error from spans)
          group by all)
      ),
      known as (select {keys}whose, number, (calls > 0)::int as there, (2 * errors > calls)::int as failing from totals)
      select {keys}number, there - coalesce(lag(there) over {own}, 0) as events,
        failing - coalesce(lag(failing) over {own}, 0) as part, there - coalesce(lag(there) over {own}, 0) as calls
      from known"""
    return _totals(asked, changes, "part / nullif(calls, 0)::double")


def _quantiles(asked: WindowedMeasure) -> str:
    """The 95th percentile of durations, computed wherever an event enters or leaves the window."""
    after, keys, grid = asked.evaluations.after, asked.keys, asked.evaluations
    # An evaluation comes before the events of its own time, which stand one later.
    window = asked.over(f"until_ns range between {asked.window_ns - 1} preceding and current row")
    return f"""with heard as (
        select {keys}time_ns, duration_ms, 1 as event from events where {asked.selection.where()}
      ),
      looks as (
        select {keys}{after("time_ns")} as number from heard union
        select {keys}{after(f"(time_ns + {asked.window_ns})")} from heard
      )
      select {keys}number, count(event) over seen > 0 as there, quantile_cont(duration_ms, 0.95) over seen as value,
        count(duration_ms) over seen as calls
      from (
        select {keys}time_ns + 1 as until_ns, duration_ms, event, null as number from heard union all
        select {keys}{grid.first_ns} + number * {grid.step_ns}, null, null, number from looks
          where number < {grid.count})
      window seen as {window}
      qualify number is not null"""


def _looks(asked: WindowedMeasure, kept_ns: int, answer: str) -> str:
    """`answer` over the events that count, computed wherever one enters, changes, or leaves the window."""
    after, keys, grid = asked.evaluations.after, asked.keys, asked.evaluations
    same = "".join(f'and spans."{name}" is not distinct from looks."{name}" ' for name in asked.by)
    listed = "".join(f'looks."{name}", ' for name in asked.by)
    at, since = f"({grid.first_ns} + number * {grid.step_ns})", silence_start("newest_ns", asked.window_ns)
    return f"""with spans as (
        select {keys}time_ns, duration_ms, {after("enter_ns")} as enters, {after("leave_ns")} as leaves
        from ({_chains(asked, kept_ns)}) where {asked.selection.condition()}
      ),
      looks as (select {keys}enters as number from spans union select {keys}leaves from spans),
      seen as (
        select {listed}number, time_ns, duration_ms, max(time_ns) over (partition by {listed}number) as newest_ns
        from looks left join spans on enters <= number and number < leaves {same}
      )
      select {keys}number, count(time_ns) > 0 as there, {answer.format(at=at, since=since)}
      from seen group by all"""


def _silences(asked: WindowedMeasure) -> str:
    """The seconds since the newest event, from each event on, until its sender is considered gone."""
    after, keys, grid = asked.evaluations.after, asked.keys, asked.evaluations
    since = silence_start("time_ns", asked.window_ns)
    whose = f"hash({keys}true)"
    return f"""with heard as (
        select {keys}{whose} as whose, time_ns, lead(time_ns) over {asked.over("time_ns")} as next_ns,
          count(*) over {asked.over("time_ns")} as so_far, {since} as since_ns
        from events where {asked.selection.where()}
      ),
      spans as (
        select heard.*, heard.so_far - coalesce(earlier.so_far, 0) as calls, {after("heard.time_ns")} as enters,
          {after("heard.next_ns")} as followed, {after(f"(heard.time_ns + {GONE})")} as gone
        from heard asof left join (select distinct whose, time_ns, so_far from heard) as earlier
          on heard.whose = earlier.whose and heard.since_ns > earlier.time_ns
      )
      select {keys}enters as number, true as there,
        ({grid.first_ns} + enters * {grid.step_ns} - time_ns) / 1e9 as value, calls
      from spans where enters < least(followed, gone)
      union all
      select {keys}gone, false, null, 0 from spans where enters < gone and (followed is null or gone < followed)"""


def _known_of_first(asked: WindowedMeasure) -> str:
    """The times between which the rule selects each event, given what was known of its retry chain.

    A rule selects a streak by the mistake that begins it.
    """
    sessions = "select session from events where time_ns >= $start_ns and time_ns < $until_ns"
    events = f"select * from events where session in ({sessions}) and time_ns < $until_ns"  # streaks may begin earlier
    names = "".join(f', "{name}" as "first_{name}"' for name in asked.by)
    return f"""select event_id as known_id, enter_ns as known_ns, leave_ns as forgotten_ns{names}
      from ({_chains(asked, LONGEST, events, since="0")}) where {asked.selection.condition()}"""


def _runs(asked: WindowedMeasure, known: str) -> str:
    """Streaks: for `streak` the changes in the numbers of each length, for `streaks` totals of those at the limit.

    `known` is the SQL of `_known_of_first`, if the selection depends on retry chains.
    """
    after, scope = asked.evaluations.after, Scope()
    named = ["event_id"] if known else asked.by
    names = [f'"first_{name}"' for name in asked.by]
    selection = replace(asked.selection, terms=()) if known else asked.selection
    versions = load("streak_versions").format(
        steps=streak_steps(selection, scope),
        idle=IDLE_NS,
        key=key_of(scope),
        limit=scope.limit,
        kept=asked.window_ns,
        firsts="".join(f', first_value("{name}") over run as "first_{name}"' for name in named),
        answered="".join(f', "first_{name}"' for name in named),
    )
    if known:
        versions = f"""select length, limit_reached, closed_ns, greatest(enter_ns, known_ns) as enter_ns,
            least(leave_ns, forgotten_ns) as leave_ns{"".join(f", {name}" for name in names)}
          from ({versions}) join ({known}) on first_event_id = known_id
          where greatest(enter_ns, known_ns) < least(leave_ns, forgotten_ns)"""
    keys = "".join(f'{first} as "{name}", ' for first, name in zip(names, asked.by, strict=True))
    if asked.measure == "streaks":
        spans = f"select {keys}enter_ns, leave_ns, limit_reached::int as part, length as calls from ({versions})"
        return _totals(asked, _changes(asked, spans), "part")
    return f"""with spans as (
        select {keys}length, {after("enter_ns")} as enters, {after("leave_ns")} as leaves,
          {after("greatest(enter_ns, least(leave_ns, closed_ns))")} as closes
        from ({versions})
      )
      select {asked.keys}number, length, sum(open)::bigint as open, sum(known)::bigint as known from (
        select {asked.keys}enters as number, length, 1 as open, 1 as known from spans
        union all select {asked.keys}closes, length, -1, 0 from spans
        union all select {asked.keys}leaves, length, 0, -1 from spans)
      group by all having sum(open) <> 0 or sum(known) <> 0"""
