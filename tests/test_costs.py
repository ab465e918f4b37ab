"""What failures cost, against plain Python over random sessions, and null if no agent reports it."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from collector.query.costs import costs
from collector.query.filters import Selection
from collector.store.store import Store
from tests.recorded import DAY, HOUR, MINUTE, NOW, Event, event, failed, holding
from tests.reference import expected_chains, expected_streaks, in_order, session_of

EVER = Selection(0, NOW + DAY)


def sessions(seed: int) -> list[Event]:
    """Model requests and tool calls of a few sessions, no two at the same time; half the requests report tokens."""
    dice, events = random.Random(seed), []
    for number, minute in enumerate(dice.sample(range(4000), 250)):
        fields: dict[str, Any] = {
            "event_id": number, "time_ns": NOW - minute * MINUTE // 2, "session": dice.choice("abc"),
            "duration_ms": float(dice.randrange(1000)),
        }  # fmt: skip
        if dice.random() < 0.4:
            told = {"input_tokens": dice.randrange(900), "output_tokens": 7, "cost_usd": 0.25}
            events.append(
                event(number, **fields, operation="model", tool=None, **(told if dice.random() < 0.5 else {}))
            )
            continue
        fields["tool"] = dice.choice("xy")
        events.append(failed(number, **fields) if dice.random() < 0.6 else event(number, **fields))
    return [*events, event(9999, time_ns=NOW)]


def expected(events: list[Event]) -> dict[str, dict[str, float]]:
    """By tool of the first mistake: follows every streak from there to the next success."""
    by_id, found = {one["event_id"]: one for one in events}, defaultdict[str, Any](lambda: defaultdict(float))
    for streak in expected_streaks(events, "session", "mistake", 3):
        first = by_id[streak["first_event_id"]]
        mine = [one for one in in_order(events) if session_of(one) == session_of(first)]
        until = streak["ended"]
        if streak["state"] == "recovered":
            until = next(one["time_ns"] for one in mine if one["time_ns"] > until and one["outcome"] == "ok"
                         and one["operation"] == "tool")  # fmt: skip
        inside = [one for one in mine if streak["started"] <= one["time_ns"] <= until]
        sums = found[first["tool"]]
        sums["streaks"] += 1
        sums["mistakes"] += streak["length"]
        sums["calls"] += len(inside)
        sums["seconds"] += (until - streak["started"]) / 1e9
        sums["busy_ms"] += sum(one["duration_ms"] for one in inside)
        for name in ("input_tokens", "output_tokens", "cost_usd"):
            sums[name] += sum(one.get(name, 0) for one in inside)
        sums["told"] += sum("input_tokens" in one for one in inside)
    for number, chain in expected_chains(events).items():
        if chain[0] and chain[1] is False:
            error = by_id[number]
            again = next(one for one in in_order(events) if one["time_ns"] > error["time_ns"]
                         and session_of(one) == session_of(error) and one.get("tool") == error["tool"])  # fmt: skip
            found[error["tool"]]["wasted_retries"] += 1
            found[error["tool"]]["wasted_ms"] += again["duration_ms"]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_costs_are_what_a_plain_walk_adds_up(store: Store, seed: int) -> None:
    events = sessions(seed)
    holding(store, events)
    rows = {row["tool"]: row for row in costs(EVER, ["tool"]).rows(store)}
    told = expected(events)
    assert set(rows) == set(told)
    for tool, sums in told.items():
        assert {name: rows[tool][name] or 0 for name in sums} == pytest.approx(dict(sums))
    [whole] = costs(EVER, []).rows(store)
    for name in ("streaks", "calls", "seconds", "wasted_retries", "cost_usd"):
        assert whole[name] == pytest.approx(sum(row[name] or 0 for row in rows.values()))


def test_nothing_is_said_of_tokens_where_nobody_tells_them(store: Store) -> None:
    holding(store, [failed(200), failed(199), event(198), event(1)])
    [row] = costs(EVER, ["model"]).rows(store)
    assert (row["streaks"], row["calls"], row["seconds"], row["told"]) == (1, 3, 120, 0)
    assert (row["input_tokens"], row["cost_usd"], row["wasted_input_tokens"]) == (None, None, None)
    assert (row["wasted_retries"], row["wasted_ms"]) == (0, None)


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
