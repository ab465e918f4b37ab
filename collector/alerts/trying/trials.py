"""Backtests and suggestions as rows of API answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from collector.alerts.rules import MEASURES, Condition, Receiver, Rule
from collector.alerts.trying.backtest import Past, Trial, find_sessions, run
from collector.engine import Reads
from collector.measures.history_sql import Evaluations
from collector.measures.measure import Labels
from collector.query.filters import BadParameter
from collector.times import SECOND, WEEK, rfc3339

LEAST_STEP_NS, MOST_STEP_NS = 15 * SECOND, 300 * SECOND  # a pending alert does not survive a longer gap
MOST_EVALUATIONS = 50_000
LINES = 20  # label sets whose values are shown, those nearest to firing or beyond
POINTS = 500  # of each
CANDIDATES = 40


def evaluations(start_ns: int, end_ns: int, step_ns: int) -> Evaluations:
    """Those every `step_ns` from `start_ns` on, the last at `end_ns`. Raises BadParameter."""
    if not LEAST_STEP_NS <= step_ns <= MOST_STEP_NS:
        raise BadParameter("step", f"{step_ns / SECOND:g}s", "step is from 15s to 5m")
    if start_ns >= end_ns:
        raise BadParameter("from", rfc3339(start_ns), "from is before to")
    count = (end_ns - start_ns) // step_ns + 1
    if count > MOST_EVALUATIONS:
        least = math.ceil((end_ns - start_ns) / MOST_EVALUATIONS / SECOND)
        raise BadParameter("step", f"{step_ns / SECOND:g}s", f"that is {count} evaluations; step is at least {least}s")
    return Evaluations(end_ns - (count - 1) * step_ns, step_ns, count)


def backtest_row(
    store: Reads,
    rule: Rule,
    receivers: Sequence[Receiver],
    past: Past,
    *,
    failure_only: Sequence[str],
    timeout_s: float,
) -> dict[str, Any]:
    """When the rule would have fired, whom it would have notified how often, in which sessions, and its values."""
    trial = run(rule, past, receivers, timeout_s=timeout_s)
    find_sessions(store, trial, failure_only=failure_only, timeout_s=timeout_s)
    shown = [*dict.fromkeys([*(one.labels for one in trial.firings), *_worst(rule, past)])][:LINES]
    return {
        "name": rule.name,
        "measure": rule.measure,
        "unit": MEASURES[rule.measure].unit,
        "condition": rule.condition.text,
        "threshold": rule.condition.limit(),
        "recover": rule.recover.text if rule.recover else None,
        **_counts(trial),
        "told": [
            {"receiver": receiver, "reason": reason, "messages": count}
            for (receiver, reason), count in sorted(trial.told.items())
        ],
        "firings": [
            {
                "labels": dict(one.labels),
                "since": rfc3339(one.since_ns),
                "fired": rfc3339(one.fired_ns),
                "resolved": rfc3339(one.resolved_ns) if one.resolved_ns else None,
                "seconds": (_end(trial, one.resolved_ns) - one.fired_ns) / SECOND,
                "peak": one.peak,
                "threshold": one.threshold,
                "sessions": one.sessions,
            }
            for one in trial.firings
        ],
        "label_sets": len(past.values.lines),
        "series": [
            {"labels": dict(labels), "points": _points(rule, past, labels), "states": _states(trial, labels)}
            for labels in shown
        ],
    }


def suggest_row(
    rule: Rule, receivers: Sequence[Receiver], past: Past, pages: float, *, timeout_s: float = 30
) -> dict[str, Any]:
    """The most sensitive threshold with at most `pages` a week, and the results of the others.

    Searched from the least sensitive threshold on: a rule that always fires pages only once, but is useless.
    """
    span_ns = past.at.step_ns * past.at.count
    rows: list[dict[str, Any]] = []
    found: dict[str, Any] | None = None
    enough = False
    for number in _candidates(rule, past):
        if not _may_hold(rule, number):
            continue
        trial = run(with_threshold(rule, number), past, receivers, timeout_s=timeout_s)
        weekly = trial.pages * WEEK / span_ns
        share = _counts(trial)["firing_seconds"] * SECOND / span_ns
        row = {
            "condition": trial.rule.condition.text,
            "recover": trial.rule.recover.text if trial.rule.recover else None,
            "threshold": number,
            "pages_per_week": round(weekly, 2),
            **_counts(trial),
        }
        rows.append(row)
        enough = enough or weekly > pages or share > 0.5
        found = found if enough else row
    return {
        "name": rule.name,
        "measure": rule.measure,
        "condition": rule.condition.text,
        "suggested": found,
        "rows": rows,
    }


def _may_hold(rule: Rule, number: float) -> bool:
    """Whether any value can meet the condition with this threshold: shares are at most 1, and nothing is below 0."""
    if rule.condition.previous_ns:
        return True
    most = 1.0 if MEASURES[rule.measure].unit == "share" else math.inf
    if rule.condition.upward:
        return number < most or (number == most and rule.condition.operator == ">=")
    return number > 0 or (number == 0 and rule.condition.operator == "<=")


def _counts(trial: Trial) -> dict[str, Any]:
    ends = [(one.fired_ns, _end(trial, one.resolved_ns)) for one in trial.firings]
    return {
        "fired": len(trial.firings),
        "firing_seconds": _covered(ends) / SECOND,
        "pages": trial.pages,
        "notifications": trial.notifications,
    }


def _end(trial: Trial, resolved_ns: int) -> int:
    return resolved_ns or trial.evaluations.at(trial.evaluations.count - 1)


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    """Nanoseconds in any of the spans."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _worst(rule: Rule, past: Past) -> list[Labels]:
    """Label sets, those that came furthest on the firing side first."""
    sign = -1 if rule.condition.upward else 1
    furthest = {
        labels: min((sign * value for _, value in past.values.edges(labels) if value is not None), default=math.inf)
        for labels in past.values.lines
    }
    return sorted(furthest, key=lambda labels: (furthest[labels], labels))


