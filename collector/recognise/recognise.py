"""Turns decoded records into reports: source, operation, fields; other records are dropped and counted by reason.

The tables (`sources`) say which records are reports and where their fields are. `settle` decides the outcome, `told`
finds tool results inside model requests. No I/O, no clock; no telemetry makes this raise.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.decode.plain import unwrapped
from collector.decode.record import Record, Scope
from collector.recognise import transcript
from collector.recognise.conversation import conversation_key, conversation_keys
from collector.recognise.fields import Signs, place, read
from collector.recognise.identify import Key, call_key, canonical, identify, is_name, transcribed
from collector.recognise.messages import messages_at
from collector.recognise.readers import Around, as_float, as_text, parsed, present
from collector.recognise.reasons import retry_after_in, status_in
from collector.recognise.results import (
    asked_ids,
    asked_reports,
    result_reports,
    tool_results,
)
from collector.recognise.sampling import Sampled, load_signs, look
from collector.recognise.settle import UNDISPUTED, Raised, Said, Settled, settle
from collector.recognise.sources import AI_OPERATION, Fitting, Plan, Row, Sources
from collector.recognise.unread import UNREAD, load_unread
from collector.report import CALL_TWIN, OF_ONE_CALL, RANKS, Report, Strength, as_report, as_row, each_twin, part_of
from collector.times import EARLIEST_NS, MAX_NS

RESOURCE = {
    "service": ("service.name",),
    "service_version": ("service.version",),
    "service_instance": ("service.instance.id",),
    "environment": ("deployment.environment.name", "deployment.environment", "env"),
}


# OpenInference for JavaScript writes class and stack below the message.
STACK, CLASS_ABOVE = "\n    at ", re.compile(r"([A-Z]\w{0,100}): ")
SENDER = ("service", "service_instance", "session")  # of these, and of equal records, which one tells a record apart
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
) -> Recognised:
    """Reports, links and drop counts of one request. `seen` gives the time of a told result that is stored already,
    by its digest: told at an earlier time, it is reported again.

    `dimensions` are attributes that become columns of the same name; the record's win over its resource's.
    """
    found = Recognised()
    told: dict[int, Report] = {}
    for scope in request:
        if scope.name == transcript.SCOPE and scope.records[0].signal == "event":
            _transcript(scope, sources, found)
        else:
            _Reading(scope, sources, found, told, dimensions).run()
    for digest, report in told.items():
        found.told_ns[digest] = time_ns = report["time_ns"]
        if (before := seen(digest)) is None or time_ns < before:
            found.reports.append(report)
    return found


def _transcript(scope: Scope, sources: Sources, found: Recognised) -> None:
    """Reports of calls that were read and settled elsewhere."""
    known = transcribed().union(one.id for one in sources.sources)
    for record in scope.records:
        if report := transcript.report_of(record, known):
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
    ) -> None:
        resource = scope.resource
        self._records = scope.records
        version = scope.version or as_text(resource.get("service.version")) or ""
        self._plan = sources.plan(as_text(resource.get("service.name")) or "", scope.name, version)
        self._around = Around(resource, scope.name, version=scope.version)
        self._base = as_report(_base(resource) | _own(resource, dimensions))
        self._dimensions = dimensions
        self._starts: dict[int, Report] = {}
        self._found = found
        self._told = told
        self._scope = scope
        self._marks: Counter[str] = Counter()  # equal records without an id
        self._telling: list[Record] = []  # records whose attributes show sampling

    def run(self) -> None:
        plan, around, dropped = self._plan, self._around, self._found.dropped
        for record in self._records:
            if record.signal == "span" and not plan.rows("span", record.name):
                self._drop(record)
                continue
            found = fitting(plan, record, around)
            if found is None and record.signal == "log" and _opened(record):
                found = fitting(plan, record, around)
            if found is None:
                self._drop(record)
            elif found.row.operation == "drop":
                dropped[found.row.drop] += 1
            elif self._report(found, record):
                self._found.kept += 1
            else:
                dropped["no_event"] += 1
            if plan.claimed and plan.sources[0].moments and record.signal == "span":
                self._moments(record)
        self._sampled()

    def _drop(self, record: Record) -> None:
        """Counts a record that no row takes, apart if it speaks a convention. Senders of plain objects are told."""
        sign = None if record.signal == "event" else load_unread().of_record(record)
        self._found.dropped[UNREAD if sign else "no_event"] += 1
        if sign:
            sender = self._teller(), self._base.get("service", "")
            self._found.unread[(*sender, self._scope.name, sign.key)] += 1

    def _teller(self) -> str:
        """The id of the table that this scope is of; "" if none claims it."""
        plan = self._plan
        source = plan.sources[0] if plan.claimed else None if plan.scope else plan.named
        return source.id if source else ""

    def _moments(self, span: Record) -> None:
        """Events of a span that rows take for records of their own. No sender counts them, so neither do we."""
        for one in span.events:
            moment = Record(
                "moment", one.name, one.attributes, time_ns=one.time_ns, trace_id=span.trace_id, span_id=span.span_id
            )
            if found := fitting(self._plan, moment, self._around):
                self._report(found, moment)

    def _sampled(self) -> None:
        plan = self._plan
        source = plan.sources[0] if plan.claimed else None if plan.scope else plan.named
        sampled = Sampled()
        look(self._scope, self._telling, source.counter if source else (), sampled)
        if sampled.signs:
            sender = source.id if source else "", self._base.get("service", "")
            known = self._found.sampled.setdefault(sender, Sampled())
            known.came += sampled.came
            known.were += sampled.were
            known.signs |= sampled.signs

    def _report(self, fits: Fitting, record: Record) -> bool:
        """Whether the record becomes an event."""
        found, row = self._found, fits.row
        report = self._start(row, record).copy()
        signs, rest = read(fits, record, self._around, report)
        if self._dimensions:
            as_row(report).update(_own(record.attributes, self._dimensions))
        if record.trace_id and report.get("session_source") == "record" and (session := report.get("session")):
            link = _began(record), session
            found.links[record.trace_id] = min(link, found.links.get(record.trace_id, link))
        if record.trace_state or (rest and not SIGNS.isdisjoint(rest)):
            self._telling.append(record)
        if row.told:
            self._results(row, record, report)
        if row.switch:
            sender = row.source, report.get("service", "")
            shown = (name for name, value_of in row.switch if present(value_of(record, self._around)))
            found.switches.update((*sender, name) for name in shown)
        if row.asked:
            found.reports.extend(asked_reports(row, record, report))
        if row.operation == "link":
            return False
        if row.asks and (ids := asked_ids(row, record)):
            report["asked"] = ids
        if rest:
            report["attributes"] = rest
        _finish(row, record, report, signs, self._marks)
        if "outcome" not in report and not row.lends:
            return False
        if not record.parent_span_id and row.operation == "tool":
            self._alone(record, report)
        found.reports.append(report)
        return True

    def _results(self, row: Row, record: Record, model: Report) -> None:
        """What a model request tells of calls, and of the conversation that it belongs to if nothing names that."""
        told = [tool_results(messages, row.reading().rules) for messages in messages_at(row.told, record)]
        result_reports(row, record, model, told, self._told)
        if record.trace_id and "session" not in model:
            keys = conversation_keys(row.told, record, model.get("service", ""), told)
            if keys:
                self._found.retold.append((record.trace_id, _began(record), keys))

    def _alone(self, record: Record, report: Report) -> None:
        """A call in a trace of its own is of the conversation that tells it, if its id is unique."""
        if record.signal != "span" or "session" in report or "call_id" not in report:
            return
        service, call_id = report.get("service", ""), report["call_id"]
        if record.trace_id and (key := call_key(service, call_id, report.get("tool", ""))):
            report.setdefault("_keys", []).append(key)
            self._found.retold.append((record.trace_id, _began(record), [conversation_key(service, call_id)]))

    def _start(self, row: Row, record: Record) -> Report:
        """The columns that every report of this row has in this scope; those of the record win over them."""
        start = self._starts.get(id(row))
        if start is None:
            start = part_of(self._base, self._base.keys() - row.reading().never)
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


def fitting(plan: Plan, record: Record, around: Around) -> Fitting | None:
    """The first row that matches the record; None if it is not a report."""
    if record.signal == "span":
        found = _span(plan, record, around)
        if found is None or not found.row.disguised:
            return found
        return _first(plan, "log", as_text(record.attributes.get("event.name")) or "", record, around)
    sent = ""
    for name in _event_names(record):
        sent = sent or name
        if (found := _first(plan, record.signal, name, record, around, sent)) is not None:
            return found
    return None


def _span(plan: Plan, record: Record, around: Around) -> Fitting | None:
    """The row that a span matches. One of the AI SDK that the table of its scope has no call in is tried beside it."""
    if AI_OPERATION not in record.attributes:
        return _first(plan, "span", record.name, record, around)
    name = as_text(record.attributes[AI_OPERATION]) or record.name
    found = _first(plan, "span", name, record, around)
    if plan.beside and (found is None or found.row.operation == "link"):
        own = _first(plan.beside, "span", name, record, around)
        if own is not None and (found is None or own.row.operation not in ("link", "drop")):
            return own
        around.captured = found.captured if found else ""
    return found


def _first(plan: Plan, signal: str, name: str, record: Record, around: Around, event: str = "") -> Fitting | None:
    """The first row that fits; after a link, which tells no call, a later table may have one that does."""
    around.event = event or name
    link: Fitting | None = None
    for one in plan.fitting(signal, name, record.attributes):
        if link is not None and (one.row.operation in ("link", "drop") or one.row.source in link.row.related):
            continue
        around.captured = one.captured
        if one.fits(record, around):
            if one.row.operation != "link" or plan.claimed:
                return one
            link = one
    if link is not None:
        around.captured = link.captured
    return link


def _event_names(record: Record) -> Iterable[str]:
    """Candidates for a log record's name, in order; "" last, for rows that require no name."""
    if name := as_text(record.attributes.get("event.name")):
        yield name
    if record.name:
        yield record.name
    body = record.body
    if isinstance(body, str) and body[:1].isalpha():
        yield body.split(maxsplit=1)[0].rstrip(":")
    yield ""


