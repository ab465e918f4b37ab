"""From failed calls to candidates: those of one kind and shape, with what worked next in their sessions."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from collector.lessons.call import Call, Failure
from collector.lessons.kinds import Kind, Lessons
from collector.lessons.next import worked_next
from collector.lessons.shapes import host, parameter, path
from collector.times import DAY

MARKUP = re.compile(r"[`<>\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")
NAME_CHARS = 120
AGREED = 0.6  # of the sessions in which something worked next, the share in which it was the same
AGREED_SESSIONS = 3


@dataclass(frozen=True)
class Candidate:
    """Failed calls of one kind, scope and shape. `worked` is what worked next after each, None where nothing did."""

    kind: Kind
    scope: str
    shape: str
    tool: str
    failures: tuple[Failure, ...]
    worked: tuple[str | None, ...]

    @cached_property
    def id(self) -> str:
        """Of kind, scope, tool and shape alone, so that it stays the same while evidence is added."""
        named = "\0".join((self.kind.kind, self.scope, self.tool if self.kind.by_tool else "", self.shape))
        return hashlib.blake2b(named.encode("utf-8", "replace"), digest_size=4).hexdigest()

    @cached_property
    def sessions(self) -> frozenset[str]:
        return frozenset(one.session for one in self.failures)

    @cached_property
    def days(self) -> int:
        """Days in UTC on which it happened."""
        return len({one.time_ns // DAY for one in self.failures})

    @cached_property
    def recovered(self) -> Mapping[str, str]:
        """The sessions in which something worked next, with what it was the first time."""
        found: dict[str, str] = {}
        for one, worked in zip(self.failures, self.worked, strict=True):
            if worked is not None:
                found.setdefault(one.session, worked if self.kind.next == "parameters" else plain(worked))
        return found

    @cached_property
    def next(self) -> tuple[str, int] | None:
        """The one thing that worked next, and in how many sessions; None if sessions do not agree on one."""
        if not self.recovered:
            return None
        [(worked, sessions)] = Counter(self.recovered.values()).most_common(1)
        least = min(AGREED_SESSIONS, self.kind.sessions)
        return (worked, sessions) if sessions >= max(least, AGREED * len(self.recovered)) else None

    @property
    def text(self) -> str:
        """The sentence for the agent; empty if there is none to write."""
        text = self.kind.says if self.next and self.kind.says else self.kind.alone
        return filled(text, self.shape, self.tool, self.next[0] if self.next else "")

    @property
    def firm(self) -> str:
        """The remedy that does not rest on the model's reading."""
        return filled(self.kind.firm, self.shape, self.tool)


def candidates(failures: Iterable[Failure], lessons: Lessons) -> list[Candidate]:
    """All of them, with the most failed calls first."""
    made = (_candidate(kind, same[0].scope, shape, same, lessons) for kind, shape, same in _alike(failures, lessons))
    return sorted(_first_of_each(one for one in made if _holds(one)), key=lambda one: -len(one.failures))


def recurring(failures: Iterable[Failure], lessons: Lessons) -> list[Failure]:
    """The failures of kinds that look at what followed, of a shape that failed in several sessions."""
    found = {
        one.event_id: one
        for kind, _, same in _alike(failures, lessons)
        if kind.next != "none" and any(one.session != same[0].session for one in same)
        for one in same
    }
    return list(found.values())


def _alike(failures: Iterable[Failure], lessons: Lessons) -> Iterator[tuple[Kind, str, Sequence[Failure]]]:
    """The failures of each kind, scope, tool and shape, with the kind and the shape."""
    found: dict[tuple[str, str, str, str], tuple[Kind, str, list[Failure]]] = {}
    for one in failures:
        for kind in lessons.kinds:
            if of_kind(kind, one) and (shape := shape_of(kind, one, lessons)):
                tool = one.call.tool if kind.by_tool else ""
                found.setdefault((kind.kind, one.scope, tool, shape), (kind, shape, []))[2].append(one)
    yield from found.values()


def _candidate(kind: Kind, scope: str, shape: str, failures: Sequence[Failure], lessons: Lessons) -> Candidate:
    worked = tuple(worked_next(kind.next, one, lessons.commands) for one in failures)
    return Candidate(kind, scope, shape, failures[0].call.tool, tuple(failures), worked)


def _holds(candidate: Candidate) -> bool:
    """Whether what worked next is as the kind wants it."""
    kind = candidate.kind
    if kind.refused_next and candidate.recovered:
        return False
    return bool(candidate.text) and (candidate.next is not None or not kind.needs_next)


def _first_of_each(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Without those all of whose calls an earlier row of the table has already: one mistake is one lesson."""
    seen: set[tuple[str, str, int]] = set()
    for one in found:
        calls = {(one.scope, one.shape, failure.event_id) for failure in one.failures}
        if not calls <= seen:
            yield one
        seen |= calls


def of_kind(kind: Kind, failure: Failure) -> bool:
    """Whether a failure is of this kind, by how it ended and by its message."""
    if failure.call.outcome != kind.outcome or (kind.classes and failure.error_class not in kind.classes):
        return False
    return not kind.message or any(part in (failure.message or "").lower() for part in kind.message)


def shape_of(kind: Kind, failure: Failure, lessons: Lessons) -> str | None:
    """The shape by which calls of this kind count together; None if a call has none."""
    call, message = failure.call, failure.message or ""
    match kind.of:
        case "command":
            return shape_of_command(call, lessons)
        case "path":
            return path(call.target, failure.scope) if call.target and call.tool_kind != "command" else None
        case "parameter":
            return parameter(message, call.tool)
        case "server":
            return failure.mcp_server
        case "host":
            return host(call.target or "", message)
    return call.tool or None


def shape_of_command(call: Call, lessons: Lessons) -> str | None:
    """Of a call that runs a command; None of any other."""
    return lessons.commands.shape(call.target) if call.tool_kind == "command" and call.target else None


def plain(name: str) -> str:
    """A name of outside text in a sentence: one line, without what could end its quotation or start a comment."""
    return MARKUP.sub(" ", name)[:NAME_CHARS].strip()


def filled(text: str, shape: str, tool: str, worked: str = "") -> str:
    """A sentence of the table with what it is about."""
    for name, word in (("shape", plain(shape)), ("tool", plain(tool)), ("next", worked)):
        text = text.replace(f"{{{name}}}", word)
    return text
