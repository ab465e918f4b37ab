"""Runs a rule over stored history: when it would have fired, for how long, and who would have been notified how often.

The values come from one statement for all evaluations (collector/measures/history.py); states and messages from
the same `step` and the same `Dispatch` that run live, with a ledger in memory.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from collector.alerts.dispatch import Dispatch
from collector.alerts.ledger import Key
from collector.alerts.notify import Item, labels
from collector.alerts.rules import Condition, Receiver, Rule
from collector.alerts.state import Alert, Notified, Reason, State, step
from collector.engine import Reads
from collector.errors import QueryTimeout
from collector.measures.history import History, Point, history
from collector.measures.history_sql import Evaluations
from collector.measures.measure import Labels, Sample
from collector.projects import PROJECT
from collector.query.filters import Selection, escaped, terms_of, terms_of_rule
from collector.query.retries import relation
from collector.query.streaks import KINDS

MOST_FIRINGS = 1_000
REMEMBERED_S = 120
REMEMBERED_BYTES = 64 << 20
POINT_BYTES, LINE_BYTES = 25, 450
SESSIONS = 20  # per firing, those with most events first
SESSION_FIRINGS = 50

# Which events of a session count as evidence for a firing.
EVIDENCE = {"calls": "true", "p95_ms": "true", "silent": "false"} | dict.fromkeys(
    ("streak", "streaks"), KINDS["mistake"]
)

# The receiver if the rule names none.
ANYBODY = Receiver("anybody", "anybody", "")


@dataclass(slots=True)
class Firing:
    """One firing of one label set. `resolved_ns` is 0 if it still fired at the end; `peak` is its worst value."""

    labels: Labels
    since_ns: int
    fired_ns: int
    resolved_ns: int = 0
    peak: float = 0.0
    threshold: float = 0.0
    sessions: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Trial:
    """What a rule would have done. `told` counts messages by receiver and reason; `states` has the changes of each."""

    rule: Rule
    evaluations: Evaluations
    firings: list[Firing] = field(default_factory=list)
    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    states: dict[Labels, list[tuple[int, State]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def pages(self) -> int:
        """Messages about a firing that the receiver did not know of."""
        return sum(count for (_, reason), count in self.told.items() if reason in (Reason.FIRST, Reason.NEW))

    @property
    def notifications(self) -> int:
        """All messages, with repeats and resolutions."""
        return sum(self.told.values())


@dataclass(frozen=True, slots=True)
class Past:
    """What a rule measured, and its baseline if it has one."""

    at: Evaluations
    values: History
    baseline: History | None = None
    scale: float = 1.0

    def baseline_at(self, labels: Labels, number: int) -> float | None:
        """What the rule compared with at an evaluation."""
        line = self.baseline.lines.get(labels, ()) if self.baseline else ()
        place = bisect_right(line, number, key=lambda point: point.number)
        point = line[place - 1] if place else None
        return None if point is None or not point.there or point.value is None else point.value * self.scale

    @property
    def bytes(self) -> int:
        """About how much memory this takes."""
        both = [one for one in (self.values, self.baseline) if one]
        return sum(POINT_BYTES * one.points + LINE_BYTES * len(one.lines) for one in both)

    def reaching(self, condition: Condition) -> list[Labels]:
        """The label sets for which the condition held at some evaluation; all where it has a baseline."""
        if self.baseline:
            return list({**self.values.lines, **self.baseline.lines})
        every = self.values
        return [labels for labels in every.lines if any(condition.holds(value) for _, value in every.edges(labels))]


def look_back(
    store: Reads, rule: Rule, evaluations: Evaluations, *, failure_only: Sequence[str] = (), timeout_s: float = 30
) -> Past:
    """What the rule would have measured at these evaluations. Raises BadParameter and QueryTimeout."""

    def ask(at: Evaluations, window_ns: int) -> History:
        return history(
            store, rule.measure, rule.where, rule.by, at, window_ns, failure_only=failure_only, timeout_s=timeout_s
        )

    ends = evaluations.shifted(rule.lateness_ns)
    values = ask(ends, rule.window_ns)
    previous_ns = rule.condition.previous_ns
    if not previous_ns:
        return Past(evaluations, values)
    return Past(evaluations, values, ask(ends.shifted(rule.window_ns), previous_ns), rule.scale)


class LookedBack:
    """`look_back` with its last answer cached, so that trying another threshold needs no query.

    Events that arrive meanwhile are missing from it. Any thread may call it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: tuple[float, str, Past] | None = None

    def __call__(
        self, store: Reads, rule: Rule, evaluations: Evaluations, *, failure_only: Sequence[str], timeout_s: float
    ) -> Past:
        """As `look_back`."""
        about = (rule.measure, rule.where, rule.by, rule.window_ns, rule.lateness_ns, rule.condition.previous_ns)
        asked = repr((PROJECT.get(), about, evaluations))
        last = self._last
        if last and last[1] == asked and self._clock() - last[0] < REMEMBERED_S:
            return last[2]
        past = look_back(store, rule, evaluations, failure_only=failure_only, timeout_s=timeout_s)
        self._last = (self._clock(), asked, past) if past.bytes <= REMEMBERED_BYTES else None
        return past