def _opened(record: Record) -> bool:
    """Adds the entries of a body that is a map, or the JSON text of one, to the record's attributes; whether there were
    any.

    Loggers that write JSON put everything there. This is done only for records that no row matches: otherwise bodies
    contain prompts.
    """
    body = record.body
    body = parsed(body) if isinstance(body, str) and body[:1] == "{" else body
    if not isinstance(body, dict):
        return False
    for key, value in unwrapped(body).items():
        record.attributes.setdefault(key, value)
    return bool(body)


def _finish(row: Row, record: Record, report: Report, signs: Signs, marks: Counter[str]) -> None:
    """Signal, time, outcome and identities."""
    own = record.signal == "span" and "span" in row.signals
    report["source_signal"] = "span" if own else "event" if record.signal == "event" else "log"
    place(report, record, own=own)
    _settle(row, record, report, signs)
    if row.operation == "tool" and own:
        _call(row, report)
    if row.keys:
        identify(row.keys, report, own=own and "span_id" in report)
    if record.signal != "span" and not _known(report) and (record.time_ns or record.observed_ns):
        report.setdefault("_keys", []).append(("record", _mark(record, report, marks)))


def _call(row: Row, report: Report) -> None:
    """The id of a call, if it is of no other; else the twin by which what was asked for or told later is found. Tables
    that only amend have other reports of each call.
    """
    amends = row.told_policy == "amend"
    if not amends and is_name(report.get("call_id", ""), report.get("tool", "")):
        del report["call_id"]
    if "call_id" in report:
        if left := [one for one in each_twin(row.twin) if one[0] not in OF_ONE_CALL]:
            report["_twin"] = left
        else:
            report.pop("_twin", None)
    elif not (amends or row.twin or row.keys or row.lends) and "trace_id" in report:
        report["_twin"] = CALL_TWIN


