"""The slow pass over a request that could not be read: finds the records that are to blame and leaves only them out.

It asks the ordinary reading again and again, with half of the records each time, so that it needs to know nothing of
what can be wrong with one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import msgspec
import structlog
from google.protobuf.message import DecodeError

from collector.decode.otlp import JSON
from collector.decode.otlp_protobuf import MESSAGES
from collector.decode.shallow import shallow
from collector.errors import Rejected, where
from collector.store.changes import Batch

MOST = 1_000  # bad records that are searched for; with more of them the sender is broken, not a record

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
    """What `read` makes of the request without the records that it cannot read; they are counted as rejected.

    `error` is what it said of the whole, and is raised where nothing can be saved.
    """
    error = _light(error)
    try:
        parts = _parts(body, media_type, signal)
    except (DecodeError, RecursionError, ValueError, AttributeError, TypeError, KeyError):
        raise error from None
    if parts is None or parts.count < 2:
        raise error from None
    bad: dict[int, Exception] = {}

    def fails(records: Sequence[int]) -> Exception | None:
        try:
            read(parts.only(frozenset(records)))
        except MemoryError:
            raise
        except Exception as reason:
            return _light(reason)
        return None

    _search(range(parts.count), fails, bad, error)
    if len(bad) == parts.count or len(bad) > MOST:
        raise error from None
    batch = read(parts.only(frozenset(range(parts.count)).difference(bad)))
    batch.failed = _blame_us(bad.values())
    batch.records += len(bad)
    batch.rejected = len(bad)
    batch.dropped["malformed"] += len(bad)
    batch.warning = f"{_said(bad, parts.count)}; {batch.warning}" if batch.warning else _said(bad, parts.count)
    return batch


def _light(error: Exception) -> Exception:
    """The error, without all that was being read where it holds nothing but that: it would stay in memory."""
    return error.with_traceback(None) if isinstance(error, Rejected) else error


def _search(
    records: Sequence[int],
    fails: Callable[[Sequence[int]], Exception | None],
    bad: dict[int, Exception],
    error: Exception,
) -> None:
    """Fills `bad` with those of these records, of which at least one is, and what is said of each."""
    if len(records) == 1:
        bad[records[0]] = error
        return
    for half in (records[: len(records) // 2], records[len(records) // 2 :]):
        if len(bad) > MOST:
            return
        if reason := fails(half):
            _search(half, fails, bad, reason)


def _blame_us(reasons: Iterable[Exception]) -> int:
    """Says where the code failed on records that are not the sender's fault, and returns how many these are."""
    places = Counter((type(each).__name__, where(each)) for each in reasons if not isinstance(each, Rejected))
    for (kind, place), records in places.items():
        log.error("records could not be read", kind=kind, where=place, records=records)
    return places.total()


def _said(bad: dict[int, Exception], count: int) -> str:
    first = min(bad)
    why = str(bad[first]) if isinstance(bad[first], Rejected) else "the collector failed on it, its log says where"
    return f"{len(bad)} of {count} records were not taken; the first, number {first + 1}: {why}"


class _JsonParts:
    def __init__(self, body: bytes, levels: tuple[str, str, str]) -> None:
        self._levels = levels
        try:
            self._tree = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._tree = json.loads(shallow(body).decode("utf-8-sig", "replace"))
        self.count = self._filtered(frozenset())[1]

    def only(self, wanted: Container[int]) -> bytes:
        return json.dumps(self._filtered(wanted)[0]).encode()

    def _filtered(self, wanted: Container[int]) -> tuple[dict[str, Any], int]:
        resources, scopes, records = self._levels
        number = 0
        groups = []
        for group in self._tree[resources]:
            parts = []
            for part in group.get(scopes) or ():
                given = part.get(records) or ()
                kept = [record for place, record in enumerate(given, number) if place in wanted]
                number += len(given)
                if kept:
                    parts.append({**part, records: kept})
            if parts:
                groups.append({**group, scopes: parts})
        return {resources: groups}, number


class _ProtobufParts:
    def __init__(self, body: bytes, signal: str) -> None:
        self._kind: Any = MESSAGES[signal]
        self._fields = FIELDS[signal]
        self._message: Any = self._kind()
        self._message.ParseFromString(body)
        resources, scopes, records = self._fields
        parts = [part for group in getattr(self._message, resources) for part in getattr(group, scopes)]
        self.count = sum(len(getattr(part, records)) for part in parts)

    def only(self, wanted: Container[int]) -> bytes:
        resources, scopes, records = self._fields
        message: Any = self._kind()
        number = 0
        for group in getattr(self._message, resources):
            copy = getattr(message, resources).add(resource=group.resource, schema_url=group.schema_url)
            for part in getattr(group, scopes):
                given = getattr(part, records)
                kept = [record for place, record in enumerate(given, number) if place in wanted]
                number += len(given)
                if kept:
                    into = getattr(copy, scopes).add(scope=part.scope, schema_url=part.schema_url)
                    getattr(into, records).extend(kept)
        return bytes(message.SerializeToString())


def _parts(body: bytes, media_type: str, signal: str) -> _JsonParts | _ProtobufParts | None:
    if signal not in LEVELS:  # data points are only counted
        return None
    return _JsonParts(body, LEVELS[signal]) if media_type == JSON else _ProtobufParts(body, signal)
