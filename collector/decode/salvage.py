"""Salvages a request that could not be decoded: finds the bad records and leaves only those out.

It decodes a few records at a time with the ordinary decoder, so that it need not know what can be wrong with one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import structlog
from google.protobuf.message import DecodeError

from collector.batch import Batch
from collector.decode.mending import shallow
from collector.decode.otlp import JSON
from collector.decode.otlp_protobuf import MESSAGES
from collector.decode.record import joined
from collector.errors import Rejected, where
from collector.plural import plural

MOST = 1_000  # bad records to find; with more of them the sender is broken
TOGETHER = 16  # records decoded at a time; one by one if that fails

log = structlog.get_logger()

LEVELS = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}
FIELDS = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
}


def salvage(body: bytes, media_type: str, signal: str, read: Callable[[bytes], Batch], error: Exception) -> Batch:
    """The result of `read` for the request without its bad records, which are counted as rejected.

    `error` is what it raised for the whole, and is raised if nothing can be saved.
    """
    error = _light(error)
    try:
        parts = _parts(body, media_type, signal)
    except (DecodeError, RecursionError, ValueError, AttributeError, TypeError, KeyError):
        raise error from None
    if parts is None or parts.count < 2:
        raise error from None

    def fails(records: Sequence[int]) -> Exception | None:
        try:
            read(parts.only(records))
        except MemoryError:
            raise
        except Exception as reason:
            return _light(reason)
        return None

    bad = _search(parts.count, fails)
    if len(bad) == parts.count or len(bad) > MOST:
        raise error from None
    batch = read(parts.only([record for record in range(parts.count) if record not in bad]))
    if not bad:  # splitting the request has mended it
        return batch
    batch.failed = _blame_us(bad.values())
    batch.records += len(bad)
    batch.rejected = len(bad)
    batch.dropped["malformed"] += len(bad)
    batch.warning = joined(_said(bad, parts.count), batch.warning)
    return batch


def _light(error: Exception) -> Exception:
    """A Rejected loses its traceback, which would keep what was read in memory; other errors are logged with theirs."""
    return error.with_traceback(None) if isinstance(error, Rejected) else error


def _search(count: int, fails: Callable[[Sequence[int]], Exception | None]) -> dict[int, Exception]:
    """Which of `count` records fail, and how; stops after MOST."""
    bad: dict[int, Exception] = {}
    for start in range(0, count, TOGETHER):
        few = range(start, min(start + TOGETHER, count))
        if fails(few):
            bad |= {record: reason for record in few if (reason := fails([record]))}
        if len(bad) > MOST:
            break
    return bad


def _blame_us(reasons: Iterable[Exception]) -> int:
    """Logs where the code failed on records because of our defects, and returns their number."""
    places = Counter((type(each).__name__, where(each)) for each in reasons if not isinstance(each, Rejected))
    for (kind, place), records in places.items():
        log.error("records could not be read", kind=kind, where=place, records=records)
    return places.total()


def _said(bad: dict[int, Exception], count: int) -> str:
    first = min(bad)
    why = str(bad[first]) if isinstance(bad[first], Rejected) else "the collector failed on it, its log says where"
    return f"{len(bad)} of {plural(count, 'record')} not taken; the first, number {first + 1}: {why}"


class _JsonParts:
    def __init__(self, body: bytes, levels: tuple[str, str, str]) -> None:
        self._levels = levels
        try:
            tree = msgspec.json.decode(body)
            self._encode: Callable[[object], bytes] = msgspec.json.encode
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            tree = json.loads(shallow(body).decode("utf-8-sig", "replace"), parse_int=_integer)
            self._encode = _dumps  # what only this parser accepts must fail again, in its own record
        resources, scopes, records = levels
        self._records = [
            (group, part, record)
            for group in tree[resources]
            for part in group.get(scopes) or ()
            for record in part.get(records) or ()
        ]
        self.count = len(self._records)

    def only(self, wanted: Iterable[int]) -> bytes:
        resources, scopes, records = self._levels
        groups: list[dict[str, Any]] = []
        last_group = last_part = None
        for group, part, record in map(self._records.__getitem__, wanted):
            if group is not last_group:
                groups.append({**group, scopes: []})
            if part is not last_part:
                groups[-1][scopes].append({**part, records: []})
            groups[-1][scopes][-1][records].append(record)
            last_group, last_part = group, part
        return self._encode({resources: groups})


def _dumps(tree: object) -> bytes:
    return json.dumps(tree).encode()


def _integer(digits: str) -> int | str:
    """Longer numbers as the texts that 64-bit numbers may be in OTLP; Python refuses those of 4,300 digits."""
    return int(digits) if len(digits) <= 20 else digits


class _ProtobufParts:
    def __init__(self, body: bytes, signal: str) -> None:
        self._kind: Any = MESSAGES[signal]
        self._fields = FIELDS[signal]
        self._message: Any = self._kind()  # keeps its parts alive
        self._message.ParseFromString(body)
        resources, scopes, records = self._fields
        self._records = [
            (group, part, record)
            for group in getattr(self._message, resources)
            for part in getattr(group, scopes)
            for record in getattr(part, records)
        ]
        self.count = len(self._records)

    def only(self, wanted: Iterable[int]) -> bytes:
        resources, scopes, records = self._fields
        message: Any = self._kind()
        groups = getattr(message, resources)
        copy: Any = None
        into: Any = None
        last_group = last_part = None
        for group, part, record in map(self._records.__getitem__, wanted):
            if group is not last_group:
                copy = groups.add(resource=group.resource, schema_url=group.schema_url)
            if part is not last_part:
                into = getattr(getattr(copy, scopes).add(scope=part.scope, schema_url=part.schema_url), records)
            into.append(record)
            last_group, last_part = group, part
        return bytes(message.SerializeToString())


def _parts(body: bytes, media_type: str, signal: str) -> _JsonParts | _ProtobufParts | None:
    if signal not in LEVELS:  # metrics: data points are only counted
        return None
    return _JsonParts(body, LEVELS[signal]) if media_type == JSON else _ProtobufParts(body, signal)
