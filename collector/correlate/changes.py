"""Everything that one transaction writes: what the correlator makes of batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from collector.batch import Sampling
from collector.columns import Row
from collector.correlate.fold import began_ns
from collector.recognise.identify import key64
from collector.report import ONLY_OF_REPORTS, Report
from collector.times import HOUR, MAX_NS

Named = tuple[int, str]  # a session of a trace, after the time at which what names it began
Whose = tuple[str | None, str | None, str | None]  # project, service and session
Owned = tuple[str, ...]  # a sender, a setting, or what is not read of one; the last is the project, "" without one
Fate = tuple[str, str | None]  # what became of a record, and its project
ACCEPTED = "accepted"  # the fate of all


@dataclass(slots=True)
class Changes:
    """Everything one transaction writes."""

    received_ns: int
    identities: list[bytes] = field(default_factory=list)
    duplicates: set[int] = field(default_factory=set)  # indexes of batches that were stored before
    events: list[Report] = field(default_factory=list)
    # Events whose row and reports are removed, and maybe written again: when the first of these reports was received.
    replaced: dict[int, int] = field(default_factory=dict)
    old: list[Report] = field(default_factory=list)  # those of them that there were, as they were stored
    reports: list[tuple[int, Report]] = field(default_factory=list)
    several: set[int] = field(default_factory=set)  # events whose reports are of several attempts (attempts.py)
    keys: dict[int, int] = field(default_factory=dict)
    unchecked: set[int] = field(default_factory=set)  # those of them that were not looked for in the store
    sessions: dict[str, Named] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)  # traces among them whose stored events may have another session
    retold: dict[int, str] = field(default_factory=dict)  # keys of conversations, each with a trace that tells it
    conversations: dict[str, Named] = field(default_factory=dict)  # names of those that traces are of
    moved: dict[str, bool] = field(default_factory=dict)  # traces with another such session; whether they had one
    redirects: dict[int, int] = field(default_factory=dict)
    # Keys of calls that were not reported yet, each with an event that refers to it.
    waiting: list[tuple[int, int]] = field(default_factory=list)
    # Spans of calls below others, each with its event (nested.py).
    below: list[tuple[int, int]] = field(default_factory=list)
    twins: list[Row] = field(default_factory=list)  # which units are in which event because they are twins
    position: int = 0  # in the journal, of the last batch
    accounting: Counter[Fate] = field(default_factory=Counter)  # the records in these requests, and what became of them
    senders: dict[Owned, str] = field(default_factory=dict)
    sampled: dict[Owned, Sampling] = field(default_factory=dict)
    switches: dict[Owned, None] = field(default_factory=dict)
    unread: Counter[Owned] = field(default_factory=Counter)

    def new_id(self, key: int) -> int:
        """The id of a new event, or new until its key is looked for: another event may have the key as its id."""
        return key64("unchecked", self.identities[0].hex(), str(key)) if key in self.unchecked else key

    def add(self, event: Report, event_id: int, reports: Sequence[Report]) -> None:
        """Adds the event of these reports, and the reports themselves if it does not say all that they say."""
        event["event_id"] = event_id
        if event.get("outcome"):
            if len(reports) == 1:
                event["report_rank"] = reports[0].get("_rank", 0)
                event["outcome_strength"] = reports[0].get("_strength", 0)
            self.events.append(event)
        if len(reports) > 1 or not event.get("outcome") or not reports[0].keys().isdisjoint(ONLY_OF_REPORTS):
            self.reports.extend((event_id, report) for report in reports)

    @property
    def before(self) -> set[int]:
        """The events that were stored before, by the ids that they have now."""
        return {self.redirects.get(event["event_id"], event["event_id"]) for event in self.old}

    @property
    def changed(self) -> list[Row]:
        """Which sessions have other events now, from when on: the rows to be added to `changed`."""
        replaced = {_whose(event) for event in self.old}
        rows = earliest(noted([*self.events, *self.old]))
        whose = [(row["project"], row["service"], row["session"]) for row in rows]
        return [row | {"added": None} if one in replaced else row for one, row in zip(whose, rows, strict=True)]


def noted(events: Iterable[Report]) -> Iterator[tuple[Whose, int, bool]]:
    """Whose session each event is of, its time, and true; and when it began of a model request, and false: calls that
    began meanwhile may have its model.
    """
    for event in events:
        whose, time_ns = _whose(event), event["time_ns"]
        yield whose, time_ns, True
        if event.get("operation") == "model" and event.get("duration_ms"):
            yield whose, began_ns(event) - 1, False


def _whose(event: Report) -> Whose:
    return event.get("project"), event.get("service"), event.get("session")


def earliest(changed: Iterable[tuple[Whose, int, bool]]) -> list[Row]:
    """The earliest time of each session in each hour, and how many events it has there, as rows of `changed`; apart
    from them, the earliest time at which none is.
    """
    earliest: dict[tuple[Whose, int, bool], tuple[int, int]] = {}
    for whose, time_ns, counts in changed:
        key = whose, time_ns // HOUR, counts
        least_ns, added = earliest.get(key, (MAX_NS, 0))
        earliest[key] = min(time_ns, least_ns), added + counts
    return [
        {"project": project, "service": service, "session": session, "time_ns": time_ns, "added": added}
        for ((project, service, session), *_), (time_ns, added) in earliest.items()
    ]
