"""Rules over time on a real store: what fires, who is notified, and that restarts change nothing."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import stamina

from collector.alerts.dispatch import in_batches
from collector.alerts.engine import Engine, Measuring, rest_after
from collector.alerts.ledger import UNTIL_RESOLVED, Ledger, Silence
from collector.alerts.recorder import worst_first
from collector.alerts.rulebook import RuleBook
from collector.alerts.rules import Rule, parse_condition
from collector.alerts.send import send
from collector.alerts.state import Alert, State
from collector.alerts.status import alert_rows, history_rows, receiver_rows, rule_rows, sample_rows
from collector.engine.duckdb.store import Store
from collector.measures.all import Keeps, Measured, measure_all
from collector.measures.families import MeasureQuery
from collector.measures.measure import Sample
from tests.recorded import HOUR, MINUTE, NOW, event, failed, holding
from tests.webhook import Webhook

SECRET = "s3cr" + "et"
STEP = 15 * 10**9

RULES = """
rules:
  - {{name: broken, measure: errors, by: [tool], condition: "> 3", notify: [team],
     summary: "{{{{ tool }}}}: {{{{ value }}}}"}}
receivers:
  team: {{webhook: "{url}", group_interval: 0s, repeat: 1h}}
"""


class Values:
    """Values of rules, set by a test; the engine reads them in place of collector.measures.all.measure_all."""

    def __init__(self) -> None:
        self.by_measure: dict[str, list[Sample] | Exception] = {}

    def __call__(self, store: Keeps, queries: Sequence[MeasureQuery]) -> dict[MeasureQuery, Measured]:
        return {one: self.answer(self.by_measure.get(one.measure, [])) for one in queries}

    def answer(self, found: list[Sample] | Exception) -> Measured:
        return Measured(error=found) if isinstance(found, Exception) else Measured(found)

    def set(self, measure: str = "errors", **by_tool: Any) -> None:
        self.by_measure[measure] = [Sample({"tool": tool}, value, 100) for tool, value in by_tool.items()]


class World:
    """A store, a rule file, a clock, and the engine between them, which can be restarted; a store in a file with it."""

    def __init__(self, folder: Path, url: str, place: str = "duckdb://:memory:") -> None:
        self.place = place
        self.url = url
        self.now_ns = NOW
        self.values = Values()
        self.path = folder / "alerts.yaml"
        self.store = Store.open(place)
        self.path.write_text(RULES.format(url=url))
        self.measure: Measuring = self.values
        self.start()

    def start(self) -> None:
        self.engine = Engine(
            self.store,
            RuleBook(self.path),
            self.measure,
            send,
            scrub=lambda text: text.replace(SECRET, "[redacted:test]"),
            dashboard_url="http://dash",
            clock=lambda: self.now_ns,
            interval_s=0.02,
        )

    def restart(self) -> None:
        if self.place != "duckdb://:memory:":
            self.store.close()
            self.store = Store.open(self.place)
        self.start()

    def rules(self, text: str) -> None:
        """Another rule file, of a different size, so that coarse file times cannot hide the change."""
        self.path.write_text(text + "\n" + "#" * (self.path.stat().st_size % 97 + 1))

    def tick(self, after_ns: int = STEP, **by_tool: Any) -> None:
        """One evaluation with these values of tools, and the delivery of all messages that are due."""
        if by_tool:
            self.values.set(**by_tool)
        self.now_ns += after_ns
        for batch in in_batches(self.engine.evaluate(self.now_ns)).values():
            self.engine.deliver(batch)

    def states(self) -> dict[str, str]:
        return {row["labels"].get("tool", row["rule"]): row["state"] for row in alert_rows(self.engine, self.now_ns)}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Removes the pauses before second attempts."""
    with stamina.set_testing(True, attempts=2):
        yield


@pytest.fixture
def hook() -> Iterator[Webhook]:
    opened = Webhook()
    yield opened
    opened.close()


@pytest.fixture
def world(tmp_path: Path, hook: Webhook) -> Iterator[World]:
    opened = World(tmp_path, hook.url)
    yield opened
    opened.store.close()


def test_from_firing_to_resolved(world: World, hook: Webhook) -> None:
    world.tick(x=1)
    assert world.states() == {}
    world.tick(x=4)
    assert world.states() == {"x": "firing"}
    for _ in range(10):
        world.tick(x=5)
    assert hook.told == [("firing", ["firing x"])]
    world.tick(HOUR, x=6)
    assert hook.told[1:] == [("firing", ["firing x"])], "told again when the repeat has passed"
    world.tick(x=1)
    world.tick(x=1)
    assert hook.told[2:] == [("resolved", ["resolved x"])]
    assert world.states() == {}
    first, again, last = (message["alerts"][0] for message in hook.taken)
    assert first["startsAt"] == again["startsAt"] == last["startsAt"]
    assert first["annotations"]["summary"] == "x: 4"
    (firing,) = history_rows(world.engine, 0, 10)
    assert (firing["fired"], firing["resolved"]) == (last["startsAt"], last["endsAt"])
    assert last["annotations"]["summary"] == firing["summary"] == "x: 6", "what it was, not what it is"
    assert world.store.rows("from alerts") == []


