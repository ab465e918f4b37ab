"""Makes one event of reports that share no id: KODE reports each error on its progress and on its monitor channel.

Reports are twins if they come from one service and source (what a request tells of a call may come from another
source), have different roles, agree in the columns that their source's table names for these, and are at most two
seconds apart; a call and what was asked for before or told after it ten minutes, because other calls or a person may
come between, or ten seconds if the call's arguments are not exported. What fits best is paired first
(`Candidate.far_from`), and an event has each role at most once. Pairing depends on all candidates together, so every
commit pairs again whatever is near its new reports. All of this is read from the store, so that neither a restart nor a
failed commit changes the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collector.columns import Row
from collector.correlate.changes import Changes
from collector.correlate.fold import as_bytes, began_ns, first_received, fold, is_own, oldest
from collector.correlate.lookup import Span
from collector.correlate.memory import Memory
from collector.projects import within
from collector.recognise.identify import key64
from collector.report import BEGINNINGS, RESULT_TWIN, Rank, Report, Role, as_row, each_twin
from collector.times import MINUTE, SECOND

NEAR_NS = 2 * SECOND
TURN_WINDOW_NS = 10 * MINUTE
BARE_WINDOW_NS = 10 * SECOND  # of calls without arguments, where all that a trace tells of a tool may be near
RESULT_COLUMNS = list(RESULT_TWIN[1:])
AROUND = 5  # reports within this many windows of a new one are paired again
REACH = 64  # a report is only compared with this many following ones of its identity

Unit = int  # the id of the event that its reports would be by their keys alone


class Candidate(NamedTuple):
    """What pairing needs of one report; ordered by time, then by content."""

    time_ns: int
    said: bytes
    unit: Unit
    identity: int
    role: str
    family: int  # an event has a role once in each
    window_ns: int
    outcome: str

    def far_from(self, other: Candidate) -> int:
        """How little a later one fits: the time between them, and much more for what was told before a call had ended,
        and for another outcome, unless the arguments of the calls are equal.
        """
        outcomes = {self.outcome, other.outcome} - {"", "unknown"}
        unlikely = (self.role == Role.RESULT) + (self.is_bare and len(outcomes) > 1)
        return other.time_ns - self.time_ns + unlikely * TURN_WINDOW_NS

    @property
    def is_bare(self) -> bool:
        """Whether the identity has no arguments."""
        return self.identity == self.family


def pair(changes: Changes, memory: Memory, old: dict[int, list[Report]]) -> dict[int, list[Report]]:
    """Completes the changes so that twins, new and stored, become one event with the id of the oldest.

    `old` are the stored reports of each unit that is replaced; returns those of each event.
    """
    several = changes.several  # their reports have ids, and are not told apart by what twins have in common
    told: dict[Unit, list[Report]] = {
        unit: [] for unit, report in changes.reports if "_twin" in report and unit not in several
    }
    if not told and not several:
        return old
    for unit, report in changes.reports:
        if unit in told:
            told[unit].append(report)
    spans = _spans(told)
    stored = memory.twins_near(spans, list(changes.replaced))
    new = {unit: reports for unit, reports in told.items() if unit in stored or any(_told(unit, reports))}
    if not new and several.isdisjoint(stored):
        return old
    before: dict[int, set[Unit]] = {}
    for unit, event_id in stored.items():
        before.setdefault(event_id, set()).add(unit)
    loaded = memory.reports(set(stored).difference(changes.replaced, several), changes.received_ns)
    units = {**loaded, **new}
    parts = parts_of(units)
    redrawn = [part for part in parts if not new.keys().isdisjoint(part) or before[stored[min(part)]] != part]
    _draw(redrawn, units, set(new), changes)
    return _events_before(before, {**loaded, **old}, changes)


def _events_before(
    parts: Mapping[int, set[Unit]], units: Mapping[Unit, list[Report]], changes: Changes
) -> dict[int, list[Report]]:
    """The stored reports of each event that is replaced. `parts` are the units of each event of twins."""
    events = {event_id: reports for event_id, reports in units.items() if event_id in changes.replaced}
    for event_id, part in parts.items():
        for unit in part:
            events.pop(unit, None)
        if event_id in changes.replaced:
            events[event_id] = [report for unit in sorted(part) for report in units.get(unit, ())]
    return events


def _draw(redrawn: Sequence[set[Unit]], units: Mapping[Unit, list[Report]], new: set[Unit], changes: Changes) -> None:
    """Writes each part as one event; reports stay with their unit, so that they can be paired differently later."""
    gone = set().union(*redrawn)
    changes.events[:] = [row for row in changes.events if row["event_id"] not in gone]
    changes.replaced |= {unit: first_received(units[unit]) for unit in gone - new}
    for part in redrawn:
        event_id = oldest(part, units)
        row = fold([report for unit in sorted(part) for report in units[unit]])
        row["event_id"] = event_id
        if row.get("outcome"):
            changes.events.append(row)
        for unit in sorted(part):
            if unit not in new:
                changes.reports += [(unit, report) for report in units[unit]]
            received_ns = first_received(units[unit])  # it is removed a day later
            of_event: Row = {"unit": unit, "event_id": event_id, "received_ns": received_ns}
            changes.twins += [
                of_event | {"identity": one.identity, "time_ns": one.time_ns} for one in _told(unit, units[unit])
            ]


def parts_of(units: Mapping[Unit, Sequence[Report]]) -> list[set[Unit]]:
    """The sets of units that are one event each, independent of the order of `units`."""
    told = {unit: list(_told(unit, reports)) for unit, reports in units.items()}
    lines: dict[int, list[Candidate]] = {}
    for one in (one for some in told.values() for one in some):
        lines.setdefault(one.identity, []).append(one)
    part = {unit: _Part({unit}, {(one.family, one.role) for one in some}) for unit, some in told.items()}
    for _, one, other in sorted(near for line in lines.values() for near in _near(sorted(line))):
        into, merged = part[one.unit], part[other.unit]
        if into is not merged and into.roles.isdisjoint(merged.roles):
            into.units |= merged.units
            into.roles |= merged.roles
            part.update(dict.fromkeys(merged.units, into))
    return list({id(one): one.units for one in part.values()}.values())


@dataclass(slots=True)
class _Part:
    units: set[Unit]
    roles: set[tuple[int, str]]


def _near(line: Sequence[Candidate]) -> Iterator[tuple[int, Candidate, Candidate]]:
    for place, one in enumerate(line):
        # What was told before a call ended is hardly of this call; but clocks need not agree.
        window_ns = NEAR_NS if one.role == Role.RESULT else one.window_ns
        for other in line[place + 1 : place + 1 + REACH]:
            if other.time_ns - one.time_ns > window_ns:
                break
            if other.role != one.role and other.unit != one.unit:
                yield one.far_from(other), one, other


def _told(unit: Unit, reports: Sequence[Report]) -> Iterator[Candidate]:
    """The reports that look for a twin; neither a result told to the model nor a span without an id if
    the call's own report has one.
    """
    unwanted = _known_roles(reports)
    fresh = any(one.get("_rank", 0) > Rank.REPEATED for one in reports if "_twin" in one)
    for report in reports:
        if fresh and report.get("_rank") == Rank.REPEATED:  # later requests tell it too, beside newer ones
            continue
        for role, *columns in each_twin(report.get("_twin", ())):
            if role not in unwanted:
                yield from _candidates(unit, report, role, columns)


def _known_roles(reports: Sequence[Report]) -> set[str]:
    """The roles that need no twin: the call's own report says what they would."""
    # An agent's own file tells of calls whose telemetry still has to find itself.
    telling = [one for one in reports if is_own(one) and one.get("provenance") is None]
    if not telling:
        return set()
    return {Role.RESULT, Role.CALL} if any("call_id" in one for one in telling) else {Role.RESULT}