def _known(report: Report) -> bool:
    """Whether its call has an id that is unique enough to identify it."""
    return "call_id" in report and ("session" in report or "trace_id" in report)


def _mark(record: Record, report: Report, marks: Counter[str]) -> str:
    """The identity of a record whose call has none, because it may be sent again in another batch.

    Plain objects, and logs with times of whole milliseconds, may be equal although they are of separate calls: those of
    one scope in one request are numbered. A repetition comes in another request, or in a scope of its own if a
    collector on the way put both into one.
    """
    whole = (
        *(report.get(name) for name in SENDER), record.time_ns, record.observed_ns, record.trace_id, record.span_id,
        record.name, record.body, record.attributes,
    )  # fmt: skip
    mark = hashlib.blake2b(canonical(whole), digest_size=8).hexdigest()
    if record.signal != "event" and (record.time_ns or record.observed_ns) % 1_000_000:
        return mark
    marks[mark] += 1
    return f"{mark} {marks[mark]}" if marks[mark] > 1 else mark


def _settle(row: Row, record: Record, report: Report, signs: Signs) -> None:
    rules = row.reading().rules
    if signs or row.outcome or record.status == 2 or record.events:
        settled = settle(signs, rules, _stated(row, record, report))
    else:
        settled = UNDISPUTED[record.status != 0 and rules.status]
    if (row.lends or not rules.silence) and settled.strength == Strength.OK_DEFAULT:
        settled = Settled()
    if settled.outcome:
        report["outcome"] = settled.outcome
        report["_strength"] = settled.strength if row.sure else min(settled.strength, Strength.UNSURE)
    if settled.exit_code is not None and report["operation"] == "tool":
        report.setdefault("tool_kind", "command")
    if settled.outcome in ("", "ok", "unknown"):
        report.pop("message", None)
        report.pop("stack", None)
        report.pop("reported_class", None)
    else:
        _add_reason(report, settled)


