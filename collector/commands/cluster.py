"""`misstep cluster …`: the tables of a cluster, what it has, and an existing store into it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from collector.cluster.client import Cluster, ClusterError
from collector.cluster.publish import MOST, send
from collector.cluster.tables import Layout, faults, make
from collector.cluster.verify import differences
from collector.commands.progress import progress
from collector.engine import Turn
from collector.engine.duckdb.open import existing
from collector.engine.duckdb.outbox import Outbox
from collector.engine.duckdb.store import Store
from collector.errors import Mistaken
from collector.plural import plural
from collector.settings import Settings

SILENT_S = 60.0  # a collector says how far it is every ten seconds
REMEDY = "start it, or if it never comes back, run misstep cluster forget"
UNSET = "MISSTEP_CLUSTER is not set: write clickhouse://user:password@host:8123/database"


@contextmanager
def connected(settings: Settings) -> Iterator[Cluster]:
    """The cluster of the settings. Raises Mistaken if they name none."""
    if not settings.cluster:
        raise Mistaken(UNSET)
    cluster = Cluster(settings.cluster)
    try:
        yield cluster
    except ClusterError as error:
        raise Mistaken(f"the cluster refuses: {error}") from None
    finally:
        cluster.close()


def init(settings: Settings, layout: Layout) -> str:
    """Creates the tables that are missing; says where they are. Raises Unavailable and Mistaken."""
    with connected(settings) as cluster:
        make(cluster, layout, int(settings.retention), settings.dimensions)
        _raise_faults(cluster, settings)
        return f"the tables are in {cluster.database} at {cluster.place.address}"


def check(settings: Settings) -> Iterator[str]:
    """A line for each collector that publishes. Raises Mistaken with what is wrong with the tables."""
    with connected(settings) as cluster:
        _raise_faults(cluster, settings)
        now = time.time_ns()
        for row in cluster.rows("select * from collectors order by collector"):
            heard = (now - row["at_ns"]) / 1e9
            state = f"{plural(row['pending'], 'row')} not published yet" if row["pending"] else "all published"
            silent = f", but not heard of for {heard:.0f} s: {REMEDY} {row['collector']}" if heard > SILENT_S else ""
            yield f"collector {row['collector']}: {state}{silent}"
        for row in cluster.rows("select holder from leases_rows final order by term desc limit 1"):
            yield f"collector {row['holder']} evaluates the alert rules, or did last"
        [counted] = cluster.rows("select count() as n from events")
        yield plural(counted["n"], "event")


def forget(settings: Settings, name: str) -> str:
    """Waits no longer for a collector that is gone. Raises Unavailable, and Mistaken where it is not silent."""
    with connected(settings) as cluster:
        _raise_faults(cluster, settings)
        found = {row["collector"]: row for row in cluster.rows("select * from collectors")}
        if name not in found:
            raise Mistaken(f"there is no collector {name!r}; there are: {', '.join(sorted(found)) or 'none'}")
        row, now = found[name], time.time_ns()
        if now - row["at_ns"] < SILENT_S * 1e9:
            raise Mistaken(f"the collector {name} was heard of within the last minute: stop it first")
        cluster.insert("collectors_rows", [row | {"version": now, "gone": 1}], f"{name}/forgotten/{now}")
        lost = f"; {plural(row['pending'], 'row')} that it had not published are missing" if row["pending"] else ""
        return f"answers no longer wait for {name}{lost}; what it published stays"


def publish(settings: Settings, url: str) -> str:
    """Publishes a store that no collector has open, and compares; again, it goes on where it was stopped.

    Raises Unavailable, StoreError, OSError, and Mistaken with the days that differ.
    """
    with connected(settings) as cluster:
        _raise_faults(cluster, settings)
        existing(url)
        store = Store.open(url, dimensions=settings.dimensions)
        try:
            store.publishing = True
            while store.keep_up():
                pass
            outbox = Outbox(store)
            outbox.open(f"{cluster.place.address}/{cluster.database}")
            rows = outbox.pending()
            with progress("rows", rows) as advance:
                while turn := outbox.take(MOST):
                    send(cluster, outbox.collector, turn)
                    outbox.done(turn)
                    advance(MOST)
            if block := outbox.senders(0):
                send_senders(cluster, outbox.collector, block)
            if wrong := list(differences(store, cluster, outbox.collector)):
                raise Mistaken("\n".join(wrong))
            events = store.count("events")
        finally:
            store.close()
    return f"{plural(rows, 'row')} published: the cluster has {plural(events, 'event')} of {url}, compared day by day"


def send_senders(cluster: Cluster, collector: str, block: bytes) -> None:
    """The small tables about senders."""
    send(cluster, collector, Turn(time.time_ns(), {"senders": block}))


def _raise_faults(cluster: Cluster, settings: Settings) -> None:
    if wrong := faults(cluster, settings.dimensions):
        raise Mistaken("\n".join(wrong))
