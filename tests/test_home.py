"""A home as people have it: the folders of many agents, sessions that repeat others, are being written, or are broken.

Every call counts once, whatever repeats it, and nothing that was said or written reaches a collector.
"""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.transcripts.find import find
from collector.transcripts.positions import Positions
from collector.transcripts.read import Readings
from tests.test_transcripts import AGENTS, SAMPLES, answer, claude, lines, received, use

USER = ".config/Code/User"
PLACES = {  # where the samples of an agent belong below a home
    "amazon-q": ".local/share/amazon-q", "amp": ".local/share/amp", "claude-code": ".claude", "codex": ".codex",
    "continue": ".continue", "copilot-chat": ".config/Code", "copilot-cli": ".copilot", "droid": ".factory",
    "forge": ".forge", "gemini-cli": ".gemini", "goose": ".local/share/goose/sessions", "gptme": ".local/share/gptme",
    "hermes": ".hermes", "kilo": ".local/share/kilo", "kilo-code-legacy": USER, "kimi": ".kimi", "kiro": ".kiro",
    "mistral-vibe": ".vibe", "opencode": ".local/share/opencode", "pi": ".pi/agent", "qwen-code": ".qwen",
    "roo-code": USER, "zed": ".local/share/zed/threads",
}  # fmt: skip
CANARY = "canary-" + "b7e2"
REPEATED = 4  # by the samples of Claude Code
CALLS = 4  # of each session that is made here
Line = dict[str, Any]


def session(number: int) -> list[Line]:
    """A session of Claude Code with the canary in what was said, written and read; one call has no result yet."""
    name = f"{number:08x}-8a3e-4c11-9b7d-0a6f2e9c1b34"
    ids = [f"toolu_{number:06d}{place}" for place in range(CALLS)]
    records = [
        claude("user", f"please {CANARY}"),
        use(ids[0], "Write", 1, file_path="a.py", content=CANARY),
        answer(ids[0], f"ok {CANARY}", 2),
        use(ids[1], second=3, command="make test"),
        answer(ids[1], "Exit code 2\nmake: no rule", 4, is_error=True),
        use(ids[2], "Read", 5, file_path=f"src/m{number}.py"),
        answer(ids[2], CANARY * 20, 6),
        use(ids[3], "Edit", 7, file_path="a.py", old_string=CANARY, new_string=CANARY),
    ]
    day, hour, minute = number // 1440 % 28 + 1, number // 60 % 24, number % 60
    for place, one in enumerate(records):
        one |= {
            "sessionId": name,
            "uuid": f"{name}-{place}",
            "timestamp": f"2026-10-{day:02d}T{hour:02d}:{minute:02d}:{place:02d}.000Z",
        }
    return records


def resumed(number: int, of: list[Line]) -> list[Line]:
    """Older versions copied what they resumed, under a new session id, and went on."""
    name = f"{number:08x}-0000-4c11-9b7d-0a6f2e9c1b34"
    return [{**one, "sessionId": name} for one in of] + session(number)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for agent, place in PLACES.items():
        shutil.copytree(SAMPLES / agent, tmp_path / place, dirs_exist_ok=True)
    other = tmp_path / ".local/share/kiro-cli"
    other.mkdir()
    shutil.copy(SAMPLES / "kiro/data.sqlite3", other)
    return tmp_path


def made(home: Path, sessions: int) -> int:
    """Adds sessions, of which every tenth is resumed by another, and odd files; the number of different calls."""
    folder = home / ".claude/projects/-home-ann-shop"
    for number in range(sessions):
        records = session(number)
        lines(folder / f"{number:08x}.jsonl", *records)
        if number % 10 == 0:
            lines(folder / f"{number + 1_000_000:08x}.jsonl", *resumed(number + 1_000_000, records))
    growing = lines(folder / "growing.jsonl", *session(2_000_000))
    growing.write_bytes(growing.read_bytes() + json.dumps(use("toolu_half")).encode()[:60])
    (folder / "broken.jsonl").write_bytes(b"\xff\xfe\x00" * 900 + b"\n")
    (folder / "empty.jsonl").touch()
    (home / ".local/share/opencode/opencode-broken.db").write_bytes(b"SQLite format 3\0" + b"\0" * 84)
    return CALLS * (sessions + -(-sessions // 10) + 1)


def imported(home: Path) -> tuple[Readings, Iterator[Line]]:
    readings = Readings(find(AGENTS.values(), {}, home), Positions(None))
    return readings, (one for found in readings.changed() for one in readings.calls(found))


def check(home: Path, sessions: int) -> None:
    wanted = made(home, sessions)
    readings, calls = imported(home)
    expected = {agent: len(json.loads((SAMPLES / agent / "expected.json").read_text())) for agent in PLACES}
    expected["claude-code"] += wanted
    made_ids: Counter[str] = Counter()
    lot: list[Line] = []
    for one in calls:
        if one["operation"] == "tool" and one["call_id" if "call_id" in one else "tool"].startswith("toolu_0"):
            made_ids[one["call_id"]] += 1
        lot.append(one)
        if len(lot) == 500:
            assert CANARY not in repr(received(lot))
            lot = []
    assert CANARY not in repr(received(lot))
    counts = {agent: count.calls for agent, count in readings.counts.items()}
    assert {agent: counts[agent] for agent in expected} == expected
    assert counts.keys() == expected.keys()
    assert set(made_ids.values()) == {1}
    told = readings.counts["claude-code"]
    assert told.outcomes["unknown"] >= sessions
    assert told.repeated == CALLS * -(-sessions // 10) + REPEATED
    assert readings.counts["opencode"].failed == 1
    assert told.told.unreadable >= 1


def test_each_call_of_a_home_with_many_agents_counts_once(home: Path) -> None:
    check(home, 30)


@pytest.mark.deep
def test_each_call_of_a_home_with_two_thousand_sessions_counts_once(home: Path) -> None:
    check(home, 2_000)


@pytest.mark.deep
def test_a_file_of_two_hundred_megabytes_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / ".claude/projects/p/large.jsonl"
    path.parent.mkdir(parents=True)
    large = [json.dumps(answer(f"toolu_{place}", "x" * (4 << 20))) for place in range(50)]
    with path.open("w") as file:
        for place, result in enumerate(large):
            file.write(json.dumps(use(f"toolu_{place}", "Read", file_path="a.bin")) + "\n" + result + "\n")
    del large
    assert os.path.getsize(path) > 200 << 20
    readings, calls = imported(tmp_path)
    tracemalloc.start()
    assert sum(one["operation"] == "tool" for one in calls) == 50
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20, peak
    assert readings.counts["claude-code"].failed == 0
