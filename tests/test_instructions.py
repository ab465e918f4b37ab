"""Where a lesson is written: the file that an agent loads, our part of it, and what refuses it there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from collector.lessons.instructions import place_of, room, said, with_lesson, without_lesson, written
from tests.conftest import RunningCollector, misstep
from tests.test_mcp import told

__all__ = ["told"]
SENTENCE = "`pytest` is not installed here. Use `uv run pytest`."


@pytest.mark.parametrize(
    ("agent", "there", "loaded", "skipped"),
    [
        ("claude-code", ["CLAUDE.md"], "CLAUDE.md", ()),
        ("claude-code", ["AGENTS.md"], "AGENTS.md", ()),
        ("claude-code", ["AGENTS.md", ".claude/CLAUDE.md"], ".claude/CLAUDE.md", ("AGENTS.md",)),
        ("claude-code", [], "CLAUDE.md", ()),
        ("codex", ["AGENTS.md", "AGENTS.override.md"], "AGENTS.override.md", ()),
        ("codex", [], "AGENTS.md", ()),
        ("gemini-cli", ["AGENTS.md"], "GEMINI.md", ()),
        ("nobody-knows", ["AGENTS.md"], "AGENTS.md", ()),
    ],
)
def test_the_file_that_an_agent_loads(
    tmp_path: Path, agent: str, there: list[str], loaded: str, skipped: tuple[str, ...]
) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# Rules\n")
    place = place_of(agent, tmp_path)
    assert (place.path, place.skipped) == (tmp_path / loaded, skipped)


@pytest.mark.parametrize("text", ["", "# Rules\n", "# Rules", "# Rules\r\n\r\nBe kind.\r\n", "a\n\nb\n\n"])
def test_what_was_written_is_taken_out_again(text: str) -> None:
    once = with_lesson(text, "0123abcd", SENTENCE)
    twice = with_lesson(once, "deadbeef", "Tests: `make test`.")
    assert written(twice) == ["0123abcd", "deadbeef"]
    assert with_lesson(twice, "deadbeef", "Tests: `make test`.") == twice
    assert without_lesson(twice, "deadbeef") == once
    assert without_lesson(once, "0123abcd").rstrip("\n") == text.rstrip("\n")
    assert without_lesson(text, "0123abcd") == text


def test_what_stands_there_already_is_not_said_again() -> None:
    assert said(SENTENCE, "Run tests with `uv run pytest`, never pytest.") is not None
    assert said(SENTENCE, "Run the tests.") is None
    assert said(SENTENCE, with_lesson("", "0123abcd", SENTENCE)) is None


def test_a_file_has_room_for_five_lessons() -> None:
    text = ""
    for number in range(5):
        assert room(SENTENCE, text) is None
        text = with_lesson(text, f"{number:08x}", SENTENCE)
    assert "5 lessons" in (room(SENTENCE, text) or "")
    assert "bytes" in (room("x" * 1_600, "") or "")


def test_from_the_list_to_a_line_in_the_file_and_back(told: RunningCollector, tmp_path: Path) -> None:
    def asked(*arguments: object) -> tuple[int, str]:
        done = misstep("lessons", *arguments, cwd=tmp_path, settings={"COLLECTOR_URL": told.url})
        return done.returncode, done.stdout

    done, listed = asked()
    lesson = listed.split()[0]
    assert (done, listed.splitlines()[0]) == (0, f"{lesson}  {SENTENCE}")
    assert "in 10 of 10 sessions of coder since" in listed.splitlines()[1]
    assert "uv run pytest worked next in 10" in listed.splitlines()[1]
    file = tmp_path / "AGENTS.md"
    file.write_text("# Rules\n")
    _, shown = asked("draft", lesson)
    assert f"+- {SENTENCE} <!-- misstep:lesson {lesson} -->" in shown
    assert file.read_text() == "# Rules\n"
    assert asked("draft", lesson, "--write", file)[0] == 0
    assert SENTENCE in file.read_text()
    assert "          adopted on " in asked()[1]
    assert asked("draft", lesson, "--write", file, "--undo")[0] == 0
    assert file.read_text().rstrip() == "# Rules"
    assert "adopted" not in asked()[1]
    file.write_text("Use `uv run pytest`, not `pytest`.\n")
    done, refused = asked("draft", lesson)
    assert (done, refused.startswith("not_said_yet: ")) == (1, True)
    _, shown = asked("show", lesson)
    assert "passed  breadth: 10 sessions on 10 days" in shown


def test_a_lesson_is_adopted_since_its_line_was_committed(told: RunningCollector, tmp_path: Path) -> None:
    [row] = told.get("/api/v1/lessons", state="proposed")["rows"]
    lesson = row["id"]

    def asked(*arguments: object) -> str:
        done = misstep("lessons", *arguments, cwd=tmp_path, settings={"COLLECTOR_URL": told.url})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def git(*arguments: str) -> None:
        when = {"GIT_COMMITTER_DATE": "2026-11-01T09:00:00Z", "GIT_AUTHOR_DATE": "2026-11-01T09:00:00Z"}
        by = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *by, *arguments], cwd=tmp_path, check=True, capture_output=True, env=os.environ | when)

    assert "(as you say)" in asked("adopt", lesson)
    file = tmp_path / "AGENTS.md"
    file.write_text(with_lesson("# Rules\n", lesson, SENTENCE))
    os.utime(file, (1_793_000_000, 1_793_000_000))
    assert "Adopted since 2026-10-26T07:33:20Z (the time of the file). " in asked("adopt", lesson)
    git("init", "-q")
    git("add", "AGENTS.md")
    git("commit", "-qm", "a rule")
    said = asked("adopt", lesson)
    assert "Adopted since 2026-11-01T09:00:00Z (the time of the line's commit). " in said
    assert "(as you say). Cannot tell: only " in asked("adopt", lesson, "--at=-30d")
    assert "snoozed until" in asked("snooze", lesson, "--for", "7d") + asked("--refused")
    asked("dismiss", lesson)
    assert told.get("/api/v1/lessons", state="dismissed")["rows"][0]["id"] == lesson
    asked("reopen", lesson)
    assert told.get(f"/api/v1/lessons/{lesson}")["state"] == "proposed"
    unknown = misstep("lessons", "adopt", "00000000", cwd=tmp_path, settings={"COLLECTOR_URL": told.url})
    assert (unknown.returncode, "there is no lesson with id 00000000" in unknown.stderr) == (2, True)
