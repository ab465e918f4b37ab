"""What failures cost, against plain Python over random sessions; null if no agent reports it, who then is named."""

from __future__ import annotations

import random
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.query.costs import costs
from collector.query.filters import Selection
from tests.recorded import DAY, HOUR, MINUTE, NOW, Event, event, failed, holding
from tests.reference import expected_costs

EVER = Selection(0, NOW + DAY)


def sessions(seed: int) -> list[Event]:
    """Model requests and tool calls of a few sessions, some at the same time; half the requests report tokens."""
    dice, events = random.Random(seed), []
    for number, minute in enumerate(dice.choices(range(1500), k=250)):
        fields: dict[str, Any] = {
            "event_id": number, "time_ns": NOW - minute * MINUTE // 2, "session": dice.choice("abc"),
            "service": dice.choice(["api", "api", "web", None]), "subagent": dice.choice([None, None, None, "helper"]),
            "duration_ms": float(dice.randrange(1000)),
        }  # fmt: skip
        if dice.random() < 0.4:
            told = {"input_tokens": dice.randrange(900), "output_tokens": 7, "cost_usd": 0.25}
            told = told if fields["service"] == "api" and dice.random() < 0.5 else {}
            about = {"model": dice.choice(["m", "m", None]), "outcome": dice.choice(["ok", "ok", "error"])}
            events.append(event(number, **fields, **about, operation="model", tool=None, **told))
            continue
        fields["tool"] = dice.choice("xy")
        mistake = {"mistake": dice.random() < 0.6, "model": dice.choice([None, None, "own"])}
        events.append(failed(number, **fields, **mistake) if dice.random() < 0.5 else event(number, **fields))
    return [*events, event(9999, time_ns=NOW)]


@pytest.mark.parametrize("seed", range(5))
def test_costs_are_what_a_plain_walk_adds_up(store: Store, seed: int) -> None:
    events = sessions(seed)
    holding(store, events)
    rows = store.rows("select event_id, asked_by from events where asked_by is not null")
    asked = {row.pop("event_id"): row for row in rows}
    assert len(asked) > 30
    events = [one | asked.get(one["event_id"], {}) for one in events]
    for by in ("tool", "service"):
        told = expected_costs(events, by)
        answer = {row.pop(by): row for row in costs(EVER, [by]).rows(store)}
        assert answer.keys() == told.keys()
        for key, sums in told.items():
            same(answer[key], sums)
        assert sum(sums["asking"] for sums in told.values()) > 0
    [whole], [sums] = costs(EVER, []).rows(store), expected_costs(events).values()
    same(whole, sums)
    assert whole["tokens_not_told_by"] == ["codex", "web"]


def same(row: dict[str, Any], sums: dict[str, Any]) -> None:
    """Fractions are added up in another order."""
    assert row.keys() == sums.keys()
    for name, value in sums.items():
        assert row[name] == (pytest.approx(value) if isinstance(value, float) else value), name


def test_a_request_that_asked_for_failed_calls_counts_once(store: Store) -> None:
    """For two failures of one answer, within a streak, and by a call that names its model itself."""
    asks: dict[str, Any] = {"operation": "model", "tool": None, "model": "m", "input_tokens": 10, "cost_usd": 0.5}
    no_mistake: dict[str, Any] = {"mistake": False, "attribution": "environment"}
    holding(store, [
        event(200, **asks), failed(199, **no_mistake), failed(198, **no_mistake, model="own"),  # asked for at once
        event(190, **asks), failed(189), event(188, **asks), failed(187), event(186),  # the second lies in the streak
        event(1),
    ])  # fmt: skip
    [row] = costs(EVER, []).rows(store)
    assert (row["streaks"], row["asking"], row["calls"]) == (1, 2, 2 + 4)
    assert (row["told"], row["input_tokens"], row["cost_usd"]) == (3, 30, 1.5)
    assert row["tokens_not_told_by"] == row["money_not_told_by"] == []


def test_a_retry_in_vain_costs_the_request_that_asked_for_it(store: Store) -> None:
    asks: dict[str, Any] = {"operation": "model", "tool": None, "model": "m", "input_tokens": 10}
    holding(store, [event(200, **asks), failed(199), event(198, **asks), failed(197), failed(196), event(1)])
    [row] = costs(EVER, []).rows(store)
    assert (row["wasted_retries"], row["wasted_told"], row["wasted_input_tokens"]) == (2, 1, 10)
    assert (row["wasted_cost_usd"], row["tokens_not_told_by"], row["money_not_told_by"]) == (None, [], ["api"])


def test_a_failed_request_that_is_sent_again_in_vain_costs_its_own_tokens(store: Store) -> None:
    asks: dict[str, Any] = {"operation": "model", "tool": None, "model": "m", "mistake": False, "input_tokens": 10}
    holding(store, [failed(200, **asks), failed(199, **asks), event(1)])
    [row] = costs(EVER, []).rows(store)
    assert (row["streaks"], row["wasted_retries"], row["wasted_input_tokens"]) == (0, 1, 10)


def test_nothing_is_said_of_tokens_where_nobody_tells_them(store: Store) -> None:
    holding(store, [failed(200), failed(199), event(198), event(1)])
    [row] = costs(EVER, ["model"]).rows(store)
    assert (row["streaks"], row["calls"], row["seconds"], row["told"]) == (1, 3, 120, 0)
    assert (row["input_tokens"], row["cost_usd"], row["wasted_input_tokens"]) == (None, None, None)
    assert (row["wasted_retries"], row["wasted_ms"]) == (0, None)
    assert row["tokens_not_told_by"] == row["money_not_told_by"] == ["api"]


def test_another_sub_agents_work_is_not_counted(store: Store) -> None:
    spent = event(199, operation="model", tool=None, input_tokens=10)
    holding(
        store, [failed(200), spent, spent | {"event_id": 9, "subagent": "other"}, failed(198), event(197), event(1)]
    )
    [row] = costs(EVER, []).rows(store)
    assert (row["calls"], row["input_tokens"]) == (4, 10)


def test_filters_choose_the_streaks_and_the_errors(store: Store) -> None:
    holding(store, [failed(200), event(199), failed(150, tool="z"), failed(149, tool="z"), event(1)])
    by_tool = {row["tool"]: row for row in costs(EVER, ["tool"], ["tool"]).rows(store)}
    assert {name: (row["streaks"], row["wasted_retries"]) for name, row in by_tool.items()} == {
        "read_file": (1, 0), "z": (1, 1),
    }  # fmt: skip
    assert costs(Selection(NOW - HOUR, NOW), ["tool"]).rows(store) == []


def test_who_tells_nothing_is_named_though_anothers_sender_of_this_name_does(store: Store) -> None:
    tells = event(198, operation="model", tool=None, input_tokens=10, project="shop")
    other = {"project": "other", "session": "theirs"}
    shop = [failed(200, project="shop"), failed(199, project="shop"), tells]
    holding(store, [*shop, failed(197, **other), failed(196, **other), event(1)])
    [row] = costs(EVER, []).rows(store)
    assert (row["streaks"], row["tokens_not_told_by"], row["money_not_told_by"]) == (2, ["api"], ["api"])
    rows = {row["project"]: row["tokens_not_told_by"] for row in costs(EVER, ["project"]).rows(store)}
    assert rows == {"shop": [], "other": ["api"]}
