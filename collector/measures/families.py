"""What alert rules compare with a threshold: one value per label set, as known at the end of the window.

Planning a statement costs more than counting an hour of events. So queries with the same dimensions and window form a
family, which is answered by one statement, in which each query filters its own aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from collector.engine import Reads
from collector.engine.duckdb.derive import COUNTED as HOURLY
from collector.measures.measure import Sample
from collector.query.breakdowns import SESSION
from collector.query.filters import BY_NAME, Selection, Term
from collector.query.group_marks import tells
from collector.query.groups import SILENCE
from collector.query.hours import OF_ALL, counted, ever
from collector.query.retries import AS_OF_END, EVENTS, judged
from collector.query.statement import load, share
from collector.query.streaks import Scope, streaks_from_events, streaks_then
from collector.times import DAY, HOUR, MINUTE, WEEK

MOST = 5_000  # label sets of a query: those of all sessions of an hour, 700,000 at 5,000 events/s, would take 1 GB
FEW_VALUED = {*HOURLY[OF_ALL], "recovered"}  # dimensions with few values
GONE = WEEK  # a sender that is silent for longer is considered gone

# The condition of the part, and of the events of which it is a share.
SHARES = {
    "error_rate": ("outcome = 'error' and {rated}", "outcome in ('ok', 'error') and {rated}"),
    "recovery_rate": ("recovered", "retried and {rated}"),
    "unclassified_rate": ("outcome = 'error' and error_class = 'UnknownError'", "outcome = 'error'"),
}
COUNTED = {"errors": "outcome = 'error'", "calls": "true", "retries": "retried"}
DISTINCT = {"sessions": SESSION, "new_groups": "fingerprint", "regressed_groups": "fingerprint"}

# The session of an event, if it counts for `failing_sessions`: the share of sessions in which more than half of the
# calls fail. It is high if a tool is broken for everybody, and low if one agent uses it badly.
FAILING = (
    "case when session is not null and outcome in ('ok', 'error') and {rated} then hash(project, service, session) end"
)

# The groups that these measures count. On a service's first day all groups would be new, so these are left out.
GROUPS = {
    "new_groups": f"""(fingerprint, coalesce(service, '')) in (select (fingerprint, service) from {{relation}}
      where born_ns >= $start_ns and whose_ns < $start_ns - {DAY})""",
    "regressed_groups": "fingerprint in (select fingerprint from {relation} where returned_ns >= $start_ns)",
}

KINDS = {"failing_sessions": "sessions", "streak": "streaks", "streaks": "streaks", "silent": "silence"}


# What an agent's own file told of calls long over is history: it sets off no alert.
LIVE = f"(provenance is null or received_ns - time_ns <= {10 * MINUTE})"


class First(NamedTuple):
    """Which label sets come first: those with at least `calls`, and of these those with the largest value, or with
    `low` the smallest.
    """

    calls: int
    low: bool


@dataclass(frozen=True, slots=True)
class MeasureQuery:
    """A measure of the events with `start_ns` ≤ time < `end_ns` that meet all terms, for each label set of `by`.

    With `first`, only for the `MOST` label sets that come first.
    """

    measure: str
    terms: tuple[Term, ...]
    by: tuple[str, ...]
    start_ns: int
    end_ns: int
    first: First | None = None

    @property
    def kind(self) -> str:
        """Which of `STATEMENTS` answers it."""
        return KINDS.get(self.measure, "events")

    @property
    def window(self) -> Selection:
        """The events that it reads."""
        start_ns = max(0, self.end_ns - GONE) if self.measure == "silent" else self.start_ns
        return Selection(start_ns, self.end_ns, self.terms, clock_ns=self.end_ns)

    @property
    def chains(self) -> bool:
        """Whether it needs the outcomes of retry chains."""
        return needs_chains(self.measure, self.window, self.by)

    @property
    def family(self) -> tuple[object, ...]:
        """Questions with the same family can be answered by one statement."""
        shared = (self.kind, self.by, self.window.start_ns, self.end_ns)
        if self.kind == "silence":
            return (*shared, self.chains, counted(self.window, self.by).table)
        return (*shared, self.chains) if self.kind == "streaks" else shared


def nearest(query: MeasureQuery, first: First) -> MeasureQuery:
    """The query with `first` if there may be very many label sets, such as sessions."""
    return query if FEW_VALUED.issuperset(query.by) else replace(query, first=first)


# Returns where to read one of `RELATIONS` for a window: SQL, or the name of a table that holds it.
Relation = Callable[[str, Selection], str]


def measure_family(
    store: Reads,
    queries: Sequence[MeasureQuery],
    failure_only: Sequence[str] = (),
    relation: Relation = lambda name, window: f"({RELATIONS[name](window)})",
) -> list[list[Sample]]:
    """For each query of one family, one sample per label set with events in its window; exactly one without `by`.

    `errors`, `calls`, `sessions` count what `where` selects, `retries` the retried errors among it. `streak` is the
    length of the longest open mistake streak, 0 if none is open; `streaks` counts those that reached the limit.
    `new_groups` counts groups never seen before, of services first seen more than a day before the window;
    `regressed_groups` counts groups that came back. `silent` is the seconds since the last event, of senders with one
    in the last week. Rates leave out the sources of `failure_only`, and are None without events.
    """
    asked, sql, params = _written(queries, failure_only, relation)
    rows = store.rows(sql, params)
    return [[_sample(row, one) for row in rows if not one.query.by or row[f"there_{one.place}"]] for one in asked]


def relations(queries: Sequence[MeasureQuery]) -> set[str]:
    """Those of `RELATIONS` that the statement of a family reads."""
    named: set[str] = set()

    def noted(name: str, _: Selection) -> str:
        named.add(name)
        return name

    _written(queries, (), noted)
    return named


def _written(
    queries: Sequence[MeasureQuery], failure_only: Sequence[str], relation: Relation
) -> tuple[list[_Placed], str, dict[str, object]]:
    """The queries of a family at their places, and the statement that answers them with its parameters."""
    window = replace(queries[0].window, terms=(), failure_only=tuple(failure_only))
    marks = {terms: f"w{place}_" for place, terms in enumerate(dict.fromkeys(one.terms for one in queries))}
    wheres = {
        terms: replace(window, terms=tuple(replace(term, mark=mark) for term in terms)) for terms, mark in marks.items()
    }
    asked = [_Placed(place, one, wheres[one.terms].condition()) for place, one in enumerate(queries)]
    params = window.params()
    for where in wheres.values():
        params |= where.params()
    return asked, _only_first(asked, STATEMENTS[queries[0].kind](asked, window, relation)), params


@dataclass(frozen=True, slots=True)
class _Placed:
    """A query, its place in a statement, and the condition of the events that it selects, as SQL (`here`)."""

    place: int
    query: MeasureQuery
    here: str

    def over(self, aggregate: str, condition: str = "true") -> str:
        """The aggregate of those events that it selects and that meet the condition."""
        return f"{aggregate} filter ({self.here} and ({condition}))"

    def order(self, first: First) -> str:
        """The order of its label sets."""
        there = f"there_{self.place}::boolean and calls_{self.place} >= {first.calls}"
        return f"({there}) desc, value_{self.place} {'asc' if first.low else 'desc'} nulls last"

    def answers(self, value: str, calls: str, there: str) -> str:
        """The columns of its answer."""
        return f"{value} as value_{self.place}, {calls} as calls_{self.place}, {there} as there_{self.place}"


def _only_first(asked: Sequence[_Placed], sql: str) -> str:
    """The statement without the label sets that come first for none of the queries; all if one of them needs all."""
    orders = [one.order(one.query.first) for one in asked if one.query.first]
    if len(orders) < len(asked):
        return sql
    keys = ", ".join(f'"{name}"' for name in asked[0].query.by)
    ranked = " or ".join(f"row_number() over (order by {order}, {keys}) <= {MOST}" for order in orders)
    return f"select * from ({sql}) qualify {ranked}"


def _sample(row: Mapping[str, object], asked: _Placed) -> Sample:
    value, calls = row[f"value_{asked.place}"], row[f"calls_{asked.place}"]
    return Sample(
        {name: label(row[name]) for name in asked.query.by},
        None if value is None else float(str(value)),
        int(str(calls or 0)),
    )


def label(value: object) -> str:
    """The value of a label for a value of a dimension."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _over_events(asked: Sequence[_Placed], window: Selection, relation: Relation) -> str:
    keys, group = _keys(asked)
    answers = ", ".join(one.answers(*_aggregates(one, window), one.over("count(*)")) for one in asked)
    return f"select {keys}{answers} from {_source(asked, window, relation)} {group}"


