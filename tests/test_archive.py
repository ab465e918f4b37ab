"""Events in Parquet files: queries answer as before, and every event exists once, whatever happens."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from litestar.testing import TestClient

from collector.api.apply import Apply
from collector.api.sql_queries import answer_sql
from collector.commands.bulk import bulk
from collector.correlate.changes import Changes
from collector.engine.duckdb import archive, maintenance
from collector.engine.duckdb import read as reading
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.retention import ROOM, Retention
from collector.engine.duckdb.store import Store
from collector.errors import CalledOff, QueryTimeout, Unavailable
from collector.query.breakdowns import breakdown
from collector.query.filters import Selection
from collector.query.queries import event, events, sessions
from collector.query.retries import retries
from collector.query.streaks import Scope, streaks
from tests.api import application
from tests.conftest import RunningCollector, misstep
from tests.recorded import DAY, MINUTE, failed
from tests.recorded import event as made
from tests.test_apply import WORD, _with_rule, secret
from tests.test_kept import ALL_SETS, compared

pytestmark = pytest.mark.process  # files are read by a process of the archive's own

NOW = time.time_ns()  # collectors use the real clock
WEEK_AGO = (NOW // DAY - 7) * DAY  # the beginning of a day
EVER = Selection(0, NOW + DAY)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store of a month."""
    path = tmp_path_factory.mktemp("month") / "m.duckdb"
    bulk(f"duckdb:///{path}", 6_000, 1, NOW)
    return path.read_bytes()


@pytest.fixture
def store(month: bytes, tmp_path: Path) -> Store:
    path = tmp_path / "m.duckdb"
    path.write_bytes(month)
    return Store.open(f"duckdb:///{path}")


def moved(store: Store, tmp_path: Path) -> list[Path]:
    """The files, after everything older than a week was moved."""
    while store.move(tmp_path / "old", WEEK_AGO):
        pass
    return sorted((tmp_path / "old").glob("*/*"))


