"""What correlation looks up in the store because it is no longer in memory."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import msgspec

from collector.columns import Row
from collector.correlate.changes import Named, Owned
from collector.correlate.lookup import Span, report_of
from collector.engine.duckdb.read import Reader
from collector.engine.duckdb.retention import MOST_IDENTITIES
from collector.projects import MARK
from collector.report import GUESSED, Report, as_report
from collector.times import DAY, HOUR, MINUTE

FULL = 0.9  # of the keys that may be kept: the oldest may be gone before their time

# A trace as the correlator knows it (projects.py).
TRACED = f"case when project is null then trace_id else trace_id || '{MARK}' || project end"

# All units of the nearest events that have a report near in time: many equal errors must not make each commit slow.
TWINS_NEAR = """
  with asked as (
    select unnest($identities::ubigint[]) as identity, unnest($low::bigint[]) as low, unnest($high::bigint[]) as high
  ),
  near as (
    select t.event_id from twins t join asked using (identity) where t.time_ns between low and high
    qualify row_number() over (partition by identity order by abs(2 * t.time_ns - low - high), t.unit) <= 256
    union select event_id from twins where unit in (select unnest($units::ubigint[]))
  )
  select distinct unit, event_id from twins semi join near using (event_id)
"""

# By row: where the engine compares ids it reads all columns of all rows.
REPORTS_OF = """
  select event_id, report from reports
  where rowid in (select rowid from reports where event_id in (select unnest($ids::ubigint[])))
"""
EVENTS_OF = """
  from events where rowid in (
    select rowid from events where received_ns >= $since and event_id in (select unnest($ids::ubigint[]))
  )
"""
ENDED_BETWEEN = """
  with near as (
    from events select event_id, operation, source, project, service, session, call_id, time_ns
    where time_ns between $since and $until
  )
  from near where call_id in (select unnest($calls::varchar[]))
  union from near where event_id in (select unnest($ids::ubigint[]))
"""
# Keys with more than one row first: lists of distinct events for all of them would take much memory.
SHARING = """
  with again as (
    select key from keys where key in (select key from keys where received_ns >= $since)
    group by key having count(*) > 1
  )
  select key, list(distinct coalesce(r.event_id, k.event_id)) as event_ids
  from keys k left join redirects r on r.old_id = k.event_id
  where key in (from again)
  group by key having count(distinct coalesce(r.event_id, k.event_id)) > 1
"""
MISPLACED = f"""
  with recent as (
    select distinct {TRACED} as trace_id, session from events
    where received_ns >= $since and session_source in ('trace_id', 'trace', 'instance') and trace_id is not null
    union select orphan, report->>'session' from reports where received_ns >= $since and orphan is not null
  )
  select trace_id, min((named_ns, told.session)) as named from recent join trace_session as told using (trace_id)
  group by trace_id, recent.session having min((named_ns, told.session))[2] is distinct from recent.session
"""
RETELLING = """
  select key, list(distinct trace_id) as traces from conversation_keys
  where key in (select key from conversation_keys where received_ns >= $since)
  group by key having count(distinct trace_id) > 1
"""
CONVERSATIONS = "select trace_id, min((named_ns, session)) as named from conversations"
STRAYED = f"""
  with recent as (
    select distinct {TRACED} as trace_id, session from events
    where received_ns >= $since and session_source = 'trace_id' and trace_id is not null
  ),
  named as ({CONVERSATIONS} where trace_id in (select trace_id from recent) group by trace_id)
  select trace_id from recent join named using (trace_id)
  where split_part(named.named[2], '{MARK}', 1) != recent.session
"""
NESTED = f"""
  with spans as (
    from events select event_id, {TRACED} as trace_id, span_id, parent_span_id, tool, received_ns
    where received_ns >= $since - $day and operation = 'tool' and source_signal = 'span' and span_id is not null
  )
  select i.event_id from spans i
    join spans o on o.trace_id = i.trace_id and o.span_id = i.parent_span_id
  where i.received_ns >= $since or o.received_ns >= $since
