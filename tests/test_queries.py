"""Counts, lists and measures over a real store, against plain Python or constructed examples."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.alerts.rules import MEASURES
from collector.engine.duckdb.store import Store
from collector.pipeline import MOST
from collector.query import queries
from collector.query.breakdowns import breakdown, bucket_of, timeseries, values
from collector.query.filters import BadParameter, Selection, select
from collector.query.sessions import sessions
from collector.query.statement import wilson
from tests.recorded import DAY, HOUR, MINUTE, NOW, SILENT, Event, counted, event, failed, holding, measure, mixed
from tests.reference import expected_chains, recorded_sessions, session_of
from tests.search import searching

EVER = Selection(0, NOW)


def test_a_breakdown_counts_and_leaves_sources_without_successes_out_of_rates(store: Store) -> None:
    events = mixed()
    holding(store, events)
    selection = Selection(NOW - 6 * HOUR, NOW, failure_only=SILENT)
    inside = [one for one in events if one["time_ns"] >= NOW - 6 * HOUR]
    for by in ([], ["tool"], ["service", "source"]):
        rows = breakdown(selection, by, limit=100).rows(store)
        found = {tuple(row[name] for name in by): row for row in rows}
        assert set(found) == {tuple(one.get(name) for name in by) for one in inside}
        for key, row in found.items():
            mine = [one for one in inside if tuple(one.get(name) for name in by) == key]
            assert {name: row[name] for name in counted(mine)} == counted(mine)
            assert row["low"] is None or row["low"] <= row["error_rate"] <= row["high"]


KEYS = st.lists(
    st.sampled_from(["tool", "error_class", "mistake", "session", "subagent", "model", "outcome"]), unique=True
)


@searching(0.3)
@given(events=recorded_sessions(), by=KEYS, hours=st.sampled_from([1, 6, 24]), recovery=st.booleans())
def test_breakdowns_and_series_count_what_is_there(
    store: Store, events: list[Event], by: list[str], hours: int, recovery: bool
) -> None:
    """Over random sessions with null values, for any dimensions, with gaps between buckets too."""
    holding(store, events)
    # A call without a model has that of the request that asked for it (tests/test_models.py).
    models = {row["event_id"]: row["model"] for row in store.rows("select event_id, model from events")}
    events = [one | {"model": models[one["event_id"]]} for one in events]
    selection = Selection(0, NOW + DAY, failure_only=SILENT)
    chains = expected_chains(events)
    measures = ["sessions", *(["recovery_rate"] if recovery else [])]
    at = {one["event_id"]: one["time_ns"] - one["time_ns"] % (hours * HOUR) for one in events}
    for timed, answer in (
        (False, breakdown(selection, by, measures, limit=1000)),
        (True, timeseries(selection, hours * HOUR, by, measures, limit=1000)),
    ):
        mine: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
        for one in events:
            mine[(*([at[one["event_id"]]] if timed else []), *(one.get(name) for name in by))].append(one)
        rows = answer.rows(store)
        found = {tuple(row[name] for name in [*(["time"] if timed else []), *by]): row for row in rows}
        assert len(rows) == len(found)
        assert set(found) == set(mine)
        for key, row in found.items():
            expected = counted(mine[key])
            assert {name: row[name] for name in expected} == expected
            assert row["sessions"] == len({session_of(one) for one in mine[key] if one.get("session") is not None})
            if recovery:
                begun = [chains[one["event_id"]] for one in mine[key] if one["event_id"] in chains]
                assert row["errors_recovered"] == sum(chain[0] and chain[1] is True for chain in begun)


def test_named_measures_count_sessions_quantiles_and_recovery(store: Store) -> None:
    events = mixed()
    holding(store, events)
    row = breakdown(EVER, [], ["sessions", "p50_ms", "p95_ms", "recovery_rate"]).rows(store)[0]
    durations = sorted(one["duration_ms"] for one in events)
    assert row["sessions"] == len({(one["service"], one["session"]) for one in events if "session" in one})
    assert row["p50_ms"] == pytest.approx((durations[299] + durations[300]) / 2)
    assert durations[560] < row["p95_ms"] < durations[575]
    assert row["recovery_rate"] == row["errors_recovered"] / row["errors_retried"]
    plain = breakdown(EVER, []).rows(store)[0]
    assert not {"sessions", "p50_ms", "p95_ms", "recovery_rate"} & set(plain)


def quantile(durations: Sequence[float], fraction: float) -> Any:
    """Interpolated linearly between the two nearest values; None if there are none."""
    ordered = sorted(durations)
    if not ordered:
        return None
    place = fraction * (len(ordered) - 1)
    low, high = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
    return pytest.approx(low + (high - low) * (place % 1))


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_are_those_of_all_values_in_order(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    lengths: list[Any] = [
        None,
        0,
        1,
        1,
        2,
        -5,
        1e-9,
        MOST["duration_ms"],
        *(10 ** dice.uniform(-4, 7) for _ in range(40)),
    ]
    events = [one | {"duration_ms": dice.choice(lengths)} for one in mixed(400, seed)]
    holding(store, events)
    start = NOW - 5 * HOUR
    for by in ([], ["tool", "outcome"], ["session"]):
        rows = breakdown(Selection(start, NOW), by, ["p50_ms", "p95_ms"], previous=True, limit=1000).rows(store)
        assert rows
        for row in rows:
            mine = [one for one in events if one["duration_ms"] is not None]
            mine = [one for one in mine if all(one.get(name) == row[name] for name in by)]
            now, before = ([one["duration_ms"] for one in mine if (one["time_ns"] < start) == side] for side in (0, 1))
            assert (row["p50_ms"], row["p95_ms"]) == (quantile(now, 0.5), quantile(now, 0.95))
            assert row["previous_p95_ms"] == quantile(before, 0.95)


def test_previous_is_the_same_over_the_period_before(store: Store) -> None:
    events = mixed()
    holding(store, events)
    now = Selection(NOW - 4 * HOUR, NOW, failure_only=SILENT)
    before = Selection(NOW - 8 * HOUR, NOW - 4 * HOUR, failure_only=SILENT)
    both = {row["tool"]: row for row in breakdown(now, ["tool"], ["sessions", "p95_ms"], previous=True).rows(store)}
    for row in breakdown(now, ["tool"], ["sessions", "p95_ms"]).rows(store):
        assert {name: both[row["tool"]][name] for name in row} == row
    for row in breakdown(before, ["tool"], ["sessions", "p95_ms"]).rows(store):
        for name in ("calls", "errors", "error_rate", "low", "high", "sessions", "p95_ms"):
            assert both[row["tool"]][f"previous_{name}"] == row[name]


def test_a_value_seen_only_before_still_has_its_row(store: Store) -> None:
    holding(store, [failed(90, tool="gone"), event(1, tool="here")])
    rows = breakdown(Selection(NOW - HOUR, NOW), ["tool"], previous=True).rows(store)
    assert {row["tool"]: (row["calls"], row["previous_calls"]) for row in rows} == {"here": (1, 0), "gone": (0, 1)}


def test_rows_come_sorted_and_one_more_than_wanted_tells_of_more(store: Store) -> None:
    holding(store, [*(failed(n, tool="x") for n in (1, 2, 3)), event(4, tool="y"), failed(5, tool="z")])
    assert [row["tool"] for row in breakdown(EVER, ["tool"]).rows(store)] == ["x", "z", "y"]
    assert [row["tool"] for row in breakdown(EVER, ["tool"], sort=["calls", "-tool"]).rows(store)] == ["z", "y", "x"]
    assert len(breakdown(EVER, ["tool"], limit=2).rows(store)) == 3
    with pytest.raises(BadParameter, match="p95_ms"):
        breakdown(EVER, ["tool"], sort=["p95_ms"])


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)]
)
def test_intervals_are_wilsons(store: Store, part: int, whole: int, low: float, high: float) -> None:
    ends = store.rows("select {} as low, {} as high".format(*wilson(f"{part}", f"{whole}")))[0]
    assert (ends["low"], ends["high"]) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_buckets_add_up_to_the_whole(store: Store) -> None:
    events = mixed()
    holding(store, events)
    rows = timeseries(EVER, 15 * MINUTE, ["tool"]).rows(store)
    expected = Counter((one["time_ns"] // (15 * MINUTE) * 15 * MINUTE, one.get("tool")) for one in events)
    assert {(row["time"], row["tool"]): row["calls"] for row in rows} == expected
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)


@pytest.mark.parametrize(
    ("length", "bucket"), [(HOUR, 60), (2 * HOUR, 60), (DAY, 900), (30 * DAY, 6 * 3600), (4000 * DAY, 2880000)]
)
def test_the_default_bucket_makes_at_most_120(length: int, bucket: int) -> None:
    assert bucket_of(Selection(NOW - length, NOW), None) == bucket * 10**9


@pytest.mark.parametrize("bucket", [0, 1, 10**9])
def test_buckets_that_are_too_short_are_refused(bucket: int) -> None:
    with pytest.raises(BadParameter, match="at least"):
        bucket_of(Selection(NOW - 30 * DAY, NOW), bucket)


def test_values_come_commonest_first(store: Store) -> None:
    holding(store, [failed(1, tool="apply_diff"), event(2, tool="read_file"), event(3, tool="read_file")])
    assert values(EVER, "tool", "", [], 10).rows(store) == [
        {"value": "read_file", "calls": 2, "errors": 0},
        {"value": "apply_diff", "calls": 1, "errors": 1},
    ]
    assert [row["value"] for row in values(EVER, "tool", "DIFF", [], 10).rows(store)] == ["apply_diff"]


def pages(store: Store, sort: str, size: int) -> list[int]:
    found: list[int] = []
    cursor = ""
    while True:
        rows = queries.events(EVER, size, cursor=cursor, sort=sort).rows(store)
        found += [row["event_id"] for row in rows[:size]]
        if len(rows) <= size:
            return found
        cursor = queries.token(rows[size - 1]["time"], rows[size - 1]["event_id"])


@pytest.mark.parametrize("size", [1, 3, 100])
def test_pages_hold_every_event_once_in_order_also_at_one_time(store: Store, size: int) -> None:
    events = [event(number, time_ns=NOW - 1 - number // 4) for number in range(20)]
    holding(store, events)
    oldest_first = [one["event_id"] for one in sorted(events, key=lambda one: (one["time_ns"], one["event_id"]))]
    assert pages(store, "time", size) == oldest_first
    assert pages(store, "-time", size) == oldest_first[::-1]


def test_after_gives_what_arrived_since_whenever_it_happened(store: Store) -> None:
    arrived = {1: 1, 9: 2, 5: 0, 7: 2, 3: 3}
    holding(store, [event(number, received_ns=NOW + at) for number, at in arrived.items()])
    for sort in ("time", "-time"):
        rows = queries.events(EVER, 10, after=queries.token(NOW + 1, 1), sort=sort).rows(store)
        assert [row["event_id"] for row in rows] == [7, 9, 3]
    assert queries.arrived(store) == queries.token(NOW + 3, 2**64 - 1)


@pytest.mark.parametrize("text", ["1", "1.2.3", "a.b", "-1.2", "1.", "1.2x"])
def test_a_cursor_that_nobody_gave_is_refused(text: str) -> None:
    with pytest.raises(BadParameter, match="unchanged"):
        queries.events(EVER, 10, cursor=text)


@pytest.mark.parametrize(("later", "recovered"), [(None, None), (4_971, None), (4_969, False), (1_000, False)])
@pytest.mark.parametrize("others", [(), (4_000,)])
def test_a_window_is_closed_by_any_later_event_of_the_service(
    store: Store, later: int | None, recovered: bool | None, others: tuple[int, ...]
) -> None:
    quiet = [failed(5_000, service="quiet"), *([event(later, service="quiet", session="later")] if later else [])]
    holding(store, [*quiet, *(event(number) for number in others)])
    (row,) = queries.events(EVER, 1, cursor=queries.token(NOW - 5_000 * MINUTE, 2**64 - 1)).rows(store)
    assert (row["event_id"], row["recovered"]) == (5_000, recovered)


def test_an_event_has_every_column_and_what_became_of_it(store: Store) -> None:
    holding(store, [failed(99), event(98), failed(50), event(1, session="other")])
    rows = {row["event_id"]: row for row in queries.events(EVER, 10).rows(store)}
    assert {number: row["recovered"] for number, row in rows.items()} == {99: True, 98: None, 50: False, 1: None}
    assert rows[99] == queries.event(99).rows(store)[0]
    row = rows[99]
    assert (row["time"], row["fingerprint"], row["mistake"]) == (NOW - 99 * MINUTE, 2**64 - 1, True)
    assert not {"time_ns", "received_ns", "report_rank", "outcome_strength", "target_guessed"} & set(row)


def test_events_that_did_not_recover_can_be_listed(store: Store) -> None:
    holding(store, [failed(99), event(98), failed(90), event(1, session="other")])
    selection = select({"from": "-7d", "recovered": "false"}, NOW)
    assert [row["event_id"] for row in queries.events(selection, 10).rows(store)] == [90]


def test_a_session_is_told_in_its_own_order(store: Store) -> None:
    same = {"time_ns": NOW - MINUTE}
    events = [event(3, sequence=2, **same), event(7, sequence=1, **same), event(5, **same), event(9)]
    holding(store, [*events, event(8, session="x")])
    rows = queries.session_events(EVER, "s1", 10).rows(store)
    assert [row["event_id"] for row in rows] == [9, 7, 3, 5]
    cursor = queries.token(NOW - MINUTE, 2, 3)
    assert [row["event_id"] for row in queries.session_events(EVER, "s1", 10, cursor).rows(store)] == [5]
    holding(store, [event(3, sequence=-(2**63), **same), event(7, sequence=-1, **same)])
    cursor = queries.token(NOW - MINUTE, -(2**63), 3)
    assert [row["event_id"] for row in queries.session_events(EVER, "s1", 10, cursor).rows(store)] == [7]


def test_sessions_are_counted_of_more_values_than_a_word_has_bits(store: Store) -> None:
    dice = random.Random(3)
    events = [
        event(number, tool=f"t{dice.randrange(150)}", session=dice.choice([None, *(f"s{n}" for n in range(9))]))
        for number in range(1, 1500)
    ]
    holding(store, events)
    met: dict[str, set[str]] = defaultdict(set)
    middle = NOW - 700 * MINUTE
    for one in events:
        if "session" in one and one["time_ns"] >= middle:
            met[one["tool"]].add(one["session"])
    half = Selection(middle, NOW)
    rows = breakdown(half, ["tool"], ["sessions"], previous=True, limit=1000).rows(store)
    assert len(rows) == 150
    assert {row["tool"]: row["sessions"] for row in rows} == {row["tool"]: len(met[row["tool"]]) for row in rows}
    before = breakdown(Selection(half.previous_ns, middle), ["tool"], ["sessions"], limit=1000).rows(store)
    past = {row["tool"]: row["sessions"] for row in before}
    assert {row["tool"]: row["previous_sessions"] for row in rows} == {
        row["tool"]: past.get(row["tool"], 0) for row in rows
    }
    ever: dict[str, set[str]] = defaultdict(set)
    for one in events:
        ever[one["tool"]] |= {one["session"]} if "session" in one else set()
    whole = breakdown(EVER, ["tool"], ["sessions"], limit=1000).rows(store)
    assert {row["tool"]: row["sessions"] for row in whole} == {row["tool"]: len(ever[row["tool"]]) for row in whole}


@pytest.mark.parametrize("limit", [1, 40])
def test_a_page_of_events_is_limited_once(store: Store, limit: int) -> None:
    """A second limit over complete events would need more memory for 10,000 of them than there is."""
    holding(store, [event(number) for number in range(1, 100)])
    page = queries.events(EVER, limit)
    asked: list[str] = []

    class Listening:
        materializes = True
        version = ""

        def rows(self, sql: str, params: Any = None, *, timeout_s: float = 30) -> list[dict[str, Any]]:
            asked.append(sql)
            return store.rows(sql, params, timeout_s=timeout_s)

        def arrow(self, sql: str, params: Any = None, *, timeout_s: float = 30) -> bytes:
            asked.append(sql)
            return store.arrow(sql, params, timeout_s=timeout_s)

    assert [row["event_id"] for row in page.rows(Listening())] == list(range(1, limit + 2))
    frame = pl.read_ipc_stream(page.arrow(Listening()))
    assert frame["event_id"].to_list() == list(range(1, limit + 1))
    assert [sql.count(" limit ") for sql in asked] == [1, 1]


@pytest.mark.parametrize("sort", ["calls", "-errors", "-started", "session", "-agent"])
def test_a_page_of_sessions_is_the_same_as_the_first_of_all_sessions(store: Store, sort: str) -> None:
    dice = random.Random(5)
    holding(
        store,
        [
            dice.choice([event, failed])(number, session=f"s{dice.randrange(40)}", agent=dice.choice(["a", "b"]))
            for number in range(1, 600)
        ],
    )
    every = sessions(EVER, [sort, "-ended"], 1000).rows(store)
    assert len(every) == 40
    assert sessions(EVER, [sort, "-ended"], 9).rows(store) == every[:10]


def test_a_session_has_the_last_model_that_it_used_whichever_event_came_first(store: Store) -> None:
    """At one time the agent's own order decides, else the id, as it does for streaks."""
    at = [event(9, sequence=2, model="second"), event(9, sequence=1, model="first", event_id=99)]
    other = [event(8, session="s2", model="low", event_id=97), event(8, session="s2", model="high", event_id=98)]
    for arrived in (at + other, [*reversed(at), *reversed(other)]):
        store.execute("delete from events")
        holding(store, arrived)
        rows = sessions(EVER, ["session"]).rows(store)
        assert [row["model"] for row in rows] == ["second", "high"]


