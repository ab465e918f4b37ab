"""What a cluster has is what the stores that publish to it have, however often they, it or the way between fails."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.cluster import publish as publishing
from collector.cluster.client import Cluster
from collector.cluster.older import Older
from collector.cluster.publish import Publisher, insert_arrow, send
from collector.cluster.tables import VERSIONED, Layout, make, published
from collector.correlate.changes import Changes
from collector.correlate.correlate import Correlator
from collector.engine import Turn
from collector.engine.duckdb.back import Back
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.notes import note_changes
from collector.engine.duckdb.outbox import Outbox
from collector.engine.duckdb.store import Store
from collector.engine.duckdb.write import put
from collector.errors import Unavailable
from collector.times import SECOND
from tests import reports as reported
from tests.clickhouse import Front
from tests.conftest import RunningCollector, misstep, wait_until
from tests.memory import commit
from tests.recorded import DAY, HOUR, NOW, failed, holding, mixed
from tests.reports import batch, made, pieces, report
from tests.search import EXAMPLES

LATER = reported.NOW + 5 * DAY
KINDS = ("log", "numbered", "span", "attempt", "its result", "both ids", "child", "told", "told in a trace", "request")


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows to compare: nothing and an empty list are one, as the cluster has no empty lists that are null."""

    def value(name: str, one: Any) -> Any:
        if isinstance(one, float):
            return int(one) if one.is_integer() else round(one, 6)
        return None if one == [] else one

    return sorted(str([(name, value(name, one)) for name, one in sorted(row.items())]) for row in rows)


def same(store: Store, cluster: Cluster) -> None:
    """The events, streaks and chains of both are equal."""
    for table in VERSIONED:
        there = {row["column_name"] for row in store.rows(f"describe {table}")}
        names = [name for name, _, _ in published(table) if name in there]
        columns = ", ".join(f'"{name}"' for name in names)
        texts = ", ".join(f'"{name}"::varchar as "{name}"' if name in ("params", "attributes") else f'"{name}"'
                          for name in names)  # fmt: skip
        ours, theirs = store.rows(f"select {texts} from {table}"), cluster.rows(f"select {columns} from {table}")
        assert len(ours) == len(theirs), table
        for our, their in zip(plain(ours), plain(theirs), strict=True):
            assert our == their, table


def publish(store: Store, cluster: Cluster, most: int = 1_000) -> None:
    """Publishes what is due, as a collector that has just been started."""
    outbox = Outbox(store)
    outbox.open("here")
    while turn := outbox.take(most):
        send(cluster, outbox.collector, turn)
        outbox.done(turn)
    assert outbox.pending() == 0


class Died(Exception):
    """Where a process was killed, or an answer lost."""


def faulty(chance: random.Random, cluster: Cluster) -> Callable[[Store], int]:
    """Publishes what is due, and fails before or after any statement of a turn; whoever goes on begins anew."""

    def attempt(outbox: Outbox, turn: Turn) -> None:
        for table, block in turn.blocks.items():
            if chance.random() < 0.2:
                raise Died(f"before {table}")
            for _ in range(chance.choice((1, 1, 2))):  # the answer was lost: the same block again
                insert_arrow(cluster, f"{table}_rows", block, f"{outbox.collector}/{turn.number}/{table}")
            if chance.random() < 0.1:
                raise Died(f"after {table}")

    def publish_some(store: Store) -> int:
        died = 0
        outbox = Outbox(store)
        outbox.open("here")
        for _ in range(6):
            if (turn := outbox.take(chance.randrange(1, 12))) is None:
                break
            try:
                attempt(outbox, turn)
                outbox.done(turn)
            except Died:
                died += 1
                if chance.random() < 0.5:  # the process: what it knew is gone
                    outbox = Outbox(store, clock=lambda: 1)  # and the clock went back
                    outbox.open("here")
                else:  # the way: the same turn again
                    send(cluster, outbox.collector, turn)
                    outbox.done(turn)
        return died

    return publish_some