def answers(store: Store) -> list[Any]:
    """The answers to queries of all kinds."""
    page = events(EVER, 50, sort="time").rows(store)
    range_of_a_day = Selection(WEEK_AGO - DAY // 2, WEEK_AGO + DAY // 2)
    return [
        page,
        event(page[0]["event_id"]).rows(store),
        breakdown(EVER, ["tool", "error_class"], ["sessions", "p95_ms"], limit=100).rows(store),
        breakdown(range_of_a_day, ["outcome"], limit=100).rows(store),
        sessions(EVER, limit=500).rows(store),
        streaks(EVER, Scope(), limit=1000).rows(store),
        retries(EVER, ["error_class"]).rows(store),
        answer_sql(store, EVER, "select tool, count(*) n, min(time) from events group by all order by all", 1000)[1],
    ]


def stored(store: Store) -> int:
    return store.count("events")


def test_every_question_is_answered_as_before(store: Store, tmp_path: Path) -> None:
    before, whole = answers(store), stored(store)
    files = moved(store, tmp_path)
    assert len(files) > 15
    assert {path.parent.name[:8] for path in files} == {"day=20" + path.parent.name[6:8] for path in files}
    assert store.rows(
        "select min(received_ns) >= $edge as all_new from events", {"edge": WEEK_AGO}, archived=False
    ) == [{"all_new": True}]
    assert stored(store) == whole
    assert answers(store) == before
    store.close()
    store = Store.open(f"duckdb:///{tmp_path / 'm.duckdb'}")
    assert answers(store) == before
    compared(store, ALL_SETS[:3])
    store.close()


def test_a_day_makes_one_file_unless_it_has_more_events_than_a_file_may(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = {"start": WEEK_AGO, "noon": WEEK_AGO + DAY // 2}
    [older] = store.rows("select count(distinct received_ns // $day) as days from events"
                         " where received_ns < $start", {"start": WEEK_AGO, "day": DAY})  # fmt: skip
    [morning] = store.rows("select count(*) as n from events where received_ns between $start and $noon", day)
    assert morning["n"] > 40
    while store.move(tmp_path / "old", day["noon"]):
        pass
    assert store.archived()["files"] == older["days"]
    monkeypatch.setattr(archive, "MOST_EVENTS", 20)
    assert store.move(tmp_path / "old", day["noon"]) == 20
    while store.move(tmp_path / "old", day["noon"]):
        pass
    assert store.archived()["files"] == older["days"] + morning["n"] // 20
    store.close()


def test_the_range_that_is_asked_for_chooses_what_is_read(store: Store, tmp_path: Path) -> None:
    moved(store, tmp_path)
    low = store.rows("select min(time_ns) as low from events")[0]["low"] + 3 * DAY
    plan = "explain analyze select count(*) from events where time_ns >= $low and time_ns < $low + 43200000000000"
    [row] = store.rows(plan, {"low": low})
    read, groups = map(int, re.findall(r"Row Groups Scanned: (\d+) / (\d+)", row["explain_value"])[-1])
    assert 1 <= read <= 2 < 15 < groups
    store.close()


@pytest.mark.parametrize("after", ["_write", "_list"])
def test_a_kill_neither_loses_nor_doubles(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    before, whole = answers(store), stored(store)
    assert store.move(tmp_path / "old", WEEK_AGO)
    done = getattr(archive, after)

    def killed(*given: Any) -> None:
        done(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(archive, after, killed)
        with pytest.raises(KeyboardInterrupt):
            store.move(tmp_path / "old", WEEK_AGO)
    assert len(list((tmp_path / "old").glob("*/*.parquet"))) == 2
    assert stored(store) == whole
    store.close()
    store = Store.open(f"duckdb:///{tmp_path / 'm.duckdb'}")
    assert stored(store) == whole
    moved(store, tmp_path)
    assert answers(store) == before
    store.close()


def test_what_comes_later_to_a_session_that_was_moved(store: Store, tmp_path: Path) -> None:
    [last] = store.rows(
        "select service, session, max(time_ns) as time_ns from events where received_ns < $edge and session is not null"
        " group by all order by time_ns desc limit 1",
        {"edge": WEEK_AGO},
    )
    moved(store, tmp_path)
    at = {"service": last["service"], "session": last["session"]}
    late = [
        failed(1, **at, time_ns=last["time_ns"] + MINUTE, received_ns=NOW),
        made(2, **at, time_ns=last["time_ns"] + 2 * MINUTE, received_ns=NOW),
    ]
    store.write(Changes(NOW, events=late))
    while store.keep_up():
        pass
    compared(store, ALL_SETS[:2])
    old = store.rows("select min(event_id) as one from events where received_ns < $edge", {"edge": WEEK_AGO})[0]["one"]
    assert Lookup(store).reports_of([old], NOW) == {}  # as for any call of which the keys were forgotten
    store.close()


def test_retention_removes_whole_files(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = moved(store, tmp_path)
    age = 20 * DAY
    whole = stored(store)
    gone = store.prune(NOW, age)
    store.resolve_doubts()
    left = [path for path in files if path.exists()]
    assert 5 < len(left) < len(files)
    assert stored(store) == whole - gone
    while store.keep_up():
        pass
    compared(store, ALL_SETS[:2])
    archived = sum(path.stat().st_size for path in left)
    monkeypatch.setattr("collector.engine.duckdb.store.FULL", ROOM)
    assert store.fit(NOW, int((store.space().used + archived / 2) / ROOM)) > 0
    assert 0 < sum(path.exists() for path in left) < len(left)
    leftover = tmp_path / "old" / "day=2001-01-01" / "1-2-3.parquet"
    leftover.parent.mkdir()
    leftover.touch()
    archive.sweep(tmp_path / "old", NOW - age)
    assert not leftover.exists()
    assert any(path.exists() for path in left)
    store.close()


def test_files_stay_while_their_events_are_still_listed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: int) -> int:
        raise CalledOff

    files, whole, prune = moved(store, tmp_path), stored(store), store.prune
    monkeypatch.setattr(maintenance, "PRUNE_EVERY_S", -1)
    monkeypatch.setattr(maintenance, "UPKEEP_EVERY_S", -1)
    keep = maintenance.Upkeep(store, Retention(20 * DAY, 0, tmp_path / "old", 7 * DAY), lambda: NOW, lambda: None)
    for step, left in ((stopped, len(files)), (prune, 0)):
        monkeypatch.setattr(store, "prune", step)
        keep.turn()
        store.see_archived()
        assert store.archived()["missing_events"] == 0
        assert sum(path.exists() for path in files) >= left
    assert stored(store) < whole
    store.close()


def test_a_lost_file_costs_its_events_alone_until_it_is_back(store: Store, tmp_path: Path) -> None:
    """Also if it is lost while queries run; their answers say how many events are missing."""
    before, whole = answers(store), stored(store)
    files = moved(store, tmp_path)
    held = store.rows("select file, events from archived order by file")
    lost, aside = files[3], tmp_path / "aside.parquet"
    lost.rename(aside)
    assert stored(store) == whole - held[3]["events"]
    assert store.archived() == {
        "files": len(files), "events": sum(row["events"] for row in held),
        "bytes": sum(path.stat().st_size for path in (*files[:3], aside, *files[4:])),
        "missing_events": held[3]["events"],
    }  # fmt: skip
    with TestClient(application(store)) as client:
        body = client.get("/api/v1/breakdown?from=-40d").json()
        assert (body["exact"], body["missing_events"]) == (False, held[3]["events"])
        aside.rename(lost)
        body = client.get("/api/v1/breakdown?from=-40d").json()
        assert (body["exact"], body.get("missing_events"), body["rows"][0]["calls"]) == (True, None, whole)
        content = lost.read_bytes()
        lost.write_bytes(b"")
        answer = client.get("/api/v1/breakdown?from=-40d")  # the first one to find it damaged
        assert (answer.json()["exact"], answer.json()["missing_events"]) == (False, held[3]["events"])
        assert "etag" not in answer.headers
        lost.write_bytes(content)
    assert answers(store) == before
    store.close()


def halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def with_a_zeroed_page(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + bytes(3000) + whole[3100:])


def of_fewer_events(file: Path) -> None:
    duckdb.execute(f"copy (from '{file}' limit 3) to '{file}' (format parquet)")


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [Path.unlink, halved, of_fewer_events, lambda file: file.write_bytes(b""), a_folder])
@pytest.mark.parametrize("which", [0, 3])
def test_a_damaged_file_costs_its_events_alone(
    store: Store, tmp_path: Path, damage: Callable[[Path], object], which: int
) -> None:
    """The others are queried, by a store opened later too; the file goes when its time is over."""
    whole, files = stored(store), moved(store, tmp_path)
    held = store.rows("select events from archived order by received_ns")
    damage(files[which])
    assert (stored(store), store.missing_events) == (whole - held[which]["events"], held[which]["events"])
    store.close()
    store = Store.open(f"duckdb:///{tmp_path}/m.duckdb")
    assert (stored(store), store.missing_events) == (whole - held[which]["events"], held[which]["events"])
    store.prune(NOW, NOW - int(files[which + 1].name.split("-")[0]))
    store.resolve_doubts()
    assert (stored(store), store.missing_events) == (whole - sum(row["events"] for row in held[: which + 1]), 0)
    store.close()


def test_a_file_with_a_damaged_page_is_named_and_then_left_out(store: Store, tmp_path: Path) -> None:
    """Until it is put back, or its time is over; other queries go on."""
    whole, files = stored(store), moved(store, tmp_path)
    before, good, held = answers(store), files[0].read_bytes(), int(files[0].stem.split("-")[2])
    with_a_zeroed_page(files[0])
    with pytest.raises(Unavailable, match=files[0].name):
        answers(store)
    answers(store)
    assert (stored(store), store.missing_events) == (whole - held, held)
    files[0].write_bytes(good)
    assert (answers(store), store.missing_events) == (before, 0)
    with_a_zeroed_page(files[0])
    with pytest.raises(Unavailable, match=files[0].name):
        answers(store)
    store.prune(NOW, NOW - int(files[1].name.split("-")[0]))
    store.resolve_doubts()
    while store.keep_up() or store.count_hours():
        pass
    answers(store)
    compared(store, ALL_SETS[:2])
    store.close()


def test_sql_over_a_damaged_page_names_the_file_and_then_leaves_it_out(store: Store, tmp_path: Path) -> None:
    sql = "select count(tool) as tools, count(message) as messages, count(event_id) as n from events"
    whole, files = stored(store), moved(store, tmp_path)
    ever = Selection(0, 2 * NOW)
    answer_sql(store, ever, sql, 10)  # else the damage is met before the first event is streamed
    with_a_zeroed_page(files[0])
    with pytest.raises(Unavailable, match=f"{files[0].name} is damaged"):
        answer_sql(store, ever, sql, 10)
    [row] = json.loads(answer_sql(store, ever, sql, 10)[1])
    assert (row["n"], store.missing_events) == (whole - store.missing_events, int(files[0].stem.split("-")[2]))
    store.close()


def test_what_is_streamed_ends_when_its_time_is_over(store: Store) -> None:
    sql = "select range from range(10_000_000_000) where hash(range) % 7 = 0"
    with pytest.raises(QueryTimeout), open("/dev/null", "wb") as nowhere:
        store.stream(sql, {}, nowhere, timeout_s=1)
    store.close()


def test_whatever_is_damaged_in_a_file_every_query_is_answered_or_can_be_asked_again(
    store: Store, tmp_path: Path
) -> None:
    files = moved(store, tmp_path)
    good = files[0].read_bytes()
    left_out = 0
    for at in range(4, len(good), len(good) // 40):
        for junk in (bytes(100), b"\xff" * 8):
            files[0].write_bytes((good[:at] + junk + good[at + len(junk) :])[: len(good)])
            with suppress(Unavailable):
                store.rows("select * from events order by hash(message) limit 5")
            store.rows("select * from events order by hash(message) limit 5")
            left_out += bool(store.missing_events)
    assert left_out > 40
    store.close()


@pytest.mark.parametrize(
    ("error", "is_damage"),
    [
        (duckdb.Error("TProtocolException: Invalid data"), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), True),
        (duckdb.InvalidInputException("Invalid Input Error: Failed to read file x: ZSTD Decompression failure"), True),
        (duckdb.IOException('IO Error: Could not read enough bytes from file "x": attempted to read 9 bytes'), True),
        (duckdb.IOException('IO Error: Could not read from file "x": Input/output error'), False),
        (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), False),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate data of size 16.0 MiB (180 MiB)"), False),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate data of size 2.0 GiB (2.8 MiB)"), True),
    ],
)
def test_a_file_is_left_out_for_damage_alone(error: Exception, is_damage: bool) -> None:
    """A disk that cannot be read now may come back, and so may memory and time."""
    assert reading.damaged(error) is is_damage


def test_files_that_all_are_damaged_keep_nobody_from_writing(store: Store, tmp_path: Path) -> None:
    for file in moved(store, tmp_path):
        file.write_bytes(b"no parquet")
    assert stored(store) == store.rows("select count(*) as n from events", archived=False)[0]["n"]
    store.write(Changes(NOW, position=5))
    assert store.position() == 5
    store.close()


def test_a_folder_that_was_moved_or_copied_is_followed(store: Store, tmp_path: Path) -> None:
    before, files, old, new = answers(store), moved(store, tmp_path), tmp_path / "old", tmp_path / "new"
    assert store.path
    url = f"duckdb:///{store.path}"
    old.rename(new)
    for _ in store.rebuild():
        pass
    assert store.in_doubt
    store.close()
    store = Store.open(url, archive=new)
    assert store.archived()["missing_events"] == 0
    assert not store.in_doubt
    while store.keep_up():
        pass
    assert answers(store) == before
    store.close()
    shutil.copytree(new, old)
    halved(files[0])
    files[1].write_bytes(bytes(files[1].stat().st_size))  # as a copy has it that reserves its room first
    store = Store.open(url, archive=old)
    listed = {Path(row["file"]) for row in store.rows("from archived")}
    left = {new / file.relative_to(old) for file in files[:2]}  # a copy that is not complete is not read
    assert listed == {*left, *files[2:]}
    store.prune(NOW, DAY)
    assert not any(path.exists() for path in (*left, *files[2:]))
    assert sum(path.is_file() for path in new.glob("*/*")) == len(files) - 2
    store.close()


def test_nothing_is_moved_to_where_a_disk_is_not_mounted(store: Store, tmp_path: Path) -> None:
    """What would be written there now would be hidden as soon as it is."""
    folder = tmp_path / "old"
    assert store.move(folder, WEEK_AGO)
    whole, aside = stored(store), folder.rename(tmp_path / "unmounted")
    folder.mkdir()
    with pytest.raises(Unavailable, match="mounted"):
        store.move(folder, WEEK_AGO)
    assert list(folder.iterdir()) == []
    folder.rmdir()
    aside.rename(folder)
    assert store.move(folder, WEEK_AGO)
    assert stored(store) > whole - 1
    store.close()


def test_what_was_kept_of_a_file_that_stays_lost_goes_with_it(store: Store, tmp_path: Path) -> None:
    files = moved(store, tmp_path)
    files[0].unlink()
    store.prune(NOW, NOW - int(files[1].name.split("-")[0]))
    store.resolve_doubts()
    for _ in range(100):
        store.keep_up()
        store.count_hours()
    assert not store.missing_events
    [row] = breakdown(EVER, []).rows(store)
    assert row["calls"] == stored(store)
    compared(store, ALL_SETS[:2])
    store.close()


def rebuilt(store: Store, _: Sequence[Path]) -> Store:
    for __ in store.rebuild():
        pass
    return store


def pruned(store: Store, files: Sequence[Path]) -> Store:
    store.prune(NOW, NOW - int(files[2].name.split("-")[0]))
    store.resolve_doubts()
    return store


def upgraded(store: Store, _: Sequence[Path]) -> Store:
    store.execute("update meta set value = '14' where name = 'schema_version'")
    store.close()
    return Store.open(f"duckdb:///{store.path}")


def reported_late(store: Store, files: Sequence[Path]) -> Store:
    """An event of a session and of an hour that have others in a lost file."""
    [[service, session, at]] = duckdb.execute(
        f"select service, session, max(time_ns) from '{files[3].parent.parent}.away/*/{files[3].name}'"
        " where session is not null group by all order by all limit 1"
    ).fetchall()
    late = failed(1, time_ns=at + 1, received_ns=NOW, service=service, session=session)
    store.write(Changes(NOW, events=[late]))
    return store


@pytest.mark.parametrize("computed", [rebuilt, pruned, upgraded, reported_late])
@pytest.mark.parametrize("opened", [False, True])
def test_what_was_computed_while_files_were_away_is_computed_again_when_they_are_back(
    store: Store, tmp_path: Path, computed: Callable[[Store, Sequence[Path]], Store], opened: bool
) -> None:
    files = moved(store, tmp_path)
    away = (tmp_path / "old").rename(tmp_path / "old.away")
    store = computed(store, files)
    while store.keep_up() or store.count_hours():
        pass
    assert not store.resolve_doubts()
    away.rename(tmp_path / "old")
    with TestClient(application(store)) as client:
        for path in ("breakdown", "streaks"):
            assert not client.get(f"/api/v1/{path}?from=-40d").json()["exact"]
        assert not client.post("/api/v1/sql", json={"sql": "select 1"}).json()["exact"]
        if opened:
            store.close()
            store = Store.open(f"duckdb:///{tmp_path}/m.duckdb")
        else:
            maintenance.Upkeep(store, Retention(3650 * DAY), lambda: NOW, lambda: None).turn()
        assert not store.in_doubt
    while store.keep_up() or store.count_hours():
        pass
    with TestClient(application(store)) as client:
        body = client.get("/api/v1/breakdown?from=-40d").json()
        assert (body["exact"], body["rows"][0]["calls"]) == (True, stored(store))
    compared(store, ALL_SETS[:2])
    store.close()


def test_files_that_are_away_are_in_doubt_only_where_they_matter(store: Store, tmp_path: Path) -> None:
    """Else everything would be computed again whenever a disk was away for a minute."""
    moved(store, tmp_path)
    while store.keep_up() or store.count_hours():
        pass
    (tmp_path / "old").rename(tmp_path / "away")
    store.write(Changes(NOW, events=[failed(1, time_ns=NOW, received_ns=NOW, session="new")]))
    while store.keep_up() or store.count_hours():
        pass
    assert not store.in_doubt
    store.close()


@pytest.mark.parametrize("computed", [pruned, upgraded])
def test_a_kill_before_it_is_computed_again_is_made_up_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed: Callable[[Store, Sequence[Path]], Store]
) -> None:
    def killed(_: Store) -> None:
        raise KeyboardInterrupt

    files = moved(store, tmp_path)
    good = files[0].read_bytes()
    with_a_zeroed_page(files[0])
    with monkeypatch.context() as patched:
        patched.setattr(Store, "_forget", killed)
        with pytest.raises(KeyboardInterrupt):
            computed(store, files)
    store.close()
    store = Store.open(f"duckdb:///{tmp_path}/m.duckdb")
    if computed is upgraded:
        files[0].write_bytes(good)
        assert store.resolve_doubts()
    while store.keep_up() or store.count_hours():
        pass
    compared(store, ALL_SETS[:2])
    store.close()


