"""Completes a report: signal and time, outcome and reason, and the identities by which others of its call are found."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from collector.decode.record import Record
from collector.projects import within
from collector.recognise.fields import Signs, place
from collector.recognise.identify import canonical, identify, is_name
from collector.recognise.readers import as_float, as_text
from collector.recognise.reasons import retry_after_in, status_in
from collector.recognise.settle import UNDISPUTED, Raised, Said, Settled, settled
from collector.recognise.sources import Row
from collector.report import CALL_TWIN, OF_ONE_CALL, Report, Strength, each_twin

# OpenInference for JavaScript writes class and stack below the message.
STACK, CLASS_ABOVE = "\n    at ", re.compile(r"([A-Z]\w{0,100}): ")
SENDER = ("service", "service_instance", "session")  # of these, and of equal records, which one tells a record apart
STATUS_CODE = re.compile(r"[0-9]{3}")


def complete(row: Row, record: Record, report: Report, signs: Signs, marks: Counter[str]) -> None:
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
        report.setdefault("_keys", []).append((within(report.get("project"), "record"), _mark(record, report, marks)))


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
    found = _settled(row, record, report, signs)
    if found.outcome:
        report["outcome"] = found.outcome
        report["_strength"] = found.strength if row.sure else min(found.strength, Strength.UNSURE)
    if found.exit_code is not None and report["operation"] == "tool":
        report.setdefault("tool_kind", "command")
    if found.outcome in ("", "ok", "unknown"):
        report.pop("message", None)
        report.pop("stack", None)
        report.pop("reported_class", None)
    else:
        _add_reason(report, found)


def _settled(row: Row, record: Record, report: Report, signs: Signs) -> Settled:
    """The outcome; none where silence proves nothing."""
    rules = row.reading().rules
    if signs or row.outcome or record.status == 2 or record.events:
        found = settled(signs, rules, _stated(row, record, report))
    else:
        found = UNDISPUTED[record.status != 0 and rules.status]
    silent = found.strength == Strength.OK_DEFAULT and (row.lends or not rules.silence)
    return Settled() if silent else found


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
    """Adds the reason of a failure."""
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
    _read_text(report, settled)


def _read_text(report: Report, settled: Settled) -> None:
    """Adds what may be in the text alone: a requested delay, the HTTP status of a model request."""
    ran = report["operation"] == "tool" and settled.exit_code is not None
    if not ran and "retry_after_ms" not in report:  # what a program prints is no wish of the tool
        delay = retry_after_in(settled.text)
        if delay is not None:
            report["retry_after_ms"] = delay
    if report["operation"] == "model" and "status_code" not in report:
        reported = report.get("reported_class", "")
        status = int(reported) if STATUS_CODE.fullmatch(reported) else status_in(settled.text)
        if status:
            report["status_code"] = status
