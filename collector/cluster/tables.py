"""The tables of a cluster, from `schemas/clickhouse.sql` and the columns of the local tables: created, checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collector.cluster.client import Cluster
from collector.columns import ALERTS_DDL, EVENTS_DDL, INGEST_DDL, KEPT_DDL, PEOPLE_DDL, tables_of
from collector.tables import schemas

TEMPLATE = schemas().joinpath("clickhouse.sql").read_text(encoding="utf-8")
TYPES = {
    "varchar": "String", "json": "String", "bigint": "Int64", "ubigint": "UInt64", "integer": "Int32",
    "smallint": "Int16", "utinyint": "UInt8", "double": "Float64", "boolean": "Bool",
}  # fmt: skip
MANY_VALUES = frozenset((  # texts of which a block has too many different ones for a dictionary
    "session", "subagent", "turn", "call_id", "asked", "trace_id", "span_id", "parent_span_id", "target", "only_target",
    "message", "stack", "suggestion", "template", "params", "attributes", "service_instance", "repository", "metrics",
    "signs", "sign", "scope", "labels",
))  # fmt: skip
IN_ORDER = frozenset(("time_ns", "received_ns", "started", "ended", "until_ns", "heard_ns"))
VERSIONED = ("events", "kept_streaks", "kept_chains")
SHARDED = tuple(f"{name}_rows" for name in VERSIONED)
SENDERS = (  # of `seen`, `sampled`, `switches` and `unread`, which `about` tells apart
    ("collector", "varchar", True), ("project", "varchar", True), ("about", "varchar", True),
    ("source", "varchar", True),
    ("service", "varchar", True), ("name", "varchar", True), ("sign", "varchar", True), ("first_ns", "bigint", True),
    ("last_ns", "bigint", True), ("metrics", "varchar", False), ("kept", "double", False), ("signs", "varchar", False),
    ("records", "bigint", False),
)  # fmt: skip
LEAST_VERSION = (26, 0)  # of ClickHouse: what the statements were tested with
# `final` and tokens need these: keys that may be null, and as many tokens as a day of turns has. A day in which nothing
# was written for 25 hours becomes one part, so that reading it needs no merging; a late correction has it merged again.
SETTLED = "min_age_to_force_merge_seconds = 90000, min_age_to_force_merge_on_partition_only = 1"
SETTINGS = {
    "plain": f"allow_nullable_key = 1, {SETTLED}, non_replicated_deduplication_window = 20000",
    "replicated": f"allow_nullable_key = 1, {SETTLED}, replicated_deduplication_window = 20000, "
    "replicated_deduplication_window_seconds = 172800",
}
EXPIRY = re.compile(r"^create table if not exists (\w+)[^;]*?^(ttl .+toIntervalSecond.+)$", re.MULTILINE)
Column = tuple[str, str, bool]  # name, type in DuckDB, whether it is never null


@dataclass(frozen=True)
class Layout:
    """How the tables are spread: on one server; on replicas (`on_cluster`, the name in the servers' configuration); on
    shards of replicas (`shards` too).
    """

    on_cluster: str = ""
    shards: bool = False


def columns_of(ddl: str, table: str) -> list[Column]:
    """The columns of a table of `schemas/`."""
    [body] = re.findall(rf"^create table if not exists {table} \(\n(.*?)^\);", ddl, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^ {2}(?!primary key|unique)(\w+) +(\w+(?:\[\])?)( not null)?", body, re.MULTILINE)
    return [(name, kind, bool(never_null)) for name, kind, never_null in found]


def published(table: str, dimensions: Sequence[str] = ()) -> list[Column]:
    """The columns of a versioned table that are published; each has the project that its rows are of."""
    if table == "events":
        columns = columns_of(EVENTS_DDL, table)
        known = {name for name, _, _ in columns}
        return columns + [(name, "varchar", False) for name in dimensions if name not in known]
    columns = columns_of(KEPT_DDL, table)
    return columns if any(name == "project" for name, _, _ in columns) else [("project", "varchar", False), *columns]


def type_of(column: Column) -> str:
    """The type of a column in ClickHouse."""
    name, kind, never_null = column
    if kind.endswith("[]"):
        return f"Array({TYPES[kind[:-2]]})"
    plain = TYPES[kind] if never_null else f"Nullable({TYPES[kind]})"
    few = kind == "varchar" and name.removeprefix("first_") not in MANY_VALUES
    return f"LowCardinality({plain})" if few else plain


def _described(columns: Sequence[Column]) -> str:
    def codec(name: str, kind: str) -> str:
        return "codec(Delta, ZSTD(1))" if name in IN_ORDER else f"codec(ZSTD({3 if kind in ('json',) else 1}))"

    return ",\n  ".join(f"`{name}` {type_of((name, kind, never))} {codec(name, kind)}" for name, kind, never in columns)


def statements(layout: Layout, retention_s: int, dimensions: Sequence[str] = ()) -> Iterator[str]:
    """All statements that create the tables; each does nothing where its table is there."""
    copies = "replicated" if layout.on_cluster else "plain"
    columns = {name: _described(published(name, dimensions)) for name in VERSIONED}
    columns |= {"senders": _described(SENDERS), "redirects": _described(columns_of(INGEST_DDL, "redirects"))}
    columns["alert_samples"] = _described(columns_of(ALERTS_DDL, "alert_samples"))
    columns |= {name: _described(columns_of(PEOPLE_DDL, name)) for name in tables_of(PEOPLE_DDL)}
    engines = {
        "versions": _engine("Replacing", "version, gone", layout),
        "people": _engine("Replacing", "", layout),
        "latest": _engine("Replacing", "version", layout),
        "newest": _engine("Replacing", "time_ns", layout),
    }
    text = "\n".join(line for line in TEMPLATE.splitlines() if not line.startswith("--"))
    for statement in text.format(retention=retention_s, settings=SETTINGS[copies], **columns, **engines).split(";\n"):
        made = statement.strip()
        [name] = re.findall(r"^create (?:table if not exists|or replace view) (\w+)", made)
        yield from _spread(made, name, layout)


def _engine(kind: str, arguments: str, layout: Layout) -> str:
    if not layout.on_cluster:
        return f"{kind}MergeTree({arguments})"
    place = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"
    return f"Replicated{kind}MergeTree({place}{', ' if arguments else ''}{arguments})"


def _spread(made: str, name: str, layout: Layout) -> Iterator[str]:
    """A statement for all servers; a sharded table is one on each shard, and one that reaches them all."""
    if not layout.on_cluster:
        yield made
        return
    there = f" on cluster `{layout.on_cluster}`"
    if not (layout.shards and name in SHARDED):
        yield re.sub(rf"^(.*?\b{name}\b)", rf"\1{there}", made, count=1)
        return
    own = name.replace("_rows", "_shard")
    yield re.sub(rf"^(.*?)\b{name}\b", rf"\1{own}{there}", made, count=1)
    key = "cityHash64(tuple(project, service, session))"
    yield (
        f"create table if not exists {name}{there} as {own}"
        f" engine = Distributed(`{layout.on_cluster}`, currentDatabase(), {own}, {key})"
    )


def make(cluster: Cluster, layout: Layout, retention_s: int, dimensions: Sequence[str] = ()) -> None:
    """Creates what is missing, the database too, and sets how long rows are kept. Raises as `Cluster.run` does."""
    there = f" on cluster `{layout.on_cluster}`" if layout.on_cluster else ""
    cluster.run(f"create database if not exists `{cluster.database}`{there}", settings={"database": "default"})
    for statement in statements(layout, retention_s, dimensions):
        cluster.run(statement)
    for name in missing_dimensions(cluster, dimensions):
        for table in ("events_shard", "events_rows") if layout.shards else ("events_rows",):
            kind = type_of((name, "varchar", False))
            cluster.run(f"alter table {table}{there} add column if not exists `{name}` {kind} after `target_guessed`")
        cluster.run(f"create or replace view events{there} as {_view(layout, retention_s)}")
    tables = "select name, create_table_query as made from system.tables where database = currentDatabase()"
    known = {row["name"]: row["made"] for row in cluster.rows(tables)}
    for name, ttl in EXPIRY.findall(";\n".join(statements(layout, retention_s))):
        if f"toIntervalSecond({retention_s})" not in known[name]:
            cluster.run(f"alter table {name}{there} modify {ttl}")


def home_of(cluster: Cluster, table: str) -> str:
    """Where the rows of a table are, for `optimize` and `alter`: the table itself, or those of all shards."""
    asked = "select engine_full from system.tables where database = currentDatabase() and name = {name:String}"
    [row] = cluster.rows(asked, {"name": table})
    found = re.match(r"Distributed\('([^']+)'", row["engine_full"])
    return f"{table.replace('_rows', '_shard')} on cluster `{found[1]}`" if found else table


def _view(layout: Layout, retention_s: int) -> str:
    [found] = [each for each in statements(layout, retention_s) if re.match(r"create or replace view events\b", each)]
    return found.partition(" as ")[2]


def missing_dimensions(cluster: Cluster, dimensions: Sequence[str]) -> list[str]:
    """The dimensions that have no column in the cluster yet."""
    known = _columns(cluster).get("events_rows", {})
    return [name for name in dimensions if name not in known]


def _columns(cluster: Cluster) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in cluster.rows("select table, name, type from system.columns where database = currentDatabase()"):
        found.setdefault(row["table"], {})[row["name"]] = row["type"]
    return found


def faults(cluster: Cluster, dimensions: Sequence[str] = ()) -> list[str]:
    """What is wrong with the server or its tables, each as a sentence with a remedy; empty if all is well."""
    [server] = cluster.rows("select version() as version", settings={"database": "default"})
    major, minor = map(int, server["version"].split(".")[:2])
    if (major, minor) < LEAST_VERSION:
        return [f"ClickHouse {server['version']} is too old: use {'.'.join(map(str, LEAST_VERSION))} or newer"]
    made = cluster.rows(
        "select 1 from system.databases where name = {name:String}",
        {"name": cluster.database},
        settings={"database": "default"},
    )
    if not made or not (found := _columns(cluster)):
        return [f"the database {cluster.database} has no tables: run misstep cluster init"]
    wrong = [
        f"{table}_rows.{column[0]} is {there}, not {type_of(column)}: run misstep cluster init; tables of another "
        "version of Misstep need a database of their own"
        for table in VERSIONED
        for column in published(table, dimensions)
        if (there := found.get(f"{table}_rows", {}).get(column[0], "missing")) != type_of(column)
    ]
    names = re.findall(r"^create (?:table if not exists|or replace view) (\w+)", TEMPLATE, re.MULTILINE)
    return wrong + [f"{name} is missing: run misstep cluster init" for name in names if name not in found]
