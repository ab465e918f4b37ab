"""`misstep token` and `misstep audit`: through the collector's API with an admin token, else beside the store."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from collector.access.audit import Entry
from collector.access.file import Token
from collector.access.meter import Limits
from collector.cli.options import sanitiser_from
from collector.commands.client import check, collector, filters
from collector.errors import Rejected
from collector.query.filters import BadParameter, range_ns
from collector.setting_values import count, size, words
from collector.settings import Settings
from collector.times import rfc3339
from collector.token_store import audit_log, token_file

SHOWN = 1_000  # entries of the audit log
FILTERS = ("who", "action")


def create(settings: Settings, name: str, rights: str, project: str, **most: str) -> str:
    """The text of a new token. Raises OSError where it cannot be made."""
    limits = _limits(**most)
    if settings.admin_token:
        wanted = {"name": name, "rights": words(rights), "project": project, "limits": msgspec.to_builtins(limits)}
        with _asked(settings) as client:
            answer = client.post("/api/v1/tokens", json=wanted)
        check(answer)
        return str(answer.json()["token"])
    with _said():
        token, text = token_file(settings).create(name, words(rights), project or None, limits)
    _note(settings, "add", token.name, f"{', '.join(token.rights)}; project {token.project or '-'}")
    return text


def revoke(settings: Settings, name: str) -> None:
    """Raises OSError where no token of this name is in force."""
    if settings.admin_token:
        with _asked(settings) as client:
            check(client.delete(f"/api/v1/tokens/{quote(name, safe='')}"))
        return
    with _said():
        token_file(settings).revoke(name)
    _note(settings, "remove", name, "")


def listed(settings: Settings) -> Iterator[str]:
    """A line for each token, the oldest first. Raises OSError."""
    if settings.admin_token:
        with _asked(settings) as client:
            answer = client.get("/api/v1/tokens", params={"sort": "created", "limit": "10000"})
        check(answer)
        rows: list[dict[str, Any]] = answer.json()["rows"]
    else:
        rows = list(map(_row, token_file(settings).held.tokens))
    for row in rows:
        limits = ", ".join(f"{most} {kind}/min" for kind, most in row["limits"].items() if most) or "no limits"
        used = f", used {row['requests']} requests, {row['events']} events" if "requests" in row else ""
        state = f"revoked {row['revoked'][:16]}Z" if row["revoked"] else "in force"
        of = f"project {row['project']}" if row["project"] else "all projects"
        yield f"{row['name']}  {state}, made {row['created'][:16]}Z: {', '.join(row['rights'])}; {of}; {limits}{used}"


def audited(settings: Settings, where: Sequence[str], since: str, until: str) -> Iterator[str]:
    """A line for each entry of the audit log, the newest first. Raises OSError."""
    asked = dict(filters(where))
    if strange := sorted(asked.keys() - FILTERS):
        known = " or ".join(f"{name}=…" for name in FILTERS)
        raise OSError(f"{strange[0]!r} is no filter of the audit log; write {known}")
    if settings.admin_token:
        with _asked(settings) as client:
            answer = client.get("/api/v1/audit", params={"from": since, "to": until, "limit": str(SHOWN), **asked})
        check(answer)
        return map(_line, answer.json()["rows"])
    with _said():
        start_ns, end_ns = range_ns(since, until, time.time_ns())
    entries = audit_log(settings, str).entries(start_ns, end_ns)
    rows: Iterable[dict[str, Any]] = (
        {"time": rfc3339(entry.time_ns), **msgspec.to_builtins(entry)} for entry in entries
    )
    chosen = (row for row in rows if all(row[name] == value for name, value in asked.items()))
    return map(_line, islice(chosen, SHOWN))


def _line(row: Mapping[str, Any]) -> str:
    who = f"{row['who']} (by {row['via']})" if row["via"] else row["who"]
    of = f" [{row['project']}]" if row["project"] else ""
    return f"{row['time'][:19]}Z  {who}{of}  {row['action']}  {row['what']}  {row['detail']}".rstrip()


def _row(token: Token) -> dict[str, Any]:
    revoked = rfc3339(token.revoked_ns) if token.revoked_ns else ""
    return {**msgspec.to_builtins(token), "created": rfc3339(token.created_ns), "revoked": revoked}


def _limits(requests: str, volume: str, events: str) -> Limits:
    with _said():
        return Limits(count(requests), size(volume), count(events))


def _note(settings: Settings, action: str, name: str, detail: str) -> None:
    sanitiser = sanitiser_from(settings)
    log = audit_log(settings, lambda text: sanitiser.scrub(text)[0])
    log.note(Entry(0, f"{getpass.getuser()} on this machine", action, f"misstep token {name}", detail))


@contextmanager
def _asked(settings: Settings) -> Iterator[httpx.Client]:
    with collector(settings.collector_url, settings.admin_token) as client:
        yield client


@contextmanager
def _said() -> Iterator[None]:
    """What is wrong with the arguments, as an OSError, which commands report in a line."""
    try:
        yield
    except (Rejected, BadParameter, ValueError) as error:
        raise OSError(str(error)) from None
