"""What a cluster has is what the stores that publish to it have, however often they, it or the way between them fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.cluster.client import Cluster
from collector.cluster.publish import insert_arrow, send
from collector.cluster.tables import VERSIONED, Layout, make, published
from collector.correlate.correlate import Correlator
from collector.engine import Turn
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.outbox import Outbox
from collector.engine.duckdb.store import Store
from tests.clickhouse import Front
from tests.reports import NOW, made, pieces
from tests.search import EXAMPLES

KINDS = ("log", "numbered", "span", "attempt", "its result", "both ids", "child", "told", "told in a trace", "request")


@pytest.fixture
def cluster(clickhouse: Front) -> Iterator[Cluster]:
    """A cluster with its tables."""
    opened = Cluster(clickhouse.database())
    make(opened, Layout(), 90 * 86_400)
    yield opened
    opened.close()


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
    for seed in range(max(2, EXAMPLES // 12)):
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
    assert died > 5
