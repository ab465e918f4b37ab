"""Sends notifications: by HTTP, or with Apprise. Each failure says whether trying again may help."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from collector.alerts import incidents
from collector.alerts.notify import Notification, alertmanager, describe, group_of, text
from collector.alerts.rules import Receiver, Rule, parse_condition
from collector.alerts.state import Alert, Reason, State
from collector.errors import Rejected, Unavailable
from collector.times import retry_after_s

if TYPE_CHECKING:
    import ssl

    import httpx

TIMEOUT_S = 5.0  # for all of an answer to a POST
MOST_READ = 64 << 10  # bytes of it
STEP_S = 30.0  # for each answer of a service behind Apprise


def send(notification: Notification) -> None:
    """Sends a message. Raises Unavailable if retrying may help, else Rejected, and nothing else.

    One that is retried after some of its requests were taken changes nothing by these: they have the same keys.
    """
    receiver = notification.receiver
    if receiver.kind == "apprise":
        for address, message in _messages(notification):
            _apprise(address, message)
        return
    if receiver.kind == "webhook":  # Alertmanager's JSON, so that receivers made for Alertmanager work
        _post(receiver.address, alertmanager(notification), {})
        return
    for call in incidents.calls(notification, time.time_ns()):
        _post(*call)


def _messages(notification: Notification) -> list[tuple[str, Notification]]:
    """What goes by Apprise, and where: of a service that keeps incidents, each alert under its own key."""
    receiver = notification.receiver
    if not receiver.incident_key:
        return [(receiver.address, notification)]
    mark = "&" if "?" in receiver.address else "?"
    keyed = f"{receiver.address}{mark}action=map&{receiver.incident_key}="
    return [
        (keyed + incidents.key_of(item), replace(notification, alerts=(item.alert,), items=(item,)))
        for item in notification.items
    ]


def tell(receiver: Receiver, now_ns: int) -> dict[str, Any]:
    """Sends a test message to one address; what became of it. An incident that it opens is closed at once."""
    trial = trial_message(receiver, now_ns)
    try:
        send(trial)
        if receiver.one_each:
            send(_over(trial, now_ns))
    except (Rejected, Unavailable) as error:
        return {"receiver": receiver.key, "sent": False, "error": str(error)}
    return {"receiver": receiver.key, "sent": True, "error": None}


def trial_message(receiver: Receiver, now_ns: int) -> Notification:
    """The test message: about an alert that fires without cause."""
    rule = Rule(
        "misstep-test",
        "errors",
        parse_condition("> 0", "errors"),
        {},
        severity="info",
        summary="This is a test. Alerts will reach you here.",
    )
    alert = Alert(rule.name, (), State.FIRING, 1.0, 1, 0.0, now_ns, now_ns, now_ns)
    item = describe(rule, alert, scrub=str)
    return Notification(receiver, group_of(item.labels, receiver), Reason.FIRST, (alert,), (item,))


def _over(trial: Notification, now_ns: int) -> Notification:
    """The same message about the same alerts once they are resolved."""
    items = tuple(
        replace(item, alert=replace(item.alert, state=State.INACTIVE, resolved_ns=now_ns)) for item in trial.items
    )
    return replace(trial, reason=Reason.RESOLVED, alerts=tuple(item.alert for item in items), items=items)


def _post(address: str, payload: object, headers: Mapping[str, str]) -> None:
    import httpx  # 10 MiB, for who has a receiver

    logging.getLogger("httpx").setLevel(logging.WARNING)  # its INFO lines hold the address, which is often the secret
    try:
        answer = asyncio.run(_answer(address, payload, headers))
    except TimeoutError:
        raise Unavailable(f"did not answer within {TIMEOUT_S:g} s") from None
    except httpx.TransportError as error:
        raise Unavailable(f"cannot be reached: {type(error).__name__}") from None
    except (httpx.InvalidURL, ValueError):
        raise Rejected("the address is not one that can be posted to") from None
    if answer.is_success:
        return
    if answer.status_code in (408, 425, 429) or answer.status_code >= 500:
        after = retry_after_s(answer.headers.get("Retry-After", ""), time.time())
        raise Unavailable(f"answered {answer.status_code}", after or 1.0)
    raise Rejected(f"answered {answer.status_code}")


async def _answer(address: str, payload: object, headers: Mapping[str, str]) -> httpx.Response:
    """What is answered, with the beginning of its body read. Only a task can be given a time for all of it:
    httpx's own limit is for each read.
    """
    import httpx

    async with (
        asyncio.timeout(TIMEOUT_S),
        httpx.AsyncClient(timeout=None, verify=_trusted()) as client,
        client.stream("POST", address, json=payload, headers=headers) as answer,
    ):
        read = 0
        async for part in answer.aiter_raw():
            read += len(part)
            if read >= MOST_READ:
                break
    return answer


@cache
def _trusted() -> ssl.SSLContext:
    """The certificate authorities that this machine trusts: reading them takes longer than most messages."""
    import httpx

    return httpx.create_ssl_context()


def _apprise(address: str, message: Notification) -> None:
    from apprise import Apprise, NotifyFormat, NotifyType  # 35 MiB with its services

    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines may hold the address
    channel = Apprise()
    if not channel.add(address):
        raise Rejected("Apprise does not know this address")
    for service in channel:
        service.socket_connect_timeout = max(service.socket_connect_timeout, STEP_S)  # SMTP's for every answer
        service.socket_read_timeout = max(service.socket_read_timeout, STEP_S)
    kind = NotifyType.WARNING if message.status == "firing" else NotifyType.SUCCESS
    if message.receiver.incident_key and message.items[0].firing and message.items[0].labels["severity"] == "critical":
        kind = NotifyType.FAILURE  # what pages, of services that tell warnings apart
    title, body = text(message)
    try:  # without a time for all of it: Apprise would go on with what it no longer waits for, and so send it twice
        sent = channel.notify(body=body, title=title, notify_type=kind, body_format=NotifyFormat.TEXT)
    except Exception as error:  # a failing plug-in of Apprise must not look like a defect of ours
        raise Unavailable(f"Apprise failed: {type(error).__name__}") from None
    if not sent:
        raise Unavailable("was not taken by the service; Apprise does not say why")
