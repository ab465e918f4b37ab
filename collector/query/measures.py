"""What alert rules compare with a threshold: one value per label set, as it was known at the end of the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from collector.alerts.state import Sample
from collector.query.breakdowns import SESSION
from collector.query.filters import BY_NAME, UNITS, Selection, terms_of_rule
from collector.query.groups import SILENCE
from collector.query.hours import counted
from collector.query.retries import judged, relation
from collector.query.statement import Reads, load, share, used
from collector.query.streaks import Scope, streaks_from_events

GONE = 7 * UNITS["d"]  # who has been silent for longer has left

# Share of what: the events of the part, of those that the value rests on.
SHARES = {
    "error_rate": ("outcome = 'error' and {rated}", "outcome in ('ok', 'error') and {rated}"),
    "recovery_rate": ("recovered", "retried and {rated}"),
    "unclassified_rate": ("outcome = 'error' and error_class = 'UnknownError'", "outcome = 'error'"),
}
COUNTED = {"errors": "outcome = 'error'", "calls": "true", "retries": "retried"}
DISTINCT = {"sessions": SESSION, "new_groups": "fingerprint", "regressed_groups": "fingerprint"}

# Whose session an event is, of those that count for the share of sessions in which more than half of the calls fail:
# what is broken for everybody, rather than badly used by one.
FAILING = "case when session is not null and outcome in ('ok', 'error') and {rated} then hash(service, session) end"

# Of which groups the measures of groups count the events of the window. On a service's first day everything is new, and
# no news.
GROUPS = {
    "new_groups": """fingerprint not in (select fingerprint from earlier_groups)
      and coalesce(service, '') in (select service from earlier_services)""",
    "regressed_groups": "fingerprint in (select fingerprint from returned)",
}

STREAKS = {
    "streak": "coalesce(max(length) filter (state = 'open'), 0)",
    "streaks": "count(*) filter (limit_reached)",
}

# Name of a relation that was worked out before: what several rules need of one window; None where nobody did.
Prepared = Callable[[str, Selection], str | None]


def measure(
    store: Reads,
    measure: str,
    where: Mapping[str, list[str] | str | bool],
    by: Sequence[str],
    start_ns: int,
    end_ns: int,
    *,
    failure_only: Sequence[str] = (),
    prepared: Prepared = lambda relation, selection: None,
) -> list[Sample]:
    """One sample per label set with events in [`start_ns`, `end_ns`); exactly one where `by` is empty.

    `errors`, `calls`, `sessions` count what `where` selects, `retries` the errors of it that were tried again. `streak`
    is the longest mistake streak that is open, 0 where all have ended; `streaks` counts those that reached the limit.
    `new_groups` counts groups never seen before, of services that were a day before, `regressed_groups` those that came
    back. `silent` is seconds since the last event of whoever sent within a week. Rates leave sources of `failure_only`
    out and are None over nothing.
    """
    selection = Selection(start_ns, end_ns, terms_of_rule(where), failure_only=tuple(failure_only))
    if measure in ("streak", "streaks"):
        sql = _over_streaks(measure, selection, by, prepared)
    elif measure == "silent":
        selection = replace(selection, start_ns=max(0, end_ns - GONE))
        sql = _silence(selection, by)
    elif measure == "failing_sessions":
        sql = _over_sessions(selection, by, prepared)
    else:
        sql = _over_events(measure, selection, by, prepared)
    params = selection.params() | {"window_ns": end_ns - start_ns}
    rows = store.rows(sql, used(sql, params))
    return [_sample(row, by) for row in rows]


def _sample(row: Mapping[str, object], by: Sequence[str]) -> Sample:
    value, calls = row["value"], row["calls"]
    return Sample(
        {name: label(row[name]) for name in by},
        None if value is None else float(str(value)),
        int(str(calls or 0)),
    )


def label(value: object) -> str:
    """A value of a dimension as labels have it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _keys(by: Sequence[str]) -> tuple[str, str]:
    listed = ", ".join(f'"{name}"' for name in by)
    return (f"{listed}, ", f"group by {listed}") if by else ("", "")


def _over_events(measure: str, selection: Selection, by: Sequence[str], prepared: Prepared) -> str:
    keys, group = _keys(by)
    if measure in GROUPS and not needs_chains(measure, selection, by) and (known := prepared(measure, selection)):
        return _over_groups(selection, by, known)
    value, calls = _aggregates(measure, selection)
    source = _source(measure, selection, by, prepared)
    return f"""{_known_before(measure)} select {keys}{value} as value, {calls} as calls
      from {source} where {selection.where()} {group}"""


