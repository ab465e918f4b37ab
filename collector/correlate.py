"""Folds reports into events: one event for one call, whichever of its reports comes first.

Agents report a call two to four times: a log, a span, its child, MCP spans, the tool result in a later model request.
Reports that share a key are one event. The fold is commutative and idempotent, so order, batching and repetition of
what arrives do not change what is stored. `Correlator.plan` decides, the store writes, `Correlator.learn` remembers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from collector.batch import COLUMNS, Report
from collector.fingerprint import fingerprint
from collector.twins import Twins

V = TypeVar("V")

KEYS_REMEMBERED = 300_000  # about 40 MB at two generations; older ones are looked up in the store
TRACES_REMEMBERED = 50_000
REQUESTS_REMEMBERED = 50_000

# Where a session came from, the surest last.
SESSION_RANK = {None: 0, "instance": 1, "trace_id": 2, "trace": 3, "resource": 4, "record": 5}
GUESSED = frozenset(("trace", "trace_id", "instance"))

CLASS_FIELDS = (
    "domain", "category", "error_class", "classified_by", "severity", "attribution", "recovery", "mistake", "retryable",
    "fatal",
)  # fmt: skip
FAILURE_FIELDS = frozenset(
    (*CLASS_FIELDS, "reported_class", "retryable_declared", "retry_after_ms", "message", "stack", "suggestion",
     "template", "fingerprint")
)  # fmt: skip
UNSPECIFIC = {"UnknownError": 0, "ToolExecutionError": 1, "McpToolError": 1, "CommandFailedError": 2, None: -1}


class Lookup(Protocol):
    """What the correlator asks of the store: things it no longer has in memory."""

    def known_requests(self, identities: Sequence[bytes]) -> set[bytes]: ...
    def known_keys(self, keys: Sequence[int]) -> dict[int, int]: ...
    def known_sessions(self, traces: Sequence[str]) -> dict[str, str]: ...
    def reports_of(self, event_ids: Sequence[int]) -> dict[int, list[Report]]: ...
    def sessionless(self, traces: Sequence[str]) -> set[int]: ...


@dataclass(slots=True)
class Batch:
    """What one request came to: sanitised reports, sessions of traces, and what was no report, by reason."""

    identity: bytes
    received_ns: int
    reports: list[Report]
    sessions: dict[str, str]
    dropped: Counter[str]
    records: int = 0
    warning: str = ""
    told: set[int] = field(default_factory=set)  # digests of tool results that need no second report once stored


@dataclass(slots=True)
class Changes:
    """Everything one transaction writes."""

    received_ns: int
    identities: list[bytes] = field(default_factory=list)
    duplicates: set[int] = field(default_factory=set)  # positions of batches that were stored before
    events: list[Report] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)  # event ids whose row and single reports go, to be written anew
    reports: list[tuple[int, Report]] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    redirects: dict[int, int] = field(default_factory=dict)
    accounting: Counter[str] = field(default_factory=Counter)


class Recent(Generic[V]):
    """The newest entries of a mapping, in two generations; `whole` until one was forgotten."""

    def __init__(self, size: int, *, whole: bool = True) -> None:
        self._size = size
        self._young: dict[object, V] = {}
        self._old: dict[object, V] = {}
        self.whole = whole

    def get(self, key: object) -> V | None:
        found = self._young.get(key)
        return found if found is not None else self._old.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._young or key in self._old

    def put(self, key: object, value: V) -> None:
        self._young[key] = value
        if len(self._young) > self._size:
            self.whole = self.whole and not self._old
            self._old, self._young = self._young, {}


def key64(*parts: str) -> int:
    """A 64-bit key, the same in every process."""
    return int.from_bytes(hashlib.blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=8).digest(), "big")


def keys_of(report: Report) -> list[int]:
    """Every identity by which this report's call is known; the first is the surest."""
    found: list[int] = []
    operation = report.get("operation") or ""
    call, trace = report.get("call_id"), report.get("trace_id")
    if call:
        if report.get("session") and report.get("session_source") != "trace_id":
            found.append(key64(operation, "call", report.get("service") or "", report["session"], call))
        if trace:
            found.append(key64(operation, "trace call", trace, call))
    if trace and report.get("span_id") and report.get("source_signal") == "span":
        found.append(key64("span", trace, report["span_id"]))
    found.extend(key64(*map(str, key)) for key in report.get("_keys") or ())
    return found


