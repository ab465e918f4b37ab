"""Settings: flags override `MISSTEP_*` variables, which override `misstep.toml`, which overrides the defaults.

All wrong values are reported together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from collector.tables import TableError, load_toml
from collector.times import SECOND, length_ns

_BYTES = {
    "": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
COMMAND_LINE = "command line"
PERSONAL_KINDS = ("home", "email", "account-id")
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


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
    """An http:// or https:// address with `{trace_id}` in it."""
    if endpoint(text) and "{trace_id}" not in text:
        raise ValueError("write an address such as https://traces.example.com/trace/{trace_id}")
    return text


def place(text: str) -> Path:
    """A path; `~` is the user's home."""
    return Path(os.path.expanduser(text))


def folder(text: str) -> Path:
    """An existing folder."""
    path = place(text)
    if not path.is_dir():
        raise ValueError("there is no such folder")
    return path


def new_folder(text: str) -> Path:
    """A folder that is there or can be made."""
    path = place(text)
    if path.exists() and not path.is_dir():
        raise ValueError("this is no folder")
    return path


MOST_DIMENSIONS = 8


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


def _setting(default: Any, parse: Callable[[str], Any], about: str) -> Any:
    return field(default=default, metadata={"parse": parse, "about": about})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The variable of a setting is `MISSTEP_` and its name in capitals."""

    store: str = _setting("duckdb:///data/misstep.duckdb", str, "where events are stored")
    http: Address = _setting(Address("127.0.0.1", 4318), address, "address of OTLP/HTTP, plain JSON and the query API")
    grpc: Address = _setting(Address("127.0.0.1", 4317), address, "address of OTLP/gRPC")
    rules: Path = _setting(Path("alerts.yaml"), place, "file of alert rules; without it, the default rules")
    tables: Path | None = _setting(None, folder, "folder with a taxonomy.toml, redactions.toml or sources/ of your own")
    memory: int = _setting(200_000_000, memory, "most memory for DuckDB, beside the collector's own")
    retention: float = _setting(30 * 86_400.0, duration, "how long events are kept")
    retention_size: int = _setting(0, size, "largest size of the store; 0: no limit")
    retention_export: Path | None = _setting(
        None, new_folder, "folder for days, as Parquet files, before they are removed"
    )
    dimensions: tuple[str, ...] = _setting(
        (), dimensions, "up to eight attributes of your own to filter and break down by"
    )
    ingest_tokens: tuple[str, ...] = _setting((), tokens, "tokens that allow sending; none: no token is required")
    query_tokens: tuple[str, ...] = _setting((), tokens, "tokens that allow queries; none: no token is required")
    open: bool = _setting(False, boolean, "allow listening beyond loopback without tokens or sign-in")
    allowed_hosts: tuple[str, ...] = _setting(
        (), hosts, "further names allowed in the Host header without a token or sign-in"
    )
    hash_key: str = _setting(
        "", str, "key of params_hash and of secret fingerprints; by default a random one beside the store"
    )
    personal: str = _setting("mask", personal, "personal data: mask, keep, or the kinds to mask")
    fingerprint_secrets: bool = _setting(False, boolean, "a short keyed hash in each redaction mark")
    max_body: int = _setting(64 << 20, positive_size, "largest request body, before and after decompression")
    queue: int = _setting(
        128 << 20, positive_size, "bytes received but not yet answered; beyond this, senders are told to wait"
    )
    workers: int | None = _setting(
        None, count, "processes that parse requests; by default one fewer than cores, at most 4"
    )
    forward: str = _setting("", copies_to, "OTLP endpoint that gets a copy of every accepted request")
    forward_headers: tuple[str, ...] = _setting((), words, "headers sent with the copies, name=value")
    forward_content: str = _setting(
        "as-received",
        one_of("as-received", "sanitised"),
        "whether secrets and personal data are removed from the copies",
    )
    forward_raw: bool = _setting(False, boolean, "whether raw bodies of model requests are in the copies")
    forward_queue: int = _setting(
        64 << 20, positive_size, "bytes of copies that may wait; beyond this, copies are dropped"
    )
    dashboard: Address = _setting(Address("127.0.0.1", 8501), address, "address of the dashboard")
    collector_url: str = _setting(
        "http://127.0.0.1:4318", endpoint, "the collector that the dashboard and the commands use"
    )
    query_token: str = _setting("", token, "the token that the dashboard and the commands send with queries")
    dashboard_url: str = _setting("", endpoint, "the dashboard's address, for links in notifications")
    otlp_url: str = _setting(
        "", endpoint, "the collector's address as agents reach it, shown to people; else collector_url"
    )
    trace_url: str = _setting("", trace_link, "link to a trace in a tracing system, with {trace_id}")
    log: str = _setting("auto", one_of("auto", "json", "text"), "format of log lines")

    @property
    def dashboard_hosts(self) -> tuple[str, ...]:
        """Names besides those of this machine by which people open the dashboard."""
        told = urlsplit(self.dashboard_url).hostname
        return (*self.allowed_hosts, *([told] if told else ()))

    def own(self, name: str) -> list[Path]:
        """The user's table of this name, if there is one; its rows are added to ours."""
        path = self.tables / name if self.tables else None
        return [path] if path and path.exists() else []


