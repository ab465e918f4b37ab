"""Reads values from records: compiles keys of the source tables to readers, and converts leniently.

A key is an attribute's name or one of the forms in `schemas/sources/README.md`. Telemetry is full of half-empty values,
so nothing here raises: a value that cannot be read counts as absent (None).
"""

from __future__ import annotations

import ast
import fnmatch
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from collector.decode.mending import paired, readable
from collector.tables import load_toml, schemas

MAX_JSON = 4 << 20  # longer texts are not parsed; the largest conversation in the recordings has 0.4 MB
ABSENT_TEXTS = frozenset(("", "null", "undefined", "<not specified>", "__REDACTED__"))  # ADK's, OpenInference's
TRUE_WORDS = frozenset(("true", "1", "yes", "y", "on"))
VARIANT_TEXT = re.compile(r"([A-Z]\w*)(?:::|\()([A-Z]\w*)")
PLACE = re.compile(r"[0-9]{1,6}")  # in a list; `isdigit` is true of "²" too, and `int` refuses 5,000 digits
FALSE_WORDS = frozenset(("false", "0", "no", "n", "off"))
NO_ERROR = frozenset(("none", "no error", "no errors", "null", "nil", "ok", "success"))

# Patterns that tables name. The first choice of a model that gave nothing of use, in all the providers' words.
NAMED = {
    "{unusable}": r"(?i)^\W*(?:finish_?reason\.)?(content.?filter(?:ed)?|refusal|(?:image_)?safety|prohibited_content"
    r"|recitation|blocklist|spii|guardrail_intervened|malformed_function_call|malformed_tool_use"
    r"|unexpected_tool_call|too_many_tool_calls|missing_thought_signature|model_context_window_exceeded|language"
    r"|insufficient_system_resource|failed|(?-i:OTHER))\b",
    # Why a run ended although no call and no request failed.
    "{limit}": r"(?i)(max(?:imum)?[ _-]?(?:number of |allowed )?(?:\w{1,20} )?"
    r"(?:turns?|iterations?|steps?|rounds?|loops?|llm calls|budget)"
    r"|(?:turn|iteration|step|recursion|usage|request|time|budget|cost)[ _-]?limit|graphrecursion|usagelimit"
    r"|budget[ _]?exceeded|error_during_execution|run (?:was |has been )?(?:interrupted|abandoned)"
    r"|too many (?:turns|steps|iterations))",
}

ANY = "any:"  # before globs of names: the first attribute that has one
HIDDEN_CHARS, HIDDEN_DEPTH = 100, 3
HIDING = frozenset((str, dict, list))  # the types of values that can be placeholders, or hold some

_decode_json = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Around:
    """The context of a record: its resource, scope and event name, and what the `*` of the row matched."""

    resource: Mapping[str, Any]
    scope: str
    captured: str = ""
    event: str = ""
    version: str = ""


Reader = Callable[[Any, Around], Any]


def present(value: Any) -> bool:
    """Whether a value counts as present: not None, "", "null", "undefined", an empty map or list."""
    if value is None:
        return False
    if isinstance(value, str):
        return value not in ABSENT_TEXTS
    return not (isinstance(value, (dict, list)) and not value)


@cache
def _placeholders() -> re.Pattern[str]:
    rows = load_toml(schemas() / "placeholders.toml")["placeholders"]
    return re.compile("|".join(f"(?:{row['pattern']})" for row in rows), re.IGNORECASE)


def is_hidden(value: Any, depth: int = HIDDEN_DEPTH) -> bool:
    """Whether a value is only a placeholder for what the sender hides, or a map or list of nothing else."""
    if isinstance(value, str):
        return 0 < len(value) <= HIDDEN_CHARS and _placeholders().fullmatch(value) is not None
    if isinstance(value, (dict, list)) and value and depth:
        held = value.values() if isinstance(value, dict) else value
        return HIDING.issuperset(map(type, held)) and all(is_hidden(one, depth - 1) for one in held)
    return False


def tells_error(value: Any) -> bool:
    """Whether a field that is there for an error has one: present, and neither false, 0 nor a word for none."""
    if isinstance(value, str) and value.strip(" .").lower() in NO_ERROR:
        return False
    return present(value) and as_bool(value) is not False