LINES = [
    ("fires, resolves, fires", [1, 4, 4, 1, 1, 4, 1], ""),
    ("flaps", [4, 1, 4, 1, 4, 1, 4], ""),
    ("waits", [4, 4, 4, 4, 4, 1, 4, 4, 1], "for: 30s"),
    ("keeps firing", [4, 1, 1, 1, 4, 1, 1, 1, 1], "keep_firing_for: 30s"),
    ("has hysteresis", [4, 3, 2, 3, 1, 3, 4, 0], "recover: '< 2'"),
]


@pytest.mark.parametrize(("line", "field"), [case[1:] for case in LINES], ids=[case[0] for case in LINES])
def test_a_restart_in_any_state_neither_forgets_nor_repeats(
    world: World, hook: Webhook, tmp_path: Path, line: list[int], field: str
) -> None:
    rules = RULES.format(url=hook.url).replace('condition: "> 3"', f'condition: "> 3", {field or "for: 0s"}')
    states = []
    world.rules(rules)
    for value in line:
        world.tick(x=value)
        states.append(world.states())
    told = hook.told
    hook.taken.clear()
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other", hook.url, f"duckdb:///{tmp_path}/other/misstep.duckdb")
    other.rules(rules)
    for value, expected in zip(line, states, strict=True):
        other.restart()
        other.tick(x=value)
        assert other.states() == expected
    other.store.close()
    assert hook.told == told
    assert told


def test_when_a_receiver_was_last_told_is_known_after_a_restart(world: World, hook: Webhook) -> None:
    world.tick(x=4)
    before = receiver_rows(world.engine)
    world.restart()
    assert before[0]["success"]
    assert receiver_rows(world.engine) == before


def test_a_crash_before_the_message_is_recorded_repeats_it_and_loses_nothing(world: World, hook: Webhook) -> None:
    world.values.set(x=4)
    world.now_ns += STEP
    (message,) = world.engine.evaluate(world.now_ns)
    send(message)
    world.restart()
    world.tick(x=4)
    world.tick(x=4)
    assert hook.told == [("firing", ["firing x"])] * 2


def test_a_crash_between_the_two_writes_closes_the_history(world: World) -> None:
    world.tick(x=4)
    world.store.execute("delete from alerts")
    world.restart()
    world.tick(x=1)
    (firing,) = history_rows(world.engine, 0, 10)
    assert firing["resolved"] is not None


def test_a_receiver_that_is_down_for_an_hour_hears_each_thing_once(world: World, hook: Webhook) -> None:
    world.tick(a=4)
    hook.status = 503
    for minute in range(60):
        world.tick(MINUTE, a=4 if minute < 10 else 1, b=4 if minute > 20 else 1, c=4 if 30 < minute < 40 else 1)
    (failing,) = receiver_rows(world.engine)
    assert (failing["error"], failing["success"] is not None) == ("answered 503", True)
    assert hook.attempts < 2 * (60 / 5 + 10), "it is left alone for longer and longer"
    world.restart()
    hook.status = 200
    world.tick(5 * MINUTE)
    world.tick(5 * MINUTE)
    assert hook.told == [("firing", ["firing a"]), ("firing", ["resolved a", "firing b"])]


def test_a_receiver_that_fails_holds_up_no_other(world: World, hook: Webhook) -> None:
    down = Webhook()
    down.close()
    text = RULES.format(url=hook.url).replace("[team]", "[down, team]") + f"  down: {{webhook: '{down.url}'}}\n"
    world.rules(text)
    for value in (4, 4, 4, 1, 1):
        world.tick(x=value)
    assert hook.told == [("firing", ["firing x"]), ("resolved", ["resolved x"])]
    by_name = {row["receiver"]: row for row in receiver_rows(world.engine)}
    assert by_name["team"]["failures"] == 0
    assert by_name["down"]["failures"] >= 1
    assert "cannot be reached" in by_name["down"]["error"]


def test_what_a_receiver_asks_for_is_respected(world: World, hook: Webhook) -> None:
    hook.status, hook.headers = 429, {"Retry-After": "600"}
    world.tick(x=4)
    tried = hook.attempts
    hook.status = 200
    world.tick(9 * MINUTE)
    assert hook.attempts == tried
    world.tick(MINUTE)
    assert hook.told == [("firing", ["firing x"])]