def _candidates(unit: Unit, report: Report, role: str, columns: Sequence[str]) -> Iterator[Candidate]:
    """What a report looks for in one of its roles."""
    family = identity = _identity(as_row(report), columns)
    window_ns = TURN_WINDOW_NS if role in (Role.ASKED, Role.BEGUN) else NEAR_NS
    if columns == RESULT_COLUMNS:
        family = _identity(as_row(report) | {"params_hash": None}, columns)
        window_ns = TURN_WINDOW_NS if identity != family else BARE_WINDOW_NS
    one = Candidate(
        began_ns(report) if role in BEGINNINGS else report["time_ns"], as_bytes(report), unit, identity, role,
        family, window_ns, report.get("outcome") or "",
    )  # fmt: skip
    yield one
    if role == Role.RESULT and family != identity:  # a call whose arguments are not exported
        yield one._replace(identity=family, window_ns=BARE_WINDOW_NS)


def _identity(report: Row, columns: Sequence[str]) -> int:
    """What twins have in common. What is told of a call may come from another source: that of the model's client."""
    common = ("service",) if columns == RESULT_COLUMNS else ("source", "service")
    kind = within(report.get("project"), "twin")
    return key64(kind, *(str(report.get(column) or "") for column in (*common, *columns)))


def _spans(units: Mapping[Unit, Sequence[Report]]) -> dict[int, Span]:
    """For each identity, the time range in which to look for twins."""
    spans: dict[int, Span] = {}
    for unit, reports in units.items():
        for one in _told(unit, reports):
            around = AROUND * one.window_ns
            low, high = spans.get(one.identity, (one.time_ns, one.time_ns))
            spans[one.identity] = min(low, one.time_ns - around), max(high, one.time_ns + around)
    return spans
