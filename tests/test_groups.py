"""Groups: states, trend, spread and recovery against plain counting, and people's notes, over restarts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.api.representations import read_body
from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.errors import Rejected
from collector.query.filters import BadParameter, Selection, select
from collector.query.group_marks import Mark, mark
from collector.query.groups import SLOTS, groups
from tests.conftest import RunningCollector
from tests.recorded import DAY, HOUR, MINUTE, NOW, event, failed, holding, measure

EVER = Selection(0, NOW)
ONE = 2**64 - 1


@pytest.fixture(autouse=True)
def unmarked(store: Store) -> None:
    store.execute("delete from group_marks")


def same(text: str) -> str:
    return text


def test_a_group_is_new_until_it_was_seen_before_the_range(store: Store) -> None:
    other = {"fingerprint": 5, "message": "another", "template": "another"}
    events = [failed(2000), failed(3), failed(2, session="s2", message="newest"), failed(1, **other)]
    holding(store, [*events, event(4, session="s3")])
    day = Selection(NOW - DAY, NOW)
    rows = {row["fingerprint"]: row for row in groups(day).rows(store)}
    assert {number: row["state"] for number, row in rows.items()} == {2**64 - 1: "ongoing", 5: "new"}
    row = rows[2**64 - 1]
    assert (row["events"], row["sessions"], row["sample"], row["newest_event_id"]) == (2, 2, "newest", 2)
    assert row["spread"] == pytest.approx(2 / 3)
    assert (row["first_seen"], row["last_seen"]) == (NOW - 2000 * MINUTE, NOW - 2 * MINUTE)
    assert [row["fingerprint"] for row in groups(day, state="new").rows(store)] == [5]
    assert [row["events"] for row in groups(EVER, fingerprint=2**64 - 1).rows(store)] == [3]


def test_a_filter_on_errors_leaves_the_spreads_denominator_whole(store: Store) -> None:
    holding(store, [failed(3), event(2, session="s2"), event(1, session="s3", service="web")])
    selection = select({"error_class": "FileNotFoundError", "service": "api", "from": "-7d"}, NOW)
    assert groups(selection).rows(store)[0]["spread"] == pytest.approx(1 / 2)


def test_a_trend_counts_each_part_of_the_range(store: Store) -> None:
    dice = random.Random(4)
    events = [failed(n, time_ns=NOW - dice.randrange(DAY), fingerprint=dice.randrange(3)) for n in range(400)]
    ahead = failed(999, time_ns=NOW + MINUTE, fingerprint=0)
    holding(store, [*events, ahead])
    day = Selection(NOW - DAY, NOW, to_now=True)
    for row in groups(day).rows(store):
        parts = [0] * SLOTS
        for one in [*events, ahead]:
            if one["fingerprint"] == row["fingerprint"]:
                parts[min(SLOTS - 1, (one["time_ns"] - NOW + DAY) // HOUR)] += 1
        assert row["trend"] == parts
        assert row["growth"] == sum(parts[12:]) - sum(parts[:12])
    grown = [row["growth"] for row in groups(day, sort=["-growth"]).rows(store)]
    assert grown == sorted(grown, reverse=True)


def test_recovery_comes_where_it_is_named(store: Store) -> None:
    events = [failed(200), event(199), failed(180), failed(179), failed(90, session=None), event(1, session="x")]
    holding(store, events)
    [row] = groups(EVER, ["recovery_rate"]).rows(store)
    told = ("retried", "rated", "recovered", "lasting", "recovery_rate")
    assert tuple(row[name] for name in told) == (2, 2, 1, 2, 0.5)
    assert row["low"] < 0.5 < row["high"]
    [row] = groups(EVER).rows(store)
    assert not set(told) & set(row)
    recovered = select({"from": "-7d", "recovered": "true"}, NOW)
    [row] = groups(recovered, ["recovery_rate"]).rows(store)
    assert (row["events"], row["recovered"], row["newest_event_id"]) == (1, 1, 200)
    with pytest.raises(BadParameter, match="recovery_rate"):
        groups(EVER, sort=["recovery_rate"])


@pytest.mark.parametrize(
    ("days_ago", "state"),
    [([0.5], "new"), ([3, 0.5], "ongoing"), ([9, 0.5], "regressed"), ([9, 5, 0.5], "ongoing"), ([9, 8.5, 0.5, 0.1],
        "regressed")],
)  # fmt: skip
def test_a_group_that_comes_back_after_a_week_has_regressed(store: Store, days_ago: list[float], state: str) -> None:
    holding(store, [failed(n, time_ns=NOW - round(days * DAY)) for n, days in enumerate(days_ago)])
    assert [row["state"] for row in groups(Selection(NOW - DAY, NOW)).rows(store)] == [state]
    assert [row["state"] for row in groups(EVER, fingerprint=ONE).rows(store)] == [state]


def test_a_group_that_came_back_after_the_range_has_not_regressed_in_it(store: Store) -> None:
    holding(store, [failed(n, time_ns=NOW - days * DAY) for n, days in enumerate((20, 1))])
    assert [row["state"] for row in groups(Selection(NOW - 21 * DAY, NOW - 19 * DAY)).rows(store)] == ["new"]
    assert [row["state"] for row in groups(Selection(NOW - 2 * DAY, NOW)).rows(store)] == ["regressed"]


def test_a_resolved_group_regresses_when_it_comes_back(store: Store) -> None:
    week = Selection(NOW - 2 * DAY, NOW + DAY)

    def resolved(*minutes_ago: int) -> None:
        """The group with errors this long ago, resolved 40 minutes ago."""
        holding(store, [failed(minutes) for minutes in minutes_ago])
        mark(store, ONE, Mark(state="resolved"), same, lambda: NOW - 40 * MINUTE)

    resolved(60, 50)
    [row] = groups(week).rows(store)
    assert (row["state"], row["resolved"]) == ("resolved", NOW - 40 * MINUTE)
    assert groups(week, state="new").rows(store) == []
    resolved(60, 50, 55)  # the last one arrived late, but happened before
    assert groups(week).rows(store)[0]["state"] == "resolved"
    resolved(60, 30)
    assert groups(week, state="regressed").rows(store)[0]["state"] == "regressed"
    mark(store, ONE, Mark(state="open"), same, lambda: NOW)
    [row] = groups(week).rows(store)
    assert (row["state"], row["resolved"]) == ("new", None)


def test_a_note_and_a_state_do_not_undo_each_other(store: Store) -> None:
    holding(store, [failed(5)])
    mark(store, ONE, Mark(state="resolved"), same, lambda: NOW)
    mark(store, ONE, Mark(note="our fault"), same)
    [row] = groups(EVER).rows(store)
    assert (row["state"], row["note"]) == ("resolved", "our fault")
    mark(store, ONE, Mark(note=""), same)
    assert groups(EVER).rows(store)[0]["note"] == ""


@pytest.mark.parametrize(
    ("number", "body", "status"),
    [
        (ONE, b"{}", 400),
        (ONE, b"[]", 400),
        (ONE, b"\xff", 400),
        (ONE, b'{"state": "closed"}', 400),
        (ONE, b'{"state": "ignored"}', 400),
        (ONE, b'{"state": "ignored", "until_events": 0}', 400),
        (ONE, b'{"state": "ignored", "until_events": 1e30}', 400),
        (ONE, b'{"state": "open", "until_events": 5}', 400),
        (ONE, b'{"until_sessions": 5}', 400),
        (ONE, b'{"version": "1.8"}', 400),
        (ONE, b'{"state": "open", "version": "1.8"}', 400),
        (ONE, b'{"state": "resolved", "service": "api"}', 400),
        (ONE, b'{"stat": "open"}', 400),
        (ONE, json.dumps({"note": "x" * 4001}).encode(), 400),
        (7, b'{"state": "open"}', 404),
    ],
)
def test_what_cannot_be_said_of_a_group_is_refused(store: Store, number: int, body: bytes, status: int) -> None:
    holding(store, [failed(5)])
    with pytest.raises(Rejected) as refused:
        mark(store, number, read_body(body, Mark, "a mark"), same)
    assert refused.value.status == status
    assert store.rows("from group_marks") == []


VERSIONS = [
    # resolved in, versions that were known before, what came since, whether it came back
    ("1.8.0", ["1.7.2"], "1.7.2", False),
    ("1.8.0", ["1.7.2"], "1.8.0", True),
    ("1.8.0", ["1.7.2"], "1.6.9", False),  # seen for the first time, and yet earlier
    ("1.9.0", ["1.8.0"], "1.10.0", True),
    ("1.10.0", ["1.8.0"], "1.9.9", False),
    ("v2.0", ["v1.9"], "2.0.0", True),
    ("2.0.0", ["1.9"], "2.0.0-rc1", False),
    ("2.0.0rc2", ["1.9"], "2.0.0b9", False),
    ("2.0.0-rc.2", ["1.9"], "2.0.0-rc.11", True),
    ("2.0.0", ["1.9"], "2.0.0+build7", True),
    ("2.0.0", ["1.9"], "2.0.0.post1", True),
    ("2.0.0", ["1.9"], "2.0.0-4-gdeadbee", True),
    ("2026.10", ["2026.9"], "2026.9", False),
    ("2026-11-27", ["2026-11-20"], "2026-12-01", True),
    ("3f4a9c1", ["77aa01b"], "77aa01b", False),
    ("3f4a9c1", ["77aa01b"], "3f4a9c1", True),
    ("3f4a9c1", ["77aa01b"], "b00b1e5", True),  # not known when it was resolved, and so later
    ("77aa01b", ["77aa01b", "3f4a9c1"], "3f4a9c1", True),  # began after the one in which it was resolved
    ("9" * 30, ["1"], "1", False),
    ("1.8.0", ["1.7.2"], None, False),
    ("'); drop table events; --", ["1"], "1", False),
]


def test_a_group_resolved_in_a_version_regresses_in_that_or_a_later_one(store: Store) -> None:
    """Each row is a group of a service of its own."""
    rows = {f"s{place}": row for place, row in enumerate(VERSIONS)}
    known, since = [], []
    for place, (service, (_, before, later, _)) in enumerate(rows.items()):
        own: dict[str, Any] = {"service": service, "fingerprint": place + 1}
        known += [failed(900 - 9 * place - n, **own, service_version=each) for n, each in enumerate(before)]
        since.append(failed(50 - place, **own, service_version=later))
    holding(store, known)
    for place, (version, *_) in enumerate(VERSIONS):
        mark(store, place + 1, Mark(state="resolved", version=version), same, lambda: NOW - 100 * MINUTE)
    assert {row["state"] for row in groups(EVER).rows(store)} == {"resolved"}
    store.write(Changes(NOW, events=since))
    for _ in store.rebuild():
        pass
    found = {row["resolved_service"]: (row["resolved_version"], row["state"]) for row in groups(EVER).rows(store)}
    assert found == {
        service: (version, "regressed" if back else "resolved") for service, (version, _, _, back) in rows.items()
    }
    counted = measure(store, "regressed_groups", {}, ["service"], NOW - HOUR, NOW)
    assert {dict(one.labels)["service"]: one.value for one in counted} == {
        service: int(back) for service, (*_, back) in rows.items()
    }


def test_a_version_is_one_services_alone(store: Store) -> None:
    others = [failed(190, service="web", service_version="9.0"), failed(40, service="web", service_version="9.0")]
    holding(store, [failed(200, service_version="1.7"), *others])
    with pytest.raises(Rejected, match="service: api, web"):
        mark(store, ONE, Mark(state="resolved", version="1.8"), same)
    mark(store, ONE, Mark(state="resolved", version="1.8", service="api"), same, lambda: NOW - 100 * MINUTE)
    assert groups(EVER).rows(store)[0]["state"] == "resolved"
    mark(store, ONE, Mark(state="resolved", version="9.0"), same, lambda: NOW - 100 * MINUTE)
    [row] = groups(EVER).rows(store)
    assert (row["state"], row["resolved_service"]) == ("regressed", "web")


@pytest.mark.parametrize(
    ("until", "sessions", "state", "over"),
    [
        ({"until_events": 3}, ["a", "a"], "ignored", None),
        ({"until_events": 3}, ["a", "a", "a"], "regressed", 18),
        ({"until_sessions": 2}, ["a", "a", "a", "a"], "ignored", None),
        ({"until_sessions": 2}, ["a", "a", None, "b"], "regressed", 17),
        ({"until_events": 9, "until_sessions": 2}, ["a", "b"], "regressed", 19),
        ({"until_events": 1}, [], "ignored", None),
        ({"until_events": 2}, [None, None], "regressed", 19),
    ],
)
def test_an_ignored_group_comes_back_when_it_has_happened_often_enough(
    store: Store, until: dict[str, Any], sessions: list[str | None], state: str, over: int | None
) -> None:
    before = [failed(60 + n, session=f"old{n}") for n in range(9)]
    holding(store, before)
    mark(store, ONE, Mark(state="ignored", **until), same, lambda: NOW - 40 * MINUTE)
    store.write(Changes(NOW, events=[failed(20 - n, session=each) for n, each in enumerate(sessions)]))
    for _ in store.rebuild():
        pass
    [row] = groups(EVER).rows(store)
    assert (row["state"], row["events_since"]) == (state, len(sessions))
    assert row["sessions_since"] == len(set(sessions) - {None})
    assert (row["until_events"], row["until_sessions"]) == (until.get("until_events"), until.get("until_sessions"))
    assert groups(EVER, state=state).rows(store)
    for minute in (over + 1, over, over - 1) if over else (18,):  # an alert is told in the minute of its coming back
        start = NOW - minute * MINUTE
        [told] = measure(store, "regressed_groups", {}, [], start, start + MINUTE)
        assert told.value == int(minute == over), minute
    mark(store, ONE, Mark(state="open"), same)
    [row] = groups(EVER).rows(store)
    assert (row["state"], row["ignored"], row["events_since"], row["until_events"]) == ("new", None, None, None)


def test_a_group_is_resolved_or_ignored_never_both(store: Store) -> None:
    holding(store, [failed(5)])
    mark(store, ONE, Mark(state="ignored", until_events=5, issue="https://t.example/A-1"), same, lambda: NOW)
    mark(store, ONE, Mark(state="resolved"), same, lambda: NOW)
    [row] = groups(EVER).rows(store)
    assert (row["state"], row["ignored"], row["until_events"], row["issue"]) == (
        "resolved", None, None, "https://t.example/A-1",
    )  # fmt: skip
    mark(store, ONE, Mark(state="ignored", until_sessions=1), same, lambda: NOW)
    [row] = groups(EVER).rows(store)
    assert (row["state"], row["resolved"]) == ("ignored", None)


UNSAFE = [
    "http://t.example/1", "javascript:alert(1)", "https://", "https:///x", "https://ann:pw@t.example/1",
    "//t.example", "https://t.example/a b", "https://t.example/\"><script>", "https://t.example\\@evil.example",
    "https://[::1", "https://t.example:0/", "ftp://t.example", "data:text/html,x", "https://t.example/\nx",
    "HTTPS:/t.example",
]  # fmt: skip


def test_an_issue_is_an_address_that_is_safe_to_open(store: Store) -> None:
    holding(store, [failed(5)])

    def refused(address: str) -> bool:
        try:
            mark(store, ONE, Mark(issue=address), same)
        except Rejected as error:
            return "https://" in str(error)
        return False

    assert [address for address in UNSAFE if not refused(address)] == []
    mark(store, ONE, Mark(issue=" https://t.example/A-1?x=%20#c "), same)
    assert groups(EVER).rows(store)[0]["issue"] == "https://t.example/A-1?x=%20#c"
    with pytest.raises(Rejected, match="secret"):
        mark(store, ONE, Mark(issue="https://t.example/?token=x"), lambda text: text.replace("x", "[redacted]"))
    mark(store, ONE, Mark(issue=""), same)
    assert groups(EVER).rows(store)[0]["issue"] == ""


def test_marks_are_set_over_http_without_secrets_and_survive_a_restart(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector(QUERY_TOKENS="right")
    asked: dict[str, Any] = {"headers": {"Authorization": "Bearer right"}, "timeout": 30}
    collector.post("/v1/events", json.dumps({
        "service": "api", "session": "s", "tool": "read_file", "outcome": "error", "message": "ENOENT: no such file",
    }))  # fmt: skip
    [row] = httpx.get(f"{collector.url}/api/v1/groups", **asked).json()["rows"]
    place = f"{collector.url}/api/v1/groups/{row['fingerprint']}"
    assert httpx.patch(place, json={"state": "resolved"}, timeout=30).status_code == 401
    assert httpx.patch(place, content=b'{"state": "open"}', **asked).status_code == 415
    assert httpx.patch(place, json={"note": "x" * (65 << 10)}, **asked).status_code == 413
    assert httpx.patch(f"{place}?foo=1", json={"state": "resolved"}, **asked).status_code == 400
    assert httpx.get(place, **asked).json()["state"] == "new"
    secret = "ghp_" + "a1B2c3D4e5" * 4
    answer = httpx.patch(place, json={"state": "resolved", "note": f"rotated {secret}"}, **asked)
    assert (answer.status_code, answer.json()["state"]) == (200, "resolved")
    collector.restart()
    row = httpx.get(place, **asked).json()
    assert row["state"] == "resolved"
    assert row["note"].startswith("rotated [redacted:")
    assert secret not in row["note"]
    collector.stop()
    assert secret.encode() not in Path(collector.store).read_bytes()
