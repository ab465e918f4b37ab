"""Who asks, with which rights; and the headers that tell web pages of others from requests that need no token."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Protocol

from collector.errors import Rejected

INGEST, READ, ALERTS, ADMIN = RIGHTS = ("ingest", "read", "alerts", "admin")
MAINTAIN = "maintain"  # copies of the whole store, sanitising and forgetting: comes with admin, and with unnamed tokens
OPEN = "open"  # of addresses that anybody may ask

# Headers by which a token asks for a person, with less than it may do itself.
FOR_PERSON, FOR_PROJECT, FOR_RIGHTS = FOR = ("x-misstep-person", "x-misstep-project", "x-misstep-rights")

# Headers of which a request may have one: of two, the next program to read it could take the other.
ONCE = frozenset(
    ("authorization", "content-encoding", "content-length", "content-type", "host", "origin", "sec-fetch-site", *FOR)
)
_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._~")


class Meter(Protocol):
    """Counts what a token uses, by kind: requests, bytes, events."""

    def begin(self) -> None: ...
    def count(self, kind: str, number: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks, and what they may do: settled once for each request (collector/tokens), and carried to its handler.

    `name` is the token's, or that of the person for whom the token `via` asks; empty: one of all who share what needs
    no token, or an unnamed token. `project` None: every project. `rights` are some of RIGHTS and MAINTAIN.
    """

    name: str = ""
    rights: frozenset[str] = frozenset()
    project: str | None = None
    via: str = ""
    meter: Meter | None = field(default=None, compare=False, repr=False)


def check_page(headers: Mapping[str, str], allowed: Collection[str]) -> None:
    """Raises Rejected 400 or 403 unless Host and Origin of a request without a token are ours, and no page of another
    site sent it.
    """
    check_host(headers.get("host", ""), allowed)
    check_origin(headers.get("origin", ""), allowed)
    check_site(headers.get("sec-fetch-site", ""), allowed)


def check_once(names: Iterable[str]) -> None:
    """Raises Rejected 400 where one of ONCE is twice among the `names` of a request's headers, in lower case."""
    seen: set[str] = set()
    for name in names:
        if name in seen and name in ONCE:
            raise Rejected(f"the header {name.title()} stands twice: send one")
        seen.add(name)


def host_name(host: str) -> str:
    """The name in a Host header or behind the `//` of an Origin, in lower case, without port and brackets.

    Raises Rejected 400 where it is not `name`, `name:port`, `[IPv6]` or `[IPv6]:port` (RFC 9110, section 7.2).
    """
    name, bracket, rest = host.lower().rpartition("]")
    if not bracket:
        name, _, port = rest.partition(":")
        well = _OF_NAMES.issuperset(name)
    else:
        nothing, _, port = rest.partition(":")
        name = name.removeprefix("[")
        well = not nothing and host.startswith("[") and _is_ipv6(name)
    if not well or (port and not (port.isascii() and port.isdecimal() and int(port[:6]) < 1 << 16)):
        raise Rejected("the header Host is no name and port: send one such as localhost:4318")
    return name


def _is_ipv6(text: str) -> bool:
    try:
        return bool(IPv6Address(text).exploded)
    except ValueError:
        return False


def check_host(host: str, allowed: Collection[str]) -> None:
    """Raises Rejected 403 for a Host that is not ours, so that a web page in the same browser (DNS rebinding) cannot
    reach a collector on loopback; 400 for one that cannot be read.

    An empty `allowed` accepts any Host: the collector listens beyond loopback.
    """
    name = host_name(host)
    if allowed and name not in allowed:
        # As it was sent, so that the rules for secrets know one: lower case would hide it from them.
        raise Rejected(f"Host {host!r} is not allowed; add it to MISSTEP_ALLOWED_HOSTS", 403)


def check_origin(origin: str, allowed: Collection[str]) -> None:
    """Raises Rejected 403 for a request that a foreign web page sends: browsers send some without a CORS preflight.

    An empty `allowed` accepts any Origin, as does a request without one.
    """
    if not allowed or not origin:
        return
    try:
        ours = host_name(origin.partition("://")[2]) in allowed
    except Rejected:
        ours = False
    if not ours:
        raise Rejected(f"requests of web pages from {origin[:100]!r} are not allowed", 403)


def check_site(site: str, allowed: Collection[str]) -> None:
    """Raises Rejected 403 for a request of a page of another site, as browsers say in Sec-Fetch-Site: an image or a
    link there sends a GET without Origin.

    An empty `allowed` accepts any.
    """
    if allowed and site.lower() == "cross-site":
        raise Rejected("requests of web pages of other sites are not allowed", 403)


def check_rules(content_type: str) -> None:
    """Raises Rejected 415 for other types than a rule file's, as `check_json` does."""
    if content_type not in ("application/yaml", "application/x-yaml", "application/json"):
        raise Rejected("send Content-Type: application/yaml", 415)


def check_json(content_type: str) -> None:
    """Raises Rejected 415 for other types: a foreign web page can send some without a CORS preflight, but not JSON."""
    if content_type != "application/json":
        raise Rejected("send Content-Type: application/json", 415)
