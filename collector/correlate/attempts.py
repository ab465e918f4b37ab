"""Tells the attempts of a call apart that are reported under one id.

A framework that runs a failed call again keeps its id, and some model servers number their calls anew in each run. What
tells attempts apart is their number, where the agent gives one, or else the time: of the spans that one instrumentation
makes for the id, one began after another had ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from collector.correlate.fold import as_bytes, began_ns, is_own
from collector.recognise.identify import key64
from collector.report import Rank, Report

_Name = tuple[str, ...]  # of a span: trace and span id


@dataclass(slots=True)
class _Run:
    """Reports of one attempt, from when to when, in nanoseconds; `kinds` are who made them."""

    names: set[_Name]  # of spans; or the attempt's number
    began: int
    ended: int
    kinds: set[tuple[object, ...]]
    number: int | None = None  # that the agent gave it

    def take(self, other: _Run) -> None:
        self.names |= other.names
        self.began, self.ended = min(self.began, other.began), max(self.ended, other.ended)
        self.kinds |= other.kinds


def attempts(event_id: int, reports: Sequence[Report]) -> dict[int, list[Report]]:
    """The reports of each attempt, by the id of its event: `event_id` is of the one that was reported first.

    What a model request tells of earlier requests is of no attempt if there are several.
    """
    runs = _numbered(reports) or _runs(reports)
    if len(runs) < 2:
        return {event_id: list(reports)}
    found: list[list[Report]] = [[] for _ in runs]
    for report in reports:
        if report.get("_rank") != Rank.REPEATED:
            found[_place(report, runs)].append(report)
    first = min(range(len(runs)), key=lambda place: min(map(_received, found[place])))
    names = [
        event_id if place == first else key64("attempt", str(event_id), *min(run.names))
        for place, run in enumerate(runs)
    ]
    return dict(zip(names, found, strict=True))


def _numbered(reports: Iterable[Report]) -> list[_Run]:
    """The attempts that one sender numbers, in its own records of a call's end."""
    senders: dict[tuple[object, ...], dict[int, _Run]] = {}
    for report in reports:
        if "attempt" in report and "outcome" in report and report.get("source_signal") != "span" and is_own(report):
            number = report["attempt"]
            one = _Run({(str(number),)}, began_ns(report), report["time_ns"], {_kind(report)}, number)
            senders.setdefault(_kind(report), {}).setdefault(number, one).take(one)
    most = max(senders.values(), key=len, default={})
    return [most[number] for number in sorted(most)] if len(most) > 1 else []


def _runs(reports: Iterable[Report]) -> list[_Run]:
    spans: dict[_Name, _Run] = {}
    below: dict[_Name, list[_Run]] = {}
    for report in reports:
        if _is_span(report):
            name = (report["trace_id"], report["span_id"])
            one = _Run({name}, began_ns(report), report["time_ns"], {_kind(report)})
            if name not in spans and (parent := report.get("parent_span_id")):
                below.setdefault((report["trace_id"], parent), []).append(one)
            spans.setdefault(name, one).take(one)
    if len(spans) < 2:
        return []
    overlapping: list[_Run] = []
    around = _around_several(spans, below)
    for run in sorted(spans.values(), key=lambda run: (run.began, min(run.names))):
        if not around.isdisjoint(run.names):
            continue
        if overlapping and run.began <= overlapping[-1].ended:
            overlapping[-1].take(run)
        else:
            overlapping.append(run)
    runs = overlapping[:1]
    for run in overlapping[1:]:
        # Where nobody made a span before and after, these are steps of one attempt: asking for leave, then running.
        if run.kinds.isdisjoint(runs[-1].kinds):
            runs[-1].take(run)
        else:
            runs.append(run)
    return runs


def _around_several(spans: Mapping[_Name, _Run], below: Mapping[_Name, list[_Run]]) -> set[_Name]:
    """The spans around several others that one instrumentation made one after another: all of these are attempts."""
    several = set()
    for name in spans.keys() & below.keys():
        runs = sorted(below[name], key=lambda run: (run.began, run.ended))
        if any(one.ended < run.began and not one.kinds.isdisjoint(run.kinds) for one, run in pairwise(runs)):
            several.add(name)
    return several


def _place(report: Report, runs: Sequence[_Run]) -> int:
    """The run with its number, or else the first at the time of this report, or else the last before it. A span around
    several tells how the last of them ended.
    """
    numbers, began, ended = [run.number for run in runs], began_ns(report), report["time_ns"]
    if (number := report.get("attempt")) is not None and number in numbers:
        return numbers.index(number)
    if numbers[0] is not None and _is_span(report):  # records of numbered attempts come after their spans
        return next((place for place, run in enumerate(runs) if run.ended >= ended), len(runs) - 1)
    before = [place for place, run in enumerate(runs) if run.began <= ended]
    if _is_span(report) and not any((report["trace_id"], report["span_id"]) in run.names for run in runs):
        return before[-1] if before else 0
    return next((place for place in before if runs[place].ended >= began), before[-1] if before else 0)


def _is_span(report: Report) -> bool:
    return (
        report.get("operation") == "tool"
        and report.get("source_signal") == "span"
        and "outcome" in report
        and "duration_ms" in report
        and "span_id" in report
        and "trace_id" in report
        and report.get("_rank", 0) > Rank.FRESH
        and not report.get("_lends")
    )


def _kind(report: Report) -> tuple[object, ...]:
    return tuple(report.get(name) for name in ("service", "source", "_rank"))


def _received(report: Report) -> tuple[int, bytes]:
    return report["received_ns"], as_bytes(report)
