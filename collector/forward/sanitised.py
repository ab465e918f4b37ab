"""An OTLP request without secrets, in the encoding in which it came, for backends that must not see what agents saw.

Attribute values are sanitised together with their keys, as in the pipeline; all other texts on their own. Anything that
cannot be read raises: no copy may go out unsanitised because it was not understood.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor

from collector.decode import otlp_json
from collector.decode.mending import readable
from collector.decode.otlp import PROTOBUF
from collector.decode.otlp_protobuf import parse, value_of
from collector.errors import Rejected
from collector.sanitise.bounds import beginning
from collector.sanitise.sanitise import FAILED, LIMIT, SEARCH_S, Sanitiser, written

ID_BYTES = {"traceId": 16, "spanId": 8, "parentSpanId": 8}  # not searched; anything of another length is removed

Pairs = list[tuple[str, Any]]

MOST_BYTES = 1 << 20  # of the attributes of one record: searching many small texts takes 2 µs per byte
PAIR_BYTES = 16
_HEX = re.compile(r"[0-9a-fA-F]+")
OVERSIZE = "[redacted:oversize:%d]"  # as the sanitiser's


def sanitised(body: bytes, media_type: str, signal: str, sanitiser: Sanitiser) -> bytes:
    """The request without secrets and personal data. Raises Rejected if it cannot be read."""
    try:
        with sanitiser.at_most(SEARCH_S):
            return _protobuf(body, signal, sanitiser) if media_type == PROTOBUF else _json(body, sanitiser)
    except Exception as error:  # whatever it is, the request must not be forwarded unsanitised
        raise Rejected(f"cannot be sanitised: {type(error).__name__}") from None


def _clean_pairs(pairs: Pairs, sanitiser: Sanitiser) -> Pairs | None:
    """The pairs without secrets; None if there is nothing to change."""
    bounded = _bounded(pairs)
    whole = dict(bounded)
    if len(whole) == len(bounded):
        clean, cut = sanitiser.scrub_value(whole)
        return _items(clean) if cut or bounded is not pairs else None
    pairs = bounded
    found = [sanitiser.scrub_value({key: value}) for key, value in pairs]
    return [item for clean, _ in found for item in _items(clean)] if any(cut for _, cut in found) else None


def _bounded(pairs: Pairs) -> Pairs:
    """The pairs cut to MOST_BYTES in total and to LIMIT for each list and map; the same object if nothing was cut.

    A mark with the original size takes the place of what was cut.
    """
    sizes = [_size(value) for _, value in pairs]
    if sum(sizes) <= LIMIT:  # mostly
        return pairs
    left, taken = MOST_BYTES, Pairs()
    for (key, value), size in zip(pairs, sizes, strict=True):
        left -= len(key) + min(size, LIMIT) + PAIR_BYTES
        if left < 0:
            return [*taken, (OVERSIZE % sum(sizes), "")]
        taken.append((key, _shortened(value, size)))
    return taken if any(mine is not theirs for (_, mine), (_, theirs) in zip(taken, pairs, strict=True)) else pairs


def _shortened(value: Any, size: int) -> Any:
    if size <= LIMIT or not isinstance(value, list | dict):
        return value  # a text is shortened by the sanitiser
    shorter = beginning(value, LIMIT // 2)  # by characters, and without what JSON puts around them
    mark = OVERSIZE % size
    return [*shorter, mark] if isinstance(shorter, list) else {**shorter, mark: ""}  # type: ignore[dict-item]


def _size(value: Any) -> int:
    """Bytes of a value as JSON, about."""
    if isinstance(value, list | dict):
        return len(written([value])[0] or repr(value))
    return len(value) if isinstance(value, str | bytes) else 8


def _items(clean: object) -> Pairs:
    return list(clean.items()) if isinstance(clean, dict) else [("", clean)]  # if sanitising failed, `clean` is a mark


def _protobuf(body: bytes, signal: str, sanitiser: Sanitiser) -> bytes:
    message, _ = parse(body, signal)
    message.DiscardUnknownFields()  # they cannot be sanitised
    _message(message, sanitiser)
    return bytes(message.SerializeToString())


def _message(message: Any, sanitiser: Sanitiser) -> None:
    for field, value in message.ListFields():
        items = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING:
            _texts(message, field, items, sanitiser)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            if field.is_repeated or len(value) != ID_BYTES.get(field.json_name):
                message.ClearField(field.name)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            _messages(field, value, items, sanitiser)


def _messages(field: Any, value: Any, items: Iterable[Any], sanitiser: Sanitiser) -> None:
    """The messages in a field: pairs as a map, values as JSON-like values, others field by field."""
    if field.message_type.name == "KeyValue" and field.is_repeated:
        _pairs(value, sanitiser)
        return
    clean = _any if field.message_type.name == "AnyValue" else _message
    for item in items:
        clean(item, sanitiser)


def _pairs(pairs: Any, sanitiser: Sanitiser) -> None:
    clean = _clean_pairs([(pair.key, value_of(pair.value)) for pair in pairs], sanitiser)
    if clean is not None:
        del pairs[:]
        for key, value in clean:
            _fill(pairs.add(key=key).value, value)


def _texts(message: Any, field: Any, items: Iterable[str], sanitiser: Sanitiser) -> None:
    clean = [sanitiser.scrub(item)[0] for item in items]
    if field.is_repeated:
        getattr(message, field.name)[:] = clean
    else:
        setattr(message, field.name, clean[0])


def _any(value: Any, sanitiser: Sanitiser) -> None:
    plain = value_of(value)
    shorter = _shortened(plain, _size(plain))
    clean, cut = sanitiser.scrub_value(shorter)
    if cut or shorter is not plain:
        value.Clear()
        _fill(value, clean)


def _fill(value: Any, plain: Any) -> None:
    if isinstance(plain, bool):
        value.bool_value = plain
    elif isinstance(plain, int):
        value.int_value = plain
    elif isinstance(plain, float):
        value.double_value = plain
    elif isinstance(plain, str):
        value.string_value = plain
    elif isinstance(plain, bytes):
        value.bytes_value = plain
    elif isinstance(plain, list):
        value.array_value.SetInParent()
        for item in plain:
            _fill(value.array_value.values.add(), item)
    elif isinstance(plain, dict):
        value.kvlist_value.SetInParent()
        for key, item in plain.items():
            _fill(value.kvlist_value.values.add(key=key).value, item)


def _json(body: bytes, sanitiser: Sanitiser) -> bytes:
    if not body.strip():
        return body
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # mended as at the door
        tree = json.loads(readable(body))
    return msgspec.json.encode(_node(tree, sanitiser))


def _node(node: Any, sanitiser: Sanitiser) -> Any:
    if isinstance(node, list):
        if any(isinstance(item, dict) and "key" in item for item in node):
            return _json_pairs(node, sanitiser)
        return [_node(item, sanitiser) for item in node]
    if isinstance(node, str):
        return sanitiser.scrub(node)[0]
    if not isinstance(node, dict):
        return node
    told = {key: item for key, item in node.items() if isinstance(item, str) and key not in ID_BYTES}
    texts: Any = sanitiser.scrub_value(told)[0]
    if not isinstance(texts, dict):
        texts = dict.fromkeys(told, FAILED)
    elif texts.keys() != told.keys():
        raise ValueError("a name of a field is a secret")
    return {key: _field(key, texts.get(key, item), sanitiser) for key, item in node.items()}


def _field(key: str, item: Any, sanitiser: Sanitiser) -> Any:
    if key in ID_BYTES and isinstance(item, str):
        return item if len(item) == 2 * ID_BYTES[key] and _HEX.fullmatch(item) else ""
    if key == "body" and isinstance(item, dict):
        plain = _json_plain(item)
        return _json_any(sanitiser.scrub_value(_shortened(plain, _size(plain)))[0])
    return item if isinstance(item, str) else _node(item, sanitiser)


def _json_pairs(pairs: list[Any], sanitiser: Sanitiser) -> list[dict[str, Any]]:
    # An empty key may be omitted.
    plain = [(str(pair.get("key", "")), _json_plain(pair.get("value"))) for pair in pairs if isinstance(pair, dict)]
    # Written anew in any case: fields that no value should have were not searched.
    return [{"key": key, "value": _json_any(value)} for key, value in _clean_pairs(plain, sanitiser) or plain]


_KINDS = ("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue")


def _json_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    kind = next((kind for kind in _KINDS if kind in value), "")
    item = value.get(kind)
    if kind == "arrayValue":
        return [_json_plain(each) for each in _values(item)]
    if kind == "kvlistValue":
        return {str(pair.get("key", "")): _json_plain(pair.get("value")) for pair in _values(item)}
    return otlp_json.value_of({kind: item})


def _values(item: Any) -> list[Any]:
    return item.get("values") or [] if isinstance(item, dict) else []


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _json_any(plain: Any) -> dict[str, Any]:
    if isinstance(plain, bool):
        return {"boolValue": plain}
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    if isinstance(plain, float):
        return {"doubleValue": plain if math.isfinite(plain) else _NOT_FINITE[str(plain)]}
    if isinstance(plain, str):
        return {"stringValue": plain}
    if isinstance(plain, bytes):
        return {"bytesValue": base64.b64encode(plain).decode()}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [_json_any(item) for item in plain]}}
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": _json_any(item)} for key, item in plain.items()]}}
    return {}
