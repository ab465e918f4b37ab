"""Reads recorded requests from files: bodies as agents sent them, JSON lines, log entries."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.decode.otlp import JSON, PROTOBUF, TOP_KEYS

JSON_LINES = "application/x-ndjson"
ENTRIES_BYTES = 1 << 20  # of plain entries in one request

_BODY = re.compile(r"(?:\d+-)?(?P<signal>logs|traces|metrics|events)\.(?P<form>json|pb)(?:\.gz)?")
_LINES = re.compile(r".+\.(?:jsonl|ndjson)(?:\.gz)?")


@dataclass(frozen=True, slots=True)
class Recording:
    """One request: the file it is from, the last part of its path, and its decompressed body."""

    place: str
    signal: str
    media_type: str
    body: bytes


def find(paths: Sequence[Path]) -> list[Path]:
    """The files in `paths`; of a folder, those named like `012-traces.json` or `x.jsonl`, at any depth, sorted.

    Raises OSError for a path that does not exist.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file())
            found += [each for each in inside if _BODY.fullmatch(each.name) or _LINES.fullmatch(each.name)]
        elif path.exists():
            found.append(path)
        else:
            raise FileNotFoundError(f"{path}: no such file or folder")
    return found


def read(path: Path) -> Iterator[Recording]:
    """The requests that a file holds. Raises OSError, also for a damaged gzip file."""
    raw = path.read_bytes()
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (EOFError, zlib.error) as error:
        raise OSError(f"{path}: is a damaged gzip file: {error}") from None
    body = _BODY.fullmatch(path.name)
    if body:
        yield Recording(str(path), body["signal"], PROTOBUF if body["form"] == "pb" else JSON, raw)
    elif path.name.removesuffix(".gz").endswith(".pb"):
        raise OSError(f"{path}: protobuf does not say what it holds: name the file logs.pb, traces.pb or metrics.pb")
    else:
        yield from _json(path, raw)


def _json(path: Path, raw: bytes) -> Iterator[Recording]:
    """One request for each OTLP body, and one for consecutive plain entries."""
    entries: list[bytes] = []
    for line in _items(raw):
        signal = _signal(line)
        if entries and (signal != "events" or sum(map(len, entries)) > ENTRIES_BYTES):
            yield Recording(str(path), "events", JSON_LINES, b"\n".join(entries))
            entries = []
        if signal == "events":
            entries.append(line)
        else:
            yield Recording(str(path), signal, JSON, line)
    if entries:
        yield Recording(str(path), "events", JSON_LINES, b"\n".join(entries))


def _items(raw: bytes) -> list[bytes]:
    """One JSON value each: the items of an array, a single document, or lines, which need not be JSON."""
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError):
        return [line for line in raw.splitlines() if line.strip()]
    return [json.dumps(item).encode() for item in (whole if isinstance(whole, list) else [whole])]


def _signal(line: bytes) -> str:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return "events"
    keys = value if isinstance(value, dict) else ()
    return next((signal for key, signal in TOP_KEYS.items() if key in keys), "events")
