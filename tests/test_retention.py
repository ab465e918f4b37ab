"""Old events are removed, by age and by the size of the file, and the file really becomes smaller."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from structlog.testing import capture_logs

from collector.commands.bulk import bulk
from collector.engine.duckdb import maintenance
from collector.engine.duckdb.copy import OWED
from collector.engine.duckdb.retention import FULL, IDENTITIES, Retention
from collector.engine.duckdb.store import Store
from collector.errors import Unavailable
from collector.times import DAY, HOUR, MINUTE
from tests.conftest import RunningCollector, wait_until

NOW = time.time_ns()  # collectors use the real clock


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store of a month in small row groups, because the engine frees only whole row groups."""
    folder = tmp_path_factory.mktemp("month")
    bulk(f"duckdb:///{folder}/made.duckdb", 30_000, 1, NOW)
    with duckdb.connect() as engine:
        engine.execute(f"attach '{folder}/made.duckdb' as made (read_only)")
        engine.execute(f"attach '{folder}/small.duckdb' as small (row_group_size 2048)")
        engine.execute("copy from database made to small")
    return Path(folder, "small.duckdb").read_bytes()


@pytest.fixture
def store(month: bytes, tmp_path: Path) -> Store:
    path = tmp_path / "m.duckdb"
    path.write_bytes(month)
    return Store.open(f"duckdb:///{path}")


def received(store: Store) -> tuple[int, int, int]:
    [row] = store.rows("select count(*) as n, min(received_ns) as low, max(received_ns) as high from events")
    return row["n"], row["low"], row["high"]


