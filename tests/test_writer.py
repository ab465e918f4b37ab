"""When the writer begins a transaction, and what happens to a batch that it cannot store."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import duckdb
import msgspec
import pytest

from collector.batch import Batch
from collector.correlate.changes import Changes
from collector.correlate.correlate import Correlator
from collector.engine.duckdb import store as store_module
from collector.engine.duckdb import write as writing_module
from collector.engine.duckdb.maintenance import Upkeep
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.errors import OutOfMemory, Unavailable
from collector.journal import writer as module
from collector.journal.journal import Journal, pack, records_in
from collector.journal.queue import Taker
from collector.journal.waiting import Waiting
from collector.journal.writer import Writer
from collector.loop import WRITING, native_threads, step_back
from tests.conftest import wait_until
from tests.doors import span, taken, traces

BATCHES = [taken(traces(span(number)), "traces") for number in range(4)]


class Recorded:
    """A writer on a store that notes the requests of each transaction, and fails when a test wants it to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path | None = None) -> None:
        self.store = Store.open(f"duckdb:///{path}" if path else "duckdb://:memory:")
        self.journal = Journal(path)
        self.writer = Writer(self.store, self.journal, Upkeep(self.store, Retention(1 << 62)))
        self.groups: list[list[int]] = []
        self.failures: list[Exception] = []
        self.bad: bytes | None = None
        write = self.store.write

        def noted(changes: Changes) -> None:
            if self.failures:
                raise self.failures.pop(0)
            if self.bad in changes.identities and changes.events:
                raise ValueError("a defect")
            write(changes)
            numbers = {batch.identity: number for number, batch in enumerate(BATCHES)}
            self.groups.append(sorted(numbers[identity] for identity in changes.identities))

        monkeypatch.setattr(self.store, "write", noted)
        self.writer.start()

    def put(self, *numbers: int) -> None:
        self.put_batches(*(BATCHES[number] for number in numbers))

    def put_batches(self, *batches: Batch) -> None:
        packed = [pack(batch) for batch in batches]
        positions = self.journal.append(packed)
        self.writer.put([Waiting(one, position, 1) for one, position in zip(packed, positions, strict=True)])

    def settle(self) -> None:
        """Returns when all is stored. One call of `settle` may coincide with upkeep, for which it does not wait."""
        wait_until(lambda: self.writer.settle(20))

    def close(self) -> None:
        self.writer.close()
        self.store.close()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Recorded]:
    made = Recorded(monkeypatch, tmp_path / "x.duckdb")
    yield made
    made.close()


