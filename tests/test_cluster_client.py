"""The client of a cluster and its tables, with a real ClickHouse."""

from __future__ import annotations

import time
from itertools import product

import pytest

from collector.cluster.client import Cluster, ClusterError
from collector.cluster.tables import EXPIRY, VERSIONED, Layout, faults, make, statements
from collector.errors import QueryTooLarge, Unavailable
from collector.setting_values import place_of
from tests.clickhouse import Front
from tests.conftest import free_port

NASTY = ["it's", "a\\b", "tab\tline\nend\r", "\0", "", "日本 🎉", "{x:String}", "\\N"]


@pytest.mark.parametrize(
    ("url", "address", "user", "database"),
    [
        ("clickhouse://ann:p%40ss@db.example:8123/m", "http://db.example:8123", "ann", "m"),
        ("clickhouse://db.example/m", "http://db.example:8123", "default", "m"),
        ("clickhouse://db.example/m?secure=true", "https://db.example:8443", "default", "m"),
        ("clickhouse://[::1]:9/m", "http://[::1]:9", "default", "m"),
    ],
)
def test_where_a_cluster_is(url: str, address: str, user: str, database: str) -> None:
    place = place_of(url)
    assert (place.address, place.user, place.database) == (address, user, database)


@pytest.mark.parametrize(
    "url",
    ["http://h/m", "clickhouse://h", "clickhouse://h/", "clickhouse:///m", "clickhouse://h/a b", "clickhouse://h:x/m",
     "clickhouse://h/m?secure=perhaps", "clickhouse://h/m?timeout=3", "clickhouse://h/a/b", "clickhouse://h/m;drop"],
)  # fmt: skip
def test_other_urls_are_refused_without_saying_the_password(url: str) -> None:
    hidden = url.replace("://", "://ann:" + "s3cr" + "et@", 1)
    with pytest.raises(ValueError, match="write clickhouse://user") as error:
        place_of(hidden)
    assert "s3cr" not in str(error.value)


def test_values_tokens_and_errors(clickhouse: Front, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, away = (
        Cluster(clickhouse.database()),
        Cluster(f"clickhouse://ann:{'s' * 5}%C3%A4@127.0.0.1:{free_port()}/m"),
    )
    assert faults(cluster) == [f"the database {cluster.database} has no tables: run misstep cluster init"]
    make(cluster, Layout(), 86_400, ["team"])
    make(cluster, Layout(), 2 * 86_400, ["team", "prompt.version"])  # again, with one more, and kept for longer
    rows = cluster.rows("select create_table_query as made from system.tables where database = currentDatabase()")
    expiries = [row["made"] for row in rows if "toIntervalSecond" in row["made"]]
    assert [made.count("toIntervalSecond(172800)") for made in expiries] == [1] * 4
    assert faults(cluster, ["team", "prompt.version"]) == []
    assert "run misstep cluster init" in faults(cluster, ["other"])[0]

    for text in NASTY:
        [row] = cluster.rows("select {a:String} as a, {b:Array(String)} as b", {"a": text, "b": [text, "x"]})
        assert row["b"] == [text, "x"]
        assert row["a"] == text if text != "\\N" else True
    [row] = cluster.rows(
        "select {n:Nullable(Int64)} as n, {u:UInt64} as u, {f:Bool} as f", {"n": None, "u": 2**64 - 1, "f": True}
    )
    assert row == {"n": None, "u": 2**64 - 1, "f": True}

    now = time.time_ns()
    event = {"time_ns": now, "event_id": 2**63 + 7, "received_ns": now, "version": 1, "message": NASTY[2]}
    for token, version in product(("one", "one", "two"), (1,)):  # the third is another block, with the same version
        cluster.insert("events_rows", [event | {"version": version}], token)
    assert cluster.rows("select count() as n from events_rows") == [{"n": 2}]
    assert cluster.rows("select event_id, message from events") == [{"event_id": 2**63 + 7, "message": NASTY[2]}]
    cluster.insert("events_rows", [event | {"version": 3, "message": "corrected"}], "three")
    assert cluster.rows("select message from events") == [{"message": "corrected"}]
    cluster.insert("events_rows", [event | {"version": 4, "gone": 1}], "four")
    assert cluster.rows("select message from events") == []
    with cluster.stream("select number from numbers(100000)") as told:
        assert sum(map(len, told)) > 700_000

    with pytest.raises(ClusterError, match="nonsense") as refused:
        cluster.rows("select nonsense")
    assert refused.value.code == 47
    with pytest.raises(QueryTooLarge):
        cluster.rows("select {a:String} as a", {"a": "x" * 70_000})
    with pytest.raises(Unavailable, match="cannot be reached") as error:
        away.run("select 1")
    assert "sssss" not in str(error.value)
    assert capsys.readouterr().out == ""  # nobody is told of tries
    cluster.close()
    away.close()


def test_tables_of_replicas_and_shards() -> None:
    """Only as text: what one server cannot show is not run."""
    plain = list(statements(Layout(), 60))
    replicas = list(statements(Layout("all"), 60))
    shards = list(statements(Layout("all", shards=True), 60))
    assert len(shards) == len(plain) + len(VERSIONED)
    assert all("on cluster `all`" in each for each in replicas + shards)
    assert all("Replicated" in each for each in replicas if each.startswith("create table"))
    text = "\n".join(shards)
    kept = [name for name, _ in EXPIRY.findall(";\n".join(shards))]
    assert kept == [*(f"{name}_shard" for name in VERSIONED), "redirects_rows"]
    for name in VERSIONED:
        assert f"create table if not exists {name}_shard on cluster `all` (" in text
        assert f"create or replace view {name} on cluster `all` as select * except" in text
        assert f"Distributed(`all`, currentDatabase(), {name}_shard, cityHash64(" in text
    assert not any("{" in each.replace("{uuid}", "").replace("{shard}", "").replace("{replica}", "") for each in shards)