def test_the_oldest_hours_go_until_the_rest_fits(store: Store) -> None:
    assert store.path
    before, low, high = received(store)
    used, size = store.space().used, store.path.stat().st_size
    assert store.fit(NOW, 2 * used) == 0
    with store._connection.use(), pytest.raises(Unavailable, match="while queries run"):
        store.fit(NOW, used)
    most = used * 2 // 3
    gone = store.fit(NOW, most)
    assert store.space().used <= FULL * most
    left, oldest, newest = received(store)
    assert gone == before - left
    assert left > before / 3
    assert oldest // HOUR > low // HOUR
    assert newest == high
    assert store.rows(
        "select count(*) as n from events where received_ns < $edge", {"edge": oldest // HOUR * HOUR}
    ) == [{"n": 0}]
    while store.keep_up():
        pass
    gone_streaks = "select count(*) as n from kept_streaks where ended < $oldest - $day"
    assert store.rows(gone_streaks, {"oldest": oldest, "day": DAY}) == [{"n": 0}]
    store.close()
    again = Store.open(f"duckdb:///{store.path}")
    more = again.fit(NOW, most)  # updates of the kept tables may have filled some blocks again
    large = store.path.stat().st_size > most  # not if it was written anew because few rows were left in each row group
    left, oldest, newest = received(again)
    assert again.space().used <= FULL * most
    assert again.give_back(most) or more or not large
    assert store.path.stat().st_size <= most < size
    assert received(again) == (left, oldest, newest)
    assert not again.give_back(most)
    again.close()


def test_a_file_is_not_written_anew_for_a_limit_that_there_is_not(tmp_path: Path) -> None:
    new = Store.open(f"duckdb:///{tmp_path / 'new.duckdb'}")
    assert new.space().used == 0  # all is in the log
    assert not new.give_back()
    new.close()


def test_the_present_hour_stays_however_large(store: Store) -> None:
    _, _, newest = received(store)
    store.fit(newest, 1)
    assert received(store)[1] // HOUR == newest // HOUR
    store.close()


@pytest.mark.parametrize("table", [*IDENTITIES, "reports"])
def test_of_many_identities_only_the_newest_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Two a minute for an hour. Those of the last ten minutes stay however many they are."""

    def left(most: int) -> int:
        monkeypatch.setattr("collector.engine.duckdb.retention.MOST_IDENTITIES", most)
        store.prune(NOW, 60 * DAY)
        return store.count(table)

    columns = [row["column_name"] for row in store.rows(f"describe {table}")]
    values = ", ".join("$now - i * $half" if name == "received_ns" else "i" for name in columns)
    store.execute(f"insert into {table} select {values} from range(120) rows(i)", {"now": NOW, "half": MINUTE // 2})
    assert left(120) == 120
    assert 58 <= left(60) <= 60
    assert store.rows(f"select max(received_ns) as ns from {table}") == [{"ns": NOW}]
    assert 20 <= left(0) <= 22
    store.close()


def test_a_file_that_is_mostly_empty_is_written_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.path
    before = store.path.stat().st_size
    store.prune(NOW, 3 * DAY)
    while store.keep_up():
        pass
    store.execute("checkpoint")
    assert not store.give_back()
    monkeypatch.setattr("collector.engine.duckdb.retention.LEAST_REWRITTEN", 0)
    left = received(store)
    assert store.give_back()
    assert received(store) == left
    assert store.path.stat().st_size < before / 2
    assert {path.name for path in store.path.parent.iterdir()} <= {store.path.name, f"{store.path.name}.wal"}
    store.close()


def test_a_file_behind_a_link_is_written_anew_and_the_link_stays(store: Store, tmp_path: Path) -> None:
    """The old file would keep what was removed, secrets too."""
    assert store.path
    store.close()
    link = tmp_path / "elsewhere" / "link.duckdb"
    link.parent.mkdir()
    link.symlink_to(store.path)
    linked = Store.open(f"duckdb:///{link}")
    before, file = received(linked), store.path.stat().st_ino
    linked.execute(f"insert into meta values ('{OWED}', '')")
    linked.rewrite_file()
    assert received(linked) == before
    linked.close()
    assert link.readlink() == store.path
    assert store.path.stat().st_ino != file
    again = Store.open(f"duckdb:///{store.path}")
    assert received(again) == before
    again.close()


def test_a_step_that_fails_keeps_no_other_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError("Transport endpoint is not connected")

    said = {
        "fit": "old events could not be removed to make room",
    }
    for step in said:
        monkeypatch.setattr(store, step, fail)
    monkeypatch.setattr("collector.engine.duckdb.retention.LEAST_REWRITTEN", 0)
    assert store.path
    noted, size, before = [], store.path.stat().st_size, received(store)[0]
    monkeypatch.setattr(maintenance, "PRUNE_EVERY_S", -1)
    monkeypatch.setattr(maintenance, "UPKEEP_EVERY_S", -1)
    keep = maintenance.Upkeep(store, Retention(3 * DAY, 1 << 40), lambda: NOW, lambda: noted.append(1))
    with capture_logs() as logs:
        keep.turn()
    failed = [(line["event"], line["kind"]) for line in logs if line["log_level"] == "error"]
    assert failed == [(sentence, "OSError") for sentence in said.values()]
    while store.keep_up():
        pass
    store.execute("checkpoint")
    keep.turn()
    assert received(store)[0] < before
    assert noted == [1]
    assert store.path.stat().st_size < size
    store.close()


def test_a_running_collector_keeps_to_its_size(
    start_collector: Callable[..., RunningCollector], month: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.duckdb"
    path.write_bytes(month)
    collector = start_collector(STORE=f"duckdb:///{path}", RETENTION="3650d", RETENTION_SIZE=str(len(month) // 2))
    collector.post("/v1/events", "{}")  # it looks after each commit, and once a minute
    wait_until(lambda: "old events were removed" in collector.logged(), seconds=90)  # stopping would interrupt it
    collector.stop()
    kept = Store.open(f"duckdb:///{path}")
    assert 0 < kept.count("events") < 30_000
    kept.close()


def test_a_clock_that_leaps_ahead_removes_nothing_until_it_has_stayed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pruned:
        def __init__(self) -> None:
            self.at: list[int] = []
            self.not_exported = ""

        def prune(self, now_ns: int, *_: object) -> int:
            self.at.append(now_ns)
            return 0

        def give_back(self, _: int) -> bool:
            return False

        def reopen(self) -> bool:
            return False

    held: Any = Pruned()
    passed, leap = 10_000.0, 0

    def clock() -> int:
        return NOW + int(passed * 1e9) + leap

    monkeypatch.setattr(maintenance, "time", SimpleNamespace(monotonic=lambda: passed))
    keep = maintenance.Upkeep(held, Retention(30 * DAY), clock, lambda: None)

    def turns(times: int) -> int:
        nonlocal passed
        before = len(held.at)
        for _ in range(times):
            keep.turn()
            passed += 601
        return len(held.at) - before

    assert turns(3) == 3
    leap = 40 * DAY
    assert turns(4) == 0
    leap = 0
    assert turns(1) == 1
    leap = 40 * DAY
    assert turns(8) > 0, "a clock that was behind, or a night of sleep"
    leap = -DAY // 24
    assert turns(2) == 2
