"""Which requests the writer puts into one transaction."""

from __future__ import annotations

import asyncio

import pytest

from collector.store import writer as module
from collector.store.changes import Changes
from collector.store.retention import Retention
from collector.store.store import Store
from collector.store.writer import Writer
from tests.doors import spans, taken


def test_a_small_transaction_waits_for_requests_that_are_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 60)
    first, second, third = (taken(spans({"name": f"execute_tool t{number}"}), "traces") for number in range(3))
    store = Store.open("duckdb://:memory:")
    writer = Writer(store, Retention(3600 * 10**9))
    groups: list[list[bytes]] = []
    write = store.write

    def counted(changes: Changes) -> None:
        groups.append(sorted(changes.identities))
        write(changes)

    monkeypatch.setattr(store, "write", counted)
    writer.start()

    async def send() -> None:
        with writer.coming():
            waiting = asyncio.create_task(writer.commit(first))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        await writer.commit(second)
        await waiting
        await writer.commit(third)  # nothing else is being read: at once

    try:
        asyncio.run(asyncio.wait_for(send(), 30))
    finally:
        writer.close()
        store.close()
    assert groups == [sorted((first.identity, second.identity)), [third.identity]]
