"""What a collector has beside its store where MISSTEP_CLUSTER names a cluster. httpx, sqlglot and cryptography are
loaded only then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from collector.access.file import TokenFile, merged, readable
from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import is_valid
from collector.engine.duckdb.back import Back
from collector.engine.duckdb.meta import Meta
from collector.engine.duckdb.outbox import Outbox, forget_cluster
from collector.engine.duckdb.store import Store
from collector.errors import StoreError
from collector.settings import Settings

if TYPE_CHECKING:
    from collector.batch import Batch
    from collector.cluster.publish import Publisher
    from collector.cluster.reach import Reach
    from collector.cluster.reads import ClusterReads
    from collector.cluster.sharing import Sharing


def nothing(*_: object) -> None:
    """Nobody is to be notified."""


def publisher_of(settings: Settings, store: Store) -> Publisher | None:
    """What publishes the store to the cluster that the settings name; without one, nothing is noted for it."""
    if not settings.cluster:
        if store.publishing:
            forget_cluster(store)
        return None
    from collector.cluster.client import Cluster
    from collector.cluster.publish import Publisher  # httpx, which others need not load

    store.publishing = True
    return Publisher(Outbox(store), Cluster(settings.cluster))


def older_of(settings: Settings, store: Store) -> Callable[[Sequence[Batch]], None]:
    """What brings sessions back from the cluster that a batch tells more of."""
    if not settings.cluster:
        return nothing
    from collector.cluster.client import Cluster
    from collector.cluster.older import Older

    return Older(Cluster(settings.cluster), Back(store), int(settings.local_retention * 1e9))


def reach_of(settings: Settings, store: Store, publisher: Publisher | None) -> Callable[[], Reach | None]:
    """What makes, for each run, what reaches rows that only the cluster has."""
    if publisher is None:
        return nothing
    from collector.cluster.client import Cluster
    from collector.cluster.reach import Reach

    return partial(Reach, Cluster(settings.cluster), Back(store), Meta(store).collector(), publisher.fence)


def reads_of(settings: Settings, store: Store) -> Store | ClusterReads:
    """Where queries are run: in the cluster, if there is one, because it has the events of all collectors."""
    if not settings.cluster:
        return store
    try:
        from collector.cluster.client import Cluster
        from collector.cluster.reads import ClusterReads
        from collector.cluster.seal import Seal  # noqa: F401 -- what it needs is found missing here
    except ModuleNotFoundError as error:
        raise StoreError(f"MISSTEP_CLUSTER needs {error.name}: install misstep[cluster]") from None
    return ClusterReads(Cluster(settings.cluster))


def sharing_of(settings: Settings, store: Store, book: RuleBook, tokens: TokenFile) -> Sharing | None:
    """What keeps this collector together with the others of its cluster."""
    if not settings.cluster:
        return None
    from collector.cluster.client import Cluster
    from collector.cluster.files import SharedFile
    from collector.cluster.seal import Seal
    from collector.cluster.sharing import Sharing

    meta = Meta(store)
    sharing = Sharing(Cluster(settings.cluster), meta.collector(), meta)
    seal = Seal(settings.hash_key)
    if book.path:
        rules = SharedFile(sharing.shared, seal, meta, "rules", book.path, valid=is_valid)
        book.given = rules.given
        sharing.files.append(rules)
    if tokens.path:
        shared = SharedFile(sharing.shared, seal, meta, "tokens", tokens.path, valid=readable, merged=merged)
        tokens.given = shared.given
        sharing.files.append(shared)
    return sharing