def glob(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One pattern for several globs; None if there are none."""
    return _glob(tuple(patterns))


@cache  # most rows inherit the same globs
def _glob(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(fnmatch.translate, patterns))) if patterns else None


def parsed(value: Any) -> Any:
    """The value of a JSON text, or of a Python literal of a map or list; any other value unchanged."""
    if not isinstance(value, str) or not 1 < len(value) <= MAX_JSON:
        return value
    text = value.strip()
    if text[:1] not in ("{", "[", '"') or text[-1:] not in ("}", "]", '"'):
        return value
    try:
        return _decode_json(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        pass
    try:  # lone surrogates and NaN, which the strict decoder refuses
        return json.loads(readable(text.encode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError):
        pass
    if "'" in text and len(text) < 1 << 16:  # {'path': 'x'}: LangChain and others send Python's repr
        try:
            literal = json.loads(paired(json.dumps(ast.literal_eval(text), ensure_ascii=False)))  # tuples are lists now
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return value
        return literal if isinstance(literal, (dict, list)) else value
    return value


def at_path(value: Any, path: Iterable[str]) -> Any:
    """The value at a path in maps, lists and JSON texts, whose keys may contain dots; None if there is none."""
    steps = tuple(path)
    for place, step in enumerate(steps):
        if type(value) is not dict:
            value = parsed(value)
        if step == "::":
            return variant_path(value)
        if type(value) is dict or isinstance(value, Mapping):
            if step not in value and (rest := ".".join(steps[place:])) in value:
                return value[rest]
            value = variant(value)[1] if step == "*" else value.get(step)
        elif (
            isinstance(value, list)
            and PLACE.fullmatch(step.removeprefix("-"))
            and -len(value) <= int(step) < len(value)
        ):
            value = value[int(step)]
        else:
            return None
    return value


def variant(value: Any) -> tuple[str, Any]:
    """Name and content of an enum variant as Rust's serde writes it: `{"Tool": …}`, possibly beside lower-case keys;
    otherwise ("", None).
    """
    named = [name for name in value if name[:1].isupper()] if isinstance(value, Mapping) else []
    return (named[0], value[named[0]]) if len(named) == 1 else ("", None)


def variant_path(value: Any) -> str | None:
    """`ToolError::FileNotFound` for `{"Tool": {"FileNotFound": …}}`, `Tool(FileNotFound { … })` or a text that begins
    with that path.
    """
    if isinstance(value, str):
        found = VARIANT_TEXT.match(value)
        outer, inner = found.groups() if found else ("", "")
    else:
        outer, below = variant(value)
        inner = variant(parsed(below))[0]
    if not inner:
        return outer or None
    return f"{outer}::{inner}" if outer.endswith("Error") else f"{outer}Error::{inner}"


@cache
def reader(key: str) -> Reader:
    """Compiles a key to a function of a record and its context."""
    if key[0] == "=":
        constant = key[1:]
        return lambda record, around: constant
    if key[0] == "!":
        told = reader(key[1:])
        return lambda record, around: None if (value := as_bool(told(record, around))) is None else not value
    if "~" in key:
        key, _, text = key.partition("~")
        inner, pattern = reader(key), re.compile(NAMED.get(text, text))
        return lambda record, around: _matched(pattern, inner(record, around))
    head, mark, path = key.partition("#")
    plain = _plain_reader(head)
    if not mark:
        return plain
    if not path:
        return lambda record, around: parsed(plain(record, around))
    steps = tuple(path.split("."))
    if not is_attribute(head):
        return lambda record, around: at_path(plain(record, around), steps)
    flattened = f"{head}.{path}"  # how exporters that know no maps write it
    return lambda record, around: (
        at_path(plain(record, around), steps) if head in record.attributes else record.attributes.get(flattened)
    )


@cache
def is_attribute(key: str) -> bool:
    """Whether the key is simply an attribute's name."""
    return (
        key[:1] not in ("@", "=", "!") and not any(mark in key for mark in "#>~*") and not key.startswith("resource:")
    )


@cache
def needs(key: str) -> tuple[str, ...]:
    """The attributes without all of which a key gives nothing; none of a key that is read elsewhere too."""
    if key[0] == "!":
        return needs(key[1:])
    head, mark, path = key.partition("~")[0].partition("#")
    if key[0] == "=" or not is_attribute(head):
        return ()
    return (head, f"{head}.{path}") if mark and path else (head,)


def _plain_reader(head: str) -> Reader:
    if head in _SPECIAL:
        return _SPECIAL[head]
    if head.startswith(ANY):
        return _any_reader(head)
    if "*" in head:
        start, _, end = head.partition("*")
        return lambda record, around: _between(record.attributes, start, end)
    if head.startswith("resource:"):
        name = head.removeprefix("resource:")
        return lambda record, around: around.resource.get(name)
    if ">" in head:
        event, _, attribute = head.partition(">")
        return lambda record, around: _span_event(record, event, attribute)
    return lambda record, around: record.attributes.get(head)


@cache
def any_named(key: str) -> re.Pattern[str]:
    """Names of the attributes of which such a key, or its head, gives the first: `any:*.tool.name,*.toolName`."""
    globs = key.partition("~")[0].partition("#")[0].removeprefix(ANY).split(",")
    return re.compile("|".join(map(fnmatch.translate, globs)), re.IGNORECASE)


def _any_reader(head: str) -> Reader:
    named = any_named(head).fullmatch
    return lambda record, around: next(
        (value for name, value in record.attributes.items() if named(name) and present(value)), None
    )


_SPECIAL: dict[str, Reader] = {
    "@name": lambda record, around: around.captured or record.name,
    "@record": lambda record, around: record.attributes,
    "@body": lambda record, around: record.body,
    "@status": lambda record, around: record.status,
    "@status_message": lambda record, around: record.status_message,
    "@scope": lambda record, around: around.scope,
    "@scope_version": lambda record, around: around.version,
    "@event": lambda record, around: around.event,
    "@kind": lambda record, around: record.kind,
    "@parent": lambda record, around: record.parent_span_id,
}


def _between(attributes: Mapping[str, Any], start: str, end: str) -> dict[str, Any] | None:
    """The values of the attributes whose names begin and end so, by what stands between."""
    long = len(start) + len(end)
    found = {
        name[len(start) : len(name) - len(end)]: value
        for name, value in attributes.items()
        if len(name) > long and name.startswith(start) and name.endswith(end)
    }
    return found or None


def _matched(pattern: re.Pattern[str], value: Any) -> str | None:
    value = value[0] if isinstance(value, list) and value else value
    found = pattern.search(value) if isinstance(value, str) and len(value) <= 1 << 16 else None
    return found[1] if found else None


def _span_event(record: Any, event: str, attribute: str) -> Any:
    for one in reversed(record.events):
        if one.name == event and present(one.attributes.get(attribute)):
            return one.attributes[attribute]
    return None


def as_bool(value: Any) -> bool | None:
    """A truth value, also from 0, 1 or words; None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return bool(value) if value in (0, 1) else None
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None
    return None


def as_int(value: Any) -> int | None:
    """An integer, also from "52", 5.0 or "http 429" (the first number of a short text); None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    if isinstance(value, str) and len(value) <= 40 and (found := re.search(r"-?\d{1,18}", value)):
        return int(found[0])
    return None


def as_float(value: Any) -> float | None:
    """A finite number, also from text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_text(value: Any) -> str | None:
    """Text; numbers and booleans as text, maps and lists as JSON text; None for absent values."""
    if isinstance(value, str):
        return value if value not in ABSENT_TEXTS else None
    if not present(value):
        return None
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value)


def as_lines(value: Any) -> str | None:
    """Text; a list becomes its lines."""
    listed = parsed(value)
    return "\n".join(map(str, listed)) if isinstance(listed, list) and listed else as_text(value)


def as_params(value: Any) -> Any:
    """Arguments: parsed from JSON text, taken out of Python's `args` and `kwargs`. An empty map stays (a call without
    arguments); other absent values and placeholders for hidden ones are None.
    """
    value = parsed(value)
    if is_hidden(value):
        return None
    if isinstance(value, dict):
        named, positional = value.get("kwargs"), value.get("args", [])
        if isinstance(named, dict) and isinstance(positional, list) and ("args" in value or len(value) == 1):
            return {"args": positional, **named} if positional else named
        return value
    return value if present(value) else None
