"""Fake secrets are sent in every field in every way, and none is found afterwards in a file, log, export or answer."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import grpc
import httpx
import hyperscan
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.api.endpoints import ENDPOINTS
from collector.columns import TEXTS
from collector.receive.grpc import SERVICES
from collector.sanitise.redactions import load_rules
from collector.sanitise.unwrap import in_base64
from tests.conftest import EVER, RunningCollector, misstep
from tests.secrets import canary

YAML = {"Content-Type": "application/yaml"}

REQUESTS: dict[str, type[Message]] = {
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
# Keys with which agents report calls, in several dialects; each gets the text as its value.
KEYS = (
    *("gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.conversation.id", "gen_ai.agent.name", "gen_ai.request.model"),
    *("gen_ai.provider.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "error.type", "error.message"),
    *("exception.type", "exception.message", "exception.stacktrace", "session.id", "user.id", "user.email", "url.full"),
    *(
        "tool_name",
        "tool_parameters",
        "tool_input",
        "error",
        "prompt",
        "call_id",
        "arguments",
        "output",
        "function_name",
    ),
    *(
        "function_args",
        "mcp.server.name",
        "input.value",
        "output.value",
        "tool.name",
        "file.path",
        "thread.name",
        "a.b",
    ),
    *("service.name", "service.version", "service.instance.id", "deployment.environment.name", "db.statement"),
)
HOOK = ("session_id", "transcript_path", "cwd", "tool_name", "tool_use_id", "error", "prompt", "agent_id", "message")


@pytest.mark.timeout(600)  # with all, half a minute of CPU, on machines that are busy otherwise
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.deep)])
def test_no_canary_is_found_anywhere(collector: RunningCollector, tmp_path: Path, every: int) -> None:
    """Of every rule, or of every seventh, whose canaries take each door in turn."""
    made = random.Random(20261122)
    rules = [rule for rule in load_rules() if rule.family in ("token", "structure", "command", "keyed")]
    assert len(rules) >= 250
    canaries = {rule.id: canary(rule, made) for rule in rules[::every]}
    texts = [text for text, _ in canaries.values()]

    for number, text in enumerate(texts):
        for signal, kind in REQUESTS.items():
            if signal == "metrics" and number % 5:
                continue
            _send(collector, signal, filled(kind(), text, number), door=("json", "protobuf", "grpc")[number % 3])
    for part in range(0, len(texts), 25):
        items = [item for text in texts[part : part + 25] for item in plain_events(text)]
        assert collector.post("/v1/events", json.dumps(items)).is_success
    answers = [*_asked(collector, texts[::5]), *_answers(collector)]
    events = collector.events()
    assert len(events) >= 3 * len(texts)
    assert sum(event["redactions"] or 0 for event in events) >= 10 * len(texts)
    exports = [tmp_path / f"events.{form}" for form in ("jsonl", "csv", "parquet")]
    for path in exports:
        ran = misstep("export", "--format", path.suffix[1:], "--output", path, cwd=tmp_path, settings=_at(collector))
        assert not ran.returncode, ran.stderr
    before = b"".join(path.read_bytes() for path in collector.folder.rglob("*") if path.is_file())
    collector.stop()
    after = b"".join(path.read_bytes() for path in collector.folder.rglob("*") if path.is_file())
    with duckdb.connect(str(collector.store), read_only=True) as store:  # the file's own pages are compressed
        tables = [str(store.table(name).fetchall()).encode() for (name,) in store.execute("show tables").fetchall()]
    secrets = {secret: rule for rule, (_, secret) in canaries.items()}
    everywhere = (before, after, *answers, *tables, *(path.read_bytes() for path in exports))
    assert found(b"\n".join(everywhere), secrets) == {}


def found(text: bytes, secrets: dict[str, str]) -> dict[str, str]:
    """The secrets in the text: plain, in base64, URL-encoded or as JSON strings.

    For each, its rule and the text around it. Half of one counts too if it has 12 characters or more.
    """
    forms: list[tuple[bytes, str]] = []
    for secret, rule in secrets.items():
        half = len(secret) // 2
        halves = (secret[:half], secret[half:]) if half >= 12 else ()
        coded = [code for code in in_base64(secret) if len(code) >= 8]
        ways = {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], *halves, *coded}
        forms += [(way.encode(), rule) for way in ways]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [re.escape(form) for form, _ in forms]
    flags = hyperscan.HS_FLAG_SINGLEMATCH
    database.compile(expressions, ids=list(range(len(forms))), flags=[flags] * len(forms))
    hits: list[tuple[int, int]] = []
    database.scan(text, lambda number, _start, end, _flags, _context: hits.append((number, end)))
    return {forms[number][1]: repr(text[max(0, end - 120) : end + 40]) for number, end in hits}


def filled(message: Message, text: str, number: int) -> Message:
    """Fills every field of the schema in the message and in those inside it; texts are `text`."""
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof and field is not field.containing_oneof.fields[0]:
            continue
        if field.is_repeated:
            _fill_repeated(message, field, text, number)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            filled(getattr(message, field.name), text, number)
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, text)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            length = {"trace_id": 16}.get(field.name, 8)
            setattr(message, field.name, random.Random(f"{number} {field.full_name}").randbytes(length))
        elif field.name.endswith("time_unix_nano"):
            setattr(message, field.name, time.time_ns())
        elif field.name == "code":
            setattr(message, field.name, 2)
    return message


def _fill_repeated(message: Message, field: Any, text: str, number: int) -> None:
    values = getattr(message, field.name)
    if field.message_type is None:
        values.append(text if field.type == FieldDescriptor.TYPE_STRING else 1)
    elif field.message_type.name == "KeyValue":
        values.extend(attributes(text))
        if message.DESCRIPTOR.name == "LogRecord":
            told = {"channel": "monitor", "type": "error", "sessionId": text, "message": text}
            values.extend(KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in told.items())
    elif field.message_type.name not in ("AnyValue", "EntityRef"):
        filled(values.add(), text, number)


def attributes(text: str) -> Iterator[KeyValue]:
    """Attributes with the text as a value of every kind and as a key, and those that make it a tool call."""
    yield KeyValue(key="gen_ai.operation.name", value=AnyValue(string_value="execute_tool"))
    yield KeyValue(key="event.name", value=AnyValue(string_value="tool_result"))
    for key in KEYS:
        yield KeyValue(key=key, value=AnyValue(string_value=text))
    yield KeyValue(key=text, value=AnyValue(string_value="x"))
    nested = KeyValue(key="list")
    nested.value.array_value.values.add(string_value=text)
    nested.value.array_value.values.add(bytes_value=text.encode())
    inner = nested.value.array_value.values.add().kvlist_value.values.add(key=text)
    inner.value.string_value = json.dumps({"a": json.dumps({"b": text})})
    yield nested


def plain_events(text: str) -> Iterator[dict[str, Any]]:
    """Hook payloads, log entries and our own columns with the text in each of their fields."""
    hook = dict.fromkeys(HOOK, text)
    yield {**hook, "hook_event_name": "PostToolUseFailure", "tool_input": {"command": text, text: 1, "list": [text]}}
    yield {
        **dict.fromkeys(TEXTS, text),
        "operation": "tool",
        "outcome": "error",
        "params": text,
        "attributes": {text: 1},
    }
    yield {"channel": "monitor", "type": "error", "sessionId": text, "message": text, "detail": {"errorType": text}}
    yield {"level": "error", "message": text, "category": text, "context": {text: text}, "error": {"stack": text}}


def _send(collector: RunningCollector, signal: str, message: Message, door: str) -> None:
    binary = message.SerializeToString()
    if door == "grpc":
        service = next(name for name, told in SERVICES.items() if told == signal)
        with grpc.insecure_channel(collector.grpc) as channel:
            call: Any = channel.unary_unary(f"/{service}/Export")
            call(binary, timeout=30)
    elif door == "protobuf":
        collector.post(f"/v1/{signal}", binary, {"content-type": "application/x-protobuf"}).raise_for_status()
    else:
        body = json.dumps(_hex_ids(MessageToDict(message, use_integers_for_enums=True)))
        collector.post(f"/v1/{signal}", body).raise_for_status()


def _hex_ids(value: Any) -> Any:
    """Ids in hex, as OTLP/JSON has them, from protobuf's own JSON, which has them in base64."""
    if isinstance(value, list):
        return [_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64decode(item).hex() if key in ids else _hex_ids(item) for key, item in value.items()}