def test_sessions_show_their_worst_streak_and_last_outcomes(store: Store) -> None:
    holding(store, [failed(9), failed(8), event(7), failed(6), event(5, outcome="denied"), event(4, session="s2")])
    rows = sessions(EVER).rows(store)
    counts = tuple(rows[0][name] for name in ("session", "calls", "ok", "errors", "denied"))
    assert counts == ("s1", 5, 1, 3, 1)
    assert (rows[0]["worst_streak"], rows[0]["strip"]) == (2, "eeoed")
    assert (rows[0]["started"], rows[0]["ended"]) == (NOW - 9 * MINUTE, NOW - 5 * MINUTE)
    assert (rows[1]["session"], rows[1]["worst_streak"], rows[1]["strip"]) == ("s2", 0, "o")


def test_sessions_tell_which_of_their_errors_last(store: Store) -> None:
    """Of two errors half a minute ago nobody knows yet; one was repaired; another one was not within half an hour."""
    old = [failed(90, session="s1"), failed(50, session="s1"), event(49, session="s1")]
    holding(store, [*old, failed(1, session="s2"), failed(2, session="s2")])
    rows = sessions(EVER, ["session"]).rows(store)
    assert [(row["session"], row["errors"], row["lasting"], row["not_known_yet"]) for row in rows] == [
        ("s1", 2, 1, 0), ("s2", 2, 0, 2),
    ]  # fmt: skip
    assert sessions(EVER, ["-not_known_yet"], 1).rows(store)[0]["session"] == "s2"


