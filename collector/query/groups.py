"""Groups of errors with the same class, tool and message template: counts, state and trend."""

from __future__ import annotations

from collections.abc import Sequence

from collector.query.filters import Selection
from collector.query.group_marks import tells
from collector.query.hours import counted, ever, sessions_by
from collector.query.retries import relation
from collector.query.statement import Statement, load, order_by, share, wilson
from collector.times import DAY, WEEK

COLUMNS = (
    "fingerprint", "error_class", "operation", "tool", "template", "events", "sessions", "sessions_of_tool", "spread",
    "trend", "growth", "first_seen", "last_seen", "state", "resolved", "resolved_service", "resolved_version",
    "ignored", "until_events", "until_sessions", "events_since", "sessions_since", "issue", "note", "sample",
    "newest_event_id",
)  # fmt: skip
RECOVERY = ("retried", "rated", "recovered", "lasting", "not_known_yet", "recovery_rate", "low", "high")
MEASURES = ("recovery_rate",)
STATES = ("new", "regressed", "ongoing", "ignored", "resolved")
TIMES = ("first_seen", "last_seen", "resolved", "ignored")
SLOTS = 24
SILENCE = WEEK  # a group that comes back after a longer pause has regressed
FRESH = DAY  # for one group, whose range is all time: the end of the range, which `new` and `trend` refer to


def groups(
    selection: Selection,
    measures: Sequence[str] = (),
    *,
    fingerprint: int | None = None,
    state: str | None = None,
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Statement:
    """Groups with events in the range, with their state; by default those with the newest events first."""
    wanted = "fingerprint is not null" if fingerprint is None else "fingerprint = $fingerprint"
    rated, called = selection.rated(), selection.about_call()
    low, high = wilson("rated_recovered", "rated")
    columns = (*COLUMNS, *(RECOVERY if "recovery_rate" in measures else ()))
    rates = {"recovery_rate": share("rated_recovered", "rated"), "low": low, "high": high}
    told = {
        "retried": "retried", "recovered": "recovered", "lasting": "not recovered",
        "not_known_yet": "begins and recovered is null",
        "rated": f"retried and {rated}", "rated_recovered": "retried and recovered",
    } if "recovery_rate" in measures else {}  # fmt: skip
    all_events = ever()
    # The tools of the groups that match: the sessions of others would be counted in vain.
    of_groups = f"""select called.* from {counted(called, ("operation", "tool")).source} as called semi join matching
      on called.operation is not distinct from matching.operation and called.tool is not distinct from matching.tool"""
    sql = load("groups").format(
        columns=", ".join(f"{rates[name]} as {name}" if name in rates else name for name in columns),
        told="".join(f", count(*) filter ({condition}) as {name}" for name, condition in told.items()),
        recovery="".join(f", sum({name})::bigint as {name}" for name in told),
        source=relation(selection, *(["recovered"] if "recovery_rate" in measures else [])),
        where=f"{selection.where()} and {wanted}",
        wanted=wanted,
        ever=all_events.source,
        first=all_events.first(),
        last=all_events.last(),
        uses=sessions_by(
            f"({of_groups})",
            "events",
            called.where(),
            {"called_operation": "operation", "called_tool": "tool"},
            ["sum(sessions)::bigint as sessions_of_tool"],
        ),
        spread=share("coalesce(met.sessions, 0)", "sessions_of_tool"),
        tells=tells(),
        ignored=load("ignored"),
        state=f"state = '{state}'" if state in STATES else "true",
        slots=SLOTS,
        silence=SILENCE,
    )
    fresh = selection.start_ns if fingerprint is None else max(selection.start_ns, selection.end_ns - FRESH)
    params = selection.params() | {"fingerprint": fingerprint, "end_ns": selection.end_ns}
    params |= {"fresh_ns": fresh, "trend_ns": fresh}
    order = order_by(sort or ["-last_seen"], columns, ("fingerprint",))
    asks = "recovery_rate" in measures or selection.reads_chains()
    return Statement(sql, params, order, limit, TIMES, of_kept=asks, of_clock=asks)
