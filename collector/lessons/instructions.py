"""Where the sentence of a lesson is written: the file that an agent really loads, between marks of our own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from collector.tables import load_toml, schemas

BEGIN = "<!-- misstep:lessons (misstep lessons draft wrote what stands up to the end mark) -->"
END = "<!-- misstep:end -->"
BLOCK = re.compile(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}\n?", re.DOTALL)
LINE = re.compile(r"^- .* <!-- misstep:lesson ([0-9a-f]{8}) -->$", re.MULTILINE)
MARK = re.compile(r"<!-- misstep:lesson ([0-9a-f]{8}) -->")
IN_BACKQUOTES = re.compile(r"`([^`\n]{1,200})`")
MOST_LESSONS = 5
MOST_BYTES = 1_500
READ_BYTES = 256 << 10  # of an instruction file


@dataclass(frozen=True, slots=True)
class Instructions:
    """What an agent loads, in order of preference: `instead` only where none of `files` exists."""

    agent: str
    files: tuple[str, ...]
    instead: tuple[str, ...]
    made: str


@cache
def instructions() -> dict[str, Instructions]:
    """The agents of `schemas/lessons.toml`, by source."""
    rows = load_toml(schemas().joinpath("lessons.toml"))["instructions"]
    return {
        row["agent"]: Instructions(
            row["agent"],
            tuple(row["files"]),
            tuple(row.get("instead", ())),
            row.get("made", row["files"][0]),
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class Place:
    """The file that an agent loads in a folder, with its text; `skipped` are files that it does not read there."""

    path: Path
    text: str
    skipped: tuple[str, ...] = ()


def place_of(agent: str, folder: Path) -> Place:
    """Where a sentence for this agent belongs. Raises OSError where a file cannot be read."""
    known = instructions().get(agent) or instructions()["other"]
    loaded = next((name for name in known.files if (folder / name).is_file()), None)
    other = next((name for name in known.instead if (folder / name).is_file()), None)
    path = folder / (loaded or other or known.made)
    skipped = tuple(name for name in known.instead if loaded and (folder / name).is_file())
    return Place(path, read(path), skipped)


def read(path: Path) -> str:
    """The text of an instruction file; empty if there is none. Raises OSError."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read(READ_BYTES)
    except FileNotFoundError:
        return ""


def said(sentence: str, text: str) -> str | None:
    """The line of a file that says it already: one with every quoted word of the sentence, outside of our own lines."""
    words = [word.casefold() for word in IN_BACKQUOTES.findall(sentence)]
    lines = BLOCK.sub("", text).splitlines()
    return next((line.strip() for line in lines if words and all(word in line.casefold() for word in words)), None)


def written(text: str) -> list[str]:
    """The ids of the lessons in our part of a file."""
    return LINE.findall("".join(BLOCK.findall(text)))


def marked(text: str) -> list[str]:
    """The ids of the lessons whose marks stand in a text, wherever: agents may leave comments of their own line out."""
    return sorted(set(MARK.findall(text)))


def room(sentence: str, text: str) -> str | None:
    """Why there is no room for another lesson; None if there is."""
    own = "".join(BLOCK.findall(text))
    if len(written(text)) >= MOST_LESSONS:
        return f"there are {MOST_LESSONS} lessons in the file already: files that are short are followed best"
    if len((own + sentence).encode(errors="replace")) > MOST_BYTES:
        return f"the lessons of the file would be longer than {MOST_BYTES} bytes"
    return None


def with_lesson(text: str, lesson: str, sentence: str) -> str:
    """The file with the sentence among our lines: instead of an earlier one of the same lesson, else as the last."""
    line = f"- {sentence} <!-- misstep:lesson {lesson} -->"
    found = BLOCK.search(text)
    if not found:
        before = text if not text or text.endswith("\n") else text + "\n"
        return f"{before}{'' if not before else chr(10)}{BEGIN}\n{line}\n{END}\n"
    lines = _without(found[1].splitlines(), lesson)
    return _replaced(text, found, [*lines, line])


def without_lesson(text: str, lesson: str) -> str:
    """The file without the line of a lesson, and without our marks if it was the last."""
    found = BLOCK.search(text)
    return _replaced(text, found, _without(found[1].splitlines(), lesson)) if found else text


def _without(lines: Iterable[str], lesson: str) -> list[str]:
    return [line for line in lines if f"<!-- misstep:lesson {lesson} -->" not in line]


def _replaced(text: str, found: re.Match[str], lines: list[str]) -> str:
    before, after = text[: found.start()], text[found.end() :]
    if not lines:
        return before.removesuffix("\n") + after if before.endswith("\n\n") else before + after
    body = "\n".join(lines)
    return f"{before}{BEGIN}\n{body}\n{END}\n{after}"
