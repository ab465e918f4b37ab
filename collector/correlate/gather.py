"""Finds in batches what is to be asked and joined: sessions that are told, and an entry for each report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from collector.batch import Batch
from collector.correlate.changes import Named
from collector.correlate.fold import orphan
from collector.correlate.join import Entry
from collector.correlate.nested import around_of
from collector.correlate.sessions import adopt_session
from collector.recognise.identify import bare_tool, key64, whose
from collector.report import Report
from collector.times import MAX_NS

_bare = lru_cache(maxsize=1_000)(bare_tool)


def told_sessions(batches: Iterable[Batch]) -> dict[str, Named]:
    """The session that these batches tell of each trace: the one whose record began first."""
    told: dict[str, Named] = {}
    for batch in batches:
        for trace, session in batch.sessions.items():
            named = (batch.named_ns.get(trace, MAX_NS), session)
            told[trace] = min(named, told.get(trace, named))
    return told


def entries_of(batches: Iterable[Batch]) -> Iterator[Entry]:
    """An entry for each report, which has its session."""
    for batch in batches:
        for place, report in enumerate(batch.reports):
            # A report without any key is identified by its place in its request.
            keys = keys_of(report) or [key64("alone", batch.identity.hex(), str(place))]
            around = around_of(report) if "parent_span_id" in report else ()
            yield Entry([report], keys, refs=report.get("_refs") or (), around=around)


def stored_entry(event_id: int, stored: list[Report], reports: list[Report] | None = None) -> Entry:
    """The entry of a stored event; `reports` are its reports with other sessions."""
    reports = reports or stored
    keys = [key for report in reports for key in keys_of(report)]
    refs = [ref for report in reports for ref in report.get("_refs") or ()]
    return Entry(reports, keys, event_id, stored, refs, [one for report in reports for one in around_of(report)])


def renamed(
    reports: Sequence[Report], traces: Set[str], sessions: Mapping[str, Named], conversations: Mapping[str, Named]
) -> list[Report]:
    """Stored reports with the session that their trace has now, of those of these traces whose session was a guess."""
    return [
        _renamed(report, sessions, conversations)
        if (trace := orphan(report)) in traces and (trace in sessions or report["session_source"] != "instance")
        else report
        for report in reports
    ]


def _renamed(report: Report, sessions: Mapping[str, Named], conversations: Mapping[str, Named]) -> Report:
    again = report.copy()
    again["session"] = None
    adopt_session(again, sessions, conversations)
    return again


def keys_of(report: Report) -> list[int]:
    """Every key by which the call of this report can be recognised; the first becomes the id of a new event.

    It is the most reliable one that is known whether or not a parent span has told the session: calls of one instant
    are ordered by their ids.
    """
    found: list[int] = []
    operation, call, trace = report.get("operation") or "", report.get("call_id"), report.get("trace_id")
    if call:
        kind, service = whose(report, operation)
        if (session := report.get("session")) and report.get("session_source") != "trace_id":
            found.append(key64(kind, "call", service, session, call))
        if trace:
            found.append(key64(operation, "trace call", trace, call))
        if report.get("session_source") == "trace":
            found.reverse()
    if trace and (span := report.get("span_id")) and report.get("source_signal") == "span":
        if operation == "model":  # child spans refer to it by this
            found.append(key64("call of", trace, span, operation))
        else:
            found.append(key64("span", trace, span))
        if operation == "tool" and (tool := report.get("tool")):  # to this too
            found.append(key64("call of", trace, span, _bare(tool)))
    if more := report.get("_keys"):
        found.extend(more)
    return found
