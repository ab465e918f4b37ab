"""The ways in, in the test process: objects as OTLP log records or plain JSON, through the real tables to events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.batch import Batch
from collector.classify.classify import load_taxonomy
from collector.columns import Row
from collector.engine.duckdb.store import Store
from collector.pipeline import Pipeline
from collector.recognise.source_tables import load_sources
from collector.sanitise.redactions import load_rules
from collector.sanitise.sanitise import Sanitiser
from tests.memory import Memory, commit
from tests.recorded import emptied

NOW = 1_795_297_311_000_000_000  # 2026-11-21T21:41:51Z
MS = NOW // 10**6 - 1000  # the format of the documented log entries
DOORS = ("flat", "nested", "body map", "body text", "events")

# One error as KODE reports it twice: on the monitor channel and on the progress channel.
KODE_MONITOR = {
    "channel": "monitor",
    "type": "error",
    "severity": "warn",
    "phase": "tool",
    "timestamp": MS,
    "sessionId": "agt-1",
    "message": "File not found: /src/a.ts",
    "detail": {"errorType": "runtime", "retryable": True},
}
KODE_PROGRESS = {
    "channel": "progress",
    "type": "tool:error",
    "error": "File not found: /src/a.ts",
    "sessionId": "agt-1",
    "call": {"id": "call-1", "name": "fs_read", "state": "FAILED", "input": {"path": "/src/a.ts"}},
    "bookmark": {"seq": 12, "timestamp": MS},
}


@cache
def pipeline() -> Pipeline:
    """The pipeline with the built-in tables."""
    tables = load_sources(), load_taxonomy()
    return Pipeline(*tables, Sanitiser(load_rules()), b"a key of the tests")


def any_value(value: Any) -> dict[str, Any]:
    """A Python value in OTLP/JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    return {"kvlistValue": {"values": pairs(value)}} if isinstance(value, dict) else {}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def flattened(item: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The object as an exporter without maps writes it: `detail.errorType`."""
    flat: dict[str, Any] = {}
    for key, value in item.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def logs(*records: dict[str, Any], service: str = "", scope: str = "") -> bytes:
    """A request of log records, each given by its OTLP fields with `attributes` and `body` as plain values."""
    raw = []
    for number, record in enumerate(records):
        one: dict[str, Any] = {"timeUnixNano": str(NOW + number)} | record
        one["attributes"] = pairs(record.get("attributes", {}))
        one["body"] = any_value(record.get("body"))
        raw.append(one)
    resource = {"attributes": pairs({"service.name": service} if service else {})}
    return json.dumps(
        {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": {"name": scope}, "logRecords": raw}]}]}
    ).encode()


def spans(*records: dict[str, Any], service: str = "", scope: str = "") -> bytes:
    """A request of spans; `status` is 0, 1 or 2, ids are short hex, which is padded."""
    raw = []
    for number, record in enumerate(records):
        one = {"startTimeUnixNano": str(NOW - 10**9), "endTimeUnixNano": str(NOW + number)} | record
        one["attributes"] = pairs(record.get("attributes", {}))
        one["status"] = {"code": record.get("status", 0), "message": record.get("status_message", "")}
        one["traceId"] = str(record.get("traceId", "a")).rjust(32, "0")
        one["spanId"] = str(record.get("spanId", f"{number + 1:x}")).rjust(16, "0")
        if "parentSpanId" in record:
            one["parentSpanId"] = record["parentSpanId"].rjust(16, "0")
        one["events"] = [event | {"attributes": pairs(event["attributes"])} for event in record.get("events", ())]
        raw.append(one)
    resource = {"attributes": pairs({"service.name": service} if service else {})}
    return json.dumps(
        {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": scope}, "spans": raw}]}]}
    ).encode()


def taken(body: bytes, signal: str = "logs") -> Batch:
    """The batch of a request; `signal` is logs, traces or events."""
    return pipeline().process(body, "application/json", signal, NOW)


def through(door: str, item: dict[str, Any], service: str = "my-agent") -> Batch:
    """The batch of an object that is sent through one of the DOORS."""
    if door == "events":
        return taken(json.dumps(item | ({"service": service} if service else {})).encode(), "events")
    records: dict[str, dict[str, Any]] = {
        "flat": {"attributes": flattened(item)},
        "nested": {"attributes": item},
        "body map": {"body": item},
        "body text": {"body": json.dumps(item)},
    }
    return taken(logs(records[door], service=service))


def only(batch: Batch) -> Any:
    """The one report of a batch."""
    assert len(batch.reports) == 1, (batch.reports, batch.dropped)
    return batch.reports[0]


def stored(*groups: Iterable[Batch]) -> list[Row]:
    """The events after these batches, each group in a commit of its own, oldest first."""
    memory = Memory()
    commit(memory, groups)
    return memory.rows()


def held(store: Store, *groups: Iterable[Batch]) -> list[Row]:
    """The same where what the columns of DuckDB can hold matters; `store` has nothing else."""
    commit(emptied(store), groups)
    return store.rows("select * from events order by time_ns, event_id")


def missing(report: Any, wanted: Row) -> Row:
    """The wanted values that a report does not have, with its own values instead."""
    return {name: report.get(name) for name, value in wanted.items() if report.get(name) != value}


def cline(name: str, **attributes: Any) -> dict[str, Any]:
    """A log record as Cline sends it, with the event's name as its body."""
    return {"body": name, "attributes": {"ulid": "u1", **attributes}}


PROTOBUF = {"content-type": "application/x-protobuf"}


def span(number: int, *, error: str = "", session: str = "S") -> dict[str, Any]:
    """A span of a tool call as OTLP/JSON, with a call id; `error` is its error.type."""
    attributes = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file", "gen_ai.conversation.id": session,
        "gen_ai.tool.call.id": f"call_{session}_{number}",
    }  # fmt: skip
    if error:
        attributes["error.type"] = error
    now = time.time_ns()
    return {
        "name": "execute_tool read_file", "traceId": f"{number + 1:032x}", "spanId": f"{number + 1:016x}", "kind": 1,
        "startTimeUnixNano": str(now - 1000), "endTimeUnixNano": str(now), "status": {"code": 2 if error else 0},
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }  # fmt: skip


def traces(*spans: dict[str, Any]) -> bytes:
    """A request of these spans as OTLP/JSON."""
    service = [{"key": "service.name", "value": {"stringValue": "demo"}}]
    scopes = [{"scope": {"name": "agent"}, "spans": list(spans)}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": scopes}]}).encode()


def protobuf(number: int) -> ExportTraceServiceRequest:
    """A request of one span of a tool call as protobuf, without a call id."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "demo"
    raw = group.scope_spans.add().spans.add(
        name="execute_tool read_file",
        trace_id=(number + 1).to_bytes(16, "big"),
        span_id=(number + 1).to_bytes(8, "big"),
        end_time_unix_nano=time.time_ns(),
    )  # fmt: skip
    raw.attributes.add(key="gen_ai.operation.name").value.string_value = "execute_tool"
    raw.attributes.add(key="gen_ai.tool.name").value.string_value = "read_file"
    return message
