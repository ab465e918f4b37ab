"""A backtest gives what the engine would have done: the same firings at the same evaluations, the same messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from collector.alerts.dispatch import in_batches
from collector.alerts.engine import Engine
from collector.alerts.notify import Notification
from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import parse_rules
from collector.alerts.rules import RuleFile, parse_condition
from collector.alerts.status import history_rows
from collector.alerts.trying import backtest as module
from collector.alerts.trying.backtest import REMEMBERED_S, LookedBack, Trial, find_sessions, look_back, run
from collector.alerts.trying.trials import evaluations, suggest_row, with_threshold
from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.errors import QueryTimeout
from collector.measures.all import measure_all
from collector.measures.history_sql import Evaluations
from collector.times import SECOND, rfc3339
from tests.recorded import DAY, HOUR, MINUTE, NOW, failed, holding
from tests.test_history import START, lively

RULES = """
rules:
  - {name: many-errors, measure: errors, by: [service], window: 40m, condition: "> 3", recover: "< 3", for: 3m}
  - {name: rate, measure: error_rate, by: [tool], window: 1h, condition: "> 40 %", recover: "< 35 %", min_calls: 5}
  - {name: streak, measure: streak, by: [service, session], window: 2h, condition: ">= 3", keep_firing_for: 5m}
  - {name: limits, measure: streaks, window: 2h, condition: ">= 3"}
  - {name: lasting, measure: errors, where: {recovered: false}, by: [service], window: 2h, condition: ">= 2"}
  - {name: recovering, measure: recovery_rate, window: 2h, condition: "< 60 %", min_calls: 3}
  - {name: spread, measure: sessions, where: {outcome: error}, window: 20m, condition: ">= 3"}
  - {name: new, measure: new_groups, window: 30m, condition: "> 0"}
  - {name: twice, measure: errors, by: [service], window: 30m, condition: "> 1.5x previous 2h", keep_firing_for: 10m}
  - {name: twice-slow, measure: p95_ms, by: [tool], window: 30m, condition: ">= 1.1x previous 1h", lateness: 4m}
  - {name: back, measure: regressed_groups, by: [service], window: 30m, condition: "> 0"}
  - {name: unknown, measure: unclassified_rate, window: 1h, condition: "> 0.3", for: 10m}
  - {name: quiet, measure: silent, by: [session], window: 1h, condition: "> 25m"}
receivers:
  team: {webhook: "http://127.0.0.1:1/", group_by: [name, tool], group_wait: 2m, group_interval: 10m, repeat: 30m}
  pager: {webhook: "http://127.0.0.1:1/", group_interval: 0s}
"""
STEPS = Evaluations(START - 2 * HOUR, MINUTE, 110)


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store.open("duckdb://:memory:")
    yield opened
    opened.close()


def backtest(store: Store, file: RuleFile, name: str, steps: Evaluations = STEPS) -> Trial:
    (rule,) = [one for one in file.rules if one.name == name]
    past = look_back(store, rule, steps, failure_only=["roo-code"])
    return run(rule, past, file.receivers)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What the engine does, minute by minute, with a store that holds only the events so far; messages by rule."""
    path = tmp_path_factory.mktemp("rules") / "alerts.yaml"
    path.write_text(RULES)
    store = Store.open("duckdb://:memory:")
    events = sorted(lively(7), key=lambda one: one["time_ns"])
    told: list[Notification] = []
    now = [STEPS.first_ns]

    live = partial(measure_all, failure_only=["roo-code"])
    engine = Engine(store, RuleBook(path), live, told.append, scrub=str, clock=lambda: now[0])
    for number in range(STEPS.count):
        now[0] = STEPS.at(number)
        known = sum(one["time_ns"] < now[0] for one in events)
        if known:
            store.write(Changes(now[0], events=events[:known]))
        del events[:known]
        for batch in in_batches(engine.evaluate(now[0])).values():
            engine.deliver(batch)
    firings = history_rows(engine, 0, 10_000)
    store.close()
    messages: dict[str, int] = {}
    for message in told:
        messages[message.alerts[0].rule] = messages.get(message.alerts[0].rule, 0) + 1
    return firings, messages


