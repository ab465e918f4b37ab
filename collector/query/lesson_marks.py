"""What people decided about lessons: adopted since a time, snoozed for a while, dismissed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from collector.engine import Reads
from collector.errors import Rejected
from collector.projects import PROJECT
from collector.query.filters import duration_ns, time_ns
from collector.query.noted import Row, Scrub, Writes, clean

DECISIONS = ("adopted", "snoozed", "dismissed", "open")
KNOWN_BY = ("said", "written", "commit", "file")
SNOOZED_FOR = "30d"
MOST_MARKS = 1_000
KEPT = ("kind", "scope", "tool", "shape", "text", "next", "agents")


class LessonMark(msgspec.Struct, forbid_unknown_fields=True):
    """`time` and `known_by` go with `adopted`, how long (`for`) with `snoozed`; `open` takes back what was said."""

    state: str
    time: Annotated[str, msgspec.Meta(max_length=80)] = ""
    known_by: Annotated[str, msgspec.Meta(max_length=20)] = ""
    for_: Annotated[str, msgspec.Meta(max_length=20)] = msgspec.field(default="", name="for")


def marks(store: Reads | Writes) -> dict[str, Row]:
    """The marks by the lesson's id: those of the project that asks, or of those who have none."""
    own = "select * exclude (project) from lesson_marks where project = $project"
    return {row["lesson"]: row for row in store.rows(own, _whose())}


def _whose() -> dict[str, str]:
    return {"project": PROJECT.get() or ""}


def mark_lesson(store: Writes, lesson: Mapping[str, Any], said: LessonMark, scrub: Scrub, now_ns: int) -> None:
    """Says something of a lesson, a row of the answer of the API. Raises Rejected and BadParameter."""
    _check(said)
    if said.state == "open":
        gone = "delete from lesson_marks where project = $project and lesson = $lesson"
        store.execute(gone, _whose() | {"lesson": lesson["id"]})
        return
    if len(marks(store).keys() - {lesson["id"]}) >= MOST_MARKS:
        raise Rejected(f"{MOST_MARKS} lessons have a mark, and no more are kept: open one again first")
    adopted = said.state == "adopted"
    since = time_ns("time", said.time or "now", now_ns) if adopted else now_ns
    if since > now_ns:
        raise Rejected("time lies ahead: a lesson is adopted once the sentence is there")
    until = now_ns + duration_ns("for", said.for_ or SNOOZED_FOR) if said.state == "snoozed" else 0
    row = {name: clean(lesson[name], scrub) if lesson[name] else lesson[name] for name in KEPT}
    row |= {"lesson": lesson["id"], "state": said.state, "since_ns": since, "until_ns": until, "changed_ns": now_ns}
    row |= _whose() | {"known_by": (said.known_by or "said") if adopted else "", "tool": row["tool"] or ""}
    columns = ", ".join(f"${name} as {name}" for name in row)
    store.execute(f"insert or replace into lesson_marks by name select {columns}", row)


def _check(said: LessonMark) -> None:
    if said.state not in DECISIONS:
        raise Rejected(f"state is {', '.join(DECISIONS[:-1])} or open, not {said.state[:40]!r}")
    if (said.time or said.known_by) and said.state != "adopted":
        raise Rejected("time and known_by go with the state adopted: since when the sentence is there")
    if said.known_by and said.known_by not in KNOWN_BY:
        raise Rejected(f"known_by is {', '.join(KNOWN_BY[:-1])} or {KNOWN_BY[-1]}, not {said.known_by!r}")
    if said.for_ and said.state != "snoozed":
        raise Rejected("for goes with the state snoozed: how long")