def _asked(collector: RunningCollector, texts: list[str]) -> Iterator[bytes]:
    """The answers to requests that are wrong, or contain a secret themselves."""
    with httpx.Client(base_url=collector.url, timeout=30) as client:
        for text in texts:
            said = quote(text, safe="")
            silence = {"duration": "1h", "author": text, "reason": text, "labels": {"tool": text}}
            rule = json.dumps({"rules": [{"name": text, "measure": text, "condition": text, text: text}]})
            as_json = {"content-type": "application/json"}
            for answer in (
                client.get(f"/api/v1/events?tool={said}&nothing={said}"),
                client.get(f"/api/v1/breakdown?by={said}"),
                client.get(f"/api/v1/values/{said}"),
                client.get(f"/api/v1/events?from={said}", headers={"user-agent": said, "x-note": said}),
                client.get(f"/api/v1/sessions/{said}"),
                client.get(f"/api/v1/rules/{said}/samples"),
                client.delete(f"/api/v1/silences/{said}"),
                client.get(f"/{said}"),
                client.post("/api/v1/silences", json=silence),
                client.post("/api/v1/silences", json={**silence, "rule": text, text: text}),
                client.post("/api/v1/rules/check", content=rule, headers=YAML),
                client.post("/api/v1/rules/check", content=f"rules: [{text}", headers=YAML),
                client.post("/v1/logs", content=text, headers={"content-type": said}),
                client.post("/v1/logs", content=f'{{"resourceLogs": "{text}"}}', headers=as_json),
                client.post("/v1/events", content=text, headers=as_json),
                client.post("/v1/events", content=json.dumps([{text: text}, text]), headers=as_json),
                client.get("/api/v1/events", headers={"host": said, "authorization": f"Bearer {said}"}),
            ):  # fmt: skip
                yield answer.content
                yield str(answer.headers).encode()


