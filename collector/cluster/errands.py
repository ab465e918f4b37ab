"""What every collector of a cluster does once when any of them is asked to: forgetting and sanitising reach rows of all
local stores. One that was away, or killed in the middle, does it when it is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from collector.cluster.files import Remembers
from collector.cluster.shared import Shared
from collector.errors import Rejected
from collector.seldom import Seldom
from collector.times import SECOND

KIND, DONE = "errands", "errands_done"  # in shared_rows; of the second, keys are `name collector`
AGAIN_NS = 2 * SECOND  # after the first attempt; twice as long after each further one
SELDOM_NS = 60 * SECOND  # at most

log = structlog.get_logger()


class Runs(Protocol):
    """What does an errand: collector.api.runs.Runs."""

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""

    def run(self, at_ns: int) -> None:
        """Begins a run for what was asked at this time, unless one is in progress. Raises Rejected."""


class Errands:
    """`ask` and `done` are for any thread, the others for that of Sharing."""

    def __init__(self, shared: Shared, meta: Remembers, me: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._shared, self._meta, self._me, self._clock = shared, meta, me, clock
        self._runs: dict[str, Runs] = {}
        self._asked: dict[str, int] = {}  # by name, when
        self._pause: dict[str, int] = {}  # after the last attempt
        self._due: dict[str, int] = {}  # when the next one may be
        self._seldom = Seldom()

    def join(self, name: str, runs: Runs) -> None:
        """Says who does the errands of a name."""
        self._runs[name] = runs

    def ask(self, name: str) -> int:
        """Asks all collectors, this one too; returns when. Raises Unavailable."""
        at_ns = self._clock()
        self._postpone(name, at_ns)  # who asks begins by itself
        self._shared.put(KIND, [(name, {"at_ns": at_ns})])
        return at_ns

    def take(self, rows: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Takes what was asked of any."""
        self._asked |= {name: row["at_ns"] for name, row in rows.items() if row and name in self._runs}

    def look(self) -> None:
        """Begins what is not done yet; what fails or cannot begin, as a rule waits for a restart, is tried again."""
        now = self._clock()
        for name, at_ns in self._asked.items():
            if at_ns > self._done_ns(name) and now >= self._due.get(name, 0) and not self._runs[name].busy:
                self._postpone(name, now)
                self._begin(name, at_ns)

    def done(self, name: str, at_ns: int) -> None:
        """What was asked until then is done here. Raises Unavailable where the others cannot be told."""
        self._shared.put(DONE, [(f"{name} {self._me}", {"at_ns": at_ns})])
        self._meta.put(_remembered(name), str(at_ns))
        self._pause.pop(name, None)
        self._due.pop(name, None)

    def _begin(self, name: str, at_ns: int) -> None:
        try:
            self._runs[name].run(at_ns)
        except Rejected as error:
            if self._seldom.due(f"{name}: {error}"):
                log.error("this collector cannot do what another one was asked", what=name, error=str(error)[:300])

    def _postpone(self, name: str, now: int) -> None:
        self._pause[name] = min(2 * self._pause[name], SELDOM_NS) if name in self._pause else AGAIN_NS
        self._due[name] = now + self._pause[name]

    def _done_ns(self, name: str) -> int:
        return int(self._meta.value(_remembered(name)) or 0)


def _remembered(name: str) -> str:
    return f"{name} done"
