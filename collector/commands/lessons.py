"""`misstep lessons`: what would prevent recurring mistakes, as the collector found it, and as a diff for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from collector.commands.client import check, collector
from collector.errors import Mistaken
from collector.lessons.instructions import Place, instructions, place_of, read, room, said, with_lesson, without_lesson
from collector.plural import plural

Lesson = Mapping[str, Any]
WRITTEN = ("project", "path")  # places of kinds whose sentence stands in an instruction file


def lessons(url: str, token: str, *, refused: bool, **asked: str) -> Iterator[str]:
    """A line or two for each lesson; with `refused` also for each candidate, with the gate that refused it."""
    rows = _answer(url, token, "/api/v1/lessons", {**asked, **({} if refused else {"state": "proposed"})})["rows"]
    if not rows:
        yield "No lessons: no mistake of these calls recurs often enough to write something down."
        yield "misstep lessons --refused shows the candidates, and what each lacks."
    for row in rows:
        yield from _listed(row)


def _listed(row: Lesson) -> Iterator[str]:
    yield f"{row['id']}  {row['text']}"
    yield f"          {evidence(row)}"
    if row["refused_by"]:
        gate = next(one for one in row["gates"] if one["gate"] == row["refused_by"])
        yield f"          refused by {gate['gate']}: {gate['why']}"


def evidence(row: Lesson) -> str:
    """In how many sessions it happened, what it cost, and what worked next."""
    told = f"in {row['sessions']} of {plural(row['scope_sessions'], 'session')} of {row['scope'] or 'all'}"
    cost = f"{plural(row['calls'], 'call')}, {row['seconds'] / 60:.0f} min"
    tokens = f", {row['tokens']:,} tokens" if row["tokens"] is not None else ""
    worked = f"; {row['next']} worked next in {row['next_sessions']}" if row["next"] else ""
    return f"{told} since {row['first_seen'][:10]}, last on {row['last_seen'][:10]} ({cost}{tokens}){worked}"


def show(url: str, token: str, lesson: str, folder: Path) -> Iterator[str]:
    """One lesson whole: evidence, gates, examples, and where it belongs for each agent that made the mistake."""
    row = _one(url, token, lesson)
    yield row["text"]
    yield evidence(row)
    if row["firm"]:
        yield f"Firmer than a sentence: {row['firm']}"
    yield ""
    yield f"{row['strength']}: {plural(row['attempts'], 'attempt')}, {len(row['examples'])} examples"
    for one in row["examples"]:
        yield f"  {one['session']}  {one['tool']} {one['target'] or ''}  {one['message'] or ''}"
    yield ""
    for agent in _agents(row):
        place = place_of(agent, folder)
        yield f"for {agent}: {place.path}"
        yield from (f"  {gate}: {why}" for gate, why in _file_gates(row, place))
    for gate in row["gates"]:
        if gate["passed"] is not None:
            yield f"  {'passed ' if gate['passed'] else 'refused'} {gate['gate']}: {gate['why']}"


def draft(url: str, token: str, lesson: str, agent: str, folder: Path, write: Path | None) -> Iterator[str]:
    """The change of the file that the agent loads, as a unified diff; with `write`, of that file, which is written.

    Raises Mistaken where the sentence stands there already, there is no room, or the lesson is none for a file.
    """
    row = _one(url, token, lesson)
    if row["place"] not in WRITTEN:
        raise Mistaken(f"this is for no instruction file. {row['firm']}")
    name = agent or _agents(row)[0]
    place = Place(write, read(write)) if write else place_of(name, folder)
    for gate, why in _file_gates(row, place):
        raise Mistaken(f"{gate}: {why}")
    after = with_lesson(place.text, row["id"], row["text"])
    yield from _diff(place.path, place.text, after)
    if write:
        _write(write, after)


def undo(lesson: str, write: Path) -> Iterator[str]:
    """Takes the line of a lesson out of a file again, and shows the change."""
    before = read(write)
    after = without_lesson(before, lesson)
    if after == before:
        raise Mistaken(f"{write} has no line of the lesson {lesson}")
    yield from _diff(write, before, after)
    _write(write, after)


def _file_gates(row: Lesson, place: Place) -> Iterator[tuple[str, str]]:
    """What refuses a lesson in the file of an agent."""
    if line := said(row["text"], place.text):
        firm = f" It was not followed: {row['firm']}" if row["firm"] else ""
        yield "not_said_yet", f"{place.path} says it already: {line[:120]!r}.{firm}"
    if why := room(row["text"], place.text):
        yield "budget", f"{place.path}: {why}"


def _diff(path: Path, before: str, after: str) -> Iterator[str]:
    return (line.rstrip("\n") for line in unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(path), str(path)
    ))  # fmt: skip


def _write(path: Path, text: str) -> None:
    """Beside, and renamed: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.misstep")
    with beside.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    if path.exists():
        beside.chmod(path.stat().st_mode & 0o777)
    beside.replace(path)


def _agents(row: Lesson) -> list[str]:
    told = [name for name in (row["agents"] or "").split(", ") if name in instructions()]
    return told or ["other"]


def _one(url: str, token: str, lesson: str) -> Lesson:
    return _answer(url, token, f"/api/v1/lessons/{lesson}", {})


def _answer(url: str, token: str, path: str, asked: Mapping[str, str]) -> dict[str, Any]:
    with collector(url, token) as client:
        answer = client.get(path, params=asked)
    check(answer)
    found: dict[str, Any] = answer.json()
    return found
