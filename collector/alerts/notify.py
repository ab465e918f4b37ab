"""From alerts to messages: what a notification says. Pure; sending it is in send.py.

Labels come from agents and are hostile: in sentences they can neither mention anybody, nor start a line or name a link.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from collector.alerts import summary
from collector.alerts.rules import MEASURES, Receiver, Rule
from collector.alerts.state import Alert, Reason, State, rule_labels, seen_as
from collector.measures.families import GONE
from collector.measures.measure import Labels
from collector.query.filters import escaped
from collector.times import SECOND, lasting, rfc3339
from collector.trace_links import trace_link
from collector.visible import visible

MAX_ALERTS = 100  # per message; further ones are only counted
PAGES = {  # of the dashboard, by measure; the others are about errors
    "calls": "tools", "p95_ms": "tools", "silent": "sources", "streak": "streaks", "streaks": "streaks",
    "recovery_rate": "retries", "retries": "retries",
}  # fmt: skip
NEVER = "0001-01-01T00:00:00Z"  # Alertmanager's endsAt of an alert that still fires

Scrub = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Item:
    """One alert in words: everything that is sent or shown of it, without secrets."""

    alert: Alert
    labels: Mapping[str, str]
    summary: str
    description: str
    evidence: str  # the dashboard's page about it, with its parameters
    link: str  # to that page; empty if the dashboard's address is not known
    trace: str = ""  # link to a trace viewer, if the labels name what its address needs

    @property
    def firing(self) -> bool:
        return self.alert.state is State.FIRING


@dataclass(frozen=True, slots=True)
class Notification:
    """One message to one receiver about the alerts of one group. `items` are the first of `alerts`."""

    receiver: Receiver
    group: Labels
    reason: Reason
    alerts: tuple[Alert, ...]
    items: tuple[Item, ...]
    dashboard_url: str = ""

    @property
    def status(self) -> str:
        return "firing" if any(alert.state is State.FIRING for alert in self.alerts) else "resolved"


def describe(rule: Rule, alert: Alert, *, scrub: Scrub, dashboard_url: str = "", trace_url: str = "") -> Item:
    """The words for an alert. `scrub` removes secrets from a text."""
    shown = {name: _plain(scrub(value)) or summary.NOTHING for name, value in alert.labels}
    values = {
        **shown,
        "value": _whole(alert.value),
        "threshold": _whole(alert.threshold),
        "calls": alert.calls,
        "name": rule.name,
        "severity": rule.severity,
    }
    text = summary.render(rule.summary, values) if rule.summary else _default_summary(rule, alert, shown)
    own = {name: scrub(value) for name, value in alert.labels}
    evidence = _evidence(rule, alert, own)
    return Item(
        alert=alert,
        labels=labels(rule, alert, scrub),
        summary=scrub(" ".join(text.split())),
        description=scrub(summary.render(rule.description, values)),
        evidence=evidence,
        link=f"{dashboard_url.rstrip('/')}/{evidence}" if dashboard_url else "",
        trace=trace_link(trace_url, own),
    )


def _whole(value: float) -> float:
    """A count as people write it: 3, not 3.0."""
    return int(value) if float(value).is_integer() else value


def labels(rule: Rule, alert: Alert, scrub: Scrub) -> dict[str, str]:
    """All labels as receivers see them: those of the rule as it was when the alert fired."""
    own = {seen_as(name): scrub(value) for name, value in alert.labels}
    told = {name: scrub(value) for name, value in alert.rule_labels or rule_labels(rule)}
    return {**own, **told, "alertname": rule.name}


def group_of(item_labels: Mapping[str, str], receiver: Receiver) -> Labels:
    """The labels that an alert shares with the others of its message: all of them, where every alert has its own."""
    if receiver.one_each:
        return tuple(sorted(item_labels.items()))
    names = ["alertname" if name == "name" else name for name in receiver.group_by]
    return tuple((name, item_labels.get(name, "")) for name in names)


def alertmanager(notification: Notification) -> dict[str, Any]:
    """The notification as Alertmanager's webhook JSON, version 4."""
    items = notification.items
    annotations = [annotations_of(item) for item in items]
    group = dict(notification.group)
    return {
        "version": "4",
        "groupKey": "{}:{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in notification.group) + "}",
        "truncatedAlerts": len(notification.alerts) - len(items),
        "status": notification.status,
        "receiver": notification.receiver.name,
        "groupLabels": group,
        "commonLabels": _common([item.labels for item in items]),
        "commonAnnotations": _common(annotations),
        "externalURL": notification.dashboard_url,
        "alerts": [
            {
                "status": "firing" if item.firing else "resolved",
                "labels": item.labels,
                "annotations": words,
                "startsAt": rfc3339(item.alert.fired_ns),
                "endsAt": NEVER if item.firing else rfc3339(item.alert.resolved_ns),
                "generatorURL": item.link,
                "fingerprint": _fingerprint(item.labels),
            }
            for item, words in zip(items, annotations, strict=True)
        ],
    }