def _alone(report: Report, position: int) -> int:
    """The key of a report that nothing tells from another."""
    return key64("alone", str(report["received_ns"]), str(position), _canonical(report).decode())


def fold(reports: Sequence[Report]) -> Report:
    """The one event that these reports tell of; without `outcome` while none tells it or all only lend (`_lends`).

    Each field comes from the report with the highest rank that has it, the outcome from the surest, the class from the
    most specific report of that outcome; ties go to the smaller report.
    """
    if len(reports) == 1:
        row = {name: value for name, value in reports[0].items() if name in COLUMNS}
        if reports[0].get("_lends"):
            row.pop("outcome", None)
        return row
    ranked = sorted(reports, key=lambda report: (-report.get("_rank", 0), _canonical(report)))
    row = {}
    for report in ranked:
        for name, value in report.items():
            if name in COLUMNS and name not in FAILURE_FIELDS and value is not None:
                row.setdefault(name, value)
    _fold_session(row, ranked)
    row["received_ns"] = min(report["received_ns"] for report in reports)
    row["redactions"] = max(report.get("redactions") or 0 for report in reports)
    told = [report for report in ranked if report.get("outcome")]
    row.pop("outcome", None)
    if told and not all(report.get("_lends") for report in reports):
        _fold_outcome(row, told)
    return row


def _canonical(report: Report) -> bytes:
    return msgspec.json.encode({**report, "received_ns": 0}, order="sorted")


def _fold_session(row: Report, ranked: Sequence[Report]) -> None:
    best = max(ranked, key=lambda report: SESSION_RANK.get(report.get("session_source"), 0))
    for name in ("session", "session_source"):
        row[name] = best.get(name)


def _fold_outcome(row: Report, told: Sequence[Report]) -> None:
    surest = max(told, key=lambda report: report.get("_strength", 0))
    row["outcome"] = surest["outcome"]
    if surest["outcome"] == "ok":
        return
    same = sorted(
        (report for report in told if report["outcome"] == surest["outcome"]),
        key=lambda report: UNSPECIFIC.get(report.get("error_class"), 3),
        reverse=True,
    )
    for name in CLASS_FIELDS:
        row[name] = same[0].get(name)
    for report in same:
        for name in FAILURE_FIELDS.difference(CLASS_FIELDS):
            if report.get(name) is not None:
                row.setdefault(name, report[name])
    if row.get("retryable_declared") is not None:
        row["retryable"] = row["retryable_declared"]
    if row.get("template"):
        row["fingerprint"] = fingerprint(row.get("error_class") or "", row.get("tool") or "", row["template"])


