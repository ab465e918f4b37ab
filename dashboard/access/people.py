"""Who looks at the pages: the signed-in person, and what that person's groups may see and do.

Groups are those that the identity provider tells in a claim. `[misstep.groups]` of Streamlit's secrets.toml says what
each may: the collector is asked with the dashboard's own token, and with headers that narrow it to that.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import streamlit as st

from dashboard.access import grants

FRESH_S = 86_400  # after so long a person whose groups count signs in again, so that a lost group is noticed
NAMES = ("email", "preferred_username", "name", "sub")  # claims that say who it is; the first that is there
CHOSEN = "project-chosen"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who looks at the pages; without a name one of all who share them. `rights` None: the token's."""

    name: str = ""
    project: str = ""
    rights: tuple[str, ...] | None = None

    def headers(self) -> dict[str, str]:
        """What narrows a request of the dashboard's token to this person."""
        if not self.name:
            return {}
        found = {"X-Misstep-Person": quote(self.name, safe="@.")}
        if self.project:
            found["X-Misstep-Project"] = self.project
        if self.rights is not None:
            found["X-Misstep-Rights"] = ",".join(self.rights)
        return found


def person() -> Person:
    """Who looks at this page. Raises grants.NotGranted for somebody who may see nothing."""
    claims = claimed()
    if not claims:
        return Person()
    name = next((str(claims[claim]) for claim in NAMES if claims.get(claim)), "somebody")
    found = allowed(claims)
    if found is None:
        return Person(name)
    if not found:
        raise grants.NotGranted(name)
    chosen = st.session_state.get(CHOSEN)
    project = chosen if chosen in found else next(iter(found))
    return Person(name, project, found[project])


def projects() -> list[str]:
    """The projects between which the person can choose; "" is all of them."""
    return list(allowed(claimed()) or ())


def claimed() -> Mapping[str, Any]:
    """What the provider says of the person; empty where nobody has signed in."""
    return st.user.to_dict() if st.user.get("is_logged_in") else {}


def allowed(claims: Mapping[str, Any]) -> dict[str, tuple[str, ...]] | None:
    """The projects of the person with the rights in each; None where groups do not count."""
    section = _section()
    return None if section is None else grants.of_person(claims, section)


def stale(claims: Mapping[str, Any]) -> bool:
    """Whether somebody whose groups count has signed in too long ago."""
    try:
        return _section() is not None and float(claims["iat"]) + FRESH_S < time.time()
    except (KeyError, TypeError, ValueError):
        return True


def choice(names: Iterable[str]) -> None:
    """A menu of the projects that the person can look at, where there are several."""
    options = list(names)
    if len(options) > 1:
        st.selectbox("Project", options, key=CHOSEN, format_func=lambda name: name or "all projects")


def _section() -> Mapping[str, Any] | None:
    section = st.secrets["misstep"] if st.secrets.load_if_toml_exists() and "misstep" in st.secrets else None
    return section if isinstance(section, Mapping) and "groups" in section else None