def test_a_message_that_is_refused_keeps_back_no_other(world: World, hook: Webhook) -> None:
    world.rules(RULES.format(url=hook.url).replace("group_interval", "group_by: [tool], group_interval"))
    hook.refuses = b'"a: 4"'
    world.tick(a=4, b=4)
    world.tick(a=4, b=4, c=4)
    assert hook.told == [("firing", ["firing b"]), ("firing", ["firing c"])]
    assert hook.attempts == 3, "it is tried again after five minutes"
    (row,) = receiver_rows(world.engine)
    assert row["error"] == "answered 422"
    hook.refuses = b"nothing that is sent"
    world.tick(5 * MINUTE)
    assert hook.told[2:] == [("firing", ["firing a"])]


def test_of_more_alerts_than_a_message_holds_each_is_told(world: World, hook: Webhook) -> None:
    many = {f"t{number:03}": 4 for number in range(105)}
    told: set[str] = set()
    for values in (many, many, {**many, "z": 4}, {**many, "z": 1}):
        world.tick(**values)
        told = set(hook.told[-1][1])
        assert len(told) == 100
    assert "resolved z" in told
    assert {alert for _, alerts in hook.told for alert in alerts} == {
        "firing z", "resolved z", *(f"firing {name}" for name in many),
    }  # fmt: skip


def test_a_silence_can_name_what_receivers_see(world: World) -> None:
    world.tick(x=4)
    (alert,) = world.engine.alerts.values()
    for labels, mutes in (
        ({"tool": "x"}, True), ({"severity": "warning", "tool": "x"}, True), ({"alertname": "broken"}, True),
        ({"severity": "critical"}, False), ({"alertname": "other"}, False),
    ):  # fmt: skip
        silence = Silence("1", "", tuple(labels.items()), "ann", "why", 0, 2**62)
        assert silence.mutes(alert, world.now_ns) is mutes


def test_what_may_have_reached_somebody_is_not_sent_again_at_once(world: World, hook: Webhook) -> None:
    hook.status = 500
    world.tick(x=4)
    assert hook.attempts == 2
    address = hook.url.replace("http://", "json://")
    world.rules(RULES.format(url=hook.url).replace(f'webhook: "{hook.url}"', f'apprise: ["{address}"]'))
    world.tick()
    assert hook.attempts == 3, "Apprise may have sent a part of it"


def test_a_mended_file_gives_its_receivers_another_chance_at_once(world: World, hook: Webhook) -> None:
    world.rules(RULES.format(url=hook.url.replace("/hook", "/hook?wrong")))
    hook.status = 404
    world.tick(x=4)
    assert hook.attempts == 1, "what is rejected is not tried twice in a row"
    world.tick()
    assert hook.attempts == 1
    hook.status = 200
    world.rules(RULES.format(url=hook.url))
    world.tick()
    assert hook.told == [("firing", ["firing x"])]


def test_alerts_of_one_group_share_a_message(world: World, hook: Webhook) -> None:
    world.rules(RULES.format(url=hook.url).replace("group_interval: 0s", "group_wait: 30s, group_interval: 5m"))
    world.tick(a=4)
    world.tick(a=4, b=4)
    assert hook.told == []
    world.tick(a=4, b=4)
    assert hook.told == [("firing", ["firing a", "firing b"])]
    for _ in range(19):
        world.tick(a=1, b=4, c=4)
    assert len(hook.told) == 1, "the next message waits for group_interval"
    world.tick(a=1, b=4, c=4)
    assert hook.told[1:] == [("firing", ["resolved a", "firing b", "firing c"])]


def test_groups_are_by_the_labels_that_the_receiver_names(world: World, hook: Webhook) -> None:
    world.rules(RULES.format(url=hook.url).replace("group_interval: 0s", "group_interval: 0s, group_by: [tool]"))
    world.tick(a=4, b=4)
    assert hook.told == [("firing", ["firing a"]), ("firing", ["firing b"])]


def test_more_messages_than_one_evaluation_may_send_come_with_the_next(world: World, hook: Webhook) -> None:
    world.rules(RULES.format(url=hook.url).replace("group_interval: 0s", "group_interval: 0s, group_by: [tool]"))
    values = {f"t{i}": 4 for i in range(50)}
    world.tick(**values)
    assert len(hook.told) == 20
    world.tick(**values)
    world.tick(**values)
    world.tick(**values)
    assert sorted(alerts for _, alerts in hook.told) == sorted([f"firing {name}"] for name in values)