class Correlator:
    """Decides which reports are new events, which correct a stored one, and which were told before."""

    def __init__(self, lookup: Lookup, *, fresh: bool) -> None:
        """`fresh` says that the store is empty, so that nothing needs to be looked up until something is forgotten."""
        self._lookup = lookup
        self._keys: Recent[int] = Recent(KEYS_REMEMBERED, whole=fresh)
        self._sessions: Recent[str] = Recent(TRACES_REMEMBERED, whole=fresh)
        self._orphans: Recent[bool] = Recent(TRACES_REMEMBERED, whole=fresh)
        self._requests: Recent[bool] = Recent(REQUESTS_REMEMBERED, whole=fresh)
        self._twins = Twins()

    def plan(self, batches: Sequence[Batch]) -> Changes:
        """What must be written so that the store holds these batches, each request and each call once."""
        changes = Changes(max(batch.received_ns for batch in batches))
        new = self._new_batches(batches, changes)
        self._learn_sessions(new, changes)
        reports = [report for batch in new for report in batch.reports]
        for report in reports:
            self._adopt_session(report, changes)
        groups = self._group(reports, changes)
        self._group_orphans(groups, changes)
        self._resolve(groups, changes)
        return changes

    def learn(self, changes: Changes) -> None:
        """Remembers what was written. To be called after the commit, so that a failed one leaves no trace."""
        for identity in changes.identities:
            self._requests.put(identity, True)
        for key, event_id in changes.keys.items():
            self._keys.put(key, event_id)
        for trace, session in changes.sessions.items():
            self._sessions.put(trace, session)
        for event in changes.events:
            if event.get("session_source") == "trace_id":
                self._orphans.put(event["trace_id"], True)

    def _new_batches(self, batches: Sequence[Batch], changes: Changes) -> list[Batch]:
        asked = [] if self._requests.whole else [b.identity for b in batches if not self._requests.get(b.identity)]
        stored = self._lookup.known_requests(asked) if asked else set()
        seen: set[bytes] = set()
        new = []
        for position, batch in enumerate(batches):
            identity = batch.identity
            if identity in seen or identity in stored or self._requests.get(identity):
                changes.duplicates.add(position)
                changes.accounting["duplicate"] += batch.records
                continue
            seen.add(identity)
            new.append(batch)
            changes.accounting.update(batch.dropped)
            changes.accounting["stored"] += batch.records - batch.dropped.total()
        changes.identities = list(seen)
        return new

    def _learn_sessions(self, batches: Sequence[Batch], changes: Changes) -> None:
        told: dict[str, str] = {}
        for batch in batches:
            for trace, session in batch.sessions.items():
                told[trace] = min(session, told.get(trace, session))
        unknown = [trace for trace in told if self._sessions.get(trace) is None]
        stored = self._lookup.known_sessions(unknown) if unknown and not self._sessions.whole else {}
        for trace, session in told.items():
            before = self._sessions.get(trace) or stored.get(trace)
            if before is None or session < before:
                changes.sessions[trace] = session

    def _adopt_session(self, report: Report, changes: Changes) -> None:
        if report.get("session"):
            return
        trace = report.get("trace_id")
        if trace:
            session = changes.sessions.get(trace) or self._sessions.get(trace)
            if session is None and not self._sessions.whole:
                session = self._lookup.known_sessions([trace]).get(trace)
            report["session"], report["session_source"] = (session, "trace") if session else (trace, "trace_id")
        elif report.get("service_instance"):
            report["session"], report["session_source"] = report["service_instance"], "instance"

    def _group(self, reports: Sequence[Report], changes: Changes) -> _Groups:
        """New reports that share a key, with each other or a stored event; what shares none is an event at once."""
        groups = _Groups()
        keyed = [keys_of(report) for report in reports]
        seen: set[int] = set()
        shared: set[int] = set()
        for keys in keyed:
            shared.update(seen.intersection(keys))
            seen.update(keys)
        known = self._known(seen)
        shared.update(known)
        for position, (report, keys) in enumerate(zip(reports, keyed, strict=True)):
            if not keys:  # nothing tells this call from another
                alone = key64("alone", str(report["received_ns"]), str(position), _canonical(report).decode())
                _insert(fold([report]), alone, changes, [report])
            elif shared.isdisjoint(keys):
                _insert(fold([report]), keys[0], changes, [report])
                changes.keys.update(dict.fromkeys(keys, keys[0]))
            else:
                groups.add(report, keys, known)
                changes.keys.update(dict.fromkeys((key for key in keys if key not in known), 0))
        return groups

    def _known(self, keys: set[int]) -> dict[int, int]:
        known = {key: found for key in keys if (found := self._keys.get(key)) is not None}
        if not self._keys.whole and len(known) < len(keys):
            known.update(self._lookup.known_keys([key for key in keys if key not in known]))
        return known

    def _group_orphans(self, groups: _Groups, changes: Changes) -> None:
        """Stored events of a trace whose session is told only now come in again, with their session."""
        traces = [trace for trace in changes.sessions if self._orphans.get(trace) or not self._orphans.whole]
        if not traces:
            return
        for event_id, reports in self._lookup.reports_of(sorted(self._lookup.sessionless(traces))).items():
            for report in reports:
                if report.get("session_source") in GUESSED and report.get("trace_id") in changes.sessions:
                    report["session"], report["session_source"] = changes.sessions[report["trace_id"]], "trace"
            keys = [key for report in reports for key in keys_of(report)]
            known = self._known(set(keys))
            groups.touch(event_id, reports, keys, known)
            changes.keys.update(dict.fromkeys((key for key in keys if key not in known), 0))

    def _resolve(self, groups: _Groups, changes: Changes) -> None:
        wanted = [event_id for group in groups for event_id in group.event_ids if event_id not in groups.loaded]
        stored = {**(self._lookup.reports_of(wanted) if wanted else {}), **groups.loaded}
        owner: dict[int, int] = {}
        for group in groups:
            event_id = self._write(group, stored, changes, frozenset(groups.loaded))
            for key in group.keys:
                owner[key] = event_id
        changes.keys.update({key: owner[key] for key in changes.keys if key in owner})

    def _write(self, group: _Group, stored: dict[int, list[Report]], changes: Changes, reloaded: frozenset[int]) -> int:
        before = [report for event_id in group.event_ids for report in stored.get(event_id, ())]
        told = {_canonical(report): report for report in before}
        count = len(told)
        for report in group.reports:
            told.setdefault(_canonical(report), report)
        event_id = _oldest(group.event_ids, stored) if group.event_ids else group.keys[0]
        changed = len(told) > count or len(group.event_ids) > 1 or not reloaded.isdisjoint(group.event_ids)
        if group.event_ids and not changed:
            return event_id
        for old in group.event_ids:
            changes.replaced.append(old)
            if old != event_id:
                changes.redirects[old] = event_id
        reports = list(told.values())
        return _insert(fold(reports), event_id, changes, reports)