def test_a_new_rule_reaches_what_was_moved(store: Store, tmp_path: Path) -> None:
    token = secret(3)
    old = [failed(number, message=f"cannot open {token}", received_ns=WEEK_AGO - DAY) for number in range(1, 30)]
    store.write(Changes(NOW, events=old))
    moved(store, tmp_path)
    whole = stored(store)
    assert any(token in row["message"] for row in store.rows("from events where event_id = 7"))
    work = Apply(store, _with_rule(tmp_path))
    while work.step():
        pass
    assert (work.state, work.changed) == ("done", 29)
    assert stored(store) == whole
    files = sorted((tmp_path / "old").glob("*/*"))
    assert all(path.suffix == ".parquet" for path in files)
    assert len({path.name.partition(".")[0] for path in files}) == len(files)
    for path in files:
        found = duckdb.connect().execute(f"select string_agg(message) from '{path}'").fetchall()
        assert WORD not in str(found)
    assert store.rows("select message from events where event_id = 7") == [
        {"message": "cannot open [redacted:acme-word]"}
    ]
    again = Apply(store, _with_rule(tmp_path))
    while again.step():
        pass
    assert again.changed == 0
    store.close()


def test_attributes_become_columns_of_what_was_moved_too(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'm.duckdb'}"
    store = Store.open(url)
    store.write(
        Changes(NOW, events=[made(1, received_ns=1, attributes=json.dumps({"team": "web"})), made(2, received_ns=NOW)])
    )
    assert store.move(tmp_path / "old", WEEK_AGO) == 1
    store.close()
    store = Store.open(url, dimensions=("team",))
    assert store.rows("select team from events order by event_id") == [{"team": "web"}, {"team": None}]
    store.close()