def _stated(row: Row, record: Record, report: Report) -> Said:
    return Said(
        report.get("reported_class"),
        report.get("message"),
        record.status,
        record.status_message,
        [_raised(one.attributes) for one in record.events if one.name == "exception"],
        row.outcome,
        report.get("params"),
    )


def _raised(attributes: Mapping[str, Any]) -> Raised:
    name, message, stack = (
        as_text(attributes.get(f"exception.{part}")) or "" for part in ("type", "message", "stacktrace")
    )
    if not stack and (end := message.find(STACK)) > 0:
        start = message.rfind("\n\n", 0, end)
        if start > 0 and (found := CLASS_ABOVE.match(message, start + 2)):
            name, message, stack = name or found[1], message[:start], message[start + 2 :]
    return Raised(name, message, stack)


def _overran(report: Report) -> bool:
    """Whether a failed command took as long as its own `timeout` allowed: from 1000 up it is in ms, below in s."""
    params = report.get("params")
    limit = as_float(params.get("timeout")) if isinstance(params, dict) else None
    return bool(limit and report.get("duration_ms", 0) >= (limit if limit >= 1000 else 1000 * limit))


def _add_reason(report: Report, settled: Settled) -> None:
    """Adds the reason of a failure. A requested delay and a model request's HTTP status may be only in the text."""
    if settled.reported:
        report["reported_class"] = settled.reported
    if settled.message:
        report["message"], report["_text"] = settled.message, settled.text
    else:
        report.pop("message", None)
    if settled.stack:
        report.setdefault("stack", settled.stack)
    if settled.shape:
        report["_shape"] = settled.shape
    elif report.get("tool_kind") == "command" and _overran(report):
        report["_shape"] = ("timeout",)
    # What a program prints is no wish of the tool.
    ran = report["operation"] == "tool" and settled.exit_code is not None
    if not ran and "retry_after_ms" not in report and (delay := retry_after_in(settled.text)) is not None:
        report["retry_after_ms"] = delay
    if report["operation"] == "model" and "status_code" not in report:
        reported = report.get("reported_class", "")
        status = int(reported) if reported.isdecimal() and len(reported) == 3 else status_in(settled.text)
        if status:
            report["status_code"] = status