@pytest.mark.parametrize("name", [rule.name for rule in parse_rules(RULES).rules])
def test_a_backtest_fires_at_the_evaluations_at_which_the_rule_fired(
    store: Store, lived: tuple[list[dict[str, Any]], dict[str, int]], name: str
) -> None:
    holding(store, lively(7))
    trial = backtest(store, parse_rules(RULES), name)
    firings, messages = lived
    assert {
        (str(dict(one.labels)), rfc3339(one.fired_ns), rfc3339(one.resolved_ns) if one.resolved_ns else None)
        for one in trial.firings
    } == {(str(row["labels"]), row["fired"], row["resolved"]) for row in firings if row["rule"] == name}
    assert trial.firings
    assert trial.notifications == messages[name]


def test_a_trial_tells_whom_it_would_have_told_and_which_sessions(store: Store) -> None:
    file = parse_rules(RULES.replace("notify", ""))
    holding(store, [failed(90 - i, session=f"s{i % 3}", service="web") for i in range(30)])
    steps = Evaluations(NOW - 2 * HOUR, MINUTE, 121)
    trial = backtest(store, file, "many-errors", steps)
    find_sessions(store, trial)
    (firing,) = trial.firings
    assert (dict(firing.labels), firing.peak, firing.threshold) == ({"service": "web"}, 30, 3)
    assert (firing.since_ns, firing.fired_ns) == (NOW - 86 * MINUTE, NOW - 83 * MINUTE)
    assert firing.resolved_ns == NOW - 22 * MINUTE
    assert [(one["session"], one["events"]) for one in firing.sessions] == [("s0", 10), ("s1", 10), ("s2", 10)]
    assert trial.told == {
        ("team", "first"): 1, ("team", "repeat"): 1, ("team", "resolved"): 1,
        ("pager", "first"): 1, ("pager", "resolved"): 1,
    }  # fmt: skip
    assert (trial.pages, trial.notifications) == (2, 5)


def test_a_file_without_receivers_counts_pages_of_somebody(store: Store) -> None:
    file = parse_rules(RULES.split("receivers:")[0])
    holding(store, [failed(90 - i) for i in range(30)])
    trial = backtest(store, file, "many-errors", Evaluations(NOW - 2 * HOUR, MINUTE, 121))
    assert trial.told == {("anybody", "first"): 1, ("anybody", "resolved"): 1}


@pytest.mark.parametrize("first", [270, 200])
def test_nothing_is_compared_with_a_time_without_events(store: Store, first: int) -> None:
    file = parse_rules(
        "rules: [{name: many, measure: errors, by: [service], window: 30m, condition: '> 2x previous 1h'}]"
    )
    holding(store, [failed(240), failed(60)])
    assert backtest(store, file, "many", Evaluations(NOW - first * MINUTE, MINUTE, first)).firings == []


@pytest.mark.parametrize("condition", ["> 3", "> 2x previous 99999999w"])
def test_a_window_may_be_longer_than_time(store: Store, condition: str) -> None:
    endless = f'rules: [{{name: many, measure: errors, window: 99999999w, condition: "{condition}"}}]'
    holding(store, [failed(90 - i) for i in range(30)])
    trial = backtest(store, parse_rules(endless), "many", Evaluations(NOW - 2 * HOUR, MINUTE, 121))
    assert len(trial.firings) == 1


def test_a_backtest_ends_in_time(store: Store) -> None:
    rule = parse_rules(RULES).rules[0]
    holding(store, lively(7))
    with pytest.raises(QueryTimeout, match="took longer"):
        run(rule, look_back(store, rule, STEPS), (), timeout_s=-1)


