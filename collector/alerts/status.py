"""Alerting as the rows of API answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from collector.alerts.engine import Engine
from collector.alerts.ledger import UNTIL_RESOLVED, Silence
from collector.alerts.notify import Item, Scrub, format_condition, format_value
from collector.alerts.recorder import Evaluation
from collector.alerts.rulefile import Mistake
from collector.alerts.rules import MEASURES, SEVERITIES, Rule
from collector.alerts.state import Alert, State
from collector.measures.measure import Labels
from collector.projects import PROJECT
from collector.times import SECOND, rfc3339


def alert_rows(engine: Engine, now_ns: int) -> list[dict[str, Any]]:
    """Alerts that are pending or firing, or resolved with a receiver yet to be notified; the most urgent first."""
    rules = {rule.name: rule for rule in engine.book.file.rules}
    items = sorted(
        (item for item in engine.items.values() if _is_seen(item.alert.labels)),
        key=lambda item: (-item.alert.state, SEVERITIES.index(item.labels["severity"]), -item.alert.since_ns),
    )
    return [_alert_row(engine, rules.get(item.alert.rule), item, now_ns) for item in items]


def _alert_row(engine: Engine, rule: Rule | None, item: Item, now_ns: int) -> dict[str, Any]:
    alert = item.alert
    return {
        "rule": alert.rule,
        "labels": dict(alert.labels),
        "state": state_word(alert),
        "value": alert.value,
        "value_text": format_value(rule.measure, alert.value) if rule else f"{alert.value:g}",
        "threshold": alert.threshold,
        "condition": rule.condition.text if rule else "",
        "condition_text": format_condition(rule) if rule else "",
        "measure": rule.measure if rule else "",
        "calls": alert.calls,
        "since": at(alert.since_ns),
        "fired": at(alert.fired_ns),
        "resolved": at(alert.resolved_ns),
        "severity": item.labels["severity"],
        "summary": item.summary,
        "description": item.description,
        "evidence": item.evidence,
        "link": item.link,
        "trace_url": item.trace or None,
        "silenced": engine.silenced(alert, now_ns),
        "inhibited_by": engine.inhibited_by(alert) or None,
    }


def state_word(alert: Alert) -> str:
    """The state in the words of the pages."""
    return "resolved" if alert.state is State.INACTIVE else alert.state.name.lower()


def rule_rows(engine: Engine) -> list[dict[str, Any]]:
    """Every rule in force, in the file's order, with the value that is nearest to firing or beyond."""
    return [_rule_row(engine, rule, engine.evaluations.get(rule.name, Evaluation(rule))) for rule in rules_seen(engine)]


def rules_seen(engine: Engine) -> list[Rule]:
    """The rules in force; of them, in the context of one project, those whose alerts can be of it and of no other."""
    project = PROJECT.get()
    rules = engine.book.file.rules
    if project is None:
        return [*rules]
    own = ([project], project, None)
    return [rule for rule in rules if "project" in rule.by and rule.where.get("project") in own]


def _is_seen(labels: Labels | Mapping[str, str | None]) -> bool:
    """Whether who asks may see alerts and values with these labels."""
    project = PROJECT.get()
    return project is None or dict(labels).get("project") == project


def _rule_row(engine: Engine, rule: Rule, evaluation: Evaluation) -> dict[str, Any]:
    states = [alert.state for (name, labels), alert in engine.alerts.items() if name == rule.name and _is_seen(labels)]
    seen = [sample for sample in evaluation.worst if _is_seen(sample.labels)]
    worst = next(iter(seen), None)
    value = worst.value if worst else None
    return {
        "name": rule.name,
        "state": max(states, default=State.INACTIVE).name.lower(),
        "measure": rule.measure,
        "unit": MEASURES[rule.measure].unit,
        "where": rule.where,
        "by": list(rule.by),
        "window_s": rule.window_ns / SECOND,
        "condition": rule.condition.text,
        "condition_text": format_condition(rule),
        "recover": rule.recover.text if rule.recover else None,
        "min_calls": rule.min_calls,
        "for_s": rule.for_ns / SECOND,
        "keep_firing_for_s": rule.keep_firing_ns / SECOND,
        "severity": rule.severity,
        "labels": dict(rule.labels or {}),
        "summary": rule.summary,
        "description": rule.description,
        "notify": list(rule.notify),
        "inhibits": list(rule.inhibits),
        "lateness_s": rule.lateness_ns / SECOND,
        "line": rule.line or None,
        "value": value,
        "value_text": None if value is None else format_value(rule.measure, value),
        "threshold": rule.condition.limit(worst.baseline if worst else None),
        "calls": worst.calls if worst else 0,
        "label_sets": evaluation.label_sets if PROJECT.get() is None else len(seen),
        "evaluated": at(evaluation.evaluated_ns),
        "took_ms": round(evaluation.took_ms, 3),
        "error": evaluation.error or None,
    }


