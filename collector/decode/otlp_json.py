"""OTLP/JSON: hex ids, lowerCamelCase, 64-bit integers as text or number, unknown fields ignored (proto3 mapping)."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator, MutableSet
from operator import attrgetter
from typing import Any

import msgspec

from collector.decode.json_messages import (
    DECODERS,
    EVENTS,
    PAIRS,
    KeyValue,
    Log,
    MetricsRequest,
    ScopeInfo,
    Span,
    Traces,
)
from collector.decode.mending import paired, shallow
from collector.decode.record import (
    SERVICE,
    Convert,
    Metrics,
    Record,
    Request,
    Scope,
    Sought,
    SpanEvent,
    check_count,
    check_depth,
    check_records,
    joined,
)
from collector.errors import Rejected

# Lists of an earlier OTLP, and names written as in protobuf: keys that are ignored, and with them all that they hold.
_UNKNOWN = re.compile(rb'"(scope_spans|scope_logs|scope_metrics|log_records|instrumentationLibrary\w+)"\s*:')

MENDED = "bad characters or numbers were replaced"


def decode(body: bytes, signal: str) -> Request:
    """One OTLP/JSON body; unknown keys are ignored, with a warning if nothing else is there. Raises Rejected."""
    decoder = DECODERS[signal]
    warning = ""
    if not body.strip():
        return Request(signal, [], 0)
    try:
        if signal == "traces" and not body.isascii():
            str(body, "utf-8")  # what stays bytes is checked for everything but this
        message = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as first:
        message, warning = _mended(body, decoder.type, str(first))
    except RecursionError:
        message, warning = _mended(shallow(body), decoder.type, "")[0], "values nested too deeply were left out"
    [key] = decoder.type.__struct_fields__
    if getattr(message, key) is None and b":" in body and key.encode() not in body:
        warning = f"there is no {key} in this body, so nothing was taken"
    if signal == "metrics":
        return _metrics_request(message, warning)
    mended: set[str] = set()
    scopes = list(_scopes(message, signal, _convert(mended)))
    if not any(scope.records for scope in scopes) and (found := _UNKNOWN.search(body)):
        warning = joined(warning, f"OTLP does not know {found[1].decode()}, so nothing was taken")
    return Request(signal, scopes, sum(len(scope.records) for scope in scopes), warning, mended=mended)


def _mended(body: bytes, kind: Any, reason: str) -> tuple[Any, str]:
    """The slow pass: bad UTF-8 and lone surrogates become U+FFFD, integral floats become integers; raw control
    characters and a byte order mark are accepted.
    """
    try:
        loose = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
        if kind is Traces:  # the parts that stay bytes
            loose = _tidy(loose)
            return DECODERS["traces"].decode(msgspec.json.encode(loose)), MENDED
        return msgspec.convert(_tidy(loose), kind, strict=False), MENDED
    except RecursionError:
        raise Rejected("JSON is nested too deeply") from None
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise Rejected(f"body is not OTLP JSON: {_first_line(reason)}") from None


def _tidy(value: Any) -> Any:
    if isinstance(value, str):
        return paired(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, dict):
        return {_tidy(key): (item if key == "doubleValue" else _tidy(item)) for key, item in value.items()}
    return value


def _first_line(text: str) -> str:
    """Only msgspec's own words: they name the place (`$.resourceSpans[0]`), never the data."""
    return text.splitlines()[0][:200] if text else "not readable"


def _scopes(message: Any, signal: str, convert: Convert) -> Iterator[Scope]:
    traces = signal == "traces"
    groups = (message.resourceSpans if traces else message.resourceLogs) or ()
    check_records(count := len(groups))
    for group in groups:
        parts = (group.scopeSpans if traces else group.scopeLogs) or ()
        check_records(count := count + len(parts))
        resource = _attributes(group.resource.attributes) if group.resource else {}
        for part in parts:
            scope = part.scope or ScopeInfo()
            raw = (part.spans if traces else part.logRecords) or ()
            check_records(count := count + len(raw))
            if traces:
                records = [Record.later("span", item.name or "", item, convert) for item in raw]
            else:
                records = [Record.later("log", item.eventName or "", item, convert) for item in raw]
            yield Scope(resource, scope.name or "", scope.version or "", records, _attributes(scope.attributes))


def _fill(record: Record, raw: Any) -> None:
    record.trace_id = _hex(raw.traceId, "traceId")
    record.span_id = _hex(raw.spanId, "spanId")
    if record.signal == "span":
        status = raw.status
        record.time_ns, record.start_ns = _integer(raw.endTimeUnixNano), _integer(raw.startTimeUnixNano)
        record.parent_span_id = _hex(raw.parentSpanId, "parentSpanId")
        record.kind = _integer(raw.kind)
        record.status, record.status_message = (_integer(status.code), status.message or "") if status else (0, "")
        record.trace_state = raw.traceState or ""
        record.observed_ns = record.severity = 0
        if not memoryview(raw.events).nbytes:
            record.events = []
    else:
        record.time_ns, record.observed_ns = _integer(raw.timeUnixNano), _integer(raw.observedTimeUnixNano)
        record.severity = _integer(raw.severityNumber)
        record.start_ns = record.kind = record.status = 0
        record.parent_span_id = record.status_message = record.trace_state = ""


