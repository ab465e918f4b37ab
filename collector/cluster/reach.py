"""What only the cluster has, brought back into the local store where it is to be forgotten or sanitised again: there it
is changed and computed as ever, published, and removed by retention. Old versions then go from the cluster's disks.

A collector takes what it published itself, and what those published that are gone: the others do theirs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import quote

from collector.cluster.client import Cluster, ClusterError
from collector.cluster.errands import DONE, KIND
from collector.cluster.files import KIND as FILES
from collector.cluster.tables import SHARDED, VERSIONED, home_of
from collector.columns import Row
from collector.engine import BroughtBack
from collector.times import DAY, HOUR

Item = TypeVar("Item")
SLICE = 2_000  # events
SESSIONS = 200
NAMES = 16_000  # bytes of names in an address, which has at most 64 KiB (httpx)
PAUSE_S = 0.2  # between looks whether all is published
PATIENCE_S = 60.0
TIDYING_S = 1_800.0  # for a day to become one part
IN_USE = frozenset((384, 388))  # codes of ClickHouse: a part is merged or changed just now
TIME = {"events": "time_ns", "kept_streaks": "started", "kept_chains": "time_ns"}
OWN = "(collector = {me:String} or collector not in (select collector from collectors))"
IMPORTED = "provenance in ('transcript', 'both') and received_ns <= {until:Int64}"
IMPORTED_SESSIONS = f"select distinct session from events_rows final where {IMPORTED} and {OWN} and session is not null"
IMPORTED_ALONE = f"select event_id, time_ns from events_rows final where {IMPORTED} and {OWN} and session is null"
BOUNDS = f"""
  select session, min(time_ns) as low, max(time_ns) as high from events_rows final
  where session in {{sessions:Array(String)}} and {OWN} group by session order by low
"""
HOURS = f"""
  select intDiv(time_ns, {{hour:Int64}}) as hour, count() as n from events_rows final where {OWN}
  group by hour order by hour
"""
SLICED = """
  select {columns} from events_rows final
  where time_ns >= {{low:Int64}} and time_ns < {{high:Int64}}
    and event_id % {{of:UInt64}} = {{number:UInt64}} and {own}
"""
BROUGHT = """
  select {columns} from {table}_rows final
  where {time} between {{low:Int64}} and {{high:Int64}} and {own} and (session in {{sessions:Array(String)}} {alone})
"""
ALONE = "or (session is null and event_id in {ids:Array(UInt64)})"
PUBLISHED_DAYS = """
  select distinct intDiv({time}, {{day:Int64}}) as day from {table}_rows
  where collector = {{me:String}} and version >= {{since:UInt64}}
"""
# Tables with texts, but for those that are computed of events; files are sealed.
TEXTS = """
  select table, name from system.columns
  where database = currentDatabase() and type like '%String%' and table in {tables:Array(String)}
    and type not like 'Array%' and name not in ('collector', 'about', 'kind') order by table, position