def test_another_threshold_asks_the_store_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    holding(store, lively(7))
    asked: list[str] = []

    class Counting:
        materializes = True
        version = ""

        def rows(self, sql: str, *about: Any, **more: Any) -> list[dict[str, Any]]:
            asked.append(sql)
            return store.rows(sql, *about, **more)

        def arrow(self, *_: Any, **__: Any) -> bytes:
            raise AssertionError

    now = [0.0]
    look = LookedBack(lambda: now[0])
    rule, other, *_ = parse_rules(RULES).rules
    by_threshold = {}
    for number in (1, 3, 6):
        past = look(Counting(), with_threshold(rule, number), STEPS, failure_only=["roo-code"], timeout_s=30)
        by_threshold[number] = len(run(with_threshold(rule, number), past, ()).firings)
    assert (len(asked), len(set(by_threshold.values()))) == (1, 3)
    for place, (another, steps, later) in enumerate([
        (other, STEPS, 0), (rule, STEPS, 0), (rule, STEPS.shifted(1), 0), (replace(rule, window_ns=HOUR), STEPS, 0),
        (replace(rule, where={"tool": "read"}), STEPS, 0), (rule, STEPS, 0), (rule, STEPS, REMEMBERED_S),
    ]):  # fmt: skip
        now[0] += later
        look(Counting(), another, steps, failure_only=["roo-code"], timeout_s=30)
        assert len(asked) == place + 2
    monkeypatch.setattr(module, "REMEMBERED_BYTES", 0)
    for _ in range(2):
        look(Counting(), other, STEPS, failure_only=["roo-code"], timeout_s=30)
    assert len(asked) == place + 4, "what is too large is not remembered"


@pytest.mark.parametrize(
    ("measure", "condition", "recover", "number", "expected"),
    [
        ("errors", "> 3", "< 2", 6, ("> 6", "< 4")),
        ("calls", ">= 10", None, 12_000_000, (">= 12000000", None)),
        ("error_rate", "> 30 %", "< 20 %", 0.45, ("> 45 %", "< 30 %")),
        ("error_rate", "> 0.3", "< 0.2", 0.45, ("> 0.45", "< 0.3")),
        ("silent", "> 2h", "< 30m", 14_400, ("> 4h", "< 60m")),
        ("silent", "> 0s", None, 90, ("> 90", None)),
        ("errors", "> 2x previous 7d", "< 1.5x previous 7d", 4, ("> 4x previous 7d", "< 3x previous 7d")),
        ("errors", "> 0x previous 7d", None, 0.5, ("> 0.5x previous 7d", None)),
    ],
)
def test_another_threshold_is_written_in_the_same_unit(
    measure: str, condition: str, recover: str | None, number: float, expected: tuple[str, str | None]
) -> None:
    back = f", recover: '{recover}'" if recover else ""
    (rule,) = parse_rules(f"rules: [{{name: a, measure: {measure}, condition: '{condition}'{back}}}]").rules
    moved = with_threshold(rule, number)
    assert (moved.condition.text, moved.recover.text if moved.recover else None) == expected
    for one in (moved.condition, moved.recover):
        assert one is None or parse_condition(one.text, measure).number == pytest.approx(one.number)


def test_suggested_is_the_most_sensitive_threshold_that_pages_seldom_enough(store: Store) -> None:
    bursts = [(10, 4), (20, 8), (30, 16), (40, 32)]  # hours ago, errors within a minute
    holding(store, [
        failed(100 * hours + i, time_ns=NOW - hours * HOUR + i * SECOND) for hours, size in bursts for i in range(size)
    ])  # fmt: skip
    (rule,) = parse_rules("rules: [{name: a, measure: errors, condition: '> 1', recover: '< 0.5'}]").rules
    steps = evaluations(NOW - 7 * DAY, NOW, MINUTE)
    for pages, expected in [(0, "> 32"), (1, "> 16"), (2, "> 8"), (3.5, "> 4"), (100, "> 0")]:
        row = suggest_row(rule, (), look_back(store, rule, steps), pages)
        assert row["suggested"]["condition"] == expected
    assert [(one["recover"], one["pages_per_week"]) for one in row["rows"]] == [
        ("< 16", 0), ("< 8", 1), ("< 4", 2), ("< 2", 3), (None, 4),
    ]  # fmt: skip
    down = replace(rule, condition=parse_condition("< 3", "errors"), recover=None)
    assert suggest_row(down, (), look_back(store, down, steps), 1)["suggested"] is None, "others fire nearly always"