TWO = """
rules:
  - {{name: broken, measure: errors, by: [tool], condition: "> 3", labels: {{team: a}}, severity: critical}}
  - {{name: slow, measure: p95_ms, by: [tool], condition: "> 3"}}
receivers:
  team: {{webhook: "{url}", group_interval: 0s}}
"""


def test_a_rule_that_fails_stops_no_other_and_keeps_its_alerts(world: World, hook: Webhook) -> None:
    world.rules(TWO.format(url=hook.url))
    world.tick(x=4)
    world.values.by_measure["errors"] = RuntimeError(f"no such {SECRET}")
    world.values.set("p95_ms", y=4)
    world.tick()
    assert world.states() == {"x": "firing", "y": "firing"}
    broken, slow = rule_rows(world.engine)
    assert broken["error"] == "RuntimeError: no such [redacted:test]"
    assert (broken["state"], broken["value"], slow["error"]) == ("firing", 4.0, None)
    world.tick(x=1)
    world.tick(x=1)
    assert world.states() == {"y": "firing"}
    assert rule_rows(world.engine)[0]["error"] is None


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("edit", ["left the file", "team: b", "severity: info"])
def test_a_resolution_has_the_labels_of_its_firing(world: World, hook: Webhook, edit: str, stopped: bool) -> None:
    """Receivers find what is resolved by its labels."""
    text = TWO.format(url=hook.url)
    world.rules(text)
    world.tick(x=4)
    word = edit.partition(":")[0]
    lines = [re.sub(rf"\b{word}: \w+(?=}}|, )", edit, line) for line in text.splitlines()]
    world.rules("\n".join(line for line in lines if ":" in edit or "broken" not in line))
    if stopped:
        world.restart()
    world.tick(x=1)
    world.tick(x=1)
    first, last = (message["alerts"][0] for message in hook.taken)
    assert (first["status"], last["status"]) == ("firing", "resolved")
    assert (
        first["labels"] == last["labels"] == {"alertname": "broken", "tool": "x", "team": "a", "severity": "critical"}
    )
    assert world.states() == {}


def test_a_rule_that_left_the_file_during_a_stop_resolves_too(world: World, hook: Webhook) -> None:
    world.rules(TWO.format(url=hook.url))
    world.tick(x=4)
    world.rules("\n".join(line for line in TWO.format(url=hook.url).splitlines() if "broken" not in line))
    world.restart()
    world.tick()
    world.tick()
    assert [message["status"] for message in hook.taken] == ["firing", "resolved"]
    assert hook.taken[1]["alerts"][0]["annotations"]["summary"] == "its rule was removed"


def test_a_broken_file_changes_nothing_and_says_so(world: World, hook: Webhook) -> None:
    world.tick(x=4)
    world.rules("rules: [")
    world.tick(x=5)
    assert world.states() == {"x": "firing"}
    assert world.engine.book.error is not None
    world.tick(x=1)
    assert hook.told == [("firing", ["firing x"]), ("resolved", ["resolved x"])]


def test_a_silence_mutes_what_fires_but_not_the_end_of_what_was_told(world: World, hook: Webhook) -> None:
    def silence(rule: str, labels: dict[str, str], minutes: int) -> None:
        one = Silence(
            f"{rule}{labels}",
            rule,
            tuple(labels.items()),
            "ann",
            "known",
            world.now_ns,
            world.now_ns + minutes * MINUTE,
        )
        world.engine.ledger.add_silence(one)

    world.tick(a=4)
    silence("broken", {"tool": "a"}, 120)
    silence("", {"tool": "b"}, 1)
    silence("other", {}, 120)
    world.tick(a=4, b=4, c=4)
    assert hook.told == [("firing", ["firing a"]), ("firing", ["firing c"])]
    assert [row["silenced"] for row in alert_rows(world.engine, world.now_ns)] == [True, False, True]
    world.tick(MINUTE, a=4, b=4, c=4)
    assert hook.told[2:] == [("firing", ["firing b", "firing c"])], "the silence of b has ended"
    world.tick(a=1, b=4, c=4)
    assert hook.told[3:] == [("firing", ["resolved a", "firing b", "firing c"])]


def test_a_silence_that_was_added_meanwhile_is_not_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reading, added = world.engine.ledger.silences, threading.Event(), threading.Event()

    def slow(now_ns: int) -> list[Silence]:
        found = read(now_ns)
        if not reading.is_set():
            reading.set()
            added.wait(0.5)
        return found

    monkeypatch.setattr(world.engine.ledger, "silences", slow)
    first = threading.Thread(target=world.engine.read_silences, args=(world.now_ns,))
    first.start()
    reading.wait()
    world.engine.ledger.add_silence(Silence("1", "broken", (), "ann", "known", world.now_ns, UNTIL_RESOLVED))
    world.engine.read_silences(world.now_ns)
    added.set()
    first.join()
    assert [silence.id for silence in world.engine.silences] == ["1"]


