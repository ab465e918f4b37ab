"""What failures cost: calls, time, tokens and money spent on streaks of mistakes and on asking for failed calls, and
on wasted retries.

Tokens and money are known only if agents report them; if none does, they are null, never 0, and the services that tell
them of nothing are named. A streak costs everything that its session (and sub-agent) did between its first mistake and
the success that ended it (or else its last mistake), model requests included. A model request that asked for a failed
call outside of a streak is added, once. A retry is wasted if no later attempt repaired the error; its tokens and money
are those of the request that asked for it. A wasted retry inside a streak is in both costs, so they are never added up.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.engine.duckdb.derive import bounded_sum
from collector.query.filters import Selection
from collector.query.retries import chains
from collector.query.statement import Statement, load, order_by
from collector.query.streaks import Scope, streak_sql
from collector.streak_rules import ASKED_NS, LAST

COUNTED = ("streaks", "mistakes", "asking", "calls", "told", "wasted_retries", "wasted_told")  # 0 if there are none
NAMES = ("tokens_not_told_by", "money_not_told_by")  # of services
# By time, then by id of 64 bits: one number is compared faster than two.
EARLIEST = "time_ns::hugeint * 4294967296 * 4294967296 + event_id"
TOKENS = ("input_tokens", "output_tokens", "wasted_input_tokens", "wasted_output_tokens")
COLUMNS = (
    "streaks", "mistakes", "asking", "calls", "seconds", "busy_ms", "told", "input_tokens", "output_tokens", "cost_usd",
    "wasted_retries", "wasted_ms", "wasted_told", "wasted_input_tokens", "wasted_output_tokens", "wasted_cost_usd",
    *NAMES,
)  # fmt: skip


def costs(selection: Selection, by: Sequence[str], sort: Sequence[str] = (), limit: int = 100) -> Statement:
    """Streaks by the dimensions of their first mistake, wasted retries by those of the retried error."""
    listed = ", ".join(f'"{name}"' for name in by)
    group = f"group by {listed}" if by else ""
    sql = load("costs").format(
        firsts="".join(f'"first_{name}" as "{name}", ' for name in by),
        streaks=streak_sql(selection, Scope(), by),
        keys=f"{listed}, " if by else "",
        earliest="".join(f'arg_min_null("{name}", {EARLIEST}) as "{name}", ' for name in by),
        group=group,
        judged=chains(selection, *by),
        where=selection.where(),
        asked=ASKED_NS,
        last=LAST,
        sums=", ".join(_sum(name) for name in COLUMNS),
    )
    order = order_by(sort or ["-cost_usd", "-output_tokens", "-calls"], (*by, *COLUMNS), by)
    return Statement(sql, selection.params(), order, limit, of_kept=True, of_clock=True)


def _sum(name: str) -> str:
    if name in COUNTED:
        return f"coalesce(sum({name}), 0)::bigint as {name}"
    if name in NAMES:
        return f"coalesce(flatten(list({name})), []) as {name}"
    return f"{bounded_sum(name)} as {name}" if name in TOKENS else f"sum({name}) as {name}"
