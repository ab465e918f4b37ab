"""Reports of one error that share no id are one event; equal failures one after another are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.store.correlate import Batch
from collector.store.twins import PENDING, REMEMBERED, WINDOW_NS, Twins
from tests.doors import KODE_MONITOR, KODE_PROGRESS, MS, NOW, cline, logs, missing, stored, taken, through


def report(at_ms: int, service: str = "s", message: str = "m") -> dict[str, Any]:
    return {"time_ns": NOW + at_ms * 10**6, "source": "x", "service": service, "message": message}


def test_a_report_joins_the_nearest_that_lacks_its_role() -> None:
    twins = Twins()
    assert twins.key(report(0), ("call", "message"), 1) == 1
    assert twins.key(report(1000), ("call", "message"), 2) == 2
    assert twins.key(report(900), ("reason", "message"), 3) == 2
    assert twins.key(report(910), ("reason", "message"), 4) == 1
    assert twins.key(report(920), ("reason", "message"), 5) == 5
    assert twins.key(report(900), ("reason", "message"), 3) == 2
    assert twins.key(report(905, message="n"), ("call", "message"), 6) == 6
    assert twins.key(report(905, service="t"), ("call", "message"), 7) == 7


def test_memory_is_bounded() -> None:
    twins = Twins()
    for number in range(PENDING + 1):
        twins.key(report(number), ("call", "message"), number)
    assert twins.key(report(0), ("reason", "message"), -1) == 1
    for number in range(REMEMBERED):
        twins.key(report(0, message=str(number)), ("call", "message"), number)
    assert twins.key(report(2), ("reason", "message"), -2) == -2
    assert WINDOW_NS == 2 * 10**9


def pair(gap_ms: int, service: str = "a") -> list[Batch]:
    later = KODE_PROGRESS | {"bookmark": {"seq": 13, "timestamp": MS + gap_ms}}
    return [through("events", KODE_MONITOR, service), through("events", later, service)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("gap_ms", "count"), [(0, 1), (1, 1), (1999, 1), (-1999, 1), (2001, 2), (9000, 2)])
def test_kode_s_two_events_of_one_error_are_one(order: tuple[int, int], gap_ms: int, count: int) -> None:
    batches = [pair(gap_ms)[one] for one in order]
    together, apart = stored(batches), stored(batches[:1], batches[1:])
    assert len(together) == len(apart) == count
    if count == 1:
        wanted = {
            "tool": "fs_read",
            "call_id": "call-1",
            "reported_class": "runtime",
            "retryable_declared": True,
            "retryable": True,
            "severity": "warn",
            "error_class": "FileNotFoundError",
        }
        assert missing(together[0], wanted) == {} == missing(apart[0], wanted)


def test_kode_s_equal_failures_one_after_another_stay_apart() -> None:
    def both(at_ms: int, number: int) -> list[dict[str, Any]]:
        call = KODE_PROGRESS["call"] | {"id": f"call-{number}"}  # type: ignore[operator]
        return [
            KODE_MONITOR | {"timestamp": at_ms},
            KODE_PROGRESS | {"call": call, "bookmark": {"seq": number, "timestamp": at_ms + 1}},
        ]

    items = [item for number in range(3) for item in both(MS + number * 500, number)]
    whole = taken(json.dumps(items).encode(), "events")
    rows = stored([whole])
    assert [row["call_id"] for row in rows] == ["call-0", "call-1", "call-2"]
    backwards = stored(*([through("events", item, "")] for item in reversed(items)))
    assert [row["call_id"] for row in backwards] == ["call-0", "call-1", "call-2"]
    monitors = stored([taken(json.dumps([KODE_MONITOR] * 101).encode(), "events")])
    assert len(monitors) == 101


def test_kode_s_events_of_two_services_stay_apart() -> None:
    assert len(stored([pair(0, "a")[0], pair(0, "b")[1]])) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_cline_s_failed_edit_and_its_reason_are_one_event(order: tuple[int, int]) -> None:
    at = [{"timeUnixNano": str(NOW - 10**9 + 10**6 * number)} for number in range(2)]
    records = [
        cline("task.tool_used", tool="write_to_file", success=False) | at[0],
        cline("task.diff_edit_failed", errorType="the search block is not in the file") | at[1],
    ]
    batches = [taken(logs(records[number], service="cline")) for number in order]
    rows = stored(batches[:1], batches[1:])
    assert [(row["outcome"], row["tool"], row["reported_class"]) for row in rows] == [
        ("error", "write_to_file", "task.diff_edit_failed")
    ]
    assert rows[0]["mistake"] is True


def test_two_failed_edits_with_one_reason_stay_two() -> None:
    records = [cline("task.tool_used", tool="write_to_file", success=False) for _ in range(2)]
    records.append(cline("task.diff_edit_failed", errorType="no match"))
    assert len(stored([taken(logs(*records, service="cline"))])) == 2
