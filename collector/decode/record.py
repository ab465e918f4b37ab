"""What a decoded request is made of, whatever its encoding: `Request` → `Scope` → `Record`.

A record of OTLP is converted only when something of it is read: most spans of real agents are dropped by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.errors import Rejected

MAX_DEPTH = 64  # of nested attribute values; real agents stay below 10
MAX_ATTRIBUTES = 65_536  # per record; conversations flattened into a span have a few thousand
MAX_RECORDS = 100_000  # per request: an empty record takes two bytes in a body, and some kB of memory


def check_depth(depth: int) -> None:
    """Raises Rejected for a value nested beyond MAX_DEPTH."""
    if depth > MAX_DEPTH:
        raise Rejected("an attribute value is nested too deeply")


def check_count(attributes: int) -> None:
    """Raises Rejected for more attributes than MAX_ATTRIBUTES."""
    if attributes > MAX_ATTRIBUTES:
        raise Rejected(f"more than {MAX_ATTRIBUTES} attributes")


def check_records(records: int) -> None:
    """Raises Rejected 413 for more records in one request than MAX_RECORDS."""
    if records > MAX_RECORDS:
        raise Rejected(f"more than {MAX_RECORDS} records in one request: send smaller batches", 413)


class SpanEvent:
    """One event of a span: name, time and attributes."""

    __slots__ = ("attributes", "name", "time_ns")

    def __init__(self, name: str, time_ns: int = 0, attributes: dict[str, Any] | None = None) -> None:
        self.name = name
        self.time_ns = time_ns
        self.attributes = {} if attributes is None else attributes


class Record:
    """One log record, span or plain JSON object, whatever the encoding it came in.

    Times are nanoseconds, 0 where absent; `time_ns` of a span is its end. Ids are lower-case hex, "" where absent.
    `status` is 0 unset, 1 ok, 2 error; `trace_state` is W3C's, of a span; `kind` is the span kind (2 server, 3 client);
    `signal` is log, span or event.
    """

    __slots__ = (
        "_convert", "_raw", "attributes", "body", "events",
        "kind", "name", "observed_ns", "parent_span_id", "severity", "signal", "span_id",
        "start_ns", "status", "status_message", "time_ns", "trace_id", "trace_state",
    )  # fmt: skip
    attributes: dict[str, Any]  # str, bool, int, float, bytes, list, dict or None
    body: Any  # of a log, converted like an attribute's value; None for a span
    events: list[SpanEvent]  # of a span; empty for anything else

    def __init__(
        self,
        signal: str,
        name: str = "",
        attributes: dict[str, Any] | None = None,
        *,
        body: Any = None,
        time_ns: int = 0,
        start_ns: int = 0,
        observed_ns: int = 0,
        trace_id: str = "",
        span_id: str = "",
        parent_span_id: str = "",
        kind: int = 0,
        status: int = 0,
        status_message: str = "",
        trace_state: str = "",
        severity: int = 0,
        events: list[SpanEvent] | None = None,
    ) -> None:
        self.signal = signal
        self.name = name
        self.attributes = {} if attributes is None else attributes
        self.body = body
        self.time_ns = time_ns
        self.start_ns = start_ns
        self.observed_ns = observed_ns
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.kind = kind
        self.status = status
        self.status_message = status_message
        self.trace_state = trace_state
        self.severity = severity
        self.events = events or []
        self._convert: Convert | None = None
        self._raw: Any = None

    @classmethod
    def later(cls, signal: str, name: str, raw: Any, convert: Convert) -> Record:
        """A record whose name alone has been read so far."""
        record = cls.__new__(cls)
        record.signal = signal
        record.name = name
        record._raw = raw
        record._convert = convert
        return record

    def __getattr__(self, name: str) -> Any:
        """Converts attributes, body and events on first access, which is when their slot is empty; all else at once."""
        raw, convert = self._raw, self._convert
        if convert is None:
            raise AttributeError(name)
        if name == "attributes":
            self.attributes = convert.attributes(raw)
        elif name == "events":
            self.events = convert.events(raw) if self.signal == "span" else []
        elif name == "body":
            self.body = convert.body(raw) if self.signal == "log" else None
        else:
            convert.fill(self, raw)
        return object.__getattribute__(self, name)


@dataclass(slots=True)
class Scope:
    """Records that share a resource and an instrumentation scope."""

    resource: dict[str, Any]
    name: str
    version: str
    records: list[Record]
    attributes: dict[str, Any] = field(default_factory=dict)


def roots(records: Iterable[Record]) -> list[Record]:
    """The spans below no other, for which their ids need not be converted."""
    spans = [record for record in records if record.signal == "span"]
    convert = spans[0]._convert if spans else None
    if convert is None:
        return [span for span in spans if not span.parent_span_id]
    parents = [convert.parent(span._raw) for span in spans]
    return [span for span, parent in zip(spans, parents, strict=True) if not parent or not parent.strip(convert.zero)]


def having(sought: Sought, records: Sequence[Record]) -> list[Record]:
    """Those of these records of one scope that came with an attribute of one of these names, or may have; they need not
    be converted for this.
    """
    convert = records[0]._convert if records else None
    if convert is None:
        return [record for record in records if not sought.names.isdisjoint(record.attributes)]
    may_have = convert.may_have
    return [record for record in records if may_have(record._raw, sought)]


class Sought:
    """Names of attributes that are looked for in records of any encoding."""

    __slots__ = ("json", "names", "protobuf")

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        raw = [re.escape(name.encode()) for name in self.names]
        sized = [re.escape(bytes([len(name)])) + re.escape(name.encode()) for name in self.names]
        # A key with an escape may be any of them.
        self.json = re.compile(rb'"key"\s*:\s*"(?:(?:%s)"|[^"\\]*\\)' % b"|".join(raw))
        self.protobuf = re.compile(rb"\n(?:%s)" % b"|".join(sized))


@dataclass(slots=True, frozen=True)
class Convert:
    """How the raw records of one encoding are read: `fill` sets a record's times, ids and states; `parent` is the id of
    the span around it, of which `zero` is a digit that says nothing.
    """

    fill: Callable[[Record, Any], None]
    attributes: Callable[[Any], dict[str, Any]]
    events: Callable[[Any], list[SpanEvent]]
    body: Callable[[Any], Any]
    may_have: Callable[[Any, Sought], bool]
    parent: Callable[[Any], Any]
    zero: str | bytes


Metrics = tuple[Any, str, list[str]]  # `service.name`, scope name, metric names
SERVICE = "service.name"


def joined(*warnings: str) -> str:
    """The warnings about one request as one text; empty ones are left out."""
    return "; ".join(filter(None, warnings))


@dataclass(slots=True)
class Request:
    """One decoded export request.

    `records` counts log records, spans or data points; `warning` says what had to be mended, for `partialSuccess`;
    `metrics` tells who sent a metrics request, whose points are never events; `rejected` of the records were unreadable
    and are in no scope. `mended` is added to while records are read.
    """

    signal: str
    scopes: list[Scope]
    records: int
    warning: str = ""
    metrics: list[Metrics] | None = None
    rejected: int = 0
    mended: set[str] = field(default_factory=set)
