"""Plain JSON on `POST /v1/events`, for agents without OTLP: one object, an array of them, or JSON lines.

Objects are taken as they are: log entries of agents, hook payloads, or Misstep's own column names. The tables of
sources say what the keys mean; this module only knows what all shapes share: envelope, time, trace ids, service.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any

import msgspec

from collector.decode.mending import readable, shallow
from collector.decode.otlp import TOP_KEYS
from collector.decode.record import MAX_DEPTH, Record, Request, Scope, check_records, joined
from collector.errors import Rejected
from collector.times import time_of

TIMES = ("timestamp", "time", "ts", "@timestamp", "event.timestamp", "bookmark.timestamp")

_BYTE = re.compile(r"\(byte (\d+)\)")
_HEX = re.compile(r"[0-9a-fA-F]+")


def decode(body: bytes) -> Request:
    """The objects of a body as records of signal "event"; `warning` says which lines or items were no objects.

    Raises Rejected, naming the line, where none is. Bad UTF-8 and lone surrogates are mended.
    """
    found: list[dict[str, Any]] = []
    wrong: list[str] = []
    mended: set[str] = set()
    for number, (place, item) in enumerate(_items(body, mended), 1):
        check_records(number)
        try:
            found.append(_object(item, mended))
        except ValueError as error:
            wrong.append(f"{place} {error}")
    if wrong and not found:
        raise Rejected(wrong[0])
    records = len(wrong) + len(found)
    warning = f"{len(wrong)} of {records} not taken; the first: {wrong[0]}" if wrong else ""
    return Request("events", _scopes(found), records, joined(warning, *sorted(mended)), rejected=len(wrong))


def _items(body: bytes, mended: set[str]) -> Iterator[tuple[str, Any]]:
    """Every item with a human-readable place: a parsed value, or the bytes of a line still to be parsed."""
    if not body.strip():
        return
    try:
        value = _parse(body, mended)
    except ValueError as error:
        first = body.lstrip()
        if first.startswith(b"[") or b"\n" not in first.rstrip() or first.split(b"\n", 1)[0].strip() == b"{":
            raise Rejected(f"line {_line(body, str(error))} {error}") from None
        lines = enumerate(body.split(b"\n"), 1)
        yield from ((f"line {number}", line) for number, line in lines if line.strip())
        return
    if isinstance(value, list):
        yield from ((f"item {number}", item) for number, item in enumerate(value, 1))
    else:
        yield "line 1", value


def _object(item: Any, mended: set[str]) -> dict[str, Any]:
    value = _parse(item, mended) if isinstance(item, bytes) else item
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a text", type(None): "null"}.get(type(value), "a number or a boolean")
        raise ValueError(f"is {kind}, not a JSON object")
    if _deeper(value, MAX_DEPTH):
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")
    if known := value.keys() & TOP_KEYS.keys():
        raise ValueError(f"is OTLP, not an event: send it to /v1/{TOP_KEYS[min(known)]}")
    return unwrapped(value)


def unwrapped(value: dict[str, Any]) -> dict[str, Any]:
    """The object merged with the content of its envelope: KODE's `event`, `fields` of Rust's tracing-subscriber."""
    for name in ("event", "fields"):
        if isinstance(inner := value.get(name), dict):
            value = {**{key: item for key, item in value.items() if key != name}, **inner}
    return value


def _parse(text: bytes, mended: set[str]) -> Any:
    """The value of a JSON text; adds to `mended` what had to be changed to read it. Raises ValueError with the reason,
    without quoting the data.
    """
    try:
        return msgspec.json.decode(text.removeprefix(BOM_UTF8))
    except RecursionError:
        value = _mended(shallow(text), "")
        mended.add("values nested too deeply were left out")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        value = _mended(text, str(error))
        mended.add("bad characters or numbers were replaced")
    return value


def _mended(text: bytes, reason: str) -> Any:
    """The slow pass: bad UTF-8 and lone surrogates become U+FFFD, NaN and Infinity null; a byte order mark goes."""
    try:
        return msgspec.json.decode(readable(text, lambda _: None))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (ValueError, msgspec.MsgspecError):
        raise ValueError(f"is not JSON: {reason.splitlines()[0][:200]}") from None


def _deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return not levels or any(_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return not levels or any(_deeper(item, levels - 1) for item in value)
    return False


def _line(body: bytes, reason: str) -> int:
    """The line number for a reason such as "… (byte 12)"."""
    at = _BYTE.search(reason)
    return body.count(b"\n", 0, int(at[1])) + 1 if at else 1


def _scopes(found: list[dict[str, Any]]) -> list[Scope]:
    """Records in the order in which they came, neighbours of one resource and `source` together."""
    scopes: list[Scope] = []
    for item in found:
        resource, route = _resource(item), item.get("source")
        route = route if isinstance(route, str) else ""
        if not scopes or (scopes[-1].resource, scopes[-1].name) != (resource, route):
            scopes.append(Scope(resource, route, "", []))
        scopes[-1].records.append(_record(item))
    return scopes


def _resource(item: dict[str, Any]) -> dict[str, Any]:
    """The object's own `resource`, with `service` in short for `service.name`."""
    given = item.get("resource")
    resource = dict(given) if isinstance(given, dict) else {}
    service = item.get("service.name") or item.get("service")
    if isinstance(service, str):
        resource.setdefault("service.name", service)
    return resource


def _record(item: dict[str, Any]) -> Record:
    attributes = item
    if isinstance(within := item.get("attributes"), dict):
        attributes = within | {name: value for name, value in item.items() if name != "attributes"}
    return Record(
        "event",
        attributes=attributes,
        time_ns=next((time for name in TIMES if (time := time_of(_at(item, name)))), 0),
        trace_id=_id(item, 32, "trace_id", "traceId", "trace.id"),
        span_id=_id(item, 16, "span_id", "spanId", "span.id"),
    )


def _at(item: dict[str, Any], name: str) -> Any:
    """The value of a key, or of a key inside an object where `a.b` is no key itself."""
    outer, _, inner = name.partition(".")
    below = item.get(outer)
    return below.get(inner) if name not in item and inner and isinstance(below, dict) else item.get(name)


def _id(item: dict[str, Any], size: int, *names: str) -> str:
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and len(value) == size and _HEX.fullmatch(value) and value.strip("0"):
            return value.lower()
    return ""