# Names of enum values are not valid OTLP/JSON, but hand-written senders use them, and their meaning is clear.
_NAMED = {
    "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2,
    "SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2, "SPAN_KIND_CLIENT": 3,
    "SPAN_KIND_PRODUCER": 4, "SPAN_KIND_CONSUMER": 5,
}  # fmt: skip


def _integer(value: int | str | None) -> int:
    if isinstance(value, int):
        return value if 0 <= value < 1 << 63 else 0
    if not value:
        return 0
    try:
        number = int(value)
    except ValueError:
        return _NAMED.get(value, 0)
    return number if 0 <= number < 1 << 63 else 0


def _hex(value: str | None, field: str) -> str:
    """Lower-case hex; ids in the proto3 mapping's base64 (12 or 24 characters) are taken too; all zeros mean none."""
    if not value or not value.strip("0"):
        return ""
    try:
        raw = binascii.unhexlify(value) if len(value) in (16, 32) else base64.b64decode(value, validate=True)
        if len(raw) in (8, 16):
            return raw.hex()
    except ValueError:
        pass
    raise Rejected(f"{field} of {len(value)} characters is not hex of 32 or 16 digits")


def _attributes(pairs: list[KeyValue] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    check_count(len(pairs or ()))
    for pair in pairs or ():
        if (value := pair.value) is not None:
            text = value.stringValue
            found[pair.key] = text if text is not None else value_of(msgspec.structs.asdict(value))
    return found


def value_of(value: Any, depth: int = 0) -> Any:
    """A JSON AnyValue as a Python value; nothing at all is None; nested beyond MAX_DEPTH raises Rejected."""
    check_depth(depth)
    if not isinstance(value, dict):
        return None
    for kind, item in value.items():
        if item is not None and kind in _VALUES:
            return _VALUES[kind](item, depth)
    return None


def _array(item: Any, depth: int) -> list[Any]:
    items = item.get("values") if isinstance(item, dict) else None
    return [value_of(each, depth + 1) for each in items] if isinstance(items, list) else []


def _key_values(item: Any, depth: int) -> dict[str, Any]:
    pairs = item.get("values") if isinstance(item, dict) else None
    return _map(pairs, depth) if isinstance(pairs, list) else {}


def _map(pairs: list[Any], depth: int) -> dict[str, Any]:
    return {
        str(pair.get("key", "")): value_of(pair.get("value"), depth + 1) for pair in pairs if isinstance(pair, dict)
    }


def _signed(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _double(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _bytes(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value)
    except (TypeError, ValueError):
        return None


_VALUES: dict[str, Callable[[Any, int], Any]] = {
    **dict.fromkeys(("stringValue", "boolValue"), lambda item, depth: item),
    "doubleValue": lambda item, depth: _double(item),
    "intValue": lambda item, depth: _signed(item),
    "arrayValue": _array,
    "kvlistValue": _key_values,
    "bytesValue": lambda item, depth: _bytes(item),
}


def _convert(mended: MutableSet[str]) -> Convert:
    """How the records of one request are read; `mended` gets a word of what had to be mended in them."""

    def pairs(raw: Span | Log) -> list[KeyValue] | None:
        found = raw.attributes
        return _typed(PAIRS, found, mended) if isinstance(found, msgspec.Raw) else found

    def events(raw: Span) -> list[SpanEvent]:
        return [
            SpanEvent(event.name or "", _integer(event.timeUnixNano), _attributes(event.attributes))
            for event in _typed(EVENTS, raw.events, mended) or ()
        ]

    return Convert(
        _fill,
        lambda raw: _attributes(pairs(raw)),
        events,
        lambda raw: value_of(raw.body),
        _may_have,
        attrgetter("parentSpanId"),
        "0",
    )


def _may_have(raw: Span | Log, sought: Sought) -> bool:
    if isinstance(raw, Span):
        return sought.json.search(raw.attributes) is not None
    return not sought.names.isdisjoint(one.key for one in raw.attributes or ())


def _typed(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw, mended: MutableSet[str]) -> Any:
    """What a part that stayed bytes holds; None if it was left out. Raises Rejected."""
    try:
        return decoder.decode(raw) if memoryview(raw).nbytes else None
    except msgspec.DecodeError as first:
        found, word = _mended(bytes(raw), decoder.type, str(first))
        mended.add(word)
        return found


def _metrics_request(message: MetricsRequest, warning: str) -> Request:
    seen: list[Metrics] = []
    points = 0
    for group in message.resourceMetrics or ():
        pairs = (group.resource and group.resource.attributes) or ()
        # Nothing else of the resource is read, so that nothing else can be wrong.
        service = _attributes([pair for pair in pairs if pair.key == SERVICE]).get(SERVICE)
        for part in group.scopeMetrics or ():
            metrics = part.metrics or []
            seen.append((service, (part.scope and part.scope.name) or "", [metric.name or "" for metric in metrics]))
            points += sum(map(_points, metrics))
    return Request("metrics", [], points, warning, seen)


def _points(metric: Any) -> int:
    """How many data points a metric has."""
    kinds = (metric.gauge, metric.sum, metric.histogram, metric.exponentialHistogram, metric.summary)
    lists = [data.get("dataPoints") for data in kinds if data]
    return sum(len(rows) for rows in lists if isinstance(rows, list))
