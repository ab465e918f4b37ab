"""Answers of the API turned into tables, charts and sentences, on small frames that can be checked by hand."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import polars as pl
import pytest
import yaml

from collector.alerts.rulefile import parse_rules
from collector.alerts.rules import Receiver
from dashboard.data import client, frames
from dashboard.parts import change_list, components, rule_words, sentences, share

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def spaced(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize("lists", [([], [{"a": 1}]), ([{"a": 1}], []), (None, [[1]])])
def test_lists_of_objects_are_text_whichever_row_has_them(lists: tuple[Any, ...]) -> None:
    made = client.frame([{"untold": each} for each in lists])
    assert made.schema["untold"] == pl.String
    assert [components.as_json(text) for text in made["untold"]] == list(lists)


def test_the_tree_has_a_row_per_level_largest_first() -> None:
    rows = pl.DataFrame(
        {
            "domain": ["network", "tool", "tool", None],
            "category": ["timeout", "content", "execution", None],
            "error_class": ["TimeoutError", "NoChangeError", "CommandFailedError", None],
            "errors": [4.0, 1.0, 3.0, 2.0],
        }
    )
    made = frames.tree(rows)
    assert made.select("name", "errors").rows() == [
        ("network", 4), ("timeout", 4), ("TimeoutError", 4),
        ("tool", 4), ("execution", 3), ("CommandFailedError", 3), ("content", 1), ("NoChangeError", 1),
        ("unknown", 2), ("unknown", 2), ("unknown", 2),
    ]  # fmt: skip
    assert made.filter(pl.col("dimension") == "domain")["share"].sum() == 1
    assert made["depth"].to_list() == [0, 1, 2, 0, 1, 2, 1, 2, 0, 1, 2]


def test_streaks_by_exact_length_are_those_that_did_not_reach_the_next() -> None:
    reached = pl.DataFrame(
        {
            "length": [1.0, 2.0, 12.0],
            "recovered": [5.0, 2.0, 0.0],
            "open": [1.0, 1.0, 0.0],
            "ended": [1.0, 1.0, 1.0],
        }
    )
    made = {
        (length, state): number
        for length, state, number in frames.lengths(reached).select("length", "state", "number").rows()
    }
    assert made == {("1", "recovered"): 3, ("2", "recovered"): 2, ("2", "open"): 1, ("10+", "ended"): 1}


@pytest.mark.parametrize(
    ("said_retryable", "declared", "verdict", "said", "finding"),
    [
        (True, 30.0, "seldom_works", "● yes, agent", "✕ says retry, seldom works"),
        (False, 30.0, "often_works", "○ no, agent", "✕ says do not retry, often works"),
        (True, 0.0, "agrees", "● yes, table", "agrees"),
        (False, 0.0, "unclear", "○ no, table", "unclear"),
        (None, 0.0, "unclear", "–", "unclear"),
    ],
)
def test_what_was_said_of_a_class_stands_beside_what_was_seen(
    said_retryable: bool | None, declared: float, verdict: str, said: str, finding: str
) -> None:
    types = {"said_retryable": pl.Boolean, "declared": pl.Float64, "verdict": pl.String}
    rows = pl.DataFrame([(said_retryable, declared, verdict)], schema=types, orient="row")
    row = frames.findings(rows).row(0, named=True)
    assert (row["said_words"], row["finding"]) == (said, finding)


def totals(**facts: Any) -> dict[str, Any]:
    now = {"error_rate": 0.1, "rated": 1000, "low": 0.08, "high": 0.12, "errors": 100}
    before = {"previous_error_rate": 0.04, "previous_rated": 900, "previous_low": 0.03, "previous_high": 0.055}
    return now | before | facts


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"verdict": "worse"}, ":red[▲ Worse] than the 24 h before: 4.0 % → **10.0 % of 1,000** calls failed."),
        (
            {"previous_error_rate": 0.2, "verdict": "better"},
            ":green[▼ Better] than the 24 h before: 20.0 % → **10.0 % of 1,000** calls failed.",
        ),
        (
            {"verdict": "unclear"},
            "≈ No clear change: **10.0 % of 1,000** calls failed, 4.0 % of 900 in the 24 h before.",
        ),
        (
            {"previous_error_rate": None},
            "**10.0 % of 1,000** calls failed. Nothing to compare with in the 24 h before.",
        ),
        ({"error_rate": None}, "100 errors; no rate, because only failures are reported here."),
        ({}, "≈ No clear change: **10.0 % of 1,000** calls failed, 4.0 % of 900 in the 24 h before."),
    ],
)
def test_the_verdict_is_only_clear_where_the_api_says_so(facts: dict[str, Any], said: str) -> None:
    assert spaced(sentences.verdict(totals(**facts), "24 h")) == said


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"verdict": "worse"}, ":red[▲ Worse] than the 24 h before: 36 → **100 errors**. Most of it: x."),
        ({"verdict": "unclear"}, "≈ No clear change: **100 errors**, 36 in the 24 h before."),
        ({"previous_errors": None}, "**100 errors**. Nothing to compare with in the 24 h before."),
        (
            {"calls": 1000, "errors": 0, "previous_errors": 0},
            "No rate: none of 1,000 calls ended as ok or as an error.",
        ),
    ],
)
def test_where_only_failures_match_their_number_is_told(facts: dict[str, Any], said: str) -> None:
    assert spaced(sentences.counted(totals(**{"previous_errors": 36, **facts}), "24 h", "Most of it: x")) == said


def test_what_a_limit_would_have_done() -> None:
    row: dict[str, float | None] = {
        "sessions": 120, "interrupted": 41, "rated": 41, "recovered": 29, "recovery_rate": 0.7073, "mistakes_saved": 87
    }  # fmt: skip
    mixed = row | {"interrupted": 61}
    assert spaced(sentences.limit(3, row)) == (
        "A limit of **3** would have stopped **41** of 120 sessions. 29 of them (70.7 %) recovered by themselves. "
        "This limit would have saved 87 failed calls."
    )
    assert "29 of the 41 whose agents also report successes (70.7 %) recovered" in spaced(sentences.limit(3, mixed))
    alone = row | {"interrupted": 1, "rated": 1, "recovered": 1}
    assert "of 120 sessions. It recovered by itself. This limit" in sentences.limit(3, alone)
    assert "of 120 sessions. It did not recover by itself. This" in sentences.limit(3, alone | {"recovered": 0})
    open_ = row | {"not_known_yet": 4}
    assert "29 of them (70.7 %) recovered by themselves. Of 4 it is not known yet. This" in spaced(
        sentences.limit(3, open_)
    )
    waiting = alone | {"recovered": 0, "not_known_yet": 1}
    assert "of 120 sessions. Whether it recovers is not known yet. This" in sentences.limit(3, waiting)
    assert "1 of them (2.4 %) recovered by itself." in spaced(
        sentences.limit(3, row | {"recovered": 1, "recovery_rate": 1 / 41})
    )
    assert "0 of them recovered" in sentences.limit(9, {"sessions": 120})
    older = {"sessions": 60.0, "interrupted": 8.0, "recovered": 7.0, "rated": None}  # the collector does not say
    assert sentences.limit(3, older) == "A limit of **3** would have stopped **8** of 60 sessions."


@pytest.mark.parametrize(
    ("sentence", "subject"),
    [
        ("new: RateLimitError: 47 more errors, 18.8 % of the rise: Slow down: <num> a minute",
         "group RateLimitError: Slow down: <num> a minute"),
        ("RateLimitError of fetch: 3 fewer errors: <num>", "group RateLimitError of fetch: <num>"),
        ("new: TimeoutError of fetch: 1 more error", "group TimeoutError of fetch"),
    ],
)  # fmt: skip
def test_groups_of_one_class_are_told_apart_by_their_messages(sentence: str, subject: str) -> None:
    assert change_list.subject({"dimension": "fingerprint", "sentence": sentence}) == subject


def test_a_rule_says_of_how_many_calls_its_share_is_and_of_how_many_it_must_be() -> None:
    few = {"unit": "share", "min_calls": 5, "calls": 1, "value_text": "100 %", "condition_text": "> 50 %"}
    assert sentences.rule_value(few) == "100 % of 1: too few to fire"
    assert sentences.rule_value(few | {"calls": 5}) == "100 % of 5"
    assert sentences.fires_at(few) == "> 50 % of 5 or more"
    none = few | {"calls": 0, "value_text": None}
    assert (sentences.rule_value(none), sentences.fires_at(none)) == ("–", "> 50 % of 5 or more")
    silent = few | {"unit": "s", "min_calls": 200, "value_text": "40 min", "condition_text": "> 30 min"}
    assert sentences.rule_value(silent) == "40 min, 1 call: too few to fire"
    assert sentences.rule_value(silent | {"calls": 200}) == "40 min"
    assert sentences.fires_at(silent | {"measure": "silent"}) == "> 30 min after 200 calls or more"
    fresh = {"unit": "count", "measure": "new_groups", "calls": 9, "value_text": "0", "condition_text": "≥ 5"}
    assert sentences.fires_at(fresh) == "≥ 5 of known services"
    older = {"value_text": None, "condition_text": None, "condition": "> 0.5"}
    assert (sentences.rule_value(older), sentences.fires_at(older)) == ("–", "> 0.5")


def test_agents_own_counts_are_compared_in_a_sentence() -> None:
    assert spaced(sentences.agreement(1, 1)) == "Agents told 1 number of their own: **~ 100 % of 1** agree with ours."
    assert (
        spaced(sentences.agreement(40, 30)) == "Agents told 40 numbers of their own: **75.0 % of 40** agree with ours."
    )
    assert "no number" in sentences.agreement(0, 0)


SAMPLED = [
    ([], ""),
    ([("x", "a", False, None)], ""),
    ([("x", "a", None, None)], ""),
    ([("x", "a", True, 0.1)], "sampled upstream, about 1 in 10 kept"),
    ([("x", "a", True, 0.1), ("x", "b", True, 0.1)], "sampled upstream, about 1 in 10 kept"),
    ([("x", "a", True, 0.1), ("y", "b", False, None)], "a: sampled upstream, about 1 in 10 kept"),
    ([("x", "a", True, None), ("y", "", True, 0.5)],
     "a: sampled upstream, share not told; y: sampled upstream, about 50 % kept"),
    ([("x", f"s{number}", True, number / 10) for number in range(1, 6)],
     "s1: sampled upstream, about 1 in 10 kept; s2: sampled upstream, about 1 in 5 kept; "
     "s3: sampled upstream, about 1 in 3 kept; 2 more"),
]  # fmt: skip


@pytest.mark.parametrize(("senders", "said"), SAMPLED)
def test_a_rate_over_sampled_senders_names_them(senders: list[tuple[Any, ...]], said: str) -> None:
    schema = {"source": pl.String, "service": pl.String, "sampled": pl.Boolean, "kept": pl.Float64}
    assert spaced(sentences.sampled(pl.DataFrame(senders, schema=schema, orient="row"))) == said


@pytest.mark.parametrize(
    ("wrong", "sign", "what"),
    [(0, "=", "**No, nothing has been lost.**"), (1, "≠", "**1 lost: a defect"), (-2, "≠", "**2 counted twice")],
)
def test_the_account_says_whether_anything_has_been_lost(wrong: int, sign: str, what: str) -> None:
    said = {"accepted": 10 + wrong, "stored": 5, "duplicate": 1, "unaccounted": wrong}
    line = sentences.account(said, {"no_event": 3, "metric": 1})
    assert line.startswith(what)
    assert line.endswith(f" {10 + wrong} records accepted {sign} stored 5 + received twice 1 + no call 4.")
    one = sentences.account({"accepted": 1, "stored": 1}, {})
    assert "1 record accepted = " in one
    assert sentences.account(said | {"waiting": 7}, {}).split(" + ")[-1].startswith("waiting 7.")
    assert sentences.account({"accepted": 0}, {}).startswith("**Nothing has been received yet.**")


def test_the_account_names_what_could_not_be_stored() -> None:
    said = {"accepted": 9, "stored": 5}
    line = sentences.account(said, {"no_event": 1, "malformed": 2, "unstorable": 1})
    assert line.startswith(
        "**Nothing has been lost but 2 records that cannot be read (whose senders were told) and 1 record set aside ("
    )
    assert line.endswith("no call 1 + not readable 2 + could not be stored, set aside 1.")


SENDERS = [("roo-code", False, 3.0), ("codex", True, 9.0), ("kode-sdk", False, 0.0)]
LEFT_OUT = [
    ({"calls": 9, "ok": 4, "errors": 5, "rated": 9}, ""),
    ({"calls": 9, "ok": 4, "errors": 4, "rated": 8, "denied": 1}, "Rates are of 8 of the 9 calls, without 1 denied."),
    (
        {"calls": 19, "ok": 4, "errors": 9, "rated": 10, "cancelled": 4, "unknown": 2},
        "Rates are of 10 of the 19 calls, without 4 cancelled, 2 with an unknown outcome and 3 errors of roo\\-code, "
        "which tells only of failures.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("totals", "said"), LEFT_OUT)
def test_what_a_rate_leaves_out_is_named(totals: dict[str, int], said: str) -> None:
    schema = {"source": pl.String, "reports_ok": pl.Boolean, "errors": pl.Float64}
    assert sentences.apart(totals, pl.DataFrame(SENDERS, schema=schema, orient="row")) == said


@pytest.mark.parametrize(("share", "mark"), [(None, ""), (1.0, "✓"), (0.95, "✓"), (0.5, "~"), (0.049, "–")])
def test_how_much_of_a_fact_is_told(share: float | None, mark: str) -> None:
    assert frames.told({"session": share}, "session") == mark
    assert frames.told({}, "session") == ""


def test_a_retry_is_the_next_call_of_the_same_chain_within_half_an_hour() -> None:
    calls = [  # tool, target, outcome, minute
        ("read", "a", "error", 0), ("edit", "a", "error", 1), ("read", "b", "ok", 2), ("read", "a", "ok", 29),
        ("read", "a", "ok", 30), ("edit", "a", "error", 32), ("chat", None, "error", 33), ("chat", None, "ok", 34),
    ]  # fmt: skip
    rows = pl.DataFrame(
        [
            {"tool": tool, "target": target, "outcome": outcome, "time": START + timedelta(minutes=minute)}
            for tool, target, outcome, minute in calls
        ]
    ).with_columns(subagent=pl.lit(None, pl.String), operation=pl.lit("tool"))
    assert frames.again(frames.ordered(rows)).to_list() == [4, None, None, None, None, None, 8, None]


def test_lines_to_retries_that_overlap_run_in_lanes_of_their_own() -> None:
    again = {1: 5, 2: 3, 3: 4, 4: None, 5: 6, 6: None}
    rows = pl.DataFrame({"order": list(again), "tool": ["a"] * 6, "again": list(again.values())})
    assert [lane for lane, to in zip(frames.lanes(rows), again.values(), strict=True) if to] == [0, 1, 1, 0]


def test_only_versions_that_began_in_the_range_after_another_are_deploys() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def table(*seen: tuple[str | None, str | None, float]) -> pl.DataFrame:
        rows = [(service, version, start + timedelta(hours=hours)) for service, version, hours in seen]
        names = ["service", "service_version", "first_seen"]
        return pl.DataFrame(rows, schema=names, orient="row")

    here = table(
        ("beside", "1", 0.1), ("beside", "2", 0.5),  # both ran before
        ("new", "7", 3),  # its only version in the range
        ("both", "1", 1), ("both", "2", 1.2),  # a service that began in the range, with two versions at once
        ("one", "1", 2), ("unnamed", None, 1), ("unnamed", "1", 2), (None, "3", 4),
        ("late", "2", 5),  # `ever` is older
    )  # fmt: skip
    ever = table(
        ("beside", "1", -90), ("beside", "2", -80), ("new", "6", -9), ("new", "7", 3), ("both", "1", 1),
        ("both", "2", 1.2), ("one", "1", 2), ("unnamed", None, -9), ("unnamed", "1", 2), ("late", "1", -9),
    )  # fmt: skip
    rows = frames.since_ever(here, ever)
    assert rows["service_version"].to_list() == here["service_version"].to_list()
    found = frames.deploys(rows, start, 900, 12)
    assert found["label"].to_list() == ["new 7", "late 2"]
    assert found["time"].to_list() == [start + timedelta(hours=hours) for hours in (3, 5)]
    assert frames.deploys(rows, start, 60, 12)["label"].to_list() == ["both 2", "new 7", "late 2"]
    assert frames.deploys(rows, start, 900, 1)["label"].to_list() == ["late 2"]


def test_labels_of_deploys_near_each_other_stand_in_lines_of_their_own() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start + timedelta(hours=hour) for hour in (1, 2, 3, 4, 20)]
    marks = pl.DataFrame({"time": times, "late": [False, False, False, False, True]})
    span = (start, start + timedelta(hours=24))
    assert frames.lines(marks, span, [0.2] * 5) == [None, 2, 1, 0, 0]
    assert frames.lines(marks, span, [0.01] * 5) == [0] * 5
    assert frames.lines(marks, span, [0.01, 0.2, 0.01, 0.01, 0.9]) == [1, 2, 1, 1, 0]


@pytest.mark.parametrize(
    ("dots", "most", "sides"),
    [
        ([(100, 0.5)], 9, ["right"]),
        ([], 9, []),
        ([(100, 0.5), (110, 0.5), (1000, 0.5), (10, 0.0)], 9, ["left", "right", "right", "right"]),
        ([(100, 0.5), (110, 0.5), (1000, 0.5), (10, 0.0)], 2, ["left", "right", None, None]),
        ([(100, 0.5), (100, 0.5)], 9, ["right", None]),  # the axis is on the left
        ([(10, 0.5), (20, 0.5), (1000, 0.5)], 9, [None, "right", "right"]),
        ([(100, 0.5), (10, 0.5), (1000, 0.5), (100, 0.4)], 9, ["right", "right", "right", "right"]),
        ([(100, 0.5), (150, 0.5), (10, 0.0), (60, 0.51), (1000, 0.0)], 9, [None, "right", "right", "left", "right"]),
    ],
)
def test_a_label_stands_where_it_covers_neither_a_dot_nor_another(
    dots: list[tuple[float, float]], most: int, sides: list[str | None]
) -> None:
    types = {"calls": pl.Float64, "error_rate": pl.Float64}
    rows = pl.DataFrame(dots, schema=types, orient="row").with_columns(
        high=pl.lit(1.0), tool=pl.lit("search_the_files")
    )
    assert frames.sides(rows, "calls", "error_rate", "high", "tool", most) == sides


def test_a_strip_is_low_where_it_went_well() -> None:
    assert frames.strip("oecd?") == [1, 4, 2, 2, 1]
    assert frames.strip(None) == []


@pytest.mark.parametrize(
    ("state", "minutes", "said"),
    [
        ("ongoing", 1, "ongoing since 12:00:00"),
        ("ongoing", 35, "since 12:00:00, silent for 35 min"),
        ("ended", 19, "ended 12:05:00, 19 min ago"),
        ("ended", 36 * 60, "ended 21 Nov 12:05:00, 36 h ago"),
    ],
)
def test_a_storm_is_not_called_ongoing_where_nothing_is_heard_any_more(state: str, minutes: int, said: str) -> None:
    ended = START + timedelta(minutes=5)
    assert spaced(sentences.storm(state, START, ended, ended + timedelta(minutes=minutes), UTC)) == said


def test_calls_without_a_rate_are_not_said_to_be_failures() -> None:
    denied = {"calls": 5.0, "errors": 0.0, "error_rate": None, "rated": 0.0}
    assert sentences.verdict(denied, "24 h") == "No rate: none of 5 calls ended as ok or as an error."


def test_rows_of_the_api_become_typed_columns() -> None:
    made = client.frame(
        [
            {"time": "2026-11-21T21:41:51.123456789Z", "event_id": "18446744073709551615", "calls": 3, "mistake": True,
             "labels": {"a": 1}, "classes": ["A", "B"], "extra": 1.5, "ended": 4},
            {"time": None, "event_id": None, "calls": None, "mistake": None, "labels": None, "classes": []},
        ]
    )  # fmt: skip
    assert made["time"][0].microsecond == 123456
    assert made["time"].dt.nanosecond()[0] == 123456789
    assert made.row(0, named=True) | {"time": None} == {
        "time": None, "event_id": "18446744073709551615", "calls": 3.0, "mistake": True, "labels": '{"a":1}',
        "classes": ["A", "B"], "extra": 1.5, "ended": 4.0,
    }  # fmt: skip


def test_columns_that_an_answer_lacks_are_there_with_their_type() -> None:
    picked = client.Answer(client.frame([]), {}, START).pick("tool", "calls", "time", "mistake")
    assert picked.schema == {
        "tool": pl.String,
        "calls": pl.Float64,
        "time": pl.Datetime("ns", "UTC"),
        "mistake": pl.Boolean,
    }


def test_a_series_has_a_row_for_every_bucket_of_the_range() -> None:
    rows = client.frame([{"time": "2026-11-21T12:05:00Z", "errors": 2}])
    made = frames.filled(rows, 300, (START, START + timedelta(minutes=12)))
    assert made.rows() == [(START + timedelta(minutes=5 * place), errors) for place, errors in enumerate([0, 2, 0])]


def test_the_last_value_of_a_rule_holds_until_the_end() -> None:
    at = "2026-11-21T12:00:00Z"
    rows = [{"time": at, "value": value, "labels": labels} for value, labels in [(1, "a"), (2, "b"), (3, "a")]]
    made = frames.held(client.frame(rows), START + timedelta(hours=1))
    assert made.tail(2).select("value", "labels").rows() == [(3, "a"), (2, "b")]
    assert made["time"].to_list()[-2:] == [START + timedelta(hours=1)] * 2


def test_at_equal_mix_only_rates_count() -> None:
    rows = pl.DataFrame({"a": [0.5, 0.0], "b": [0.5, 0.0], "a_whole": [10, 90], "b_whole": [90, 10]})
    assert frames.equal_mix(rows) == 0
    worse = rows.with_columns(b=pl.Series([0.7, 0.2]))
    assert frames.equal_mix(worse) == pytest.approx(0.2)
    assert frames.equal_mix(rows.with_columns(b_whole=pl.Series([10, 90]))) is None
    assert frames.equal_mix(rows.head(1)) is None


def test_equal_mix_sees_through_simpsons_paradox() -> None:
    """b fails less with each tool but more in total, because it uses the difficult one more often."""
    rows = pl.DataFrame({"a": [0.1, 0.6], "b": [0.05, 0.5], "a_whole": [900, 100], "b_whole": [200, 800]})
    in_all = [sum(rows[side] * rows[f"{side}_whole"]) / rows[f"{side}_whole"].sum() for side in "ab"]
    assert in_all == pytest.approx([0.15, 0.41])
    weights = [(0.9 + 0.2) / 2, (0.1 + 0.8) / 2]
    assert frames.equal_mix(rows) == pytest.approx(weights[0] * -0.05 + weights[1] * -0.1)


def test_the_newest_two_versions_are_those_of_the_busiest_service() -> None:
    rows = pl.DataFrame(
        {"service": ["a", "a", "b", "b", "c"], "service_version": ["1", "2", "8", "9", "5"],
         "calls": [5.0, 5.0, 90.0, 1.0, 1000.0], "first_seen": [3, 4, 2, 1, 0]}
    )  # fmt: skip
    assert frames.newest_versions(rows) == ("b", "9", "8")
    assert frames.newest_versions(rows.filter(pl.col("service") == "c")) is None
    assert frames.newest_versions(rows, b="2") == ("a", "1", "2")
    assert frames.newest_versions(rows, b="1") == ("a", "1", "2")  # nothing was before it
    assert frames.newest_versions(rows, a="2") == ("a", "1", "2")
    assert frames.newest_versions(rows, b="5") == ("b", "9", "8")  # a service with one version
    shared = rows.with_columns(service_version=pl.Series(["1", "2", "1", "2", "5"]))
    assert frames.newest_versions(shared, b="1") == ("b", "2", "1")
    nameless = rows.with_columns(service=pl.lit(None, pl.String))
    assert frames.newest_versions(nameless, b="2") == (None, "1", "2")


def test_a_twin_is_the_latest_earlier_call_with_the_same_arguments() -> None:
    rows = pl.DataFrame({"order": [1, 2, 3, 4], "tool": ["a", "a", "b", "a"], "params_hash": ["7", "7", "7", "7"]})
    assert frames.twin(rows, rows.row(3, named=True)) == 2
    assert frames.twin(rows, rows.row(2, named=True)) is None
    assert frames.twin(rows, {"order": 4, "tool": "a", "params_hash": None}) is None


def test_the_most_different_message_is_found() -> None:
    assert frames.most_different(pl.Series(["not found: a", "not found: b", "XYZ 12"])) == 2


GROUP = {"fingerprint": "18446744073709551615", "error_class": 'Odd"Error{{x}}', "tool": "apply: {% diff %}\n"}


def test_a_rule_from_a_group_is_a_valid_rule() -> None:
    name = rule_words.name_for(GROUP, ["odd-error-x-apply-diff", "odd-error-x-apply-diff-2"])
    rule = rule_words.for_group(GROUP, name=name, window="1h", threshold=3, notify=["team"])
    [read] = parse_rules(rule_words.as_file(rule) + "\n", elsewhere=(Receiver("team", "team", ""),)).rules
    assert (read.name, read.condition.number, read.where) == (
        "odd-error-x-apply-diff-3", 3, {"fingerprint": GROUP["fingerprint"]},
    )  # fmt: skip
    assert read.summary == 'Odd"Error x of apply: diff: {{ value | number }} errors within 1 h'
    assert rule_words.watches({"where": json.dumps(read.where)}, GROUP["fingerprint"])
    assert not rule_words.watches({"where": '{"tool": "x"}'}, GROUP["fingerprint"])
    assert not rule_words.watches({"where": None}, GROUP["fingerprint"])


@pytest.mark.parametrize("error_class", ["", "-", "é", "X" * 200, "a b/c", "HTTP2Error"])
def test_every_group_gets_a_name_that_a_rule_may_have(error_class: str) -> None:
    name = rule_words.name_for({"error_class": error_class}, ())
    assert (
        parse_rules(rule_words.as_file({"name": name, "measure": "errors", "condition": "> 1"})).rules[0].name == name
    )


def test_the_text_of_a_rule_is_tried_as_a_file() -> None:
    text = "# ours\nname: a\nmeasure: errors\ncondition: '> 1'\ndescription: |\n  x\n"
    [rule] = parse_rules(rule_words.file_of(text)).rules
    assert (rule.name, rule.description, rule_words.name_in(text)) == ("a", "x\n", "a")
    assert rule_words.name_in("measure: errors") == ""


def test_what_a_rule_would_have_done_is_told_with_its_times() -> None:
    firing = {"fired": "2026-11-21T10:00:00Z", "resolved": "2026-11-21T11:00:00Z", "seconds": 3600.0}
    told = {"fired": 4, "pages": 2}
    said = rule_words.fired(told, [firing, {**firing, "resolved": None}, firing, firing], ["10:00", "11:00", "12:00"])
    assert said.startswith("It would have fired **4 times** (2 pages): 10:00 for 1")
    assert "11:00 and until now" in said
    assert said.endswith(" and 1 time more.")
    assert rule_words.fired({"fired": 0}, [], []) == "It would **not have fired**."


def test_rows_are_files() -> None:
    rows = pl.DataFrame({"name": ["a,b", None], "trend": [[1, 2], []], "n": [1.5, 2.0]})
    assert pl.read_parquet(BytesIO(share.as_file(rows, "parquet"))).equals(rows)
    counts = pl.DataFrame(
        {"errors": [20.0, None], "previous_calls": [3.0, 4.0], "p95_ms": [2.0, 3.0], "at": [0.5, 1.0]}
    )
    assert share.as_file(counts, "csv").decode().splitlines()[1:] == ["20,3,2.0,0.5", ",4,3.0,1.0"]
    assert share.as_file(rows, "csv").decode().splitlines() == ["name,trend,n", '"a,b","[1,2]",1.5', ",[],2.0"]


def test_a_question_is_asked_again_by_curl_without_the_token() -> None:
    asked = share.ApiQuery("breakdown", (("from", "-24h"), ("by", "tool,model")))
    assert asked.name == "breakdown-tool-model"
    line = share.curl("http://c:1/", asked)
    assert line.endswith("'http://c:1/api/v1/breakdown?from=-24h&by=tool%2Cmodel'")
    assert "$MISSTEP_QUERY_TOKEN" in line
    assert share.curl("http://c:1", share.ApiQuery("health", ())).endswith("'http://c:1/api/v1/health'")


def test_a_rule_is_tried_without_the_rules_that_it_names() -> None:
    whole = {"name": "r", "measure": "errors", "condition": "> 1", "labels": {"team": "x"}, "inhibits": ["q"]}
    text = yaml.safe_dump({"rules": [whole]})
    del whole["inhibits"]
    assert yaml.safe_load(sentences.alone(text)) == {"rules": [whole]}
    for other in ("rules: [", "- 1", "rules: [1]", "rules: []  # none"):
        assert sentences.alone(other) == other


def test_counts_by_several_dimensions_are_summed_by_one_of_them() -> None:
    rows = pl.DataFrame({"model": ["a", "b", "b", None], "agent": ["x", "x", "y", "y"], "errors": [2.0, 1.0, 2.0, 9.0]})
    assert frames.summed(rows, "model", "errors").rows() == [("b", 3.0), ("a", 2.0)]


def test_what_became_of_errors_is_summed_over_their_classes() -> None:
    counts = {"errors": [10.0, 30.0, 2.0], "retried": [8.0, 20.0, 0.0], "rated": [4.0, 20.0, 0.0],
              "lasting": [5.0, 3.0, 2.0], "not_known_yet": [1.0, 0.0, 0.0],
              "identical_retries": [1.0, 2.0, 0.0]}  # fmt: skip
    rows = pl.DataFrame(counts | {"recovery_rate": [0.5, 0.8, None]})
    total = frames.retried(rows)
    assert total == {name: sum(values) for name, values in counts.items()} | {"recovery_rate": 18 / 24}
    assert frames.retried(rows.filter(pl.col("rated") == 0))["recovery_rate"] is None
    assert frames.retried(rows.clear())["errors"] == 0


def test_a_rate_over_time_in_longer_buckets_is_that_of_their_calls() -> None:
    rows = pl.DataFrame(
        {
            "time": [START + timedelta(hours=hour) for hour in (1, 2, 3, 5)],
            "error_rate": [0.5, 0.1, None, 1.0],
            "rated": [2.0, 10.0, 0.0, 1.0],
        },
        schema_overrides={"time": client.column_type("time")},
    )
    told = frames.longer(rows, 3 * 3600)
    assert dict(told.rows()) == {START: pytest.approx(2 / 12), START + timedelta(hours=3): 1.0}


def test_rules_that_failed_are_named_with_the_reason() -> None:
    rules = pl.DataFrame({"name": ["a", "b*"], "error": [None, "QueryTooLarge: more memory than it may have"]})
    [said] = sentences.failed_rules(rules)
    assert "b\\*" in said
    assert said.endswith("more memory than it may have")
    assert sentences.failed_rules(rules.with_columns(error=pl.lit(None))) == []


def test_alerts_of_one_rule_are_named_by_what_tells_them_apart() -> None:
    labels: list[dict[str, str | None]] = [
        {"service": "a", "session": "s1"}, {"service": "a", "session": "s2"}, {"service": "a", "environment": None},
        {"environment": "test", "service": "a"}, {}, {"service": "a"},
    ]  # fmt: skip
    told = frames.told_apart(["row", "row", "silent", "silent", "alone", "other"], labels)
    assert told == ["row s1", "row s2", "silent (none)", "silent test", "alone", "other"]