"""
SMALL = (
    "senders_rows", "kept_newest_rows", "alert_samples_rows", "shared_rows", "group_marks_rows", "lesson_marks_rows",
    "time_marks_rows", "views_rows",
)  # fmt: skip
UNTOUCHED = {"shared_rows": f"kind not in ('{FILES}', '{KIND}', '{DONE}')"}


class Reach:
    """For the writer's thread. Methods raise Unavailable and ClusterError."""

    def __init__(
        self, cluster: Cluster, store: BroughtBack, me: str, published: Callable[[], Callable[[], bool]]
    ) -> None:
        """`published` returns what says whether all that was noted until then is published."""
        self._cluster, self._store, self._me, self._published = cluster, store, me, published
        self._since = time.time_ns()

    def imported(self, until_ns: int) -> Iterator[None]:
        """Brings back the sessions with events that were imported until then, a part at a time."""
        given = {"until": until_ns, "me": self._me}
        sessions = [row["session"] for row in self._rows(IMPORTED_SESSIONS, given)]
        for some in named(sessions, str):
            self._bring_sessions(some)
            yield
        for events in _parts(self._rows(IMPORTED_ALONE, given), SLICE):
            self._bring_alone(events)
            yield

    def count(self) -> int:
        """The events that `slices` gives."""
        return sum(row["n"] for row in self._hours())

    def slices(self) -> Iterator[list[Row]]:
        """All events, some thousand at a time; of an hour with more, those of some ids."""
        names = ", ".join(f"`{name}`" for name in columns_of(self._cluster, self._store, "events"))
        for low, high, parts in _spans(self._hours()):
            for number in range(parts):
                given = {"low": low * HOUR, "high": high * HOUR, "of": parts, "number": number, "me": self._me}
                yield self._rows(SLICED.format(columns=names, own=OWN), given)

    def bring(self, events: Sequence[Row]) -> None:
        """Brings back the sessions of these events, and those without a session."""
        sessions = sorted({event["session"] for event in events if event["session"] is not None})
        if sessions:
            self._bring_sessions(sessions)
        if alone := [event for event in events if event["session"] is None]:
            self._bring_alone(alone)

    def texts(self, clean: Callable[[str, str], str]) -> int:
        """Replaces texts of the small tables by what `clean` makes of column and text; returns how many."""
        replaced = 0
        for row in self._cluster.rows(TEXTS, {"tables": list(SMALL)}):
            table, name = row["table"], row["name"]
            where = UNTOUCHED.get(table, "true")
            told = f"select distinct toString(`{name}`) as text from {table} where `{name}` != '' and {where}"
            for text in [each["text"] for each in self._rows(told, {})]:
                if (new := clean(name, text)) != text:
                    self._replace(table, name, where, text, new)
                    replaced += 1
        return replaced

    def caught_up(self) -> Iterator[None]:
        """Waits until what was changed is published."""
        published = self._published()
        while not published():
            time.sleep(PAUSE_S)
            yield

    def tidied(self) -> Iterator[None]:
        """Removes earlier versions of what this run has published, and marks of what is gone."""
        for table in VERSIONED:
            days = PUBLISHED_DAYS.format(table=table, time=TIME[table])
            given = {"day": DAY, "me": self._me, "since": self._since}
            for row in self._rows(days, given):
                yield from self._tidied(f"{table}_rows", row["day"])

    def _tidied(self, table: str, day: int) -> Iterator[None]:
        """Makes a day one part, in which each place has its last version; what is gone then needs no mark."""
        home = home_of(self._cluster, table) if table in SHARDED else table
        for statement in (
            f"optimize table {home} partition {day} final",
            f"alter table {home} delete in partition {day} where gone = 1",
        ):
            until = time.monotonic() + TIDYING_S
            while not self._taken(statement, last=time.monotonic() >= until):
                time.sleep(PAUSE_S)
                yield
            yield

    def _taken(self, statement: str, *, last: bool) -> bool:
        """Runs it, unless the day is merged or changed just now, for another collector that does the same."""
        given = {"optimize_throw_if_noop": "1", "mutations_sync": "2", "alter_sync": "2"}
        try:
            self._cluster.run(statement, settings=given, timeout_s=TIDYING_S)
        except ClusterError as error:
            if error.code not in IN_USE or last:
                raise
            return False
        return True

    def _replace(self, table: str, name: str, where: str, text: str, new: str) -> None:
        asked = {"text": text, "new": new}
        token = {"insert_deduplication_token": uuid.uuid4().hex}
        copied = f"insert into {table} select * replace ({{new:String}} as `{name}`) from {table} as old"
        self._cluster.run(f"{copied} where old.`{name}` = {{text:String}} and {where}", asked, settings=token)
        self._cluster.run(
            f"alter table {table} delete where `{name}` = {{text:String}} and {where}",
            {"text": text},
            settings={"mutations_sync": "2"},
            timeout_s=PATIENCE_S,
        )

    def _bring_sessions(self, sessions: Sequence[str]) -> None:
        asked = ({"sessions": some, "me": self._me} for some in named(sessions, str))
        bounds = sorted((row for each in asked for row in self._rows(BOUNDS, each)), key=itemgetter("low"))
        for some in named(bounds, itemgetter("session")):
            given = {
                "sessions": [row["session"] for row in some], "me": self._me,
                "low": min(row["low"] for row in some), "high": max(row["high"] for row in some),
            }  # fmt: skip
            self._bring(VERSIONED, "", given)

    def _bring_alone(self, events: Collection[Row]) -> None:
        times = [event["time_ns"] for event in events]
        ids = [event["event_id"] for event in events]
        given = {"sessions": [], "ids": ids, "me": self._me, "low": min(times), "high": max(times)}
        self._bring(("events",), ALONE, given)

    def _bring(self, tables: Iterable[str], alone: str, given: Mapping[str, Any]) -> None:
        for table in tables:
            names = ", ".join(f"`{name}`" for name in columns_of(self._cluster, self._store, table))
            sql = BROUGHT.format(columns=names, table=table, time=TIME[table], own=OWN, alone=alone)
            with self._cluster.stream(sql, given, timeout_s=PATIENCE_S) as told:
                self._store.bring_back(table, b"".join(told))

    def _hours(self) -> list[Row]:
        return self._rows(HOURS, {"hour": HOUR, "me": self._me})

    def _rows(self, sql: str, given: Mapping[str, Any]) -> list[Row]:
        return self._cluster.rows(sql, given, timeout_s=PATIENCE_S)


def columns_of(cluster: Cluster, store: BroughtBack, table: str) -> list[str]:
    """The columns that both have, dimensions too."""
    told = cluster.rows(
        "select name from system.columns where database = currentDatabase() and table = {table:String}",
        {"table": table},
    )
    known = store.columns(table)
    return [row["name"] for row in told if row["name"] in known]


def named(items: Iterable[Item], name: Callable[[Item], str]) -> Iterator[list[Item]]:
    """The items in lists of which three have room in one question: names are in its address."""
    some: list[Item] = []
    size = 0
    for item in items:
        size += (one := len(quote(name(item))) + len("%27%27%2C"))
        if some and (size > NAMES or len(some) >= SESSIONS):
            yield some
            some, size = [], one
        some.append(item)
    if some:
        yield some


def _parts(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    left = iter(items)
    while some := list(islice(left, most)):
        yield some


def _spans(hours: Iterable[Row]) -> Iterator[tuple[int, int, int]]:
    """Hours from and until which, and in how many parts, about SLICE events are read at a time."""
    seen = 0

    def number(row: Row) -> int:
        nonlocal seen
        seen += row["n"]
        return int((seen - 1) // SLICE)

    for _, group in groupby(hours, number):
        some = list(group)
        yield some[0]["hour"], some[-1]["hour"] + 1, 1 + sum(row["n"] for row in some) // (2 * SLICE)