def is_secret(name: str) -> bool:
    """Whether the value of this setting must not be shown; the address in `forward` may contain a password."""
    return name == "forward" or any(word in name for word in ("token", "key", "headers"))


def without_user(text: str) -> str:
    """A URL without the name and password that it may have before its host; other text as it is."""
    return re.sub(r"(?<=://)[^/?#]*@", "", text)


def without_proxy(environ: MutableMapping[str, str]) -> None:
    """Has this process and those that it starts reach loopback addresses directly, whatever proxy is set."""
    given = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    if given.strip() != "*":  # for urllib, only alone
        kept = [name for each in words(given) if (name := each.strip("[]")).count(":") < 2 or _is_ip(name)]
        environ["no_proxy"] = environ["NO_PROXY"] = ",".join((*kept, *sorted(LOOPBACK)))


def _is_ip(text: str) -> bool:
    """Whether it is an IP address. httpx fails at other entries of `NO_PROXY` that have colons, such as IPv6 ranges."""
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


class SettingsError(ValueError):
    """One or more settings are wrong; the message says which, where each was set, and how to correct it."""


def load(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Path = Path("misstep.toml"),
    reserved: Callable[[], Container[str]] = frozenset,
) -> Settings:
    """The settings in force. Raises SettingsError with all wrong ones.

    `flags` that are None were not given. `reserved` says which names no dimension can have; it is called only if there
    are dimensions.
    """
    mistakes: list[str] = []
    known = {each.name: each for each in fields(Settings)}
    values: dict[str, Any] = {}
    wrong: set[str] = set()
    told: dict[str, str] = {}  # where each setting was written, and how
    for origin, found in (
        (str(file), _from_file(file, known, mistakes)),
        ("environment", _from_environ(environ, known, mistakes)),
        (COMMAND_LINE, {name: value for name, value in flags.items() if value is not None}),
    ):
        for name, value in found.items():
            told[name] = f"{origin}: {name} = {'***' if is_secret(name) else without_user(repr(value))}"
            try:
                if value == "" and origin == COMMAND_LINE:  # such as a shell's variable that is not set
                    raise ValueError("write a value, or leave it out")
                values[name] = known[name].metadata["parse"](value) if isinstance(value, str) else value
            except ValueError as error:
                mistakes.append(f"{told[name]}: {error}")
                values.pop(name, None)
                wrong.add(name)
    settings = Settings(**values)
    for names, remark in chain(_disagreements(settings), _taken(settings, reserved)):
        if wrong.isdisjoint(names) and (written := [told[name] for name in names if name in told]):
            mistakes.append(f"{', '.join(written)}: {remark}")
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    return settings


def _from_environ(environ: Mapping[str, str], known: Mapping[str, Any], mistakes: list[str]) -> dict[str, str]:
    """The variables that are settings. One that nearly is a setting is a mistake: unnoticed, it could be a token."""
    variables = {f"MISSTEP_{name.upper()}": name for name in known}
    mistakes.extend(
        f"environment: {name} is no setting; did you mean {near[0]}?"
        for name in sorted(environ.keys() - variables.keys())
        if name.startswith("MISSTEP_") and environ[name] and (near := get_close_matches(name, variables, 1, cutoff=0.9))
    )
    return {name: environ[variable] for variable, name in variables.items() if environ.get(variable)}