def _answers(collector: RunningCollector) -> Iterator[bytes]:
    """The answers of every address of the API and of the collector itself to valid requests."""
    events = collector.events()
    some = {"event_id": events[0]["event_id"], "fingerprint": "0", "dimension": "tool", "session": "x"}
    some["fingerprint"] = next(event["fingerprint"] for event in events if event["fingerprint"])
    some["session"] = quote(next(event["session"] for event in events if event["session"]), safe="")
    some["id"] = "none"
    own = ("/api/v1/health", "/api/v1/alerts?history=true", "/api/v1/rules", "/api/v1/silences", "/metrics", "/readyz")
    more: list[tuple[str, dict[str, str]]] = [("/api/v1/values/session", {}), ("/api/v1/values/service", {})]
    for endpoint in ENDPOINTS:
        path = re.sub(r"\{(\w+):\w+\}", lambda name: some[name[1]], f"/api/v1{endpoint.path}")
        needed = {one.name: one.example for one in endpoint.takes if endpoint.path in ("/check", "/search")}
        more.append((path, needed))
    with httpx.Client(base_url=collector.url, timeout=30) as client:
        for path, needed in more:
            for accept in ("application/json", "application/vnd.apache.arrow.stream"):
                answer = client.get(path, params={"from": EVER, **needed}, headers={"accept": accept})
                if answer.status_code == 400:  # an address without a range
                    answer = client.get(path, params=needed, headers={"accept": accept})
                assert answer.is_success or path.endswith("/lessons/none"), f"{path}: {answer.text}"
                yield answer.content
        for path in (*own, "/openapi.json"):
            yield client.get(path).raise_for_status().content


def _at(collector: RunningCollector) -> dict[str, str]:
    return {"COLLECTOR_URL": collector.url}


def test_a_password_in_an_address_is_told_to_nobody(collector: RunningCollector) -> None:
    """Routing makes one slash of the two in a URL that stands in an address."""
    word = "".join(random.Random(3).choices("bcdfghjkmnpqrstvwxz2456789", k=18))
    places = (
        "sessions/https://{}:x-oauth-basic@example.org/o",
        "groups/postgres://app:{}@db/main",
        "nowhere/redis://:{}@cache/0",
    )
    answers = [httpx.get(f"{collector.url}/api/v1/{place.format(word)}").content for place in places]
    audited = httpx.get(f"{collector.url}/api/v1/audit", params={"from": EVER})
    assert "example.org" in audited.text
    collector.stop()
    written = [path.read_bytes() for path in collector.folder.rglob("*") if path.is_file()]
    assert word.encode() not in b"".join((*answers, audited.content, *written))
