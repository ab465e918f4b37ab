"""What correlation asks of a store because it is no longer in memory. An engine answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from collector.columns import COLUMNS, Row
from collector.correlate.changes import Named, Owned
from collector.projects import traced
from collector.report import STRENGTHS, Rank, Report, as_report

LENT = ("request", "session")  # how a model that no report of the call names is known
Span = tuple[int, int]  # first and last time


class Lookup(Protocol):
    """What `correlate` and `twins` ask of the store."""

    def known_requests(self, identities: Sequence[bytes]) -> set[bytes]:
        """The request identities among these that are stored."""

    def known_keys(self, keys: Sequence[int]) -> dict[int, int]:
        """The event of each of these keys that has one; for merged events, the one that is left."""

    def ended_between(
        self, since_ns: int, until_ns: int, call_ids: Sequence[str], event_ids: Sequence[int]
    ) -> list[Row]:
        """The events that ended in this time and have one of these call ids, or one of these ids themselves: event_id,
        operation, source, project, service, session, call_id, time_ns.
        """

    def keys_kept_since(self) -> int:
        """Since when all keys are kept, if there were too many for a day; else 0."""

    def known_sessions(self, traces: Sequence[str]) -> dict[str, Named]:
        """The session of each of these traces that has one."""

    def has_conversations(self) -> bool:
        """Whether any request was stored that retells another's calls."""

    def traces_retelling(self, keys: Sequence[int]) -> dict[int, str]:
        """A trace that tells each of these keys of conversations, of those that are stored."""

    def retelling_alike(self, since_ns: int) -> list[list[str]]:
        """Traces that share a key of a conversation that was stored since this time."""

    def conversations_of(self, traces: Sequence[str]) -> dict[str, Named]:
        """The name of the conversation of each of these traces that is of one."""

    def in_conversations(self, sessions: Sequence[str]) -> dict[str, Named]:
        """All traces of the conversations with these names, each with the whole name."""

    def strayed(self, since_ns: int) -> set[str]:
        """The traces with events, received since this time, that are not in the session of their conversation."""

    def newest_ns(self) -> int:
        """When the newest event or key was received; 0 if there is none."""

    def sharing(self, since_ns: int) -> dict[int, list[int]]:
        """The events that share a key that was stored since this time, each with these keys."""

    def nested(self, since_ns: int) -> set[int]:
        """The events whose span is below that of another call, of those of which one was received since this time."""

    def newest_below(self, most: int) -> list[tuple[int, Report]]:
        """Up to `most` spans of calls and requests of the newest minutes that are below another span."""

    def misplaced(self, since_ns: int) -> dict[str, Named]:
        """The sessions of those traces whose events or reports received since this time have none, or another one."""

    def known_senders(self, table: str) -> dict[Owned, int]:
        """Senders of metrics (`seen`) or of sampled data (`sampled`), and when each was last noted."""

    def known_switches(self) -> dict[Owned, int]:
        """Settings of agents that showed in their records, and when each was last noted."""

    def known_unread(self) -> set[Owned]:
        """Senders of records that no table takes although they speak a convention."""

    def orphans(self, most: int) -> set[str]:
        """Up to `most` traces of the newest day whose events or reports have a guessed session."""

    def orphaned(self, traces: Sequence[str], now_ns: int) -> set[int]:
        """Events and reports of these traces, not older than a day, whose session is a guess."""

    def waiting(self, most: int) -> list[tuple[int, int]]:
        """Up to `most` keys of calls that have not been reported, each with an event that refers to it."""

    def awaiting(self, keys: Sequence[int]) -> set[int]:
        """Events that refer to a call by one of these keys."""

    def twins_near(self, spans: Mapping[int, Span], units: Sequence[int]) -> dict[int, int]:
        """The event of each unit that may be a twin of reports with these identities and times, or that is in one event
        with any of `units`.
        """

    def reports_of(self, event_ids: Sequence[int], now_ns: int) -> dict[int, list[Report]]:
        """The reports from which each of these events was folded; those received just before `now_ns` cost least."""


def report_of(row: Row) -> Report:
    """The one report of an event that has no rows in `reports`."""
    report: Row = {name: row[name] for name in COLUMNS if row.get(name) is not None and name != "event_id"}
    if "trace_id" in report:
        report["trace_id"] = traced(report.get("project"), report["trace_id"])
    report.pop("asked_by", None)  # this and what a model request lent is no word of the call's own report
    if row["model_from"] in LENT:
        for name in ("model", "model_from"):
            report.pop(name, None)
    # An event of several reports whose reports are no longer kept is one of its own.
    report["_rank"] = Rank.LOG if row["report_rank"] is None else row["report_rank"]
    report["_strength"] = STRENGTHS[row["outcome"]] if row["outcome_strength"] is None else row["outcome_strength"]
    if row["target_guessed"]:
        report["target_guessed"] = True
    return as_report(report)
