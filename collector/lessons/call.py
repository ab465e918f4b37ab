"""A failed call and the calls that followed it, as lessons are found in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool. `names` are those of its parameters; `seconds` how long after the failed call it ended."""

    tool: str
    outcome: str
    tool_kind: str | None = None
    target: str | None = None
    names: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed or was denied. `following`: the successes among the next calls of its session and sub-agent,
    in order, where they were asked for.

    `scope` is the repository, else the service. `tokens` and `cost_usd` are those of the model request that asked for
    it, None where they are not told; `duration_ms` is the call's own.
    """

    event_id: int
    time_ns: int
    scope: str
    session: str
    call: Call
    error_class: str | None
    service: str | None = None
    source: str | None = None
    model: str | None = None
    mcp_server: str | None = None
    message: str | None = None
    duration_ms: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    following: tuple[Call, ...] = ()
    project: str | None = None


def failure(row: Mapping[str, Any]) -> Failure:
    """A row of `failed_calls.sql`."""
    return Failure(
        row["event_id"],
        row["time_ns"],
        row["scope"],
        row["session"],
        call(row),
        row["error_class"],
        row["service"],
        row["source"],
        row["model"],
        row["mcp_server"],
        row["message"],
        row["duration_ms"],
        row["tokens"],
        row["cost_usd"],
        project=row["project"],
    )


def call(row: Mapping[str, Any]) -> Call:
    """A row of `following.sql`, or what a row of `failed_calls.sql` says of the call itself."""
    names: Sequence[str] = row["names"] or ()
    seconds = row.get("seconds") or 0.0
    return Call(row["tool"] or "", row["outcome"], row["tool_kind"], row["target"], tuple(sorted(names)), seconds)
