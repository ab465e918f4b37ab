"""What the pages "What changed" and "Lessons" say of random calls equals a recount of these calls in plain Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.parts import words
from tests.conftest import RunningCollector

Call = dict[str, Any]
TOOLS = ("apply_diff", "read_file", "shell", "search")
HALF = timedelta(hours=5)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    running = RunningCollector(tmp_path_factory.mktemp("changing")).start()
    yield running
    running.stop()


def sent(running: RunningCollector, calls: Iterable[Call]) -> None:
    told = [{**one, "time": one["time"].isoformat()} for one in calls]
    assert running.post("/v1/events", json.dumps(told)).is_success
    running.kept_up()


def labels(app: AppTest) -> list[str]:
    return [link.proto.label.replace("\\", "") for link in app.get("page_link")]


def said(app: AppTest) -> list[str]:
    return [one.value.replace("\\", "") for one in [*app.markdown, *app.caption]]


def numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


def errors(calls: Iterable[Call]) -> int:
    return sum(one["outcome"] == "error" for one in calls)


def two_periods(random: Random, end: datetime) -> tuple[list[Call], list[Call]]:
    """Twenty sessions in either half of ten hours; in the later, version 3.2 takes over and breaks the diffs of 3.1."""
    halves: tuple[list[Call], list[Call]] = ([], [])
    for session in range(40):
        late = session >= 20
        version = "3.2" if late and session % 3 else "3.1"
        for step in range(random.randrange(10, 20)):
            tool = random.choice(TOOLS)
            failing = 0.8 if (tool, version) == ("apply_diff", "3.2") else 0.05
            error = {"outcome": "error", "error_class": "DiffApplyFailedError", "message": "Hunk 1 failed to apply"}
            about: Call = {
                "time": end - HALF * (1 if late else 2) + timedelta(minutes=1 + session % 20, seconds=step),
                "service": "changing", "service_version": version, "session": f"s{session}", "tool": tool,
                "call_id": f"{session}-{step}",
            }  # fmt: skip
            halves[late].append(about | (error if random.random() < failing else {"outcome": "ok"}))
    return halves


def test_what_changed(running: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    """The rates of both periods, what sessions, calls and failing add, and each value at equal traffic."""
    end = datetime.now(UTC)
    before, now = two_periods(Random(11), end)
    sent(running, [{"time": end - 3 * HALF, "service": "changing", "outcome": "ok"}, *before, *now])
    app = open_app(running.url, "changes", service="changing", from_=(end - HALF).isoformat(), to=end.isoformat())
    whole = errors(now) - errors(before)

    [verdict] = [one for one in said(app) if "pts" in one]
    rates = [100 * errors(half) / len(half) for half in (before, now)]
    shown = numbers(verdict)
    assert [*shown[:3], *shown[-2:]] == [
        *(round(one, 1) for one in (*rates, rates[1] - rates[0])), len(before), len(now),
    ]  # fmt: skip

    volume = [one for one in said(app) if " more error" in one or " fewer error" in one]
    per_session = [round(len(half) / 20, 1) for half in (before, now)]
    assert [numbers(one)[:2] for one in volume] == [[20, 20], per_session, [round(one, 1) for one in rates]]
    added = [re.findall(r": ([\d.]+) (more|fewer)", one)[0] for one in volume]
    parts = [float(many) if how == "more" else -float(many) for many, how in added]
    assert abs(sum(parts) - whole) <= 1.5  # each is rounded

    rows = [found for one in labels(app) if (found := re.match(r"\*\*.+ = (.+)\*\*\s+:gray\[(.*)", one))]
    listed = {row[1]: row[2] for row in rows}
    diffs = [[one for one in half if one["tool"] == "apply_diff"] for half in (before, now)]
    at_equal_traffic = (errors(diffs[1]) / len(diffs[1]) - errors(diffs[0]) / len(diffs[0])) * sum(map(len, diffs)) / 2
    assert listed["apply_diff"].startswith(
        f"{words.count(at_equal_traffic)} more · {errors(diffs[0])} → {errors(diffs[1])} of {len(diffs[1])} calls"
    )
    new = [one for one in now if one["service_version"] == "3.2"]  # took the place of calls of 3.1
    at_equal_traffic = errors(new) - len(new) * errors(before) / len(before)
    assert listed["3.2"].startswith(f"{words.count(at_equal_traffic)} more · new, {errors(new)} of {len(new)} calls")
    every = rates[1] / 100 - rates[0] / 100
    assert listed["model"].startswith(
        f"{words.count(every * (len(before) + len(now)) / 2)} more · {errors(before)} → {errors(now)}"
    )


def of_a_fortnight(random: Random, end: datetime) -> list[Call]:
    """Forty sessions: in most, `pytest` is not installed; after it, `uv run pytest` works, fails, or is not tried."""
    calls: list[Call] = []
    for session in range(40):
        commands = [("cat README.md", "ok")] * random.randrange(1, 4)
        if session % 4:
            commands += [("pytest -q", "error")] * random.randrange(1, 3)
            commands += random.choice([[("uv run pytest -q", "ok")], [("uv run pytest -q", "ok")], [("ls", "ok")]])
        elif session % 8 == 0:
            commands += [("pytest tests", "ok")]
        for place, (command, outcome) in enumerate(commands):
            error = {"error_class": "CommandNotFoundError", "message": "bash: pytest: command not found"}
            calls.append(
                {"time": end - timedelta(days=1 + session % 13, minutes=session) + timedelta(seconds=place),
                 "service": "learning", "session": f"s{session}", "tool": "run_command", "outcome": outcome,
                 "params": {"command": command}, "call_id": f"{session}-{place}",
                 "duration_ms": random.randrange(1_000, 90_000)} | (error if outcome == "error" else {})
            )  # fmt: skip
    return calls


def test_lessons(running: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    """In how many sessions a mistake recurs, of how many attempts, what it cost, and what worked next how often."""
    calls = of_a_fortnight(Random(5), datetime.now(UTC))
    sent(running, calls)
    app = open_app(running.url, "lessons", service="learning")

    tried = [one for one in calls if one["params"]["command"].startswith("pytest")]
    failed = [one for one in tried if one["outcome"] == "error"]
    hit = {one["session"] for one in failed}
    worked = {one["session"] for one in calls if one["params"]["command"].startswith("uv")} & hit
    spent = sum(one["duration_ms"] for one in failed)
    assert len(failed) < len(tried)
    assert worked < hit

    assert "**1 recurring mistake** of the last 60 days " in " ".join(said(app))
    [card] = [one for one in said(app) if " failed calls of " in one]
    assert card.startswith(
        f"in {len(hit)} of 40 sessions of learning · {len(failed)} failed calls of {len(tried)} attempts · "
    )
    assert f" · {words.duration(spent)} spent in them · " in card
    [after] = [one for one in said(app) if one.startswith("What worked next in ")]
    assert after == f"What worked next in {len(worked)} of {len(worked)} sessions: uv run pytest"
