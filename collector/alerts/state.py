"""What an alert is and how it changes: pure functions of the alert, its rule, one sample and the time.

No I/O and no clock here. An alert is one label set of one rule. It goes inactive, pending (the condition holds, but not
for long enough), firing, and back to inactive with the time of its resolution, which it keeps until the receivers know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from collector.alerts.rules import Receiver, Rule
from collector.measures.measure import Labels, Sample, labels_of
from collector.times import MINUTE

# A pending alert that was not evaluated for this long (a stopped collector, a sleeping laptop) starts its `for` again.
# So does one that was evaluated later than now: the clock was set back, and it would wait until that time comes again.
GAP_NS = 5 * MINUTE


def seen_as(name: str) -> str:
    """What receivers see a label of `by` as: an event's own severity steps aside for the rule's."""
    return "event_severity" if name == "severity" else name


class State(IntEnum):
    """In order of urgency: the state of a rule is the largest of its alerts'."""

    INACTIVE = 0
    PENDING = 1
    FIRING = 2


class Reason(StrEnum):
    """Why a receiver is notified about an alert now."""

    FIRST = "first"  # it fires, and this receiver was never told
    NEW = "new"  # it fires again after the firing that this receiver was told of
    RESOLVED = "resolved"
    REPEAT = "repeat"  # it still fires, and the receiver's repeat interval is over


@dataclass(frozen=True, slots=True)
class Alert:
    """One label set of one rule, as it was when it last had not recovered. Times are nanoseconds, 0 for never."""

    rule: str
    labels: Labels
    state: State
    value: float
    calls: int
    threshold: float
    since_ns: int  # the condition began to hold
    last_seen_ns: int  # the last evaluation at which it had not recovered
    fired_ns: int = 0  # identifies one firing of the alert
    resolved_ns: int = 0  # of the firing at fired_ns
    rule_labels: Labels = ()  # labels and severity of the rule at fired_ns: the resolution must have the same


@dataclass(frozen=True, slots=True)
class Notified:
    """The last notification of one receiver about one alert."""

    fired_ns: int
    resolved: bool
    sent_ns: int


def step(alert: Alert | None, rule: Rule, sample: Sample | None, now_ns: int) -> Alert | None:
    """The alert after one evaluation; None where there is nothing to remember.

    Without a sample nothing is left in the window: a firing alert resolves, a pending one ends. A value that rests on
    fewer than `min_calls` never starts or confirms an alert. It ends a firing one only where it looks recovered and
    nothing looked otherwise for a whole window.
    """
    if alert is not None and alert.state is State.FIRING:
        return _firing(alert, rule, sample, now_ns)
    if sample is not None and sample.calls >= rule.min_calls and rule.condition.holds(sample.value, sample.baseline):
        return _holding(alert, rule, sample, now_ns)
    if alert is None or not alert.resolved_ns:
        return None
    return replace(alert, state=State.INACTIVE)


def rule_labels(rule: Rule) -> Labels:
    """What a rule adds to the labels of its alerts."""
    return labels_of({**(rule.labels or {}), "severity": rule.severity})


def _holding(alert: Alert | None, rule: Rule, sample: Sample, now_ns: int) -> Alert:
    """Not firing yet, and the condition holds. An earlier firing's times stay until it fires again."""
    since_ns = now_ns
    if alert is not None and alert.state is State.PENDING:
        seen = 0 <= now_ns - alert.last_seen_ns <= max(rule.for_ns, GAP_NS)
        since_ns = alert.since_ns if seen else now_ns
    fires = now_ns - since_ns >= rule.for_ns
    return Alert(
        rule=rule.name,
        labels=labels_of(sample.labels),
        state=State.FIRING if fires else State.PENDING,
        value=sample.value or 0.0,
        calls=sample.calls,
        threshold=rule.condition.limit(sample.baseline) or 0.0,
        since_ns=since_ns,
        last_seen_ns=now_ns,
        fired_ns=now_ns if fires else alert.fired_ns if alert else 0,
        resolved_ns=0 if fires else alert.resolved_ns if alert else 0,
        rule_labels=rule_labels(rule) if fires else alert.rule_labels if alert else (),
    )


def _firing(alert: Alert, rule: Rule, sample: Sample | None, now_ns: int) -> Alert:
    if now_ns < alert.last_seen_ns:  # the clock was set back
        alert = replace(alert, last_seen_ns=now_ns)
    quiet_ns = now_ns - alert.last_seen_ns
    certain = True
    if sample is not None and sample.value is not None:
        if not rule.recovered(sample.value, sample.baseline):
            limit = rule.condition.limit(sample.baseline)
            threshold = alert.threshold if limit is None else limit
            return replace(alert, value=sample.value, calls=sample.calls, threshold=threshold, last_seen_ns=now_ns)
        certain = sample.calls >= rule.min_calls or quiet_ns >= rule.window_ns
    if not certain or quiet_ns < rule.keep_firing_ns:
        return alert
    return replace(alert, state=State.INACTIVE, resolved_ns=max(now_ns, alert.fired_ns))


def due(alert: Alert, last: Notified | None, receiver: Receiver, now_ns: int) -> Reason | None:
    """Why this receiver must be notified about the alert now; None if it was, need not be, or should wait.

    A receiver that was notified of a firing is notified of its end, also if the alert has fired again since.
    """
    if alert.state is State.FIRING:
        if last is None or last.fired_ns != alert.fired_ns:
            waits = 0 <= now_ns - alert.fired_ns < receiver.group_wait_ns  # below 0, the clock was set back
            return None if waits else Reason.NEW if last else Reason.FIRST
        return Reason.REPEAT if now_ns - last.sent_ns >= receiver.repeat_ns else None
    return Reason.RESOLVED if alert.resolved_ns and last is not None and not last.resolved else None
