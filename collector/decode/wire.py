"""Mends bad UTF-8 and too deep nesting in protobuf bytes, field by field, following the message's descriptor.

protobuf refuses a whole message for one bad byte in a string field, or for one value nested beyond its limit of 100.
JavaScript and Rust agents cut previews in the middle of a character. Only the slow path after a refusal comes here.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

MAX_DEPTH = 90  # of messages in each other; protobuf itself refuses 100


def mended(body: bytes, descriptor: Any, depth: int = 0) -> bytes:
    """The same message with bad UTF-8 replaced by U+FFFD and messages below MAX_DEPTH emptied.

    Raises ValueError for bytes that are no protobuf message.
    """
    fields = {field.number: field for field in descriptor.fields}
    out = bytearray()
    at = 0
    while at < len(body):
        start = at
        tag, at = _varint(body, at)
        wire = tag & 7
        if wire == 2:
            size, at = _varint(body, at)
            chunk = body[at : at + size]
            if len(chunk) != size:
                raise ValueError("truncated")
            at += size
            chunk = _field(chunk, fields.get(tag >> 3), depth)
            out += _encode(tag) + _encode(len(chunk)) + chunk
            continue
        at = _skip(body, at, wire)
        out += body[start:at]
    return bytes(out)


def _field(chunk: bytes, field: Any, depth: int) -> bytes:
    if field is None:
        return chunk
    if field.type == FieldDescriptor.TYPE_STRING:
        return chunk.decode("utf-8", "replace").encode()
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return mended(chunk, field.message_type, depth + 1) if depth < MAX_DEPTH else b""
    return chunk


def _skip(body: bytes, at: int, wire: int) -> int:
    if wire == 0:
        return _varint(body, at)[1]
    size = {1: 8, 5: 4}.get(wire)
    if size is None or at + size > len(body):
        raise ValueError("not a protobuf message")
    return at + size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise ValueError("truncated")
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