def _aggregates(asked: _Placed, window: Selection) -> tuple[str, str]:
    """The SQL of the measure, and of the number of events that it is computed from."""
    measure = asked.query.measure
    if measure in SHARES:
        part, whole = (asked.over("count(*)", text.replace("{rated}", window.rated())) for text in SHARES[measure])
        return share(part, whole), whole
    if measure == "p95_ms":
        return asked.over("quantile_cont(duration_ms, 0.95)"), asked.over("count(duration_ms)")
    if measure in DISTINCT:
        counts = f"of_{measure}" if measure in GROUPS else "true"
        return asked.over(f"count(distinct {DISTINCT[measure]})", counts), asked.over("count(*)")
    return asked.over("count(*)", COUNTED[measure]), asked.over("count(*)")


def _over_sessions(asked: Sequence[_Placed], window: Selection, relation: Relation) -> str:
    keys, group = _keys(asked)
    kinds = [("of", "true"), ("errors", "outcome = 'error'")]
    counts = ", ".join(f"{one.over('count(*)', what)} as {name}_{one.place}" for one in asked for name, what in kinds)
    answers = []
    for one in asked:
        sessions = f"count(*) filter (of_{one.place} > 0)"
        failing = f"count(*) filter (2 * errors_{one.place} > of_{one.place})"
        answers.append(one.answers(share(failing, sessions), sessions, sessions))
    whose = FAILING.replace("{rated}", window.rated())
    return f"""select {keys}{", ".join(answers)} from (
        select {keys}whose, {counts} from (select *, {whose} as whose from {_source(asked, window, relation)})
        where whose is not null group by all) {group}"""


