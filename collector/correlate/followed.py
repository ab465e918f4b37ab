"""What the rules of streaks and retry chains need of the events of a session, one after the other."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple


class Call(NamedTuple):
    """An event, of any operation; None where nothing is known."""

    event_id: int
    time_ns: int
    received_ns: int
    sequence: int  # the largest number if it has none
    operation: str | None
    outcome: str | None
    mistake: bool | None
    error_class: str | None
    reported_streak: int | None
    params_hash: int | None
    retry_after_ms: int | None
    duration_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    subagent: str | None
    tool: str | None
    target: str | None
    acted_on: str | None  # its target, if the call itself named it
    asked_by: int | None
    row: int  # where the engine has it during this turn


class Heard:
    """When the last record since a place in the session was received, whatever the order of receiving."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._times: list[int] = []  # each the latest since the place before; so they fall

    def note(self, place: int, received_ns: int) -> None:
        """The next event."""
        while self._times and self._times[-1] <= received_ns:
            self._times.pop()
            self._places.pop()
        self._places.append(place)
        self._times.append(received_ns)

    def since(self, place: int) -> int:
        """The latest of the events at or after a place, of which there is one."""
        return self._times[bisect_left(self._places, place) if len(self._places) > 1 else 0]
