"""The commands `misstep cluster …`: the tables of a ClickHouse cluster, and what is in them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from collector.cli.options import settings_from
from collector.visible import say

cluster_app = App(name="cluster", help="The ClickHouse cluster that MISSTEP_CLUSTER names.")


@cluster_app.command(name="init")
def cluster_init(
    *,
    on_cluster: Annotated[str, Parameter(help="The servers' name for the replicas, in their configuration.")] = "",
    shards: Annotated[bool, Parameter(negative=(), help="Spread sessions over the shards of these.")] = False,
) -> int:
    """Create the tables that are missing. MISSTEP_RETENTION says how long rows are kept."""
    from collector.cluster.tables import Layout
    from collector.commands.cluster import init

    say(init(settings_from(), Layout(on_cluster, shards)))
    return 0


@cluster_app.command(name="check")
def cluster_check() -> int:
    """Say what is wrong with the tables, and how far each collector has published."""
    from collector.commands.cluster import check

    for line in check(settings_from()):
        say(line)
    return 0


@cluster_app.command(name="publish")
def cluster_publish(
    *, store: Annotated[str, Parameter(name="--from", help="The store, which no collector may have open.")]
) -> int:
    """Publish an existing store and compare what arrived; again, it goes on where it was stopped."""
    from collector.commands.cluster import publish

    say(publish(settings_from(), store))
    return 0


@cluster_app.command(name="forget")
def cluster_forget(collector: str, /) -> int:
    """Wait no longer for a collector that never comes back; misstep cluster check names those that are silent."""
    from collector.commands.cluster import forget

    say(forget(settings_from(), collector))
    return 0
