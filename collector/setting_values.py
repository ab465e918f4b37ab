"""Reads the text of one setting's value. Every function raises ValueError with what to write instead."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from collector.times import SECOND, length_ns
from collector.trace_links import NAMED, PLACES

_BYTES = {
    "": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
PERSONAL_KINDS = ("home", "email", "account-id")
MOST_DIMENSIONS = 8
CLUSTER_PORTS = {"false": 8123, "true": 8443}
CLUSTER_SCHEMES = {"false": "http", "true": "https"}


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port to listen on; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL for a browser or an agent on this machine."""
        return f"http://{Address({'0.0.0.0': '127.0.0.1', '::': '::1'}.get(self.host, self.host), self.port)}"


def address(text: str) -> Address:
    """`host:port`, `[::1]:port` or `:port` (all interfaces)."""
    host, colon, port = text.rpartition(":")
    if not colon or "/" in host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError("write host:port, such as 127.0.0.1:4318")
    return Address(host.strip("[]").lower() or "0.0.0.0", int(port))


def duration(text: str) -> float:
    """Seconds of `30d`, `1h30m`, `500ms`."""
    try:
        return length_ns("".join(text.split())) / SECOND
    except ValueError:
        raise ValueError("write a duration such as 30d or 1h30m") from None


def size(text: str) -> int:
    """Bytes of `64MiB`, `512KiB`, `20GB`, `1048576`."""
    found = re.fullmatch(r"(\d+)\s*(\w*)", text.strip())
    if not found or found[2] not in _BYTES:
        raise ValueError("write a number and B, KiB, MiB, GiB or TiB (or KB, MB, GB, TB), such as 64MiB")
    return int(found[1]) * _BYTES[found[2]]


def positive_size(text: str) -> int:
    """Bytes, more than 0."""
    if not (given := size(text)):
        raise ValueError("write more than 0, such as 64MiB")
    return given


def memory(text: str) -> int:
    """Bytes for DuckDB, 100 MB or more."""
    if (given := size(text)) < 100_000_000:
        raise ValueError("write 100MB or more, such as 200MB")
    return given


def boolean(text: str) -> bool:
    """`true`, `yes`, `on` or `1`; `false`, `no`, `off` or `0`."""
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("write true or false")


def personal_kinds(text: str) -> tuple[str, ...]:
    """The kinds of personal data to mask: `mask` means all, `keep` none, otherwise comma-separated names."""
    kinds = {"mask": PERSONAL_KINDS, "keep": ()}.get(text, tuple(map(str.strip, text.split(","))))
    if not set(kinds) <= set(PERSONAL_KINDS):
        raise ValueError(f"write mask, keep, or some of {', '.join(PERSONAL_KINDS)} with commas between")
    return kinds


def personal(text: str) -> str:
    """Kinds of personal data to mask, as `personal_kinds` reads them."""
    personal_kinds(text)
    return text


def words(text: str) -> tuple[str, ...]:
    """Comma-separated words."""
    return tuple(word for part in text.split(",") if (word := part.strip()))


def hosts(text: str) -> tuple[str, ...]:
    """Comma-separated names of hosts."""
    names = words(text)
    if any("/" in name or re.search(r"(^[^:]*|\]):\w*$", name) for name in names):
        raise ValueError("write names alone, without http:// and port, such as collector.internal")
    return tuple(name.strip("[]") for name in names)


def token(text: str) -> str:
    """A token as it goes into a header: printable ASCII, without the line end that a file may add."""
    if not (given := text.strip()).isascii() or not given.isprintable():
        raise ValueError("write printable ASCII characters only")
    return given


def tokens(text: str) -> tuple[str, ...]:
    """Comma-separated tokens."""
    return tuple(map(token, words(text)))


def endpoint(text: str) -> str:
    """An http:// or https:// address."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if text and not usable:
        raise ValueError("write an address such as https://otlp.example.com:4318")
    return text


def copies_to(text: str) -> str:
    """An http:// or https:// address to which /v1/logs and the like can be added."""
    if "?" in endpoint(text) or "#" in text:
        raise ValueError("write it without ? and #: paths are added to it; MISSTEP_FORWARD_HEADERS can carry a key")
    return text


def trace_link(text: str) -> str:
    """An http:// or https:// address with `{trace_id}`, `{span_id}` or `{session}` in it, and no other such place."""
    if not endpoint(text):
        return text
    named = NAMED.findall(text)
    if unknown := [name for name in named if name not in PLACES]:
        raise ValueError(f"{{{unknown[0]}}} is no place; places are {', '.join(f'{{{name}}}' for name in PLACES)}")
    if not named:
        raise ValueError("write an address such as https://traces.example.com/trace/{trace_id}?span={span_id}")
    return text


def path(text: str) -> Path:
    """A path; `~` is the user's home."""
    return Path(os.path.expanduser(text))


def folder(text: str) -> Path:
    """An existing folder."""
    there = path(text)
    if not there.is_dir():
        raise ValueError("there is no such folder")
    return there


def new_folder(text: str) -> Path:
    """A folder that is there or can be made."""
    there = path(text)
    if there.exists() and not there.is_dir():
        raise ValueError("this is no folder")
    return there


def dimensions(text: str) -> tuple[str, ...]:
    """Attribute names that become columns: at most eight. `load` refuses those that the API uses."""
    names = words(text)
    if len(names) > MOST_DIMENSIONS:
        raise ValueError(f"write at most {MOST_DIMENSIONS} names")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("a name is there twice")
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", name):
            raise ValueError(f"{name[:70]!r} is no attribute name of letters, digits, _, . and -")
    return names


def one_of(*allowed: str) -> Callable[[str], str]:
    """One of the `allowed` words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"write one of {', '.join(allowed)}")
        return text

    return parse


def count(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isdecimal():
        raise ValueError("write a number, 0 or more")
    return int(text)


class Place(NamedTuple):
    """Where a cluster is, from `clickhouse://user:password@host:8123/database[?secure=true]`."""

    address: str
    user: str
    password: str
    database: str


def place_of(url: str) -> Place:
    """The parts of a cluster's URL. Raises ValueError, without the password, saying what to write."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    options = parse_qs(parts.query, keep_blank_values=True)
    secure = options.pop("secure", ["false"])[-1]
    database = parts.path.strip("/")
    well = parts.scheme == "clickhouse" and parts.hostname and re.fullmatch(r"\w+", database) and not options
    if not well or secure not in CLUSTER_PORTS:
        raise ValueError("write clickhouse://user:password@host:8123/database, with ?secure=true for TLS")
    scheme, host = (CLUSTER_SCHEMES[secure]), parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    address = f"{scheme}://{shown}:{port or CLUSTER_PORTS[secure]}"
    return Place(address, unquote(parts.username or "default"), unquote(parts.password or ""), database)


def cluster(text: str) -> str:
    """A cluster's URL, as it is."""
    place_of(text)
    return text