def test_a_strip_holds_the_last_sixty(store: Store) -> None:
    holding(store, [failed(100), *(event(number) for number in range(1, 61))])
    assert sessions(EVER).rows(store)[0]["strip"] == "o" * 60


def test_sources_say_what_they_leave_out(store: Store) -> None:
    holding(store, [
        event(9, params_hash=1), event(5, operation="model", tool=None),
        failed(8, error_class="UnknownError"), failed(7, retryable_declared=True, model="m"),
        failed(6, source="roo-code", session=None),
    ])  # fmt: skip
    rows = {row["source"]: row for row in queries.sources(Selection(0, NOW, failure_only=SILENT)).rows(store)}
    codex = rows["codex"]
    assert (codex["events"], codex["errors"], codex["unclassified"], codex["unclassified_rate"]) == (4, 2, 1, 0.5)
    assert codex["coverage"] == {
        "session": 1, "parameters": pytest.approx(1 / 3), "outcome": 1, "order": 0, "model": 0.25, "class": 0.5,
        "retryable": 0.5,
    }  # fmt: skip
    assert (codex["reports_ok"], rows["roo-code"]["reports_ok"]) == (True, False)
    assert rows["roo-code"]["coverage"]["session"] == 0


@pytest.mark.parametrize(
    ("sender", "where", "shown"),
    [
        (("continue", "cn"), {}, True),
        (("", "some-app"), {}, True),
        (("", "api"), {}, False),  # its calls are listed under the source that reads them
        (("codex", "api"), {}, False),
        (("", "both"), {}, False),  # a scope of the same service that a table claims gives its source
        (("continue", "cn"), {"source": "continue,codex"}, True),
        (("continue", "cn"), {"source": "codex"}, False),
        (("continue", "cn"), {"tool": "read_file"}, False),
        (("continue", "cn"), {"to": "-2h"}, False),  # seen for the first time an hour ago
        (("continue", "cn"), {"from": "-10m"}, False),
        (("continue", "cn"), {"from": "-50m", "to": "-40m"}, True),
    ],
)
def test_who_sends_only_metrics_is_seen_and_nothing_is_said_of_its_calls(
    store: Store, sender: tuple[str, str], where: dict[str, str], shown: bool
) -> None:
    holding(store, [failed(9)])
    store.execute("delete from seen")
    for source, service in {sender, ("gen-ai", "both")}:
        values = {"source": source, "service": service, "first": NOW - HOUR, "last": NOW - 20 * MINUTE}
        store.execute("insert into seen values ($source, $service, '', $first, $last, 'm')", values)
    rows = queries.sources(select({"from": "-7d", **where}, NOW)).rows(store)
    found = {(row["source"], row["service"]): row for row in rows if not row["tool_data"]}
    assert (sender in found) == shown
    for row in found.values():
        assert (row["events"], row["errors"], row["unclassified"], row["coverage"]) == (0, None, None, None)
    store.execute("delete from seen")


