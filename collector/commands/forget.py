"""`misstep forget`: by the collector if one has the store open, else by this process."""

from __future__ import annotations

from typing import Any

from collector.api.forget import Forget
from collector.commands.client import check_store, collector, followed
from collector.engine.duckdb.open import existing
from collector.engine.duckdb.store import Store
from collector.errors import StoreInUse
from collector.journal.journal import check_stored
from collector.settings import Settings


def forget(settings: Settings) -> dict[str, Any]:
    """Removes what was imported; returns the last progress report. With a cluster, a running collector does it.

    Raises StoreError or OSError if it cannot.
    """
    existing(settings.store)
    if settings.cluster:
        return _by_collector(settings)
    try:
        store = Store.open(settings.store)
    except StoreInUse:
        return _by_collector(settings)
    try:
        check_stored(store.path, store.position(), "what they hold is not removed")
        work = Forget(store)
        while work.step():
            pass
        return work.told()
    finally:
        store.close()


def _by_collector(settings: Settings) -> dict[str, Any]:
    with collector(settings.collector_url, settings.admin_token or settings.query_token) as client:
        check_store(client, settings.store)
        return list(followed(client, "/api/v1/forget"))[-1]
