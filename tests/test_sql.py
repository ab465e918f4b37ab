"""SQL of users: its answers, and every way out of its process that we could think of."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import duckdb
import httpx
import msgspec
import polars as pl
import pytest
from nanoarrow.ipc import StreamWriter

from collector.api.sandbox import Task, needed
from collector.api.sql_queries import ONE_AT_A_TIME, answer_sql, names
from collector.engine.duckdb.arrow import ArrowColumns
from collector.engine.duckdb.read import CALL_OFF, CallOff
from collector.engine.duckdb.store import Store
from collector.errors import CalledOff, QueryTimeout, Rejected, Unavailable
from collector.query.filters import Selection, select
from collector.times import rfc3339
from tests.conftest import RunningCollector, misstep
from tests.recorded import HOUR, NOW, holding, mixed

pytestmark = pytest.mark.process  # each question has one of its own

NAMES = names()
TEN_HOURS = Selection(NOW - 10 * HOUR, NOW)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    opened = Store.open("duckdb://:memory:")
    holding(opened, mixed(2000))
    yield opened
    opened.close()


def rows(store: Store, sql: str, selection: Selection = TEN_HOURS, limit: int = 1000) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(answer_sql(store, selection, sql, limit)[1])
    return found


def test_a_question_is_answered_over_what_the_filters_choose(store: Store) -> None:
    told = rows(store, "select tool, count(*) as n from events group by 1 order by 2 desc, 1 nulls last")
    known = store.rows("select tool, count(*) as n from events group by 1 order by 2 desc, 1 nulls last")
    assert told == known
    only = select({"from": "-5h", "tool": "a"}, NOW)
    assert rows(store, "select distinct tool, min(time_ns) >= 0 as any from events group by 1", only) == [
        {"tool": "a", "any": True}
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) as n from query('select tool from events')",
        "select count(#3) as n from events",
        "select count(c) as n from events e(a, b, c)",
    ],
)
def test_columns_that_are_not_named_are_there(store: Store, sql: str) -> None:
    assert rows(store, sql) == [{"n": 2000}]


class Flood:
    """A store whose events, about 1.2 GB, do not fit into the sandbox."""

    def stream(self, sql: str, params: dict[str, Any], out: IO[bytes], *, timeout_s: float = 30) -> None:
        rows = ArrowColumns({"tool": ["x" * 1000] * 8000}, {"tool": "varchar"})
        with StreamWriter.from_writable(out) as writer:
            for _ in range(150):
                writer.write_stream(rows)


def test_a_process_that_dies_while_it_is_fed_says_why() -> None:
    with pytest.raises(Rejected, match="this needs more than 384MB: narrow the range"):
        answer_sql(Flood(), TEN_HOURS, "select count(tool) from events", 10)


def test_rows_come_as_json_or_arrow_and_stop_at_the_limit(store: Store) -> None:
    sql = "select event_id, time, time_ns, duration_ms from events order by event_id"
    outcome, body = answer_sql(store, TEN_HOURS, sql, 3)
    shown = msgspec.json.decode(body)
    assert (outcome.columns, outcome.truncated, len(shown)) == (["event_id", "time", "time_ns", "duration_ms"], True, 3)
    assert [row["event_id"] for row in shown] == ["0", "1", "2"]
    assert shown[0]["time_ns"].startswith(str(NOW)[:3])
    frame = pl.read_ipc_stream(io.BytesIO(answer_sql(store, TEN_HOURS, sql, 3, arrow=True)[1]))
    assert frame["event_id"].to_list() == [0, 1, 2]
    assert frame.schema["time"] == pl.Datetime("us")
    assert not answer_sql(store, TEN_HOURS, sql, 5000)[0].truncated


def test_odd_values_and_names_can_be_written(store: Store) -> None:
    [row] = rows(store, "select 1 as a, 2 as a, 'nan'::double, {'k': [9007199254740993]} as s, interval 1 day,"
                        " map {1: 'x'} as m, '\\x01'::blob as b, 1.5::decimal as d")  # fmt: skip
    assert (row["a"], row["a_1"], row["s"], row["m"]) == (1, 2, {"k": ["9007199254740993"]}, {"1": "x"})


def test_enums_come_as_text_in_arrow_too(store: Store) -> None:
    sql = """select outcome::enum('ok', 'error', 'cancelled', 'denied') as "the ""o"" of it",
      ['it''s)'::enum('it''s)', 'b')] as l, {'k': 'a'::enum('a')} as s, count(*) as n
      from events where outcome = 'ok' group by 1"""
    frame = pl.read_ipc_stream(io.BytesIO(answer_sql(store, TEN_HOURS, sql, 3, arrow=True)[1]))
    [row] = frame.to_dicts()
    assert row == {'the "o" of it': "ok", "l": ["it's)"], "s": {"k": "a"}, "n": row["n"]}
    assert rows(store, sql) == [row]


def test_times_are_written_as_everywhere_in_the_api(store: Store) -> None:
    sql = """select time, epoch_ns(time) as ns, time::timestamptz as zoned, time::timestamp_s as s, time::date as d,
      null::timestamptz as none from events order by time limit 1"""
    [row] = rows(store, sql)
    moment = int(row["ns"])
    assert row == {
        "time": f"{rfc3339(moment)[:26]}Z", "ns": str(moment), "zoned": f"{rfc3339(moment)[:26]}Z",
        "s": f"{rfc3339(moment)[:19]}Z", "d": rfc3339(moment)[:10], "none": None,
    }  # fmt: skip
    assert rows(store, "select now() as a, 1 as a, current_timestamp as b")[0]["a"].endswith("Z")
    with pytest.raises(Rejected, match="cast them to text"):
        answer_sql(store, TEN_HOURS, "select [now()] as l", 3)


def test_now_is_in_utc_wherever_the_machine_is() -> None:
    sql = "select abs(date_diff('minute', now()::timestamp, epoch_ms(epoch_ms(now())))) as off, hour(now()) as h"
    task, events = msgspec.json.encode(Task(sql, ["time"], 1, False, 20)) + b"\n", io.BytesIO()
    with StreamWriter.from_writable(events) as writer:
        writer.write_stream(ArrowColumns({"time": [1]}, {"time": "bigint"}))
    done = subprocess.run(
        [sys.executable, "-m", "collector.api.sandbox"],
        env={**os.environ, "TZ": "Asia/Kolkata"},
        input=task + events.getvalue(),
        capture_output=True,
        check=True,
    )
    [row] = json.loads(done.stdout.splitlines()[2])
    assert (row["off"], (row["h"] - time.gmtime().tm_hour) % 24 in (0, 23)) == (0, True)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select count(*) from events", ["time"]),
        ("select tool from events where Outcome = 'ok'", ["outcome", "tool"]),
        ("from events", NAMES),
        ("select e.tool from events e", ["tool"]),
        ("select e from events e", NAMES),
        ("select events from events", NAMES),
        ("select columns('t.*l') from events", NAMES),
        ("summarize events", NAMES),
        ("with e as (select model from events) select * from e", NAMES),
        ("select #3 from events", NAMES),
        ("select c from events e(a, b, c)", NAMES),
        ("select count(*) from events a natural join events b", NAMES),
        ("select count(*) from query('select tool from events')", NAMES),
        ("select count(*) from query_table('events')", NAMES),
        ("select a.tool from events a join events b using (session)", ["session", "tool"]),
    ],
)
def test_only_the_columns_that_are_named_are_copied(sql: str, columns: list[str]) -> None:
    found = needed(duckdb.connect(":memory:"), sql, NAMES)
    assert (sorted(found.columns), found.error) == (sorted(columns), "")


SECRET = "what is in the file"


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('{file}')",
        "select * from '{file}'",
        "select content from read_blob('{file}')",
        "select * from read_csv('{file}', header=false)",
        "select * from glob('{folder}/*')",
        "select * from read_json_auto('http://127.0.0.1:9/x')",
        "select * from sniff_csv('{file}')",
        "select * from read_duckdb('{folder}/store.duckdb', table_name='events')",
        "copy events to '{folder}/out.csv'",
        "copy (select 1) to '{folder}/out.parquet'",
        "export database '{folder}/out'",
        "attach '{folder}/store.duckdb' as other",
        "install httpfs",
        "load httpfs",
        "set memory_limit = '100GB'",
        "set enable_external_access = true",
        "reset threads",
        "pragma database_list",
        "pragma enable_logging",
        "create table mine as select 1",
        "create macro m() as 1",
        "create secret (type s3)",
        "insert into events select * from events",
        "delete from events",
        "drop table events",
        "update events set tool = 'x'",
        "call force_checkpoint()",
        "checkpoint",
        "explain analyze select 1",
        "prepare p as select 1",
        "select 1; select 2",
        "select 1; set threads = 2",
        "select * from incoming",
        "select * from task",
        "select * from keys",
        "select * from requests",
        "select * from reports",
        "select * from meta",
        "select * from main.trace_session",
        "select getenv('HOME')",
        "select * from query('select * from read_text(''{file}'')')",
        "select * from query_table('{file}')",
        "select * from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''{file}'')'))",
        "from python_udf()",
        "selec 1",
        "",
        "select 1)  union all (select 2",
    ],
)
def test_nothing_gets_out_and_nothing_gets_in(store: Store, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "secret.txt"
    file.write_text(SECRET)
    duckdb.connect(str(tmp_path / "store.duckdb")).execute("create table events as select 1 as x").close()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Rejected) as refused:
        answer_sql(store, TEN_HOURS, sql.replace("{file}", str(file)).replace("{folder}", str(tmp_path)), 10)
    assert refused.value.status == 400
    assert SECRET not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before
    assert store.rows("select count(*) as n from events") == [{"n": 2000}]


@pytest.mark.parametrize(
    "sql",
    [
        "select length(repeat('x', 3000000000))",
        "with recursive t as (select 'x' as s union all select s || s from t) select count(*) from t",
        "select list(a.event_id) from events a, events b, events c",
        "select range(2000000000)",
        "select string_agg(repeat('x', 100000)) from events a, events b",
    ],
)
def test_who_takes_too_much_ends_himself_alone(store: Store, sql: str) -> None:
    with pytest.raises((Rejected, QueryTimeout)):
        answer_sql(store, TEN_HOURS, sql, 10, seconds=5)
    assert len(rows(store, "select 1 as one from events limit 1")) == 1


def test_a_question_without_end_is_ended(store: Store) -> None:
    with pytest.raises(QueryTimeout, match="2 s"):
        answer_sql(store, TEN_HOURS, "select count(*) from range(100000000000) a", 10, seconds=2)


def test_who_leaves_ends_the_process(store: Store) -> None:
    call_off = CallOff()
    token = CALL_OFF.set(call_off)
    threading.Timer(1.5, call_off.now).start()
    try:
        with pytest.raises(CalledOff):
            answer_sql(store, TEN_HOURS, "select count(*) from range(100000000000) a", 10)
    finally:
        CALL_OFF.reset(token)


def test_one_statement_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.api.sql_queries.PATIENCE_S", 0.05)
    with ONE_AT_A_TIME, pytest.raises(Unavailable) as refused:
        answer_sql(store, TEN_HOURS, "select 1", 10)
    assert refused.value.status == 429


def test_a_machine_that_starts_no_process_may_later(store: Store) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(Unavailable, match="no process can be started for the statement: Too many open files"):
            answer_sql(store, TEN_HOURS, "select 1", 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answer_sql(store, TEN_HOURS, "select 1 as one", 10)[1] == b'[{"one":1}]'


@pytest.mark.parametrize(("sql", "said"), [(" -- all", "no statements"), ("select 1; select 2", "2 statements")])
def test_what_is_not_one_statement_is_counted(store: Store, sql: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        answer_sql(store, TEN_HOURS, sql, 10)


def test_a_statement_of_a_novels_length_is_refused(store: Store) -> None:
    with pytest.raises(Rejected) as refused:
        answer_sql(store, TEN_HOURS, f"select '{'x' * 20_000}'", 10)
    assert refused.value.status == 413


def test_deep_nesting_harms_nobody(store: Store) -> None:
    with pytest.raises(Rejected):
        answer_sql(store, TEN_HOURS, "select " + "(" * 9000 + "1" + ")" * 9000, 10)


def test_sql_over_http_and_from_the_command_line(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(QUERY_TOKENS="right")
    for number in range(3):
        collector.post("/v1/events", json.dumps({
            "service": "api", "session": "s", "tool": f"tool{number % 2}", "outcome": "ok", "call_id": str(number),
        }))  # fmt: skip
    sql = "select tool, count(*) as n from events group by 1 order by 1"
    place, body = f"{collector.url}/api/v1/sql", {"sql": sql}
    right = {"Authorization": "Bearer right"}
    assert httpx.post(place, json=body, timeout=30).status_code == 401
    assert httpx.post(place, content=json.dumps(body), headers=right, timeout=30).status_code == 415
    answer = httpx.post(place, params={"tool": "tool0"}, json=body, headers=right, timeout=30).json()
    assert (answer["rows"], answer["columns"]) == ([{"tool": "tool0", "n": 2}], ["tool", "n"])
    for wrong, params in (
        ({"sq": ""}, {}),
        ({"sql": 1}, {}),
        ({"sql": "select x from events"}, {}),
        (body, {"toool": "a"}),
    ):
        refused = httpx.post(place, params=params, json=wrong, headers=right, timeout=30)
        assert refused.status_code == 400
        assert refused.json()["error"]["message"]
    settings = {"COLLECTOR_URL": collector.url, "QUERY_TOKEN": "right"}
    told = misstep("sql", sql, "--format", "csv", cwd=tmp_path, settings=settings)
    assert told.stdout.splitlines() == ["tool,n", "tool0,2", "tool1,1"]
    table = misstep("sql", sql, "tool=tool1", cwd=tmp_path, settings=settings).stdout
    assert ("tool1" in table, "tool0" in table) == (True, False)
    wrong_sql = misstep("sql", "select x from events", cwd=tmp_path, settings=settings)
    assert (wrong_sql.returncode, "x" in wrong_sql.stderr, "Traceback" in wrong_sql.stderr) == (2, True, False)


def test_the_command_line_shows_what_the_api_answers(collector: RunningCollector, tmp_path: Path) -> None:
    collector.post("/v1/events", json.dumps([{"tool": name, "outcome": "ok"} for name in ("a", "b")]))

    def told(sql: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return misstep("sql", sql, *arguments, cwd=tmp_path, settings={"COLLECTOR_URL": collector.url})

    sql = """select max(time) - min(time) as i, list(distinct tool order by tool) as l, 'x'::blob as b, {'a': 1} as s,
      map {'k': 2} as m, 'ok'::enum('ok') as e, 'inf'::double as d, 9007199254740993 as n, 123456789.25::double as f,
      timestamp '2026-11-25 12:21:58.2' as t, '' as empty, null as none from events"""
    [row] = httpx.post(f"{collector.url}/api/v1/sql", json={"sql": sql}, timeout=30).json()["rows"]
    assert (row["n"], row["t"], row["f"]) == ("9007199254740993", "2026-11-25T12:21:58.2Z", 123456789.25)
    assert [json.loads(line) for line in told(sql, "--format", "jsonl").stdout.splitlines()] == [row]
    [cells] = csv.DictReader(told(sql, "--format", "csv").stdout.splitlines())
    texts = {name: "" if value is None else value for name, value in row.items()}
    assert {name: json.loads(text) if name in "lsmf" else text for name, text in cells.items()} == texts
    table = told(sql)
    assert ("123456789.25" in table.stdout, '["a","b"]' in table.stdout, table.stderr) == (True, True, "")

    cut = told("from range(200)", "--format", "jsonl")
    assert (len(cut.stdout.splitlines()), "there are more rows than these 100" in cut.stderr) == (100, True)
    for sql, *where in (["select '\udcff'"], ["select 1", "tool=\udcff"]):
        refused = told(sql, *where)
        assert (refused.returncode, "is not UTF-8" in refused.stderr, refused.stdout) == (2, True, "")
    for twice in (["from=-1h"], ["limit=5"], ["tool=a", "tool=b"]):
        refused = told("select 1", *twice)
        assert (refused.returncode, twice[0].partition("=")[0] in refused.stderr, refused.stdout) == (2, True, "")
