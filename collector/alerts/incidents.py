"""Alerts as incidents of services that keep a state for each: one for each alert, closed by the key that opened it.

Pure: what is posted where. The wire is that of PagerDuty's Events API v2, of Opsgenie's Alert API (which Jira Service
Management keeps under another address), and of Alertmanager's API v2, to which a Prometheus server posts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from collector.alerts.notify import Item, Notification, annotations_of
from collector.alerts.rules import Receiver
from collector.errors import Rejected
from collector.times import MINUTE, rfc3339

LASTS_NS = 5 * MINUTE  # at least, for Alertmanager: an alert that it is not told of again for this long is over there
REPEATS = 4  # that may be missed before it is, as Prometheus has it
PRIORITIES = {"critical": "P1", "warning": "P3", "info": "P5"}  # of Opsgenie


class Call(NamedTuple):
    """One request: a POST of JSON."""

    address: str
    body: Any
    headers: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Account:
    """Where incidents are opened. `fields` are what an address of Apprise adds to each."""

    key: str = field(repr=False)
    api_url: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def calls(notification: Notification, now_ns: int) -> list[Call]:
    """The requests that tell a receiver of incidents. Raises Rejected where its address is of no use."""
    return _CALLS[notification.receiver.kind](notification, now_ns)


def key_of(item: Item) -> str:
    """What opens and closes the incident of an alert; the same for every firing of it, so that a resolution that was
    lost leaves no second incident.
    """
    identity = json.dumps([item.alert.rule, item.alert.labels])
    return f"misstep-{hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()}"


def _pagerduty(notification: Notification, _: int) -> list[Call]:
    account = _account(notification.receiver, "https://events.pagerduty.com")
    address = f"{account.api_url}/v2/enqueue"
    return [Call(address, _event(item, account, notification.dashboard_url)) for item in notification.items]


def _event(item: Item, account: Account, dashboard_url: str) -> dict[str, Any]:
    known = {"routing_key": account.key, "dedup_key": key_of(item)}
    if not item.firing:
        return known | {"event_action": "resolve"}
    labels = item.labels
    payload = {
        "summary": item.summary[:1024],
        "source": labels.get("service") or "misstep",
        "severity": labels["severity"],
        "timestamp": rfc3339(item.alert.fired_ns),
        "component": labels.get("tool", ""),
        "group": labels["alertname"],
        "class": labels.get("error_class", ""),
        "custom_details": {**labels, **annotations_of(item)},
    }
    shown = {name: value for name, value in {**payload, **account.fields}.items() if value}
    opened: dict[str, Any] = {**known, "event_action": "trigger", "payload": shown, "client": "Misstep"}
    if links := [one for one in ((item.link, "What it counted"), (item.trace, "Trace")) if one[0]]:
        opened["links"] = [{"href": href, "text": text} for href, text in links]
    if page := item.link or dashboard_url:
        opened["client_url"] = page
    return opened


def _opsgenie(notification: Notification, _: int) -> list[Call]:
    account = _account(notification.receiver, "https://api.opsgenie.com")
    headers = {"Authorization": f"GenieKey {account.key}"}
    return [Call(*_alert(item, account), headers) for item in notification.items]


def _alert(item: Item, account: Account) -> tuple[str, dict[str, Any]]:
    alias, alerts = key_of(item), f"{account.api_url}/v2/alerts"
    if not item.firing:
        return f"{alerts}/{quote(alias)}/close?identifierType=alias", {"source": "Misstep", "note": item.summary}
    words = [item.summary, item.description, item.link, item.trace]
    labels = item.labels
    return alerts, {
        "message": item.summary[:130],
        "alias": alias,
        "description": "\n".join(word for word in words if word)[:15_000],
        "priority": PRIORITIES[labels["severity"]],
        "source": "Misstep",
        "entity": (labels.get("service") or "")[:512],
        "tags": [labels["alertname"][:50]],
        "details": {name: value[:500] for name, value in labels.items()},
        **account.fields,
    }


def _alertmanager(notification: Notification, now_ns: int) -> list[Call]:
    receiver = notification.receiver
    lasts_ns = max(LASTS_NS, REPEATS * receiver.repeat_ns)
    address = receiver.address.rstrip("/").removesuffix("/api/v2/alerts") + "/api/v2/alerts"
    alerts = [
        {
            "labels": _names(item.labels),
            "annotations": annotations_of(item),
            "startsAt": rfc3339(item.alert.fired_ns),
            "endsAt": rfc3339(now_ns + lasts_ns if item.firing else item.alert.resolved_ns),
            "generatorURL": item.link,
        }
        for item in notification.items
    ]
    return [Call(address, alerts)]


def _names(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels with names that every Alertmanager takes; values whose names become one are joined, as Prometheus does."""
    found: dict[str, str] = {}
    for name, value in sorted(labels.items()):
        plain = re.sub(r"^(?=\d)|[^a-zA-Z0-9_]", "_", name)
        found[plain] = f"{found[plain]};{value}" if plain in found else value
    return found


def _account(receiver: Receiver, api_url: str) -> Account:
    if "://" not in receiver.address:
        return Account(receiver.address, (receiver.api_url or api_url).rstrip("/"))
    from apprise import Apprise  # 35 MiB with its services, for who writes addresses as it does

    said: Any = Apprise.instantiate(receiver.address, suppress_exceptions=True)
    if said is None:
        raise Rejected("Apprise does not know this address")
    if said.region_name == "eu":
        api_url = api_url.replace("//api.", "//api.eu.").replace("//events.", "//events.eu.")
    named = _of_pagerduty(said) if receiver.kind == "pagerduty" else _of_opsgenie(said)
    return Account(named.pop("key"), receiver.api_url or api_url, {k: value for k, value in named.items() if value})


def _of_pagerduty(said: Any) -> dict[str, Any]:
    """What an address of Apprise says of PagerDuty; Apprise's own defaults are none of its user's words."""
    own = {name: getattr(said, name) for name in ("source", "component")}
    own = {name: value for name, value in own.items() if value != said.template_tokens[name]["default"]}
    return {"key": said.integration_key, **own, "group": said.group, "class": said.class_id, "severity": said.severity}


def _of_opsgenie(said: Any) -> dict[str, Any]:
    return {"key": said.apikey, "responders": said.targets}


_CALLS: Mapping[str, Callable[[Notification, int], list[Call]]] = {
    "pagerduty": _pagerduty, "opsgenie": _opsgenie, "alertmanager": _alertmanager,
}  # fmt: skip