def test_a_running_collector_moves_and_answers(
    start_collector: Callable[..., RunningCollector], month: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.duckdb"
    path.write_bytes(month)
    collector = start_collector(
        STORE=f"duckdb:///{path}", RETENTION="3650d", ARCHIVE=str(tmp_path / "old"), ARCHIVE_AFTER="10d"
    )
    collector.post("/v1/events", "{}")  # it looks after each commit, and once a minute
    until = time.monotonic() + 30
    while not list(tmp_path.glob("old/*/*.parquet")) and time.monotonic() < until:
        time.sleep(0.2)
    assert len(list(tmp_path.glob("old/*/*.parquet"))) == 1
    [row] = collector.get("/api/v1/breakdown", by="", **{"from": "-40d"})["rows"]
    health = collector.get("/api/v1/health")
    assert row["calls"] == health["events"] == 6_000
    assert (health["archive"]["files"], health["archive"]["missing_events"]) == (1, 0)
    settings = {"STORE": f"duckdb:///{path}", "COLLECTOR_URL": collector.url}
    said = misstep("backup", tmp_path / "copy.duckdb", cwd=tmp_path, settings=settings).stdout
    moved = f"{health['archive']['events']:,} archived events not in it: copy {tmp_path / 'old'} too (1 Parquet file)"
    assert said == f"the store is in {tmp_path / 'copy.duckdb'}\n{moved}\n"

    commands: list[tuple[object, ...]] = [
        ("sql", "select 1"),
        ("export", "--format", "csv", "--output", tmp_path / "x.csv"),
        ("doctor",),
    ]
    for lost in (0, health["archive"]["events"]):
        if lost:
            (tmp_path / "old").rename(tmp_path / "unmounted")
        for command in commands:
            done = misstep(*command, cwd=tmp_path, settings=settings)
            told = done.stdout if command == ("doctor",) else done.stderr
            assert ("missing" in told) is bool(lost), told
            assert not lost or f" {lost:,} " in told, told
        answer = httpx.post(f"{collector.url}/api/v1/sql", json={"sql": "select 1"}, timeout=30).json()
        assert (answer["exact"], answer.get("missing_events", 0)) == (not lost, lost)


def test_files_that_lack_a_column_are_read_beside_those_that_have_it(tmp_path: Path) -> None:
    """As after an upgrade that added one, whichever of the files is the oldest or was written anew since."""
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    days = [WEEK_AGO - each * DAY for each in (4, 3, 2)]
    events = [
        failed(number, time_ns=at, received_ns=at, target="/a", target_guessed=True) for number, at in enumerate(days)
    ]
    store.write(Changes(NOW, events=events))
    while store.move(tmp_path / "old", WEEK_AGO):
        pass
    first, second, third = sorted((tmp_path / "old").glob("*/*"))
    for lacking in ([first], [second], [first, third]):
        whole = {file: file.read_bytes() for file in lacking}
        for file in lacking:
            with duckdb.connect() as engine:
                rest = f"select * exclude (target_guessed) from read_parquet('{file}')"
                engine.execute(f"copy ({rest}) to '{file}.new' (format parquet)")
            Path(f"{file}.new").replace(file)
        store.see_archived()
        known = store.rows("select count(*) as n, count(target_guessed) as guessed, count(target) as named from events")
        assert known == [{"n": 3, "guessed": 3 - len(lacking), "named": 3}]
        for file, content in whole.items():
            file.write_bytes(content)
    store.close()


def test_an_upgrade_computes_what_was_archived_too(tmp_path: Path) -> None:
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    at = WEEK_AGO - DAY
    store.write(Changes(NOW, events=[failed(number, time_ns=at + number, received_ns=at) for number in range(3)]))
    while store.keep_up():
        pass
    assert store.move(tmp_path / "old", WEEK_AGO)
    store.execute("update meta set value = '14' where name = 'schema_version'")
    store.close()
    store = Store.open(f"duckdb:///{tmp_path}/x.duckdb")
    while store.keep_up():
        pass
    assert {row["length"] for row in store.rows("select length from kept_streaks")} == {3}
    store.close()
