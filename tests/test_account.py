"""The account of records adds up, and shows a defect that loses one, stores one twice, or answers too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from collector.api.health import account
from collector.batch import Body
from collector.engine.duckdb.maintenance import Upkeep
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.journal.journal import Journal
from collector.journal.queue import Taker
from collector.journal.writer import Writer
from collector.receive.intake import Intake
from collector.receive.on_demand import OnDemand
from collector.recognise import recognise
from tests.conftest import RunningCollector, wait_until
from tests.doors import pipeline, span, traces

REQUEST = traces(span(0), span(1), {"name": "unknown"})
Fault = Callable[[pytest.MonkeyPatch], None]


def taken(*bodies: bytes, impatient: bool = False) -> dict[str, Any]:
    """The account after these requests were answered with success; `impatient` senders first leave before that."""
    store = Store.open("duckdb://:memory:")
    readers, journal = OnDemand(pipeline(), 0, pipeline), Journal(None)
    writer = Writer(store, journal, Upkeep(store, Retention(3600 * 10**9)))
    taker = Taker(journal, writer)
    intake = Intake(readers, taker, 1 << 20)
    writer.start()
    taker.start()

    async def send() -> None:
        for body in bodies:
            if impatient:
                sender = asyncio.create_task(intake.take(Body(body, "application/json", "traces")))
                await asyncio.sleep(0)
                sender.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sender
            await intake.take(Body(body, "application/json", "traces"))

    try:
        asyncio.run(send())
        wait_until(lambda: writer.settle(30))  # one call may coincide with upkeep, for which it does not wait
        return account(intake.accepted, store, settled=True)
    finally:
        intake.close()
        taker.close()
        writer.close()
        store.close()


def none(_: pytest.MonkeyPatch) -> None:
    """The collector as it is."""


def a_call_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    run = recognise._Reading.run

    def hasty(reading: Any) -> None:
        reading._records = [one for one in reading._records if "gen_ai.tool.name" not in one.attributes]
        run(reading)

    patch.setattr(recognise._Reading, "run", hasty)


def a_call_counts_as_dropped_too(patch: pytest.MonkeyPatch) -> None:
    report = recognise._Reading._report

    def twice(reading: Any, row: Any, record: Any) -> bool:
        reading._found.dropped["no_event"] += 1
        return report(reading, row, record)

    patch.setattr(recognise._Reading, "_report", twice)


def nothing_is_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "write", lambda *_: None)


@pytest.mark.parametrize(
    ("fault", "unaccounted"),
    [(none, 0), (a_call_is_forgotten, 2), (a_call_counts_as_dropped_too, -2), (nothing_is_written, 6)],
)
def test_a_record_too_few_or_too_many_is_seen(fault: Fault, unaccounted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = taken(REQUEST, REQUEST)  # the second is a duplicate if the first was written
    assert (found["accepted"], found["unaccounted"]) == (6, unaccounted)
    if not unaccounted:
        assert (found["stored"], found["duplicate"], found["dropped"]) == (2, 3, {"no_event": 1})


def test_what_was_begun_for_a_sender_who_left_is_done_and_known_when_he_comes_back() -> None:
    found = taken(REQUEST, impatient=True)
    assert (found["accepted"], found["unaccounted"]) == (6, 0)
    assert (found["stored"], found["duplicate"]) == (2, 3)


def test_health_says_so_over_restarts(collector: RunningCollector) -> None:
    assert collector.post("/v1/traces", REQUEST).status_code == 200
    assert collector.get("/api/v1/health")["waiting"] == 0
    collector.kill()  # what was committed is known, whether the door could still count it or not
    with duckdb.connect(str(collector.store)) as connection:
        connection.execute("update accounting set records = 1 where reason = 'stored'")
    collector.start()
    assert collector.get("/api/v1/health")["unaccounted"] == 1
    collector.stop()