def text(notification: Notification) -> tuple[str, str]:
    """The notification as title and body for people."""
    items, count = notification.items, len(notification.alerts)
    group = ", ".join(_plain(value) for _, value in notification.group if value)
    title = f"{notification.status}: {group or 'alerts'}"
    if len(items) > 1:
        title += f" ({count})"
    parts = [_part(item) for item in sorted(items, key=lambda item: not item.firing)]
    if count > len(items):
        parts.append(f"and {count - len(items)} more")
    return title, "\n\n".join(parts)


def _part(item: Item) -> str:
    """One alert of a message: its summary, and while it fires its description, and its link."""
    lines = [f"{'firing' if item.firing else 'resolved'} [{item.labels['severity']}]: {item.summary}"]
    if item.firing and item.description:
        lines.append(item.description)
    lines += [link for link in (item.link, item.trace) if link]
    return "\n".join(lines)


def _default_summary(rule: Rule, alert: Alert, shown: Mapping[str, str]) -> str:
    value = format_value(rule.measure, alert.value)
    where = ", ".join(f"{name} {value}" for name, value in shown.items() if value)
    return f"{rule.name}: {rule.measure} {value}, condition {format_condition(rule)}" + (f" ({where})" if where else "")


def format_value(measure: str, value: float) -> str:
    """A measure's value for people: "34 %", "12 min", "850 ms", "2.1 s", "7"."""
    unit = MEASURES[measure].unit
    if unit == "share":
        return summary.percent(value)
    if unit == "s":
        return summary.duration(value)
    return lasting(value) if unit == "ms" else summary.number(value)


def format_condition(rule: Rule) -> str:
    """A rule's condition for people, in the unit of its values: "> 50 %", "≥ 3", "> 2 × the 7 d before"."""
    condition = rule.condition
    sign = {">=": "≥", "<=": "≤"}.get(condition.operator, condition.operator)
    if condition.previous_ns:
        before = summary.duration(condition.previous_ns / SECOND)
        return f"{sign} {summary.number(condition.number)} × the {before} before"
    return f"{sign} {format_value(rule.measure, condition.number)}"


def _evidence(rule: Rule, alert: Alert, own: Mapping[str, str]) -> str:
    """The session, else what the rule counted while it held, on the page that shows its measure."""
    if own.get("session"):
        page, query = "session", {name: own[name] for name in ("session", "service") if name in own}
    else:
        group = str(rule.where.get("fingerprint", ""))
        page = PAGES.get(rule.measure, "group" if group.isdecimal() else "errors")
        if page == "tools":  # which lists nothing but calls of tools
            of_tools = rule.where.get("operation") in ("tool", ["tool"]) or rule.where.get("tool")
            page = "tool" if own.get("tool") else "tools" if of_tools else "errors"
        end_ns = alert.resolved_ns or alert.last_seen_ns
        query = {name: _filter(value) for name, value in rule.where.items()}
        query |= {name: escaped(value) for name, value in own.items()}
        start_ns = alert.since_ns - (GONE if rule.measure == "silent" else rule.window_ns)
        query |= {"from": rfc3339(start_ns - rule.lateness_ns), "to": rfc3339(end_ns - rule.lateness_ns)}
    return f"{page}?{urlencode(query)}"


def _filter(value: Sequence[str] | str | bool) -> str:
    """A rule's filter in the grammar of the query API, where a comma separates values."""
    if isinstance(value, bool):
        return str(value).lower()
    values = [value] if isinstance(value, str) else value
    return ",".join("!" * one.startswith("!") + escaped(one.removeprefix("!")) for one in values)


def _plain(value: str) -> str:
    """A label inside a sentence: one line, bounded, with nothing that chat services read as a mention or a link, and
    nothing that turns the direction of what follows or is not seen.
    """
    seen = visible(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", value))
    calm = re.sub(r"[@<]|\](?=\()", "\\g<0>\u200b", seen)
    return calm if len(calm) <= 200 else calm[:199] + "…"


def annotations_of(item: Item) -> dict[str, str]:
    """What is said of an alert besides its labels."""
    words = {
        "summary": item.summary,
        "description": item.description,
        "link": item.link,
        "trace": item.trace,
        "value": f"{item.alert.value:g}",
    }
    return {name: value for name, value in words.items() if value}


def _common(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all rows agree in."""
    first, *others = rows
    return {name: value for name, value in first.items() if all(row.get(name) == value for row in others)}


def _fingerprint(item_labels: Mapping[str, str]) -> str:
    return hashlib.blake2b(json.dumps(item_labels, sort_keys=True).encode(), digest_size=8).hexdigest()
