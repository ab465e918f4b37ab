"""Which values of the rules are stored for charts: changes, sparsely, with a mark where a label set vanished."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest

from collector.alerts.ledger import Key, labels_text
from collector.alerts.rules import Rule
from collector.alerts.state import Alert, State
from collector.measures.measure import Sample, labels_of
from collector.times import MINUTE, SECOND

SHOWN_LABEL_SETS = 100  # of one rule, those nearest to firing or beyond
CHANGE_NS = MINUTE  # between two rows while the state stays
HEARTBEAT_NS = 600 * SECOND  # between two rows while the value stays


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How one rule was last evaluated. `error` is empty unless it failed or had to leave label sets out."""

    rule: Rule
    worst: tuple[Sample, ...] = ()  # see `worst_first`
    label_sets: int = 0
    evaluated_ns: int = 0
    took_ms: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    time_ns: int
    value: float | None
    state: State


class Recorder:
    """Remembers the last row of each label set."""

    def __init__(self) -> None:
        self._last: dict[Key, _Row] = {}

    def rows(
        self, evaluations: Iterable[Evaluation], alerts: Mapping[Key, Alert], now_ns: int
    ) -> list[dict[str, object]]:
        """Rows for alert_samples after an evaluation at `now_ns`. A rule that could not be evaluated adds none."""
        rows = []
        seen: set[Key] = set()
        for evaluation in evaluations:
            rule = evaluation.rule
            if evaluation.evaluated_ns != now_ns:
                seen |= {key for key in self._last if key[0] == rule.name}
                continue
            for sample in evaluation.worst:
                key = (rule.name, labels_of(sample.labels))
                state = alerts[key].state if key in alerts else State.INACTIVE
                seen.add(key)
                if self._keep(key, _Row(now_ns, sample.value, state)):
                    limit = rule.condition.limit(sample.baseline)
                    rows.append(_columns(key, self._last[key], sample.calls, limit))
        for key in [key for key in self._last if key not in seen]:
            del self._last[key]
            rows.append(_columns(key, _Row(now_ns, None, State.INACTIVE), 0, None))
        return rows

    def _keep(self, key: Key, row: _Row) -> bool:
        last = self._last.get(key)
        if last is not None and last.state == row.state:
            wait_ns = HEARTBEAT_NS if last.value == row.value else CHANGE_NS
            if row.time_ns - last.time_ns < wait_ns:
                return False
        self._last[key] = row
        return True


def worst_first(rule: Rule, samples: Iterable[Sample], alerts: Container[Key] = ()) -> tuple[Sample, ...]:
    """The SHOWN_LABEL_SETS samples that are nearest to firing or beyond: first those with an alert, then those that
    rest on enough calls, and of these the furthest on the firing side.
    """
    sign = -1 if rule.condition.upward else 1

    def nearness(one: Sample) -> tuple[bool, bool, bool, float]:
        value = one.value
        if value is not None and rule.condition.previous_ns:  # compared with a limit of its own
            limit = rule.condition.limit(one.baseline)
            value = value / limit if limit else None
        silent = (rule.name, labels_of(one.labels)) not in alerts
        return silent, one.calls < rule.min_calls, value is None, sign * (value or 0.0)

    return tuple(nsmallest(SHOWN_LABEL_SETS, samples, nearness))


def _columns(key: Key, row: _Row, calls: int, threshold: float | None) -> dict[str, object]:
    return {
        "time_ns": row.time_ns,
        "rule": key[0],
        "labels": labels_text(key[1]),
        "value": row.value,
        "calls": calls,
        "threshold": threshold,
        "state": row.state,
    }
