"""What agents report about their own streaks is shown beside our count, with the reason if they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.query.filters import Selection
from collector.query.signals import agreement, signals
from collector.query.streaks import Scope, streaks
from tests.recorded import HOUR, MINUTE, NOW, Event, event, failed, holding

EVER = Selection(0, NOW + HOUR)


def state(number: int, name: str = "ConsecutiveMistakeError", **fields: Any) -> Event:
    """The agent stopped, or detected a loop."""
    said = {"operation": "agent", "category": "state", "error_class": name, "mistake": False, "tool": None}
    return failed(number, **(said | fields))


def timeout(number: int, **fields: Any) -> Event:
    return failed(number, error_class="ToolTimeoutError", category="execution", mistake=False, **fields)


def model_error(number: int) -> Event:
    return failed(number, operation="model", error_class="ServerError", category="server", mistake=False, tool=None)


# Events, oldest first (each `number` minutes before now), and what is shown for each signal: its kind, the agent's
# number, ours, and why they differ.
STORIES: list[tuple[str, Sequence[Event], list[tuple[Any, ...]]]] = [
    ("it counts as we do", [failed(9, reported_streak=1), failed(8, reported_streak=2), event(7)],
     [("count", 1, 1, "equal"), ("count", 2, 2, "equal")]),
    ("a success begins anew", [failed(9, reported_streak=1), event(8), failed(7, reported_streak=1)],
     [("count", 1, 1, "equal"), ("count", 1, 1, "equal")]),
    ("its limit", [failed(9), failed(8), failed(7), state(6, reported_streak=3)], [("limit", 3, 3, "equal")]),
    ("a limit without a number", [failed(9), failed(8), state(7)], [("limit", None, 2, "no_number")]),
    ("it counts what is no mistake", [failed(9), timeout(8), failed(7), state(6, reported_streak=3)],
     [("limit", 3, 2, "no_mistakes")]),
    ("it counts failed requests", [failed(9), model_error(8), failed(7), state(6, reported_streak=3)],
     [("limit", 3, 2, "model_errors")]),
    ("it begins anew after asking", [failed(9), failed(8), state(7, reported_streak=2), failed(6, reported_streak=1)],
     [("limit", 2, 2, "equal"), ("count", 1, 3, "reset")]),
    ("it counts less", [failed(9), failed(8), failed(7, reported_streak=1)], [("count", 1, 3, "own_rule")]),
    ("calls that did not arrive", [failed(9), state(8, reported_streak=5)], [("limit", 5, 1, "not_seen")]),
    ("equal calls that end well", [event(9), event(8), state(7, "ToolRepetitionError", reported_streak=5)],
     [("loop", 5, 0, "repeats")]),
    ("another sub-agent's", [failed(9, subagent="a"), failed(8, reported_streak=1)], [("count", 1, 1, "equal")]),
    ("an idle hour", [failed(200), failed(9, reported_streak=1)], [("count", 1, 1, "equal")]),
    ("nothing said", [failed(9), event(8)], []),
]  # fmt: skip


@pytest.mark.parametrize(("events", "said"), [one[1:] for one in STORIES], ids=[one[0] for one in STORIES])
def test_each_signal_stands_beside_our_count(store: Store, events: Sequence[Event], said: list[Any]) -> None:
    holding(store, events)
    rows = signals(EVER, "mistake", ["time"]).rows(store)
    assert [(row["signal"], row["reported_streak"], row["ours"], row["why"]) for row in rows] == said


def test_a_source_of_failures_alone_may_not_have_told_of_the_success_between(store: Store) -> None:
    holding(store, [failed(9), failed(8, reported_streak=1)])
    silent = Selection(0, NOW + HOUR, failure_only=("codex",))
    assert signals(silent, "mistake").rows(store)[0]["why"] == "failures_only"


def test_agreement_is_counted_by_source_and_signal(store: Store) -> None:
    events = [failed(9, reported_streak=1), failed(8, reported_streak=2), failed(7, reported_streak=1)]
    other = [failed(6, session="s2", source="cline"), state(5, session="s2", source="cline", reported_streak=3)]
    holding(store, [*events, *other, state(4, session="s2", source="cline")])
    rows = {(row["source"], row["signal"]): row for row in agreement(EVER, "mistake").rows(store)}
    codex, cline = rows["codex", "count"], rows["cline", "limit"]
    assert (codex["signals"], codex["compared"], codex["equal"], codex["lower"], codex["whys"]) == (
        3, 3, 2, 1, ["own_rule"],
    )  # fmt: skip
    assert codex["low"] < codex["agreement"] == 2 / 3 < codex["high"]
    assert (cline["signals"], cline["compared"], cline["higher"], cline["whys"]) == (2, 1, 1, ["not_seen"])


def test_a_signal_outside_the_range_is_not_asked_for_but_its_streak_is_whole(store: Store) -> None:
    holding(store, [failed(30, reported_streak=1), failed(20, reported_streak=2), failed(10, reported_streak=3)])
    [row] = signals(Selection(NOW - 15 * MINUTE, NOW), "mistake").rows(store)
    assert (row["reported_streak"], row["ours"]) == (3, 3)


# Whether the agent stopped in the one mistake streak of these events, and its highest count.
STOPPED: list[tuple[str, Sequence[Event], tuple[int | None, bool]]] = [
    ("never", [failed(9), failed(8)], (None, False)),
    ("it counts", [failed(9, reported_streak=1), failed(8, reported_streak=2)], (2, False)),
    ("at the limit", [failed(9), failed(8), state(7, reported_streak=2)], (2, True)),
    ("in the middle", [failed(9), state(8), failed(7)], (None, True)),
    ("after a success", [failed(9), event(8), state(7, reported_streak=2)], (None, False)),
    ("before it", [state(9), failed(8)], (None, False)),
    ("hours later", [failed(190), state(9, reported_streak=2)], (None, False)),
    ("another session", [failed(9), state(8, session="s2")], (None, False)),
]  # fmt: skip


@pytest.mark.parametrize(("events", "said"), [one[1:] for one in STOPPED], ids=[one[0] for one in STOPPED])
@pytest.mark.parametrize("scope", ["session", "tool"])
def test_a_streak_says_what_the_agent_said_of_it(
    store: Store, events: Sequence[Event], said: tuple[int | None, bool], scope: str
) -> None:
    holding(store, events)
    [row] = streaks(EVER, Scope(scope)).rows(store)
    assert (row["reported_streak"], row["agent_stopped"]) == said
