"""Which session a report is of that names none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collector.correlate.changes import Named
from collector.correlate.conversations import is_told
from collector.projects import untraced
from collector.report import Report


def seeking(reports: Iterable[Report]) -> list[Report]:
    """Those of these reports whose trace may have a better session than their own."""
    return [one for one in reports if not one.get("session") or one.get("session_source") == "instance"]


def adopt_session(report: Report, sessions: Mapping[str, Named], conversations: Mapping[str, Named]) -> None:
    """Gives a report without a session that of its trace, else that of the conversation that the trace is of, else the
    trace itself, else the instance of the service; one with the session of an MCP server keeps that where its trace has
    none. A session is called as its sender knows it: the project is beside it.
    """
    trace = report.get("trace_id")
    if trace and (named := sessions.get(trace)):
        report["session"], report["session_source"] = named[1], "trace"
    elif report.get("session"):
        return
    elif trace and (name := conversations.get(trace)):
        report["session"], report["session_source"] = untraced(name[1]), "trace" if is_told(name) else "trace_id"
    elif trace:
        report["session"], report["session_source"] = untraced(trace), "trace_id"
    elif instance := report.get("service_instance"):
        report["session"], report["session_source"] = instance, "instance"
