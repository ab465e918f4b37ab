"""A store in memory: a second engine, over dicts, for what correlation looks up and commits.

Order, batching and repetition of reports are claims about the correlator, which this shows at a twentieth of the cost;
tests/test_engines.py shows that it answers as DuckDB does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from collector.batch import Batch
from collector.columns import TABLES, Row
from collector.correlate.changes import Changes, Named, Owned
from collector.correlate.correlate import Correlator
from collector.correlate.fold import orphan
from collector.correlate.lookup import Lookup, Span, report_of
from collector.engine.duckdb.lookup import Lookup as SqlLookup
from collector.engine.duckdb.store import Store
from collector.report import Report, as_report
from collector.times import DAY, MINUTE

TWINS_NEAR = 256  # units of one identity, the nearest first


class Kept(NamedTuple):
    """A single report of an event, as text, so that nobody changes what is stored."""

    received_ns: int
    report: bytes
    orphan: str | None


class Memory(Lookup):
    """The tables of the correlator; `write` and the look-ups mean what they mean in DuckDB."""

    def __init__(self) -> None:
        self.requests: set[bytes] = set()
        self.events: dict[int, Report] = {}
        self.reports: defaultdict[int, list[Kept]] = defaultdict(list)
        self.keys: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # event, received
        self.redirects: dict[int, int] = {}
        self.sessions: dict[str, Named] = {}
        self.conversations: dict[str, Named] = {}
        self.retold: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)  # trace, received
        self.waits: list[tuple[int, int]] = []
        self.twins: list[Row] = []
        self.senders: dict[str, dict[Owned, int]] = {"seen": {}, "sampled": {}}
        self.switches: dict[Owned, int] = {}
        self.unread: Counter[Owned] = Counter()
        self.account: Counter[str] = Counter()
        self.at = 0  # in the journal

    def rows(self) -> list[Row]:
        """The events with all their columns, oldest first."""
        found = [{name: row.get(name) for name in TABLES["events"]} for row in self.events.values()]
        return sorted(found, key=lambda row: (row["time_ns"], row["event_id"]))

    def accounting(self) -> dict[str, int]:
        """The number of records ever accepted, and what became of them."""
        return dict(self.account)

    def position(self) -> int:
        """The position in the journal of the last batch that is stored."""
        return self.at

    # What is asked

    def known_requests(self, identities: Sequence[bytes]) -> set[bytes]:
        return self.requests.intersection(identities)

    def known_keys(self, keys: Sequence[int]) -> dict[int, int]:
        return {key: self._now(self.keys[key][-1][0]) for key in keys if key in self.keys}

    def ended_between(
        self, since_ns: int, until_ns: int, call_ids: Sequence[str], event_ids: Sequence[int]
    ) -> list[Row]:
        named = ("event_id", "operation", "source", "project", "service", "session", "call_id", "time_ns")
        rows = (row for row in self.rows() if row["call_id"] in call_ids or row["event_id"] in event_ids)
        return [{name: row[name] for name in named} for row in rows if since_ns <= row["time_ns"] <= until_ns]

    def keys_kept_since(self) -> int:
        return 0

    def known_sessions(self, traces: Sequence[str]) -> dict[str, Named]:
        return {trace: self.sessions[trace] for trace in traces if trace in self.sessions}

    def has_conversations(self) -> bool:
        return bool(self.conversations)

    def traces_retelling(self, keys: Sequence[int]) -> dict[int, str]:
        return {key: min(trace for trace, _ in self.retold[key]) for key in keys if key in self.retold}

    def retelling_alike(self, since_ns: int) -> list[list[str]]:
        alike = []
        for told in self.retold.values():
            traces = {trace for trace, _ in told}
            if len(traces) > 1 and any(received_ns >= since_ns for _, received_ns in told):
                alike.append(list(traces))
        return alike

    def conversations_of(self, traces: Sequence[str]) -> dict[str, Named]:
        return {trace: self.conversations[trace] for trace in traces if trace in self.conversations}

    def in_conversations(self, sessions: Sequence[str]) -> dict[str, Named]:
        return {trace: named for trace, named in self.conversations.items() if named[1] in sessions}

    def strayed(self, since_ns: int) -> set[str]:
        recent = (row for row in self._since(since_ns) if row.get("session_source") == "trace_id")
        named = ((row, self.conversations.get(row.get("trace_id", ""))) for row in recent)
        return {row["trace_id"] for row, name in named if name and name[1] != row["session"]}

    def newest_ns(self) -> int:
        received = [row["received_ns"] for row in self.events.values()]
        received += [received_ns for told in self.keys.values() for _, received_ns in told]
        return max(received, default=0)

    def sharing(self, since_ns: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for key, told in self.keys.items():
            event_ids = {self._now(event_id) for event_id, _ in told}
            if len(event_ids) > 1 and any(received_ns >= since_ns for _, received_ns in told):
                for event_id in event_ids:
                    found.setdefault(event_id, []).append(key)
        return found

    def nested(self, since_ns: int) -> set[int]:
        calls = [row for row in self._since(since_ns - DAY) if row["operation"] == "tool" and row.get("span_id")]
        spans = [row for row in calls if row["source_signal"] == "span"]
        around = {(row.get("trace_id"), row.get("span_id")): row for row in spans}
        pairs = ((row, around.get((row["trace_id"], row.get("parent_span_id")))) for row in spans)
        return {
            inner["event_id"]
            for inner, outer in pairs
            if outer and max(inner["received_ns"], outer["received_ns"]) >= since_ns
        }

    def newest_below(self, most: int) -> list[tuple[int, Report]]:
        rows = [row for row in self._since(self.newest_ns() - 10 * MINUTE) if _is_below(row)]
        rows.sort(key=lambda row: (row["received_ns"], row["event_id"]))
        names = ("event_id", "operation", "trace_id", "parent_span_id", "tool", "time_ns")
        return [(row["event_id"], as_report({name: row.get(name) for name in names})) for row in rows[:most]]

    def misplaced(self, since_ns: int) -> dict[str, Named]:
        recent = {(row["trace_id"], row.get("session")) for row in self._since(since_ns) if orphan(row)}
        for kept in self._kept():
            if kept.orphan and kept.received_ns >= since_ns:
                recent.add((kept.orphan, msgspec.json.decode(kept.report).get("session")))
        named = ((trace, session, self.sessions.get(trace)) for trace, session in recent)
        return {trace: name for trace, session, name in named if name and name[1] != session}

    def known_senders(self, table: str) -> dict[Owned, int]:
        return dict(self.senders[table])

    def known_switches(self) -> dict[Owned, int]:
        return dict(self.switches)

    def known_unread(self) -> set[Owned]:
        return set(self.unread)

    def orphans(self, most: int) -> set[str]:
        return set(sorted({trace for _, trace in self._orphans(self.newest_ns() - DAY)})[:most])

    def orphaned(self, traces: Sequence[str], now_ns: int) -> set[int]:
        return {event_id for event_id, trace in self._orphans(now_ns - DAY) if trace in traces}

    def waiting(self, most: int) -> list[tuple[int, int]]:
        return [(key, self._now(event_id)) for key, event_id in self.waits[:most]]

    def awaiting(self, keys: Sequence[int]) -> set[int]:
        asked = set(keys)
        return {self._now(event_id) for key, event_id in self.waits if key in asked}

    def twins_near(self, spans: Mapping[int, Span], units: Sequence[int]) -> dict[int, int]:
        asked = set(units)
        near = {row["event_id"] for row in self.twins if row["unit"] in asked}
        for identity, (low, high) in spans.items():
            there = [row for row in self.twins if row["identity"] == identity and low <= row["time_ns"] <= high]
            there.sort(key=lambda row: (abs(2 * row["time_ns"] - low - high), row["unit"]))
            near.update(row["event_id"] for row in there[:TWINS_NEAR])
        return {row["unit"]: row["event_id"] for row in self.twins if row["event_id"] in near}

    def reports_of(self, event_ids: Sequence[int], now_ns: int) -> dict[int, list[Report]]:
        found = {}
        for event_id in event_ids:
            if kept := self.reports.get(event_id):
                found[event_id] = [msgspec.json.decode(one.report) for one in kept]
            elif row := self.events.get(event_id):
                found[event_id] = [report_of(defaultdict(lambda: None, row))]
        return found

    def _now(self, event_id: int) -> int:
        return self.redirects.get(event_id, event_id)

    def _since(self, since_ns: int) -> Iterator[Report]:
        return (row for row in self.events.values() if row["received_ns"] >= since_ns)

    def _kept(self) -> Iterator[Kept]:
        return (kept for some in self.reports.values() for kept in some)

    def _orphans(self, since_ns: int) -> Iterator[tuple[int, str]]:
        """The traces of events of a single report, and of reports, whose session is a guess."""
        for row in self._since(since_ns):
            if "report_rank" in row and (trace := orphan(row)):
                yield row["event_id"], trace
        for event_id, some in self.reports.items():
            yield from ((event_id, kept.orphan) for kept in some if kept.orphan)

    def forget(self) -> None:
        """What becomes of the tables that keep what tells calls apart, after a day without anything new."""
        for kept in (self.requests, self.reports, self.keys, self.sessions, self.conversations, self.retold):
            kept.clear()
        self.waits, self.twins = [], []

    # What is committed

    def write(self, changes: Changes) -> None:
        now = changes.received_ns
        self._remove(changes.replaced)
        self._add(changes)
        for key, event_id in changes.keys.items():
            self.keys[key].append((event_id, now))
        for key, trace in changes.retold.items():
            self.retold[key].append((trace, now))
        for names, new in ((self.sessions, changes.sessions), (self.conversations, changes.conversations)):
            names.update({trace: min(named, names.get(trace, named)) for trace, named in new.items()})
        self.redirects.update(changes.redirects)
        self.redirects = {old: self._now(event_id) for old, event_id in self.redirects.items()}
        self._note(changes)

    def _remove(self, replaced: Iterable[int]) -> None:
        for event_id in replaced:
            self.events.pop(event_id, None)
            self.reports.pop(event_id, None)
        self.twins = [row for row in self.twins if row["unit"] not in replaced]

    def _add(self, changes: Changes) -> None:
        for row in changes.events:
            assert row["event_id"] not in self.events, "two events with one id"
            columns = {name: value for name, value in row.items() if name in TABLES["events"] and value is not None}
            self.events[row["event_id"]] = as_report(columns)
        for event_id, report in changes.reports:
            kept = Kept(report["received_ns"], msgspec.json.encode(report), orphan(report))
            self.reports[event_id].append(kept)
        self.twins += changes.twins
        self.waits += changes.waiting

    def _note(self, changes: Changes) -> None:
        now = changes.received_ns
        self.requests.update(changes.identities)
        self.senders["seen"].update(dict.fromkeys(changes.senders, now))
        self.senders["sampled"].update(dict.fromkeys(changes.sampled, now))
        self.switches.update(dict.fromkeys(changes.switches, now))
        self.unread.update(changes.unread)
        for (reason, _), records in changes.accounting.items():
            self.account.update({reason: records})
        self.at = changes.position or self.at


def _is_below(row: Report) -> bool:
    """Whether the event is of a span of a call or of a model request, and below another span."""
    asks = row["operation"] == "model" or (row["operation"] == "tool" and "tool" in row)
    return asks and row["source_signal"] == "span" and "trace_id" in row and "parent_span_id" in row


def commit(engine: Memory | Store, groups: Iterable[Iterable[Batch]], correlator: Correlator | None = None) -> None:
    """Has the groups of batches correlated and committed, one after another; the engine is empty unless a correlator is
    given.
    """
    if correlator is None:
        correlator = Correlator(SqlLookup(engine) if isinstance(engine, Store) else engine, fresh=True)
    for group in groups:
        changes = correlator.plan(list(group))
        engine.write(changes)
        correlator.learn(changes)
