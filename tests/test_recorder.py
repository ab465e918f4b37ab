"""The recorder of a session: its time axis, lanes and links, and the sentence that says how the session ended."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from dashboard.charts import colours, time_axis
from dashboard.parts import endings, recorder, session_story

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
NOW = START + timedelta(hours=3)


def seconds(*spans: tuple[float, float]) -> time_axis.Axis:
    return time_axis.folded((START + timedelta(seconds=low), START + timedelta(seconds=high)) for low, high in spans)


@pytest.mark.parametrize(
    ("spans", "folded"),
    [
        ([(0, 1)], []),
        ([(0, 0)], []),  # one call whose duration nobody tells
        ([(0, 0), (0, 0)], []),
        ([(0, 1), (2, 3), (4, 5)], []),
        ([(0, 10), (5, 20), (3600, 3610)], [3580]),
        ([(0, 1), (1.5, 2), (100, 101), (101.5, 102)], [98]),
        ([(n * 4, n * 4) for n in range(9)], []),  # evenly
        ([*((n, n + 0.5) for n in range(9)), *((500 + n, 500.5 + n) for n in range(9))], [491.5]),
        ([(0, 0.1), (0.2, 0.3), (1.0, 1.1), (1.2, 1.3)], []),  # less than a second is no pause
        ([*((n, n + 0.5) for n in range(5)), (1000, 1001), (9000, 9001)], [995.5, 7999]),
    ],
)
def test_long_pauses_are_folded(spans: list[tuple[float, float]], folded: list[float]) -> None:
    axis = seconds(*spans)
    assert [pause.total_seconds() for _, _, pause in axis.folds()] == folded
    places = [axis.at(START + timedelta(seconds=each)) for each in sorted({end for span in spans for end in span})]
    assert places == sorted(places)
    assert min(places) >= 0
    assert max(places) <= 1
    for low, high, _ in axis.folds():
        assert 0 < high - low <= time_axis.FOLD
        assert not [place for place in places if low + 1e-6 < place < high - 1e-6]


def test_a_tick_says_the_time_at_its_place_also_after_a_pause() -> None:
    axis = seconds(*((n, n + 0.5) for n in range(60)), (7200, 7230))
    ticks = axis.ticks(9, UTC)
    assert 3 <= len(ticks) <= 10
    for place, label in ticks:
        assert axis.at(
            datetime.combine(START.date(), datetime.strptime(label, "%H:%M:%S").time(), UTC)
        ) == pytest.approx(place)
    assert ticks[0][1] == "10:00:00"
    assert ticks[-1][0] <= 1 - time_axis.LABEL / 9  # its text fits beside it
    assert "12:00:00" in [label for _, label in ticks]


CALL = {"operation": "tool", "outcome": "ok", "tool": "edit", "duration_ms": 200.0}


def calls(*said: dict[str, Any]) -> pl.DataFrame:
    """Events as a page has them, a second apart."""
    names = dict.fromkeys(session_story.DRAWN)
    rows = [
        names | CALL | {"order": place + 1, "event_id": f"e{place}", "time": START + timedelta(seconds=place)} | one
        for place, one in enumerate(said)
    ]
    texts = ("subagent", "error_class", "target", "params_hash", "asked_by", "model")
    numbers = ("input_tokens", "output_tokens", "cost_usd")
    types: dict[str, Any] = {**dict.fromkeys(texts, pl.String), **dict.fromkeys(numbers, pl.Float64)}
    types["time"] = pl.Datetime("ns", "UTC")
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)


def streak(first: int, last: int, **said: Any) -> dict[str, Any]:
    about = {"length": 2.0, "state": "recovered", "subagent": None, "first_event_id": f"e{first}"}
    return about | {"started": START + timedelta(seconds=first), "ended": START + timedelta(seconds=last)} | said


def drawn(rows: pl.DataFrame, at: int, *streaks: dict[str, Any], index: pl.DataFrame | None = None) -> dict[str, Any]:
    types: dict[str, Any] = {"subagent": pl.String, **dict.fromkeys(("started", "ended"), pl.Datetime("ns", "UTC"))}
    listed = pl.DataFrame(list(streaks), schema_overrides=types)
    link = "./s?event={}".format
    recording = recorder.Recording(rows, rows if index is None else index, at, listed, link)
    return recorder.content(recording, colours.LIGHT, UTC, "said")


FAILED = {"outcome": "error", "error_class": "DiffApplyFailedError"}
MODEL = {"operation": "model", "tool": None, "input_tokens": 1200.0, "output_tokens": 34.0, "cost_usd": 0.02}


def test_lanes_hold_requests_tools_streaks_and_sub_agents() -> None:
    helper = {"subagent": "helper", "tool": "read"}
    rows = calls(MODEL, FAILED, FAILED, {}, helper, helper | FAILED, {"tool": "grep"})
    said = drawn(rows, 2, streak(1, 2), streak(5, 5, subagent="helper", length=1.0, state="open"))
    lanes = [(lane["label"], lane["note"], lane["depth"]) for lane in said["lanes"]]
    assert lanes == [
        ("streaks", "1", 0), ("model", "1 · 1,234 tok. · $0.0200", 0), ("edit", "3", 0), ("grep", "1", 0),
        ("sub-agent helper", "", 0), ("streaks", "1", 1), ("read", "2", 1),
    ]  # fmt: skip
    assert [said["lanes"][mark["lane"]]["label"] for mark in said["marks"]] == [
        "model", "edit", "edit", "edit", "read", "read", "grep",
    ]  # fmt: skip
    assert [(one["title"], one["lane"], one["href"]) for one in said["brackets"]] == [
        ("2 in a row, repaired", 0, "./s?event=e1"), ("1 in a row, not over", 5, "./s?event=e5"),
    ]  # fmt: skip
    assert said["brackets"][0]["from"] == said["marks"][1]["from"]
    assert said["brackets"][0]["to"] == said["marks"][2]["to"]
    assert [(join["lane"], join["from"], join["to"]) for join in said["joins"]] == [
        (2, said["marks"][1]["to"], said["marks"][2]["from"]), (2, said["marks"][2]["to"], said["marks"][3]["from"]),
    ]  # fmt: skip
    assert (
        said["marks"][0]["title"]
        == "call 1: model request · ok · took 200\u00a0ms · 1,200 tokens in · 34 tokens out · $0.0200"
    )
    assert said["strip"] is None


def test_labels_of_streaks_do_not_cover_the_next_one() -> None:
    rows = calls(*[FAILED | {"duration_ms": 800.0}, {}] * 4, *[{}] * 32)
    said = drawn(rows, 1, *(streak(at, at, length=1.0) for at in (0, 2, 4, 6)))
    assert [one["label"] for one in said["brackets"]] == ["1", "1", "1", "1 in a row, repaired"]
    assert [one["inside"] for one in said["brackets"]] == [True, True, True, False]
    assert {one["title"] for one in said["brackets"]} == {"1 in a row, repaired"}
    narrow = calls(FAILED | {"duration_ms": 1.0}, {}, FAILED, *[{}] * 197)
    assert drawn(narrow, 1, streak(0, 0), streak(2, 2))["brackets"][0]["label"] == "", "no room at all"


def test_calls_at_the_same_time_do_not_cover_each_other() -> None:
    rows = calls(*({"duration_ms": 5_000.0} for _ in range(3)), {"duration_ms": None})
    said = drawn(rows, 1)
    assert len({mark["level"] for mark in said["marks"][:3]}) == 3
    assert said["lanes"][0]["levels"] == 3


def test_the_rarest_of_many_tools_share_a_lane() -> None:
    rows = calls(*({"tool": f"tool-{number:02}"} for number in range(40) for _ in range(2 if number < 5 else 1)))
    lanes = drawn(rows, 1)["lanes"]
    assert len(lanes) == recorder.MOST_LANES + 1
    assert (lanes[-1]["label"], lanes[-1]["note"]) == ("other tools", str(40 - recorder.MOST_LANES))


@pytest.mark.parametrize(
    ("at", "ways", "place"),
    [
        (1, ("", "e2", "", "e1"), "Call 1 of 6"),
        (3, ("", "e4", "e1", "e3"), "Call 3 of 6, error 1 of 2"),
        (4, ("e2", "e4", "e2", "e4"), "Call 4 of 6"),
        (6, ("e4", "", "e4", ""), "Call 6 of 6"),
    ],
)
def test_links_lead_to_the_errors_and_calls_before_and_after(at: int, ways: tuple[str, ...], place: str) -> None:
    said = drawn(calls({}, {}, FAILED, {}, FAILED, {}), at)
    order = ("error-before", "error-after", "before", "after")
    to = {each["way"]: each["href"].removeprefix("./s?event=") for each in said["ways"]}
    assert tuple(to[way] for way in order) == ways
    assert said["place"] == place
    assert [mark["selected"] for mark in said["marks"]] == [number == at for number in range(1, 7)]


def test_ten_thousand_calls_take_no_more_than_those_that_are_drawn() -> None:
    number = 10_000
    index = calls(*({"outcome": "error" if place % 97 == 0 else "ok"} for place in range(number)))
    rows = index[5_000:5_240]
    said = drawn(rows, 5_100, index=index)
    assert len(json.dumps(said)) < 150_000
    assert len(said["marks"]) == 240
    bins = said["strip"]["bins"]
    assert len(bins) == recorder.BINS
    assert sum(int(each["title"].partition(": ")[2].split()[0]) for each in bins) == 104
    assert (said["strip"]["from"], said["strip"]["to"]) == (0.5, 0.524)


def test_texts_of_agents_stay_texts_and_are_bounded() -> None:
    bad = "<img src=x onerror=alert(1)>" * 50
    said = drawn(calls({"tool": bad, "subagent": bad, "error_class": "E", "outcome": "error"}), 1)
    assert max(len(lane["label"]) for lane in said["lanes"]) <= 60
    assert len(said["marks"][0]["title"]) < 200


ROW = {
    "state": "error", "ended_in": "DiffApplyFailedError", "last_outcome": "error", "last_class": "DiffApplyFailedError",
    "last_tool": "apply_diff", "last_received": "2026-11-21T12:55:00Z", "calls": 72, "streaks": 3, "lasting": 2,
    "input_tokens": 40_000, "output_tokens": 1_000, "cost_usd": 0.31,
}  # fmt: skip
COST = "72 calls, 3 streaks, 41,000 tokens, $0.31"
LAST = "Its last call, apply_diff,"
AN_HOUR = "after an hour without one it counts as ended."


@pytest.mark.parametrize(
    ("row", "end", "because"),
    [
        ({}, "Ended in an unrepaired DiffApplyFailedError", "That was its last call, apply_diff."),
        ({"state": "ok", "last_outcome": "ok", "lasting": 0}, "Ended well", f"{LAST} went well."),
        ({"state": "ok", "last_outcome": "ok"}, "Ended well",
         f"{LAST} went well, but 2 errors before it were never repaired."),
        ({"state": "cancelled", "last_outcome": "cancelled"}, "Cancelled", f"{LAST} was cancelled."),
        ({"state": "denied", "last_outcome": "denied"}, "Ended in a refusal",
         f"{LAST} was refused by a person or a policy."),
        ({"state": "unknown", "last_outcome": "unknown"}, "How it ended is not told,",
         f"{LAST} has an outcome that nobody tells."),
        ({"state": "unknown"}, "How it ended is not told,", f"{LAST} failed, and its agent tells only of failures."),
        ({"state": "open"}, "Not known yet how it ends,",
         f"{LAST} failed with DiffApplyFailedError. Its last record came 5 min ago; {AN_HOUR}"),
        ({"state": "open", "last_outcome": "ok", "last_tool": None, "lasting": 0,
          "last_received": "2026-11-21T12:59:30Z"}, "Still going",
         f"Its last call, a model request, went well. Its last record came 30 s ago; {AN_HOUR}"),
    ],
)  # fmt: skip
def test_how_it_ended_is_said_first_with_what_it_cost(row: dict[str, Any], end: str, because: str) -> None:
    assert unmarked(endings.ended(ROW | row, NOW)) == f"**{end}** after {COST}. {because}"


def test_what_nobody_tells_is_said() -> None:
    said = unmarked(endings.ended(ROW | dict.fromkeys(("input_tokens", "output_tokens", "cost_usd")), NOW))
    assert "after 72 calls, 3 streaks, tokens not told, money not told." in said


def unmarked(text: str) -> str:
    """Markdown's text without escapes and joiners."""
    return re.sub("[\\\\\u2060]", "", text).replace("\u00a0", " ")
