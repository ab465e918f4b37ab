"""Whether a cluster has what a store published: counts and checksums of each day, computed by both engines."""

from __future__ import annotations

from collections.abc import Iterator

from collector.cluster.client import Cluster
from collector.cluster.tables import VERSIONED, Column, published
from collector.engine import Reads

DAY_OF = {"events": "time_ns", "kept_streaks": "started", "kept_chains": "time_ns"}
COMPARED = frozenset(("varchar", "json", "bigint", "ubigint", "integer", "smallint", "boolean"))  # alike as text
DAY_NS = 86_400_000_000_000
Sums = dict[int, tuple[int, str]]  # day since 1970 → rows, checksum


def differences(store: Reads, cluster: Cluster, collector: str) -> Iterator[str]:
    """Each day of each table that differs, as a sentence."""
    for table in VERSIONED:
        there = {row["column_name"] for row in store.rows(f"describe {table}")}
        columns = [each for each in published(table) if each[0] in there and each[1] in COMPARED]
        ours, theirs = _ours(store, table, columns), _theirs(cluster, table, columns, collector)
        for day in sorted(ours.keys() | theirs.keys()):
            mine, other = ours.get(day, (0, "0")), theirs.get(day, (0, "0"))
            if mine != other:
                what = "rows" if mine[0] != other[0] else "rows, with other contents"
                yield f"{table}, day {day} since 1970: the store has {mine[0]} rows, the cluster {other[0]} {what}"


def _ours(store: Reads, table: str, columns: list[Column]) -> Sums:
    text = ", ".join(f"coalesce(\"{name}\"::varchar, '~')" for name, _, _ in columns)
    number = f"('0x' || substring(md5(concat_ws('|', {text})), 1, 15))::bigint"
    rows = store.rows(
        f"select {DAY_OF[table]} // {DAY_NS} as day, count(*) as n, sum({number})::varchar as total"
        f" from {table} group by day",
        timeout_s=600,
    )
    return {row["day"]: (row["n"], row["total"]) for row in rows}


def _theirs(cluster: Cluster, table: str, columns: list[Column], collector: str) -> Sums:
    text = ", ".join(f"ifNull(toString(`{name}`), '~')" for name, _, _ in columns)
    digits = f"substring(hex(MD5(concatWithSeparator('|', {text}))), 1, 15)"
    number = f"reinterpretAsUInt64(reverse(unhex(concat('0', {digits}))))"
    rows = cluster.rows(
        f"select intDiv({DAY_OF[table]}, {DAY_NS}) as day, count() as n, toString(sum(toInt128({number}))) as total"
        f" from {table}_rows final where collector = {{collector:String}} group by day",
        {"collector": collector},
        timeout_s=600,
    )
    return {row["day"]: (int(row["n"]), row["total"]) for row in rows}
