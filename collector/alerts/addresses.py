"""Which addresses a receiver that is added through the API may have: schemas/receivers.toml, and public hosts only.

The rule file itself is not held to this: who can write it can write anything. Through the API, an address could make
the collector post into the network it stands in, or read a file of its machine.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import parse_qsl

from collector.tables import load_toml, schemas

MOST = 2_000  # characters of an address
_SHAPE = re.compile(r"(?P<scheme>[a-z0-9]+)://[!-\[\]-~]+")  # visible ASCII; a \ is a / to some, and not to others
_KEY = re.compile(r"(?P<scheme>[a-z]+)://(?P<key>[A-Za-z0-9_+-]{8,})/?(?:\?region=(?P<region>[a-z]+))?")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Scheme:
    """One kind of address. `parameters` may stand behind its `?`; True: any, as nothing but the server reads them."""

    name: str
    service: str
    example: str
    host: bool = False
    parameters: tuple[str, ...] | bool = ()
    regions: Mapping[str, str] = field(default_factory=dict)  # addresses of a service that its key alone is enough for


@cache
def kinds() -> Mapping[str, Scheme]:
    """The kinds of addresses that the API takes, by scheme."""
    rows = load_toml(schemas().joinpath("receivers.toml"))["scheme"]
    return {row["name"]: _kind(row) for row in rows}


@cache
def _incident_keys() -> Mapping[str, str]:
    rows = load_toml(schemas().joinpath("receivers.toml"))["incidents"]
    return {scheme: parameter for parameter, schemes in rows.items() for scheme in schemes}


def incident_key(address: str) -> str:
    """The parameter of an address of Apprise that is the key of an incident; "" if its service has none, or if the
    address has a key or an action of its own.
    """
    scheme, _, rest = address.partition("://")
    parameter = _incident_keys().get(scheme.lower(), "")
    given = {name.lower() for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    return "" if given & {parameter, "action"} else parameter


def _kind(row: Mapping[str, Any]) -> Scheme:
    given = row.get("parameters", ())
    parameters = given if isinstance(given, bool) else tuple(given)
    return Scheme(
        row["name"], row["service"], row["example"], row.get("host", False), parameters, row.get("regions", {})
    )


def receiver_of(address: str) -> dict[str, Any]:
    """The receiver with this address, which `wrong_with` has found good, as a rule file says it."""
    if address.startswith(("https:", "http:")):
        return {"webhook": address}
    if address.startswith("alertmanager"):
        return {"alertmanager": _as_web(address)}
    if short := _short(address):
        service, key, region = short
        return {service: key} | ({"api_url": kinds()[service].regions[region]} if region else {})
    return {"apprise": [address]}


def wrong_with(address: str, allowed: Collection[str]) -> str:
    """Why the API does not take this address, and what to write instead; "" if it does.

    Nothing of the address but its scheme is in it. `allowed` are hosts that need not be public, which are also reached
    without TLS. May look a name up.
    """
    found = _SHAPE.fullmatch(address)
    if not found or len(address) > MOST or address.count("://") > 1:
        return f"write one address of at most {MOST:,} visible ASCII characters, such as {kinds()['slack'].example}"
    scheme = kinds().get(found["scheme"]) or kinds().get(f"{found['scheme']}s")
    host, port = _host_of(address) if scheme else (None, 0)
    near = host in allowed
    if scheme is None or (scheme.name != found["scheme"] and not near):
        return f"has a scheme that is not taken here; taken are {', '.join(kinds())}"
    if host is None:
        return f"is none that {scheme.service} knows; write one such as {scheme.example}"
    if unknown := _unknown_parameters(address, scheme):
        return f"has {unknown} behind its ?; leave it out, or write the address into the rule file"
    if not scheme.host or near:
        return ""
    if not host:
        return f"names no host; write an address such as {scheme.example}"
    return _wrong_host(host, port)


def _unknown_parameters(address: str, scheme: Scheme) -> str:
    _, mark, query = address.partition("?")
    if scheme.parameters is True or not mark:
        return ""
    known: Iterable[str] = scheme.parameters or ()
    unknown = any(name.lower() not in known for name, _ in parse_qsl(query, keep_blank_values=True))
    listed = f"something besides {', '.join(known)}" if known else "something"
    return listed if unknown or not query else ""


def _short(address: str) -> tuple[str, str, str] | None:
    """Service, key and region of an address that has nothing else."""
    found = _KEY.fullmatch(address)
    scheme = kinds().get(found["scheme"]) if found else None
    if not found or not scheme or (found["region"] or "us") not in scheme.regions:
        return None
    return scheme.name, found["key"], found["region"] or ""


def _as_web(address: str) -> str:
    """The address of an Alertmanager as that of a web server: with TLS if its scheme ends in s."""
    return f"http{address.removeprefix('alertmanager')}"


def _host_of(address: str) -> tuple[str | None, int]:
    """Host and port that a message to this address would go to, as what sends it reads them; None if it cannot."""
    if _short(address):
        return "", 443
    if address.startswith("alertmanager"):
        address = _as_web(address)
    if address.startswith(("https:", "http:")):
        import httpx  # 10 MiB, only needed with a webhook

        try:
            url = httpx.URL(address)
            port = url.port or 443
        except httpx.InvalidURL:
            return None, 0
        return (url.host.rstrip("."), port) if port < 1 << 16 else (None, 0)
    from apprise import Apprise  # 35 MiB with its services, for who sends through it

    service = Apprise.instantiate(address, suppress_exceptions=True)
    if service is None:
        return None, 0
    host = getattr(service, "smtp_host", None) or getattr(service, "host", None) or ""
    return str(host).strip("[]").rstrip(".").lower(), getattr(service, "port", None) or 443


def _wrong_host(host: str, port: int) -> str:
    try:
        found = {each[4][0] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return "names a host that cannot be found; correct it"
    if all(_is_public(str(each)) for each in found):
        return ""
    return "names a host that is not public; if it is meant, add it to MISSTEP_RECEIVER_HOSTS and restart the collector"


def _is_public(text: str) -> bool:
    where: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    if isinstance(where, IPv6Address):
        nat = IPv4Address(int(where) & 0xFFFFFFFF) if where in _NAT64 else None
        inside = nat or where.ipv4_mapped or where.sixtofour or (where.teredo[1] if where.teredo else None)
        where = inside or where
    return where.is_global and not where.is_multicast
