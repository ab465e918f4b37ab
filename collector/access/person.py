"""A token that asks for a person, as the dashboard's does: its headers narrow what it may do, and never widen it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

from collector.access.file import NAME
from collector.access.rights import ADMIN, FOR_PERSON, FOR_PROJECT, FOR_RIGHTS, INGEST, MAINTAIN, Access
from collector.errors import Rejected

MOST = 200  # characters of a person's name


def narrowed(access: Access, headers: Mapping[str, str], right: str) -> Access:
    """The access of the person for whom these headers ask; `access` where they name nobody and nothing.

    Raises Rejected 400 for a name that is none, 403 where the token or the person lacks the right or the project.
    """
    given = [headers.get(name) for name in (FOR_PERSON, FOR_PROJECT, FOR_RIGHTS)]
    if given == [None, None, None] or right == INGEST:  # what is sent is of the token's project, whatever is said
        return access
    person, project, rights = given
    who = unquote(person or "") or access.name
    if len(who) > MOST or not who.isprintable():
        raise Rejected(f"{FOR_PERSON.title()} is no name: send up to {MOST} printable characters, percent-encoded")
    if project and not NAME.match(project):
        raise Rejected(f"{FOR_PROJECT.title()} is no name of a project")
    if project and access.project not in (None, project):
        raise Rejected(f"this token is for {access.project!r} alone", 403)
    allowed = _both(access.rights, rights)
    if right not in allowed:
        raise Rejected(f"{who or 'the person'} lacks the right {right!r}", 403)
    via = access.via if who == access.name else access.name or "unnamed"
    return replace(access, name=who, rights=allowed, project=project or access.project, via=via)


def _both(rights: frozenset[str], given: str | None) -> frozenset[str]:
    if given is None:
        return rights
    both = rights.intersection(word.strip() for word in given.split(","))
    return both | (rights & {MAINTAIN}) if ADMIN in both else both - {MAINTAIN}
