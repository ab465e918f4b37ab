"""Sessions: what was counted in each, what it cost, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collector.engine.duckdb.derive import bounded_sum
from collector.query.breakdowns import OUTCOMES
from collector.query.filters import Selection
from collector.query.retries import chains, relation
from collector.query.statement import Statement, load, order_by
from collector.query.streaks import Scope, streak_sql
from collector.streak_rules import IDLE_NS, LAST

STATES = ("open", *OUTCOMES.values())
# The columns of ends.sql.
ENDS = ("state", "ended_in", "last_outcome", "last_class", "last_tool", "last_event_id", "last_received")
TIMES = ("started", "ended", "last_received")
COLUMNS = (
    "project", "service", "session", "agent", "model", *ENDS, "calls", "ok", "errors", "cancelled", "denied", "unknown",
    "lasting", "not_known_yet", "streaks", "worst_streak", "tool_calls", "requests", "with_tokens", "with_cost",
    "input_tokens", "output_tokens", "cost_usd", "started", "ended", "seconds", "strip",
)  # fmt: skip
PLACE = f"{{'time': time_ns, 'sequence': coalesce(sequence, {LAST}), 'id': event_id}}"  # in its session
# Among events of one time: one number is compared faster than two.
IN_INSTANT = "place::hugeint * 4294967296 * 4294967296 + event_id"
TOLD = {
    "agent": f"arg_max(agent, {PLACE})", "model": f"arg_max(model, {PLACE})", "calls": "count(*)",
    **{name: f"count(*) filter (outcome = '{outcome}')" for name, outcome in OUTCOMES.items()},
    "tool_calls": "count(*) filter (operation = 'tool')", "requests": "count(*) filter (operation = 'model')",
    "with_tokens": "count(coalesce(input_tokens, output_tokens))", "with_cost": "count(cost_usd)",
    "input_tokens": bounded_sum("input_tokens"), "output_tokens": bounded_sum("output_tokens"),
    "cost_usd": "round(sum(cost_usd), 9)",
    "started": "min(time_ns)", "ended": "max(time_ns)",
    "seconds": "(max(time_ns) - min(time_ns - coalesce(duration_ms, 0) * 1e6)) / 1e9",
}  # fmt: skip
IN_PAGE = """semi join shown on events.session = shown.session and events.service is not distinct from shown.service
  and events.project is not distinct from shown.project"""
STRIP = 60


def sessions(selection: Selection, sort: Sequence[str] = (), limit: int = 100, state: str | None = None) -> Statement:
    """Sessions with their matching events counted, their lasting errors and streaks, their last outcomes, and how they
    ended; only those in one of `STATES` if it is named.
    """
    wanted = tuple(sort) or ("-worst_streak", "-ended")
    named = {word.removeprefix("-") for word in wanted}
    sortable = [name for name in COLUMNS if name != "strip"]  # which is read only for the rows of the page
    order = order_by(wanted, sortable, ("project", "service", "session"))
    sorts = {"project": "any_value(project)", "service": "any_value(service)", "session": "any_value(session)", **TOLD}
    chosen = state is not None or not named.isdisjoint(ENDS)  # the page rests on how every session ended
    orders = sorted({*named, "project", "service", "session"} & sorts.keys())
    sql = load("sessions").format(
        told=", ".join(f"{expression} as {name}" for name, expression in TOLD.items()),
        sorted="".join(f", {sorts[name]} as {name}" for name in orders),
        source=relation(selection),
        where=selection.where(),
        streaks=streak_sql(_whole(selection), Scope()),
        chains=chains(selection),
        all_ends=f"{_ends(selection)}," if chosen else "",
        with_ends="left join ends on whose = ended_whose" if chosen else "",
        page_ends="" if chosen else f", {_ends(selection, IN_PAGE)}",
        in_state=f"state = '{state}'" if state else "true",
        order=order_by(wanted, sortable, ("service", "session")),
        limit=limit + 1,
        strip=STRIP,
    )
    sql = f"select {', '.join(COLUMNS)} from ({sql})"
    return Statement(sql, selection.params(), order, limit, TIMES, of_kept=True, of_clock=True)


def _whole(selection: Selection) -> Selection:
    """The same sessions, whatever else of them is selected."""
    terms = tuple(term for term in selection.terms if term.dimension.name in {"project", "service", "session"})
    return replace(selection, terms=terms, text="")


def _ends(selection: Selection, among: str = "") -> str:
    """How each session ended, as the common table `ends`; `among` joins those that are asked for."""
    written = load("ends").format(
        start=selection.start,
        whose=_whole(selection).condition(),
        among=among,
        last=LAST,
        rated=selection.rated(),
        idle=IDLE_NS,
        place=IN_INSTANT,
    )
    return f"ends as materialized ({written})"