def _over_groups(selection: Selection, by: Sequence[str], counted: str) -> str:
    keys, group = _keys(by)
    where = selection.where()
    same = " and ".join(["true", *(f'every."{name}" is not distinct from fresh."{name}"' for name in by)])
    listed = "".join(f'every."{name}", ' for name in by)
    return f"""select {listed}coalesce(groups, 0) as value, calls
      from (select {keys}count(*) as calls from events where {where} {group}) as every
      left join (select {keys}count(distinct fingerprint) as groups from {counted} where {where} {group}) as fresh
        on {same}"""


def _over_sessions(selection: Selection, by: Sequence[str], prepared: Prepared) -> str:
    keys, group = _keys(by)
    source = _source("failing_sessions", selection, by, prepared)
    rate = share("count(*) filter (2 * errors > calls)", "count(*)")
    whose = FAILING.replace("{rated}", selection.rated())
    return f"""select {keys}{rate} as value, count(*) as calls from (
        select {keys}whose, count(*) as calls, count(*) filter (outcome = 'error') as errors
        from (select *, {whose} as whose from {source} where {selection.where()})
        where whose is not null group by all) {group}"""


def _source(measure: str, selection: Selection, by: Sequence[str], prepared: Prepared) -> str:
    """The events of the window, with what became of their retry chains where that is asked."""
    if not needs_chains(measure, selection, by):
        return "events"
    return prepared("chains", selection) or f"({chains(selection)})"


def chains(selection: Selection) -> str:
    """The events of the window as they were known at its end."""
    known = "select * from events where time_ns >= $start_ns and time_ns < $until_ns"
    return judged(selection, known, as_of_end=True)


def returned() -> str:
    """With which events groups came back in the range: `fingerprint, returned_ns`."""
    return load("returned").format(silence=SILENCE, day=UNITS["d"])


def _known_before(measure: str) -> str:
    """The relations that GROUPS names, as WITH."""
    if measure == "regressed_groups":
        return f"with returned as ({returned()})"
    return load("earlier").format(day=UNITS["d"]) if measure == "new_groups" else ""


def of_groups(measure: str) -> str:
    """The events of the groups that a measure counts."""
    names = ", ".join(f'"{name}"' for name in BY_NAME if name != "recovered")
    return f"""{_known_before(measure)} select time_ns, {names} from events
      where time_ns >= $start_ns and time_ns < $until_ns and fingerprint is not null and {GROUPS[measure]}"""


def runs(selection: Selection) -> str:
    """Every streak of the window, with its first event's dimensions under their own names."""
    firsts = [name for name in BY_NAME if name != "recovered"]
    named = ", ".join(f'"first_{name}" as "{name}"' for name in firsts)
    whole = replace(selection, terms=())
    streaks = streaks_from_events(whole, Scope(), firsts, as_of_end=True)
    return f"select length, state, limit_reached, {named} from ({streaks})"


def needs_chains(measure: str, selection: Selection, by: Sequence[str]) -> bool:
    """Whether the measure asks what became of retry chains."""
    return measure in ("recovery_rate", "retries") or "recovered" in by or selection.uses("recovered")


def _aggregates(measure: str, selection: Selection) -> tuple[str, str]:
    """What the measure is, and how many events it rests on, over the events of the window."""
    if measure in SHARES:
        part, whole = (f"count(*) filter ({text.replace('{rated}', selection.rated())})" for text in SHARES[measure])
        return share(part, whole), whole
    if measure == "p95_ms":
        return "quantile_cont(duration_ms, 0.95)", "count(duration_ms)"
    if measure in DISTINCT:
        only = f" filter ({GROUPS[measure]})" if measure in GROUPS else ""
        return f"count(distinct {DISTINCT[measure]}){only}", "count(*)"
    return f"count(*) filter ({COUNTED[measure]})", "count(*)"


def _over_streaks(measure: str, selection: Selection, by: Sequence[str], prepared: Prepared) -> str:
    if not needs_chains(measure, selection, by) and (known := prepared("runs", selection)):
        keys, group = _keys(by)
        return f"""select {keys}{STREAKS[measure]} as value, coalesce(sum(length), 0) as calls
          from {known} where {selection.condition()} {group}"""
    _, group = _keys([f"first_{name}" for name in by])
    keys = "".join(f'"first_{name}" as "{name}", ' for name in by)
    streaks = streaks_from_events(selection, Scope(), by, as_of_end=True)
    return f"select {keys}{STREAKS[measure]} as value, coalesce(sum(length), 0) as calls from ({streaks}) {group}"


def _silence(selection: Selection, by: Sequence[str]) -> str:
    keys, group = _keys(by)
    rows = counted(selection, by)
    return load("silence").format(
        keys=keys,
        group=group,
        where=selection.where(),
        counted=rows.source,
        last=rows.last(),
        source=relation(selection, *by),
        same=" and ".join(["true", *(f'matching."{name}" is not distinct from last."{name}"' for name in by)]),
        answered="".join(f'last."{name}", ' for name in by),
        answered_group=", ".join([*(f'last."{name}"' for name in by), "newest_ns"]),
    )