def history_rows(engine: Engine, since_ns: int, limit: int) -> list[dict[str, Any]]:
    """Firings that lasted beyond `since_ns`, newest first; `resolved` is null while one lasts."""
    return [
        {
            "rule": row["rule"],
            "labels": json.loads(row["labels"]),
            "fired": at(row["fired_ns"]),
            "resolved": at(row["resolved_ns"]),
            "severity": row["severity"],
            "value": row["value"],
            "threshold": row["threshold"],
            "summary": row["summary"],
        }
        for row in engine.ledger.history(since_ns, limit)
    ]


def sample_rows(engine: Engine, rule: str, start_ns: int, end_ns: int, limit: int) -> list[dict[str, Any]]:
    """The value of a rule over time, oldest first; it holds until the next row of its labels, null where none is."""
    return [
        {
            "time": at(row["time_ns"]),
            "labels": json.loads(row["labels"]),
            "value": row["value"],
            "calls": row["calls"],
            "threshold": row["threshold"],
            "state": State(row["state"]).name.lower(),
        }
        for row in engine.ledger.samples(rule, start_ns, end_ns, limit)
    ]


def silence_row(silence: Silence) -> dict[str, Any]:
    """Who silenced what, until when (`ends` is None: until resolved), and why."""
    return {
        "id": silence.id,
        "rule": silence.rule,
        "labels": dict(silence.labels),
        "author": silence.author,
        "reason": silence.reason,
        "starts": at(silence.starts_ns),
        "ends": at(silence.ends_ns) if silence.ends_ns != UNTIL_RESOLVED else None,
    }


def receiver_rows(engine: Engine) -> list[dict[str, Any]]:
    """Every address that is notified, by name only: addresses contain secrets."""
    health = engine.dispatch.health
    rows = []
    for receiver in engine.book.file.receivers:
        one = health.get(receiver.key)
        rows.append(
            {
                "receiver": receiver.key,
                "kind": receiver.kind,
                "success": at(one.success_ns) if one else None,
                "failure": at(one.failure_ns) if one else None,
                "failures": one.failures if one else 0,
                "error": one.error or None if one else None,
            }
        )
    return rows


def file_row(engine: Engine) -> dict[str, Any]:
    """Which file is in force, and what is wrong with the one that should be; in the context of one project, only when
    it was evaluated.
    """
    if PROJECT.get() is not None:
        return {"path": "", "mistakes": [], "error": None, "evaluated": at(engine.evaluated_ns)}
    error = engine.book.error
    return {
        "path": engine.book.file.path,
        "mistakes": [mistake_row(mistake, engine.scrub) for mistake in error.mistakes] if error else [],
        "error": engine.error or None,
        "evaluated": at(engine.evaluated_ns),
    }


def mistake_row(mistake: Mistake, scrub: Scrub) -> dict[str, Any]:
    """A mistake in a rule file, in parts and as one sentence; the file may hold secrets."""
    clean = Mistake(mistake.line, *map(scrub, (mistake.rule, mistake.field, mistake.value, mistake.message)))
    return {**asdict(clean), "text": str(clean)}


def at(time_ns: int) -> str | None:
    """A time as the API writes it; None for never."""
    return rfc3339(time_ns) if time_ns else None
