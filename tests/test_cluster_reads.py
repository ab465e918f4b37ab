"""The cluster answers every question as DuckDB does: each statement is asked of both, and their rows are compared.

The engine is real (tests/clickhouse.py). Events are those of a demo's month, and odd ones: all outcomes, no sessions.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pytest
from nanoarrow.c_array_stream import c_array_stream
from nanoarrow.ipc import InputStream

from collector.api.endpoints import ENDPOINTS
from collector.api.parameters import read
from collector.api.sandbox import Batches
from collector.cluster.client import Cluster
from collector.cluster.dialect import translated, types_of
from collector.cluster.reads import ClusterReads
from collector.cluster.tables import VERSIONED, Layout, make
from collector.commands.bulk import bulk
from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.measures.families import MeasureQuery, measure_family
from collector.measures.history import history
from collector.measures.history_sql import Evaluations
from collector.projects import only
from collector.query.filters import terms_of
from collector.query.group_marks import Mark, mark
from collector.query.noted import NewMark, add_mark, marks, remove_mark
from collector.times import DAY, HOUR, MINUTE
from tests.clickhouse import Front
from tests.recorded import NOW, SILENT, mixed

# Address, query, whether only `make test-deep` asks it. `{session}`, `{event}`, `{group}` are those of a failed call.
ASKED = """
/breakdown by=tool,error_class&from=-30d
/breakdown by=tool&from=-24h&measures=sessions,p50_ms,p95_ms,recovery_rate&previous=true
/breakdown by=recovered&from=-7d&q=not deep
/breakdown by=&from=-24h deep
/breakdown by=session&from=-24h&limit=10000 deep
/breakdown by=mistake,retryable,status_code&from=-30d&tool=!read_file&outcome=error deep
/breakdown by=target&from=-24h&previous=true deep
/breakdown by=tool&recovered=true,&sort=-calls deep
/timeseries from=-24h&bucket=5m&by=category
/timeseries from=-7d&bucket=1d&by=model&measures=p95_ms,sessions&previous=true deep
/compare from=-7d&measure=error_rate,lasting_rate,recovery_rate,hit_rate,streak_rate,sessions,p95_ms,errors_per_1000
/compare from=-7d&by=tool&measure=error_rate,mistake_rate,p50_ms deep
/trials from=-7d
/ranking from=-30d&by=model
/ranking from=-7d&by=service_version deep
/texts from=-30d
/texts from=-7d&by=model deep
/texts/wordings from=-30d deep
/parameters from=-30d
/changes from=-7d
/changes from=-3d&measure=mistake_rate deep
/changes from=-7d&measure=error_rate&by=target,model,service deep
/values/{dimension:str} from=-30d&contains=re|dimension=target
/values/{dimension:str} contains=1|dimension=fingerprint deep
/values/{dimension:str} |dimension=recovered deep
/events from=-24h&limit=20&outcome=error&q=not
/events from=-30d&limit=30&cursor={cursor}
/events from=-30d&limit=20&after=1.5 deep
/events from=-2d&recovered=false&limit=20&sort=time deep
/events/{event_id:str} |event_id={event}
/streaks from=-7d&min_length=2&limit=10000
/streaks from=-7d&scope=target&kind=error&state=ended&sort=-reported_streak&limit=10000 deep
/streaks from=-7d&recovered=true&limit=10000 deep
/streaks/summary from=-7d&previous=true
/streaks/limits from=-7d&by=model
/streaks/limits from=-7d&by=tool&previous=true deep
/streaks/signals from=-30d
/streaks/agreement from=-30d&kind=error deep
/retries from=-7d&by=error_class
/retries from=-3d&by=tool&previous=true deep
/retries/curve from=-7d&by=error_class
/retries/storms from=-3d&window=10m&least=5&by=tool
/retries/storms from=-30d&window=1h&least=3&state=ended&sort=-sessions deep
/costs from=-7d&by=tool
/groups from=-7d&measures=recovery_rate&limit=10000
/groups from=-30d&state=ignored deep
/groups from=-30d&state=regressed deep
/groups from=-1d&recovered=true deep
/groups/{fingerprint:str} |fingerprint={group} deep
/sessions from=-7d&limit=50
/sessions from=-7d&state=error&sort=state,-calls deep
/sessions/{session:path} columns=tool,outcome&limit=10|session={session}
/sessions/{session:path} limit=10&cursor=1.-5.7|session={session} deep
/check command=pytest -q
/check of=apply_diff deep
/lessons
/search q=apply
/search q={session} deep
/search q={group} deep
/search q={event} deep
/sources
/sources from=-7d&recovered=
/sources from=-1h&model= deep
"""
Rule = tuple[str, Sequence[str], int, Mapping[str, str]]
RULES: Sequence[Rule] = (
    ("error_rate", ("tool", "model"), HOUR, {}),
    ("failing_sessions", ("tool",), DAY, {}),
    ("p95_ms", ("model",), DAY, {}),
    ("recovery_rate", ("service",), 6 * HOUR, {}),
    ("streak", ("service",), DAY, {}),
    ("new_groups", ("service",), DAY, {}),
    ("silent", ("service",), DAY, {}),
)
MORE_RULES: Sequence[Rule] = (
    ("errors", ("service",), 6 * HOUR, {}),
    ("calls", ("session",), 6 * HOUR, {}),
    ("streaks", (), DAY, {"recovered": "false"}),
    ("regressed_groups", ("service",), DAY, {}),
    ("silent", (), DAY, {"recovered": "true"}),
    ("p95_ms", ("tool",), HOUR, {"recovered": "false"}),
    ("unclassified_rate", (), DAY, {}),
    ("sessions", ("service",), DAY, {}),
    ("retries", ("tool",), DAY, {"recovered": "true"}),
)


def cases(deep: bool) -> list[Any]:
    """The questions of one depth."""
    lines = [line for line in ASKED.split("\n")[1:-1] if line.endswith("deep") == deep]
    asked = [line.removesuffix("deep").strip().partition(" ") for line in lines]
    return [pytest.param(address, query, id=f"{address} {query}") for address, _, query in asked]


class Both:
    """A store that asks each statement of DuckDB and of ClickHouse, and compares what they say."""

    materializes = False
    version = "both"

    def __init__(self, store: Store, cluster: ClusterReads) -> None:
        self.store, self.cluster = store, cluster
        self.asked = 0

    def rows(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 60) -> list[dict[str, Any]]:
        expected = self.store.rows(sql, params, timeout_s=timeout_s)
        found = self.cluster.rows(sql, params, timeout_s=timeout_s)
        assert [list(row) for row in found[:1]] == [list(row) for row in expected[:1]] or not (found and expected)
        assert alike(found) == alike(expected), sql
        self.asked += 1
        return expected

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 60) -> bytes:
        raise AssertionError("rows are asked for")


def alike(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as a multiset, numbers to a millionth, without hashes, which each engine has its own of."""
    return sorted(repr({name: plain(value) for name, value in row.items() if "whose" not in name}) for row in rows)


def plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return None if math.isnan(value) else float(f"{value:.7g}") if abs(value) < 2**40 else int(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module")
def both(clickhouse: Front, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    url = f"duckdb:///{tmp_path_factory.mktemp('both')}/both.duckdb"
    bulk(url, 4_000, 0)
    store = Store.open(url)
    newest = store.rows("select max(time_ns) as at from events")[0]["at"]
    odd = [
        each | {"event_id": each["event_id"] + 10**6, "time_ns": each["time_ns"] - NOW + newest, "received_ns": newest}
        for each in mixed(500)
    ]
    store.write(Changes(newest, events=odd))
    for _ in store.rebuild():
        pass
    cluster = Cluster(clickhouse.database())
    make(cluster, Layout(), 400 * DAY // 10**9)
    published(store, cluster)
    yield Both(store, ClusterReads(cluster))
    cluster.close()
    store.close()


def published(store: Store, cluster: Cluster) -> None:
    """All events, streaks and chains of a store in a cluster."""
    for table in VERSIONED:
        time_of = "ended" if table == "kept_streaks" else "received_ns" if table == "events" else "time_ns"
        rows = store.rows(f"select *, {time_of} as received_ns, 1 as version, 0 as gone, 'a' as collector from {table}")
        cluster.insert(f"{table}_rows", rows, "all")
    cluster.insert("kept_newest_rows", store.rows("from kept_newest"), "all")


def ask(both: Both, address: str, query: str, project: str | None = None) -> None:
    store = both.store
    now = store.rows("select max(time_ns) as at from events")[0]["at"] + 1000
    [one] = store.rows(
        "select event_id as event, session, fingerprint as group, time_ns || '.' || event_id as cursor from events"
        " where outcome = 'error' and session is not null and operation = 'tool' order by time_ns desc limit 1 offset 9"
    )
    for name, value in one.items():
        query = query.replace(f"{{{name}}}", str(value))
    asked, _, path = query.partition("|")
    named = dict([path.split("=", 1)]) if path else {}
    endpoint = next(each for each in ENDPOINTS if each.path == address)
    parsed = read(
        asked.encode(), endpoint.takes, named, now, filters=endpoint.filters, since=endpoint.since, failure_only=SILENT
    )
    with only(project):
        endpoint.ask(parsed.selection, parsed.options).rows(both, 60)


@pytest.mark.parametrize(("address", "query"), cases(deep=False))
def test_every_address(both: Both, address: str, query: str) -> None:
    ask(both, address, query)


@pytest.mark.deep
@pytest.mark.parametrize(("address", "query"), cases(deep=True))
def test_more_filters_orders_and_cursors(both: Both, address: str, query: str) -> None:
    ask(both, address, query)


def test_every_address_is_asked() -> None:
    assert {line.split(" ")[0] for line in ASKED.split("\n")[1:-1]} >= {
        each.path for each in ENDPOINTS if each.path not in ("/lessons/{id:str}",)
    }


@pytest.mark.parametrize(("measure", "by", "window_ns", "where"), RULES)
def test_what_rules_measure(
    both: Both, measure: str, by: Sequence[str], window_ns: int, where: Mapping[str, str]
) -> None:
    measured(both, measure, by, window_ns, where)


@pytest.mark.deep
@pytest.mark.parametrize(("measure", "by", "window_ns", "where"), MORE_RULES)
def test_more_that_rules_measure(
    both: Both, measure: str, by: Sequence[str], window_ns: int, where: Mapping[str, str]
) -> None:
    measured(both, measure, by, window_ns, where)


def measured(both: Both, measure: str, by: Sequence[str], window_ns: int, where: Mapping[str, str]) -> None:
    """Asks for a measure now, and at 96 times of the last day."""
    now = both.store.rows("select max(time_ns) as at from events")[0]["at"] + 1000
    terms = tuple(term for name, value in where.items() for term in terms_of(name, value))
    measure_family(both, [MeasureQuery(measure, terms, tuple(by), now - window_ns, now)], SILENT)
    times = Evaluations(now - DAY, 15 * MINUTE, 96)
    history(both, measure, dict(where), tuple(by), times, window_ns, failure_only=SILENT)


def test_what_people_add_is_shared(both: Both) -> None:
    cluster = both.cluster
    [group] = both.store.rows("select fingerprint from events where fingerprint is not null limit 1")
    for said in (Mark("ignored", until_events=10**5, note="it's ours"), Mark("open")):
        mark(cluster, group["fingerprint"], said, str)
        [told] = cluster.rows("select ignored_ns > 0 as ignored, note from group_marks")
        assert told == {"ignored": said.state == "ignored", "note": "it's ours"}
    for text in ("deploy", "deploy", "rollback"):
        add_mark(cluster, NewMark(text, "2026-11-01T00:00:00Z"), str, NOW)
    found = marks(cluster, 0, NOW * 2, "")
    assert sorted(row["text"] for row in found) == ["deploy", "rollback"]
    remove_mark(cluster, found[0]["mark_id"])
    assert marks(cluster, 0, NOW * 2, "") == found[1:]


@pytest.mark.parametrize(("address", "query"), cases(deep=False)[::3])
def test_a_project_sees_its_rows_alone(both: Both, address: str, query: str) -> None:
    """All events are of no project: to one, nothing is there."""
    ask(both, address, query, "theirs")


def test_what_a_project_may_not_read_is_empty(both: Both) -> None:
    with only("theirs"):
        assert both.cluster.rows("select count(*) as n from events e join kept_chains using (event_id)") == [{"n": 0}]
        assert both.cluster.rows("select * from senders") == []


def test_a_stream_is_what_the_store_streams(both: Both) -> None:
    columns = "make_timestamp_ns(time_ns)::timestamp as time, event_id, tool, mistake, duration_ms"
    sql = f"select {columns} from events order by event_id"
    written = io.BytesIO()
    both.cluster.stream(sql, {}, written)
    told = c_array_stream(InputStream.from_readable(written.getvalue()))
    read = duckdb.connect()
    read.execute("set TimeZone = 'UTC'")
    read.register("told", Batches(told.get_schema(), list(told)))
    found = read.sql("select * replace (time::timestamp as time) from told").fetchall()
    assert found == [tuple(row.values()) for row in both.store.rows(sql)]


def test_values_of_json_are_texts_alike(both: Both) -> None:
    """Also where there is none, where it is no text, and under a name that a pointer or a path must escape."""
    values = {
        "text": "x",
        "empty": "",
        "n": 1.5,
        "yes": True,
        "none": None,
        "list": [1, "a"],
        "a.b": "dot",
        "a/b~c": "tilde",
    }
    written = json.dumps(values, separators=(",", ":")).replace("'", "''")
    for document in (f"'{written}'", "'[]'", "null"):
        for name in (*values, "missing"):
            pointer = "/" + name.replace("~", "~0").replace("/", "~1")
            named = f"json_extract_string(d, $p) as a, min(d ->> '$.\"{name}\"') as b"
            sql = f"select {named} from (select {document}::varchar as d) group by a"
            both.rows(sql, {"p": pointer})


def test_a_statement_is_translated_once() -> None:
    sql = "select 1 as one from events where tool = $tool and time_ns < $at"
    given = {"tool": "a'b", "at": 2**63, "more": 1}
    first = translated(sql, types_of(given, sql))
    assert first.sql.endswith("FROM events WHERE tool = {tool: String} AND time_ns < {at: UInt64}")
    assert first.names == ("tool", "at")
    assert translated(sql, types_of(given | {"tool": "other"}, sql)) is first


def test_an_outer_row_with_a_null_is_found(both: Both) -> None:
    """Most events are of no project."""
    ours = "select * from events where operation = 'tool'"
    keys = "one.session = events.session and one.project is not distinct from events.project"
    for kind, all_of_them in (("semi", True), ("anti", False)):
        [row] = both.rows(
            f"select count(*) > 0 as found from ({ours} and session is not null) one {kind} join events on {keys}"
        )
        assert row["found"] is all_of_them
    with pytest.raises(ValueError, match="a semi or an anti join"):
        translated(f"{ours} and exists (select 1 from events one where {keys})", ())
