"""The loop of alerting: measures each rule, updates and saves its alerts, sends what is due, records what was sent."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from collector import telemetry
from collector.alerts.dispatch import Dispatch, in_batches
from collector.alerts.ledger import Key, Ledger, Silence
from collector.alerts.notify import Item, Notification, Scrub, describe
from collector.alerts.recorder import Evaluation, Recorder, worst_first
from collector.alerts.rulefile import RuleBook, RuleError
from collector.alerts.rules import Condition, Rule
from collector.alerts.state import Alert, State, step
from collector.loop import in_daemon
from collector.measures.all import Measured
from collector.measures.families import First, MeasureQuery, nearest
from collector.measures.measure import Sample, labels_of
from collector.projects import only
from collector.query.filters import terms_of_rule
from collector.times import DAY, HOUR

if TYPE_CHECKING:
    from collector.engine.duckdb.store import Store

INTERVAL_S = 15.0
REST = 4  # times as long as an evaluation took: they take a fifth of the time at most
CLOSE_S = 5.0
MAX_LABEL_SETS = 1000  # with an alert, per rule

log = structlog.get_logger()


class Measuring(Protocol):
    """Answers all queries: collector.measures.all.measure_all."""

    def __call__(self, store: Store, queries: Sequence[MeasureQuery]) -> Mapping[MeasureQuery, Measured]: ...


class Engine:
    """Evaluates the rules of a book. `evaluate` and `deliver` do all the work; `run` calls them periodically.

    `evaluate` is for one thread at a time. The values of public attributes are replaced, never changed, so that any
    thread may read them.
    """

    def __init__(
        self,
        store: Store,
        book: RuleBook,
        measure: Measuring,
        notify: Callable[[Notification], None],
        *,
        scrub: Scrub,
        dashboard_url: str = "",
        trace_url: str = "",
        clock: Callable[[], int] = time.time_ns,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self.book = book
        self.clock = clock
        self.ledger = Ledger(store)
        self.dispatch = Dispatch(self.ledger, notify, scrub, clock)
        self.evaluated_ns = 0
        self.error = ""  # of the last evaluation as a whole
        self.evaluations: Mapping[str, Evaluation] = {}
        self.alerts: Mapping[Key, Alert] = self.ledger.alerts()
        self.items: Mapping[Key, Item] = {}
        self._causes: Mapping[Key, str] = {}
        self.silences: Sequence[Silence] = ()
        self._reading = threading.Lock()
        self.read_silences(clock())
        self.store = store
        self._measure = measure
        self.scrub = scrub
        self._dashboard_url, self._trace_url = dashboard_url, trace_url
        self._interval_s = interval_s
        # Includes rules that left the file and still have alerts: a resolution needs the labels of its firing.
        self._rules = {rule.name: rule for rule in book.file.rules}
        self._recorder = Recorder()
        self._stale = False
        self._refused: RuleError | None = None  # the last error of the file that was logged
        self._pruned_ns = 0
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self._evaluating = asyncio.Lock()
        self.ledger.close_history(clock())

    def read_again(self) -> None:
        """Makes the next evaluation reload saved state, as labels were rewritten. Any thread may call it."""
        self._stale = True

    def read_silences(self, now_ns: int) -> None:
        """Takes the silences in force from the store. Any thread may call it: what was read first is not taken last."""
        with self._reading, only(None):
            self.silences = self.ledger.silences(now_ns)

    def evaluate(self, now_ns: int) -> list[Notification]:
        """Evaluates every rule and saves the changes; returns the messages that are due."""
        started = time.perf_counter()
        if self._stale:
            self._stale = False
            self.alerts, self._recorder = self.ledger.alerts(), Recorder()
            self.dispatch.read_again()
        if not self.evaluated_ns or now_ns < self.evaluated_ns:
            self.dispatch.set_back(now_ns)
        self._take_rules(changed=self.book.refresh())
        asked = {rule.name: _queries(rule, now_ns) for rule in self.book.file.rules}
        answers = self._measure(self.store, [query for each in asked.values() for query in each])
        evaluations = {}
        alerts: dict[Key, Alert] = {}
        left: defaultdict[str, dict[Key, Alert]] = defaultdict(dict)
        for key, alert in self.alerts.items():
            left[key[0]][key] = alert
        for rule in self.book.file.rules:
            own = [answers[query] for query in asked[rule.name]]
            evaluations[rule.name], stepped = self._evaluate_rule(rule, own, left.pop(rule.name, {}), now_ns)
            alerts |= stepped
        for orphans in left.values():
            alerts |= {key: _retired(alert, now_ns) for key, alert in orphans.items() if alert.fired_ns}
        items = {key: self._describe(alert) for key, alert in alerts.items()}
        current = {key: alert for key, alert in alerts.items() if not self._settled(alert, now_ns)}
        self._save(items, current, evaluations, now_ns)
        for silence in self.ledger.silences(now_ns):
            if silence.over((alert, items[key].labels) for key, alert in current.items()):
                self.ledger.end_silence(silence.id, now_ns)
        self.read_silences(now_ns)
        self.items = {key: items[key] for key in current}
        self._causes = _causes(current, self._rules)
        self.evaluations, self.alerts, self.evaluated_ns = evaluations, current, now_ns
        self._show()
        telemetry.EVALUATION_SECONDS.set(time.perf_counter() - started)
        return self._due(now_ns)

    def deliver(self, messages: Sequence[Notification]) -> None:
        """Sends the messages of one receiver until one fails; that one and the rest will be due again."""
        for message in messages:
            if not self.dispatch.deliver(message):
                return

    async def run(self) -> None:
        """Evaluates the rules at every interval until `close`, less often if that takes long. Blocking work runs in
        threads.
        """
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            started = loop.time()
            await self.evaluate_now()
            try:
                await asyncio.wait_for(self._stop.wait(), rest_after(loop.time() - started, self._interval_s))
            except TimeoutError:
                continue

    async def evaluate_now(self) -> None:
        """Evaluates the rules as their file says now, and begins to send what is due."""
        async with self._evaluating:
            for key, messages in in_batches(await asyncio.to_thread(self._evaluate_safely)).items():
                self._busy[key] = asyncio.create_task(self._deliver(key, messages))

    async def close(self) -> None:
        """Stops evaluating, and waits a while for running work; unsent messages are due after a restart."""
        self._stop.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S), self._evaluating:
                await asyncio.gather(*self._busy.values())

    def silenced(self, alert: Alert, now_ns: int) -> bool:
        """Whether this alert is silenced now."""
        return any(silence.mutes(alert, now_ns, self.seen(alert)) for silence in self.silences)

    def seen(self, alert: Alert) -> Mapping[str, str]:
        """The labels of this alert as receivers see them; none before it was evaluated."""
        item = self.items.get((alert.rule, alert.labels))
        return item.labels if item else {}

    def inhibited_by(self, alert: Alert) -> str:
        """The rule of a firing alert that inhibits this one; empty if there is none."""
        return self._causes.get((alert.rule, alert.labels), "")

    async def _deliver(self, key: str, messages: Sequence[Notification]) -> None:
        try:
            await in_daemon(partial(self.deliver, messages), "alerts")
        except Exception as error:  # the delivery could not be recorded: better sent twice than lost
            log.error("notification_not_recorded", receiver=key, error=self.scrub(f"{type(error).__name__}: {error}"))
        finally:
            del self._busy[key]

    def _evaluate_safely(self) -> list[Notification]:
        try:
            with only(None):
                messages = self.evaluate(self.clock())
        except Exception as error:  # such as a busy store: the next evaluation reloads saved state
            self.error = self.scrub(f"{type(error).__name__}: {error}")
            log.error("alerts_not_evaluated", error=self.error)
            return []
        self.error = ""
        return messages

    def _take_rules(self, *, changed: bool) -> None:
        if self.book.error and self.book.error is not self._refused:
            said = "; ".join(self.scrub(str(mistake)) for mistake in self.book.error.mistakes)
            log.error("rules_not_taken", path=self.book.error.path, mistakes=said)
        self._refused = self.book.error
        if not changed:
            return
        in_use = {rule for rule, _ in self.alerts}
        kept = {name: rule for name, rule in self._rules.items() if name in in_use}
        self._rules = kept | {rule.name: rule for rule in self.book.file.rules}
        self.dispatch.forgive()
        log.info("rules_loaded", path=self.book.file.path, rules=len(self.book.file.rules))

    def _evaluate_rule(
        self, rule: Rule, answers: Sequence[Measured], mine: Mapping[Key, Alert], now_ns: int
    ) -> tuple[Evaluation, dict[Key, Alert]]:
        """A rule that fails keeps its alerts as they are, and stops no other."""
        for error in (answer.error for answer in answers if answer.error):
            said = self.scrub(f"{type(error).__name__}: {error}")
            log.warning("rule_failed", rule=rule.name, error=said)
            return replace(self.evaluations.get(rule.name, Evaluation(rule)), rule=rule, error=said), dict(mine)
        found = {(rule.name, labels_of(sample.labels)): sample for sample in _samples(rule, answers)}
        keys = dict.fromkeys((*mine, *found))
        stepped = {key: step(mine.get(key), rule, found.get(key), now_ns) for key in keys}
        alerts = {key: alert for key, alert in stepped.items() if alert is not None}
        excess = ""
        if len(alerts) > MAX_LABEL_SETS:
            excess = f"{len(alerts)} label sets have an alert, {MAX_LABEL_SETS} are kept; group by fewer dimensions"
            alerts = dict(list(alerts.items())[:MAX_LABEL_SETS])
        took_ms = sum(answer.took_ms for answer in answers)
        return Evaluation(rule, worst_first(rule, found.values(), alerts), len(found), now_ns, took_ms, excess), alerts

    def _describe(self, alert: Alert) -> Item:
        rule = self._rules.get(alert.rule) or replace(_GONE, name=alert.rule)
        return describe(rule, alert, scrub=self.scrub, dashboard_url=self._dashboard_url, trace_url=self._trace_url)

    def _settled(self, alert: Alert, now_ns: int) -> bool:
        """Whether it is resolved and every receiver was told; one that has failed for a day is not waited for."""
        if alert.state is not State.INACTIVE or self._busy:  # a message that is being sent may say that it fires
            return False
        return now_ns - alert.resolved_ns > DAY or not self.dispatch.awaited(alert, self.book.file.receivers, now_ns)

    def _save(
        self,
        items: Mapping[Key, Item],
        current: Mapping[Key, Alert],
        evaluations: Mapping[str, Evaluation],
        now_ns: int,
    ) -> None:
        """Saves the history first: otherwise a crash in between would leave a resolved firing open for ever."""
        turned = [item for key, item in items.items() if _turned(self.alerts.get(key), item.alert)]
        self.ledger.record_history((item.alert, item.labels["severity"], item.summary) for item in turned)
        gone = self.alerts.keys() - current.keys()
        self.ledger.save([alert for key, alert in current.items() if self.alerts.get(key) != alert], gone)
        self.dispatch.forget(gone)
        self.ledger.record_samples(self._recorder.rows(evaluations.values(), current, now_ns))
        if now_ns - self._pruned_ns >= HOUR:
            self.ledger.prune(now_ns)
            self._pruned_ns = now_ns

    def _show(self) -> None:
        """Sets the gauges of /metrics: one for each rule of the file, 0 if nothing fires."""
        telemetry.FIRING.clear()
        telemetry.PENDING.clear()
        for rule in self.book.file.rules:
            states = [alert.state for key, alert in self.alerts.items() if key[0] == rule.name]
            telemetry.FIRING.labels(self.scrub(rule.name), rule.severity).set(states.count(State.FIRING))
            telemetry.PENDING.labels(self.scrub(rule.name)).set(states.count(State.PENDING))

    def _due(self, now_ns: int) -> list[Notification]:
        told = []
        for item in self.items.values():
            rule = self._rules.get(item.alert.rule)
            quiet = rule is None or self.silenced(item.alert, now_ns) or self.inhibited_by(item.alert)
            told.append((item, () if rule is None or quiet else rule.notify))
        idle = [receiver for receiver in self.book.file.receivers if receiver.key not in self._busy]
        messages = self.dispatch.due(told, idle, now_ns)
        return [replace(message, dashboard_url=self._dashboard_url) for message in messages]


def rest_after(took_s: float, interval_s: float) -> float:
    """Seconds until the next evaluation."""
    return max(interval_s - took_s, REST * took_s)


def _queries(rule: Rule, now_ns: int) -> list[MeasureQuery]:
    """The queries of a rule: over its window and, if it has a baseline, over the period before."""
    terms, end_ns = terms_of_rule(rule.where), now_ns - rule.lateness_ns
    start_ns = end_ns - rule.window_ns
    spans = [(start_ns, end_ns)]
    if rule.condition.previous_ns:
        spans.append((start_ns - rule.condition.previous_ns, start_ns))
    queries = [MeasureQuery(rule.measure, terms, rule.by, *span) for span in spans]
    if len(queries) > 1:  # each label set is compared with itself
        return queries
    return [nearest(queries[0], First(rule.min_calls, not rule.condition.upward))]


def _samples(rule: Rule, answers: Sequence[Measured]) -> list[Sample]:
    """The samples for a rule, each with its baseline."""
    now, *before = ([_finite(one) for one in answer.samples] for answer in answers)
    if not before:
        return now
    earlier = {labels_of(one.labels): one.value * rule.scale for one in before[0] if one.value is not None}
    return [replace(one, baseline=earlier.get(labels_of(one.labels))) for one in now]


def _finite(sample: Sample) -> Sample:
    finite = sample.value is None or math.isfinite(sample.value)
    return sample if finite else replace(sample, value=None)


# Stands in for a rule that left the file while the collector was stopped.
_GONE = Rule("", "errors", Condition("", ">", 0), {}, summary="its rule was removed")


def _causes(alerts: Mapping[Key, Alert], rules: Mapping[str, Rule]) -> dict[Key, str]:
    """For each inhibited alert, the rule that inhibits it; dimensions that both have must be equal."""
    found: dict[Key, str] = {}
    for cause in alerts.values():
        rule = rules.get(cause.rule)
        if rule is None or not rule.inhibits or cause.state is not State.FIRING:
            continue
        own = dict(cause.labels)
        for key in alerts:
            if key[0] in rule.inhibits and all(own.get(name, value) == value for name, value in key[1]):
                found[key] = cause.rule
    return found


def _retired(alert: Alert, now_ns: int) -> Alert:
    """The alert of a rule that left the file."""
    return replace(alert, state=State.INACTIVE, resolved_ns=alert.resolved_ns or max(now_ns, alert.fired_ns))


def _turned(before: Alert | None, after: Alert) -> bool:
    """Whether a firing began or ended."""
    was = (before.fired_ns, before.resolved_ns) if before else (0, 0)
    return was != (after.fired_ns, after.resolved_ns)