def test_a_small_transaction_waits_for_more_unless_somebody_asks(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_S", 60)
    recorded.put(0)  # nothing was written for a while: it begins at once
    recorded.settle()
    recorded.put(1)
    recorded.put(2)
    time.sleep(0.1)
    assert recorded.groups == [[0]]
    recorded.settle()
    monkeypatch.setattr(module, "WORTH_BYTES", 1)
    recorded.put(3)
    wait_until(lambda: len(recorded.groups) > 2)
    assert recorded.groups == [[0], [1, 2], [3]]


def test_work_between_transactions_does_not_delay_the_end(recorded: Recorded) -> None:
    """What is queued is stored, what would take minutes is interrupted."""
    begun = Event()

    def job() -> bool:
        with recorded.store.transaction() as cursor:
            begun.set()
            cursor.execute("select sum(hash(range)) from range(1000000000000)").fetchall()
        return False

    recorded.writer.between(job)
    assert begun.wait(20)
    recorded.put(0)
    began = time.monotonic()
    recorded.writer.close()
    assert time.monotonic() - began < 30
    assert recorded.groups == [[0]]


@pytest.mark.parametrize(("ahead_s", "in_order"), [(0, True), (-60, True), (30, True), (-86_400, False)])
def test_events_are_received_in_the_order_in_which_they_are_stored(
    recorded: Recorded, ahead_s: int, in_order: bool
) -> None:
    """Whichever body was read first, unless their times show that the clock went back by more than an hour."""
    began = time.time_ns()
    for number in range(3):  # the batch that was stored first was read last
        batch = replace(BATCHES[number], received_ns=began + ahead_s * 10**9 - number)
        batch.reports = [{**report, "received_ns": batch.received_ns} for report in batch.reports]
        recorded.put_batches(batch)
    recorded.settle()
    rows = recorded.store.rows("select received_ns, call_id from events order by received_ns, call_id")
    assert len({row["received_ns"] for row in rows}) == 3
    stored = [row["call_id"] for row in rows]
    assert (stored == sorted(stored)) is in_order
    assert in_order is all(row["received_ns"] >= began for row in rows)


@pytest.mark.parametrize("again", [False, True])
def test_what_the_store_did_not_take_is_stored_later(recorded: Recorded, again: bool) -> None:
    """Also if the store had committed it, and only the answer failed."""
    write = recorded.store.write

    def after(changes: Changes) -> None:
        write(changes)
        raise Unavailable("No space left on device")

    if again:
        recorded.store.write = after  # type: ignore[method-assign]
    else:
        recorded.failures += [Unavailable("No space left on device")] * 2
    recorded.put(0, 1)
    assert not recorded.writer.settle(20)
    assert recorded.store.accounting() == ({"accepted": 2, "stored": 2} if again else {})
    recorded.store.write = write  # type: ignore[method-assign]
    recorded.settle()
    assert recorded.groups == [[0, 1]]
    assert recorded.store.accounting() == {"accepted": 2, "stored": 2}
    assert not recorded.writer.refusing
    recorded.put(2)
    recorded.settle()
    assert recorded.store.count("events") == 3


def test_a_correlator_that_failed_is_not_asked_again(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has forgotten what it had postponed and was looking for."""
    asked: list[Correlator] = []
    plan = Correlator.plan

    def failing(correlator: Correlator, batches: Sequence[Batch]) -> Changes:
        asked.append(correlator)
        if len(asked) == 1:
            raise Unavailable("could not allocate block")
        return plan(correlator, batches)

    monkeypatch.setattr(Correlator, "plan", failing)
    recorded.put(0)
    recorded.settle()
    assert len(set(map(id, asked))) == 2
    assert recorded.store.count("events") == 1


def test_one_batch_that_cannot_be_stored_holds_up_nobody_for_long(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    recorded.bad = BATCHES[1].identity
    recorded.put(0, 1, 2)
    recorded.settle()
    assert recorded.store.count("events") == 2
    assert recorded.store.accounting() == {"accepted": 3, "stored": 2, "unstorable": 1}
    aside = (tmp_path / "x.duckdb.journal.refused").read_bytes()
    assert BATCHES[1].identity in aside
    assert BATCHES[0].identity not in aside


def test_a_batch_that_cannot_be_read_is_set_aside(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a batch of another version may be."""
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    strange = msgspec.msgpack.encode({"identity": b"?" * 16, "events": ["what was told"]})
    [position] = recorded.journal.append([strange])
    recorded.writer.put([Waiting(strange, position, records_in(strange))])
    recorded.put(0)
    recorded.settle()
    assert recorded.store.accounting() == {"accepted": 1, "stored": 1, "unstorable": 0}
    aside = tmp_path / "x.duckdb.journal.refused"
    assert b"what was told" in aside.read_bytes()
    assert aside.stat().st_mode & 0o077 == 0


def test_who_brings_more_than_may_wait_waits_for_his_answer(recorded: Recorded) -> None:
    """However many arrive at once."""

    async def brought() -> None:
        taker = Taker(recorded.journal, recorded.writer)
        batches = [replace(BATCHES[number], warning="x" * (6 << 20)) for number in range(4)]
        takes = [asyncio.create_task(taker.take(pack(batch), 1)) for batch in batches]
        await asyncio.sleep(0)
        held = Event()
        recorded.writer.between(lambda: not held.wait(60))
        taker.start()
        await asyncio.wait(takes, timeout=1)
        answered = [take.done() for take in takes]
        held.set()
        await asyncio.gather(*takes)
        await asyncio.to_thread(taker.close)
        assert answered == [True, True, False, False]

    asyncio.run(brought())
    recorded.settle()
    assert recorded.store.count("events") == 4


def test_nothing_is_set_aside_for_what_lasts_a_moment_however_often_somebody_asks(recorded: Recorded) -> None:
    """Like memory that a query takes."""
    recorded.failures += [MemoryError()] * 20
    recorded.put(0)
    recorded.settle()
    assert recorded.store.accounting() == {"accepted": 1, "stored": 1}


SHORTAGES = {
    "memory of the engine": duckdb.OutOfMemoryException("could not allocate block (190.1 MiB/190.7 MiB used)"),
    "memory": MemoryError(),
    "the disk": duckdb.IOException("could not write: No space left on device"),
    "a file": OSError(5, "Input/output error"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.deep if number % 2 else []) for number, case in enumerate(SHORTAGES)]
)
def test_a_shortage_that_lasts_is_no_reason_to_set_anything_aside(
    case: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if there is enough for a small write."""
    monkeypatch.setattr(module, "AGAIN_S", 0.01)
    monkeypatch.setattr(module, "SHORTAGE_S", 0)
    writing = writing_module.put

    def short(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> None:
        if changes.events and recorded.failures:
            raise recorded.failures.pop()
        writing(cursor, changes)

    monkeypatch.setattr(store_module, "put", short)
    monkeypatch.setattr(recorded.store, "write", partial(Store.write, recorded.store))
    recorded.failures += [SHORTAGES[case]] * 30
    recorded.put(0, 1)
    recorded.settle()
    assert recorded.store.accounting() == {"accepted": 2, "stored": 2}
    assert not (tmp_path / "x.duckdb.journal.refused").exists()
    said = [line for line in capsys.readouterr().out.splitlines() if "the store accepts" in line]
    assert ["accepts no writes" in line for line in said] == [True, False]


@pytest.mark.parametrize("lasts", [False, True])
def test_memory_that_queries_use_for_a_moment_is_no_reason_to_refuse_senders(
    lasts: bool, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if lasts:
        monkeypatch.setattr(module, "SHORTAGE_S", 0)
    short = Event()
    write = recorded.store.write

    def scarce(changes: Changes) -> None:
        if not short.is_set():
            raise OutOfMemory("could not allocate block (190.1 MiB/190.7 MiB used)")
        write(changes)

    monkeypatch.setattr(recorded.store, "write", scarce)

    async def brought() -> None:
        taker = Taker(recorded.journal, recorded.writer)
        taker.start()
        recorded.put(0)
        wait_until(lambda: recorded.writer.failures > 0)
        if lasts:
            with pytest.raises(Unavailable):
                await taker.take(pack(BATCHES[1]), 1)
        else:
            await taker.take(pack(BATCHES[1]), 1)
        short.set()
        await asyncio.to_thread(recorded.settle)
        await asyncio.to_thread(taker.close)

    asyncio.run(brought())
    assert recorded.store.count("events") == (1 if lasts else 2)
    assert ("accepts no writes" in capsys.readouterr().out) is lasts


def test_nothing_is_set_aside_where_it_is_not_the_batch(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def try_to_write() -> None:
        if recorded.failures:
            raise MemoryError

    monkeypatch.setattr(recorded.store, "try_to_write", try_to_write)
    recorded.failures += [MemoryError()] * 20
    recorded.put(0, 1)
    recorded.settle()
    assert recorded.store.count("events") == 2
    assert recorded.store.accounting() == {"accepted": 2, "stored": 2}


def test_nobody_waits_long_for_a_writer_that_is_elsewhere(recorded: Recorded) -> None:
    begun, ended = threading.Event(), threading.Event()

    def job() -> bool:
        begun.set()
        return not ended.wait(60)

    recorded.writer.between(job)
    assert begun.wait(20)
    recorded.put(0)
    asked = time.monotonic()
    assert not recorded.writer.settle(20)
    assert time.monotonic() - asked < 15
    ended.set()
    recorded.settle()


def test_a_journal_that_fails_alone_is_one_line_until_it_works(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Sequence[bytes]) -> list[int]:
        raise Unavailable("x.journal.1 cannot be written: Input/output error")

    async def brought() -> None:
        taker = Taker(recorded.journal, recorded.writer)
        taker.start()
        for number in range(3):
            recorded.put(number)  # what it accepted before is stored meanwhile
            with monkeypatch.context() as short:
                short.setattr(recorded.journal, "append", broken)
                with pytest.raises(Unavailable):
                    await taker.take(pack(BATCHES[3]), 1)
            assert await asyncio.to_thread(recorded.writer.settle, 20)
        assert recorded.writer.complaint.lasts()
        await (await taker.take(pack(BATCHES[3]), 1))
        assert not recorded.writer.complaint.lasts()
        await asyncio.to_thread(taker.close)

    asyncio.run(brought())
    said = [line for line in capsys.readouterr().out.splitlines() if "the store accepts" in line]
    assert ["accepts no writes" in line for line in said] == [True, False]


def test_a_defect_does_not_end_the_threads(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    made, failed = recorded.writer.complaint.made, [ValueError(), ValueError()]

    def fails(*said: object, **more: object) -> None:
        if failed:
            raise failed.pop()
        made(*said, **more)  # type: ignore[arg-type]

    def refuses(_: Sequence[bytes]) -> list[int]:
        raise Unavailable("No space left on device")

    async def brought() -> None:
        taker = Taker(recorded.journal, recorded.writer)
        taker.start()
        with monkeypatch.context() as short:
            short.setattr(recorded.journal, "append", refuses)
            with pytest.raises(Unavailable, match="its log says where"):
                await taker.take(pack(BATCHES[0]), 1)
        recorded.failures.append(Unavailable("No space left on device"))
        await (await taker.take(pack(BATCHES[0]), 1))
        await asyncio.to_thread(taker.close)

    monkeypatch.setattr(recorded.writer.complaint, "made", fails)
    asyncio.run(asyncio.wait_for(brought(), 30))
    assert not failed
    assert recorded.store.count("events") == 1


def test_a_thread_that_steps_back_takes_no_other_with_it() -> None:
    found: list[int] = []

    def run() -> None:
        step_back(5)
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [min(before + 5, 19)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_the_engine_s_own_threads_give_way_as_the_writer_does() -> None:
    """Otherwise what the writer and the keeper have it do would be done before what clients wait for."""
    before, others = os.getpriority(os.PRIO_PROCESS, 0), native_threads()
    store = Store.open("duckdb://:memory:", {"threads": "3"})
    found = {os.getpriority(os.PRIO_PROCESS, thread) for thread in native_threads() - others}
    store.close()
    assert found == {min(before + WRITING, 19)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
