"""What is told of an evaluation: to the other collectors of a cluster, and to /metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from collector import telemetry
from collector.alerts.dispatch import Health
from collector.alerts.notify import Scrub
from collector.alerts.recorder import Evaluation
from collector.alerts.rules import Rule
from collector.alerts.state import Alert, State
from collector.alerts.together import Together
from collector.measures.measure import Sample
from collector.times import DAY, SECOND

EVALUATIONS, RECEIVERS = "evaluations", "receivers"  # kinds
KEPT_S = DAY // SECOND


def tell(together: Together, evaluations: Mapping[str, Evaluation], health: Mapping[str, Health]) -> None:
    """Gives all collectors the values of the rules, and how deliveries went. Raises Unavailable."""
    together.put(EVALUATIONS, ((name, _without_rule(each)) for name, each in evaluations.items()), KEPT_S)
    together.put(RECEIVERS, ((key, msgspec.to_builtins(each)) for key, each in health.items()), KEPT_S)


def evaluations_of(rows: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Evaluation]:
    """The reverse, of rules that are known."""
    found = {}
    for name, row in rows.items():
        if row and name in rules:
            worst = msgspec.convert(row["worst"], tuple[Sample, ...])
            found[name] = Evaluation(**{**row, "worst": worst}, rule=rules[name])
    return found


def health_of(rows: Mapping[str, Any]) -> dict[str, Health]:
    """The reverse."""
    return {key: msgspec.convert(row, Health) for key, row in rows.items() if row}


def show(rules: Iterable[Rule], alerts: Collection[Alert], scrub: Scrub, *, here: bool) -> None:
    """Sets the gauges of /metrics: one for each rule, 0 if nothing fires; none where another collector evaluates."""
    telemetry.EVALUATING.set(here)
    telemetry.FIRING.clear()
    telemetry.PENDING.clear()
    for rule in rules if here else ():
        states = [alert.state for alert in alerts if alert.rule == rule.name]
        telemetry.FIRING.labels(scrub(rule.name), rule.severity).set(states.count(State.FIRING))
        telemetry.PENDING.labels(scrub(rule.name)).set(states.count(State.PENDING))


def _without_rule(evaluation: Evaluation) -> dict[str, Any]:
    names = ("label_sets", "evaluated_ns", "took_ms", "error")
    told = {name: getattr(evaluation, name) for name in names}
    return told | {"worst": msgspec.to_builtins(evaluation.worst)}
