"""Spans of one call, one below the other, that share no id: a framework's around that of the toolset, the SDK or MCP.

The inner span is of the outer one's call if both name the same tool, no different arguments and no different ids, and
no model was asked in between: an agent that is a tool may call that tool again. What the outer span says of who called
goes before what the inner one says (fold.py); several inner spans one after another are attempts (attempts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.correlate.fold import began_ns, is_below
from collector.recent import Recent
from collector.recognise.identify import bare_tool, key64
from collector.report import Report

REMEMBERED = 25_000  # spans, in two generations
MOST_BELOW = 4  # of one tool below one span: with more it is a loop, not a call


def below_key(trace: str, parent: str, tool: str) -> int:
    """The key of the spans of a tool below another span."""
    return key64("below", trace, parent, bare_tool(tool))


def is_call_span(report: Report) -> bool:
    """Whether this is the span of a call, of which another span may tell too."""
    return bool(
        report.get("operation") == "tool"
        and report.get("source_signal") == "span"
        and "_lends" not in report
        and report.get("trace_id")
        and report.get("span_id")
        and report.get("tool")
    )


def around_of(report: Report) -> list[tuple[int, Report]]:
    """The key of the span around that of a call, with the inner span."""
    parent = report.get("parent_span_id")
    return [(key64("span", report["trace_id"], parent), report)] if parent and is_call_span(report) else []


class Below:
    """The newest spans of calls that are below another span, and below which spans models were asked."""

    def __init__(self, stored: Iterable[tuple[int, Report]] = ()) -> None:
        """`stored` are the newest such spans in the store, with their events' ids."""
        self._calls: Recent[tuple[int, ...]] = Recent(REMEMBERED)
        self._asked: Recent[int] = Recent(REMEMBERED)
        for event_id, report in stored:
            if report["operation"] == "tool":
                self.learn([(below_key(report["trace_id"], report["parent_span_id"], report["tool"]), event_id)])
            else:
                self.note([report])

    def note(self, reports: Iterable[Report]) -> None:
        """Remembers below which spans these model requests were made, and when the first of them had ended."""
        for report in reports:
            if report.get("operation") == "model" and (parent := report.get("parent_span_id")):
                key = key64("asked", report.get("trace_id") or "", parent)
                self._asked.put(key, min(report["time_ns"], self._asked.get(key) or report["time_ns"]))

    def learn(self, below: Sequence[tuple[int, int]]) -> None:
        """Remembers the events of spans of calls, by `below_key`."""
        for key, event_id in below:
            known = self._calls.get(key) or ()
            if event_id not in known and len(known) < MOST_BELOW:
                self._calls.put(key, (*known, event_id))

    def events_below(self, report: Report) -> Sequence[int]:
        """The events of the spans of the same tool that are below this one."""
        if not self._calls or not is_call_span(report):
            return ()
        return self._calls.get(below_key(report["trace_id"], report["span_id"], report["tool"])) or ()

    def is_one_call(self, outer: Report, inner: Report) -> bool:
        """Whether the inner span, below the outer one, is of the same call."""
        if not is_below(inner, outer):
            return False
        asked_ns = self._asked.get(key64("asked", outer["trace_id"], outer["span_id"]))
        return asked_ns is None or asked_ns > began_ns(inner)
