"""Folds the reports of one call into one event: a pure function, independent of their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from collector.classify.template.fingerprint import fingerprint
from collector.columns import COLUMNS, Row
from collector.recognise.identify import bare_tool
from collector.report import COVERED, GUESSED, KNOWN, SESSION_RANK, STORED, Rank, Report, Strength, as_report, as_row

CLASS_FIELDS = (
    "domain", "category", "error_class", "classified_by", "severity", "attribution", "recovery", "mistake", "retryable",
    "fatal",
)  # fmt: skip
FAILURE_FIELDS = frozenset(
    (*CLASS_FIELDS, "reported_class", "retryable_declared", "retry_after_ms", "message", "stack", "suggestion",
     "template", "fingerprint")
)  # fmt: skip
UNSPECIFIC = {
    "UnknownError": 0,
    "ToolExecutionError": 1,
    "McpToolError": 1,
    "ApiError": 1,
    "CommandFailedError": 2,
    None: -1,
}


def fold(reports: Sequence[Report]) -> Report:
    """The one event of these reports; without `outcome` while none has it, or while all only lend fields (`_lends`).

    Each field comes from the highest-ranked report that has it, the outcome from the report with the strongest
    evidence, the class from the most specific report with that outcome; ties go to the smaller report.
    """
    if len(reports) == 1:
        return _alone(reports[0])
    reports = _yielding(reports)
    ranked = sorted(reports, key=lambda report: (-report.get("_rank", 0), as_bytes(report)))
    row = _first_values(ranked)
    _fold_session(row, ranked)
    _fold_origin(row, ranked)
    told = [report for report in ranked if report.get("outcome")]
    own = [report for report in ranked if not report.get("_lends")]
    if told and own:
        # When the event came into being: `after` of the API finds it by this.
        row["received_ns"] = max(first_received(told), first_received(own))
        _fold_outcome(row, told)
    if row.get("target"):
        _fold_target(row, ranked)
    return as_report(row)


def _alone(report: Report) -> Report:
    row = as_row(report).copy()
    for name in STORED:
        if name in row:
            del row[name]
    if report.get("_lends"):
        row.pop("outcome", None)
    return as_report(row)


def _first_values(ranked: Sequence[Report]) -> Row:
    """Each column's value in the first of these reports that has one; without how the call ended."""
    row: Row = {}
    for report in ranked:
        for name, value in report.items():
            if name in COLUMNS and name not in FAILURE_FIELDS and value is not None:
                row.setdefault(name, value)
    row.pop("outcome", None)
    return row


def _fold_origin(row: Row, reports: Sequence[Report]) -> None:
    """When the call was first heard of, from where, and how much was cut out of what was told."""
    row["received_ns"] = first_received(reports)
    if len({report.get("provenance") or "telemetry" for report in reports}) > 1:
        row["provenance"] = "both"
    if redactions := max(report.get("redactions") or 0 for report in reports):
        row["redactions"] = redactions


def events_of(calls: Mapping[int, Sequence[Report]]) -> list[Report]:
    """The events of these reports, by their ids; of those that have an outcome."""
    events = [as_report(as_row(fold(some)) | {"event_id": event_id}) for event_id, some in calls.items() if some]
    return [event for event in events if event.get("outcome")]


def is_below(inner: Report, outer: Report) -> bool:
    """Whether these are spans of one tool, one directly below the other, that name no different ids or arguments."""
    return (
        inner.get("trace_id") == outer.get("trace_id")
        and inner.get("parent_span_id") == outer.get("span_id")
        and outer.get("span_id") is not None
        and bare_tool(inner.get("tool") or "") == bare_tool(outer.get("tool") or "")
        and all(len({inner.get(name), outer.get(name)} - {None}) < 2 for name in ("call_id", "params_hash"))
    )


def _inner_last(reports: Sequence[Report]) -> Sequence[Report]:
    """The reports of a call; a span below another one of it, which no table ranks, is one rank lower."""
    spans = [one for one in reports if one.get("source_signal") == "span" and one.get("span_id")]
    if len(spans) < 2:
        return reports
    around = {(one.get("trace_id"), one.get("span_id")): one for one in spans}

    def lowered(one: Report) -> Report:
        outer = around.get((one.get("trace_id"), one.get("parent_span_id")))
        if one.get("source_signal") != "span" or outer is None or outer.get("_rank", 0) != one.get("_rank", 0):
            return one
        return _lowered(one, again=False) if is_below(one, outer) else one

    return [lowered(one) for one in reports]


def _yielding(reports: Sequence[Report]) -> Sequence[Report]:
    """The reports of a model request; a span below another one gives way to it if it refers to it and no table ranks
    them: that of an instrumented client below a framework's. Of several, only the last decides: the client tried again.
    """
    if reports[0].get("operation") != "model":
        return _inner_last(reports)
    ranks = {one["span_id"]: one.get("_rank", 0) for one in reports if one.get("span_id")}

    def below(one: Report) -> bool:
        around = ranks.get(one.get("parent_span_id", ""))
        return bool(one.get("span_id") and one.get("_refs")) and around == one.get("_rank", 0)

    last = max(filter(below, reports), key=lambda one: (began_ns(one), as_bytes(one)), default=None)
    if last is None:
        return reports
    return [_lowered(one, again=one["span_id"] != last["span_id"]) if below(one) else one for one in reports]