def _from_file(file: Path, known: Mapping[str, Any], mistakes: list[str]) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        found = load_toml(file)
    except TableError as error:
        mistakes.extend(str(error).splitlines())
        return {}
    mistakes.extend(
        f"{file}: {name} is no setting; known are {', '.join(known)}" for name in found if name not in known
    )
    mistakes.extend(
        f"{file}: {name}: an entry has a comma, which separates entries"
        for name, value in found.items()
        if isinstance(value, list) and any("," in str(entry) for entry in value)
    )
    written = {name: as_in_variable(value) for name, value in found.items() if name in known}
    return {name: text for name, text in written.items() if text}  # as for a variable, nothing is: not set


def as_in_variable(value: Any) -> str:
    """A TOML value written as in a variable, so that one parser reads both."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _disagreements(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Names of settings whose values are out of range or do not go together, and what is wrong with them."""
    for place, each in enumerate(settings.forward_headers, 1):
        name, equals, value = each.partition("=")
        if not (equals and value.strip() and _HEADER_NAME.fullmatch(name.strip())):
            remedy = "a comma within a value is %2C" if place > 1 else "as in authorization=Bearer%20…"
            yield ("forward_headers",), f"entry {place}: write name=value,name=value; {remedy}"
        elif any(byte < 0x20 or byte == 0x7F for byte in unquote_to_bytes(value.strip())):
            yield ("forward_headers",), f"entry {place}: has a control character, which no header can carry"
    if settings.retention < 3600:
        yield ("retention",), "write 1h or more, such as 30d (m: minutes); what is older goes"
    if 0 < settings.retention_size < 1_000_000:
        yield ("retention_size",), "write 1MB or more, such as 20GB, or 0 for no limit; what does not fit is deleted"
    for one, other in (("http", "grpc"), ("http", "dashboard"), ("grpc", "dashboard")):
        if getattr(settings, one) == getattr(settings, other) and getattr(settings, one).port:
            yield (one, other), "one address for both doors; write a port of its own for each"
    target, every = urlsplit(settings.forward), settings.http.host in (*LOOPBACK, "0.0.0.0", "::")
    if target.hostname in (settings.http.host, *(LOOPBACK if every else ())) and target.port == settings.http.port:
        yield ("forward",), "is this collector itself: everything would be received again; write another endpoint"
    exposed = [name for name in ("http", "grpc") if getattr(settings, name).host not in LOOPBACK]
    if exposed and not settings.open and not (settings.ingest_tokens and settings.query_tokens):
        yield (
            (*exposed, "open", "ingest_tokens", "query_tokens"),
            "others could read and write. Set MISSTEP_INGEST_TOKENS and MISSTEP_QUERY_TOKENS, or MISSTEP_OPEN=true "
            "where something else guards it",
        )


def _taken(settings: Settings, reserved: Callable[[], Container[str]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Dimensions that cannot be columns, as queries or answers use their names."""
    taken = reserved() if settings.dimensions else ()
    for name in settings.dimensions:
        if name.lower() in taken:
            yield (
                ("dimensions",),
                f"{name!r} has a meaning already; it can be asked for without a setting, or is no name",
            )


def check_dashboard(settings: Settings, *, signs_in: bool) -> None:
    """Raises SettingsError if the dashboard would be open to anybody who reaches its port.

    It uses its own query token for all visitors. `signs_in` says whether it asks people to sign in.
    """
    place = settings.dashboard
    if place.host not in LOOPBACK and not settings.open and not signs_in:
        raise SettingsError(
            f"dashboard = {place}: others could see everything, and silence alerts. Write 127.0.0.1:{place.port}, "
            "set up sign-in (an [auth] section in .streamlit/secrets.toml: docs/dashboard.md), or MISSTEP_OPEN=true "
            "where something else guards it"
        )
