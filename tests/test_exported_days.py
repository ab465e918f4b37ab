"""Retention writes days to Parquet before it removes them: nothing is lost or there twice, whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from structlog.testing import capture_logs

from collector.commands.bulk import bulk
from collector.correlate.changes import Changes
from collector.engine.duckdb import export, maintenance
from collector.engine.duckdb import store as stores
from collector.engine.duckdb.export import NotExported
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.times import DAY, HOUR
from tests.conftest import RunningCollector, misstep, wait_until
from tests.recorded import failed

NOW = time.time_ns()  # collectors use the real clock
MIDNIGHT = NOW // DAY * DAY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "an 'old' folder"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Store]:
    """Five days with an event every six hours; the last of them is today."""
    store = Store.open(f"duckdb:///{tmp_path}/filled.duckdb")
    times = [MIDNIGHT - days * DAY + hour * HOUR + 1 for days in range(4, 0, -1) for hour in (0, 6, 12, 18)]
    events = [failed(number, time_ns=at, received_ns=at) for number, at in enumerate([*times, MIDNIGHT], 1)]
    store.write(Changes(NOW, events=events))
    yield store
    store.close()


def left(store: Store) -> list[int]:
    return [row["event_id"] for row in store.rows("select event_id from events order by all")]


def written(folder: Path) -> dict[str, list[int]]:
    """The ids in each file, as often as they are there; a file has the events of its day alone."""
    found = {}
    for place in sorted(folder.glob("*")):
        with duckdb.connect() as engine:
            rows = engine.execute(
                "select event_id, received_ns from read_parquet(?) order by all", [str(place)]
            ).fetchall()
        assert {time.strftime("%Y-%m-%d.parquet", time.gmtime(ns // 10**9)) for _, ns in rows} == {place.name}
        found[place.name] = [event_id for event_id, _ in rows]
    return found


def test_whole_days_are_written_and_then_removed(filled: Store, folder: Path) -> None:
    rows = filled.rows("from events where event_id <= 8 order by event_id")
    assert filled.prune(MIDNIGHT + 13 * HOUR, 2 * DAY, folder) == 8  # half of the third day is old enough
    assert left(filled) == list(range(9, 18))
    assert list(written(folder).values()) == [[1, 2, 3, 4], [5, 6, 7, 8]]
    with duckdb.connect() as engine:
        found = engine.sql(f"from read_parquet({[str(each) for each in folder.glob('*')]}) order by event_id")
        assert [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()] == rows
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    assert filled.prune(MIDNIGHT + 13 * HOUR, 2 * DAY, folder) == 0


def test_without_a_folder_nothing_is_written(filled: Store, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    assert filled.prune(MIDNIGHT + 13 * HOUR, 2 * DAY) == 11
    assert set(tmp_path.iterdir()) == before


def test_a_kill_between_file_and_commit_doubles_nothing(
    filled: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(cursor: object, now_ns: int, before_ns: int, **_: object) -> int:
        if before_ns:
            raise KeyboardInterrupt
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(stores, "drop", killed)
        with pytest.raises(KeyboardInterrupt):
            filled.prune(NOW, 2 * DAY, folder)
    assert (len(left(filled)), list(written(folder).values())) == (17, [[1, 2, 3, 4]])
    filled.execute("update events set message = 'told later' where event_id = 2")
    assert filled.prune(MIDNIGHT, 2 * DAY, folder) == 8
    assert list(written(folder).values()) == [[1, 2, 3, 4], [5, 6, 7, 8]]
    first = min(folder.iterdir())
    with duckdb.connect() as engine:
        told = engine.execute("select event_id from read_parquet(?) where message = 'told later'", [str(first)])
        assert told.fetchall() == [(2,)]


def test_a_day_that_goes_in_parts_is_one_file(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By size; what a file has already stays, a column that came since too."""
    url = f"duckdb:///{tmp_path}/m.duckdb"
    store = Store.open(url)
    store.write(Changes(NOW, events=[failed(n, time_ns=NOW, received_ns=MIDNIGHT - n * HOUR) for n in range(1, 31)]))
    store.close()
    store = Store.open(url, dimensions=("team",))
    store._checkpoint()
    for hours in (28, 20, 8):
        monkeypatch.setattr(stores, "oldest_hours", lambda *_, hours=hours: MIDNIGHT - hours * HOUR)
        store.fit(NOW, 1, folder)
    assert left(store) == list(range(1, 9))
    assert list(map(sorted, written(folder).values())) == [list(range(25, 31)), list(range(9, 25))]
    store.close()


