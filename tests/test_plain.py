"""Plain JSON bodies: what is accepted, what is mended, what is refused and why; only Rejected is ever raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.columns import TEXTS
from collector.decode.plain import decode
from collector.errors import Rejected
from tests.doors import NOW, only, stored, taken
from tests.search import searching

CALL = {"tool": "read_file", "outcome": "error", "error_class": "FileNotFoundError", "message": "gone", "session": "s"}
LINE = json.dumps(CALL).encode()
DEEP = b'{"tool": ' + b"[" * 200 + b"]" * 200 + b"}"
DEEPEST = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (LINE, 1),
        (b" \n" + LINE + b"\n\n", 1),
        (b"[" + LINE + b"," + LINE + b"]", 2),
        (LINE + b"\n" + LINE + b"\r\n\n" + LINE, 3),
        (json.dumps([CALL], indent=2).encode(), 1),
        (json.dumps(CALL, indent=2).encode(), 1),
        (b"", 0),
        (b" \n ", 0),
        (b"[]", 0),
    ],
)
def test_an_object_an_array_and_json_lines_are_taken(body: bytes, count: int) -> None:
    batch = taken(body, "events")
    assert (len(batch.reports), batch.records, batch.warning) == (count, count, "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[1,2]", "item 1 is a number or a boolean, not a JSON object"),
        (b"7", "line 1 is a number or a boolean"),
        (b"null", "line 1 is null"),
        (b'"text"', "line 1 is a text"),
        (b"[[]]", "item 1 is an array"),
        (b'{"a": 1', "line 1 is not JSON"),
        (b'{\n  "a": 1,\n  "b" 2\n}', "line 3 is not JSON"),
        (b'[\n{"a": 1},\n{"b": }\n]', "line 3 is not JSON"),
        (b"<html>", "line 1 is not JSON"),
        (b"one\ntwo\n", "line 1 is not JSON"),
        (b"\x00\x01", "line 1 is not JSON"),
        (DEEP, "line 1 is nested deeper than 64 levels"),
        (DEEPEST, "item 1 is an array, not a JSON object"),
    ],
)
def test_what_holds_no_object_is_refused_with_its_line(body: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason) as refused:
        taken(body, "events")
    assert refused.value.status == 400


def test_a_refusal_never_repeats_the_data() -> None:
    for body in (b'{"password": "hunter2', b'"hunter2"', b"hunter2", b'{"a": "hunter2"}\nhunter2\n[1'):
        try:
            said = decode(body).warning
        except Rejected as refused:
            said = str(refused)
        assert said
        assert "hunter2" not in said


@pytest.mark.parametrize(
    ("body", "accepted", "warning"),
    [
        (LINE + b"\n{oops\n" + LINE + b"\n7\n", 2, "2 of 4 not taken; the first: line 2 is not JSON"),
        (b"{oops\n" + LINE, 1, "1 of 2 not taken; the first: line 1 is not JSON"),
        (b"[3, " + LINE + b"]", 1, "1 of 2 not taken; the first: item 1 is a number"),
        (LINE + b"\n" + DEEP, 1, "the first: line 2 is nested deeper than 64 levels"),
        (b"[" + LINE + b', {"tool": ' + DEEPEST + b"}]", 1, "the first: item 2 is nested deeper than 64 levels"),
        (b"\xef\xbb\xbf" + LINE, 1, ""),
    ],
)
def test_good_lines_are_taken_and_the_bad_ones_named(body: bytes, accepted: int, warning: str) -> None:
    batch = taken(body, "events")
    assert len(batch.reports) == accepted
    assert warning in batch.warning


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b'"cut \\ud83d"', "cut \ufffd"),
        (b'"whole \\ud83d\\ude00"', "whole \U0001f600"),
        (b'"bad \xff byte"', "bad \ufffd byte"),
        ('"grün"'.encode(), "grün"),
    ],
)
def test_one_bad_character_costs_nothing(written: bytes, message: str) -> None:
    body = b'{"tool": "t", "outcome": "error", "score": NaN, "message": ' + written + b"}"
    assert only(taken(body.replace(b" NaN", b" NaN" if b"\\u" in written else b" 1"), "events"))["message"] == message


@pytest.mark.parametrize("key", ["timestamp", "time", "ts", "@timestamp"])
def test_the_time_is_found_under_its_usual_names(key: str) -> None:
    assert only(taken(json.dumps(CALL | {key: "2026-11-21T21:41:50Z"}).encode(), "events"))["time_ns"] == NOW - 10**9


def test_the_envelope_is_opened_and_its_bookmark_tells_the_time() -> None:
    envelope = {"cursor": 9, "bookmark": {"seq": 9, "timestamp": NOW // 10**6 - 5}, "event": CALL}
    report = only(taken(json.dumps(envelope).encode(), "events"))
    assert (report["tool"], report["time_ns"]) == ("read_file", NOW - 5_000_000)


def test_trace_ids_and_resource_are_taken_over() -> None:
    item = CALL | {
        "trace_id": "0AF7651916CD43DD8448EB211C80319C",
        "span_id": "00F067AA0BA902B7",
        "resource": {"service.name": "agent", "service.version": "1.2"},
    }
    report = only(taken(json.dumps(item).encode(), "events"))
    assert report["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert (report["service"], report["service_version"]) == ("agent", "1.2")
    assert "trace_id" not in only(taken(json.dumps(CALL | {"trace_id": "no id"}).encode(), "events"))


def test_source_chooses_the_table() -> None:
    entry = {"tool": "apply_diff", "error_type": "DiffApplyFailedError", "category": "execution", "message": "no"}
    for source, item in (("roo-code", entry), ("event", entry), ("event", CALL)):
        assert only(taken(json.dumps(item | {"source": source}).encode(), "events"))["source"] == source


def test_attributes_in_an_object_of_their_own_are_taken_like_those_beside_it() -> None:
    told = {"tool": "t", "outcome": "ok", "attributes": {"team": "red", "n": 3, "outcome": "error", "session": "s"}}
    report = only(taken(json.dumps(told).encode(), "events"))
    assert (report["outcome"], report["session"], json.loads(report["attributes"])) == (
        "ok",
        "s",
        {"team": "red", "n": 3},
    )


def test_objects_of_no_known_shape_are_counted_and_not_kept() -> None:
    batch = taken(b'{"hello": "world"}\n{}\n' + LINE, "events")
    assert (len(batch.reports), batch.records, batch.dropped["no_event"]) == (1, 3, 2)


def test_misstep_s_own_names_work() -> None:
    item = {
        "service": "my-agent",
        "session": "s1",
        "tool": "fetch",
        "outcome": "error",
        "error_type": "TimeoutError",
        "call_id": "c9",
        "message": "timed out",
        "params": {"url": "https://example.org"},
        "duration_ms": 12.5,
        "attempt": 2,
        "retryable": True,
        "suggestion": "wait",
        "model": "m",
        "severity": "warning",
        "sequence": 4,
    }
    report = only(taken(json.dumps(item).encode(), "events"))
    wanted: dict[str, Any] = {
        "source": "event",
        "service": "my-agent",
        "session": "s1",
        "tool": "fetch",
        "outcome": "error",
        "call_id": "c9",
        "reported_class": "TimeoutError",
        "error_class": "ToolTimeoutError",
        "duration_ms": 12.5,
        "attempt": 2,
        "retryable_declared": True,
        "retryable": True,
        "suggestion": "wait",
        "model": "m",
        "severity": "warn",
        "sequence": 4,
    }
    assert {name: report.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"retry_after": "3", "duration_s": 2}, {"retry_after_ms": 3000, "duration_ms": 2000.0}),
        ({"retry_after": "1m", "duration_s": "soon"}, {"retry_after_ms": None, "duration_ms": None}),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {"retry_after_ms": None}),
        ({"retry_after": 0, "duration_s": 0.0}, {"retry_after_ms": 0, "duration_ms": 0.0}),
    ],
)
def test_a_duration_that_cannot_be_read_is_absent_and_not_zero(told: dict[str, Any], wanted: dict[str, Any]) -> None:
    report = only(taken(json.dumps({"event": "tool", "tool_name": "read", "error": "boom", **told}).encode(), "events"))
    assert {name: report.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", sorted(TEXTS | {"params", "attributes"}))
def test_no_column_that_a_sender_can_fill_keeps_a_secret_or_is_without_a_bound(name: str) -> None:
    token = "ghp" + "_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA3bC6"
    told = {"tool": "t", "outcome": "error", "message": "m"}
    for written in (f"x {token} y", f"{token} " * 2_000):
        batch = taken(json.dumps(told | {name: written}).encode(), "events")
        assert token not in str(batch.reports)
        assert token not in str(batch.senders)
        assert all(len(str(value)) < 20_000 for report in batch.reports for value in report.values())


@pytest.mark.parametrize(("phase", "kept"), [("tool", "tool"), ("sandbox", "sandbox"), ("x", None), (3, None)])
def test_a_phase_is_one_of_four_words(phase: object, kept: str | None) -> None:
    told = {"tool": "t", "outcome": "error", "message": "m", "phase": phase}
    assert only(taken(json.dumps(told).encode(), "events")).get("phase") == kept


@pytest.mark.parametrize("name", ["ConsecutiveMistakeError", "ToolRepetitionError"])
def test_what_tells_of_a_streak_is_no_call_and_does_not_lengthen_it(name: str) -> None:
    report = only(taken(json.dumps({"tool": "t", "outcome": "error", "error_class": name}).encode(), "events"))
    assert (report["operation"], report["error_class"], report["mistake"]) == ("agent", name, False)


def test_what_was_cancelled_is_nobody_s_mistake() -> None:
    told = {"tool": "Bash", "outcome": "cancelled", "error": "Exit code 1"}
    report = only(taken(json.dumps(told).encode(), "events"))
    assert (report["outcome"], report.get("error_class"), report.get("mistake")) == ("cancelled", None, None)


@pytest.mark.parametrize(("tool", "kind"), [("Bash", "command"), ("browser_action", "browser")])
def test_a_tool_that_was_denied_did_not_fail(tool: str, kind: str) -> None:
    report = only(taken(json.dumps({"tool": tool, "outcome": "denied"}).encode(), "events"))
    assert (report["tool_kind"], report["outcome"]) == (kind, "denied")
    assert (report.get("error_class"), report.get("fingerprint")) == (None, None)


def test_ids_that_differ_beyond_their_bound_stay_different() -> None:
    told = [{"tool": "t", "outcome": "ok", "call_id": "c", "session": "S" * 600 + end, "timestamp": 1} for end in "xy"]
    told += [{"tool": "t", "outcome": "ok", "session": "s", "call_id": "C" * 600 + end, "timestamp": 1} for end in "xy"]
    reports = taken(json.dumps(told).encode(), "events").reports
    assert len({report["session"] for report in reports}) == 3
    assert len({report["call_id"] for report in reports}) == 3
    assert max(len(str(report.get(name))) for report in reports for name in ("session", "call_id")) < 600


def test_a_repeated_body_adds_nothing_unless_it_has_no_time() -> None:
    timed = json.dumps(CALL | {"timestamp": NOW}).encode()
    assert taken(timed, "events").identity == taken(timed, "events").identity
    assert len(stored([taken(timed, "events")], [taken(timed, "events")])) == 1
    timeless = [taken(LINE, "events"), taken(b" " + LINE, "events")]
    assert len(stored([timeless[0]], [timeless[1]])) == 2


@pytest.mark.parametrize("ids", [{}, {"call_id": "c1"}, {"call_id": "c1", "session": None}, {"session": None}])
def test_an_object_that_comes_again_in_another_body_is_one_event_unless_it_has_no_time(ids: dict[str, Any]) -> None:
    call = CALL | ids | {"timestamp": NOW}
    other = CALL | {"timestamp": NOW - 1}
    longer = json.dumps(call).encode() + b"\n" + json.dumps(other).encode()
    assert len(stored([taken(json.dumps(call).encode(), "events")], [taken(longer, "events")])) == 2


def test_equal_objects_in_one_body_are_as_many_calls_however_often_it_comes() -> None:
    line = json.dumps(CALL | {"timestamp": NOW}).encode()
    thrice, twice = b"\n".join([line] * 3), b"\n".join([line] * 2)
    assert len(stored([taken(thrice, "events")], [taken(twice, "events")], [taken(thrice + b"\n", "events")])) == 3


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "tool",
                    "outcome",
                    "error",
                    "message",
                    "event",
                    "fields",
                    "channel",
                    "type",
                    "call",
                    "detail",
                    "Tool",
                    "hook_event_name",
                    "timestamp",
                    "session",
                    "params",
                    "data",
                    "toolName",
                    "nonFatal",
                    "error_type",
                    "category",
                    "resource",
                    "ok",
                    "status",
                ]
            )
            | st.text(max_size=4),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@searching(4)
@given(JSON_VALUES)
def test_any_json_is_a_batch_or_rejected(value: object) -> None:
    try:
        batch = taken(json.dumps(value).encode(), "events")
    except Rejected:
        return
    assert len(batch.reports) + batch.dropped.total() == batch.records


@searching(4)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_batch_or_rejected(body: bytes) -> None:
    try:
        decode(body)
    except Rejected:
        return


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            b'[{"tool": "t", "outcome": "ok"}, {"tool": "t", "outcome": "skipped"}]',
            "1 of 2 are no events",
        ),
        (b'{"tool": "t", "outcome": "error", "message": "\\ud83d"}', "bad characters or numbers were replaced"),
        (
            b'[{"resourceSpans": []}, {"tool": "t", "outcome": "ok"}]',
            "item 1 is OTLP, not an event",
        ),
        (b'{"tool": "t", "outcome": "ok"}', ""),
    ],
)
def test_a_sender_is_told_what_was_not_taken(body: bytes, said: str) -> None:
    warning = taken(body, "events").warning
    assert said in warning
    assert bool(warning) is bool(said)


def test_otlp_is_refused_with_the_place_where_it_belongs() -> None:
    with pytest.raises(Rejected, match="send it to /v1/logs"):
        taken(b'{"resourceLogs": []}', "events")
