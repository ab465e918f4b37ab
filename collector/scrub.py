"""Cuts secrets and excess length from the texts of a request's reports, column by column; equal texts are read once.

Most reports of a request have the same columns, and nothing to cut: only what the first look at all of them together
stops is searched one by one.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from collector.columns import TEXTS, Row
from collector.recent import Recent
from collector.recognise.identify import canonical
from collector.recognise.readers import as_text
from collector.report import Report, as_row
from collector.sanitise.bounds import beginning, bounded, cut, json_text
from collector.sanitise.sanitise import Sanitiser, written

JSON_BYTES = {"params": 16 << 10, "attributes": 8 << 10}
READ_BYTES = 64 << 10  # of a JSON value that may contain a secret: the rest would be cut anyway, and costs 1 µs a byte
MESSAGE_CHARS, STACK_CHARS, ASKED_CHARS = 4 << 10, 16 << 10, 8 << 10
NAMES_REMEMBERED = 1_000  # sets of column names cached, limited because senders may use random names
NAME_CHARS = 512  # names and ids
SEARCHED_BYTES, SEARCHED_REMEMBERED = 8 << 10, 500  # the longest texts that are remembered, and half of how many are

IDS = frozenset(("session", "call_id", "turn", "subagent", "service_instance"))

BOUNDS = {"message": MESSAGE_CHARS, "suggestion": MESSAGE_CHARS, "stack": STACK_CHARS, "asked": ASKED_CHARS}
# Texts that a sender can choose; the others come from our own tables or are hex.
SCRUBBED = frozenset(TEXTS).difference(
    ("source", "source_signal", "session_source", "trace_id", "span_id", "parent_span_id", "operation", "outcome"),
    ("phase", "domain", "category", "error_class", "classified_by", "severity", "attribution", "recovery", "template"),
    ("model_from", "project"),
)
Searched = tuple[dict[str, Any], tuple[str, ...]]  # clean texts, and the rules of the cuts
Doubtful = dict[str, tuple[Any, int]]  # values that may contain a secret, each with its size as JSON


class Held(NamedTuple):
    """The columns to read in reports with one set of names: texts, then JSON values and user-defined attributes."""

    texts: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(slots=True)
class Lot:
    """Reports with the same columns: the different texts of each column of texts, and the values of the others."""

    rows: list[Row]
    texts: dict[str, set[str]]
    values: dict[str, Sequence[Any]]


@dataclass(slots=True)
class Looked:
    """What the first look found: texts to search, and texts to search or to cut; of each other value, the value, its
    JSON (None if it has none), and whether it is to be searched.
    """

    stopped: set[str]
    touched: set[str]
    values: Iterator[tuple[Any, bytes | None, bool]]


class Scrubber:
    """The sanitiser for reports. One per thread, as the sanitiser is."""

    def __init__(self, sanitiser: Sanitiser, hash_key: bytes, dimensions: tuple[str, ...] = ()) -> None:
        self._sanitiser = sanitiser
        self._hash_key = hash_key
        self._dimensions = dimensions
        self._names: dict[tuple[str, ...], Held] = {}
        self._known: Recent[Searched] = Recent(SEARCHED_REMEMBERED)

    def scrub(self, texts: dict[str, Any], redacted: Counter[str]) -> dict[str, Any]:
        """The texts without secrets, whose rules are counted. An id that had one gets a keyed hash, so that it stays
        distinct.
        """
        clean, rules = self._searched(texts)
        if not rules:
            return texts
        redacted.update(rules)
        secret = [name for name in IDS.intersection(texts) if clean[name] != texts[name]]
        ids = {name: f"{clean[name]} {params_hash(texts[name], self._hash_key):016x}" for name in secret}
        secrets = self._sanitiser.secrets(rules)
        return {**clean, **ids, "redactions": secrets} if secrets else {**clean, **ids}

    def _searched(self, texts: dict[str, Any]) -> Searched:
        """What the sanitiser makes of these texts, which must not be changed. What it has searched before is known by a
        keyed digest, so that only clean texts are remembered: a conversation repeats its texts in each request.
        """
        [document] = written([texts])
        if document is None or len(document) > SEARCHED_BYTES:
            return self._sanitiser.scrub_report(texts)
        mark = hashlib.blake2b(document, digest_size=16, key=self._hash_key).digest()
        if (found := self._known.get(mark)) is None:
            found = self._sanitiser.scrub_report(texts)
            if "failed" not in found[1]:  # there may be more time for it later
                self._known.put(mark, found)
        return found

    def reports(self, reports: Iterable[Report], redacted: Counter[str]) -> Mapping[tuple[str, ...], list[Row]]:
        """Cuts from the reports what must not stay, counted by rule; returns them by the names of their columns."""
        alike: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
        for report in reports:
            alike[tuple(report)].append(as_row(report))
        lots = [self._lot(names, rows) for names, rows in alike.items()]
        looked = self._look(lots)
        for lot in lots:
            doubtful: defaultdict[int, Doubtful] = defaultdict(dict)
            self._cut_texts(lot, looked, doubtful)
            self._cut_values(lot, looked, doubtful)
            for index, fields in doubtful.items():
                self._redact(lot.rows[index], fields, redacted)
        return alike

    def _lot(self, names: tuple[str, ...], rows: list[Row]) -> Lot:
        columns = dict(zip(names, zip(*[row.values() for row in rows], strict=True), strict=True))
        held = self._held(names)
        texts = {name: set(columns[name]) for name in held.texts}
        return Lot(rows, texts, {name: [_value(name, one) for one in columns[name]] for name in held.values})

    def _look(self, lots: Iterable[Lot]) -> Looked:
        texts: set[str] = set()
        values: list[object] = []
        for lot in lots:
            texts.update(*lot.texts.values())
            values += chain.from_iterable(lot.values.values())
        documents = written([*texts, *values])
        suspects = self._sanitiser.suspects(documents)
        stopped = {text for index, text in enumerate(texts) if index in suspects}
        touched = stopped.union(text for text in texts if len(text) > NAME_CHARS)
        doubts = map(suspects.__contains__, range(len(texts), len(documents)))
        return Looked(stopped, touched, zip(values, documents[len(texts) :], doubts, strict=True))

    def _cut_texts(self, lot: Lot, looked: Looked, doubtful: Mapping[int, Doubtful]) -> None:
        for name, told in lot.texts.items():
            if looked.touched.isdisjoint(told):
                continue
            for index, row in enumerate(lot.rows):
                text = row[name]
                if text in looked.stopped:
                    doubtful[index][name] = text, 0
                elif text in looked.touched:
                    row[name] = self.cut(name, text)

    def _cut_values(self, lot: Lot, looked: Looked, doubtful: Mapping[int, Doubtful]) -> None:
        rows = lot.rows
        for name in lot.values:
            for index, (value, document, doubt) in enumerate(islice(looked.values, len(rows))):
                if document is None or doubt:
                    doubtful[index][name] = value, len(document or b"")
                elif name in JSON_BYTES:
                    rows[index][name] = bounded(document.decode(), JSON_BYTES[name])
                else:
                    rows[index][name] = self.cut(name, rows[index][name])

    def _redact(self, row: Row, doubtful: Mapping[str, tuple[Any, int]], redacted: Counter[str]) -> None:
        """The slow path, for fields that may contain a secret, each with its size as JSON; of those larger than
        READ_BYTES only the beginning stays.
        """
        large: dict[str, int] = {}
        values: dict[str, Any] = {}
        for name, (value, size) in doubtful.items():
            values[name] = value
            if size > READ_BYTES:
                large[name], values[name] = size, beginning(value, READ_BYTES)
        row.update(self.scrub(values, redacted))
        for name in values:
            if name in JSON_BYTES:
                row[name] = json_text(row[name], JSON_BYTES[name], large.get(name, 0))
            else:
                row[name] = self.cut(name, _text(row[name]))

    def cut(self, name: str, text: str) -> str:
        """A text cut to its bound; an id that is cut gets a keyed hash of the whole, so that it stays distinct."""
        most = BOUNDS.get(name, NAME_CHARS)
        if name in IDS and len(text) > most:
            return f"{cut(text, most)} {params_hash(text, self._hash_key):016x}"
        return cut(text, most)

    def _held(self, names: tuple[str, ...]) -> Held:
        """The columns to check in reports with these names, from a cache: most reports repeat them."""
        found = self._names.get(names)
        if found is None:
            values = tuple(name for name in names if name in JSON_BYTES or name in self._dimensions)
            found = Held(tuple(name for name in names if name in SCRUBBED), values)
            if len(self._names) >= NAMES_REMEMBERED:
                self._names.clear()
            self._names[names] = found
        return found


def params_hash(params: object, key: bytes) -> int:
    """Keyed blake2b-64 of the arguments as canonical JSON: keys sorted, a JSON text parsed first."""
    return int.from_bytes(hashlib.blake2b(canonical(_parsed(params)), digest_size=8, key=key).digest(), "big")


def _parsed(value: object) -> object:
    """The value of a JSON text; any other value unchanged."""
    if isinstance(value, str):
        with suppress(msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return msgspec.json.decode(value)
    return value


def _value(name: str, value: object) -> object:
    """What to search of a column: its JSON value; a user-defined attribute with its name, which may tell a secret."""
    if name in JSON_BYTES:
        return _parsed(value)
    return {name: _parsed(value) if str(value)[:1] in ("[", "{") else value}


def _text(clean: Any) -> str:
    """The text of a column searched as `_value` gives it."""
    if isinstance(clean, dict):
        [clean] = clean.values()
    return clean if isinstance(clean, str) else as_text(clean) or ""
