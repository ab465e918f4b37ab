"""`misstep lessons`: what would prevent recurring mistakes, as the collector found it, and as a diff for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from collector.commands.client import check, collector
from collector.commands.since import since_in
from collector.errors import Mistaken
from collector.lessons.instructions import Place, instructions, place_of, read, room, said, with_lesson, without_lesson
from collector.plural import plural
from collector.times import lasting

Lesson = Mapping[str, Any]
KNOWN_BY = {
    "said": "as you say", "written": "as it was written then", "commit": "the time of the line's commit",
    "file": "the time of the file",
}  # fmt: skip
WRITTEN = ("project", "path")  # places of kinds whose sentence stands in an instruction file


def lessons(url: str, token: str, *, every: bool, **asked: str) -> Iterator[str]:
    """A line or two for each lesson that is proposed or adopted; with `every` also for those that are snoozed or
    dismissed, and for each candidate, with the gate that refused it.
    """
    wanted = asked if every else {**asked, "state": "proposed,adopted"}
    rows = _answer(url, token, "/api/v1/lessons", wanted)["rows"]
    if not rows:
        yield "No lessons: no mistake of these calls recurs often enough to write something down."
        yield "misstep lessons --refused shows the candidates, and what each lacks."
    for row in rows:
        yield from _listed(row)


def _listed(row: Lesson) -> Iterator[str]:
    yield f"{row['id']}  {row['text']}"
    if row["calls"]:
        yield f"          {evidence(row)}"
    if decided := _decided(row):
        yield f"          {decided}"
    elif row["refused_by"]:
        gate = next(one for one in row["gates"] if one["gate"] == row["refused_by"])
        yield f"          refused by {gate['gate']}: {gate['why']}"


def _decided(row: Lesson) -> str:
    """What somebody decided about a lesson, and what became of it; "" of one that is open."""
    match row["state"]:
        case "adopted":
            return f"adopted on {row['since'][:10]}. {row['sentence'] or ''}"
        case "snoozed":
            return f"snoozed until {row['until'][:10]}"
        case "dismissed":
            return f"dismissed on {row['since'][:10]}"
    return ""


def evidence(row: Lesson) -> str:
    """In how many sessions it happened, what it cost, and what worked next."""
    told = f"in {row['sessions']} of {plural(row['scope_sessions'], 'session')} of {row['scope'] or 'all'}"
    took = f", {lasting(row['seconds'] * 1000)}" if row["seconds"] else ""  # what transcripts seldom tell
    cost = f"{plural(row['calls'], 'call')}{took}"
    tokens = f", {row['tokens']:,} tokens" if row["tokens"] is not None else ""
    worked = f"; {row['next']} worked next in {row['next_sessions']}" if row["next"] else ""
    return f"{told} since {row['first_seen'][:10]}, last on {row['last_seen'][:10]} ({cost}{tokens}){worked}"


def show(url: str, token: str, lesson: str, folder: Path) -> Iterator[str]:
    """One lesson whole: evidence, gates, examples, and where it belongs for each agent that made the mistake."""
    row = _one(url, token, lesson)
    yield row["text"]
    if row["calls"]:
        yield evidence(row)
    if decided := _decided(row):
        yield decided[:1].upper() + decided[1:]
    if row["firm"]:
        yield f"Firmer than a sentence: {row['firm']}"
    yield ""
    yield f"{row['strength']}: {plural(row['attempts'], 'attempt')}, {len(row['examples'])} examples"
    for one in row["examples"]:
        yield f"  {one['session']}  {one['tool']} {one['target'] or ''}  {one['message'] or ''}"
    yield ""
    for agent in _agents(row):
        place = place_of(agent, folder)
        unread = f"; {', '.join(place.skipped)} is not read beside it" if place.skipped else ""
        yield f"for {agent}: {place.path}{unread}"
        yield from (f"  {gate}: {why}" for gate, why in _file_gates(row, place))
    for gate in row["gates"]:
        if gate["passed"] is not None:
            yield f"  {'passed ' if gate['passed'] else 'refused'} {gate['gate']}: {gate['why']}"


def draft(url: str, token: str, lesson: str, agent: str, folder: Path, write: Path | None) -> Iterator[str]:
    """The change of the file that the agent loads, as a unified diff; with `write`, of that file, which is written, and
    then the lesson is adopted.

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
        mark(url, token, lesson, {"state": "adopted", "known_by": "written"})


def undo(url: str, token: str, lesson: str, write: Path) -> Iterator[str]:
    """Takes the line of a lesson out of a file again, shows the change, and opens the lesson again."""
    before = read(write)
    after = without_lesson(before, lesson)
    if after == before:
        raise Mistaken(f"{write} has no line of the lesson {lesson}")
    yield from _diff(write, before, after)
    _write(write, after)
    try:
        mark(url, token, lesson, {"state": "open"})
    except OSError as error:  # the line is gone, which is what was wanted first
        yield f"The collector does not know it yet: {error}"


def adopt(url: str, token: str, lesson: str, folder: Path, at: str) -> Iterator[str]:
    """Says that the sentence is there, since the time given, else since that of its line in the agent's file."""
    row = _one(url, token, lesson)
    said: dict[str, str] = {"time": at, "known_by": "said"} if at else since_in(row, [*_places(row, folder)])
    row = mark(url, token, lesson, {"state": "adopted", **said})
    yield f"Adopted since {row['since'][:19]}Z ({KNOWN_BY[row['known_by']]}). {row['sentence'] or ''}"


def _places(row: Lesson, folder: Path) -> Iterator[Place]:
    yield from (place_of(agent, folder) for agent in _agents(row))


def mark(url: str, token: str, lesson: str, said: Mapping[str, str]) -> Lesson:
    """Tells the collector what was decided; the lesson as it is then, empty where it is none any more."""
    with collector(url, token) as client:
        answer = client.patch(f"/api/v1/lessons/{lesson}", json=dict(said))
    check(answer)
    row: Lesson = answer.json() if answer.content else {}
    return row


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