def _over_streaks(asked: Sequence[_Placed], window: Selection, relation: Relation) -> str:
    keys, group = _keys(asked)
    values = {"streak": ("max(length)", "state = 'open'"), "streaks": ("count(*)", "limit_reached")}
    answers = ", ".join(
        one.answers(
            f"coalesce({one.over(*values[one.query.measure])}, 0)",
            f"coalesce({one.over('sum(length)')}, 0)",
            one.over("count(*)"),
        )
        for one in asked
    )
    runs = relation("judged_runs" if asked[0].query.chains else "runs", window)
    return f"select {keys}{answers} from {runs} where ended >= $start_ns {group}"


def _silence(asked: Sequence[_Placed], window: Selection, relation: Relation) -> str:
    by = asked[0].query.by
    rows = counted(replace(window, terms=tuple(term for one in asked for term in one.query.terms)), by)
    keys, group = _keys(asked)
    mine = f"partition by {keys.removesuffix(', ')}" if by else ""
    told = [(rows.count(one.here), rows.last(one.here), one.place) for one in asked]
    return load("silence").format(
        keys=keys,
        group=group,
        hour=HOUR,
        where=_where(asked),
        counted=rows.source,
        told=", ".join(f"{count} as count_{place}, {last} as last_{place}" for count, last, place in told),
        newest=", ".join(f"max(last_{one.place}) over ({mine}) as newest_{one.place}" for one in asked),
        answers=", ".join(
            one.answers(
                f"($until_ns - any_value(newest_{one.place})) / 1e9",
                f"sum(count_{one.place}) filter (hour >= {_heard_since(one)})",
                f"any_value(newest_{one.place}) is not null",
            )
            for one in asked
        ),
    )