def test_merged_events_lead_to_the_one_that_is_left(store: Store) -> None:
    store.execute("insert into redirects values (77, 78, 0)")
    assert queries.redirected(store, 77) == 78
    assert queries.redirected(store, 78) is None


def test_the_newest_event_of_all(store: Store) -> None:
    assert queries.newest_ns(holding(store, [event(9), event(4)])) == NOW - 4 * MINUTE
    assert queries.newest_ns(holding(store, [])) is None


def sampled(store: Store, name: str, by: Sequence[str] = (), where: dict[str, Any] | None = None) -> dict[Any, Any]:
    samples = measure(store, name, where or {}, by, NOW - HOUR, NOW, failure_only=SILENT)
    return {tuple(one.labels.values()): (one.value, one.calls) for one in samples}


def test_measures_of_a_window(store: Store) -> None:
    holding(store, [
        failed(70), failed(9, duration_ms=10.0), event(8, duration_ms=20.0), event(7, tool="other"), event(6,
        outcome="denied"), failed(5, source="roo-code", error_class="UnknownError", fingerprint=5), event(4,
        session="s2", service="web"),
    ])  # fmt: skip
    assert sampled(store, "errors") == {(): (2, 6)}
    assert sampled(store, "calls", ["service"]) == {("api",): (5, 5), ("web",): (1, 1)}
    assert sampled(store, "error_rate", ["tool"]) == {("read_file",): (pytest.approx(1 / 3), 3), ("other",): (0, 1)}
    assert sampled(store, "error_rate", where={"source": "roo-code"}) == {(): (None, 0)}
    assert sampled(store, "sessions") == {(): (2, 6)}
    assert sampled(store, "failing_sessions") == {(): (0, 2)}
    assert sampled(store, "failing_sessions", ["tool"], {"service": "api"}) == {
        ("read_file",): (0, 1),
        ("other",): (0, 1),
    }
    assert sampled(store, "failing_sessions", where={"outcome": "error"}) == {(): (1, 1)}
    assert sampled(store, "retries") == {(): (1, 6)}
    assert sampled(store, "recovery_rate") == {(): (1, 1)}
    assert sampled(store, "unclassified_rate") == {(): (0.5, 2)}
    assert sampled(store, "p95_ms") == {(): (19.5, 2)}
    assert sampled(store, "new_groups") == {(): (0, 6)}, "everything is new on a service's first day"
    assert sampled(store, "calls", ["mistake"], {"tool": ["!other"]}) == {("",): (3, 3), ("true",): (2, 2)}
    holding(store, [event(1600), failed(70), failed(9), failed(8, fingerprint=5), failed(7, fingerprint=5)])
    assert sampled(store, "new_groups") == {(): (1, 3)}


