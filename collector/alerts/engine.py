"""The loop of alerting: measures each rule, updates and saves its alerts, sends what is due, records what was sent.

Where several collectors share a cluster, one of them does that, and the others show what it found.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from collector import telemetry
from collector.alerts.asking import queries, samples
from collector.alerts.dispatch import Dispatch, in_batches
from collector.alerts.ledger import KEYS, Key, Ledger, Silence
from collector.alerts.notify import Item, Notification, Scrub, describe
from collector.alerts.recorder import Evaluation, Recorder, worst_first
from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import RuleError
from collector.alerts.rules import Condition, Rule
from collector.alerts.state import Alert, State, step
from collector.alerts.together import ALONE, AWAY, AWAY_KEY, Together, away_alert
from collector.alerts.told import EVALUATIONS, RECEIVERS, evaluations_of, health_of, show, tell
from collector.errors import Unavailable
from collector.loop import in_daemon
from collector.measures.all import Keeps, Measured
from collector.measures.families import MeasureQuery
from collector.measures.measure import labels_of
from collector.projects import only
from collector.times import DAY, HOUR

if TYPE_CHECKING:
    from collector.engine.duckdb.store import Store

INTERVAL_S = 15.0
FOLLOW_S = 2.0  # between looks at what the collector found that evaluates
REST = 4  # times as long as an evaluation took: they take a fifth of the time at most
CLOSE_S = 5.0
MAX_LABEL_SETS = 1000  # with an alert, per rule

log = structlog.get_logger()


class Measuring(Protocol):
    """Answers all queries: collector.measures.all.measure_all."""

    def __call__(self, store: Keeps, queries: Sequence[MeasureQuery]) -> Mapping[MeasureQuery, Measured]: ...


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
        together: Together = ALONE,
        reads: Keeps | None = None,
    ) -> None:
        """`reads` is what rules measure, where that is not the store that keeps their states."""
        self.book = book
        self.clock = clock
        self.together = together
        self.ledger = Ledger(store, together)
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
        self._reads: Keeps = reads or store
        self._measure = measure
        self.scrub = scrub
        self._dashboard_url, self._trace_url = dashboard_url, trace_url
        self._interval_s = interval_s
        # Includes rules that left the file and still have alerts: a resolution needs the labels of its firing.
        self._rules = {rule.name: rule for rule in book.file.rules}
        self._recorder = Recorder()
        self._stale = not together.evaluates()
        self._told: Mapping[str, Any] = {}  # evaluations, as the collector tells them that makes them
        self._refused: RuleError | None = None  # the last error of the file that was logged
        self._pruned_ns = 0
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self._evaluating = asyncio.Lock()
        if not self._stale:
            self.ledger.close_history(clock())

    def read_again(self) -> None:
        """Makes the next evaluation reload saved state, as labels were rewritten. Any thread may call it."""
        self._stale = True

    def read_silences(self, now_ns: int) -> None:
        """Takes the silences in force from the store. Any thread may call it: what was read first is not taken last."""
        with self._reading, only(None):
            self.silences = self.ledger.silences(now_ns)

    def evaluate(self, now_ns: int) -> list[Notification]:
        """Evaluates every rule and saves the changes; returns the messages that are due. Where another collector does
        this, takes what it found.
        """
        return self._lead(now_ns) if self.together.evaluates() else self._follow(now_ns)

    def _lead(self, now_ns: int) -> list[Notification]:
        started = time.perf_counter()
        if self._stale:
            self._stale = False
            self.alerts, self._recorder = self.ledger.alerts(), Recorder()
            self.dispatch.read_again()
            self.ledger.close_history(now_ns)
        if not self.evaluated_ns or now_ns < self.evaluated_ns:
            self.dispatch.set_back(now_ns)
        self._take_rules(changed=self.book.refresh())
        asked = {rule.name: queries(rule, now_ns) for rule in self.book.file.rules}
        answers = self._measure(self._reads, [query for each in asked.values() for query in each])
        evaluations = {}
        alerts = self._away(now_ns)
        left: defaultdict[str, dict[Key, Alert]] = defaultdict(dict)
        for key, alert in self.alerts.items():
            left[key[0]][key] = alert
        for rule in self.book.file.rules:
            own = [answers[query] for query in asked[rule.name]]
            evaluations[rule.name], stepped = self._evaluate_rule(rule, own, left.pop(rule.name, {}), now_ns)
            alerts |= stepped
        left.pop(AWAY.name, None)
        for orphans in left.values():
            alerts |= {key: _retired(alert, now_ns) for key, alert in orphans.items() if alert.fired_ns}
        items = {key: self._describe(alert) for key, alert in alerts.items()}
        current = {key: alert for key, alert in alerts.items() if not self._settled(alert, now_ns)}
        self._check_turn()
        self._save(items, current, evaluations, now_ns)
        for silence in self.ledger.silences(now_ns):
            if silence.over((alert, items[key].labels) for key, alert in current.items()):
                self.ledger.end_silence(silence.id, now_ns)
        self._show(items, current, evaluations, now_ns)
        tell(self.together, evaluations, self.dispatch.health)
        telemetry.EVALUATION_SECONDS.set(time.perf_counter() - started)
        return self._due(now_ns)

    def _follow(self, now_ns: int) -> list[Notification]:
        """Shows what the collector that evaluates found; sends only what concerns this one alone."""
        self._stale, self._recorder = True, Recorder()  # when this one's turn comes, it goes on from what was saved
        self.alerts = self.ledger.alerts()
        self.dispatch.read_again()
        self._take_rules(changed=self.book.refresh())
        alerts = {key: alert for key, alert in self.alerts.items() if key != AWAY_KEY} | self._away(now_ns)
        items = {key: self._describe(alert) for key, alert in alerts.items()}
        current = {key: alert for key, alert in alerts.items() if key != AWAY_KEY or not self._settled(alert, now_ns)}
        self._save(items, current, {}, now_ns)
        evaluations = evaluations_of(self._told, self._rules)
        evaluated_ns = max((each.evaluated_ns for each in evaluations.values()), default=0)
        self._show(items, current, evaluations, evaluated_ns)
        return self._due(now_ns)

    def take(self, kind: str, rows: Mapping[str, Any]) -> None:
        """Takes what another collector changed, by key; None where it is gone. Any thread may call it."""
        if kind == EVALUATIONS:
            self._told = {**self._told, **rows}
        elif kind == RECEIVERS:
            self.dispatch.take_health(health_of(rows))
        elif kind in KEYS:
            self.ledger.take(kind, rows)
        if kind == "alert_silences":
            self.read_silences(self.clock())

    def deliver(self, messages: Sequence[Notification]) -> None:
        """Sends the messages of one receiver until one fails; that one and the rest will be due again."""
        for message in messages:
            if not (self._may_send(message) and self.dispatch.deliver(message)):
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
                await asyncio.wait_for(self._stop.wait(), rest_after(loop.time() - started, self._pause_s()))
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
        self.error = self.scrub(self.together.problem())
        return messages

    def _away(self, now_ns: int) -> dict[Key, Alert]:
        alert = away_alert(self.alerts.get(AWAY_KEY), self.together.away_s(), now_ns)
        return {AWAY_KEY: alert} if alert else {}

    def _check_turn(self) -> None:
        if not self.together.evaluates():
            raise Unavailable("another collector evaluates the rules by now")

    def _may_send(self, message: Notification) -> bool:
        """Whether it is still this collector that tells receivers."""
        return self.together.evaluates() or all(alert.rule == AWAY.name for alert in message.alerts)

    def _pause_s(self) -> float:
        return self._interval_s if self.together.evaluates() else min(FOLLOW_S, self._interval_s)

    def _rule(self, name: str) -> Rule | None:
        if name != AWAY.name:
            return self._rules.get(name)
        names = dict.fromkeys(receiver.name for receiver in self.book.file.receivers)
        return replace(AWAY, notify=tuple(names))

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
        found = {(rule.name, labels_of(sample.labels)): sample for sample in samples(rule, answers)}
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
        rule = self._rule(alert.rule) or replace(_GONE, name=alert.rule)
        return describe(rule, alert, scrub=self.scrub, dashboard_url=self._dashboard_url, trace_url=self._trace_url)

    def _settled(self, alert: Alert, now_ns: int) -> bool:
        """Whether it is resolved and every receiver was notified, except those that have failed for a day."""
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

    def _show(
        self,
        items: Mapping[Key, Item],
        current: Mapping[Key, Alert],
        evaluations: Mapping[str, Evaluation],
        evaluated_ns: int,
    ) -> None:
        """Takes these for what the API and /metrics show."""
        self.read_silences(self.clock())
        self.items = {key: items[key] for key in current}
        self._causes = _causes(current, self._rules)
        self.evaluations, self.alerts, self.evaluated_ns = evaluations, current, evaluated_ns
        show(self.book.file.rules, current.values(), self.scrub, here=self.together.evaluates())

    def _due(self, now_ns: int) -> list[Notification]:
        told = []
        mine = self.together.evaluates()
        for key, item in self.items.items():
            if not mine and key != AWAY_KEY:
                continue
            rule = self._rule(item.alert.rule)
            quiet = rule is None or self.silenced(item.alert, now_ns) or self.inhibited_by(item.alert)
            told.append((item, () if rule is None or quiet else rule.notify))
        idle = [receiver for receiver in self.book.file.receivers if receiver.key not in self._busy]
        messages = self.dispatch.due(told, idle, now_ns)
        return [replace(message, dashboard_url=self._dashboard_url) for message in messages]


def rest_after(took_s: float, interval_s: float) -> float:
    """Seconds until the next evaluation."""
    return max(interval_s - took_s, REST * took_s)


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