def in_the_way(folder: Path) -> Callable[[], None]:
    folder.write_text("no folder")
    return folder.unlink


def damaged(folder: Path) -> Callable[[], None]:
    folder.mkdir()
    place = folder / time.strftime("%Y-%m-%d.parquet", time.gmtime((MIDNIGHT - 4 * DAY) // 10**9))
    place.write_text("PAR1 no Parquet")
    return place.unlink


def full(folder: Path) -> Callable[[], None]:
    """The disk is full: what is written goes to a device that takes nothing."""
    folder.mkdir()
    original = export._text
    export._text = lambda path: original(Path("/dev/full")) if path.suffix == ".part" else original(path)

    def mend() -> None:
        export._text = original

    return mend


@pytest.mark.parametrize("harm", [in_the_way, damaged, full])
@pytest.mark.parametrize("limit", [Retention(DAY), Retention(3650 * DAY, 1)], ids=["by age", "by size"])
def test_what_cannot_be_written_is_not_removed_and_health_says_so(
    filled: Store,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: Retention,
    harm: Callable[[Path], Callable[[], None]],
) -> None:
    monkeypatch.setattr(stores, "oldest_hours", lambda *_: MIDNIGHT)
    monkeypatch.setattr(maintenance, "UPKEEP_EVERY_S", -1)
    monkeypatch.setattr(maintenance, "PRUNE_EVERY_S", -1)
    filled._checkpoint()
    mend = harm(folder)
    keep = maintenance.Upkeep(filled, limit._replace(export=folder), lambda: NOW, lambda: None)
    try:
        with capture_logs() as logs:
            keep.turn()
        assert len(left(filled)) == 17
        [line] = [line for line in logs if line["log_level"] == "error"]
        assert "old events could not be removed" in line["event"]
        assert line["error"] == filled.not_exported
        assert str(folder) in filled.not_exported
        assert "MISSTEP_RETENTION_EXPORT" in filled.not_exported
    finally:
        mend()
    keep.turn()
    gone = 16 if limit.most_bytes else 12  # by age, the day of which a part is old enough stays
    assert left(filled) == list(range(gone + 1, 18))
    assert sum(map(len, written(folder).values())) == gone
    assert not filled.not_exported


def test_days_before_one_that_cannot_be_written_go(filled: Store, folder: Path) -> None:
    folder.mkdir()
    (folder / time.strftime("%Y-%m-%d.parquet", time.gmtime((MIDNIGHT - 3 * DAY) // 10**9))).mkdir()
    with pytest.raises(NotExported):
        filled.prune(NOW, DAY, folder)
    assert left(filled) == list(range(5, 18))


def test_a_running_collector_exports_and_says_what_keeps_it_from_it(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    path, folder = tmp_path / "m.duckdb", tmp_path / "old"
    bulk(f"duckdb:///{path}", 2_000, 1, NOW)
    folder.mkdir()
    folder.chmod(0o500)
    settings = {"STORE": f"duckdb:///{path}", "RETENTION": "10d", "RETENTION_EXPORT": str(folder)}
    if os.geteuid() == 0:  # to whom no folder is closed
        folder.rmdir()
        folder.symlink_to(tmp_path / "not there" / "nor here")
        (tmp_path / "not there").write_text("")
    collector = start_collector(**settings)
    collector.post("/v1/events", "{}")  # it looks after each commit, and once a minute
    wait_until(lambda: "old events could not be removed" in collector.logged())
    health = collector.get("/api/v1/health")
    assert (health["events"], str(folder) in health["not_exported"]) == (2_000, True)
    told = misstep("doctor", cwd=tmp_path, settings={**settings, "COLLECTOR_URL": collector.url}).stdout
    assert "retention: nothing old is removed" in told
    collector.stop()
    if folder.is_symlink():
        folder.unlink()
    else:
        folder.chmod(0o700)
    collector = start_collector(**settings)
    collector.post("/v1/events", "{}")
    wait_until(lambda: "old events were removed" in collector.logged())
    kept = collector.get("/api/v1/health")["events"]
    ids = [each for ids in written(folder).values() for each in ids]
    assert 0 < kept < 2_000
    assert (kept + len(ids), len(set(ids))) == (2_000, len(ids))
