"""Decides which receiver is due which message, and sends it.

What is due is computed from saved state at every evaluation, so there is no queue that could grow or get lost: a
message that failed is due again. A receiver that fails is retried at growing intervals, and does not delay the others.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from collector.alerts.ledger import Key
from collector.alerts.notify import MAX_ALERTS, Item, Notification, Scrub, group_of
from collector.alerts.rules import SEVERITIES, Receiver
from collector.alerts.state import Alert, Notified, Reason, State, due
from collector.errors import Rejected, Unavailable
from collector.measures.measure import Labels
from collector.times import DAY, HOUR, SECOND

REST_NS = 15 * SECOND  # after a failure; doubled after each further one in a row
MAX_REST_NS = 300 * SECOND
_REASONS = (*Reason, None)  # in order of urgency
MESSAGES = 20  # to one receiver after one evaluation; the others are due at the next
ATTEMPTS_S = 10.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Health:
    """Delivery state of one address since start; successes before that come from the ledger.

    Nothing is sent to the address before `retry_ns`.
    """

    success_ns: int = 0
    failure_ns: int = 0
    error: str = ""
    failures: int = 0  # in a row
    retry_ns: int = 0


class Log(Protocol):
    """Where deliveries are recorded: collector.alerts.ledger.Ledger."""

    def sent(self) -> dict[tuple[str, Key], Notified]: ...

    def record_sent(self, receiver: str, sent: Mapping[Key, Notified]) -> None: ...


class Dispatch:
    """`deliver` may run in one thread for each receiver, beside one thread that calls the rest."""

    def __init__(
        self, ledger: Log, notify: Callable[[Notification], None], scrub: Scrub, clock: Callable[[], int]
    ) -> None:
        self._ledger = ledger
        self._notify = notify
        self._scrub = scrub
        self._clock = clock
        self._sent = ledger.sent()
        self._group_sent: dict[tuple[str, Labels], int] = {}
        self._refused: dict[tuple[str, Labels], int] = {}  # groups whose message was refused, until when they are left
        self._health: dict[str, Health] = {}
        for (receiver, _), one in sorted(self._sent.items(), key=lambda pair: pair[1].sent_ns):
            self._health[receiver] = Health(success_ns=one.sent_ns)
        self._lock = threading.Lock()

    @property
    def health(self) -> dict[str, Health]:
        """The state by key of the receiver; without those that were never tried."""
        with self._lock:
            return dict(self._health)

    def read_again(self) -> None:
        """Reloads from the ledger what was sent."""
        sent = self._ledger.sent()
        with self._lock:
            self._sent = sent

    def take_health(self, told: Mapping[str, Health]) -> None:
        """Takes the state of addresses from the collector that sends to them."""
        with self._lock:
            self._health |= told

    def set_back(self, now_ns: int) -> None:
        """To be called when the clock went back: later times count as now, and failing receivers are retried."""
        with self._lock:
            self._sent = {pair: replace(one, sent_ns=min(one.sent_ns, now_ns)) for pair, one in self._sent.items()}
            self._group_sent = {group: min(sent_ns, now_ns) for group, sent_ns in self._group_sent.items()}
            self._health = {key: replace(one, retry_ns=min(one.retry_ns, now_ns)) for key, one in self._health.items()}
            self._refused = {group: min(retry_ns, now_ns) for group, retry_ns in self._refused.items()}

    def forgive(self) -> None:
        """Retries every receiver at once: its address may have been corrected."""
        with self._lock:
            self._health = {key: replace(one, failures=0, retry_ns=0) for key, one in self._health.items()}
            self._refused = {}

    def forget(self, keys: Collection[Key]) -> None:
        """Forgets alerts that are over."""
        with self._lock:
            for pair in [pair for pair in self._sent if pair[1] in keys]:
                del self._sent[pair]

    def awaited(self, alert: Alert, receivers: Iterable[Receiver], now_ns: int) -> bool:
        """Whether any receiver has yet to be notified that this alert is resolved."""
        return any(self._reason(alert, receiver, now_ns) is Reason.RESOLVED for receiver in receivers)

    def due(
        self, items: Iterable[tuple[Item, Collection[str]]], receivers: Iterable[Receiver], now_ns: int
    ) -> list[Notification]:
        """The messages that are due. With each item come the names of its rule's receivers."""
        pairs = list(items)
        found = []
        for receiver in receivers:
            if self.health.get(receiver.key, Health()).retry_ns > now_ns:
                continue
            groups: defaultdict[Labels, list[tuple[Item, Reason | None]]] = defaultdict(list)
            for item, names in pairs:
                reason = self._reason(item.alert, receiver, now_ns)
                # A resolution is sent whatever the rule says by now; firing alerts are sent with their group.
                if reason is Reason.RESOLVED or (item.firing and receiver.name in names):
                    groups[group_of(item.labels, receiver)].append((item, reason))
            ready = (self._message(receiver, group, members, now_ns) for group, members in groups.items())
            found += [message for message in ready if message][:MESSAGES]
        return found

    def deliver(self, notification: Notification) -> bool:
        """Sends one message and records that it was delivered; False if the receiver takes none at present."""
        import stamina  # 2 MiB, only needed with receivers

        key = notification.receiver.key
        on = () if notification.receiver.kind == "apprise" else _pause  # it does not say whether waiting could help
        try:
            for attempt in stamina.retry_context(on=on, attempts=2, timeout=ATTEMPTS_S):
                with attempt:
                    self._notify(notification)
        except Exception as error:  # of any kind: the message is due again
            self._failed(key, notification.group, error)
            return isinstance(error, Rejected)  # that message; others may be taken
        self.record(notification)
        return True

    def record(self, notification: Notification) -> None:
        """Notes that a message was delivered."""
        key, now_ns = notification.receiver.key, self._clock()
        told = {
            (alert.rule, alert.labels): Notified(alert.fired_ns, alert.state is not State.FIRING, now_ns)
            for alert in (item.alert for item in notification.items)
        }
        self._ledger.record_sent(key, told)
        with self._lock:
            self._sent |= {(key, alert): sent for alert, sent in told.items()}
            recent = {group: sent_ns for group, sent_ns in self._group_sent.items() if now_ns - sent_ns < DAY}
            self._group_sent = recent | {(key, notification.group): now_ns}
            self._refused.pop((key, notification.group), None)
            self._health[key] = replace(self._health.get(key, Health()), success_ns=now_ns, failures=0, retry_ns=0)

    def tried(self, key: str, error: str | None) -> None:
        """Notes the result of a test message. After a success the receiver is no longer waited for."""
        now_ns = self._clock()
        with self._lock:
            last = self._health.get(key, Health())
            self._health[key] = (
                replace(last, failure_ns=now_ns, error=self._scrub(error))
                if error
                else replace(last, success_ns=now_ns, failures=0, retry_ns=0)
            )

    def _reason(self, alert: Alert, receiver: Receiver, now_ns: int) -> Reason | None:
        return due(alert, self._sent.get((receiver.key, (alert.rule, alert.labels))), receiver, now_ns)

    def _message(
        self, receiver: Receiver, group: Labels, members: Sequence[tuple[Item, Reason | None]], now_ns: int
    ) -> Notification | None:
        if self._refused.get((receiver.key, group), 0) > now_ns:
            return None
        if len(members) > MAX_ALERTS:
            members = sorted(members, key=_urgency)
        reasons = [reason for _, reason in members if reason]
        items = tuple(item for item, _ in members)
        # After a restart, only the deliveries of its alerts are known of a group.
        told = (self._sent.get((receiver.key, (item.alert.rule, item.alert.labels))) for item in items)
        last_ns = max([self._group_sent.get((receiver.key, group), 0), *(one.sent_ns for one in told if one)])
        if not reasons or now_ns - last_ns < receiver.group_interval_ns:
            return None
        reason = min(reasons, key=list(Reason).index)
        return Notification(receiver, group, reason, tuple(item.alert for item in items), items[:MAX_ALERTS])

    def _failed(self, key: str, group: Labels, error: Exception) -> None:
        said = str(error) if isinstance(error, Rejected | Unavailable) else type(error).__name__
        now_ns = self._clock()
        with self._lock:
            last = self._health.get(key, Health())
            rest_ns = min(REST_NS << min(last.failures, 10), MAX_REST_NS)
            if isinstance(error, Rejected):
                waiting = {one: retry_ns for one, retry_ns in self._refused.items() if retry_ns > now_ns}
                self._refused = waiting | {(key, group): now_ns + MAX_REST_NS}
                rest_ns = 0
            elif isinstance(error, Unavailable):
                rest_ns = max(rest_ns, min(int(error.retry_after * SECOND), HOUR))
            self._health[key] = replace(
                last, failure_ns=now_ns, error=self._scrub(said), failures=last.failures + 1, retry_ns=now_ns + rest_ns
            )
        log.warning("notification_failed", receiver=key, error=said, failures=last.failures + 1)


def _urgency(member: tuple[Item, Reason | None]) -> tuple[int, int]:
    """The order in a message, which names only the first MAX_ALERTS: alerts with a reason to notify come first."""
    item, reason = member
    return _REASONS.index(reason), SEVERITIES.index(item.labels["severity"])


def _pause(error: Exception) -> bool | float:
    """Seconds until the second attempt; longer pauses that a receiver demands happen between evaluations."""
    return error.retry_after if isinstance(error, Unavailable) and error.retry_after <= 2 else False


def in_batches(messages: Iterable[Notification]) -> Mapping[str, list[Notification]]:
    """Messages by key of their receiver."""
    batches: defaultdict[str, list[Notification]] = defaultdict(list)
    for message in messages:
        batches[message.receiver.key].append(message)
    return batches
