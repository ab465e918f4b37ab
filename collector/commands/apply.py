"""`misstep sanitise apply`: by the collector if one has the store open, else by this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collector.api.apply import Apply
from collector.columns import add_dimensions
from collector.commands.client import check_store, collector, followed
from collector.commands.progress import progress
from collector.engine.duckdb.open import existing
from collector.engine.duckdb.store import Store
from collector.errors import StoreInUse
from collector.journal.journal import check_stored
from collector.made import pipeline_of
from collector.settings import Settings
from collector.token_store import audit_log


def apply(settings: Settings) -> dict[str, Any]:
    """Applies the rules to everything that is stored; returns the last progress report. With a cluster, a running
    collector does it.

    Raises StoreError or OSError if it cannot.
    """
    existing(settings.store)
    if settings.cluster:
        return _shown(_by_collector(settings))
    try:
        store = Store.open(settings.store)
    except StoreInUse:
        return _shown(_by_collector(settings))
    try:
        add_dimensions(store.dimensions)
        return _shown(_by_this_process(settings, store))
    finally:
        store.close()


def _by_this_process(settings: Settings, store: Store) -> Iterator[dict[str, Any]]:
    check_stored(store.path, store.position(), "no rule reaches those")
    pipeline = pipeline_of(settings).pipeline
    work = Apply(store, pipeline, audit=audit_log(settings, str))
    while work.step():
        yield work.told()
    yield work.told()


def _by_collector(settings: Settings) -> Iterator[dict[str, Any]]:
    with collector(settings.collector_url, settings.admin_token or settings.query_token) as client:
        check_store(client, settings.store)
        yield from followed(client, "/api/v1/sanitise")


def _shown(reports: Iterator[dict[str, Any]]) -> dict[str, Any]:
    last = next(reports)
    with progress("sanitise", last.get("rows")) as advance:
        for now in reports:
            advance(max(0, now["done"] - last["done"]))
            last = now
    return last
