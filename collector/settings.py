"""Settings: flags override `MISSTEP_*` variables, which override `misstep.toml`, which overrides the defaults.

All wrong values are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_address
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from collector.setting_values import (
    Address,
    address,
    boolean,
    cluster,
    copies_to,
    count,
    dimensions,
    duration,
    endpoint,
    folder,
    hosts,
    memory,
    new_folder,
    one_of,
    path,
    personal,
    positive_size,
    size,
    token,
    tokens,
    trace_link,
    words,
)
from collector.tables import TableError, load_toml

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
COMMAND_LINE = "command line"
SECRET_WORDS = ("token", "key", "headers")  # in names of settings
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
EVERY_HOST = frozenset((*LOOPBACK, "0.0.0.0", "::"))  # at which this collector is reached by the names of LOOPBACK


def _setting(default: Any, parse: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"parse": parse})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The variable of a setting is `MISSTEP_` and its name in capitals.

    `schemas/settings.toml` says what each means.
    """

    store: str = _setting("duckdb:///data/misstep.duckdb", str)
    http: Address = _setting(Address("127.0.0.1", 4318), address)
    grpc: Address = _setting(Address("127.0.0.1", 4317), address)
    rules: Path = _setting(Path("alerts.yaml"), path)
    tables: Path | None = _setting(None, folder)
    memory: int = _setting(200_000_000, memory)
    retention: float = _setting(30 * 86_400.0, duration)
    audit_retention: float = _setting(90 * 86_400.0, duration)
    retention_size: int = _setting(0, size)
    retention_export: Path | None = _setting(None, new_folder)
    cluster: str = _setting("", cluster)
    local_retention: float = _setting(2 * 86_400.0, duration)
    dimensions: tuple[str, ...] = _setting((), dimensions)
    ingest_tokens: tuple[str, ...] = _setting((), tokens)
    query_tokens: tuple[str, ...] = _setting((), tokens)
    alerts_tokens: tuple[str, ...] = _setting((), tokens)
    admin_tokens: tuple[str, ...] = _setting((), tokens)
    receiver_hosts: tuple[str, ...] = _setting((), hosts)
    open: bool = _setting(False, boolean)
    allowed_hosts: tuple[str, ...] = _setting((), hosts)
    hash_key: str = _setting("", str)
    personal: str = _setting("mask", personal)
    fingerprint_secrets: bool = _setting(False, boolean)
    max_body: int = _setting(64 << 20, positive_size)
    queue: int = _setting(128 << 20, positive_size)
    workers: int | None = _setting(None, count)
    forward: str = _setting("", copies_to)
    forward_headers: tuple[str, ...] = _setting((), words)
    forward_content: str = _setting("as-received", one_of("as-received", "sanitised"))
    forward_raw: bool = _setting(False, boolean)
    forward_queue: int = _setting(64 << 20, positive_size)
    tls_cert: Path | None = _setting(None, path)
    tls_key: Path | None = _setting(None, path)
    dashboard: Address = _setting(Address("127.0.0.1", 8501), address)
    collector_url: str = _setting("http://127.0.0.1:4318", endpoint)
    query_token: str = _setting("", token)
    alerts_token: str = _setting("", token)
    admin_token: str = _setting("", token)
    dashboard_url: str = _setting("", endpoint)
    otlp_url: str = _setting("", endpoint)
    trace_url: str = _setting("", trace_link)
    langfuse_url: str = _setting("", endpoint)
    langfuse_public_key: str = _setting("", token)
    langfuse_secret_key: str = _setting("", token)
    metrics_services: tuple[str, ...] = _setting((), words)
    metrics_settle: float = _setting(600.0, duration)
    log: str = _setting("auto", one_of("auto", "json", "text"))

    @property
    def sending_token(self) -> str:
        """The token with which commands send; empty without one."""
        return next(iter(self.ingest_tokens), "")

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
    """Whether the value of this setting must not be shown; the addresses of others may contain a password."""
    names_a_file = name == "tls_key"
    return name in ("forward", "cluster") or (not names_a_file and any(word in name for word in SECRET_WORDS))


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
    guarded: Callable[[Settings], Container[str]] = lambda settings: (),
) -> Settings:
    """The settings in force. Raises SettingsError with all wrong ones.

    `flags` that are None were not given. `reserved` says which names no dimension can have, and `guarded` which
    rights named tokens guard; they are called only if there are dimensions, or if others could reach the collector.
    `collector_url` is by default the address of `http`.
    """
    mistakes: list[str] = []
    known = {each.name: each for each in fields(Settings)}
    values: dict[str, Any] = {}
    wrong: set[str] = set()
    written: dict[str, str] = {}  # where each setting was written, and how
    for origin, given in (
        (str(file), _from_file(file, known, mistakes)),
        ("environment", _from_environ(environ, known, mistakes)),
        (COMMAND_LINE, {name: value for name, value in flags.items() if value is not None}),
    ):
        for name, value in given.items():
            written[name] = f"{origin}: {name} = {_shown(name, value)}"
            try:
                values[name] = _parsed(known[name].metadata["parse"], value, origin)
            except ValueError as error:
                mistakes.append(f"{written[name]}: {error}")
                values.pop(name, None)
                wrong.add(name)
    if "http" in values and "collector_url" not in written and values["http"].port:
        values["collector_url"] = values["http"].url
    settings = Settings(**values)
    for names, remark in (*_disagreements(settings, guarded), *_taken(settings, reserved)):
        where = [written[name] for name in names if name in written]
        if where and wrong.isdisjoint(names):
            mistakes.append(f"{', '.join(where)}: {remark}")
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    return settings


