"""What people decided about groups: resolved, in a version or in all, ignored for a while, an issue, a note."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import msgspec

from collector.errors import Rejected
from collector.query.noted import NAME_CHARS, Scrub, Writes, clean, https
from collector.query.statement import load

DECISIONS = ("resolved", "ignored", "open")
MOST_UNTIL = 100_000
COLUMNS = (
    "resolved_ns", "resolved_service", "resolved_version", "earlier_versions", "ignored_ns", "until_events",
    "until_sessions", "issue", "note",
)  # fmt: skip
OPEN: Mapping[str, Any] = {**dict.fromkeys(COLUMNS), "earlier_versions": [], "resolved_ns": 0, "ignored_ns": 0}
NEVER_MARKED = {**OPEN, "issue": "", "note": ""}
# Versions that are compared as numbers: v1.10, 2026.9, 1.8.0-rc1, 1.0.post2, 1.8.0+build.
NUMBERS = r"v?\d{1,9}(\.\d{1,9}){0,7}([-+].*|\.?(a|b|c|rc|alpha|beta|dev|pre|post)\.?\d{0,9})?"

Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS)]
Until = Annotated[int, msgspec.Meta(ge=1, le=MOST_UNTIL)]


class Mark(msgspec.Struct, forbid_unknown_fields=True):
    """A change to what is said of a group; what is left out stays unchanged.

    `version` and `service` go with the state `resolved`: only events of that version or later ones tell that the group
    came back. `until_events` and `until_sessions` go with `ignored`: it ends when either has happened since.
    """

    state: str | None = None
    version: Name | None = None
    service: Name | None = None
    until_events: Until | None = None
    until_sessions: Until | None = None
    issue: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    note: Annotated[str, msgspec.Meta(max_length=4000)] | None = None


@cache
def tells() -> str:
    """Whether an event, or a row of counted ones, tells that its resolved group came back, as SQL."""
    return load("later").format(
        numbers=NUMBERS, version=_compared("service_version"), resolved=_compared("resolved_version")
    )


def _compared(column: str) -> str:
    of = f"lower({column})"
    return load("version").format(of=of, rest=rf"regexp_replace({of}, '^v?[0-9]+([.][0-9]+)*', '')")


def mark(store: Writes, fingerprint: int, said: Mark, scrub: Scrub, clock: Callable[[], int] = time.time_ns) -> None:
    """Says something of a group; texts are stored after `scrub` has removed secrets. Raises Rejected."""
    _check(said)
    if not store.rows("select 1 from events where fingerprint = $f limit 1", {"f": fingerprint}):
        raise Rejected(
            f"there is no group with fingerprint {fingerprint}: it never existed, or retention removed it", 404
        )
    named = {"issue": said.issue and https("issue", said.issue, scrub), "note": said.note and clean(said.note, scrub)}
    told = {name: text for name, text in named.items() if text is not None}
    known = store.rows(f"select {', '.join(COLUMNS)} from group_marks where fingerprint = $f", {"f": fingerprint})
    row = {**(known[0] if known else NEVER_MARKED), **_decided(store, fingerprint, said, scrub, clock()), **told}
    store.execute(
        f"insert or replace into group_marks by name select $f as fingerprint, {_named(COLUMNS)}, $now as changed_ns",
        {**row, "f": fingerprint, "now": clock()},
    )


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"${name} as {name}" for name in columns)


def _check(said: Mark) -> None:
    if said == Mark():
        raise Rejected("send state (resolved, ignored or open), issue, note, or several of them")
    if said.state not in (None, *DECISIONS):
        raise Rejected(f"state is resolved, ignored or open, not {said.state[:40]!r}")
    versioned = said.version is not None or said.service is not None
    if versioned and (said.state != "resolved" or not said.version):
        raise Rejected("version, and with it service, go with the state resolved: since which version it is mended")
    until = said.until_events is not None or said.until_sessions is not None
    if until != (said.state == "ignored"):
        raise Rejected("the state ignored needs until_events, until_sessions or both, and no other state takes them")


def _decided(store: Writes, fingerprint: int, said: Mark, scrub: Scrub, now_ns: int) -> Mapping[str, Any]:
    """The columns that the state changes."""
    kept = {"issue", "note"}
    match said.state:
        case None:
            return {}
        case "open":
            changed = {}
        case "ignored":
            changed = {"ignored_ns": now_ns, "until_events": said.until_events, "until_sessions": said.until_sessions}
        case _:
            changed = {"resolved_ns": now_ns, **_since_version(store, fingerprint, said, scrub)}
    return {name: value for name, value in {**OPEN, **changed}.items() if name not in kept}


def _since_version(store: Writes, fingerprint: int, said: Mark, scrub: Scrub) -> dict[str, Any]:
    if not said.version:
        return {}
    version = clean(said.version, scrub)
    service = clean(said.service, scrub) if said.service else _sender(store, fingerprint, version)
    rows = store.rows(
        "select service_version, min(time_ns) as first_ns from events where service is not distinct from $service"
        " and service_version is not null group by all",
        {"service": service},
    )
    first = {row["service_version"]: row["first_ns"] for row in rows}
    earlier = [each for each, began in first.items() if version not in first or began < first[version]]
    return {"resolved_service": service, "resolved_version": version, "earlier_versions": earlier}


def _sender(store: Writes, fingerprint: int, version: str) -> str | None:
    """The one service that a version is of. Raises Rejected where several may be meant."""
    asked = "select distinct service from events where fingerprint = $f order by service"
    services = [row["service"] for row in store.rows(asked, {"f": fingerprint})]
    if len(services) > 1:
        asked = "select distinct service from events where service_version = $version"
        senders = {row["service"] for row in store.rows(asked, {"version": version})}
        services = [name for name in services if name in senders] or services
    if len(services) > 1:
        named = ", ".join(map(str, services[:10]))
        raise Rejected(f"several services have this group: say which one's version it is, with service: {named}")
    found: str | None = services[0]
    return found