def _lowered(report: Report, *, again: bool) -> Report:
    """One rank lower; with `again`, after which the request was made again, it is no evidence of how that ended."""
    strength = report.get("_strength", 0)
    weight = min(strength, Strength.OK_DEFAULT - 1) if again else strength
    return report | {"_rank": report.get("_rank", 0) - 1, "_strength": weight}


def began_ns(report: Report) -> int:
    """When what a report tells the end of began, as far as it says."""
    ended: int = report["time_ns"]
    return ended - round((report.get("duration_ms") or 0) * 1_000_000)


def is_own(report: Report) -> bool:
    """Whether this reports the call itself, under an id: not a result told to a model, nor a report that only lends."""
    return report.get("_rank", 0) > Rank.FRESH and "_twin" not in report and not report.get("_lends")


def adding(reports: Sequence[Report], known: Sequence[Report]) -> Sequence[Report]:
    """The reports without those that can never contribute to the event, whatever else arrives.

    Each model request repeats which calls ended well, and mostly adds nothing to the call's own report.
    """
    if files := [one for one in known if one.get("provenance") is not None]:
        reports = [one for one in reports if not any(_retells(one, file) for file in files)]
    settling = [one for one in (*known, *reports) if one.get("outcome") and is_own(one)]
    if not settling:
        return reports
    best = max(settling, key=lambda one: (one.get("_rank", 0), -one["received_ns"]))
    return [one for one in reports if not _covers(best, one)]


def _retells(told: Report, known: Report) -> bool:
    """Whether this is from an agent's file that was read before, or from a copy of it: a resumed or forked session, of
    which the one that was read first counts.
    """
    return (
        told.get("provenance") == "transcript"
        and told.get("outcome") == known.get("outcome")
        and all(name[0] == "_" or as_row(known).get(name) is not None for name in told)
    )


def _covers(best: Report, told: Report) -> bool:
    """Whether `best` has every field of the other, a higher rank and stronger evidence, and came no later."""
    return (
        told.get("outcome") == "ok"
        and best.get("_rank", 0) > told.get("_rank", 0)
        and best.get("_strength", 0) > told.get("_strength", 0)
        and best["received_ns"] <= told["received_ns"]
        and (best.get("redactions") or 0) >= (told.get("redactions") or 0)
        and _session_rank(best) >= _session_rank(told)
        and (told.get("session_source") in KNOWN or _guessed(best) == _guessed(told))
        and not (best["outcome"] == "ok" and FAILURE_FIELDS.intersection(best))
        and (best["outcome"] == "ok" or told.get("target") is None)
        and all(name in COVERED if name[0] == "_" else best.get(name) is not None for name in told)
    )


def orphan(report: Report) -> str | None:
    """The trace of a report whose session is a guess: a parent span may bring it later."""
    return report.get("trace_id") if report.get("session_source") in GUESSED else None


def _guessed(report: Report) -> tuple[str | None, str | None]:
    """What decides which session the report gets once that of its trace is known."""
    return report.get("session_source"), report.get("trace_id")


def _session_rank(report: Report) -> int:
    return SESSION_RANK.get(report.get("session_source"), 0)


def as_bytes(report: Report) -> bytes:
    """The same bytes for the same report, whenever it was received."""
    return msgspec.json.encode({**report, "received_ns": 0}, order="sorted")


def oldest(event_ids: Iterable[int], reports: Mapping[int, Sequence[Report]]) -> int:
    """The event whose first report was received first; ties go to the smaller id."""
    return min(event_ids, key=lambda one: (first_received(reports.get(one, ())), one))


def first_received(reports: Iterable[Report]) -> int:
    """When the first of these reports was received; 0 without any. The row that they were folded into is not older."""
    return min((report["received_ns"] for report in reports), default=0)


def _fold_target(row: Row, ranked: Sequence[Report]) -> None:
    """What the call itself named, or else, for a call that failed, what was found in a message. Of a call that ended
    well, nothing that was taken for an error names it.
    """
    well = row.get("outcome") == "ok"
    told = [one for one in ranked if one.get("target") and not one.get("target_guessed")]
    named = next((one["target"] for one in told if not well or one.get("outcome") in (None, "ok")), None)
    if named or well:
        row["target"] = named
    else:
        row["target_guessed"] = True


def _fold_session(row: Row, ranked: Sequence[Report]) -> None:
    best = max(ranked, key=_session_rank)
    for name in ("session", "session_source"):
        row[name] = best.get(name)


def _fold_outcome(row: Row, told: Sequence[Report]) -> None:
    surest = max(told, key=lambda report: report.get("_strength", 0))
    row["outcome"] = surest["outcome"]
    if surest["outcome"] in ("ok", "unknown"):
        return
    same = sorted(
        (report for report in told if report["outcome"] == surest["outcome"]),
        # What an agent's own file says of a failure is not what its telemetry leaves of it.
        key=lambda report: (UNSPECIFIC.get(report.get("error_class"), 3), report.get("provenance") is not None),
        reverse=True,
    )
    for name in CLASS_FIELDS:
        row[name] = same[0].get(name)
    for report in map(as_row, same):
        for name in FAILURE_FIELDS.difference(CLASS_FIELDS):
            if report.get(name) is not None:
                row.setdefault(name, report[name])
    if row.get("retryable_declared") is not None:
        row["retryable"] = row["retryable_declared"]
    if row.get("template"):
        row["fingerprint"] = fingerprint(
            row.get("error_class") or "", row.get("tool") or "", row["template"], row.get("project")
        )