def run(rule: Rule, past: Past, receivers: Sequence[Receiver], *, timeout_s: float = 30) -> Trial:
    """Steps the rule through what it measured. Raises QueryTimeout."""
    deadline = time.monotonic() + timeout_s
    told = [one for one in receivers if one.name in rule.notify] or [ANYBODY]
    if not rule.notify:
        rule = replace(rule, notify=(ANYBODY.name,))
    evaluations = past.at
    trial = Trial(rule, evaluations)
    replay = _Replay(rule, told, trial)
    for number, samples in _looks(past, rule, replay.alerts):
        if time.monotonic() > deadline:
            raise QueryTimeout(f"the rule took longer than {timeout_s:g} s to step through")
        replay.evaluate(samples, evaluations.at(number), number)
    return trial


def find_sessions(store: Reads, trial: Trial, *, failure_only: Sequence[str] = (), timeout_s: float = 30) -> None:
    """Adds to each of the first firings the sessions whose events caused it."""
    rule = trial.rule
    evidence = EVIDENCE.get(rule.measure, "outcome = 'error'")
    end_ns = trial.evaluations.at(trial.evaluations.count - 1)
    deadline = time.monotonic() + timeout_s
    for firing in trial.firings[:SESSION_FIRINGS]:
        own = [term for name, value in firing.labels for term in terms_of(name, escaped(value))]
        selection = Selection(
            max(0, firing.since_ns - rule.window_ns),
            firing.resolved_ns or end_ns,
            (*terms_of_rule(rule.where), *own),
            failure_only=tuple(failure_only),
            clock_ns=end_ns,
        )
        sql = f"""select service, session, count(*) as events from {relation(selection)}
          where {selection.where()} and {evidence} and session is not null
          group by project, service, session order by events desc, session, service, project limit {SESSIONS}"""
        if (left_s := deadline - time.monotonic()) <= 0:
            return
        firing.sessions = store.rows(sql, selection.params(), timeout_s=left_s)


