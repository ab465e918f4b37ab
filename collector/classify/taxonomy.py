"""The taxonomy as typed rows and indexes, built from parsed TOML and checked; all mistakes are reported at once.

The head of `schemas/taxonomy.toml` explains the fields, `classify.py` the order of evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, TypeVar

import hyperscan
import msgspec

from collector.patterns import database
from collector.table_checks import missing_fields, wrong_fields

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
    classes = _classes(raw.get("classes", {}), mistakes)
    kinds, refused = raw.get("kinds", {}), {"": UNKNOWN, **raw.get("refused", {})}
    _check_names("kinds", kinds, classes, mistakes)
    _check_names("refused", refused, classes, mistakes)
    rows = list(classes.values())
    overrides = [(row, source, override) for row in rows for source, override in row.overrides.items()]
    table = Table(
        classes=classes,
        messages=tuple(_messages(raw.get("messages", []), classes, mistakes)),
        generic=frozenset(map(key, raw.get("generic", []))),
        kinds=kinds,
        refused={key(word): name for word, name in refused.items()},
        aliases=_index("aliases", rows, lambda row: map(key, (row.name, *row.aliases)), mistakes),
        aliases_of=_index("aliases_of", rows, _aliases_of, mistakes),
        shapes=_index("shapes", rows, lambda row: row.shapes, mistakes),
        status=_index("status", rows, lambda row: row.status, mistakes),
        status_of=_index("status_of", rows, _status_of, mistakes),
        gives_way={row.name: _others(row, row.gives_way_to, classes) for row in rows},
        gives_way_in={
            (row.name, source): _others(row, override.gives_way_to, classes)
            for row, source, override in overrides
            if override.gives_way_to is not None
        },
        meant_by={(row.name, source): _meant(row, override) for row, source, override in overrides},
    )
    return table, mistakes


def _classes(written: Mapping[str, Any], mistakes: list[str]) -> dict[str, ErrorClass]:
    rows = [typed(ErrorClass, fields, f"classes.{name}", mistakes, name=name) for name, fields in written.items()]
    classes = {row.name: row for row in rows if row is not None}
    if UNKNOWN not in classes:
        mistakes.append(f"classes.{UNKNOWN}: missing; lay your own file over the built-in one")
    for row in classes.values():
        mistakes.extend(f"classes.{row.name}: {mistake}" for mistake in _contradictions(row, classes))
    return classes


def _check_names(part: str, names: Mapping[str, str], classes: Mapping[str, ErrorClass], mistakes: list[str]) -> None:
    mistakes.extend(f"{part}.{word}: no class is named '{name}'" for word, name in names.items() if name not in classes)


def _aliases_of(row: ErrorClass) -> Iterator[tuple[str, str]]:
    for of, names in row.aliases_of.items():
        yield from ((of, key(name)) for name in names)


def _status_of(row: ErrorClass) -> Iterator[tuple[str, int]]:
    for of, codes in row.status_of.items():
        yield from ((of, code) for code in codes)


def typed(kind: type[Row], fields: Any, place: str, mistakes: list[str], **given: Any) -> Row | None:
    """`fields` as a `kind`; or None, with unknown, missing and mistyped fields added to `mistakes`."""
    if not isinstance(fields, dict):
        mistakes.append(f"{place}: must be a table, not {fields!r}")
        return None
    fields = {**fields, **given}
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    needed = [name for name, field in known.items() if field.required]
    types = {name: field.type for name, field in known.items()}
    wrong = [*wrong_fields(fields, types, f"{place}: ", _misfit), *missing_fields(fields, needed, f"{place}: ")]
    mistakes += wrong
    return None if wrong else msgspec.convert(fields, kind)


def _misfit(value: Any, kind: Any) -> str:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return f"{error}; got {value!r}"
    return ""


def _contradictions(row: ErrorClass, classes: Mapping[str, ErrorClass]) -> Iterator[str]:
    """Contradictions within a class, and references to unknown classes."""
    if not row.name.endswith("Error"):
        yield "the name must end in Error"
    if row.retryable != (row.recovery in RETRYABLE):
        yield f"retryable: {row.retryable} contradicts recovery '{row.recovery}'"
    if row.mistake and (row.attribution != "model" or row.category == "state"):
        yield f"mistake: only the model's errors may be, and none of state; got {row.attribution}"
    yielding = [row.gives_way_to, *(override.gives_way_to or () for override in row.overrides.values())]
    for name in chain.from_iterable(yielding):
        if not _members((name,), classes):
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


def _index(
    field: str, rows: Iterable[ErrorClass], words: Callable[[ErrorClass], Iterable[Any]], mistakes: list[str]
) -> dict[Any, str]:
    """The class of each of the rows' words. A word that means two classes is a mistake."""
    index: dict[Any, str] = {}
    for row in rows:
        for word in words(row):
            first = index.setdefault(word, row.name)
            if first != row.name:
                mistakes.append(f"classes.{row.name}: {field}: {word!r} already means {first}")
    return index


def _members(names: Iterable[str], classes: Mapping[str, ErrorClass]) -> frozenset[str]:
    """The classes whose name, category or domain is among these."""
    wanted = set(names)
    return frozenset(row.name for row in classes.values() if wanted & {row.name, row.category, row.domain})


def _others(row: ErrorClass, names: Iterable[str], classes: Mapping[str, ErrorClass]) -> frozenset[str]:
    """The other classes among these."""
    return _members(names, classes) - {row.name}


def _meant(row: ErrorClass, override: Override) -> ErrorClass:
    """The class with the override of a source applied."""
    said = msgspec.structs.asdict(override)
    del said["because"]
    return msgspec.structs.replace(row, **{name: value for name, value in said.items() if value is not None})
