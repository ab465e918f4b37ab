"""What agents report about their own streaks, beside our counts: each signal, and how often both are equal.

Our counts are computed from the events, not read from the streaks that the store keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.query.filters import Selection
from collector.query.retries import relation
from collector.query.statement import Statement, load, order_by, share, wilson
from collector.query.streaks import KINDS, SAID
from collector.streak_rules import IDLE_NS

SIGNAL_COLUMNS = (
    "time", "source", "project", "service", "session", "subagent", "model", "tool", "event_id", "reported_streak",
    "ours", "signal", "reported_class", "why",
)  # fmt: skip
AGREEMENT_COLUMNS = (
    "source", "signal", "signals", "compared", "equal", "higher", "lower", "agreement", "low", "high", "whys",
)  # fmt: skip


def _signals(selection: Selection, kind: str) -> str:
    return load("signals").format(
        said=SAID,
        source=relation(selection),
        chosen=selection.condition(),
        counts=KINDS[kind],
        rated=selection.rated(),
        idle=IDLE_NS,
    )


def signals(selection: Selection, kind: str, sort: Sequence[str] = (), limit: int = 100) -> Statement:
    """Each time an agent reported something about its own streak, with our count at that moment, newest first."""
    asks = selection.reads_chains()
    order = order_by(sort or ["-time"], SIGNAL_COLUMNS, ("event_id",))
    sql = _signals(selection, kind)
    return Statement(sql, selection.params(), order, limit, ("time",), of_kept=asks, of_clock=asks)


def agreement(selection: Selection, kind: str, sort: Sequence[str] = (), limit: int = 100) -> Statement:
    """Per source and kind of signal: how often the agent's number is equal to ours, higher or lower, and why."""
    low, high = wilson("equal", "compared")
    sql = f"""select source, signal, signals, compared, equal, higher, lower,
        {share("equal", "compared")} as agreement, {low} as low, {high} as high, whys
      from (
        select source, signal, count(*) as signals, count(reported_streak) as compared,
          count(*) filter (reported_streak = ours) as equal, count(*) filter (reported_streak > ours) as higher,
          count(*) filter (reported_streak < ours) as lower,
          list_sort(list_distinct(list(why) filter (why not in ('equal', 'no_number')))) as whys
        from ({_signals(selection, kind)}) group by source, signal)"""
    asks = selection.reads_chains()
    order = order_by(sort or ["-signals"], AGREEMENT_COLUMNS, ("source", "signal"))
    return Statement(sql, selection.params(), order, limit, of_kept=asks, of_clock=asks)
