"""What the groups of a person allow: `[misstep]` of secrets.toml, checked at the start and read for each page."""

import re
from collections.abc import Mapping
from typing import Any

RIGHTS = ("read", "alerts", "admin")
PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}")  # as for tokens
CLAIM = "groups"


class NotGranted(Exception):
    """No group of this person may see anything."""


def of_person(claims: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The projects of a person with the rights in each, by name; "" is all projects, and comes first.

    What is written wrong gives nothing.
    """
    found: dict[str, set[str]] = {}
    for group in _groups(claims, str(section.get("groups_claim") or CLAIM)):
        row = section["groups"].get(group) if isinstance(section.get("groups"), Mapping) else None
        if row is not None and not mistake(group, row):
            found.setdefault(row.get("project", ""), set()).update(row["rights"])
    return {
        project: tuple(right for right in RIGHTS if right in rights)
        for project, rights in sorted(found.items())
        if "read" in rights
    }


def mistake(group: str, row: Any) -> str:
    """What is wrong with a group's row; empty if nothing is."""
    place = f"[misstep.groups.{group}] of .streamlit/secrets.toml"
    if not isinstance(row, Mapping):
        return f"{place}: write rights, and maybe project"
    if strange := sorted(row.keys() - {"project", "rights"}):
        return f"{place}: {strange[0]} is nothing that a group has; write project and rights"
    project, rights = row.get("project", ""), row.get("rights")
    if not isinstance(project, str) or (project and not PROJECT.fullmatch(project)):
        return f"{place}: project is no name; write letters, digits, _ . @ and -, or leave it out for all projects"
    if not isinstance(rights, list | tuple) or not rights or not set(rights) <= set(RIGHTS):
        return f'{place}: rights is no list of some of {", ".join(RIGHTS)}; write rights = ["read"]'
    if "read" not in rights:
        return f"{place}: rights lack read, without which no page shows anything"
    return ""


def _groups(claims: Mapping[str, Any], claim: str) -> list[str]:
    """The texts in a claim, whose name may lead into claims within claims: realm_access.roles."""
    value: Any = claims.get(claim)
    if value is None:
        value = claims
        for part in claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return [value]
    return [group for group in value if isinstance(group, str)] if isinstance(value, list | tuple) else []