def test_random_traffic_is_published_as_it_is_stored(cluster: Cluster) -> None:
    died = 0
    for seed in range(max(1, EXAMPLES // 25)):
        chance = random.Random(seed)
        store = Store.open("duckdb://:memory:")
        store.publishing = True
        publish_some = faulty(chance, cluster)
        for table in VERSIONED:
            cluster.run(f"truncate table {table}_rows")
        calls = [
            (chance.randrange(4), chance.randrange(3), chance.randrange(9), chance.choice(KINDS)) for _ in range(60)
        ]
        requests = pieces(made(calls), {"t0": "S0", "t2": "S1"}, chance)
        correlator = Correlator(Lookup(store), fresh=True)
        while requests:
            lot, requests = requests[: (size := chance.randrange(1, 9))], requests[size:]
            changes = correlator.plan(lot)
            store.write(changes)
            correlator.learn(changes)
            if chance.random() < 0.7:
                store.keep_up(chance.randrange(1, 4))
            if chance.random() < 0.6:
                died += publish_some(store)
        while store.keep_up():
            pass
        publish(store, cluster)
        same(store, cluster)
        store.close()
    assert died > 2


def calls_of(number: int, most: int = 5) -> list[dict[str, Any]]:
    """A session whose calls fail, and are repeated until they work."""
    start = datetime.now(UTC) - timedelta(minutes=20)
    return [
        {
            "service": f"agent-{number % 3}", "session": f"s{number}", "tool": "edit", "target": f"f{call // 3}",
            "call_id": f"{number}.{call}", "time": (start + timedelta(seconds=number + 2 * call)).isoformat(),
            **({"outcome": "ok"} if call % 3 == 2 else {"outcome": "error", "message": "file not found: x"}),
        }
        for call in range(most)
    ]  # fmt: skip


def whole(cluster: Cluster, sessions: int, most: int = 5) -> bool:
    """Whether the cluster has each call of so many sessions once, with their chains and streaks, and nothing else."""
    [events] = cluster.rows("select count() as n, uniqExact(event_id) as ids, uniqExact(session) as s from events")
    [chains] = cluster.rows("select count() as n, countIf(repaired) as repaired from kept_chains")
    [streaks] = cluster.rows("select count() as n, sum(length) as mistakes from kept_streaks where scope = 'session'")
    errors = sum(call["outcome"] == "error" for call in calls_of(0, most))
    calls = sessions * most
    return (
        events == {"n": calls, "ids": calls, "s": sessions}
        and chains == {"n": sessions * errors, "repaired": sessions * (2 * (most // 3))}
        and (streaks["mistakes"] == sessions * errors)
    )


def test_an_existing_store_is_moved_and_compared(clickhouse: Front, tmp_path: Path) -> None:
    url = clickhouse.database()
    settings = {"CLUSTER": url, "HASH_KEY": "k" * 32, "RETENTION": "90d"}
    said = misstep("cluster", "check", cwd=tmp_path, settings=settings)
    assert (said.returncode, "run misstep cluster init" in said.stdout) == (1, True)
    assert misstep("cluster", "init", cwd=tmp_path, settings=settings).returncode == 0
    filled = Store.open(f"duckdb:///{tmp_path}/m.duckdb")
    holding(filled, mixed())
    filled.close()

    move = ("cluster", "publish", f"--from=duckdb:///{tmp_path}/m.duckdb")
    moved = misstep(*move, cwd=tmp_path, settings=settings)
    assert (moved.returncode, moved.stderr) == (0, "")
    assert "the cluster has 600 events" in moved.stdout
    again = misstep(*move, cwd=tmp_path, settings=settings)
    assert again.stdout.startswith("0 rows published: the cluster has 600 events")

    filled, cluster = Store.open(f"duckdb:///{tmp_path}/m.duckdb"), Cluster(url)
    assert filled.publishing  # whoever opens it notes what changes
    same(filled, cluster)
    filled.close()
    [event] = cluster.rows("select * except (service) from events_rows final where session is not null limit 1")
    cluster.insert("events_rows", [event | {"version": event["version"] + 1, "message": "other"}], "wrong")
    wrong = misstep(*move, cwd=tmp_path, settings=settings)
    assert wrong.returncode == 1
    assert "events, day" in wrong.stdout
    cluster.close()


class Noting:
    """A store in which there is always something new, as under load."""

    collector = "busy"

    def __init__(self, waiting: int) -> None:
        self.waiting, self.taken = waiting, 0

    def open(self, place: str) -> None: ...

    def take(self, most: int) -> Turn | None:
        self.taken += 1
        return Turn(self.taken, {}) if self.waiting else None

    def done(self, turn: Turn) -> None:
        time.sleep(0.01)

    def pending(self) -> int:
        return self.waiting

    def senders(self, since_ns: int) -> bytes:
        return b""


def test_under_load_there_is_an_end_to_what_an_answer_waits_for(clickhouse: Front) -> None:
    """And others, who see what waits, no longer wait for a collector that left with nothing to publish."""
    cluster = Cluster(url := clickhouse.database())
    make(cluster, Layout(), 90 * 86_400)
    store = Noting(3)
    publisher = Publisher(store, Cluster(url))
    publisher.start()
    for _ in range(2):
        publisher.noted()
        assert publisher.settle(10)
    assert publisher.state()["behind_seconds"] < 10
    [told] = cluster.rows("select collector, pending from collectors")
    assert told == {"collector": "busy", "pending": 3}
    store.waiting = 0
    assert publisher.state()["waiting_rows"] == 0
    publisher.noted()
    publisher.close()
    assert cluster.rows("select collector from collectors") == []
    cluster.close()


def test_a_problem_is_over_when_the_cluster_answers_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing waits, and only the sign of life failed."""
    monkeypatch.setattr(publishing, "AWAY_S", 0.1)
    monkeypatch.setattr(publishing, "HEARTBEAT_S", 1)
    failing = ["gone"]
    insert = cluster.insert

    def inserted(table: str, rows: list[dict[str, Any]], token: str) -> None:
        if failing:
            raise Unavailable(failing[0], 1)
        insert(table, rows, token)

    monkeypatch.setattr(cluster, "insert", inserted)
    publisher = Publisher(Noting(0), cluster)
    publisher.start()
    wait_until(lambda: publisher.state()["problem"] == "gone")
    failing.clear()
    wait_until(lambda: publisher.settle(0.1))
    failing.append("gone again")
    wait_until(lambda: publisher.state()["problem"] == "gone again")
    failing.clear()
    wait_until(lambda: publisher.state()["problem"] == "")
    publisher.close()


def test_what_retention_removes_here_stays_in_the_cluster(cluster: Cluster) -> None:
    """And goes in whole sessions, and not before it is published and computed."""
    store = Store.open("duckdb://:memory:")
    store.publishing = True
    old, new = NOW - 3 * DAY, NOW - HOUR
    events = [
        *(failed(number, session="over", time_ns=old + number, received_ns=old + number) for number in range(1, 5)),
        failed(5, session="goes on", time_ns=old, received_ns=old),
        failed(6, session="goes on", time_ns=new, received_ns=new),
        failed(7, session=None, time_ns=old, received_ns=old),
    ]
    with store.transaction() as cursor:
        put(cursor, Changes(NOW, events=events))
        note_changes(cursor, Changes(NOW, events=events))
    assert store.prune(NOW, 2 * DAY) == 0  # nothing is published yet
    while store.keep_up():
        pass
    publish(store, cluster)
    tables = {table: cluster.rows(f"select * from {table} order by all") for table in VERSIONED}
    assert store.prune(NOW, 2 * DAY) == 5
    while store.keep_up():
        pass
    assert [row["event_id"] for row in store.rows("select event_id from events order by 1")] == [5, 6]
    publish(store, cluster)
    assert {table: cluster.rows(f"select * from {table} order by all") for table in VERSIONED} == tables
    assert {row["session"] for row in tables["kept_chains"]} == {"over", "goes on"}
    store.close()


def test_a_late_report_brings_its_session_back(cluster: Cluster) -> None:
    """Of an event that only the cluster has: it is corrected there, with its streaks and chains, and not doubled."""
    store = Store.open("duckdb://:memory:")
    store.publishing = True
    then = NOW - 5 * DAY
    base = {"session": "S", "received_ns": then, "mistake": True}
    calls = [report(call_id=f"c{n}", time_ns=then + n * SECOND, **base) for n in range(4)]
    calls.append(report(call_id="c9", time_ns=then + 9 * SECOND, **{**base, "session": "other"}))
    commit(store, [[batch(*calls)]])
    while store.keep_up():
        pass
    publish(store, cluster)
    assert store.prune(NOW, 2 * DAY) == 5
    while store.keep_up():
        pass

    late = batch(report(call_id="c2", time_ns=then + 2 * SECOND, **base, _rank=50, _strength=60, outcome="denied"))
    of_others = [
        report(call_id=f"{n}{'c' * 30}", session=f"{n}{'ü' * 99}", time_ns=then) for n in range(999)
    ]  # an import
    Older(cluster, Back(store), 2 * DAY, clock=lambda: NOW)([batch(*of_others), late])
    assert {row["session"] for row in store.rows("select session from events")} == {"S"}
    commit(store, [[late]], Correlator(Lookup(store), fresh=False))
    while store.keep_up():
        pass
    publish(store, cluster)
    told = cluster.rows("select call_id, outcome from events order by call_id")
    outcomes = {"c0": "error", "c1": "error", "c2": "denied", "c3": "error", "c9": "error"}
    assert {row["call_id"]: row["outcome"] for row in told} == outcomes
    assert len(told) == 5
    chains = cluster.rows("select call_id from kept_chains join events using (event_id)")
    assert sorted(row["call_id"] for row in chains) == ["c0", "c1", "c3", "c9"]
    [denied] = cluster.rows("select length from kept_streaks where kind = 'denied' and scope = 'session'")
    assert denied["length"] == 1
    store.close()


@pytest.mark.parametrize("seed", range(6, 6 + max(1, EXAMPLES // 25)))
def test_reports_that_come_days_late_correct_what_only_the_cluster_has(cluster: Cluster, seed: int) -> None:
    """As they do in a store that has kept all: whatever tells of which session, call or trace they are."""
    chance = random.Random(seed)
    calls = [(chance.randrange(4), chance.randrange(3), chance.randrange(9), chance.choice(KINDS)) for _ in range(40)]
    requests = pieces(made(calls), {"t0": "S0", "t2": "S1"}, chance)
    late = requests[chance.randrange(len(requests) // 3, len(requests)) :]
    alone, store = (Store.open("duckdb://:memory:") for _ in range(2))
    store.publishing = True
    for each, kept_ns in ((alone, 30 * DAY), (store, 2 * DAY)):
        commit(each, [requests[: -len(late)]], Correlator(Lookup(each), fresh=True))
        while each.keep_up():
            pass
        if each is store:
            publish(store, cluster)
        each.prune(LATER, kept_ns)
    assert (store.count("events"), alone.count("events") > 9) == (0, True)

    older = Older(cluster, Back(store), 2 * DAY, clock=lambda: LATER)
    correlators = [(each, Correlator(Lookup(each), fresh=False)) for each in (alone, store)]
    while late:
        lot, late = late[: (size := chance.randrange(1, 9))], late[size:]
        for request in lot:
            request.received_ns = LATER
            for one in request.reports:
                one["received_ns"] = LATER
        older(lot)
        for each, correlator in correlators:
            commit(each, [lot], correlator)
        if chance.random() < 0.3:
            publish(store, cluster)
    for each in (alone, store):
        while each.keep_up():
            pass
    publish(store, cluster)
    same(alone, cluster)
    alone.close()
    store.close()


def test_what_is_noted_is_not_brought_back(cluster: Cluster) -> None:
    """Where the store has moved an event that is not published yet, the cluster has it at its old place."""
    store = Store.open("duckdb://:memory:")
    store.publishing = True
    then = NOW - 5 * DAY
    base = {"session": "S", "received_ns": then, "mistake": True}
    commit(store, [[batch(report(call_id="c1", time_ns=then + SECOND, **base))]])
    publish(store, cluster)
    earlier = batch(report(call_id="c1", time_ns=then, **base, _rank=50))
    commit(store, [[earlier]], Correlator(Lookup(store), fresh=False))
    [moved] = store.rows("select event_id, time_ns from events")
    assert moved["time_ns"] == then
    Older(cluster, Back(store), 2 * DAY, clock=lambda: NOW)([earlier])
    assert store.rows("select event_id, time_ns from events") == [moved]
    publish(store, cluster)
    assert cluster.rows("select event_id, time_ns from events") == [moved]
    store.close()


def test_a_cluster_that_is_away_is_not_asked_with_each_old_report(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, clock = [], [NOW]

    def rows(*_: object, **__: object) -> list[dict[str, Any]]:
        asked.append(clock[0])
        raise Unavailable("away", 1)

    monkeypatch.setattr(cluster, "rows", rows)
    store = Store.open("duckdb://:memory:")
    older = Older(cluster, Back(store), 2 * DAY, clock=lambda: clock[0])
    for clock[0] in (NOW, NOW + SECOND, NOW + 20 * SECOND):
        older([batch(report(call_id="c", session="S", time_ns=NOW - 5 * DAY))])
    assert asked == [NOW, NOW + 20 * SECOND]
    store.close()


def killed(front: Front, start_collector: Callable[..., RunningCollector], kills: int, chance: random.Random) -> None:
    """Sends sessions to two collectors that are killed, as the cluster is, and counts at the end."""
    url = front.database()
    cluster = Cluster(url)
    make(cluster, Layout(), 30 * 86_400)
    collectors = [start_collector(CLUSTER=url, HASH_KEY="k" * 32) for _ in range(2)]
    sessions = 0
    for kill in range(kills):
        for _ in range(chance.randrange(1, 6)):
            body = json.dumps(calls_of(sessions))
            for _ in range(1 + (chance.random() < 0.3)):  # its answer was lost, and the balancer chose again
                answer = chance.choice(collectors).post("/v1/events", body)
                assert answer.is_success, answer.text
            sessions += 1
        time.sleep(chance.random())
        anybody: list[RunningCollector | Front] = [*collectors, front]
        victim = chance.choice(anybody) if kill % 3 else front
        victim.kill()
        if isinstance(victim, RunningCollector):
            victim.start()
        else:
            assert collectors[0].post("/v1/events", json.dumps(calls_of(sessions))).elapsed < timedelta(seconds=20)
            sessions += 1
            front.start()

    def published() -> bool:
        with contextlib.suppress(Unavailable):
            return whole(cluster, sessions)
        return False

    def found() -> str:
        rows = [cluster.rows(f"select count() as n from {table}") for table in VERSIONED]
        return f"{sessions} sessions: {rows}\n{[each.logged()[-3000:] for each in collectors]}"

    wait_until(published, found)

    def told(each: RunningCollector) -> tuple[int, int, str]:
        health = each.get("/api/v1/health")
        return health["unaccounted"], health["cluster"]["waiting_rows"], health["cluster"]["problem"]

    wait_until(lambda: all(told(each) == (0, 0, "") for each in collectors), lambda: str([*map(told, collectors)]))
    cluster.close()


def test_kills_of_collectors_and_of_the_cluster_lose_and_double_nothing(
    clickhouse: Front, start_collector: Callable[..., RunningCollector]
) -> None:
    killed(clickhouse, start_collector, 3, random.Random(1))


@pytest.mark.deep
@pytest.mark.timeout(3_000)
def test_a_hundred_kills(clickhouse: Front, start_collector: Callable[..., RunningCollector]) -> None:
    killed(clickhouse, start_collector, 100, random.Random(2))
