"""Reads a record by a row: columns, evidence by kind, and short attributes that are neither.

Records of one kind have the same attribute names, so which attribute becomes what is decided once per set of names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from collector.decode.record import Record
from collector.recognise.identify import bare_id
from collector.recognise.readers import (
    ABSENT_TEXTS,
    Around,
    Reader,
    as_bool,
    as_float,
    as_int,
    as_lines,
    as_params,
    as_text,
    present,
)
from collector.recognise.readings import Reading, Use
from collector.recognise.sources import Fitting, Row
from collector.report import Report, as_row
from collector.times import EARLIEST_NS, time_of

Signs = dict[str, list[Any]]

KEPT_CHARS, KEPT_COUNT = 200, 24  # attributes without a column: longest text, and number kept
PRIVATE = ("user.", "host.", "process.", "installation.", "enduser.", "os.", "telemetry.")  # about people and machines
# Endings of attribute names under which unknown senders may put prompts and outputs: these are never stored.
SAID = re.compile(
    r"(?:.*[._:/-])?(?:(?:system|user)_?)?(?:prompts?|completions?|inputs?|outputs?|messages|contents?|args|arguments)"
    r"(?:[._](?:text|value))?",
    re.IGNORECASE | re.DOTALL,
)
# Names of attributes that say, in any vendor's namespace, how the call ended: kind of evidence, and the column that has
# the word. Of earlier attempts and of other things ("cache.status", "retry.error") they say nothing.
PREFIX = r"(?:(?!(?:[^.]*\.)*(?:retry|last|previous|prev|cache|hook|parent|session|span|log|order)[._])[\w.-]{1,80}\.)?"
OF_THE_CALL = r"(?:[\w.-]{0,80}(?:tool|call|mcp|exec|execution|invocation|action|function|gen_ai)[._])?"
WORDED = tuple(
    (re.compile(before + name, re.IGNORECASE), kind, column)
    for before, name, kind, column in (
        (PREFIX, r"(?:tool_?|call_?|result_?)?is_?(?:error|failure)", "failed", ""),
        (PREFIX, r"(?:tool_?|call_?)?(?:success|succeeded|successful|is_?success)", "flags", ""),
        (PREFIX, r"(?:tool_?|call_?|execution_?)?(?:outcome|verdict|result_?(?:status|type))", "says", ""),
        (OF_THE_CALL, r"(?:status|state)", "says", ""),
        (OF_THE_CALL, r"(?:permission|approval|(?:permission|approval|policy|safety)[._]?)?decision", "decisions", ""),
        (OF_THE_CALL, r"(?:permission|approval)(?:[._]?(?:status|result))?", "decisions", ""),
        (PREFIX, r"(?:is_?)?(?:blocked|denied|denial)(?:_?reason)?", "blocked", ""),
        (PREFIX, r"(?:tool_?|call_?)?error[._]?(?:code|type|class|kind|name)", "errors", "reported_class"),
        (PREFIX, r"(?:tool_?|call_?)?error[._]?(?:message|msg|text|detail|description)", "errors", "message"),
        (PREFIX, r"(?:tool_?|call_?)?error", "errors", "text"),
    )
)
LEAST = 1000  # preference of what is found so: every key of a table comes before
TOOL_CHARS = 64  # of a tool's name are compared with known kinds; no known name is longer
UNTOLD = "_OTHER"  # OpenTelemetry's word for a name that is not known
PHASES = ("model", "tool", "sandbox", "system")
SEVERITIES = {
    "info": "info",
    "warn": "warn",
    "warning": "warn",
    "error": "error",
    "critical": "fatal",
    "fatal": "fatal",
}


def _severity(value: Any) -> str | None:
    return SEVERITIES.get(str(value).lower())


def _phase(value: Any) -> str | None:
    return value if value in PHASES else None


def _sequence(value: Any) -> int | None:
    """A number that the agent increments, or the milliseconds of its clock if it sends a time."""
    if isinstance(value, str) and value.count("-") == 2:
        return time_of(value) // 1_000_000 or None
    return as_int(value)


def _unchanged(value: Any) -> Any:
    return value


CONVERT: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("attempt", "retry_after_ms", "status_code", "input_tokens", "output_tokens", "reported_streak"),
        as_int,
    ),
    **dict.fromkeys(("duration_ms", "cost_usd"), as_float),
    **dict.fromkeys(("retryable_declared", "fatal", "mistake"), as_bool),
    "params": as_params,
    "suggestion": as_lines,
    "sequence": _sequence,
    "severity": _severity,
    "phase": _phase,
    "time_ns": _unchanged,
}


# Names of tools that run commands, in lower case without `_` and a final "tool".
COMMAND_TOOLS = re.compile(
    "(local|container|run|in|exec|execute){0,4}(bash|sh|(power)?shell|pwsh|terminal|commands?|cmd|exec){1,4}"
    "|(run|exec|execute)(i?python|code|node|javascript|js)(code|script|cell){0,4}"
    "|(i?python|jupyter|code)(repl|code|interpreter|execution|executor|runner|sandbox){1,4}|i?python"
)


# A session with an MCP server is a part of the agent's, which the trace of the call may tell.
SESSION_SOURCES = {"mcp.session.id": "instance"}


class Place(NamedTuple):
    """Where a column's value may be: in the attribute `key` (if `read` is None), or what `read` returns. A session
    found there has this `source`.
    """

    key: str
    read: Reader | None
    scale: float
    source: str = "record"


Column = tuple[str, Callable[[Any], Any] | None, tuple[Place, ...]]  # with how to convert its values


class Texts(NamedTuple):
    """Columns that are read at once, as long as each has a text; and the source of the session, if it is among them."""

    slots: tuple[str, ...]
    values: Callable[[dict[str, Any]], tuple[Any, ...]]
    more: dict[str, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a row reads from records with one set of attribute names: columns with their places in order of preference,
    evidence by kind, and attributes kept unchanged. `texts` are the columns whose first place is an attribute that is
    taken as it is; `others` are all others.
    """

    texts: Texts | None
    others: tuple[Column, ...]
    columns: tuple[Column, ...]
    signs: tuple[tuple[str, str, Reader | None], ...]
    kept: tuple[str, ...]


