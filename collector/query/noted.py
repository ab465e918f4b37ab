"""What people add to a store: marks on the time axis and saved views; and how texts of people are taken."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from collector.errors import Rejected
from collector.projects import PROJECT
from collector.query.filters import time_ns
from collector.times import MAX_NS

NAME_CHARS = 200
MOST_MARKS = 10_000
MOST_VIEWS = 200
EVER_NS = MAX_NS

Scrub = Callable[[str], str]
Row = dict[str, Any]


class Writes(Protocol):
    """The part of the store that what people add needs."""

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]: ...

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> None: ...

    def execute_all(self, statements: list[tuple[str, Mapping[str, Any]]]) -> None: ...


def clean(text: str, scrub: Scrub) -> str:
    """A text as it is stored: without secrets, and without halves of characters."""
    return scrub(text.encode("utf-8", "replace").decode())


def https(name: str, text: str, scrub: Scrub) -> str:
    """An address that people can open, or empty. Raises Rejected for any other, and for one with a secret in it."""
    text = text.strip()
    if not text:
        return ""
    if not _is_https(text):
        raise Rejected(f"{name} is an address that begins with https://, without user and password")
    if clean(text, scrub) != text:
        raise Rejected(f"{name} has a secret or personal data in it, which is not stored: leave that part out")
    return text


def _is_https(text: str) -> bool:
    if not re.fullmatch(r"https://[^\s\\\x00-\x20\x7f-\x9f\"'<>`]+", text, re.IGNORECASE):
        return False
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False


Named = Annotated[str, msgspec.Meta(max_length=NAME_CHARS)]


class NewMark(msgspec.Struct, forbid_unknown_fields=True):
    """Something that happened at a time, by default now, such as a deploy; with `service`, to that service alone."""

    text: Annotated[str, msgspec.Meta(pattern=r"\S", max_length=500)]
    time: Annotated[str, msgspec.Meta(max_length=80)] = "now"
    service: Named = ""
    version: Named = ""
    url: Annotated[str, msgspec.Meta(max_length=2000)] = ""


def add_mark(store: Writes, said: NewMark, scrub: Scrub, now_ns: int) -> Row:
    """The mark as it is stored; the same one again changes nothing. The oldest go, so that 10,000 stay.

    Raises Rejected and BadParameter.
    """
    row: Row = {
        "time_ns": time_ns("time", said.time, now_ns),
        "text": clean(said.text.strip(), scrub),
        "service": clean(said.service, scrub) or None,
        "version": clean(said.version, scrub) or None,
        "url": https("url", said.url, scrub) or None,
    }
    row = {"mark_id": _id(*row.values()), **row}
    project = PROJECT.get()
    store.execute_all(
        [
            (
                "insert or replace into time_marks values"
                " ($project, $mark_id, $time_ns, $text, $service, $version, $url)",
                row | {"project": project},
            ),
            (
                "delete from time_marks where project is not distinct from $project and mark_id not in"
                " (select mark_id from time_marks where project is not distinct from $project"
                " order by time_ns desc, mark_id limit $most)",
                {"most": MOST_MARKS, "project": project},
            ),
        ]
    )
    return row


def marks(store: Writes, start_ns: int, until_ns: int, service: str) -> list[Row]:
    """The marks of a range, oldest first; with a service, its own and those that concern all."""
    return store.rows(
        "select * exclude (project) from time_marks where time_ns >= $start and time_ns < $until"
        " and ($service = '' or coalesce(service, $service) = $service) order by time_ns, mark_id",
        {"start": start_ns, "until": until_ns, "service": service},
    )


def remove_mark(store: Writes, mark_id: str) -> None:
    """Raises Rejected 404 where there is none."""
    _remove(store, "time_marks", "mark_id", mark_id, "mark")


class NewView(msgspec.Struct, forbid_unknown_fields=True):
    """A page of the dashboard with the query of its address, under a name."""

    name: Annotated[str, msgspec.Meta(pattern=r"\S", max_length=80)]
    page: Annotated[str, msgspec.Meta(pattern="^[a-z]{1,40}$")]
    query: Annotated[str, msgspec.Meta(max_length=4000)] = ""


def save_view(store: Writes, said: NewView, scrub: Scrub, now_ns: int) -> Row:
    """The view as it is stored, instead of another one of this name. Raises Rejected."""
    name = clean(said.name.strip(), scrub)
    row: Row = {
        "view_id": _id(name), "name": name, "page": said.page, "query": clean(said.query.removeprefix("?"), scrub),
        "saved_ns": now_ns,
    }  # fmt: skip
    others = store.rows("select count(*) as n from views where view_id != $view_id", {"view_id": row["view_id"]})
    if others[0]["n"] >= MOST_VIEWS:
        raise Rejected(f"there are {MOST_VIEWS} views, and no more are kept: remove one first")
    store.execute(
        "insert or replace into views values ($project, $view_id, $name, $page, $query, $saved_ns)",
        row | {"project": PROJECT.get()},
    )
    return row


def views(store: Writes) -> list[Row]:
    """The saved views by name."""
    return store.rows("select * exclude (project) from views order by lower(name), name")


def remove_view(store: Writes, view_id: str) -> None:
    """Raises Rejected 404 where there is none."""
    _remove(store, "views", "view_id", view_id, "view")


def _remove(store: Writes, table: str, key: str, value: str, what: str) -> None:
    if not store.rows(f"select 1 from {table} where {key} = $value", {"value": value}):
        raise Rejected(f"there is no {what} with the id {value[:80]!r}", 404)
    store.execute(f"delete from {table} where {key} = $value", {"value": value})


def _id(*said: object) -> str:
    project = PROJECT.get()
    return hashlib.blake2b(repr((project, said) if project else said).encode(), digest_size=8).hexdigest()