def _shown(name: str, value: Any) -> str:
    return "***" if is_secret(name) else without_user(repr(value))


def _parsed(parse: Callable[[str], Any], value: Any, origin: str) -> Any:
    if value == "" and origin == COMMAND_LINE:  # such as a shell's variable that is not set
        raise ValueError("write a value, or leave it out")
    return parse(value) if isinstance(value, str) else value


def _from_environ(environ: Mapping[str, str], known: Mapping[str, Any], mistakes: list[str]) -> dict[str, str]:
    """The variables that are settings. One that nearly is a setting is a mistake: unnoticed, it could be a token."""
    variables = {f"MISSTEP_{name.upper()}": name for name in known}
    for name in sorted(environ.keys() - variables.keys()):
        near = get_close_matches(name, variables, 1, cutoff=0.9) if name.startswith("MISSTEP_") else []
        if near and environ[name]:
            mistakes.append(f"environment: {name} is no setting; did you mean {near[0]}?")
    return {name: environ[variable] for variable, name in variables.items() if environ.get(variable)}


def _from_file(file: Path, known: Mapping[str, Any], mistakes: list[str]) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        found = load_toml(file)
    except TableError as error:
        mistakes.extend(str(error).splitlines())
        return {}
    written = {}
    for name, value in found.items():
        if name not in known:
            mistakes.append(f"{file}: {name} is no setting; known are {', '.join(known)}")
            continue
        if isinstance(value, list) and "," in "".join(map(str, value)):
            mistakes.append(f"{file}: {name}: an entry has a comma, which separates entries")
        if text := as_in_variable(value):  # as for a variable, nothing is: not set
            written[name] = text
    return written


