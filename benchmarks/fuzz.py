"""Malformed bodies, made from valid ones, over HTTP and gRPC: every answer must be a success or a sender's error."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import httpx
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import RunningCollector

JSON, PROTOBUF = "application/json", "application/x-protobuf"
SERVICES = {"logs": "logs.v1.LogsService", "traces": "trace.v1.TraceService", "metrics": "metrics.v1.MetricsService"}
FINAL = frozenset(("OK", "INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"))

WORDS = (
    b"null", b"1e999", b"-1", b"18446744073709551616", b'""', b"[]", b"{}", b"true", b"NaN", b'"\\ud83d"', b"\xff\xfe",
    b'{"arrayValue":{"values":[{}]}}', b'{"kvlistValue":5}', b'{"stringValue":{}}', b'{"intValue":"x"}', b"[" * 300,
    b'{"a":' * 200, b"\x00", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b'"traceId":"zz",', b"9" * 400, b"1.5",
)  # fmt: skip


@dataclass
class Fuzzed:
    """The answers, and descriptions of those that are wrong."""

    answers: Counter[str] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)


def valid(random: Random) -> list[tuple[str, str, bytes]]:
    """(path, media type, body) of requests of every signal in every form."""
    name = f"{random.getrandbits(60):x}"
    told = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "read_file"}},
        {"key": "gen_ai.tool.call.id", "value": {"stringValue": name}},
        {"key": "args", "value": {"kvlistValue": {"values": [{"key": "n", "value": {"intValue": "5"}}]}}},
        {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": True}, {"doubleValue": 1.5}, {}]}}},
        {"key": "raw", "value": {"bytesValue": "AAEC"}},
    ]
    ids = {"traceId": f"{random.getrandbits(127) | 1:032x}", "spanId": f"{random.getrandbits(63) | 1:016x}"}
    event = {"name": "exception", "attributes": [{"key": "exception.type", "value": {"stringValue": "IOError"}}]}
    raw = {"name": "execute_tool read_file", **ids, "kind": 3, "endTimeUnixNano": "1795297311000000000",
           "status": {"code": 2, "message": "not found"}, "attributes": told, "events": [event]}  # fmt: skip
    record = {
        "eventName": "tool",
        "timeUnixNano": 1795297311000000000,
        "body": {"stringValue": "x"},
        "attributes": told,
    }
    point = {"name": "m", "sum": {"dataPoints": [{"asInt": "1", "attributes": told}]}}
    resource = {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "fuzz"}}]}}
    trees: dict[str, tuple[Any, Any]] = {
        "traces": ({"resourceSpans": [{**resource, "scopeSpans": [{"spans": [raw, raw]}]}]}, ExportTraceServiceRequest),
        "logs": ({"resourceLogs": [{**resource, "scopeLogs": [{"logRecords": [record]}]}]}, ExportLogsServiceRequest),
        "metrics": (
            {"resourceMetrics": [{**resource, "scopeMetrics": [{"metrics": [point]}]}]}, ExportMetricsServiceRequest,
        ),
    }  # fmt: skip
    found = [("/v1/events", JSON, json.dumps({"tool": "t", "error": name, "call": {"id": name, "input": {}}}).encode())]
    for signal, (tree, kind) in trees.items():
        text = json.dumps(tree)
        found.append((f"/v1/{signal}", JSON, text.encode()))
        found.append((f"/v1/{signal}", PROTOBUF, _protobuf(tree, kind)))
    return found


def _protobuf(tree: Any, kind: Any) -> bytes:
    def based(node: Any) -> Any:
        """Ids in base64, as in protobuf's own JSON form."""
        if isinstance(node, list):
            return [based(item) for item in node]
        if isinstance(node, dict):
            return {
                key: b64encode(bytes.fromhex(item)).decode() if key in ("traceId", "spanId") else based(item)
                for key, item in node.items()
            }
        return node

    return bytes(ParseDict(based(tree), kind()).SerializeToString())


def mutated(body: bytes, other: bytes, random: Random) -> bytes:
    """The body after one to six changes."""
    out = bytearray(body)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(out) + 1)
        end = min(len(out), at + random.choice((1, 2, 8, 64)))
        match random.randrange(8):
            case 0:
                out[at:end] = random.randbytes(end - at)
            case 1:
                del out[at:end]
            case 2:
                out[at:at] = random.choice(WORDS)
            case 3:
                out[at:end] = random.choice(WORDS)
            case 4:
                out[at:at] = out[at:end] * random.choice((2, 50))
            case 5:
                del out[at:]
            case 6:
                start = random.randrange(len(other) + 1)
                out[at:end] = other[start : start + 64]
            case _:
                if at < len(out):
                    out[at] ^= 1 << random.randrange(8)
    return bytes(out)


ENCODED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, "gzip": gzip.compress, "deflate": zlib.compress, "zstd": bytes, "br": bytes,
}  # fmt: skip


def fuzz(collector: RunningCollector, bodies: int, seed: int, say: Callable[[str], None]) -> Fuzzed:
    """Sends malformed bodies over HTTP and gRPC, and collects everything that must not happen."""
    random, found = Random(seed), Fuzzed()
    failures = collector.get("/api/v1/health")["failures"]
    with httpx.Client(timeout=60) as client, grpc.insecure_channel(collector.grpc) as channel:
        for number in range(1, bodies + 1):
            cases = valid(random)
            path, media, good = random.choice(cases)
            body = mutated(good, random.choice(cases)[2], random)
            signal = path.rsplit("/", 1)[-1]
            if media == PROTOBUF and random.random() < 0.5:
                answer = _grpc(channel, signal, body)
                expected = answer in FINAL
            else:
                answer = _http(client, collector.url + path, media, body, random)
                expected = answer[0] in "24"
            found.answers[answer] += 1
            if not expected:
                found.mistakes.append(f"body {number} of seed {seed} ({path}, {media}): {answer}")
            if number % 1000 == 0:
                say(f"{number}/{bodies} bodies")
        last = client.post(f"{collector.url}/v1/logs", content=b"{}", headers={"content-type": JSON})
    if last.status_code != 200:
        found.mistakes.append(f"afterwards, a valid request is answered {last.status_code}")
    after = collector.get("/api/v1/health")
    ours = {part: count for part, count in after["failures"].items() if count != failures.get(part)}
    if ours:
        found.mistakes.append(f"failures of the collector itself: {ours}")
    if after["accepted"] != after["stored"] + after["duplicate"] + sum(after["dropped"].values()):
        found.mistakes.append("accepted is not stored + duplicate + dropped")
    return found


def _grpc(channel: grpc.Channel, signal: str, body: bytes) -> str:
    call: Any = channel.unary_unary(f"/opentelemetry.proto.collector.{SERVICES[signal]}/Export")
    try:
        call(body, timeout=60)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def _http(client: httpx.Client, url: str, media: str, body: bytes, random: Random) -> str:
    encoding = random.choice(("", "", "", *ENCODED))
    sent = ENCODED[encoding](body)
    if encoding and random.random() < 0.5:
        sent = mutated(sent, body, random)
    headers = {"content-type": media, **({"content-encoding": encoding} if encoding else {})}
    try:
        return str(client.post(url, content=sent, headers=headers).status_code)
    except httpx.TransportError as error:
        return type(error).__name__
