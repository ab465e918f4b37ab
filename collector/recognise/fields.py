"""One record read by one row: columns, evidence by kind, and the short attributes that are neither.

The loop over a record's attributes is the hottest of this package: one look-up per attribute says what it is good for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from collector.decode.record import Record
from collector.recognise.identify import bare_id
from collector.recognise.readers import (
    ABSENT_TEXTS,
    Around,
    as_bool,
    as_float,
    as_int,
    as_lines,
    as_params,
    as_text,
    present,
)
from collector.recognise.sources import KEPT, Row, Use

Report = dict[str, Any]
Signs = dict[str, list[Any]]

KEPT_CHARS, KEPT_COUNT = 200, 24  # of attributes that became no column
UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3), (10**20, 1))  # s, ms, µs, ns: below which number, times
NEVER = 99  # a preference below all others
SEVERITIES = {
    "info": "info",
    "warn": "warn",
    "warning": "warn",
    "error": "error",
    "critical": "fatal",
    "fatal": "fatal",
}


def _severity(value: Any) -> str | None:
    return SEVERITIES.get(str(value).lower())


def _unchanged(value: Any) -> Any:
    return value


CONVERT: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("sequence", "attempt", "retry_after_ms", "status_code", "input_tokens", "output_tokens", "reported_streak"),
        as_int,
    ),
    **dict.fromkeys(("duration_ms", "cost_usd"), as_float),
    **dict.fromkeys(("retryable_declared", "fatal"), as_bool),
    "params": as_params,
    "suggestion": as_lines,
    "severity": _severity,
    "time_ns": _unchanged,
}


def read(row: Row, record: Record, around: Around) -> tuple[Report, Signs, Report]:
    """The report's columns as the row's keys say, the evidence, and what is left of the attributes."""
    found = _Found()
    rest: Report = {}
    uses, take = row.uses, found.take
    for key, value in record.attributes.items():
        wanted = uses.get(key)
        if wanted is None:
            wanted = row.learn(key)
        if wanted is KEPT:
            if _short(value) and len(rest) < KEPT_COUNT:
                rest[key] = value
        elif wanted and value is not None and value != "":
            take(wanted, value)
    for use, name in row.resource:
        take((use,), around.resource.get(name))
        if use.slot == "session" and found.best.get("session") == use.preference:
            found.report["session_source"] = "resource"
    for use, read_special in row.special:
        if use.kind or use.preference < found.best.get(use.slot, NEVER):
            take((use,), read_special(record, around))
    _tidy(found.report)
    return found.report, found.signs, rest


def _short(value: Any) -> bool:
    return 0 < len(value) <= KEPT_CHARS if isinstance(value, str) else isinstance(value, (bool, int, float))


class _Found:
    """What was read so far; `best` holds the preference of the key that each column came from."""

    __slots__ = ("best", "report", "signs")

    def __init__(self) -> None:
        self.report: Report = {}
        self.best: dict[str, int] = {}
        self.signs: Signs = {}

    def take(self, uses: tuple[Use, ...], value: Any) -> None:
        """Puts a value where its key says, unless it is absent or something surer stands there."""
        plain = type(value) is str
        if value in ABSENT_TEXTS if plain else value is None:
            return
        empty = not plain and not value and isinstance(value, (dict, list))
        for slot, kind, preference, scale in uses:
            if kind:
                if not empty:
                    self.signs.setdefault(kind, []).append(value)
                continue
            if preference >= self.best.get(slot, NEVER) or (empty and slot != "params"):
                continue
            convert = CONVERT.get(slot)
            if convert is not None:
                put = convert(value if scale == 1.0 else (as_float(value) or 0.0) * scale)
            else:
                put = value if plain else as_text(value)
            if put is not None:
                self.best[slot] = preference
                self.report[slot] = put


def _tidy(report: Report) -> None:
    if "session" in report:
        report.setdefault("session_source", "record")
    if "mcp_server" in report:
        report["tool_kind"] = "mcp"
    tool, call_id = report.get("tool"), report.get("call_id")
    if tool and call_id:
        report["call_id"] = bare_id(call_id, tool)


def place(report: Report, record: Record, *, own: bool) -> None:
    """Time, duration and trace context. `own`: the record is the call's span; a log record's span id is its
    surroundings'.
    """
    said = report.pop("time_ns", None)
    time_ns = record.time_ns
    if not time_ns:
        time_ns = time_of(said if said is not None else record.attributes.get("event.timestamp")) or record.observed_ns
    report["time_ns"] = time_ns
    if record.trace_id:
        report["trace_id"] = record.trace_id
    if not own:
        if record.span_id:
            report["parent_span_id"] = record.span_id
        return
    if record.span_id:
        report["span_id"] = record.span_id
    if record.parent_span_id:
        report["parent_span_id"] = record.parent_span_id
    if record.start_ns and record.time_ns >= record.start_ns and "duration_ms" not in report:
        report["duration_ms"] = (record.time_ns - record.start_ns) / 1e6


def time_of(value: Any) -> int:
    """Nanoseconds since 1970 of an RFC 3339 text or a number of s, ms, µs or ns; 0 for anything else."""
    number = value if type(value) is int else as_float(value)
    if number is not None:
        factor = next((factor for limit, factor in UNITS if 0 < number < limit), 0)
        return round(number * factor)
    if not isinstance(value, str) or not present(value):
        return 0
    try:
        when = datetime.fromisoformat(value)
        if when.tzinfo is None:
            when = datetime.fromisoformat(f"{value}+00:00")
        return round(when.timestamp() * 1e6) * 1000
    except (ValueError, OverflowError):
        return 0
