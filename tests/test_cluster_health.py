"""A cluster that is away is seen where people look."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.conftest import RunningCollector, free_port, misstep, wait_until


def test_a_cluster_that_is_away_is_on_health_its_page_and_in_doctor(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., Any]
) -> None:
    secret = "s3cr" + "et" * 3
    collector = start_collector(CLUSTER=f"clickhouse://ann:{secret}@127.0.0.1:{free_port()}/m", HASH_KEY="k" * 32)
    call = {"service": "a", "session": "s", "tool": "edit", "outcome": "error", "message": "file not found"}
    assert collector.post("/v1/events", json.dumps(call)).is_success

    def told_of_both() -> bool:
        cluster = collector.get("/api/v1/health")["cluster"]
        return bool(cluster["waiting_rows"] and cluster["problem"])

    wait_until(told_of_both)
    told = collector.get("/api/v1/health")["cluster"]
    assert told["problem"].endswith("cannot be reached: ConnectError")
    assert told["behind_seconds"] > 0
    app = open_app(collector.url, "health")
    [warning] = [each.value for each in app.warning if "cluster" in each.value]
    assert "takes nothing" in warning
    said = misstep("doctor", cwd=collector.folder, settings={"COLLECTOR_URL": collector.url}).stdout
    assert "rows wait in the store" in said
    assert secret not in json.dumps(told) + warning + said + collector.logged()
