"""The taxonomy as typed rows and indexes, built from parsed TOML and checked; all mistakes are reported at once.

The head of `schemas/taxonomy.toml` explains the fields, `classify.py` the order of evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import hyperscan
import msgspec

from collector.patterns import database

Row = TypeVar("Row", bound=msgspec.Struct)
Recovery = Literal["retry", "fix_and_retry", "needs_user", "none"]
Severity = Literal["info", "warn", "error", "fatal"]
Attribution = Literal["model", "tool", "environment", "provider", "user", "agent"]
RETRYABLE = ("retry", "fix_and_retry")
UNKNOWN = "UnknownError"
PARTS = ("generic", "kinds", "refused", "classes", "messages")
SCAN_FLAGS = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_SINGLEMATCH


class ErrorClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: a class of error, what follows from it, and the names, flags and status codes that mean it."""

    name: str
    domain: Literal["streaming", "tool", "network", "storage", "loop", "git", "config", "unknown"]
    category: str
    attribution: Attribution
    mistake: bool
    recovery: Recovery
    retryable: bool
    fatal: bool
    severity: Severity
    title: str
    advice_model: str
    advice_person: str
    retry_after_ms: int | None = None
    details: bool = False
    seeds: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    aliases_of: dict[str, tuple[str, ...]] = {}
    shapes: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    status_of: dict[str, tuple[int, ...]] = {}
    gives_way_to: tuple[str, ...] = ()
    becomes: dict[str, str] = {}
    overrides: dict[str, Override] = {}


