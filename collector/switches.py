"""What agents leave untold, and the settings that tell it, from `schemas/switches.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from collector.tables import load_toml, schemas

NEVER = 0.05  # a fact counts as left out if a smaller share of the events has it
RECORD = "record"  # the arrival that rows of `schemas/sources/` notice


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent keeps settings: `files` in order of preference, their format, and the agent's command."""

    files: tuple[str, ...] = ()
    format: str = "json"
    command: str = ""


@dataclass(frozen=True, slots=True)
class Switch:
    """One setting; `settings` are its values by path of keys, in the agent's place or in one of its own."""

    name: str
    setting: str
    privacy: str
    arrival: str
    settings: Mapping[str, Any]
    default: bool
    place: Place | None
    raw: tuple[str, ...]

    def shows(self, coverage: Mapping[str, float | None], seen: frozenset[str]) -> bool | None:
        """Whether it shows in what a sender sent; None if there is nothing yet in which it could."""
        if self.arrival == RECORD:
            return self.name in seen
        share = coverage.get(self.arrival)
        return None if share is None else share >= NEVER


@dataclass(frozen=True, slots=True)
class Untold:
    """One thing that an agent does not tell, and the alternatives that tell it."""

    what: str
    switches: tuple[Switch, ...]


@dataclass(frozen=True, slots=True)
class Connect:
    """What `misstep connect` puts into an agent's settings."""

    place: Place
    note: str
    settings: Mapping[str, Any]
    token: Mapping[str, Any]
    token_in_shell: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent of the table; `page` is in `docs/agents/`."""

    source: str
    page: str
    untold: tuple[Untold, ...]
    connect: Connect | None = field(default=None)

    def command(self, switch: Switch) -> str:
        """The command that sets a switch; empty if `misstep connect` cannot."""
        return f"misstep connect {self.source} --with {switch.name}" if self.connect and switch.settings else ""

    def checked(self, coverage: Mapping[str, float | None], seen: frozenset[str]) -> Iterator[tuple[Untold, str]]:
        """Facts that the agent leaves out by default, and whether a sender reports each: `told`, `missing`,
        `waiting` where no call has come that could show it, `unseen` where no telemetry can.
        """
        waits = coverage.get("parameters") is None
        for each in self.untold:
            shown = [switch.shows(coverage, seen) for switch in each.switches if switch.arrival]
            if not shown:
                yield each, "unseen"
            elif any(shown):
                yield each, "told"
            else:
                yield each, "waiting" if waits or None in shown else "missing"


@cache
def agents() -> Mapping[str, Agent]:
    """The agents of the table by their source."""
    return {row["source"]: _agent(row) for row in load_toml(schemas().joinpath("switches.toml"))["agents"]}


def _agent(row: Mapping[str, Any]) -> Agent:
    untold = tuple(
        Untold(each["what"], tuple(_switch(switch) for switch in each.get("switches", ()))) for each in row["untold"]
    )
    return Agent(row["source"], row["page"], untold, _connect(row["connect"]) if "connect" in row else None)


def _switch(row: Mapping[str, Any]) -> Switch:
    return Switch(
        row["name"],
        row["setting"],
        row["privacy"],
        row.get("arrival", ""),
        row.get("settings", {}),
        row.get("connect") == "default",
        _place(row["connect_in"]) if "connect_in" in row else None,
        tuple(row.get("raw", ())),
    )


def _place(row: Mapping[str, Any]) -> Place:
    return Place(tuple(row.get("files", ())), row["format"], row.get("command", ""))


def _connect(row: Mapping[str, Any]) -> Connect:
    return Connect(_place(row), row["note"], row["settings"], row.get("token", {}), row.get("token_in_shell", {}))