BACK = {
    "after a week of silence": ([8, 0.1], 0, 1),
    "once, however often it comes": ([8, 0.5, 0.4], 0, 1),
    "after six days": ([6, 0.1], 0, 0),
    "before the window": ([9, 1.2, 0.1], 0, 0),
    "for the first time": ([0.1], 0, 0),
    "after it was resolved": ([3, 0.1], 2, 1),
    "after it was resolved, and its past was deleted": ([0.1], 90, 1),
    "not since it was resolved": ([3, 0.5], 0.4, 0),
    "a while after it was resolved": ([3, 1.5, 0.1], 2, 0),
    "of a service that paused too": ([60, 0.1], 0, 0),
}


@pytest.mark.parametrize(("errors", "resolved", "expected"), BACK.values(), ids=BACK)
def test_groups_that_came_back_are_counted(store: Store, errors: list[float], resolved: float, expected: int) -> None:
    """Times of errors and of the resolution in days ago; the window is the last day."""
    events = [failed(number, time_ns=NOW - int(days * DAY), fingerprint=7) for number, days in enumerate(errors)]
    days = (40, 30, 0.2) if errors[0] == 60 else (40, 4, 0.2)
    holding(store, events + [event(100 + number, time_ns=NOW - int(ago * DAY)) for number, ago in enumerate(days)])
    if resolved:
        at_ns = NOW - int(resolved * DAY)
        store.execute(
            "insert into group_marks (fingerprint, resolved_ns, changed_ns) values (7, $at, $at)", {"at": at_ns}
        )
    found = measure(store, "regressed_groups", {}, ["service"], NOW - DAY, NOW)
    assert [(one.labels, one.value) for one in found] == [({"service": "api"}, expected)]


@pytest.mark.parametrize("name", [name for name in MEASURES if name != "silent"])
def test_a_rule_without_labels_always_has_one_sample(store: Store, name: str) -> None:
    rates = ("error_rate", "failing_sessions", "recovery_rate", "unclassified_rate", "p95_ms")
    assert sampled(holding(store, []), name) == {(): (None if name in rates else 0, 0)}
    assert sampled(store, name, ["tool"]) == {}


def test_silence_is_told_in_seconds_until_somebody_has_left(store: Store) -> None:
    holding(store, [event(100), event(90), event(30, service="web"), event(8 * 24 * 60, service="gone")])
    assert sampled(store, "silent", ["service"]) == {("api",): (5400, 2), ("web",): (1800, 1)}
    assert sampled(store, "silent") == {(): (1800, 3)}  # the window begins at 20:11, its hour at 20:00
    assert sampled(store, "silent", where={"service": "gone"}) == {(): (None, 0)}
