"""Retry chains: what follows an error in the same session, sub-agent, operation, tool and target.

Every error with a session begins a chain of 30 minutes. The error counts as retried if another event follows in that
time, and as recovered if one of them is ok. `judged` computes this from the events themselves, `chains` reads what the
store keeps (schemas/kept.sql); the other functions count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from collector.engine.duckdb.derive import CHAINS, COUNTED
from collector.engine.whole_hours import between
from collector.query.filters import Selection, own_dimensions
from collector.query.quantiles import at_place, ranked
from collector.query.statement import Statement, load, order_by, rates, share, wilson
from collector.streak_rules import ACTED_ON, IDLE_NS, PATIENCE, WINDOW_NS
from collector.times import DAY, HOUR, MINUTE

FEW = 20  # with fewer retried errors there is no verdict on retrying
SELDOM, OFTEN = 0.2, 0.5  # retrying works seldom (often) if the whole interval lies below (above) this
STORM_STATES = ("ongoing", "ended")
SLOTS = 5_000  # over all storms listed: more make many pieces of long storms, fewer compare errors with many pieces
ATTEMPTS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 50)
SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)

COLUMNS = (
    "errors", "retried", "rated", "recovered", "lasting", "not_known_yet", "recovered_identical", "recovered_changed",
    "recovery_rate", "low", "high", "identical_retries", "wasted_retries", "median_attempts", "median_seconds",
    "told_to_wait", "honoured", "declared", "declared_retryable", "taxonomy_retryable", "said_retryable",
    "verdict", "disagreement",
)  # fmt: skip
OF_SOME = ("recovery_rate", "low", "high", "median_attempts", "median_seconds", "said_retryable")  # null without errors
EMPTY = {name: "0" for name in COLUMNS if name not in OF_SOME} | {"verdict": "'unclear'"}
SUMS = {  # column of sql/retries.sql: of which counts it is the sum, and in which rows
    "errors": ("errors", "true"),
    "retried": ("retried", "true"),
    "rated": ("retried", "comparable"),
    "recovered": ("repaired", "comparable"),
    "lasting": ("unrepaired", "comparable"),
    "recovered_identical": ("repaired_identical", "comparable"),
    "recovered_changed": ("repaired_changed", "comparable"),
    "identical_retries": ("identical_retries", "true"),
    "wasted_retries": ("lost", "comparable"),
    "told_to_wait": ("told_to_wait", "true"),
    "honoured": ("honoured", "true"),
    "declared": ("declared", "true"),
    "declared_retryable": ("declared_retryable", "true"),
    "classed": ("errors", "recovery is not null"),
    "taxonomy_retryable": ("errors", "recovery in ('retry', 'fix_and_retry')"),
}
CURVE_COLUMNS = ("retried", "recovered", "recovery_rate", "low", "high")
TOLD = (
    "next_id", "honoured", "identical_retry", "recovered", "recovered_identical", "recovered_changed", "attempts",
    "seconds",
)  # fmt: skip
STORM_COLUMNS = (
    "error_class", "started", "ended", "state", "sessions", "calls", "most_in_a_minute", "told_to_wait", "honoured",
)  # fmt: skip
NARROW = ("started", "ended", "state", "calls")  # known of every storm before the rest is read

AS_OF_END = "time_ns >= $start_ns and time_ns < $until_ns"  # `known_by`: nothing after the range
EVENTS = f"select * from events where {AS_OF_END}"


def judged(selection: Selection, events: str, *, known_by: str, kept: str = "") -> str:
    """A relation like `events` with the outcome of each error's chain.

    Adds `retried` and `next_id` (the next attempt), `honoured` (it waited as long as the error demanded), `recovered`,
    `identical_retry`, `recovered_identical`, `recovered_changed`, `attempts`, `seconds`.
    `known_by` is an SQL condition on the events that decide whether a window is still open. `kept` are further columns.
    """
    return load("judged").format(
        events=events,
        acted_on=ACTED_ON,
        window=WINDOW_NS,
        rated=selection.rated(),
        known_by=known_by,
        idle=IDLE_NS,
        patience=PATIENCE,
        kept=kept,
    )


def chains(selection: Selection, *names: str) -> str:
    """A relation of the errors with a session alone, with the columns of `judged` that are dimensions or say what
    became of the error, and those of `names`: from what the store keeps.
    """
    return load("chains").format(kept=_kept(selection, *names), window=WINDOW_NS, idle=IDLE_NS, rated=selection.rated())


def unjudged(selection: Selection, *names: str) -> str:
    """The same for a question that does not ask whether an error recovered: telling which cannot any more reads the
    newest event of each one's service. `attempts` and `seconds` are also of sources that are not rated.
    """
    return chains(selection, *names) if selection.reads_chains(*names) else _kept(selection, *names)


def _kept(selection: Selection, *names: str) -> str:
    columns = beyond(selection, names)
    if not columns:
        return "select *, true as begins from kept_chains"
    more = ", ".join(columns)
    return f"""select kept_chains.*, true as begins, {more}
      from kept_chains join (select event_id, time_ns, {more} from events) using (event_id, time_ns)"""


def beyond(selection: Selection, names: Sequence[str]) -> list[str]:
    """The quoted columns that the selection or `names` need and that only the events have."""
    own = [name for name in own_dimensions() if selection.uses(name) or name in names]
    return [f'"{name}"' for name in (["message"] if selection.text else []) + own]


def _errors(selection: Selection, *names: str) -> str:
    """Like `unjudged` of narrow columns, with the errors that have no session."""
    needed = (*names, *(term.dimension.name for term in selection.terms), *(["message"] if selection.text else []))
    told = dict.fromkeys(("time_ns", "source", "project", "service", "session", "error_class", *needed))
    told.pop("recovered", None)
    columns = ", ".join(f'"{name}"' for name in told)
    later = [name for name in ("honoured", "recovered") if name == "honoured" or selection.reads_chains(*names)]
    nothing = ", ".join(f"null::boolean as {name}" for name in later)
    return f"""(select {columns}, {", ".join(later)} from ({unjudged(selection, *names)})
      union all
      select {columns}, {nothing} from events where outcome = 'error' and session is null)"""


def relation(selection: Selection, *more: str, start: str = "") -> str:
    """`events`; if the selection or one of the named columns needs it, with the outcomes of retry chains."""
    if not selection.reads_chains(*more):
        return "events"
    start = start or selection.start
    return f"""(select every.*, chains.event_id is not null as begins, coalesce(chains.retried, false) as retried,
        {", ".join(f"chains.{name}" for name in TOLD)}
      from events as every left join (
        select * from ({chains(selection)}) where time_ns >= {start} and time_ns < {selection.until}
      ) as chains on every.event_id = chains.event_id
      where every.time_ns >= {start} and every.time_ns < {selection.until})"""


def counted(selection: Selection, names: Sequence[str]) -> str:
    """A relation with the columns of `chains` that are `names` or that the selection needs, `recovery`, `source` and
    `attempts`; each row stands for `errors` chains, and has counts of them by the names of `CHAINS`, and of those that
    nothing will repair any more: `unrepaired`, and of these `lost`, which were retried.

    Where hourly counts give the same, they are read.
    """
    wanted = dict.fromkeys([*names, *(term.dimension.name for term in selection.terms), "recovery", "source"])
    listed = ", ".join(f'"{name}"' for name in (*wanted, *(["message"] if selection.text else [])))
    each = ", ".join(f"coalesce({condition}, false)::int as {name}" for name, condition in CHAINS.items())
    single = f"""select {listed}, time_ns, attempts, {each},
        (closed and not repaired)::int as unrepaired, (retried and closed and not repaired)::int as lost
      from ({chains(selection, *names)})"""
    if selection.text or not {*wanted} <= {*COUNTED["hourly"]}:
        return single
    low, high = between(selection.start, selection.until, of_chains=True)
    return load("hourly_chains").format(
        names=listed,
        counts=", ".join(CHAINS),
        single=single,
        window=WINDOW_NS,
        idle=IDLE_NS,
        hour=HOUR,
        low=low,
        high=high,
        start=selection.start,
        until=selection.until,
    )


def retries(
    selection: Selection, by: Sequence[str], sort: Sequence[str] = (), limit: int = 100, *, previous: bool = False
) -> Statement:
    """What became of errors, by the dimensions of the error."""
    order = sort or ["-disagreement", "-errors"]
    written = partial(_retries, by=by)
    return rates(selection, written, by, COLUMNS, EMPTY, previous=previous, sort=order, limit=limit)


def _retries(selection: Selection, by: Sequence[str]) -> str:
    keys = [f'"{name}"' for name in by]
    low, high = wilson("recovered", "rated")
    places = {f"key_{place}": key for place, key in enumerate(keys)}
    repaired = f"{selection.where()} and repaired and {selection.rated()}"
    middle = [f"{at_place(1)}) as median_seconds"]
    return load("retries").format(
        keys="".join(f"{key}, " for key in keys),
        counted=counted(selection, by),
        named="".join(f"{place} as {key}, " for place, key in places.items()),
        waits=ranked(
            f"({unjudged(selection, *by)})", repaired, places or {"key_0": "true"}, "[0.5]", middle, of="seconds"
        ),
        where=selection.where(),
        rated=selection.rated(),
        rate=share("recovered", "rated"),
        low=low,
        high=high,
        few=FEW,
        seldom=SELDOM,
        often=OFTEN,
        group=f"group by {', '.join(keys)}" if keys else "",
        found="".join(f"found.{key}, " for key in keys),
        sums=", ".join(
            f"coalesce(sum({of}) filter ({condition}), 0)::bigint as {name}" for name, (of, condition) in SUMS.items()
        ),
        counts=", ".join(f"sum({name}) as {name}" for name in (*CHAINS, "unrepaired", "lost")),
        parts=", ".join(keys) or "true",
        same_tries=_same(keys, "tries"),
        same_waits=_same(keys, "waits"),
    )


def _same(keys: Iterable[str], other: str) -> str:
    return " and ".join(f"found.{key} is not distinct from {other}.{key}" for key in keys) or "true"


def curve(
    selection: Selection, by: Sequence[str], sort: Sequence[str] = (), limit: int = 1000, *, previous: bool = False
) -> Statement:
    """The share of retried errors that recovered, by number of attempts and by seconds."""
    empty = dict.fromkeys(("retried", "recovered"), "0")
    keys = (*by, "axis", "at")
    written = partial(_curve, by=by)
    asks = selection.reads_chains(*by)
    return rates(
        selection, written, keys, CURVE_COLUMNS, empty, previous=previous, sort=sort, limit=limit, of_clock=asks
    )


def _curve(selection: Selection, by: Sequence[str]) -> str:
    keys = "".join(f'"{name}", ' for name in by)
    low, high = wilson("recovered", "retried")
    return load("curve").format(
        keys=keys,
        chains=unjudged(selection, *by),
        where=selection.where(),
        rated=selection.rated(),
        attempts=list(ATTEMPTS),
        attempts_reached=_reached("attempts", ATTEMPTS),
        seconds=list(SECONDS),
        seconds_reached=_reached("seconds", SECONDS),
        rate=share("recovered", "retried"),
        low=low,
        high=high,
    )


def _reached(name: str, steps: Iterable[int]) -> str:
    """The first step that is not below a column, as SQL."""
    return f"case {' '.join(f'when {name} <= {step} then {step}' for step in steps)} end"


def storms(
    selection: Selection,
    window_ns: int,
    least: int,
    by: Sequence[str] = (),
    *,
    state: str | None = None,
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Statement:
    """Bursts of errors of one class (and one value of each dimension of `by`) that reach into the range, newest first.

    A storm is a stretch of the selected errors in which each is one of at least `least` within `window_ns`. The days
    before and after the range are read too, to find its beginning and its end.
    """
    end_ns = selection.end_ns if selection.to_now else selection.end_ns + DAY
    wide = replace(selection, start_ns=max(0, selection.start_ns - DAY), end_ns=end_ns)
    keys = [name for name in by if name != "error_class"]
    columns = (*keys, *STORM_COLUMNS)
    sort = sort or ["-ended"]
    order = order_by(sort, columns, ("started", "error_class", *keys))
    chosen = f"state = '{state}'" if state in STORM_STATES else "true"
    if {word.removeprefix("-") for word in sort} <= {*NARROW}:
        chosen += f" order by {order_by(sort, NARROW, ('started',))} limit {limit + 1}"
    told = {
        "keys": "".join(f'"{name}", ' for name in keys),
        "source": _errors(wide, *keys),
        "where": wide.where(),
        "chosen": chosen,
        "least": least,
        "window": window_ns,
        "slots": SLOTS,
        "minute": MINUTE,
    }
    sql, at_once = (load(name).format(**told) for name in ("storms", "storms_at_once"))
    params = wide.params() | {"from_ns": selection.start_ns, "to_ns": selection.until_ns}
    asks = selection.reads_chains(*by)
    return Statement(sql, params, order, limit, ("started", "ended"), of_kept=True, of_clock=asks, at_once=at_once)
