"""A collector with a cluster answers as one without: over HTTP, in JSON, Arrow and SQL; and what it says while the
cluster is away.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nanoarrow.c_array_stream import c_array_stream
from nanoarrow.ipc import InputStream

from collector.access.file import TokenFile
from collector.access.rights import READ
from collector.cluster.client import Cluster
from collector.cluster.tables import Layout, make
from tests.clickhouse import Front
from tests.conftest import HTTP, RunningCollector, free_port, wait_until
from tests.traffic import storm, two_versions

KEY = "k" * 32
ARROW = {"accept": "application/vnd.apache.arrow.stream"}
ASKED = (
    "breakdown?by=tool,error_class&from=-3d&measures=sessions,p95_ms,recovery_rate",
    "timeseries?from=-3d&bucket=1h&by=category",
    "events?from=-3d&limit=40&outcome=error&q=not",
    "streaks?from=-3d&min_length=2",
    "retries?from=-3d&by=error_class",
    "groups?from=-3d",
    "sessions?from=-3d&limit=20&sort=service,session",
    "sources?sort=service",
)
OWN = frozenset(("from", "to", "after", "next", "exact", "newest", "received_time", "last_received", "trend"))


def shown(value: Any) -> Any:
    """An answer without times of arrival, and of asking, which each collector has its own of."""
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items() if name not in OWN}
    if isinstance(value, list):
        return [shown(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def columns(collector: RunningCollector, path: str) -> list[str]:
    answer = HTTP.get(f"{collector.url}/api/v1/{path}", headers=ARROW)
    assert answer.is_success, answer.text
    schema = c_array_stream(InputStream.from_readable(answer.content)).get_schema()
    return [child.name for child in schema.children]


def test_answers_are_those_of_a_collector_without_a_cluster(
    clickhouse: Front, start_collector: Callable[..., RunningCollector]
) -> None:
    url, now = clickhouse.database(), datetime.now(UTC)
    with closing(Cluster(url)) as cluster:
        make(cluster, Layout(), 30 * 86_400)
    sharing, alone = start_collector(CLUSTER=url, HASH_KEY=KEY), start_collector(HASH_KEY=KEY)
    for each in (sharing, alone):
        assert each.post("/v1/events", json.dumps(two_versions(now) + storm(now))).is_success
        each.kept_up()
    wait_until(lambda: sharing.get(f"/api/v1/{ASKED[0]}")["exact"])
    for path in ASKED:
        one, other = (shown(each.get(f"/api/v1/{path}")) for each in (sharing, alone))
        assert one["rows"], path
        assert one == other, path
        assert columns(sharing, path) == columns(alone, path)

    sql = {"sql": "select tool, count(*) as n, max(time) < now() as past from events group by tool order by tool"}
    told = [each.post("/api/v1/sql?from=-3d", json.dumps(sql)).json()["rows"] for each in (sharing, alone)]
    assert told[0] == told[1]
    assert len(told[0]) == 4

    [group] = sharing.get("/api/v1/groups", **{"from": "-3d", "error_class": "RateLimitError"})["rows"]
    path = f"/api/v1/groups/{group['fingerprint']}"
    marked = HTTP.patch(sharing.url + path, json={"state": "resolved", "note": "the provider's"})
    assert (marked.status_code, marked.json()["state"], marked.json()["note"]) == (200, "resolved", "the provider's")


def test_while_the_cluster_is_away_agents_are_answered_and_people_are_told(
    start_collector: Callable[..., RunningCollector],
) -> None:
    url = f"clickhouse://ann:{'s' * 6}@127.0.0.1:{free_port()}/m"
    collector = start_collector(CLUSTER=url, HASH_KEY=KEY, QUERY_TOKENS="root")
    assert collector.post("/v1/events", json.dumps(storm(datetime.now(UTC)))).is_success
    token = TokenFile(Path(f"{collector.store}.tokens")).create("theirs", (READ,), "theirs")[1]
    whole, theirs = ({"authorization": f"Bearer {each}"} for each in ("root", token))
    asked = HTTP.get(f"{collector.url}/api/v1/breakdown?by=tool", headers=whole)
    assert (asked.status_code, "retry-after" in asked.headers) == (503, True)
    assert "127.0.0.1" in asked.text
    assert "s" * 6 not in asked.text

    def health() -> list[Any]:
        return [HTTP.get(f"{collector.url}/api/v1/health", headers=each).json() for each in (whole, theirs)]

    wait_until(lambda: health()[0]["cluster"]["problem"])
    theirs_told = health()[1]
    assert (theirs_told["events"], theirs_told["cluster"]) == (0, None)
