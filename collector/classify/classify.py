"""Classifies errors, and says by what evidence: reported name, shape of the report, status code or text.

`schemas/taxonomy.toml` has the knowledge; this module only defines the order of evidence. No clock, and no I/O after
loading. Texts are matched in one linear pass over a bounded part of them, so that no text and no user's pattern can
stall ingest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import hyperscan

from collector.classify.taxonomy import (
    UNKNOWN,
    ErrorClass,
    MessageRow,
    Table,
    automaton,
    build,
    key,
    merged,
    unusable_patterns,
)
from collector.tables import TableError, load_toml, schemas

HEAD, TAIL = 4096, 2048  # characters of a text that are read: the error is at the beginning, or at the end after output
NAME = 512  # characters of a reported name or kind; a longer one is a text
REMEMBERED = 2048  # distinct pieces of evidence cached: at most 15 MiB, if all texts and names have full length

# A class name at the beginning of a text, after what frameworks put in front: "Error: ConnectionError - refused",
# "An error occurred (ThrottlingException) when calling the Converse operation".
LEADING_NAME = re.compile(
    r"(?:(?:uncaught|error|exception|error (?:calling|executing|running) tool [^:\n]{1,80})[: ]{1,3}){0,3}"
    r"(?:an error occurred \()?"
    r"([a-z_][\w.]{2,80}(?:Error|Exception|Timeout|Expired|Exceeded|Interrupt))(?=\s?[:()\[-]|\s*\Z)",
    re.IGNORECASE,
)


# Names of models, files and addresses: their words say nothing of the error. In one word of at most NAME_CHARS bytes.
NAMES = re.compile(
    rb"[\w.@-]*/[\w.@-]*[/.:\d-][\w./:@-]*"  # a path, an address or a model with its tag, but not read/write
    rb"|(?<!\w)[a-z][\w.]*-[\w.:-]*\d[\w.:-]*"  # hyphens and digits: gpt-4o-mini, but not ORA-00933
    rb"|[\w-]+\.[a-z]{1,4}\b"  # a file
    rb"|(?<=['\"`])[\w.]+-[\w.:-]+(?=['\"`])"  # hyphens in quotes
)
NAME_CHARS = 200
# What somebody called a thing: its words say what it is about. Not of things that an error may be the name of.
TITLED = re.compile(
    rb"\b(?:alert|board|build|card|dashboard|event|issue|job|pipeline|playbook|query|report|rule|step|suite|task|test"
    rb"|ticket|workflow)(?: #?\d{1,6})?(?: of)? (?P<title>\"[^\"\n]{1,100}\"|'[^'\n]{1,100}'|`[^`\n]{1,100}`)",
    re.IGNORECASE,
)
RESCANS = 4


class Evidence(NamedTuple):
    """What is known of an error: where it happened (the same name or text may mean something else elsewhere), and what
    was reported.
    """

    source: str = ""
    operation: str = "tool"
    tool_kind: str | None = None
    reported: str | None = None
    shape: tuple[str, ...] = ()
    status_code: int | None = None
    text: str | None = None
    ran: bool | None = True  # of a tool that runs commands: whether one ran; None: nothing tells

    @property
    def unrun(self) -> bool:
        """Whether it is of a tool that runs commands, and nothing tells that one ran."""
        return self.tool_kind == "command" and not self.ran


def _bounded(evidence: Evidence) -> Evidence:
    text, reported, kind = evidence.text, evidence.reported, evidence.tool_kind
    if reported is not None and len(reported) > NAME:
        text, reported = text or reported, reported[:NAME]
        evidence = evidence._replace(text=text, reported=reported)
    if text is not None and len(text) > HEAD + TAIL:
        evidence = evidence._replace(text=f"{text[:HEAD]}\n{text[-TAIL:]}")
    return evidence._replace(tool_kind=None) if kind is not None and len(kind) > NAME else evidence


class Match(NamedTuple):
    """A class ("" if none), by what it was found, and whether that outweighs a text that says otherwise."""

    name: str
    by: str
    sure: bool


NO_MATCH = Match("", "none", sure=False)


class Taxonomy:
    """Classes and the ways to recognise them. Immutable and thread-safe."""

    def __init__(self, table: Table) -> None:
        self.classes: Mapping[str, ErrorClass] = table.classes
        self._table = table
        self._texts = _Texts(table.messages)
        self._recent = lru_cache(maxsize=REMEMBERED)(self._decide)

    def classify(self, evidence: Evidence) -> tuple[str, str]:
        """Name of the class and how it was found: reported, alias, shape, status, message or none. Never fails."""
        return self._recent(_bounded(evidence))

    def defaults(self, name: str, source: str) -> ErrorClass:
        """What follows from a class, as that source means it. Unknown names count as UnknownError."""
        known = name if name in self.classes else UNKNOWN
        return self._table.meant_by.get((known, source)) or self.classes[known]

    def _decide(self, evidence: Evidence) -> tuple[str, str]:
        found = self._surest(evidence)
        here = self.in_place(found.name, evidence)
        if found.by == "reported" and found.sure and here == found.name:
            return here, "reported"
        if shown := self._finer(found, evidence):
            return self.in_place(shown, evidence), "message"
        if not found.name:
            return self._usual(evidence)
        return here, "alias" if found.by == "reported" and here != found.name else found.by

    def _finer(self, found: Match, evidence: Evidence) -> str:
        """The class that the text shows, where the one found gives way to it; "" otherwise."""
        finer = self._table.gives_way.get(found.name, frozenset())
        finer = self._table.gives_way_in.get((found.name, evidence.source), finer)
        if found.sure and not finer:
            return ""
        words, place = evidence.text or "", evidence
        if evidence.unrun:  # what programs print is not looked for where none ran
            place = evidence._replace(tool_kind=None)
        elif not words and not found.name:  # Cline's errorType contains the text itself
            words = evidence.reported or ""
        shown = self._shown(words, place)
        return shown if shown in finer or not found.sure else ""

    def _usual(self, evidence: Evidence) -> tuple[str, str]:
        """The class of an error of which neither name nor text says more: what usually fails in such a tool."""
        if evidence.operation != "tool":
            return UNKNOWN, "none"
        if evidence.unrun:
            return self._refused(evidence), "shape"
        usual = self._table.kinds.get(evidence.tool_kind or "")
        return (usual, "shape") if usual else (UNKNOWN, "none")

    def _refused(self, evidence: Evidence) -> str:
        """The class of a call of a command tool of which nothing says that a command ran."""
        refused = self._table.refused
        if evidence.ran is False and evidence.reported:
            for form in _forms(evidence.reported):
                if name := refused.get(key(form)):
                    return name
        return refused[""]

    def _surest(self, evidence: Evidence) -> Match:
        """The class by name, shape or status code, whichever is first; otherwise that of a generic name, if any."""
        reported, status_code = evidence.reported, evidence.status_code
        if reported and len(reported) == 3 and reported.isdecimal():  # error.type may be an HTTP status
            status_code, reported = status_code or int(reported), None
        named = self._named(reported, evidence) if reported else NO_MATCH
        if named.sure:
            return named
        if shaped := self._shaped(evidence.shape):
            return Match(shaped, "shape", sure=True)
        if status_code is not None and (stated := self._stated(evidence.operation, status_code)):
            return Match(stated, "status", sure=True)
        return named

    def _shaped(self, flags: Iterable[str]) -> str | None:
        shapes = self._table.shapes
        for flag in flags:
            word = flag.rpartition("#")[2]  # "detail#_validationError": a flag inside a field
            if shaped := shapes.get(word) or shapes.get(word.partition(":")[0]):
                return shaped
        return None

    def _stated(self, operation: str, status_code: int) -> str | None:
        return self._table.status_of.get((operation, status_code)) or self._table.status.get(status_code)

    def _named(self, reported: str, place: Evidence) -> Match:
        """The class that a reported name means; not sure if the name is generic."""
        table = self._table
        for form in _forms(reported):
            word = key(form)
            own = table.aliases_of.get((place.source, word)) or table.aliases_of.get((place.operation, word))
            if own:
                return Match(own, "alias", sure=True)
            known, generic = table.aliases.get(word, ""), word in table.generic
            if generic and known == UNKNOWN:  # says nothing: the text or the kind of the tool decides
                return NO_MATCH
            if known or generic:
                return Match(known, "reported" if reported == known else "alias", sure=not generic)
        return NO_MATCH

    def _shown(self, text: str, place: Evidence) -> str:
        """The class that a text shows, or "": a class name at its beginning, unless a message row is more specific."""
        row = self._texts.first(text, place)
        lead = LEADING_NAME.match(text)
        if lead is None:
            return row
        named = self._named(lead[1], place)
        return named.name if named.sure and row not in self._table.gives_way[named.name] else row

    def in_place(self, name: str, place: Evidence) -> str:
        """The class in that place: the TimeoutError of a command is a CommandTimeoutError."""
        row = self.classes.get(name)
        if row is None or not row.becomes:
            return name
        return row.becomes.get(place.tool_kind or "") or row.becomes.get(place.operation, name)


class _Texts:
    """All message patterns as one automaton. Its scratch memory allows one scan at a time, hence the lock."""

    def __init__(self, rows: tuple[MessageRow, ...]) -> None:
        self._rows = rows
        self._lock = Lock()
        self._automaton = automaton([(number, pattern) for number, row in enumerate(rows) for pattern in row.match])

    def first(self, text: str, place: Evidence) -> str:
        """Class of the first row, in the table's order, that matches and applies to the place; "" if none.

        What matches only within a name is no evidence: `long-context-128k` says nothing of a context.
        """
        if "\\" in text:  # JSON inside a string: "Tool \\"x\\" not found\\nExit Code: 1"
            text = text.replace('\\"', '"').replace("\\n", "\n")
        raw = text.encode("utf-8", "replace")
        for _ in range(RESCANS):
            number, end = self._first(raw, place)
            name = _name_around(raw, end)
            if not name or number not in self._ends(name):
                break
            raw = raw.replace(name, b"name")
        return self._rows[number].error_class if number >= 0 else ""

    def _first(self, raw: bytes, place: Evidence) -> tuple[int, int]:
        """The number of the first row that applies, and where its first match ends; (-1, 0) if none does."""
        ends = self._ends(raw)
        here = {place.operation, place.tool_kind}
        for number in sorted(ends):
            row = self._rows[number]
            if (not row.where or row.where & here) and not row.unless & here:
                return number, ends[number]
        return -1, 0

    def _ends(self, raw: bytes) -> dict[int, int]:
        """The rows that match, by number, and where the first match of each ends."""
        ends: dict[int, int] = {}

        def note(number: int, _: int, end: int, *__: object) -> None:
            ends.setdefault(number, end)

        with self._lock:
            self._automaton.scan(raw, note)
        return ends


def _name_around(raw: bytes, end: int) -> bytes:
    """The name or title within which a match ends; b"" if there is none."""
    for titled in TITLED.finditer(raw, max(0, end - NAME_CHARS), end + NAME_CHARS):
        if titled.start("title") < end < titled.end():
            return titled["title"]
    start = max(raw.rfind(b" ", max(0, end - NAME_CHARS), end), raw.rfind(b"\n", max(0, end - NAME_CHARS), end)) + 1
    word = raw[start : end + NAME_CHARS].split(maxsplit=1)[:1]
    bare = word[0].rstrip(b".,:;!)'\"") if word else b""
    if not (b"/" in bare or b"-" in bare or b"." in bare):
        return b""
    if raw[max(0, start - 2) : start].rstrip().endswith(b":") and bare.rstrip(b"}]")[:1] in (b"'", b'"'):
        return b""  # the value of a key, such as a code
    for name in NAMES.finditer(word[0]):
        if start + name.start() < end <= start + name.end():
            return name[0]
    return b""


def load_taxonomy(*paths: str | Path | Traversable) -> Taxonomy:
    """The built-in taxonomy extended by the files, in order; message rows of later files are tried first.

    Raises TableError with every mistake of the first file that has any, including examples that get another class.
    """
    built_in = schemas() / "taxonomy.toml"
    raw = load_toml(built_in)
    taxonomy = _checked(raw, built_in)
    for path in paths:
        raw = merged(raw, load_toml(path))
        taxonomy = _checked(raw, path)
    return taxonomy


def _checked(raw: Mapping[str, Any], path: str | Path | Traversable) -> Taxonomy:
    """The taxonomy in `raw`; `path` is the file added last, to which mistakes are attributed."""
    table, mistakes = build(raw)
    if mistakes:
        raise TableError(str(path), mistakes)
    try:
        taxonomy = Taxonomy(table)
    except hyperscan.error:
        raise TableError(str(path), unusable_patterns(table.messages)) from None
    mistakes += _wrong_examples(taxonomy, table)
    if mistakes:
        raise TableError(str(path), mistakes)
    return taxonomy


def example_place(row: MessageRow, table: Table) -> tuple[str, str | None]:
    """Operation and tool kind for testing a row's examples: from its `where`, else the usual ones of its domain."""
    domain = table.classes[row.error_class].domain
    usual = {"streaming": "model", "network": "model", "tool": "tool"}.get(domain, "agent")
    operations = row.where & {"tool", "model", "agent"}
    kinds = sorted(row.where - operations)
    operation = usual if usual in operations or not row.where else next(iter(sorted(operations)), "tool")
    return operation, kinds[0] if kinds and not operations else None