def _scaled(value: Any, scale: float) -> float | None:
    """A number, or a text that is one, in the column's unit; None for anything else, such as `1m`."""
    number = as_float(value)
    return None if number is None else number * scale


def read(fitting: Fitting, record: Record, around: Around, report: Report) -> tuple[Signs, dict[str, Any]]:
    """Fills the report's columns by the row's keys; returns the evidence, and the other attributes that are kept."""
    attributes = record.attributes
    shape: Shape | None = fitting.shape
    if shape is None:
        shape = fitting.shape = _made(fitting.row, attributes)
    columns, left = as_row(report), shape.columns
    if (texts := shape.texts) and _are_texts(values := texts.values(attributes)):
        columns.update(zip(texts.slots, values, strict=True))
        columns.update(texts.more)
        left = shape.others
    for slot, convert, places in left:
        for key, read_place, scale, source in places:
            value = attributes[key] if read_place is None else read_place(record, around)
            put = _converted(slot, value if scale == 1.0 else _scaled(value, scale), convert)
            if put is not None:
                columns[slot] = put
                if slot == "session":
                    columns["session_source"] = source
                break
    signs: Signs = {}
    for kind, key, read_place in shape.signs:
        value = attributes[key] if read_place is None else read_place(record, around)
        if present(value):
            signs.setdefault(kind, []).append(value)
    rest = {key: value for key in shape.kept if _short(value := attributes[key])}
    _tidy(report)
    return signs, rest if len(rest) <= KEPT_COUNT else dict(islice(rest.items(), KEPT_COUNT))


def _are_texts(values: tuple[Any, ...]) -> bool:
    """Whether all are texts that are present."""
    return {str}.issuperset(map(type, values)) and ABSENT_TEXTS.isdisjoint(values)


def _converted(slot: str, value: Any, convert: Callable[[Any], Any] | None) -> Any:
    """A value as its column holds it; None if it counts as absent. Empty arguments are arguments."""
    if type(value) is str:
        if value in ABSENT_TEXTS:
            return None
        return value if convert is None else convert(value)
    if value is None or (not value and slot != "params" and isinstance(value, (dict, list))):
        return None
    return (as_text if convert is None else convert)(value)


class _Wanted:
    """The places of each column, with their preferences, and of evidence, as far as keys are read."""

    def __init__(self) -> None:
        self.columns: dict[str, list[tuple[int, Place]]] = {}
        self.signs: list[tuple[str, str, Reader | None]] = []

    def add(self, use: Use, place: Place) -> None:
        if use.kind:
            self.signs.append((use.kind, place.key, place.read))
        else:
            self.columns.setdefault(use.slot, []).append((use.preference, place))

    def in_order(self) -> Iterator[Column]:
        for slot, places in self.columns.items():
            places.sort(key=itemgetter(0))
            yield slot, CONVERT.get(slot), tuple(place for _, place in places)

    def add_attribute(self, use: Use, key: str) -> None:
        if use.slot == "text":
            self.add(Use("message", "", LEAST), Place(key, _said_at(key), use.scale))
        else:
            self.add(use, Place(key, None, use.scale, SESSION_SOURCES.get(key, "record")))


