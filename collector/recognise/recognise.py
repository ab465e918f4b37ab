"""Turns decoded records into reports: source, operation, fields; other records are dropped and counted by reason.

The tables (`sources`) say which records are reports and where their fields are. `settle` decides the outcome, `told`
finds tool results inside model requests. No I/O, no clock; no telemetry makes this raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.decode.record import Record, Scope
from collector.projects import traced
from collector.recognise import transcript
from collector.recognise.complete import complete
from collector.recognise.conversation import conversation_key, conversation_keys
from collector.recognise.fields import read
from collector.recognise.identify import Key, call_key, transcribed
from collector.recognise.match import fitting, opened
from collector.recognise.messages import messages_at
from collector.recognise.readers import Around, as_text, present
from collector.recognise.results import (
    asked_ids,
    asked_reports,
    result_reports,
    tool_results,
)
from collector.recognise.sampling import Sampled, load_signs, look
from collector.recognise.sources import Fitting, Row, Source, Sources
from collector.recognise.unread import UNREAD, load_unread
from collector.report import RANKS, Report, as_report, as_row, part_of
from collector.times import EARLIEST_NS, MAX_NS

RESOURCE = {
    "service": ("service.name",),
    "service_version": ("service.version",),
    "service_instance": ("service.instance.id",),
    "environment": ("deployment.environment.name", "deployment.environment", "env"),
}


SIGNS = frozenset(load_signs().attributes)


@dataclass(slots=True)
class Recognised:
    """The result for one request. `links` are the sessions that records name for their traces, by trace, each after the
    time at which its record began: the earliest of each trace. `told_ns` are digests of tool results found in model
    requests and their times, for `seen` once they are stored. `retold` has, for each model request that names no
    session, its trace, when it began, and the keys that it shares with others of its conversation.
    """

    reports: list[Report] = field(default_factory=list)
    links: dict[str, tuple[int, str]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    kept: int = 0  # records that made a report; all others must be counted in `dropped`
    told_ns: dict[int, int] = field(default_factory=dict)
    retold: list[tuple[str, int, list[Key]]] = field(default_factory=list)
    sampled: dict[tuple[str, str], Sampled] = field(default_factory=dict)  # by source ("" if none claims it), service
    switches: set[tuple[str, str, str]] = field(default_factory=set)  # source, service, name of what is switched on
    unread: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)  # by source, service, scope, sign's key


def recognise(
    request: Iterable[Scope],
    sources: Sources,
    seen: Callable[[int], int | None] = lambda _: None,
    dimensions: Sequence[str] = (),
    project: str | None = None,
) -> Recognised:
    """Reports, links and drop counts of one request. `seen` gives the time of a told result that is stored already,
    by its digest: told at an earlier time, it is reported again.

    `dimensions` are attributes that become columns of the same name; the record's win over its resource's. `project` is
    that of all records.
    """
    found = Recognised()
    told: dict[int, Report] = {}
    for scope in request:
        if scope.name == transcript.SCOPE and scope.records[0].signal == "event":
            _transcript(scope, sources, found, project)
        else:
            _Reading(scope, sources, found, told, dimensions, project).run()
    for digest, report in told.items():
        found.told_ns[digest] = time_ns = report["time_ns"]
        if (before := seen(digest)) is None or time_ns < before:
            found.reports.append(report)
    return found


def _transcript(scope: Scope, sources: Sources, found: Recognised, project: str | None) -> None:
    """Reports of calls that were read and settled elsewhere."""
    known = transcribed().union(one.id for one in sources.sources)
    for record in scope.records:
        if report := transcript.report_of(record, known, project):
            found.reports.append(report)
            found.kept += 1
        else:
            found.dropped["no_event"] += 1


class _Reading:
    """The records of one scope, read one by one."""

    def __init__(
        self,
        scope: Scope,
        sources: Sources,
        found: Recognised,
        told: dict[int, Report],
        dimensions: Sequence[str],
        project: str | None,
    ) -> None:
        resource = scope.resource
        self._records = scope.records
        version = scope.version or as_text(resource.get("service.version")) or ""
        self._plan = sources.plan(as_text(resource.get("service.name")) or "", scope.name, version)
        self._around = Around(resource, scope.name, version=scope.version)
        self._base = as_report(_base(resource) | _own(resource, dimensions))
        self._project = project
        if project:
            self._base["project"] = project
        self._dimensions = dimensions
        self._starts: dict[int, Report] = {}
        self._found = found
        self._told = told
        self._scope = scope
        self._marks: Counter[str] = Counter()  # equal records without an id
        self._telling: list[Record] = []  # records whose attributes show sampling

    def run(self) -> None:
        plan = self._plan
        of_moments = plan.claimed and plan.sources[0].moments
        names = {record.name for record in self._records if record.signal == "span"}
        noise = {name for name in names if not plan.rows("span", name)}
        dropped = []
        for record in self._records:
            if record.signal == "span" and record.name in noise:
                dropped.append(record)
                continue
            if not self._take(record):
                dropped.append(record)
            if of_moments and record.signal == "span":
                self._moments(record)
        self._drop(dropped)
        self._sampled()

    def _take(self, record: Record) -> bool:
        """Whether a row takes the record."""
        found = fitting(self._plan, record, self._around)
        if found is None and record.signal == "log" and opened(record):
            found = fitting(self._plan, record, self._around)
        if found is None:
            return False
        if found.row.operation == "drop":
            self._found.dropped[found.row.drop] += 1
        elif self._report(found, record):
            self._found.kept += 1
        else:
            self._found.dropped["no_event"] += 1
        return True

    def _drop(self, records: Sequence[Record]) -> None:
        """Counts records that no row takes, apart those that speak a convention. Senders of plain objects are told."""
        signs = load_unread().among([record for record in records if record.signal != "event"])
        counts = {"no_event": len(records) - len(signs), UNREAD: len(signs)}
        self._found.dropped.update({reason: count for reason, count in counts.items() if count})
        for sign in signs:
            self._found.unread[(*self._sender(), self._scope.name, sign.key)] += 1

    def _source(self) -> Source | None:
        """The table that this scope is of; None if none claims it."""
        if self._plan.claimed:
            return self._plan.sources[0]
        return None if self._plan.scope else self._plan.named

    def _sender(self) -> tuple[str, str]:
        """The source, "" if no table claims the scope, and the service."""
        source = self._source()
        return source.id if source else "", self._base.get("service", "")

    def _moments(self, span: Record) -> None:
        """Events of a span that rows take for records of their own. No sender counts them, so neither do we."""
        for event in span.events:
            moment = Record("moment", event.name, event.attributes, time_ns=event.time_ns)
            moment.trace_id, moment.span_id = span.trace_id, span.span_id
            if found := fitting(self._plan, moment, self._around):
                self._report(found, moment)

    def _sampled(self) -> None:
        source, sampled = self._source(), Sampled()
        look(self._scope, self._telling, source.counter if source else (), sampled)
        if sampled.signs:
            known = self._found.sampled.setdefault(self._sender(), Sampled())
            known.came += sampled.came
            known.were += sampled.were
            known.signs |= sampled.signs

    def _report(self, fits: Fitting, record: Record) -> bool:
        """Whether the record becomes an event."""
        row = fits.row
        record.trace_id = traced(self._project, record.trace_id)
        report = self._start(row, record).copy()
        signs, rest = read(fits, record, self._around, report)
        if self._dimensions:
            as_row(report).update(_own(record.attributes, self._dimensions))
        if record.trace_state or (rest and not SIGNS.isdisjoint(rest)):
            self._telling.append(record)
        self._tell(row, record, report)
        if row.operation == "link":
            return False
        if row.asks and (ids := asked_ids(row, record)):
            report["asked"] = ids
        if rest:
            report["attributes"] = rest
        complete(row, record, report, signs, self._marks)
        if "outcome" not in report and not row.lends:
            return False
        if row.operation == "tool" and not record.parent_span_id:
            self._alone(record, report)
        self._found.reports.append(report)
        return True

    def _tell(self, row: Row, record: Record, report: Report) -> None:
        """What a record tells beside its own call: the session of its trace, results, switches, calls asked for."""
        found = self._found
        if record.trace_id and report.get("session_source") == "record" and (session := report.get("session")):
            link = _began(record), session
            found.links[record.trace_id] = min(link, found.links.get(record.trace_id, link))
        if row.told:
            self._results(row, record, report)
        for name, value_of in row.switch:
            if present(value_of(record, self._around)):
                found.switches.add((row.source, report.get("service", ""), name))
        if row.asked:
            found.reports.extend(asked_reports(row, record, report))

    def _results(self, row: Row, record: Record, model: Report) -> None:
        """What a model request tells of calls, and of the conversation that it belongs to if nothing names that."""
        told = [tool_results(messages, row.reading().rules) for messages in messages_at(row.told, record)]
        result_reports(row, record, model, told, self._told)
        if record.trace_id and "session" not in model:
            keys = conversation_keys(row.told, record, model, told)
            if keys:
                self._found.retold.append((record.trace_id, _began(record), keys))

    def _alone(self, record: Record, report: Report) -> None:
        """A call in a trace of its own is of the conversation that tells it, if its id is unique."""
        if record.signal != "span" or "session" in report or "call_id" not in report:
            return
        call_id = report["call_id"]
        if record.trace_id and (key := call_key(report, call_id, report.get("tool", ""))):
            report.setdefault("_keys", []).append(key)
            self._found.retold.append((record.trace_id, _began(record), [conversation_key(report, call_id)]))

    def _start(self, row: Row, record: Record) -> Report:
        """The columns that every report of this row has in this scope; those of the record win over them."""
        start = self._starts.get(id(row))
        if start is None:
            never = row.reading().never
            start = part_of(self._base, (name for name in self._base if name not in never))
            start.update({"source": row.source, "operation": row.operation})
            start["_rank"] = RANKS.get(record.signal, 0) if row.rank is None else row.rank
            if row.lends:
                start["_lends"] = True
            if row.twin:
                start["_twin"] = row.twin
            self._starts[id(row)] = start
        return start


def _began(record: Record) -> int:
    """When a record began; the latest time there is if it does not say."""
    began = record.start_ns or record.time_ns or record.observed_ns
    return began if EARLIEST_NS <= began < MAX_NS else MAX_NS


def _base(resource: Mapping[str, Any]) -> dict[str, Any]:
    base = {}
    for column, keys in RESOURCE.items():
        if text := next((text for key in keys if (text := as_text(resource.get(key)))), None):
            base[column] = text
    return base


def _own(attributes: Mapping[str, Any], dimensions: Sequence[str]) -> dict[str, Any]:
    """The user-defined dimensions among these attributes."""
    return {name: text for name in dimensions if (text := as_text(attributes.get(name)))}
