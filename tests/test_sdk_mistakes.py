"""The SDK's tracker counts exactly as the collector does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from misstep_sdk import Limit, MistakeTracker

from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.query.filters import Selection
from collector.query.streaks import Scope, streaks
from tests.recorded import HOUR, MINUTE, NOW, Event, emptied, event
from tests.search import searching

STEPS = st.sampled_from([1, 1, MINUTE, 30 * MINUTE, HOUR, HOUR + 1])
CALLS = st.fixed_dictionaries(
    {
        "session": st.sampled_from(["s1", "s2"]),
        "subagent": st.sampled_from([None, None, "helper"]),
        "tool": st.sampled_from(["edit", "edit", "read"]),
        "target": st.sampled_from(["/a", "/a", "/b", None]),
        "outcome": st.sampled_from(["ok", "error", "error", "error", "cancelled", "denied", "unknown"]),
        "mistake": st.sampled_from([True, True, False]),
    }
)


def told(outcome: str, step: int = 1, **more: str | bool | None) -> tuple[Event, int]:
    call = {"session": "s1", "subagent": None, "tool": "edit", "target": "/a", "outcome": outcome, "mistake": True}
    return call | more, step


ALL_KINDS = [
    *(told("error") for _ in range(3)), told("ok"), told("error"), told("cancelled"), told("denied"), told("unknown"),
    told("error", mistake=False), told("error", target="/b"), told("ok", target="/b"), told("error"), told("error"),
    told("error", subagent="helper"), told("ok", subagent="helper"), told("error", HOUR), told("error", HOUR + 1),
    told("error", session="s2", tool="read"), told("ok", target=None), told("error", target=None),
]  # fmt: skip


@searching(0.3)  # each example has sixty calls at most
@example(calls=ALL_KINDS)
@given(calls=st.lists(st.tuples(CALLS, STEPS), min_size=1, max_size=60))
def test_streaks_of_the_tracker_are_those_of_the_collector(store: Store, calls: list[tuple[Event, int]]) -> None:
    """Every run of mistakes of either scope, with its length."""
    emptied(store)
    now_ns, events, tracker = NOW - 1000 * HOUR, [], MistakeTracker()
    runs: Counter[tuple[str, ...]] = Counter()
    running: dict[tuple[str, ...], int] = {}
    last: dict[str, int] = {}
    for number, (call, step) in enumerate(calls):
        now_ns += step
        fields = dict(call) | {"mistake": call["mistake"] if call["outcome"] == "error" else None}
        events.append(event(number, time_ns=now_ns, error_class="NoChangeError", **fields))
        session = call["session"]
        if now_ns - last.get(session, now_ns) > HOUR:
            for key in [key for key in running if key[1] == session]:
                runs[(key[0], session, str(running.pop(key)))] += 1
        last[session] = now_ns
        after = tracker.record(
            session, call["outcome"], tool=call["tool"], mistake=call["mistake"], target=call["target"],
            subagent=call["subagent"], time_ns=now_ns,
        )  # fmt: skip
        scopes: list[tuple[tuple[str, ...], int]] = [(("session", session, str(call["subagent"])), after.session)]
        if call["target"]:
            scopes.append((("target", session, str(call["subagent"]), call["tool"], call["target"]), after.target))
        for key, count in scopes:
            if count < running.get(key, 0):
                runs[(key[0], session, str(running.pop(key)))] += 1
            elif count:
                running[key] = count
    for key, count in running.items():
        runs[(key[0], key[1], str(count))] += 1
    store.write(Changes(NOW, events=events))
    while store.keep_up():
        pass
    found: Counter[tuple[str, ...]] = Counter()
    for scope in ("session", "target"):
        asked = streaks(Selection(0, 2**62), Scope(scope, "mistake"), limit=1000)
        found.update((scope, row["session"], str(row["length"])) for row in store.rows(asked.sql, asked.params))
    assert found == runs


def test_limits_are_told_each_time_that_they_are_reached() -> None:
    told: list[Limit] = []
    tracker = MistakeTracker(on_limit=told.append)
    for number in range(4):
        tracker.record("s", "error", tool="apply_diff", mistake=True, target="a.py", time_ns=number)
    assert told == [
        Limit("s", 2, "apply_diff", "a.py"), Limit("s", 3), Limit("s", 3, "apply_diff", "a.py"), Limit("s", 4),
        Limit("s", 4, "apply_diff", "a.py"),
    ]  # fmt: skip
    tracker.asked("s")
    assert tracker.count("s") == 0


def test_counts_survive_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "mistakes.json"
    tracker = MistakeTracker(file=file)
    for number in range(2):
        tracker.record("s", "error", tool="edit", mistake=True, target="a", time_ns=number)
    again = MistakeTracker(file=file)
    assert again.count("s") == 2
    assert again.record("s", "error", tool="edit", mistake=True, target="a", time_ns=3).target == 3
    again.forget("s")
    assert MistakeTracker(file=file).count("s") == 0
    assert [each.name for each in tmp_path.iterdir()] == ["mistakes.json"]


def test_the_sessions_of_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("misstep_sdk.mistakes.MOST_SESSIONS", 2)
    tracker = MistakeTracker()
    for number, name in enumerate(["a", "b", "a", "c"]):
        tracker.record(name, "error", tool="edit", mistake=True, time_ns=number)
    assert [tracker.count(name) for name in "abc"] == [2, 0, 1]


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"counts": 1})])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mistakes.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"mistakes\.json is not a file of a MistakeTracker"):
        MistakeTracker(file=file)