def test_labels_that_were_rewritten_are_read_again(world: World, hook: Webhook) -> None:
    """Otherwise the alert would be told once more, under the labels that it has now."""
    for _ in range(2):
        world.tick(a=9)
    assert (world.states(), len(hook.told)) == ({"a": "firing"}, 1)
    for table in ("alerts", "alert_history", "alert_notifications"):
        world.store.execute(f"update {table} set labels = replace(labels, '\"a\"', '\"b\"')")
    world.engine.read_again()
    world.tick(b=9)
    assert (world.states(), len(hook.told)) == ({"b": "firing"}, 1)


def test_a_silence_until_resolved_ends_with_the_last_alert_that_it_is_about(world: World, hook: Webhook) -> None:
    def silenced() -> list[bool]:
        return [row["silenced"] for row in alert_rows(world.engine, world.now_ns)]

    world.rules(RULES.format(url=hook.url).replace('"> 3"', '"> 3", for: 30s, keep_firing_for: 30s'))
    world.tick(a=4, b=4)
    world.engine.ledger.add_silence(Silence("1", "broken", (), "ann", "known", world.now_ns, UNTIL_RESOLVED))
    for _ in range(3):
        world.restart()
        world.tick(a=4, b=4)
        assert silenced() == [True, True], "while they wait and while they fire"
    world.tick(30 * 10**9, a=1, b=4)
    assert silenced() == [True], "one goes on"
    world.tick(a=4, b=4)
    assert silenced() == [True, True], "what came again meanwhile is one of them"
    world.tick(30 * 10**9, a=1, b=1)
    assert (world.states(), world.engine.silences, hook.told) == ({}, [], [])
    for _ in range(3):
        world.tick(a=4)
    assert hook.told == [("firing", ["firing a"])]


CAUSE = """
rules:
  - {{name: outage, measure: p95_ms, by: [tool], condition: "> 3", inhibits: [broken]}}
  - {{name: broken, measure: errors, by: [tool], condition: "> 3", labels: {{team: a}}}}
receivers:
  team: {{webhook: "{url}", group_interval: 0s}}
"""


def test_a_cause_holds_back_its_consequences_until_it_is_over(world: World, hook: Webhook) -> None:
    world.rules(CAUSE.format(url=hook.url))
    world.values.set("p95_ms", x=4)
    world.tick(x=4, y=4)
    assert sorted(hook.told) == [("firing", ["firing x"]), ("firing", ["firing y a"])]
    rows = {(row["rule"], row["labels"]["tool"]): row for row in alert_rows(world.engine, world.now_ns)}
    assert {key: row["inhibited_by"] for key, row in rows.items()} == {
        ("outage", "x"): None, ("broken", "x"): "outage", ("broken", "y"): None,
    }  # fmt: skip
    assert rows["broken", "x"]["state"] == "firing"
    world.restart()
    world.tick(x=4, y=4)
    assert len(hook.told) == 2
    world.values.set("p95_ms", x=1)
    world.tick(x=4, y=4)
    assert sorted((status, sorted(alerts)) for status, alerts in hook.told[2:]) == [
        ("firing", ["firing x a", "firing y a"]), ("resolved", ["resolved x"]),
    ]  # fmt: skip


def test_the_end_of_what_was_told_before_its_cause_is_told(world: World, hook: Webhook) -> None:
    world.rules(CAUSE.format(url=hook.url))
    world.tick(x=4)
    world.values.set("p95_ms", x=4)
    world.tick(x=4)
    world.tick(x=1)
    assert [(status, alerts) for status, (alerts, *_) in hook.told] == [
        ("firing", "firing x a"), ("firing", "firing x"), ("resolved", "resolved x a"),
    ]  # fmt: skip


def test_lateness_ends_the_window_so_long_before_the_evaluation(world: World) -> None:
    asked: list[tuple[int, int]] = []

    def counts(store: Keeps, queries: Sequence[MeasureQuery]) -> dict[MeasureQuery, Measured]:
        asked.extend((world.now_ns - one.end_ns, one.end_ns - one.start_ns) for one in queries)
        return dict.fromkeys(queries, Measured())

    world.measure = counts
    world.rules(RULES.format(url=world.url).replace('condition: "> 3"', 'condition: "> 3", lateness: 90s'))
    world.restart()
    world.tick()
    assert asked == [(90 * 10**9, HOUR)]