def _oldest(event_ids: Iterable[int], stored: dict[int, list[Report]]) -> int:
    return min(event_ids, key=lambda one: (min((r["received_ns"] for r in stored.get(one, ())), default=0), one))


def _insert(row: Report, event_id: int, changes: Changes, reports: Sequence[Report]) -> int:
    row["event_id"] = event_id
    if row.get("outcome"):
        if len(reports) == 1:
            row["report_rank"] = reports[0].get("_rank", 0)
            row["outcome_strength"] = reports[0].get("_strength", 0)
        changes.events.append(row)
    if len(reports) > 1 or not row.get("outcome") or reports[0].get("_keys"):
        changes.reports.extend((event_id, report) for report in reports)
    return event_id


@dataclass(slots=True)
class _Group:
    """Reports of one call, with the events in the store that they belong to."""

    reports: list[Report] = field(default_factory=list)
    event_ids: set[int] = field(default_factory=set)
    keys: list[int] = field(default_factory=list)


class _Groups:
    """Reports joined by shared keys, transitively."""

    def __init__(self) -> None:
        self._by_key: dict[int, _Group] = {}
        self._by_event: dict[int, _Group] = {}
        self._all: dict[int, _Group] = {}
        self.loaded: dict[int, list[Report]] = {}

    def __iter__(self) -> Iterator[_Group]:
        return iter(list(self._all.values()))

    def add(self, report: Report, keys: list[int], known: dict[int, int]) -> None:
        self._join(keys, known).reports.append(report)

    def touch(self, event_id: int, reports: list[Report], keys: list[int], known: dict[int, int]) -> None:
        """A stored event whose reports have changed."""
        self.loaded[event_id] = reports
        self._join(keys, known, event_id)

    def _join(self, keys: list[int], known: dict[int, int], stored: int | None = None) -> _Group:
        found = {id(group): group for key in keys if (group := self._by_key.get(key)) is not None}
        events = {known[key] for key in keys if key in known}
        if stored is not None:
            events.add(stored)
        found.update({id(group): group for one in events if (group := self._by_event.get(one)) is not None})
        into = next(iter(found.values()), None) or _Group()
        self._all[id(into)] = into
        for group in found.values():
            if group is not into:
                self._merge(group, into)
        for key in keys:
            self._by_key[key] = into
        into.keys.extend(keys)
        for one in events:
            self._by_event[one] = into
        into.event_ids |= events
        return into

    def _merge(self, group: _Group, into: _Group) -> None:
        into.reports.extend(group.reports)
        into.event_ids |= group.event_ids
        into.keys.extend(group.keys)
        for key in group.keys:
            self._by_key[key] = into
        for one in group.event_ids:
            self._by_event[one] = into
        del self._all[id(group)]
