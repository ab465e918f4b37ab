"""Counts, rates and quantiles of the selected events, by dimension and over time.

All operations are counted unless a filter on `operation` says otherwise. `error_rate` is errors ÷ `rated`, the ok and
error events of sources that report both; it is null if there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collector.query.filters import BadParameter, Selection, duration, duration_ns
from collector.query.hours import Counts, counted, sessions_by
from collector.query.quantiles import at_place, ranked
from collector.query.retries import chains, relation
from collector.query.statement import Statement, order_by, share, wilson

OUTCOMES = {"ok": "ok", "errors": "error", "cancelled": "cancelled", "denied": "denied", "unknown": "unknown"}
COUNTS = ("calls", *OUTCOMES)
SEEN = ("first_seen", "last_seen")
MEASURES = {
    "sessions": ("sessions",),
    "p50_ms": ("p50_ms",),
    "p95_ms": ("p95_ms",),
    "recovery_rate": ("errors_retried", "errors_recovered", "recovery_rate"),
}
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95}
# A 64-bit hash takes 8 bytes for a service and session; that any two of 10 million share one has a probability of 3e-6.
SESSION = "case when session is not null then hash(project, service, session) end"

MOST_BUCKETS = 10_000
NICE_BUCKETS = tuple(
    duration_ns("bucket", text) for text in ("1s", "5s", "15s", "1m", "5m", "15m", "1h", "3h", "6h", "12h", "1d", "7d")
)


def breakdown(
    selection: Selection,
    by: Sequence[str],
    measures: Sequence[str] = (),
    *,
    previous: bool = False,
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Statement:
    """Measures by the values of `by`; with `previous`, also as `previous_…`, of the period of equal length before."""
    sql, columns = _grouped(selection, {name: f'"{name}"' for name in by}, measures, previous)
    asks = "recovery_rate" in measures or selection.reads_chains(*by)
    order = order_by(sort or ["-errors", "-calls"], columns, by)
    return Statement(sql, selection.params(), order, limit, SEEN, of_kept=asks, of_clock=asks)


def timeseries(
    selection: Selection,
    bucket_ns: int,
    by: Sequence[str],
    measures: Sequence[str] = (),
    *,
    previous: bool = False,
    sort: Sequence[str] = (),
    limit: int = 10_000,
) -> Statement:
    """The measures of `breakdown` per bucket, oldest first; buckets start at multiples of their length since 1970.

    With `previous`, each bucket also has the measures of the bucket one range earlier.
    """
    at = "(case when time_ns < $start_ns then time_ns + $start_ns - $previous_ns else time_ns end)"
    at = at if previous else "time_ns"
    keys = {"time": f"{at} - {at} % {int(bucket_ns)}", **{name: f'"{name}"' for name in by}}
    sql, columns = _grouped(selection, keys, measures, previous, bucket_ns)
    asks = "recovery_rate" in measures or selection.reads_chains(*by)
    order = order_by(sort, columns, keys)
    return Statement(sql, selection.params(), order, limit, ("time", *SEEN), of_kept=asks, of_clock=asks)


def bucket_of(selection: Selection, asked_ns: int | None) -> int:
    """The length of a bucket: `asked_ns`, else the shortest round one that gives at most 120. Raises BadParameter."""
    length = selection.end_ns - selection.start_ns
    if asked_ns is None:
        return next((nice for nice in NICE_BUCKETS if length <= 120 * nice), -(-length // 120))
    if length > MOST_BUCKETS * asked_ns:
        least = f"{-(-length // MOST_BUCKETS // 10**9) or 1}s"
        message = f"this bucket makes more than {MOST_BUCKETS} of them; it must be at least {least}"
        raise BadParameter("bucket", duration(asked_ns), message)
    return asked_ns


def values(selection: Selection, dimension: str, contains: str, sort: Sequence[str], limit: int) -> Statement:
    """The values of one dimension among the events, most frequent first."""
    found = f'contains(lower("{dimension}"::varchar), lower($contains))' if contains else "true"
    rows = counted(selection, [dimension])
    sql = f"""select "{dimension}" as value, {rows.count()} as calls, {rows.count("outcome = 'error'")} as errors
      from {rows.source} where {selection.where()} and {found} group by all"""
    order = order_by(sort or ["-calls"], ("value", "calls", "errors"), ["value"])
    asks = selection.reads_chains(dimension)
    params = selection.params() | {"contains": contains}
    return Statement(sql, params, order, limit, of_kept=asks, of_clock=asks)


def _grouped(
    selection: Selection, keys: Mapping[str, str], measures: Sequence[str], previous: bool, bucket_ns: int = 0
) -> tuple[str, list[str]]:
    """The SQL of the measures by `keys` (name → expression), and the names of its columns."""
    start = "$previous_ns" if previous else "$start_ns"
    names = [name for name in keys if name != "time"]
    rows = counted(selection, names, previous=previous, bucket_ns=bucket_ns)
    outer = _answers(measures) | (_answers(measures, "previous_") if previous else {})
    where = selection.where(start)
    counts = _counts_sql(selection, rows, keys, where, previous)
    own_keys = {f"key_{place}": expression for place, expression in enumerate(keys.values())} or {"key_0": "true"}
    for alias, sql in _measured(selection, rows, names, own_keys, where, measures, previous, bucket_ns).items():
        same = [f'"{name}" is not distinct from {alias}.{key}' for name, key in zip(keys, own_keys, strict=False)]
        counts += f" left join ({sql}) as {alias} on {' and '.join(same) or 'true'}"
    answered = ", ".join((*_named(keys), *_as(outer)))
    return f"select {answered} from {counts}", [*keys, *outer]


def _named(names: Iterable[str]) -> list[str]:
    return [f'"{name}"' for name in names]


def _as(columns: Mapping[str, str]) -> list[str]:
    return [f'{expression} as "{name}"' for name, expression in columns.items()]


def _counts_sql(selection: Selection, rows: Counts, keys: Mapping[str, str], where: str, previous: bool) -> str:
    """The counts by `keys`, of both periods with `previous`."""
    group = f"group by {', '.join(map(str, range(1, len(keys) + 1)))}" if keys else ""
    now, before = ("time_ns >= $start_ns", "time_ns < $start_ns") if previous else ("", "")

    def counting(columns: Mapping[str, str], condition: str) -> str:
        return f"select {', '.join(_as({**keys, **columns}))} from {rows.source} where {condition} {group}"

    if not previous or rows.table:
        columns = _aggregates(rows, selection, now)
        if previous:
            columns |= _aggregates(rows, selection, before, "previous_")
        return f"({counting(columns, where)})"
    # One after the other, both periods take the engine a third of the time.
    period = _aggregates(rows, selection)
    earlier = {f"previous_{name}": period[name] for name in period if name not in SEEN}
    parts = (counting(period, f"{where} and {now}"), counting(earlier, f"{where} and {before}"))
    merged = {name: f'max("{name}")' for name in SEEN}
    merged |= {name: f'coalesce(max("{name}"), 0)' for name in (*period, *earlier) if name not in SEEN}
    own = ", ".join((*_named(keys), *_as(merged)))
    return f"(select {own} from ({' union all by name '.join(parts)}) {group})"


def _measured(
    selection: Selection,
    rows: Counts,
    names: Sequence[str],
    keys: Mapping[str, str],
    where: str,
    measures: Sequence[str],
    previous: bool,
    bucket_ns: int,
) -> dict[str, str]:
    """The measures that need the events or their retry chains, by `keys` (name → expression): alias → SQL."""
    start = "$previous_ns" if previous else "$start_ns"
    earlier = "time_ns < $start_ns" if previous else "false"
    source = relation(selection, *names, start=start)
    periods = {"": "not earlier", **({"previous_": "earlier"} if previous else {})}
    asked = {}
    if "sessions" in measures:
        values = [
            f"coalesce(sum(sessions) filter ({side}), 0)::bigint as {prefix}sessions"
            for prefix, side in periods.items()
        ]
        of_sessions = counted(selection, [*names, "session"], previous=previous, bucket_ns=bucket_ns)
        asked["met"] = sessions_by(rows.source, of_sessions.source, where, keys, values, earlier=earlier)
    if quantiles := [name for name in measures if name in QUANTILES]:
        values = [
            f"{at_place(place)} and {side}) as {prefix}{name}"
            for place, name in enumerate(quantiles, 1)
            for prefix, side in periods.items()
        ]
        fractions = str([QUANTILES[name] for name in quantiles])
        asked["durations"] = ranked(source, where, keys, fractions, values, earlier=earlier)
    if "recovery_rate" in measures:
        parts = {"errors_retried": f"retried and {selection.rated()}", "errors_recovered": "retried and recovered"}
        values = [
            f"count(*) filter ({condition} and {side.replace('earlier', f'({earlier})')}) as {prefix}{name}"
            for prefix, side in periods.items()
            for name, condition in parts.items()
        ]
        named = ", ".join(f"{expression} as {key}" for key, expression in keys.items())
        asked["tried"] = f"""select {named}, {", ".join(values)} from ({chains(selection, *names)})
          where {where} group by {", ".join(keys)}"""
    return asked


def _aggregates(rows: Counts, selection: Selection, period: str = "", prefix: str = "") -> dict[str, str]:
    """The counts (name → expression), of the events that meet the condition `period`."""
    rated = selection.rated()
    columns = {
        "calls": rows.count(period),
        **{name: rows.count(period, f"outcome = '{outcome}'") for name, outcome in OUTCOMES.items()},
        "rated_errors": rows.count(period, "outcome = 'error'", rated),
        "rated_ok": rows.count(period, "outcome = 'ok'", rated),
    }
    if not prefix:
        columns |= {"first_seen": rows.first(period), "last_seen": rows.last(period)}
    return {f"{prefix}{name}": expression for name, expression in columns.items()}


def _answers(measures: Sequence[str], prefix: str = "") -> dict[str, str]:
    """The columns of the answer (name → expression), from those of `_aggregates` and `_measured`."""
    errors, rated = f"{prefix}rated_errors", f"({prefix}rated_ok + {prefix}rated_errors)"
    low, high = wilson(errors, rated)
    columns = {name: f"{prefix}{name}" for name in COUNTS}
    columns |= {"rated": rated, "error_rate": share(errors, rated), "low": low, "high": high}
    if not prefix:
        columns |= {"first_seen": "first_seen", "last_seen": "last_seen"}
    for name in measures:
        zero = name not in QUANTILES
        columns |= {
            column: f"coalesce({prefix}{column}, 0)" if zero else f"{prefix}{column}" for column in MEASURES[name]
        }
    if "recovery_rate" in measures:
        columns["recovery_rate"] = share(f"{prefix}errors_recovered", f"{prefix}errors_retried")
    return {f"{prefix}{name}": expression for name, expression in columns.items()}