def _made(row: Row, keys: Collection[str]) -> Shape:
    reading, wanted, kept = row.reading(), _Wanted(), []
    for key in keys:
        uses = _uses(reading, key)
        for use in uses:
            wanted.add_attribute(use, key)
        if not uses and not _is_private(key) and not reading.ignored.has(key):
            kept.append(key)
    for use, name in reading.resource:
        wanted.add(use, Place(name, _of_resource(name), use.scale, "resource"))
    for use, read_special, needed in reading.special:
        if not needed or any(key in keys for key in needed):
            wanted.add(use, Place("", read_special, use.scale))
    columns = tuple(wanted.in_order())
    at_once = {slot: places[0] for slot, convert, places in columns if convert is None and _is_taken(places[0])}
    texts = _texts(at_once) if len(at_once) > 1 else None
    others = tuple(column for column in columns if column[0] not in at_once)
    return Shape(texts, others, columns, tuple(wanted.signs), tuple(kept))


def _uses(reading: Reading, key: str) -> tuple[Use, ...]:
    """What an attribute is used for: what the table names, else what its words say."""
    uses = reading.uses.get(key)
    if uses is None and reading.worded and len(key) <= WORDED_CHARS:
        return _worded(key)
    return uses or ()


def _is_taken(place: Place) -> bool:
    """Whether this is an attribute that is taken as it is."""
    return place.read is None and place.scale == 1.0


def _texts(places: dict[str, Place]) -> Texts:
    values = itemgetter(*(place.key for place in places.values()))
    more = {"session_source": places["session"].source} if "session" in places else {}
    return Texts(tuple(places), values, more)


def _is_private(key: str) -> bool:
    """Whether an attribute without a column may tell about people or hold what was said."""
    return key.startswith(PRIVATE) or SAID.fullmatch(key) is not None


WORDED_CHARS = 120  # of an attribute's name that is looked at; longer ones are not remembered


@lru_cache(maxsize=2_000)
def _worded(key: str) -> tuple[Use, ...]:
    """What an attribute is evidence of by its name alone."""
    found = next(((kind, column) for name, kind, column in WORDED if name.fullmatch(key)), None)
    if found is None:
        return ()
    kind, column = found
    return (Use("", kind), *((Use(column, "", LEAST),) if column else ()))


def _said_at(key: str) -> Reader:
    """The value of an attribute that may be a text or only a truth value."""
    return lambda record, around: None if as_bool(value := record.attributes[key]) is not None else value


def _of_resource(name: str) -> Reader:
    return lambda record, around: around.resource.get(name)


def _short(value: Any) -> bool:
    return 0 < len(value) <= KEPT_CHARS if type(value) is str else isinstance(value, (bool, int, float))


OF_SERVER = "MCP:"  # before the names of tools of MCP servers, as Cursor writes them


def _tidy(report: Report) -> None:
    tool = report.get("tool", "")
    if tool.startswith(OF_SERVER) and len(tool) > len(OF_SERVER):
        tool = report["tool"] = tool[len(OF_SERVER) :]
        report["tool_kind"] = "mcp"
    if "mcp_server" in report:
        report["tool_kind"] = "mcp"
    if not tool:
        if report.get("provider") == UNTOLD:
            del report["provider"]
        return
    if call_id := report.get("call_id"):
        report["call_id"] = bare_id(call_id, tool)
    if report.get("tool_kind") != "mcp" and (kind := _kind_of(tool[:TOOL_CHARS])):
        report["tool_kind"] = kind


@lru_cache(maxsize=2_000)
def _kind_of(tool: str) -> str | None:
    """The kind of a tool if its name leaves no doubt; the same for successful and failed calls."""
    bare = re.sub(r"[\W_]+|tool$", "", tool.casefold())
    return "command" if COMMAND_TOOLS.fullmatch(bare) else "browser" if bare.startswith("browser") else None


def place(report: Report, record: Record, *, own: bool) -> None:
    """Time, duration and trace context. `own`: the record is the span of the call; the span id of a log record is that
    of the surrounding span.
    """
    said = report.pop("time_ns", None)
    time_ns = record.time_ns
    if not time_ns:
        time_ns = time_of(said if said is not None else record.attributes.get("event.timestamp")) or record.observed_ns
    report["time_ns"] = time_ns
    if record.observed_ns:
        report["_observed"] = record.observed_ns
    if record.trace_id:
        report["trace_id"] = record.trace_id
    if not own:
        if record.span_id:
            report["parent_span_id"] = record.span_id
        return
    if record.span_id:
        report["span_id"] = record.span_id
    if record.parent_span_id:
        report["parent_span_id"] = record.parent_span_id
    if EARLIEST_NS <= record.start_ns <= record.time_ns and "duration_ms" not in report:
        report["duration_ms"] = (record.time_ns - record.start_ns) / 1e6