def _wrong_examples(taxonomy: Taxonomy, table: Table) -> Iterator[str]:
    """Examples that do not get their row's class by their text alone, and counter-examples that do."""
    for number, row in enumerate(table.messages, start=1):
        operation, kind = example_place(row, table)
        place = Evidence(operation=operation, tool_kind=kind)
        wanted = taxonomy.in_place(row.error_class, place)
        for text in (*row.examples, *row.counter_examples):
            name, _ = taxonomy.classify(place._replace(text=text))
            if (name == wanted) != (text in row.examples):
                verb = "must come to" if text in row.examples else "must not come to"
                yield f"messages[{number}]: {text!r} {verb} {wanted}, but comes to {name}"


def _forms(reported: str) -> Iterator[str]:
    """Variants of a reported name, the most specific first: whole, without its path, without leading words."""
    reported = reported.removeprefix("<class '").removesuffix("'>")  # str() of a class of Python
    yield reported
    bare = re.split(r"[\s({]", reported[:200].strip(), maxsplit=1)[0]
    parts = [part for part in re.split(r"::|[.:/#]", bare) if part]
    if not parts:
        return
    yield "".join(parts[-2:])
    yield parts[-1]
    if ":" in bare and "::" not in bare:  # "TypeError:UND_ERR_SOCKET": a code after the name
        yield parts[0]
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", parts[-1])
    if words and words[-1].lower() in ("error", "exception"):
        words.pop()
    # At least two words stay: OpenAIRateLimit is a RateLimit, but UserToken is not a Token.
    for start in range(1, len(words) - 1):
        yield "".join(words[start:])
