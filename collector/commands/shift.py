"""Shifts all times in a recorded body, so that old recordings can be viewed as if they had just happened.

These are OTLP's own fields (`…UnixNano`), attributes in which agents keep times, and the time keys of plain entries.
Text is not searched: a date in a message stays unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from collector.commands.recordings import Recording
from collector.decode.otlp import PROTOBUF
from collector.decode.otlp_protobuf import MESSAGES
from collector.decode.plain import TIMES

Move = Callable[[int], int]  # nanoseconds since 1970 to nanoseconds since 1970

ATTRIBUTES = frozenset((*TIMES, "start_time", "end_time", "ai.response.timestamp"))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Smallest number that is a time after 2001 in a unit → nanoseconds in that unit; smaller numbers are not times.
_UNITS = ((10**18, 1), (10**15, 10**3), (10**12, 10**6), (10**9, 10**9))


def moved(recording: Recording, move: Move) -> Recording:
    """The recording with every time replaced by `move(time)`; a body or line that cannot be read stays as it is."""
    if recording.media_type != PROTOBUF:
        return replace(recording, body=b"\n".join(_move_json_text(text, move) for text in _texts(recording)))
    try:
        message = MESSAGES[recording.signal].FromString(recording.body)
        _move_message(message, move)
        return replace(recording, body=message.SerializeToString())
    except (DecodeError, ValueError, RecursionError):
        return recording


def newest_ns(recording: Recording) -> int:
    """The latest time in the recording; 0 if it has none."""
    newest = 0

    def note(time_ns: int) -> int:
        nonlocal newest
        newest = max(newest, time_ns)
        return time_ns

    moved(recording, note)
    return newest


def _texts(recording: Recording) -> list[bytes]:
    """The JSON texts in a body: plain entries may have one a line."""
    if recording.signal == "events":
        try:
            json.loads(recording.body)
        except (ValueError, RecursionError):
            return recording.body.splitlines()
    return [recording.body]


def _move_json_text(text: bytes, move: Move) -> bytes:
    try:
        value = json.loads(text)
        _move_json(value, move)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, separators=(",", ":")).encode()


def _move_json(value: Any, move: Move) -> None:
    if isinstance(value, list):
        for item in value:
            _move_json(item, move)
    elif isinstance(value, dict):
        if value.get("key") in ATTRIBUTES and isinstance(value.get("value"), dict):
            value["value"] = {kind: _time(text, move) for kind, text in value["value"].items()}
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                _move_json(item, move)
            elif key.endswith("UnixNano") or key in ATTRIBUTES:
                value[key] = _time(item, move)


def _move_message(message: Message, move: Move) -> None:
    if isinstance(message, KeyValue) and message.key in ATTRIBUTES:
        kind = message.value.WhichOneof("value")
        if kind in ("string_value", "int_value", "double_value"):
            setattr(message.value, kind, _time(getattr(message.value, kind), move))
        return
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                _move_message(each, move)
        elif field.name.endswith("_unix_nano"):
            setattr(message, field.name, _time(value, move))


def _time(value: Any, move: Move) -> Any:
    """A time in any format, moved, in the same format; anything else unchanged."""
    if isinstance(value, str):
        return str(_time(int(value), move)) if value.isdigit() else _iso_time(value, move)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    unit = next((unit for smallest, unit in _UNITS if smallest <= value < 10 * smallest), 0)
    if not unit:
        return value
    if isinstance(value, int):
        return move(value * unit) // unit
    return move(int(value * unit)) / unit


def _iso_time(text: str, move: Move) -> str:
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return text
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    time_ns = (aware - _EPOCH) // timedelta(microseconds=1) * 1000
    if not _UNITS[0][0] <= time_ns < 10 * _UNITS[0][0]:  # as for numbers: "0001-01-01T00:00:00Z" stands for no time
        return text
    now = _EPOCH + timedelta(microseconds=move(time_ns) // 1000)
    written = now.astimezone(aware.tzinfo).replace(tzinfo=then.tzinfo).isoformat()
    return written.replace("+00:00", "Z") if text.endswith("Z") else written
