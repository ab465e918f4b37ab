"""Cuts what is longer than its column: texts with a visible mark, JSON values by reading only their beginning."""

from __future__ import annotations

import msgspec

from collector.sanitise.sanitise import written


def cut(text: str, limit: int, whole: int = 0) -> str:
    """The text, or its beginning with a mark and the original length: `whole` if it had been cut before."""
    return text if len(text) <= limit and not whole else f"{text[:limit]}… [cut, {whole or len(text)} characters]"


def beginning(value: object, size: int) -> object:
    """About the first `size` characters of a value; texts are never cut."""
    left = size

    def taken(part: object) -> object:
        nonlocal left
        if isinstance(part, dict):
            kept: dict[object, object] = {}
            for key, item in part.items():
                if left <= 0:
                    break
                left -= len(str(key)) + 4
                kept[key] = taken(item)
            return kept
        if isinstance(part, list):
            items: list[object] = []
            for item in part:
                if left <= 0:
                    break
                items.append(taken(item))
            return items
        left -= len(part) if isinstance(part, str) else 8
        return part

    try:
        return taken(value)
    except RecursionError:  # the sanitiser handles it
        return value


def json_text(value: object, limit: int, whole: int) -> str:
    """JSON text of at most about `limit` bytes; a longer one becomes a JSON string with the mark of `cut`."""
    [document] = written([value])
    if document is None:
        document = msgspec.json.encode(repr(value).encode("utf-8", "replace").decode())
    return bounded(document.decode(), limit, whole)


def bounded(text: str, limit: int, whole: int = 0) -> str:
    """The JSON text, or a JSON string of its beginning with the mark of `cut`."""
    return text if len(text) <= limit and not whole else msgspec.json.encode(cut(text, limit, whole)).decode()