def as_in_variable(value: Any) -> str:
    """A TOML value written as in a variable, so that one parser reads both."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


Disagreements = Iterator[tuple[tuple[str, ...], str]]  # names of settings, and what is wrong with their values


def _disagreements(settings: Settings, guarded: Callable[[Settings], Container[str]]) -> Disagreements:
    """Settings whose values are out of range or do not go together."""
    yield from _headers_not_written_right(settings)
    yield from _limits_too_small(settings)
    yield from _addresses_used_twice(settings)
    yield from _half_a_pair(settings)
    yield from _copies_to_itself(settings)
    yield from _without_keys(settings)
    yield from _beside_a_cluster(settings)
    yield from _open_to_others(settings, guarded)


def _headers_not_written_right(settings: Settings) -> Disagreements:
    for number, header in enumerate(settings.forward_headers, 1):
        name, _, value = header.partition("=")
        if not value.strip() or not _HEADER_NAME.fullmatch(name.strip()):
            remedy = "a comma within a value is %2C" if number > 1 else "as in authorization=Bearer%20…"
            yield ("forward_headers",), f"entry {number}: write name=value,name=value; {remedy}"
        elif _CONTROL.search(unquote_to_bytes(value.strip())):
            yield ("forward_headers",), f"entry {number}: has a control character, which no header can carry"


def _limits_too_small(settings: Settings) -> Disagreements:
    if settings.audit_retention < 3600:
        yield ("audit_retention",), "write 1h or more, such as 90d; what is older goes"
    if settings.retention < 3600:
        yield ("retention",), "write 1h or more, such as 30d (m: minutes); what is older goes"
    if 0 < settings.retention_size < 1_000_000:
        yield ("retention_size",), "write 1MB or more, such as 20GB, or 0 for no limit; what does not fit is deleted"


def _beside_a_cluster(settings: Settings) -> Disagreements:
    if settings.cluster and settings.retention_export:
        yield (
            ("retention_export", "cluster"),
            "a cluster keeps the old days, and exports them by its own means: unset one",
        )
    if settings.cluster and not settings.hash_key:
        yield (
            ("cluster",),
            "set MISSTEP_HASH_KEY, to one secret for every collector: with keys of their own, equal arguments differ",
        )
    if settings.cluster and not 3600 <= settings.local_retention <= settings.retention:
        yield ("local_retention", "cluster"), "write 1h or more, such as 2d, and no more than MISSTEP_RETENTION"


def _addresses_used_twice(settings: Settings) -> Disagreements:
    for pair in combinations(("http", "grpc", "dashboard"), 2):
        first, second = (getattr(settings, name) for name in pair)
        if first == second and first.port:
            yield pair, "one address for both doors; write a port of its own for each"


def _without_keys(settings: Settings) -> Disagreements:
    names = ("langfuse_url", "langfuse_public_key", "langfuse_secret_key")
    given = [bool(getattr(settings, name)) for name in names]
    if any(given) and not all(given):
        yield names, f"{', '.join(names)} go together: set all three, or none"


def _half_a_pair(settings: Settings) -> Disagreements:
    if bool(settings.tls_cert) != bool(settings.tls_key):
        yield ("tls_cert", "tls_key"), "set both tls_cert and tls_key, or none"


def _copies_to_itself(settings: Settings) -> Disagreements:
    target = urlsplit(settings.forward)
    own = {settings.http.host}
    if settings.http.host in EVERY_HOST:
        own |= LOOPBACK
    if target.hostname in own and target.port == settings.http.port:
        yield ("forward",), "is this collector itself: everything would be received again; write another endpoint"


def _open_to_others(settings: Settings, guarded: Callable[[Settings], Container[str]]) -> Disagreements:
    exposed = [name for name in ("http", "grpc") if getattr(settings, name).host not in LOOPBACK]
    if settings.open or not exposed:
        return
    named = () if settings.ingest_tokens and settings.query_tokens else guarded(settings)
    if not ((settings.ingest_tokens or "ingest" in named) and (settings.query_tokens or "read" in named)):
        yield (
            (*exposed, "open", "ingest_tokens", "query_tokens"),
            "others could read and write. Make tokens with misstep token create, set MISSTEP_INGEST_TOKENS and "
            "MISSTEP_QUERY_TOKENS, or MISSTEP_OPEN=true where something else guards it",
        )


def _taken(settings: Settings, reserved: Callable[[], Container[str]]) -> Disagreements:
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