def _heard_since(asked: _Placed) -> str:
    return silence_start(f"newest_{asked.place}", asked.query.end_ns - asked.query.start_ns)


def silence_start(newest: str, window_ns: int) -> str:
    """From when on the events before a silence count whose last event was at this time, as SQL: the beginning of the
    hour in which a window begins that ends with it.
    """
    first = f"({newest} - {window_ns - 1})"
    return f"({first} - {first} % {HOUR})"


_Writes = Callable[[Sequence[_Placed], Selection, Relation], str]
STATEMENTS: Mapping[str, _Writes] = {
    "events": _over_events,
    "sessions": _over_sessions,
    "streaks": _over_streaks,
    "silence": _silence,
}


def _keys(asked: Sequence[_Placed]) -> tuple[str, str]:
    by = asked[0].query.by
    listed = ", ".join(f'"{name}"' for name in by)
    return (f"{listed}, ", f"group by {listed}") if by else ("", "")


def _where(asked: Sequence[_Placed]) -> str:
    """The condition of events in the time range that any of the queries selects."""
    either = (
        "true" if any(not one.query.terms for one in asked) else " or ".join(dict.fromkeys(one.here for one in asked))
    )
    return f"time_ns >= $start_ns and time_ns < $until_ns and ({either})"


def _source(asked: Sequence[_Placed], window: Selection, relation: Relation) -> str:
    """The events that the queries select; if a query needs it, with the outcomes of their retry chains, and with
    whether their groups count.
    """
    events = relation("chains", window) if any(one.query.chains for one in asked) else f"(from events where {LIVE})"
    groups = dict.fromkeys(one.query.measure for one in asked if one.query.measure in GROUPS)
    told = "".join(f", {GROUPS[name].format(relation=relation(name, window))} as of_{name}" for name in groups)
    return f"(select *{told} from {events} where {_where(asked)})"


def needs_chains(measure: str, selection: Selection, by: Sequence[str]) -> bool:
    """Whether the measure, the selection or `by` needs the outcomes of retry chains."""
    return measure in ("recovery_rate", "retries") or "recovered" in by or selection.uses("recovered")


def returned() -> str:
    """The times at which groups came back in the range: `fingerprint, returned_ns`."""
    before = ever("$start_ns")
    return load("returned").format(
        silence=SILENCE, day=DAY, before=before.source, last=before.last(), ever=ever("$until_ns").source,
        tells=tells(), ignored=load("ignored"),
    )  # fmt: skip


def _born() -> str:
    """Groups of the window that were never seen before it, with the times of their and their services' first events."""
    before, always = ever("$start_ns"), ever()
    return load("born").format(before=before.source, ever=always.source, first=always.first())


def _chains(window: Selection) -> str:
    """The events of the window as they were known at its end."""
    names = ", ".join(f'"{name}"' for name in BY_NAME)
    chains = judged(window, EVENTS, known_by=AS_OF_END)
    return f"select time_ns, duration_ms, retried, {names} from ({chains}) where {LIVE}"


def _runs(window: Selection) -> str:
    """Every streak of the window, with its first event's dimensions under their own names."""
    firsts = [name for name in BY_NAME if name != "recovered"]
    return _named(streaks_then(window, Scope(), firsts), firsts)


def _judged_runs(window: Selection) -> str:
    """The same with `recovered`."""
    firsts = list(BY_NAME)
    return _named(streaks_from_events(window, Scope(), firsts), firsts)


def _named(streaks: str, firsts: Sequence[str]) -> str:
    named = ", ".join(f'"first_{name}" as "{name}"' for name in firsts)
    old = f"select event_id from events where time_ns >= $start_ns and time_ns < $until_ns and not {LIVE}"
    return f"select length, ended, state, limit_reached, {named} from ({streaks}) where last_event_id not in ({old})"


# Relations that several families can share: those of the same window, or of a longer one with the same end.
RELATIONS: Mapping[str, Callable[[Selection], str]] = {
    "chains": _chains,
    "runs": _runs,
    "judged_runs": _judged_runs,
    "new_groups": lambda _: _born(),
    "regressed_groups": lambda _: returned(),
}
