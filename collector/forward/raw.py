"""Leaves raw bodies of model requests out of a copy: whole conversations go on only if a person says so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from collector.decode.mending import readable
from collector.decode.otlp import PROTOBUF
from collector.decode.otlp_protobuf import parse, value_of
from collector.errors import Rejected
from collector.switches import agents

NAMES = frozenset(
    name for agent in agents().values() for each in agent.untold for switch in each.switches for name in switch.raw
)
MARKS = tuple(name.encode() for name in NAMES)


def without_raw(body: bytes, media_type: str, signal: str) -> bytes:
    """The request without log records of such a name; the same bytes if it has none. Raises Rejected if unreadable."""
    if signal != "logs" or not (any(mark in body for mark in MARKS) or b"\\u" in body):
        return body
    try:
        return _protobuf(body) if media_type == PROTOBUF else _json(body)
    except Exception as error:  # whatever it is, what was not understood must not go on
        raise Rejected(f"cannot be searched for raw bodies: {type(error).__name__}") from None


def _raw(names: Iterable[Any]) -> bool:
    return any(isinstance(name, str) and name.rpartition(".")[2].strip() in NAMES for name in names)


def _protobuf(body: bytes) -> bytes:
    message, _ = parse(body, "logs")
    left_out = 0
    for resource in message.resource_logs:
        for scope in resource.scope_logs:
            kept = [one for one in scope.log_records if not _raw(_names(one))]
            if len(kept) < len(scope.log_records):
                del scope.log_records[:]
                scope.log_records.extend(kept)
                left_out += 1
    return bytes(message.SerializeToString()) if left_out else body


def _names(record: Any) -> list[Any]:
    told = [value_of(pair.value) for pair in record.attributes if pair.key == "event.name"]
    return [*told, record.event_name, record.body.string_value]


def _json(body: bytes) -> bytes:
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # mended as at the door
        tree = json.loads(readable(body))
    left_out = 0
    for resource in tree.get("resourceLogs") or ():
        for scope in resource.get("scopeLogs") or ():
            records = scope.get("logRecords") or []
            scope["logRecords"] = [one for one in records if not _raw(_names_in_json(one))]
            left_out += len(records) - len(scope["logRecords"])
    return msgspec.json.encode(tree) if left_out else body


def _names_in_json(record: dict[str, Any]) -> list[Any]:
    pairs = [pair for pair in record.get("attributes") or () if pair.get("key") == "event.name"]
    told = [(pair.get("value") or {}).get("stringValue") for pair in pairs]
    return [*told, record.get("eventName"), (record.get("body") or {}).get("stringValue")]
