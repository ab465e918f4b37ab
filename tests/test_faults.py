"""Faults of the store's disk: at the start an error with a remedy; later senders wait, and nothing is lost."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.commands.bulk import bulk
from collector.correlate.changes import Changes
from collector.engine.duckdb.connection import all_or_nothing
from collector.engine.duckdb.derive_loop import Keeper
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.open import SETTINGS, connect
from collector.engine.duckdb.store import Store
from collector.engine.duckdb.write import put
from collector.errors import CalledOff, OutOfMemory, StoreError, Unavailable
from collector.journal.failure_log import Complaint, remedy
from tests.conftest import HTTP, RunningCollector, largest_file, misstep, wait_until
from tests.doors import span, traces
from tests.recorded import event

HEADERS, BLOCK = 12_288, 262_144  # in DuckDB's file


def garbage(folder: Path) -> Path:
    path = folder / "garbage.duckdb"
    path.write_bytes(b"no database" * 1000)
    return path


def damaged(folder: Path) -> Path:
    path = folder / "damaged.duckdb"
    Store.open(f"duckdb:///{path}").close()
    data = bytearray(path.read_bytes())
    data[4096:12288] = b"x" * 8192  # both headers
    path.write_bytes(data)
    return path


def damaged_log(folder: Path) -> Path:
    path = folder / "log.duckdb"
    store = Store.open(f"duckdb:///{path}")
    for number in range(20):
        store.write(Changes(number, identities=[number.to_bytes(16, "big")]))
    log = folder / "log.duckdb.wal"
    data = bytearray(log.read_bytes())
    store.close()
    data[len(data) // 2 : len(data) // 2 + 100] = b"x" * 100
    log.write_bytes(data)
    return path


def under_a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "x.duckdb"


UNUSABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "garbage": (garbage, "is not a DuckDB file: move it away"),
    "a damaged file": (damaged, "seems to be damaged: move it and its .wal away, or put a backup in its place"),
    "a damaged log": (damaged_log, "is damaged: move the log away to start with what is in the file alone"),
    "a folder": (lambda folder: folder, "is a folder: name a file in it"),
    "below a file": (under_a_file, "cannot be written to (File exists): make it a folder"),
    "a folder that takes nothing": (lambda _: Path("/proc/x.duckdb"), "/proc cannot be written to"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_store_that_cannot_be_opened_is_named_with_a_remedy(case: str, tmp_path: Path) -> None:
    make, reason = UNUSABLE[case]
    path = make(tmp_path)
    with pytest.raises(StoreError) as refused:
        Store.open(f"duckdb:///{path}")
    assert reason in str(refused.value)
    assert str(path).split("/x.duckdb")[0] in str(refused.value)


def test_a_damaged_block_is_a_store_that_cannot_be_opened_or_read(tmp_path: Path) -> None:
    path = tmp_path / "events.duckdb"
    bulk(f"duckdb:///{path}", 5_000, seed=1)
    whole = path.read_bytes()
    came = Counter[str]()
    for start in range(HEADERS, len(whole), BLOCK):
        path.write_bytes(whole[:start] + bytes(byte ^ 1 for byte in whole[start : start + 200]) + whole[start + 200 :])
        try:
            store = Store.open(f"duckdb:///{path}")
        except StoreError as refused:
            came[type(refused).__name__] += "damaged" in str(refused)
            continue
        try:
            store.rows("select hash(columns(*)) from events")
        except Unavailable as refused:
            came[type(refused).__name__] += "Corrupt" in str(refused)
        finally:
            store.close()
    assert set(came) == {"StoreError", "Unavailable"}
    assert all(came.values())


def test_the_command_ends_with_the_reason(tmp_path: Path) -> None:
    ended = misstep("collector", "--store", f"duckdb:///{garbage(tmp_path)}", "--http", "127.0.0.1:0",
                    "--grpc", "127.0.0.1:0", cwd=tmp_path)  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"misstep: {tmp_path}/garbage.duckdb is not a DuckDB file")
    assert len(ended.stderr.splitlines()) == 1


def test_a_full_disk_and_a_moved_file_cost_nothing_that_was_acknowledged(collector: RunningCollector) -> None:
    assert collector.process is not None

    bodies = [traces(*(span(number * 50 + each) for each in range(50))) for number in range(4)]

    def send(number: int) -> int:
        answer = collector.post("/v1/traces", bodies[number])
        assert (answer.headers.get("retry-after") is None) == (answer.status_code == 200)
        return answer.status_code

    def ready() -> int:
        return HTTP.get(f"{collector.url}/readyz").status_code

    log = collector.store.with_name("misstep.duckdb.wal")
    assert send(0) == 200
    assert len(collector.events()) == 50
    with largest_file(collector.process.pid, log.stat().st_size + 1000):
        assert send(1) == 200  # the journal's content is durable, and stored first
        assert len(collector.events()) == 50  # queries are answered
        assert [send(number) for number in (1, 2, 1)] == [503, 503, 503]
        assert ready() == 503  # although a few bytes would fit
        assert collector.get("/api/v1/health")["waiting"] == 50
    with largest_file(collector.process.pid, 1):  # not even the log can be written
        assert [send(number) for number in (1, 2)] == [503, 503]
        assert ready() == 503
    assert ready() == 200  # also if nothing was sent yet
    assert [send(number) for number in (1, 2, 1)] == [200, 200, 200]
    away = collector.store.with_name("elsewhere")
    collector.store.rename(away)
    assert (send(3), ready()) == (503, 503)
    away.rename(collector.store)
    assert [send(number) for number in (3, 2)] == [200, 200]
    health = collector.get("/api/v1/health")
    assert (health["accepted"], health["stored"], health["duplicate"], health["waiting"]) == (350, 200, 150, 0)
    collector.kill()
    collector.restart()
    assert len(collector.events()) == 200
    said = [line for line in collector.logged().splitlines() if "the store accepts" in line]
    assert ["accepts no writes" in line for line in said] == [True, False, True, False]
    assert '"remedy": "make room on its disk"' in said[0]


def test_a_copy_that_does_not_fit_is_removed_again(tmp_path: Path) -> None:
    path, copy = tmp_path / "events.duckdb", tmp_path / "events.duckdb.backup"
    bulk(f"duckdb:///{path}", 5_000, seed=1)
    store = Store.open(f"duckdb:///{path}")
    for _ in range(2):
        with largest_file(os.getpid(), path.stat().st_size // 2), pytest.raises(Unavailable):
            store.copy_to(copy)
        assert not copy.exists()
    store.copy_to(copy)
    assert copy.exists()
    store.close()


def test_who_asks_whether_it_can_be_written_disturbs_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like `/readyz` while the writer tries again."""
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    within, asked = threading.Event(), threading.Event()

    def slowly(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> None:
        put(cursor, Changes(1, identities=[bytes(16)]))
        within.set()
        assert asked.wait(20)
        put(cursor, changes)

    def asks() -> None:
        assert within.wait(20)
        try:
            for _ in range(3):
                store.try_to_write()
        finally:
            asked.set()

    monkeypatch.setattr("collector.engine.duckdb.store.put", slowly)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(asks)
        store.write(Changes(1, identities=[b"1" * 16]))
        asking.result()
    assert store.count("requests") == 2
    store.close()


def test_a_permission_that_was_lost_is_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path, stat = Store.open(f"duckdb:///{tmp_path}/x.duckdb"), tmp_path / "x.duckdb", os.stat

    def refused(place: Path, **how: Any) -> os.stat_result:
        if Path(place) == path:
            raise PermissionError(13, "Permission denied")
        return stat(place, **how)

    with monkeypatch.context() as lost:
        lost.setattr(os, "stat", refused)
        with pytest.raises(Unavailable, match="cannot be reached: Permission denied") as said:
            store.write(Changes(1, identities=[bytes(16)]))
    assert remedy(str(said.value)) == "make the file and its folder writable"
    store.write(Changes(1, identities=[bytes(16)]))
    assert store.count("requests") == 1
    store.close()


def test_a_log_that_was_removed_costs_nothing_that_was_acknowledged(collector: RunningCollector) -> None:
    log = collector.store.with_name("misstep.duckdb.wal")
    for number in range(3):
        assert collector.post("/v1/traces", traces(span(number))).status_code == 200
        log.unlink(missing_ok=True)
    assert collector.post("/v1/traces", traces(span(3))).status_code == 200
    assert len(collector.events()) == 4
    collector.kill()
    collector.restart()
    assert len(collector.events()) == 4


def test_a_log_that_went_while_others_write_is_made_up_for_later(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.duckdb", tmp_path / "copy.duckdb"
    store = Store.open(f"duckdb:///{path}")
    identities = [number.to_bytes(16, "big") for number in range(3)]
    store.write(Changes(1, identities=identities[:1]))
    with store._connection.cursor() as other, all_or_nothing(other):
        other.execute("insert into meta values ('written', '')")  # as the keeper, in a transaction of its own
        Path(f"{path}.wal").unlink()
        store.write(Changes(2, identities=identities[1:2]))
    store.write(Changes(3, identities=identities[2:]))
    shutil.copy(path, copy)
    shutil.copy(f"{path}.wal", f"{copy}.wal")
    survived = Store.open(f"duckdb:///{copy}")
    assert len(Lookup(survived).known_requests(identities)) == 3
    survived.close()
    store.close()


def test_a_database_that_the_engine_gave_up_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.duckdb"
    store = Store.open(f"duckdb:///{path}", {**SETTINGS, "checkpoint_threshold": "1GB"})

    def write(number: int) -> None:
        store.write(Changes(number, identities=[number.to_bytes(16, "big")]))

    store.execute("create table t as select md5(random()::varchar) as text from range(200000)")
    write(1)
    with largest_file(0, path.stat().st_size + 100_000):
        with pytest.raises(Unavailable, match="must be opened again"):
            store.execute("checkpoint")
        write(2)  # what fits into its log
        with pytest.raises(Unavailable, match="must be opened again"):
            store.execute("checkpoint")
        with pytest.raises(Unavailable, match="is being opened again"):
            write(3)  # not at every request
    monkeypatch.setattr("collector.engine.duckdb.connection.AGAIN_S", 0)
    write(3)
    assert len(Lookup(store).known_requests([number.to_bytes(16, "big") for number in (1, 2, 3)])) == 3
    store.execute("checkpoint")
    store.close()


def test_a_file_that_was_written_anew_and_cannot_be_opened_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may lock it at the moment at which nobody has it open."""
    path, fresh = tmp_path / "x.duckdb", tmp_path / "x.duckdb.fresh"
    connection, _ = connect(f"duckdb:///{path}", {})
    with duckdb.connect(str(fresh)) as made:
        made.execute("create table swapped as select 1 as one")

    def locked(*_: object) -> None:
        raise duckdb.IOException("Could not set lock on file")

    with monkeypatch.context() as changed:
        changed.setattr("collector.engine.duckdb.connection.attach", locked)
        with pytest.raises(Unavailable, match="Could not set lock"):
            connection.swap(fresh)
    with connection.use() as cursor:
        assert cursor.execute("from swapped").fetchall() == [(1,)]
    connection.close()


TRANSLATED = [
    (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), CalledOff),
    (duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block"), OutOfMemory),
    (
        duckdb.TransactionException("Failed to commit: failed to pin block of 256.0 KiB (192.1 MiB/190.7 MiB used)"),
        OutOfMemory,
    ),
    (duckdb.IOException("IO Error: No space left on device"), Unavailable),
    (duckdb.Error("Corrupt ZSTD block"), Unavailable),
    (duckdb.BinderException("Binder Error: no such column"), duckdb.BinderException),
]


@pytest.mark.parametrize(("error", "expected"), TRANSLATED, ids=lambda one: str(one)[:30])
def test_what_is_not_the_fault_of_a_statement_is_told_in_our_words(error: Exception, expected: type[Exception]) -> None:
    connection, _ = connect("duckdb://:memory:", {})
    for lent in (connection.use, connection.alone):
        with pytest.raises(expected) as caught, lent():
            raise error
        assert type(caught.value) is expected
        assert str(error) in str(caught.value) or expected is CalledOff
    connection.close()


def test_one_line_a_minute_while_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    complaint = Complaint("here", lambda: now[0])
    for _ in range(600):
        complaint.made("No space left on device")
        now[0] += 0.2
    complaint.over()
    complaint.over()
    lines = [line for line in capsys.readouterr().out.splitlines() if "the store accepts" in line]
    assert len(lines) == 3
    assert "make room on its disk" in lines[0]


def test_the_keeper_too_says_each_reason_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("collector.engine.duckdb.derive_loop.EVERY_S", 0.01)
    store = Store.open("duckdb://:memory:")
    keeper = Keeper(store)
    store.close()
    turns = iter(range(1000))
    monkeypatch.setattr(store, "keep_up", lambda most: refuse(f"Too many open files: {next(turns)}"))
    monkeypatch.setattr(store, "count_hours", lambda: refuse("No memory"))
    keeper.start()
    wait_until(lambda: next(turns) > 10)
    keeper.close()
    lines = [line for line in capsys.readouterr().out.splitlines() if "could not be updated" in line]
    assert len(lines) == 2


def refuse(reason: str) -> int:
    raise OSError(reason)


def test_it_opens_as_many_files_as_it_may(start_collector: Callable[..., RunningCollector]) -> None:
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(few, 900), most))
    try:
        running = start_collector()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    assert running.process is not None
    assert resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE) == (most, most)


def opened(running: RunningCollector, start: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2])), timeout=60)
    connection.sendall(start)
    return connection


HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_hundreds_of_slow_senders_do_not_hold_the_collector(collector: RunningCollector) -> None:
    starts = (HEAD, HEAD + b"Content-Length: 1000\r\n\r\n{", HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
    slow = [opened(collector, starts[number % 3]) for number in range(450)]
    began = time.monotonic()
    assert collector.post("/v1/traces", traces(span(0))).status_code == 200
    assert time.monotonic() - began < 15
    assert b" 503 " in slow[1].recv(100)
    assert b" 503 " in slow[2].recv(100)
    assert time.monotonic() - began < 60
    for each in slow:
        each.close()


def test_bodies_on_their_way_are_bounded_together(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(QUEUE="4MiB")
    large = HEAD + b"Content-Length: 3000000\r\n\r\n" + b" " * 2_500_000
    slow: list[socket.socket] = []
    for _ in range(3):
        slow.append(opened(running, large))
        time.sleep(0.5)
    assert b" 429 " in slow[-1].recv(100)
    slow[0].sendall(b" " * 500_000)
    assert b" 200 " in slow[0].recv(100)
    for each in slow:
        each.close()


def test_sigterm_ends_it_in_time_whatever_is_on_its_way(collector: RunningCollector) -> None:
    slow = [opened(collector, HEAD + b"Content-Length: 1000\r\n\r\n{") for _ in range(20)]
    assert collector.post("/v1/traces", traces(span(0))).status_code == 200
    began = time.monotonic()
    assert collector.stop(signal.SIGTERM) == 0
    assert time.monotonic() - began < 30
    for each in slow:
        each.close()
    collector.restart()
    wait_until(lambda: len(collector.events()) == 1)


def test_a_transaction_that_could_not_be_rolled_back_does_not_stop_the_next(tmp_path: Path) -> None:
    """The engine needs memory to roll back, too. The collector refused all requests until it was restarted."""
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    with store._connection.use() as connection:
        connection.begin()
        with pytest.raises(duckdb.Error):
            connection.execute("insert into meta select error('no memory'), ''")
    store.write(Changes(1, identities=[bytes(16)]))
    assert store.count("requests") == 1
    store.close()


def test_the_file_is_opened_again_when_much_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while somebody reads, and not again before as much is added; tables in memory stay."""
    monkeypatch.setattr("collector.engine.duckdb.store.MOST_ADDED", 3)
    monkeypatch.setattr("collector.engine.duckdb.store.MOMENT_S", 0.05)
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    table = store.keep("held", "select 1 as one")
    engine = store._connection._connection
    for number in range(1, 5):
        store.write(Changes(number, events=[event(number)]))
        with store._connection.use():
            assert not store.reopen()
        assert store.reopen() == (number == 3)
    assert store.count("events") == 4
    assert store.rows(f"from {table}") == [{"one": 1}]
    assert store._connection._connection is engine
    store.close()
    assert not (tmp_path / "x.duckdb.wal").exists()


def test_a_file_that_cannot_be_opened_again_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may lock it at the moment at which nobody has it open."""
    monkeypatch.setattr("collector.engine.duckdb.store.MOST_ADDED", 1)
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    store.write(Changes(1, events=[event(1)]))
    with monkeypatch.context() as locked:

        def refused(*_: object) -> None:
            raise duckdb.IOException("Could not set lock on file")

        locked.setattr("collector.engine.duckdb.connection.attach", refused)
        with pytest.raises(Unavailable, match="Could not set lock"):
            store.reopen()
    store.write(Changes(2, events=[event(2)]))
    assert store.count("events") == 2
    store.close()
