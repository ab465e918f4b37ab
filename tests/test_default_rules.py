"""The default rules on recorded sessions: no alert if agents work, and the right one if they fail.

A story is a recorded session, repeated several times. Services, providers, tools and sources have its name, so that all
stories share one store and one run of the engine over a night.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from collector.alerts.engine import Engine
from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import default_rules
from collector.alerts.status import history_rows
from collector.alerts.trying.backtest import look_back, run
from collector.commands.demo import demo
from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.measures.all import measure_all
from collector.measures.history_sql import Evaluations
from tests.conftest import RunningCollector
from tests.recorded import DAY, HOUR, MINUTE, NOW, Event
from tests.test_recordings import FOLDER, SCRIPTED, stored

NIGHT = Evaluations(NOW, 2 * MINUTE, 31)


@cache
def sessions(recording: str) -> dict[str, list[Event]]:
    """The events of each session of a recording, oldest first."""
    events = stored([json.loads((FOLDER / f"{recording}.json").read_text())["records"]])
    found: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda one: one["time_ns"]):
        found.setdefault(str(event.get("session")), []).append(event)
    return found


def session(recording: str, begins: str) -> list[Event]:
    """The session whose name begins with this."""
    (found,) = (events for name, events in sessions(recording).items() if name.startswith(begins))
    return found


def well() -> list[Event]:
    """Every recorded session in which nothing failed, one after the other."""
    every = [events for path in SCRIPTED for events in sessions(path.stem).values()]
    return [one for events in every if all(one["outcome"] == "ok" for one in events) for one in events]


def played(
    events: list[Event], times: int = 1, *, at: int = 5 * MINUTE, over: int = 0, lasting: int = 0, **more: Any
) -> list[Event]:
    """Sessions that begin `at` a time of the night, spread `over` a time, each `lasting` a time, with `more` fields."""
    found = []
    for number in range(times):
        start = NOW + at + over * number // times
        for place, event in enumerate(events):
            when = start + lasting * place // len(events)
            found.append({**event, "time_ns": when, "session": f"{event.get('session')}-{number}", **more})
    return found


def deployed() -> list[Event]:
    """Sessions without errors for days, and then with errors that were never seen."""
    new = played(session("smolagents", "smol-R"), over=9 * MINUTE, service_version="2")
    return played(well(), at=-3 * DAY, service="smol-demo", service_version="1") + new


def back() -> list[Event]:
    """Errors nine days ago, none since, and the same ones again."""
    failing = session("smolagents", "smol-R")
    return played(failing, at=-9 * DAY) + played(well(), at=-2 * DAY, service="smol-demo") + played(failing)


STORIES: dict[str, tuple[Callable[[], list[Event]], set[str]]] = {
    "well": (lambda: played(well(), 40, at=-HOUR, over=2 * HOUR, lasting=4 * MINUTE), set()),
    "mends itself": (lambda: played(session("semantic-kernel", "da0"), 3, over=30 * MINUTE, lasting=3 * MINUTE), set()),
    "some fail once": (
        lambda: played(well(), 20, over=40 * MINUTE) + played(session("google-adk-1", "sess-33"), 4, over=40 * MINUTE),
        set(),
    ),
    "one is limited": (lambda: played(session("logfire", "grp-20"), 2, over=3 * MINUTE), set()),
    "first day": (
        lambda: played(well(), at=-2 * HOUR, service="smol-demo") + played(session("smolagents", "smol-R")), set(),
    ),
    "stuck": (lambda: played(session("copilot", ""), lasting=12 * MINUTE), {"mistakes-in-a-row"}),
    "stuck too": (lambda: played(session("claude-code", "3721"), lasting=12 * MINUTE), {"mistakes-in-a-row"}),
    "expired key": (
        lambda: played(session("google-adk-1", "sess-22"), 3, over=5 * MINUTE), {"authentication-failing"},
    ),
    "limited": (
        lambda: played(session("openinference-crewai", "crew-oi-M"), 8, over=4 * MINUTE)
        + played(session("openinference-crewai", "crew-oi-R")[:1], 40, over=4 * MINUTE),
        {"rate-limit-storm"},
    ),
    "limited altogether": (
        lambda: played(session("openinference-crewai", "crew-oi-M"), 8, over=4 * MINUTE),
        {"rate-limit-storm", "provider-failing"},
    ),
    "outage": (
        lambda: played(session("vercel-ai-7", "4cc9"), 30, over=10 * MINUTE, provider="p"), {"provider-failing"},
    ),
    "broken tool": (lambda: played(session("mcp-http", "86e1"), 8, over=20 * MINUTE), {"tool-broken"}),
    "called wrongly": (
        lambda: played(session("pydantic-ai-0", "be7a"), 120, over=30 * MINUTE), {"validation-errors", "tool-broken"},
    ),
    "deployed": (deployed, {"new-errors"}),
    "back": (back, {"errors-are-back"}),
    "unknown": (
        lambda: played(session("pydantic-ai-silent", "01a200e1-8ab"), 90, over=50 * MINUTE), {"unclassified-errors"},
    ),
    "gone": (
        lambda: played(well(), 30, at=-HOUR, over=70 * MINUTE, service="s", environment="production"), {"agent-silent"},
    ),
    "gone to lunch": (lambda: played(well(), 30, at=-HOUR, over=70 * MINUTE, service="s"), set()),
}  # fmt: skip


def told() -> list[Event]:
    """The events of all stories."""
    events = [
        event
        | {field: f"{name}: {event.get(field)}" for field in ("service", "provider", "tool", "source", "session")}
        | ({"fingerprint": event["fingerprint"] ^ place} if "fingerprint" in event else {})
        for place, (name, (story, _)) in enumerate(STORIES.items())
        for event in story()
    ]
    return [{**event, "event_id": number, "received_ns": event["time_ns"]} for number, event in enumerate(events)]


def by_story(firings: Iterable[tuple[str, dict[str, str]]]) -> dict[str, set[str]]:
    """The rules that fired in each story."""
    found: dict[str, set[str]] = {name: set() for name in STORIES}
    for rule, labels in firings:
        (name,) = {value.split(": ")[0] for value in labels.values() if ": " in value}
        found[name].add(rule)
    return found


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Which rules fired in each story as the engine ran, and in a backtest of the same evaluations."""
    store = Store.open("duckdb://:memory:")
    store.write(Changes(NOW, events=told()))
    engine = Engine(store, RuleBook(None), measure_all, lambda _: None, scrub=str, clock=lambda: NIGHT.first_ns)
    for number in range(NIGHT.count):
        engine.evaluate(NIGHT.at(number))
    assert not [one.error for one in engine.evaluations.values() if one.error]
    lived = by_story((row["rule"], row["labels"]) for row in history_rows(engine, 0, 10_000))
    trials = [run(rule, look_back(store, rule, NIGHT), ()) for rule in default_rules().rules]
    store.close()
    return lived, by_story((trial.rule.name, dict(one.labels)) for trial in trials for one in trial.firings)


@pytest.mark.parametrize("name", STORIES)
def test_the_right_default_rule_fires(night: tuple[dict[str, set[str]], dict[str, set[str]]], name: str) -> None:
    lived, tried = night
    assert lived[name] == STORIES[name][1]
    assert tried[name] == STORIES[name][1]


def test_every_default_rule_has_a_story() -> None:
    counted = Counter(rule for _, rules in STORIES.values() for rule in rules)
    assert counted.keys() == {rule.name for rule in default_rules().rules}


def test_the_demo_sets_off_no_more_than_it_should(collector: RunningCollector) -> None:
    """The demo's Roo Code ends with three mistakes in a row; nothing else in the demo is worth a page."""
    demo(collector.url, 40, 5, now_ns=NOW)
    assert collector.stop() == 0
    store = Store.open(f"duckdb:///{collector.store}")
    steps = Evaluations(NOW - DAY, MINUTE, 1441)
    fired = {rule.name for rule in default_rules().rules if run(rule, look_back(store, rule, steps), ()).firings}
    store.close()
    assert fired == {"mistakes-in-a-row"}
