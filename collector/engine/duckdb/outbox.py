"""What a cluster lacks of a store, in numbered turns: the rows of the places that are noted as they are now, and a
tombstone for each place that is empty. A turn is due until it is `done`; after a restart it is taken again, with a
higher number, so that the last word on each place is the store's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from collector.columns import TABLES
from collector.engine import Turn
from collector.engine.duckdb.meta import Meta
from collector.engine.duckdb.notes import note_all
from collector.engine.duckdb.open import DATABASE
from collector.engine.duckdb.store import CLUSTER, Store
from collector.times import HOUR

CEILING = "turn"  # in `meta`
ALL = ("events", "kept_streaks", "kept_chains", "redirects")
TAKE = """
  update unpublished set turn = $turn
  where rowid in (select rowid from unpublished where turn is null order by rowid limit $most)
"""
ABOUT = """
  select about, min(time_ns) as low, max(time_ns) as high from unpublished where turn = $turn group by about
"""
NEWEST = """
  select project, service, max(time_ns) as time_ns from unpublished where turn = $turn and about = 'events' group by all
"""
REDIRECTS = """
  select r.*, $turn as version, 0::utinyint as gone from redirects r
  where old_id in (select event_id from unpublished where turn = $turn and about = 'redirects')
"""
SENDERS = """
  select $collector as collector, $now as version, 0::utinyint as gone, project, about, source, service, name, sign,
    first_ns, last_ns, metrics, kept, signs, records
  from (
    select *, 'seen' as about, '' as name, '' as sign, null::double as kept, null::varchar as signs,
      null::bigint as records from seen
    union all by name select *, 'sampled' as about, '' as name, '' as sign from sampled
    union all by name select *, 'switches' as about, '' as sign from switches
    union all by name select * exclude (scope), 'unread' as about, scope as name from unread
  )
  where last_ns >= $since
"""


class Outbox:
    """For one thread. Numbers are nanoseconds and never come twice, whatever the clock does."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._meta = Meta(store)
        self._clock = clock
        self._number = self._ceiling = 0
        self.collector = ""

    def open(self, place: str) -> None:
        """Begins with a cluster, of which `place` is a name: another one than before lacks everything."""
        self.collector = self._meta.collector()
        self._number = int(self._meta.value(CEILING) or 0)
        self._store.execute("update unpublished set turn = null where turn is not null")
        if self._meta.value(CLUSTER) != place:
            with self._store.transaction() as cursor:
                note_all(cursor, *ALL)
            self._meta.put(CLUSTER, place)

    def take(self, most: int) -> Turn | None:
        """The next turn, of at most so many places; None if the cluster lacks nothing."""
        if self._store.rebuilding or not self._store.rows("select 1 from unpublished where turn is null limit 1"):
            return None
        number = self._next_number()
        self._store.execute(TAKE, {"turn": number, "most": most})
        return self._turn(number)

    def done(self, turn: Turn) -> None:
        """The turn is published."""
        self._store.execute("delete from unpublished where turn = $turn", {"turn": turn.number})

    def pending(self) -> int:
        """How many places wait."""
        return self._store.count("unpublished")

    def senders(self, since_ns: int) -> bytes:
        """The small tables about senders, of what was noted since then, as Arrow; empty if there is nothing."""
        given = {"collector": self.collector, "now": self._next_number(), "since": since_ns}
        return self._store.arrow(SENDERS, given) if self._store.rows(f"{SENDERS} limit 1", given) else b""

    def _next_number(self) -> int:
        self._number = max(self._clock(), self._number + 1)
        if self._number > self._ceiling:  # numbers below the ceiling are only used once it is durable
            self._ceiling = self._number + HOUR
            self._meta.put(CEILING, str(self._ceiling))
        return self._number

    def _turn(self, number: int) -> Turn:
        about = {row["about"]: row for row in self._store.rows(ABOUT, {"turn": number})}
        given: dict[str, Any] = {"turn": number, "collector": self.collector, "now": number}
        blocks = {}
        for table, statement in self._statements().items():
            if noted := about.get(table):
                blocks[table] = self._store.arrow(statement, given | {"low": noted["low"], "high": noted["high"]})
        if "events" in about:
            blocks["kept_newest"] = self._store.arrow(NEWEST, given)
        return Turn(number, blocks)

    def _statements(self) -> Mapping[str, str]:
        return {
            "events": _sql("turn_events", columns=_columns(self._store.dimensions)),
            "kept_streaks": _sql("turn_streaks"),
            "kept_chains": _sql("turn_chains"),
            "redirects": REDIRECTS,
        }


def forget_cluster(store: Store) -> None:
    """Notes nothing any longer: a cluster that is named later lacks everything."""
    store.publishing = False
    with store.transaction() as cursor:
        cursor.execute("delete from unpublished")
        cursor.execute("delete from meta where name = ?", [CLUSTER])


def _columns(dimensions: Sequence[str]) -> str:
    """The columns of an event, JSON as text."""
    kinds = TABLES["events"] | dict.fromkeys(dimensions, "varchar")
    casts = {"json": "::varchar"}
    return ", ".join(f'"{name}"{casts.get(kind, "")} as "{name}"' for name, kind in kinds.items())


def _sql(name: str, **parts: str) -> str:
    text = resources.files("collector.engine.duckdb").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return text.format(database=DATABASE, **parts)
