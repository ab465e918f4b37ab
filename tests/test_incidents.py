"""Alerts as incidents: one for each alert, closed by its own key, on the wire of each service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from collector.alerts.incidents import calls, key_of
from collector.alerts.rulefile import RuleError, parse_rules
from collector.alerts.rules import Receiver, receivers_of
from collector.alerts.send import _messages, send, tell
from collector.alerts.state import State
from collector.errors import Unavailable
from tests.conftest import HTTP, RunningCollector, wait_until
from tests.test_notify import ALERT, FIRED, MINUTE, SECRET, notification
from tests.webhook import Webhook

# Before Python 3.13, a service of Apprise imports it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

KEY = "k3y" + "A1" * 12
OVER = replace(ALERT, state=State.INACTIVE, value=0.1, resolved_ns=FIRED + 5 * MINUTE)
OTHER = replace(ALERT, labels=(("service", "web"),))
KINDS = ("pagerduty", "opsgenie", "alertmanager")


class Desk(Webhook):
    """Accepts what its API accepts, and keeps path, headers and body of each request."""

    def keep(self, path: str, headers: dict[str, str], body: bytes) -> None:
        super().keep(path, headers, body)
        self.taken[-1] = (path, headers, self.taken[-1])


@pytest.fixture
def desk() -> Iterator[Desk]:
    opened = Desk()
    yield opened
    opened.close()


def receiver(kind: str, url: str, **more: Any) -> Receiver:
    base = url.removesuffix("/hook")
    said = {"alertmanager": base} if kind == "alertmanager" else {kind: KEY, "api_url": base}
    return receivers_of("pager", said | more)[0]


def test_pagerduty_gets_one_incident_for_each_alert_and_the_end_of_each(desk: Desk) -> None:
    pager = receiver("pagerduty", desk.url)
    for alert in (ALERT, OTHER, ALERT, OVER):  # fired, another, repeated, resolved
        send(notification(alert, receiver=pager))
    assert {path for path, _, _ in desk.taken} == {"/v2/enqueue"}
    first, other, again, over = (body for _, _, body in desk.taken)
    assert [body["event_action"] for _, _, body in desk.taken] == ["trigger"] * 3 + ["resolve"]
    assert first["dedup_key"] == again["dedup_key"] == over["dedup_key"] != other["dedup_key"]
    assert over == {"routing_key": KEY, "event_action": "resolve", "dedup_key": first["dedup_key"]}
    assert first["client_url"] == first["links"][0]["href"]
    assert first["payload"] == {
        "summary": "apply_diff fails 34 % for api",
        "source": "api",
        "severity": "warning",
        "timestamp": "2026-11-21T21:41:51.123456789Z",
        "group": "diff-tool-failing",
        "custom_details": {
            "service": "api", "team": "agents", "alertname": "diff-tool-failing", "severity": "warning",
            "summary": "apply_diff fails 34 % for api", "description": "Look at api.", "value": "0.344",
            "link": first["client_url"],
        },
    }  # fmt: skip


def test_opsgenie_opens_by_alias_and_closes_by_it(desk: Desk) -> None:
    pager = receiver("opsgenie", desk.url)
    for alert in (ALERT, OVER):
        send(notification(alert, receiver=pager))
    (opened_at, headers, opened), (closed_at, closing, closed) = desk.taken
    assert (opened_at, headers["Authorization"]) == ("/v2/alerts", f"GenieKey {KEY}")
    assert closed_at == f"/v2/alerts/{opened['alias']}/close?identifierType=alias"
    assert closing["Authorization"] == f"GenieKey {KEY}"
    assert closed == {"source": "Misstep", "note": "apply_diff fails 10 % for api"}
    assert (opened["message"], opened["priority"]) == ("apply_diff fails 34 % for api", "P3")
    assert (opened["entity"], opened["tags"]) == ("api", ["diff-tool-failing"])
    assert opened["details"]["team"] == "agents"
    assert opened["description"].startswith("apply_diff fails 34 % for api\nLook at api.\nhttp://dash:8501/errors?")


def test_alertmanager_is_told_as_by_a_prometheus_server() -> None:
    manager = receiver("alertmanager", "http://h:9093/prefix/hook")
    assert manager.repeat_ns == MINUTE, "an Alertmanager forgets what it is not told again"
    [call] = calls(notification(ALERT, OVER, receiver=manager), FIRED + MINUTE)
    firing, resolved = call.body
    assert call.address == "http://h:9093/prefix/api/v2/alerts"
    assert firing["labels"] == resolved["labels"] == {
        "alertname": "diff-tool-failing", "service": "api", "severity": "warning", "team": "agents",
    }  # fmt: skip
    assert firing["startsAt"] == resolved["startsAt"] == "2026-11-21T21:41:51.123456789Z"
    assert firing["endsAt"] == "2026-11-21T21:47:51.123456789Z", "five minutes after now"
    assert resolved["endsAt"] == "2026-11-21T21:46:51.123456789Z"
    assert firing["generatorURL"].startswith("http://dash:8501/errors?")
    assert firing["annotations"]["summary"] == "apply_diff fails 34 % for api"
    slow = replace(manager, repeat_ns=10 * MINUTE)
    assert calls(notification(ALERT, receiver=slow), FIRED)[0].body[0]["endsAt"] == "2026-11-21T22:21:51.123456789Z"


def test_names_of_labels_are_those_that_every_alertmanager_takes() -> None:
    odd = replace(ALERT, labels=(("prompt.version", "1"), ("prompt-version", "2"), ("9lives", "x"), ("model", "")))
    [call] = calls(notification(odd, receiver=receiver("alertmanager", "http://h:9093/api/v2/alerts/hook")), FIRED)
    assert call.address == "http://h:9093/api/v2/alerts"
    said = call.body[0]["labels"]
    assert (said["prompt_version"], said["_9lives"], said["model"]) == ("2;1", "x", "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("status", "headers", "seconds"), [(429, {"Retry-After": "7"}, 7.0), (500, {}, 1.0)])
def test_what_was_not_taken_is_sent_again_with_the_same_key(
    kind: str, status: int, headers: dict[str, str], seconds: float, desk: Desk
) -> None:
    pager = receiver(kind, desk.url)
    desk.status, desk.headers = status, headers
    with pytest.raises(Unavailable, match=f"answered {status}") as caught:
        send(notification(ALERT, receiver=pager))
    assert caught.value.retry_after == seconds
    assert KEY not in str(caught.value)
    desk.status = 200
    send(notification(ALERT, receiver=pager))
    assert len(desk.taken) == 1


@pytest.mark.parametrize(("kind", "requests"), [("pagerduty", 2), ("opsgenie", 2), ("alertmanager", 1)])
def test_a_test_message_leaves_no_incident_open(kind: str, requests: int, desk: Desk) -> None:
    assert tell(receiver(kind, desk.url), FIRED) == {"receiver": "pager", "sent": True, "error": None}
    assert len(desk.taken) == requests
    last = desk.taken[-1][2]
    if kind == "pagerduty":
        assert last["event_action"] == "resolve"
    elif kind == "opsgenie":
        assert "/close?" in desk.taken[-1][0]
    else:
        assert last[0]["endsAt"] > last[0]["startsAt"], "is over by itself"
    desk.status = 403
    assert tell(receiver(kind, desk.url), FIRED)["error"] == "answered 403"


@pytest.mark.parametrize(
    ("address", "host", "key", "said"),
    [
        (f"pagerduty://route@{KEY}", "events.pagerduty.com", "route", {}),
        (f"pagerduty://route@{KEY}/ci/runner?region=eu&class=x", "events.eu.pagerduty.com", "route",
         {"source": "ci", "component": "runner", "class": "x"}),
        (f"PagerDuty://{KEY}?integrationkey=route&severity=crit", "events.pagerduty.com", "route",
         {"severity": "critical"}),
        (f"opsgenie://{KEY}", "api.opsgenie.com", KEY, {}),
        (f"opsgenie://{KEY}/#ops/@ann?region=eu", "api.eu.opsgenie.com", KEY,
         {"responders": [{"type": "team", "name": "ops"}, {"type": "user", "username": "ann"}]}),
    ],
)  # fmt: skip
def test_addresses_of_apprise_open_and_close_incidents_too(
    address: str, host: str, key: str, said: dict[str, Any]
) -> None:
    [pager] = receivers_of("pager", {"apprise": [address]})
    opened, closed = (calls(notification(alert, receiver=pager), FIRED)[0] for alert in (ALERT, OVER))
    assert opened.address.startswith(f"https://{host}/v2/")
    assert key in str(opened.headers | opened.body)
    body = opened.body.get("payload", opened.body)
    assert {name: body[name] for name in said} == said
    assert key_of(notification(ALERT).items[0]) in closed.address + str(closed.body)


KEYED = [
    ("splunk://route@X", "entity_id"), ("victorops://route@X/?batch=no", "entity_id"), ("signl4://X", "external_id"),
    ("goalerts://h.example/X", "dedup"), ("ilert://X", "dedup"), ("incidentio://src/X", "dedup"),
    ("firehydrant://X", "dedup"), ("squadcast://X", "dedup"),
    ("pagertree://int_A1b2C3d4", "thirdparty"), ("jira://X", "alias"),
]  # fmt: skip


@pytest.mark.parametrize(("address", "attribute"), KEYED)
def test_services_of_apprise_that_keep_incidents_get_the_key_of_each_alert(address: str, attribute: str) -> None:
    from apprise import Apprise

    [pager] = receivers_of("pager", {"apprise": [address.replace("X", KEY)]})
    both = replace(notification(ALERT, OTHER, receiver=pager), alerts=(ALERT, OTHER))
    told: list[tuple[Any, Any]] = [(Apprise.instantiate(place), one) for place, one in _messages(both)]
    keys = [key_of(item) for item in both.items]
    assert [getattr(service, attribute) for service, _ in told] == keys
    assert {service.action for service, _ in told} == {"map"}
    assert [one.items for _, one in told] == [(item,) for item in both.items]


@pytest.mark.parametrize("more", ["action=trigger", "entity_id=mine"])
def test_an_address_with_a_key_or_action_of_its_own_stays_as_it_is(more: str) -> None:
    [pager] = receivers_of("pager", {"apprise": [f"splunk://route@{KEY}?{more}"]})
    assert not pager.one_each
    assert [place for place, _ in _messages(notification(ALERT, receiver=pager))] == [pager.address]


def test_apprise_opens_and_closes_by_the_key(desk: Desk) -> None:
    host = desk.url.removeprefix("http://").removesuffix("/hook")
    [pager] = receivers_of("pager", {"apprise": [f"goalert://{host}/{UUID(int=7)}"]})
    for alert in (ALERT, OTHER, OVER):
        send(notification(alert, receiver=pager))
    opened, other, closed = (body for _, _, body in desk.taken)
    assert opened["dedup"] == closed["dedup"] == key_of(notification(ALERT).items[0]) != other["dedup"]
    assert ("action" in opened, closed["action"]) == (False, "close")


def test_alerts_that_share_a_name_are_messages_of_their_own() -> None:
    pager, team = receiver("pagerduty", "http://h/hook", group_by=["name"]), receiver("alertmanager", "http://h/hook")
    assert notification(ALERT, receiver=pager).group != notification(OTHER, receiver=pager).group
    assert notification(ALERT, receiver=team).group == notification(OTHER, receiver=team).group


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (f"{{pagerduty: {SECRET}:x}}", "write the key alone"),
        (f"{{pagerduty: '{SECRET} {SECRET}'}}", "write the key alone"),
        (f"{{opsgenie: {KEY}, api_url: '{SECRET}'}}", "write an http:// or https:// address"),
        (f"{{opsgenie: {KEY}, api_url: 'http://:80'}}", "names no host and port"),
        (f"{{alertmanager: 'http://u:{SECRET}@h:99999'}}", "names no host and port"),
        (f"{{alertmanager: {SECRET}}}", "write an http:// or https:// address"),
        (f"{{pagerduty: {KEY}, opsgenie: {KEY}}}", "give one of"),
    ],
)
def test_a_receiver_that_cannot_be_told_is_named_without_its_key(said: str, message: str) -> None:
    with pytest.raises(RuleError, match=message) as caught:
        parse_rules(f"receivers:\n  pager: {said}\n")
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_receiver_is_added_tried_and_told_by_a_collector(
    start_collector: Callable[..., RunningCollector], tmp_path: Path, desk: Desk
) -> None:
    path, base = tmp_path / "alerts.yaml", desk.url.removesuffix("/hook")
    path.write_text(
        "rules:\n  - {name: any-error, measure: errors, by: [service], condition: '> 0'}\n"
        f"receivers:\n  pager: {{pagerduty: {KEY}, api_url: '{base}'}}\n"
    )
    collector = start_collector(RULES=str(path), RECEIVER_HOSTS="127.0.0.1")
    tag = HTTP.get(f"{collector.url}/api/v1/receivers").headers["etag"]
    new = {"name": "am", "address": f"alertmanager://{base.removeprefix('http://')}/prefix"}
    added = collector.post("/api/v1/receivers", json.dumps(new), {"if-match": tag, "content-type": "application/json"})
    assert added.status_code == 201, added.text
    assert path.read_text().endswith(f"  am: {{alertmanager: '{base}/prefix'}}\n")
    for name in ("pager", "am"):
        tried = collector.post(f"/api/v1/receivers/{name}/test", "", {"content-type": "application/json"}).json()
        assert [row["sent"] for row in tried["rows"]] == [True]
    assert [place for place, _, _ in desk.taken] == ["/v2/enqueue"] * 2 + ["/prefix/api/v2/alerts"]

    desk.taken.clear()
    call = {"service": "shop", "tool": "x", "outcome": "error", "error_class": "FileNotFoundError", "message": "no"}
    assert collector.post("/v1/events", json.dumps(call)).is_success
    wait_until(lambda: {place for place, _, _ in desk.taken} == {"/v2/enqueue", "/prefix/api/v2/alerts"})
    [event] = [body for place, _, body in desk.taken if place == "/v2/enqueue"]
    [[alert]] = [body for place, _, body in desk.taken if place != "/v2/enqueue"]
    assert (event["event_action"], event["payload"]["source"]) == ("trigger", "shop")
    assert alert["labels"] == {"alertname": "any-error", "service": "shop", "severity": "warning"}
    told = json.dumps([collector.get("/api/v1/alerts"), collector.get("/api/v1/receivers")])
    assert KEY not in told + collector.logged()
    assert {row["kind"] for row in collector.get("/api/v1/alerts")["receivers"]} == {"pagerduty", "alertmanager"}