def _points(rule: Rule, past: Past, labels: Labels) -> list[dict[str, Any]]:
    """`time, value, threshold` where the value changed; of too many within some time the one nearest to firing."""
    steps = past.at
    found: list[tuple[int, float | None]] = past.values.edges(labels)
    if len(found) > POINTS:
        upward = rule.condition.upward
        best: dict[int, tuple[int, float | None]] = {}
        for number, value in found:
            place = number * POINTS // steps.count
            other = best.get(place)
            if other is None or other[1] is None or (value is not None and (value > other[1]) is upward):
                best[place] = (number, value)
        found = list(best.values())
    return [
        {
            "time": rfc3339(steps.at(number)),
            "value": value,
            "threshold": rule.condition.limit(past.baseline_at(labels, number)),
        }
        for number, value in found
    ]


def _states(trial: Trial, labels: Labels) -> list[dict[str, Any]]:
    at = trial.evaluations.at
    return [
        {"time": rfc3339(at(number)), "state": state.name.lower()} for number, state in trial.states.get(labels, ())
    ]


def _candidates(rule: Rule, past: Past) -> list[float]:
    """Round numbers among what was measured, the least sensitive first."""
    upward = rule.condition.upward
    values = set()
    for labels, line in past.values.lines.items():
        calls = {point.number: point.calls for point in line}
        for number, value in past.values.edges(labels):
            if value is None or calls.get(number, rule.min_calls) < rule.min_calls:
                continue
            baseline = past.baseline_at(labels, number)
            if rule.condition.previous_ns:
                value = value / baseline if baseline else None
            if value is not None:
                values.add(_round(value, upward))
    ordered = sorted(values, reverse=upward)
    if len(ordered) > CANDIDATES:
        ordered = [ordered[round(i * (len(ordered) - 1) / (CANDIDATES - 1))] for i in range(CANDIDATES)]
    return ordered


def _round(value: float, upward: bool) -> float:
    """To two digits, away from firing."""
    if not value:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return float(f"{(math.ceil if upward else math.floor)(round(value / unit, 9)) * unit:.10g}")


def with_threshold(rule: Rule, number: float) -> Rule:
    """The rule with another number; `recover` keeps its proportion."""
    condition = _renumbered(rule.condition, number)
    if rule.recover is None or not number:  # nothing is below 0
        return replace(rule, condition=condition, recover=None)
    ratio = rule.recover.number / rule.condition.number if rule.condition.number else 1.0
    return replace(rule, condition=condition, recover=_renumbered(rule.recover, float(f"{number * ratio:.3g}")))


def _renumbered(condition: Condition, number: float) -> Condition:
    """The condition with about this number, in the unit in which it is written."""
    found = re.fullmatch(r"\D*([0-9.]+)(.*)", condition.text.strip())
    assert found
    written, rest = float(found[1]), found[2]
    unit = condition.number / written if written else 1.0
    if not written and not condition.previous_ns:
        rest = ""
    shown = f"{Decimal(f'{number / unit:.6g}'):f}"
    return replace(condition, number=float(shown) * unit, text=f"{condition.operator} {shown}{rest}")