"""
NEWEST_BELOW = f"""
  from events select event_id, operation, {TRACED} as trace_id, parent_span_id, tool, time_ns
  where received_ns >= $since and source_signal = 'span' and operation in ('tool', 'model')
    and trace_id is not null and parent_span_id is not null and (tool is not null or operation = 'model')
  order by received_ns, event_id limit $most
"""
WAITING = """
  select w.key, coalesce(r.event_id, w.event_id) as event_id
  from waiting w left join redirects r on r.old_id = w.event_id
"""
ORPHANS = f"""
  select event_id, {TRACED} as trace_id from events
  where received_ns >= $since and session_source in (select unnest($guessed::varchar[])) and trace_id is not null
    and report_rank is not null -- of a single report
  union all select event_id, orphan from reports where orphan is not null
"""


class Lookup:
    """What correlation asks of the store, as `correlate.lookup.Lookup` says it."""

    def __init__(self, store: Reader) -> None:
        self._rows = store.rows

    def known_requests(self, identities: Sequence[bytes]) -> set[bytes]:
        found = self._rows(
            "select identity from requests where identity in (select unnest($ids::uuid[]))",
            {"ids": [str(uuid.UUID(bytes=identity)) for identity in identities]},
        )
        return {row["identity"].bytes for row in found}

    def known_keys(self, keys: Sequence[int]) -> dict[int, int]:
        found = self._rows(
            "select k.key, coalesce(r.event_id, k.event_id) as event_id from keys k left join redirects r"
            " on r.old_id = k.event_id where k.key in (select unnest($keys::ubigint[]))",
            {"keys": list(keys)},
        )
        return {row["key"]: row["event_id"] for row in found}

    def ended_between(
        self, since_ns: int, until_ns: int, call_ids: Sequence[str], event_ids: Sequence[int]
    ) -> list[Row]:
        asked = {"since": since_ns, "until": until_ns, "calls": list(call_ids), "ids": list(event_ids)}
        return self._rows(ENDED_BETWEEN, asked)

    def keys_kept_since(self) -> int:
        [kept] = self._rows("select count(*) as n, min(received_ns) as ns from keys")
        return kept["ns"] if kept["n"] > FULL * MOST_IDENTITIES else 0

    def known_sessions(self, traces: Sequence[str]) -> dict[str, Named]:
        found = self._rows(
            "select trace_id, min((named_ns, session)) as named from trace_session"
            " where trace_id in (select unnest($t::varchar[])) group by trace_id",
            {"t": list(traces)},
        )
        return {row["trace_id"]: row["named"] for row in found}

    def has_conversations(self) -> bool:
        return bool(self._rows("select 1 from conversations limit 1"))

    def traces_retelling(self, keys: Sequence[int]) -> dict[int, str]:
        found = self._rows(
            "select key, min(trace_id) as trace_id from conversation_keys"
            " where key in (select unnest($keys::ubigint[])) group by key",
            {"keys": list(keys)},
        )
        return {row["key"]: row["trace_id"] for row in found}

    def retelling_alike(self, since_ns: int) -> list[list[str]]:
        return [row["traces"] for row in self._rows(RETELLING, {"since": since_ns})]

    def conversations_of(self, traces: Sequence[str]) -> dict[str, Named]:
        of_traces = f"{CONVERSATIONS} where trace_id in (select unnest($t::varchar[])) group by trace_id"
        return {row["trace_id"]: row["named"] for row in self._rows(of_traces, {"t": list(traces)})}

    def in_conversations(self, sessions: Sequence[str]) -> dict[str, Named]:
        once = "trace_id in (select trace_id from conversations where session in (select unnest($s::varchar[])))"
        found = self._rows(f"{CONVERSATIONS} where {once} group by trace_id", {"s": list(sessions)})
        wanted = set(sessions)
        return {row["trace_id"]: row["named"] for row in found if row["named"][1] in wanted}

    def strayed(self, since_ns: int) -> set[str]:
        return {row["trace_id"] for row in self._rows(STRAYED, {"since": since_ns})}

    def newest_ns(self) -> int:
        [newest] = self._rows(
            "select greatest((select max(received_ns) from events), (select max(received_ns) from keys)) as ns"
        )
        return newest["ns"] or 0

    def sharing(self, since_ns: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row in self._rows(SHARING, {"since": since_ns}):
            for event_id in row["event_ids"]:
                found.setdefault(event_id, []).append(row["key"])
        return found

    def nested(self, since_ns: int) -> set[int]:
        return {row["event_id"] for row in self._rows(NESTED, {"since": since_ns, "day": DAY})}

    def newest_below(self, most: int) -> list[tuple[int, Report]]:
        asked = {"since": self.newest_ns() - 10 * MINUTE, "most": most}
        return [(row["event_id"], as_report(row)) for row in self._rows(NEWEST_BELOW, asked)]

    def misplaced(self, since_ns: int) -> dict[str, Named]:
        return {row["trace_id"]: row["named"] for row in self._rows(MISPLACED, {"since": since_ns})}

    def known_senders(self, table: str) -> dict[Owned, int]:
        found = self._rows(f"from {table}")
        return {(row["source"], row["service"], row["project"]): row["last_ns"] for row in found}

    def known_switches(self) -> dict[Owned, int]:
        named = ("source", "service", "name", "project")
        return {tuple(row[name] for name in named): row["last_ns"] for row in self._rows("from switches")}

    def known_unread(self) -> set[Owned]:
        named = ("source", "service", "scope", "sign", "project")
        return {tuple(row[name] for name in named) for row in self._rows("from unread")}

    def orphans(self, most: int) -> set[str]:
        asked = {"since": self.newest_ns() - DAY, "guessed": list(GUESSED), "most": most}
        return {row["trace_id"] for row in self._rows(f"select distinct trace_id from ({ORPHANS}) limit $most", asked)}

    def orphaned(self, traces: Sequence[str], now_ns: int) -> set[int]:
        asked = {"traces": list(traces), "since": now_ns - DAY, "guessed": list(GUESSED)}
        of_traces = f"select event_id from ({ORPHANS}) where trace_id in (select unnest($traces::varchar[]))"
        return {row["event_id"] for row in self._rows(of_traces, asked)}

    def waiting(self, most: int) -> list[tuple[int, int]]:
        return [(row["key"], row["event_id"]) for row in self._rows(f"{WAITING} limit $most", {"most": most})]

    def awaiting(self, keys: Sequence[int]) -> set[int]:
        found = self._rows(f"{WAITING} where w.key in (select unnest($keys::ubigint[]))", {"keys": list(keys)})
        return {row["event_id"] for row in found}

    def twins_near(self, spans: Mapping[int, Span], units: Sequence[int]) -> dict[int, int]:
        low, high = ([span[side] for span in spans.values()] for side in (0, 1))
        asked = {"identities": list(spans), "low": low, "high": high, "units": list(units)}
        return {row["unit"]: row["event_id"] for row in self._rows(TWINS_NEAR, asked)}

    def reports_of(self, event_ids: Sequence[int], now_ns: int) -> dict[int, list[Report]]:
        found: dict[int, list[Report]] = {}
        for row in self._rows(REPORTS_OF, {"ids": list(event_ids)}):
            found.setdefault(row["event_id"], []).append(msgspec.json.decode(row["report"]))
        for since in (now_ns - HOUR, now_ns - DAY, 0):
            alone = [event_id for event_id in event_ids if event_id not in found]
            for row in self._rows(EVENTS_OF, {"ids": alone, "since": since}) if alone else ():
                found[row["event_id"]] = [report_of(row)]
        return found