def test_an_event_that_comes_late_is_seen_by_the_next_evaluation(world: World, hook: Webhook) -> None:
    world.rules("rules: [{name: a, measure: errors, window: 10m, condition: '>= 2'}]\n")
    world.measure = measure_all
    world.restart()
    holding(world.store, [failed(5)])
    world.tick()
    assert world.states() == {}
    holding(world.store, [failed(5), failed(8)])
    world.tick()
    assert world.states() == {"a": "firing"}
    world.tick(2 * MINUTE)
    assert world.states() == {}, "it has left the window by its own time, not by that of its arrival"


def test_values_are_kept_where_they_change(world: World) -> None:
    def kept() -> list[tuple[int, float | None, int]]:
        rows = world.store.rows("select * from alert_samples order by time_ns")
        return [((row["time_ns"] - NOW) // STEP, row["value"], row["state"]) for row in rows]

    for value in (1, 1, 1, 2, 2, 2, 2, 9, 9):
        world.tick(x=value)
    assert kept() == [(1, 1, 0), (5, 2, 0), (8, 9, 2)], "a minute apart, or when the state changes"
    for _ in range(40):
        world.tick(x=9)
    assert kept()[3:] == [(48, 9, 2)], "every ten minutes even if nothing changes"
    world.values.by_measure["errors"] = []
    world.tick()
    assert kept()[4:] == [(50, None, 0)], "a mark where it vanished"
    (first, *_) = sample_rows(world.engine, "broken", 0, NOW * 2, 10)
    assert (first["labels"], first["value"], first["threshold"], first["state"]) == ({"tool": "x"}, 1, 3, "inactive")


def test_old_values_are_removed(world: World) -> None:
    world.tick(x=1)
    world.tick(8 * 24 * HOUR, x=2)
    assert [row["value"] for row in world.store.rows("from alert_samples")] == [2]


def test_a_rule_with_too_many_label_sets_says_so(world: World) -> None:
    world.tick(**{f"t{i}": 4 for i in range(1200)})
    assert len(world.states()) == 1000
    assert "group by fewer dimensions" in rule_rows(world.engine)[0]["error"]


def test_a_value_that_is_no_number_says_nothing(world: World) -> None:
    world.tick(x=float("nan"), y=float("inf"), z=None)
    assert world.states() == {}
    assert rule_rows(world.engine)[0]["value"] is None


def test_a_baseline_is_scaled_to_the_window(world: World, hook: Webhook) -> None:
    asked: list[tuple[int, int]] = []

    def counts(store: Keeps, queries: Sequence[MeasureQuery]) -> dict[MeasureQuery, Measured]:
        asked.extend((world.now_ns - one.end_ns, one.end_ns - one.start_ns) for one in queries)
        return {
            one: Measured([Sample({"tool": "x"}, 21.0 if one.end_ns == world.now_ns else 240.0, 100)])
            for one in queries
        }

    world.measure = counts
    world.rules(RULES.format(url=hook.url).replace("> 3", "> 2x previous 1d"))
    world.restart()
    world.tick()
    assert asked == [(0, HOUR), (HOUR, 24 * HOUR)]
    assert world.states() == {"x": "firing"}, "21 an hour against 240 a day"
    assert rule_rows(world.engine)[0]["threshold"] == 20.0


def test_the_loop_evaluates_and_waits_for_nobody(world: World, hook: Webhook) -> None:
    async def story() -> None:
        running = asyncio.create_task(world.engine.run())
        hook.hold.clear()
        world.values.set(x=4)
        await _until(lambda: hook.attempts == 1)
        seen = world.engine.evaluated_ns
        world.now_ns += STEP
        await _until(lambda: world.engine.evaluated_ns > seen)
        assert hook.attempts == 1, "one batch at a time"
        hook.hold.set()
        await _until(lambda: bool(hook.taken))
        world.values.by_measure["errors"] = []
        world.now_ns += STEP
        await _until(lambda: len(hook.taken) == 2)
        await world.engine.close()
        await asyncio.wait_for(running, 5)

    asyncio.run(story())
    assert hook.told == [("firing", ["firing x"]), ("resolved", ["resolved x"])]


def test_who_does_not_answer_does_not_hold_up_the_end(
    world: World, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.alerts.engine.CLOSE_S", 0.1)
    monkeypatch.setattr("collector.alerts.send.TIMEOUT_S", 60.0)

    async def story() -> None:
        running = asyncio.create_task(world.engine.run())
        hook.hold.clear()
        world.values.set(x=4)
        await _until(lambda: hook.attempts == 1)
        await world.engine.close()
        await running

    started = time.monotonic()
    asyncio.run(story())  # and waits for threads of the executor
    assert time.monotonic() - started < 40
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "alerts"] == [True]


async def _until(happened: Callable[[], bool]) -> None:
    for _ in range(5_000):
        if happened():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


def test_what_resolves_while_its_message_is_on_its_way_is_told_too(world: World, hook: Webhook) -> None:
    async def story() -> None:
        running = asyncio.create_task(world.engine.run())
        hook.hold.clear()
        world.values.set(x=4)
        await _until(lambda: hook.attempts == 1)
        world.values.set(x=1)
        world.now_ns += STEP
        await _until(lambda: world.states() == {"x": "resolved"})
        hook.hold.set()
        await _until(lambda: len(hook.taken) == 2)
        await world.engine.close()
        await asyncio.wait_for(running, 5)

    asyncio.run(story())
    assert hook.told == [("firing", ["firing x"]), ("resolved", ["resolved x"])]


def test_a_store_that_fails_is_said_and_the_loop_goes_on(world: World, hook: Webhook) -> None:
    async def story() -> None:
        world.store.execute("alter table alert_silences rename to elsewhere")
        running = asyncio.create_task(world.engine.run())
        await _until(lambda: bool(world.engine.error))
        world.store.execute("alter table elsewhere rename to alert_silences")
        world.values.set(x=4)
        await _until(lambda: bool(hook.taken))
        assert world.engine.error == ""
        await world.engine.close()
        await running

    asyncio.run(story())


def default_world(world: World, hook: Webhook, events: list[dict[str, Any]]) -> World:
    """An engine with the default rules that sends to the webhook and measures these events."""
    world.rules(f"receivers:\n  team: {{webhook: '{hook.url}', group_interval: 0s}}\n")
    world.measure = measure_all
    world.restart()
    holding(world.store, events)
    return world


def test_three_mistakes_in_a_row_fire_at_once_and_the_next_success_resolves_them(world: World, hook: Webhook) -> None:
    world = default_world(world, hook, [failed(3), failed(2)])
    world.tick()
    assert hook.told == []
    holding(world.store, [failed(3), failed(2), failed(1)])
    world.tick()
    assert hook.told == [("firing", ["firing api s1"])]
    assert hook.taken[0]["alerts"][0]["annotations"]["summary"] == "api: 3 mistakes in a row in one session"
    holding(world.store, [failed(3), failed(2), failed(1), event(0)])
    world.tick()
    assert hook.told[1:] == [("resolved", ["resolved api s1"])]


HEALTHY = [event(i, session=f"s{i % 7}") for i in range(300)] + [event(1600)]


def spread(number: int, within: int, **fields: Any) -> list[dict[str, Any]]:
    """This many failures in different sessions, evenly spread over the last minutes."""
    return [
        failed(1000 + i, time_ns=NOW - (i + 1) * within * MINUTE // number, session=f"f{i}", **fields)
        for i in range(number)
    ]


VALIDATION = {"category": "validation", "error_class": "MissingParameterError"}


@pytest.mark.parametrize(
    ("events", "fires"),
    [
        pytest.param(HEALTHY, set(), id="healthy traffic"),
        pytest.param(HEALTHY + spread(8, 60), set(), id="a few errors"),
        pytest.param(
            HEALTHY + spread(100, 55, tool=None, operation="agent", **VALIDATION), set(), id="100 validation errors"
        ),
        pytest.param(
            HEALTHY + spread(101, 55, tool=None, operation="agent", **VALIDATION),
            {"validation-errors"},
            id="101 of them",
        ),
        pytest.param(
            HEALTHY
            + spread(3, 5, error_class="AuthenticationError", category="auth", operation="model", mistake=False),
            {"authentication-failing"},
            id="a key that was revoked",
        ),
        pytest.param(
            HEALTHY
            + [event(5000 + i, time_ns=NOW - (i % 9 + 1) * MINUTE, operation="model", tool=None) for i in range(60)]
            + spread(25, 4, error_class="RateLimitError", category="rate_limit", operation="model", mistake=False),
            {"rate-limit-storm"},
            id="too many requests",
        ),
        pytest.param(
            HEALTHY + spread(25, 20, tool="apply_diff"), {"tool-broken"}, id="a tool that fails for everybody"
        ),
        pytest.param(
            HEALTHY
            + [event(2000 + i, time_ns=NOW - (25 - i) * MINUTE, tool="apply_diff", session="f0") for i in range(3)]
            + [
                failed(3000 + i, time_ns=NOW - (20 - i) * MINUTE, tool="apply_diff", session="f0", mistake=False)
                for i in range(19)
            ],
            set(),
            id="a tool that one agent cannot use",
        ),
        pytest.param(
            HEALTHY
            + spread(25, 9, operation="model", tool=None, category="server", error_class="ServerError", mistake=False),
            {"provider-failing"},
            id="a provider that is down",
        ),
        pytest.param(
            HEALTHY + [failed(2000 + i, time_ns=NOW - i * MINUTE, session=f"f{i}", fingerprint=i) for i in range(1, 6)],
            {"new-errors"},
            id="five kinds of errors after a deploy",
        ),
        pytest.param(
            HEALTHY
            + [
                failed(2000 + i, time_ns=NOW - i * MINUTE, session=f"f{i}", fingerprint=i, service="fresh")
                for i in range(1, 6)
            ],
            set(),
            id="a service that nobody knew",
        ),
        pytest.param(
            HEALTHY + spread(60, 300, error_class="UnknownError", category="unknown", domain="unknown", mistake=False),
            {"unclassified-errors"},
            id="errors without a class",
        ),
        pytest.param(
            [event(40 + i // 10, event_id=i, environment="production") for i in range(300)],
            {"agent-silent"},
            id="an agent in production that stopped",
        ),
        pytest.param([event(40 + i // 10, event_id=i) for i in range(300)], set(), id="somebody who went to lunch"),
    ],
)
def test_default_rules_fire_for_their_fault_alone(
    world: World, hook: Webhook, events: list[dict[str, Any]], fires: set[str]
) -> None:
    world = default_world(world, hook, events)
    world.engine.evaluate(NOW)
    found = {rule for rule, _ in world.engine.alerts}
    assert found == fires
    assert [row["error"] for row in rule_rows(world.engine)] == [None] * 10


def test_what_is_saved_together_is_saved_whole_or_not_at_all() -> None:
    store = Store.open("duckdb://:memory:")
    ledger = Ledger(store)
    alert = Alert("many", (("tool", "a"),), State.FIRING, 5.0, 9, 3.0, NOW, NOW, NOW)
    ledger.save([alert], ())
    store.execute("drop table alert_notifications")
    with pytest.raises(duckdb.Error):
        ledger.save([replace(alert, value=7.0)], [("gone", ())])
    assert list(ledger.alerts().values()) == [alert]
    store.close()


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.1, 14.9), (3, 12), (10, 40)])
def test_evaluations_that_take_long_are_made_less_often(took_s: float, pause_s: float) -> None:
    assert rest_after(took_s, 15) == pytest.approx(pause_s)


def test_shown_first_is_what_has_an_alert_then_what_is_nearest_to_one() -> None:
    rate = Rule("rate", "error_rate", parse_condition("> 0.3", "error_rate"), {}, by=("tool",), min_calls=10)
    few, many, fires = Sample({"tool": "a"}, 1.0, 1), Sample({"tool": "b"}, 0.5, 20), Sample({"tool": "c"}, 0.2, 30)
    assert worst_first(rate, [few, many, fires], {("rate", (("tool", "c"),))}) == (fires, many, few)
    rise = Rule("rise", "errors", parse_condition("> 2x previous 1h", "errors"), {}, by=("tool",))
    steady, risen, new = Sample({}, 100.0, 100, 100.0), Sample({}, 10.0, 10, 1.0), Sample({}, 500.0, 500)
    assert worst_first(rise, [steady, risen, new]) == (risen, steady, new)


INCIDENTS = """
rules:
  - {{name: broken, measure: errors, by: [tool], condition: "> 3", notify: [pager]}}
receivers:
  pager: {{{kind}, group_interval: 0s, repeat: 1h}}
"""


@pytest.mark.parametrize("kind", ["pagerduty", "opsgenie"])
def test_an_incident_is_opened_once_and_closed_by_its_key_over_failures_and_restarts(
    kind: str, world: World, hook: Webhook
) -> None:
    key, base = "k" * 32, hook.url.removesuffix("/hook")
    world.rules(INCIDENTS.format(kind=f"{kind}: {key}, api_url: '{base}'"))
    hook.status, hook.headers = 429, {"Retry-After": "60"}
    world.tick(x=4, y=5)
    assert hook.taken == []
    hook.status = 200
    world.tick(x=4, y=5)
    assert hook.taken == [], "it asked for a minute"
    for _ in range(5):
        world.tick(x=4, y=5)
    assert len(hook.taken) == 2, "one for each alert"
    world.restart()
    world.tick(HOUR, x=4, y=5)
    assert len(hook.taken) == 4, "told again"
    world.tick(x=4, y=1)
    world.tick(x=4, y=1)
    opened, closed = hook.taken[:4], hook.taken[4:]
    name = {"pagerduty": "dedup_key", "opsgenie": "alias"}[kind]
    assert len({body[name] for body in opened}) == 2
    assert len(closed) == 1
    if kind == "pagerduty":
        assert closed[0]["event_action"] == "resolve"
        assert [body["dedup_key"] for body in opened].count(closed[0]["dedup_key"]) == 2