class Override(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one source means by a class; `because` names the seed it comes from."""

    because: str
    attribution: Attribution | None = None
    mistake: bool | None = None
    recovery: Recovery | None = None
    retryable: bool | None = None
    fatal: bool | None = None
    severity: Severity | None = None
    retry_after_ms: int | None = None
    gives_way_to: tuple[str, ...] | None = None


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Patterns of texts that mean a class, with texts that must and must not get it."""

    error_class: str = msgspec.field(name="class")
    match: tuple[str, ...]
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...] = ()
    where: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The whole taxonomy, indexed. Names are looked up by their `key`; values are names of classes."""

    classes: Mapping[str, ErrorClass]
    messages: tuple[MessageRow, ...]
    generic: frozenset[str]
    aliases: Mapping[str, str]
    aliases_of: Mapping[tuple[str, str], str]  # by (source or operation, key)
    shapes: Mapping[str, str]
    status: Mapping[int, str]
    status_of: Mapping[tuple[str, int], str]  # by (operation, code)
    kinds: Mapping[str, str]
    refused: Mapping[str, str]
    gives_way: Mapping[str, frozenset[str]]
    gives_way_in: Mapping[tuple[str, str], frozenset[str]]  # by (class, source)
    meant_by: Mapping[tuple[str, str], ErrorClass]  # by (class, source)


def key(name: str) -> str:
    """The key of a reported name: its letters and digits, without a final Error or Exception."""
    bare = "".join(filter(str.isalnum, name.casefold()))
    for ending in ("exception", "error"):
        if bare.endswith(ending) and bare != ending:
            return bare[: -len(ending)]
    return bare


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` overlaid by `over`: tables are merged, lists joined with those of `over` first, other values replaced."""
    result = dict(base)
    for name, value in over.items():
        old = result.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            result[name] = merged(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            result[name] = [*value, *old]
        else:
            result[name] = value
    return result


def build(raw: Mapping[str, Any]) -> tuple[Table, list[str]]:
    """The table in `raw` (parsed TOML), and its mistakes; usable only if there are none."""
    mistakes = [f"{part}: is not known; known are {', '.join(PARTS)}" for part in raw if part not in PARTS]
    written = raw.get("classes", {})
    rows = [typed(ErrorClass, written[name], f"classes.{name}", mistakes, name=name) for name in written]
    classes = {row.name: row for row in rows if row is not None}
    if UNKNOWN not in classes:
        mistakes.append(f"classes.{UNKNOWN}: missing; lay your own file over the built-in one")
    every = list(classes.values())
    for row in every:
        mistakes += [f"classes.{row.name}: {mistake}" for mistake in _contradictions(row, classes)]
    kinds = raw.get("kinds", {})
    mistakes += [f"kinds.{kind}: no class is named '{name}'" for kind, name in kinds.items() if name not in classes]
    refused = {"": UNKNOWN, **raw.get("refused", {})}
    mistakes += [f"refused.{word}: no class is named '{name}'" for word, name in refused.items() if name not in classes]
    aliases = ((key(name), row.name) for row in every for name in (row.name, *row.aliases))
    aliases_of = (((of, key(name)), row.name) for row in every for of in row.aliases_of for name in row.aliases_of[of])
    status_of = (((of, code), row.name) for row in every for of in row.status_of for code in row.status_of[of])
    table = Table(
        classes=classes,
        messages=tuple(_messages(raw.get("messages", []), classes, mistakes)),
        generic=frozenset(key(name) for name in raw.get("generic", [])),
        kinds=kinds,
        refused={key(word): name for word, name in refused.items()},
        aliases=_index(aliases, "aliases", mistakes),
        aliases_of=_index(aliases_of, "aliases_of", mistakes),
        shapes=_index(((flag, row.name) for row in every for flag in row.shapes), "shapes", mistakes),
        status=_index(((code, row.name) for row in every for code in row.status), "status", mistakes),
        status_of=_index(status_of, "status_of", mistakes),
        gives_way={row.name: frozenset(_members(row.gives_way_to, classes)) - {row.name} for row in every},
        gives_way_in={
            (row.name, source): frozenset(_members(over.gives_way_to, classes)) - {row.name}
            for row in every
            for source, over in row.overrides.items()
            if over.gives_way_to is not None
        },
        meant_by={(row.name, source): _meant(row, over) for row in every for source, over in row.overrides.items()},
    )
    return table, mistakes


def typed(kind: type[Row], fields: Any, place: str, mistakes: list[str], **given: Any) -> Row | None:
    """`fields` as a `kind`; or None, with unknown, missing and mistyped fields added to `mistakes`."""
    if not isinstance(fields, dict):
        mistakes.append(f"{place}: must be a table, not {fields!r}")
        return None
    fields = {**fields, **given}
    before = len(mistakes)
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, value in fields.items():
        if name not in known:
            mistakes.append(f"{place}: {name}: is not known; known are {', '.join(known)}")
            continue
        try:
            msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            mistakes.append(f"{place}: {name}: {error}; got {value!r}")
    missing = (name for name, field in known.items() if field.required and name not in fields)
    mistakes += [f"{place}: {name}: is missing" for name in missing]
    return msgspec.convert(fields, kind) if len(mistakes) == before else None


def _contradictions(row: ErrorClass, classes: Mapping[str, ErrorClass]) -> Iterator[str]:
    """Contradictions within a class, and references to unknown classes."""
    if not row.name.endswith("Error"):
        yield "the name must end in Error"
    if row.retryable != (row.recovery in RETRYABLE):
        yield f"retryable: {row.retryable} contradicts recovery '{row.recovery}'"
    if row.mistake and (row.attribution != "model" or row.category == "state"):
        yield f"mistake: only the model's errors may be, and none of state; got {row.attribution}"
    overriding = (name for over in row.overrides.values() for name in over.gives_way_to or ())
    for name in (*row.gives_way_to, *overriding):
        if not [*_members((name,), classes)]:
            yield f"gives_way_to: no class, category or domain is named '{name}'"
    for name in row.becomes.values():
        if name not in classes:
            yield f"becomes: no class is named '{name}'"


def _messages(raw: Any, classes: Mapping[str, ErrorClass], mistakes: list[str]) -> Iterator[MessageRow]:
    """The message rows, in order."""
    for number, fields in enumerate(raw, start=1):
        row = typed(MessageRow, fields, f"messages[{number}]", mistakes)
        if row is None:
            continue
        if row.error_class not in classes:
            mistakes.append(f"messages[{number}]: class: no class is named '{row.error_class}'")
        if not row.examples:
            mistakes.append(f"messages[{number}]: examples: needs at least one text that must match")
        yield row


def automaton(patterns: Sequence[tuple[int, str]]) -> hyperscan.Database:
    """One automaton for (number, pattern) pairs; a match calls back with the number. Raises hyperscan.error."""
    numbers, texts = zip(*patterns, strict=True) if patterns else ((0,), ("no pattern at all",))
    return database([text.encode() for text in texts], [SCAN_FLAGS] * len(texts), numbers)


def unusable_patterns(rows: Iterable[MessageRow]) -> Iterator[str]:
    """Why Hyperscan refuses single patterns: used after it refused all of them together, which is faster to try."""
    for number, row in enumerate(rows, start=1):
        for pattern in row.match:
            try:
                automaton([(number, pattern)])
            except hyperscan.error as error:
                yield f"messages[{number}]: match: {pattern!r} is no Hyperscan pattern: {error}"


def _index(pairs: Iterable[tuple[Any, str]], field: str, mistakes: list[str]) -> dict[Any, str]:
    """Word -> class. A word that means two classes is a mistake."""
    index: dict[Any, str] = {}
    for word, name in pairs:
        if index.setdefault(word, name) != name:
            mistakes.append(f"classes.{name}: {field}: {word!r} already means {index[word]}")
    return index


def _members(names: Iterable[str], classes: Mapping[str, ErrorClass]) -> Iterator[str]:
    """The classes whose name, category or domain is among these."""
    wanted = set(names)
    return (row.name for row in classes.values() if wanted & {row.name, row.category, row.domain})


def _meant(row: ErrorClass, override: Override) -> ErrorClass:
    """The class with the override of a source applied."""
    said = msgspec.structs.asdict(override)
    del said["because"]
    return msgspec.structs.replace(row, **{name: value for name, value in said.items() if value is not None})
