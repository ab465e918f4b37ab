"""Which of several collectors does what only one may do: the holder of the highest term of a lease in the cluster.

ClickHouse has no compare-and-swap, but a table takes a block with a token once: a term is claimed by an insert whose
token names it, so that of several claims one is there. Ages are by the cluster's own clock. A holder that cannot renew
stops HOLDS_S after the last time that it could, and whoever waits takes over later than that, whatever the clocks of
collectors say (docs/decisions/0034-collectors-of-a-cluster.md).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from collector.cluster.client import Cluster

NAME = "alerts"
RENEW_S = 8.0
HOLDS_S = 18.0  # after the renewal began; one that is older is not renewed, but a new term claimed
TAKEN_OVER_S = 40.0  # more than twice HOLDS_S
PATIENCE_S = 5.0  # and one attempt: the next is a moment away
LAST = """
  select term, holder, released, (toUnixTimestamp64Nano(now64(9)) - toInt64(version)) / 1e9 as age_s
  from leases_rows final where name = {name:String} order by term desc limit 1
"""


class Lease:
    """For one thread, but `held`. Methods raise Unavailable or ClusterError."""

    def __init__(self, cluster: Cluster, me: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self.me = me
        self._clock = clock
        self._until = self._renewed = -HOLDS_S
        self.holder = ""  # as it was last seen

    def held(self) -> bool:
        """Whether this collector is the holder, and nobody else can be."""
        return self._clock() < self._until

    def turn(self) -> None:
        """Renews it, takes it over if it is due, or sees who holds it. To be called every few seconds."""
        began = self._clock()
        if self.held() and began - self._renewed < RENEW_S:
            return
        last = self._last()
        mine = bool(last) and last["holder"] == self.me
        if mine and not last["released"] and last["age_s"] <= HOLDS_S:
            self._write(last["term"], uuid.uuid4().hex)
        elif not last or last["released"] or mine or last["age_s"] > TAKEN_OVER_S:
            self._write(last.get("term", 0) + 1, "claim")
        else:
            self._seen(last, self._clock() - HOLDS_S)
            return
        self._seen(self._last(), began)

    def release(self) -> None:
        """Lets another one take it at once."""
        if self.held():
            self._until = self._clock()
            last = self._last()
            if last.get("holder") == self.me:
                self._write(last["term"], "released", released=1)

    def _seen(self, last: dict[str, Any], began: float) -> None:
        self.holder = last.get("holder", "")
        mine = self.holder == self.me and not last["released"]
        self._renewed, self._until = began, began + HOLDS_S if mine else self._clock()

    def _last(self) -> dict[str, Any]:
        rows = self._cluster.rows(LAST, {"name": NAME}, timeout_s=PATIENCE_S, tries=1)
        return rows[0] if rows else {}

    def _write(self, term: int, token: str, released: int = 0) -> None:
        row = {"name": NAME, "term": term, "holder": self.me, "released": released}
        self._cluster.insert("leases_rows", [row], f"lease/{NAME}/{term}/{token}", timeout_s=PATIENCE_S)