class _Replay:
    """The alerts of one rule, and the notifications of their receivers."""

    def __init__(self, rule: Rule, receivers: Sequence[Receiver], trial: Trial) -> None:
        self.alerts: dict[Labels, Alert] = {}
        self._rule = rule
        self._receivers = receivers
        self._trial = trial
        self._firings: dict[tuple[Labels, int], Firing] = {}
        self._now_ns = 0
        self._dispatch = Dispatch(_Forgetful(), lambda _: None, str, lambda: self._now_ns)

    def evaluate(self, samples: Mapping[Labels, Sample | None], now_ns: int, number: int) -> None:
        self._now_ns = now_ns
        for key, sample in samples.items():
            before = self.alerts.get(key)
            after = step(before, self._rule, sample, now_ns)
            self._note(key, before, after, number)
            if after is not None:
                self.alerts[key] = after
            elif before is not None:
                del self.alerts[key]
        if not self.alerts:
            return
        self._tell(now_ns)
        for key, alert in list(self.alerts.items()):
            if alert.state is State.INACTIVE and not self._dispatch.awaited(alert, self._receivers, now_ns):
                del self.alerts[key]
                self._dispatch.forget([(alert.rule, key)])

    def _note(self, key: Labels, before: Alert | None, after: Alert | None, number: int) -> None:
        was, is_ = (one.state if one else State.INACTIVE for one in (before, after))
        if was is not is_:
            self._trial.states[key].append((number, is_))
        if after is None or not after.fired_ns:
            return
        firing = self._firings.get((key, after.fired_ns))
        if firing is None:
            if len(self._trial.firings) >= MOST_FIRINGS:
                return
            firing = Firing(key, after.since_ns, after.fired_ns, peak=after.value, threshold=after.threshold)
            self._firings[key, after.fired_ns] = firing
            self._trial.firings.append(firing)
        worst = max if self._rule.condition.upward else min
        firing.peak = worst(firing.peak, after.value)
        firing.resolved_ns = after.resolved_ns

    def _tell(self, now_ns: int) -> None:
        items = [
            (Item(alert, labels(self._rule, alert, str), "", "", "", ""), self._rule.notify)
            for alert in self.alerts.values()
        ]
        for message in self._dispatch.due(items, self._receivers, now_ns):
            self._trial.told[message.receiver.key, message.reason] += 1
            self._dispatch.record(message)


class _Forgetful:
    """A ledger that stores nothing: Dispatch remembers what it sent."""

    def sent(self) -> dict[tuple[str, Key], Notified]:
        return {}

    def record_sent(self, receiver: str, sent: Mapping[Key, Notified]) -> None:
        """Nothing to keep."""


def _looks(past: Past, rule: Rule, alerts: Mapping[Labels, Alert]) -> Iterator[tuple[int, dict[Labels, Sample | None]]]:
    """The evaluations at which something can change, each with the samples of the label sets concerned.

    A label set is left out of an evaluation that can change neither its sample nor its alert.
    """
    reaching = past.reaching(rule.condition)
    now = _Cursor(past.values, reaching)
    before = _Cursor(past.baseline, reaching) if past.baseline else None
    number = 0
    while number < past.at.count:
        touched = now.advance(number) | (before.advance(number) if before else set())
        moving = now.points.keys() if past.values.rising else ()
        keys = dict.fromkeys((*touched, *alerts, *moving))
        if keys:
            samples = {key: now.sample(key, number) for key in keys}
            if before:
                samples = {key: _against(one, past.baseline_at(key, number)) for key, one in samples.items()}
            yield number, samples
        waiting = [cursor.following() for cursor in (now, before) if cursor]
        number = number + 1 if alerts or moving else max(number + 1, min(waiting))


def _against(sample: Sample | None, baseline: float | None) -> Sample | None:
    return replace(sample, baseline=baseline) if sample and baseline is not None else sample


class _Cursor:
    """Walks through a history: `points` has the value of each label set at the present evaluation."""

    def __init__(self, past: History, which: Iterable[Labels]) -> None:
        self.points: dict[Labels, Point] = {}
        self._past = past
        self._queue = sorted(
            ((point.number, labels, point) for labels in which for point in past.lines.get(labels, ())),
            key=lambda one: one[0],
        )
        self._next = 0

    def advance(self, number: int) -> set[Labels]:
        """Advances to an evaluation; returns the label sets whose point changed on the way."""
        touched = set()
        while self.following() <= number:
            _, labels, point = self._queue[self._next]
            self.points[labels] = point
            touched.add(labels)
            self._next += 1
        return touched

    def following(self) -> int:
        """The evaluation at which the next point begins."""
        return self._queue[self._next][0] if self._next < len(self._queue) else sys.maxsize

    def sample(self, labels: Labels, number: int) -> Sample | None:
        point = self.points.get(labels)
        return self._past.sample(labels, point, number) if point else None
