"""Copies to another OTLP endpoint: all of them, once, whatever it answers; without secrets if configured so."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import resource
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from collector import telemetry
from collector.batch import Body
from collector.decode.otlp import JSON, PROTOBUF
from collector.errors import Rejected
from collector.forward import forward
from collector.forward.forward import Forwarder
from collector.forward.raw import without_raw
from collector.forward.sanitised import sanitised
from collector.sanitise.redactions import load_rules
from collector.sanitise.sanitise import FAILED, Sanitiser
from collector.settings import SettingsError, load
from tests.conftest import RunningCollector, largest_file, wait_until
from tests.doors import any_value, logs, pairs, protobuf, span, traces
from tests.search import EXAMPLES
from tests.secrets import Fake, fakes
from tests.webhook import Webhook

TOKEN = "gh" + "p_" + "a1B2c3D4e5" * 3 + "f6G7h8"


class Endpoint(Webhook):
    """An OTLP endpoint that keeps what it receives as (path, headers, decompressed body)."""

    def keep(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.taken.append((path, headers, gzip.decompress(body)))

    @property
    def base(self) -> str:
        return self.url.removesuffix("/hook")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()


def fates() -> dict[str, float]:
    """The fates of copies in this process."""
    [family] = telemetry.FORWARDED.collect()
    return {sample.labels["fate"]: sample.value for sample in family.samples if sample.name.endswith("_total")}


def delivered(forwarder: Forwarder, bodies: list[bytes], seconds: float = 10) -> dict[str, float]:
    """Offers all copies and closes; returns the number of each fate."""
    before = fates()

    async def run() -> None:
        forwarder.start()
        for body in bodies:
            forwarder.offer(Body(body, JSON, "traces"))
        await forwarder.close(seconds)

    asyncio.run(run())
    return {fate: count - before.get(fate, 0) for fate, count in fates().items() if count > before.get(fate, 0)}


def test_every_accepted_request_goes_on_once_as_it_came(
    start_collector: Callable[..., RunningCollector], endpoint: Endpoint
) -> None:
    written = "x-tenant=a%20b,authorization=Bearer%20abc,x-team=M%C3%BCnchen%20"
    running = start_collector(FORWARD=endpoint.base, FORWARD_HEADERS=written)
    one, two, three = traces(span(0)), protobuf(1).SerializeToString(), protobuf(2)
    for _ in range(2):  # the second time it is known, and the copy is on its way
        assert running.post("/v1/traces", gzip.compress(one), {"content-encoding": "gzip"}).status_code == 200
    assert running.post("/v1/traces", two, {"content-type": PROTOBUF}).status_code == 200
    assert running.post("/v1/traces", b"{").status_code == 400
    assert running.post("/v1/events", b'{"tool": "t", "outcome": "ok"}').status_code == 200
    with grpc.insecure_channel(running.grpc) as channel:
        TraceServiceStub(channel).Export(three)
    wait_until(lambda: len(endpoint.taken) == 3)
    assert sorted((path, headers["Content-Type"], body) for path, headers, body in endpoint.taken) == sorted(
        [("/v1/traces", JSON, one), ("/v1/traces", PROTOBUF, two), ("/v1/traces", PROTOBUF, three.SerializeToString())]
    )
    assert {headers["x-tenant"] for _, headers, _ in endpoint.taken} == {"a b"}
    assert {headers["x-team"].encode("latin-1").decode() for _, headers, _ in endpoint.taken} == {"M\u00fcnchen"}
    said = {"to": endpoint.base.removeprefix("http://"), "requests": {"sent": 3}, "queue_bytes": 0}
    wait_until(lambda: running.get("/api/v1/health")["forward"] == said)  # it counts what was answered


def test_what_a_kill_left_in_the_journal_is_stored_and_counted_as_not_forwarded(
    start_collector: Callable[..., RunningCollector], endpoint: Endpoint
) -> None:
    running = start_collector(FORWARD=endpoint.base)
    assert running.process
    assert running.post("/v1/traces", traces(span(0))).status_code == 200
    wait_until(lambda: len(endpoint.taken) == 1)
    large = traces(*(span(number) for number in range(1, 50)))
    with largest_file(running.process.pid, running.store.with_name("misstep.duckdb.wal").stat().st_size + 1000):
        assert running.post("/v1/traces", large).status_code == 200  # by the journal; the store is full
        running.kill()
    running.restart()
    assert len(running.events()) == 50
    assert running.get("/api/v1/health")["forward"]["requests"] == {"left": 1}
    assert running.post("/v1/traces", large).status_code == 200  # known, and so not forwarded
    assert running.post("/v1/traces", traces(span(50))).status_code == 200
    wait_until(lambda: running.get("/api/v1/health")["forward"]["requests"] == {"left": 1, "sent": 1})
    assert len(endpoint.taken) == 2


def test_an_endpoint_that_hangs_delays_no_answer_and_the_end_waits_a_stated_time(
    start_collector: Callable[..., RunningCollector], endpoint: Endpoint
) -> None:
    running = start_collector(FORWARD=f"{endpoint.base}/v1/traces", FORWARD_CONTENT="sanitised")
    endpoint.hold.clear()
    started = time.monotonic()
    for number in range(20):
        secret = {**span(number), "status": {"code": 2, "message": f"no access with {TOKEN}"}}
        assert running.post("/v1/traces", traces(secret)).status_code == 200
        assert running.post("/v1/logs", b"{}").status_code == 200  # this address gets another signal
    assert time.monotonic() - started < 60, "one of forty waited as long as the endpoint holds what it is sent"
    assert not endpoint.taken
    endpoint.hold.set()
    assert running.stop() == 0
    assert len(endpoint.taken) == 20
    assert TOKEN.encode() not in b"".join(body for _, _, body in endpoint.taken)
    assert TOKEN not in running.logged()


def test_what_may_succeed_later_is_tried_again_after_the_stated_time(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.headers = 503, {"Retry-After": "1"}
    times: list[float] = []

    async def run() -> None:
        forwarder = Forwarder(endpoint.base)
        forwarder.start()
        forwarder.offer(Body(b"{}", JSON, "logs"))
        while endpoint.attempts < 1:
            await asyncio.sleep(0.01)
        times.append(time.monotonic())
        endpoint.status = 200
        await forwarder.close(10)
        times.append(time.monotonic())

    asyncio.run(run())
    assert len(endpoint.taken) == 1
    assert 0.9 < times[1] - times[0] < 9


@pytest.mark.parametrize(
    ("status", "fate"), [(400, "refused"), (401, "refused"), (500, "refused"), (503, "expired"), (429, "expired")]
)
def test_what_is_refused_or_never_taken_is_counted(status: int, fate: str, endpoint: Endpoint) -> None:
    endpoint.status = status
    assert delivered(Forwarder(endpoint.base, give_up_s=0.3), [b"{}", b"[]"]) == {fate: 2}


@pytest.mark.parametrize(
    ("media", "answer", "fate"),
    [
        (JSON, b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}', "rejected"),
        (JSON, b'{"partialSuccess": {"errorMessage": "a warning"}}', "sent"),
        (
            PROTOBUF,
            ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=1)).SerializeToString(),
            "rejected",
        ),
        (f"{JSON}; charset=utf-8", b'{"partialSuccess": {"rejectedSpans": 1}}', "rejected"),
        (PROTOBUF, b"", "sent"),
        ("text/html", b"<p>thanks</p>", "sent"),
    ],
)
def test_records_that_the_endpoint_did_not_take_are_told(
    media: str, answer: bytes, fate: str, endpoint: Endpoint
) -> None:
    endpoint.headers, endpoint.body = {"Content-Type": media}, answer
    assert delivered(Forwarder(endpoint.base), [b"{}"]) == {fate: 1}


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        (b"content-encoding: gzip", gzip.compress(bytes(300 << 20), 1)),
        (b"transfer-encoding: chunked", b"1000000\r\n" + bytes(16 << 20) + b"\r\n"),  # again and again
        (b"transfer-encoding: chunked", b"1\r\nx\r\n"),
    ],
    ids=["bomb", "endless", "dripping"],
)
def test_an_answer_without_end_costs_neither_memory_nor_time(
    headers: bytes, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "TIMEOUT_S", 1)
    parts = 1 if headers.startswith(b"content") else 400
    with talker(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n", [answer] * parts) as address:
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fate = delivered(Forwarder(address, give_up_s=0.5), [b"{}"])
    assert fate == {"expired" if len(answer) < 100 else "sent": 1}
    assert time.monotonic() - began < 18, "the 20 s that all its parts take"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


@contextmanager
def talker(head: bytes, parts: list[bytes]) -> Iterator[str]:
    """The address of a server that answers each connection so, one part every 50 ms, until nobody listens."""

    class Door(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            with suppress(OSError):
                self.request.sendall(head)
                for part in parts:
                    self.request.sendall(part)
                    time.sleep(0.05)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Door) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_copy_that_is_slow_to_search_does_not_delay_the_end() -> None:
    def prepare(copy: Body) -> bytes:
        time.sleep(60)
        return copy.content

    began = time.monotonic()
    slow = Forwarder("http://127.0.0.1:9", prepare=prepare)
    assert delivered(slow, [b"{}"], seconds=0.5) == {"not_delivered": 1}
    assert time.monotonic() - began < 30


def test_a_full_queue_drops_and_counts(endpoint: Endpoint) -> None:
    endpoint.hold.clear()
    forwarder = Forwarder(endpoint.base, queue_bytes=1000)
    assert delivered(forwarder, [bytes(300)] * 5, seconds=0.5) == {"queue_full": 2, "not_delivered": 3}


def test_nobody_listening_is_no_reason_to_fail() -> None:
    assert delivered(Forwarder("http://127.0.0.1:9", give_up_s=0.3), [b"{}"]) == {"expired": 1}


SANITISER = Sanitiser(load_rules())


SECRETS_OF_A_CONVERSATION = '{"messages": [{"role": "user", "content": "whole conversation"}]}'
RAW: list[dict[str, Any]] = [
    {"attributes": {"event.name": "api_request_body", "body": SECRETS_OF_A_CONVERSATION}},
    {"attributes": {"event.name": "claude_code.api_response_body", "body": SECRETS_OF_A_CONVERSATION}},
    {"body": "claude_code.api_request_body", "attributes": {"body": SECRETS_OF_A_CONVERSATION}},
    {"eventName": "api_response_body", "body": {"x": SECRETS_OF_A_CONVERSATION}},
]
KEPT = {"body": "claude_code.tool_result", "attributes": {"event.name": "tool_result", "about": "api_request_body"}}


@pytest.mark.parametrize("media", [JSON, PROTOBUF])
@pytest.mark.parametrize("record", RAW)
def test_raw_bodies_do_not_go_on(record: dict[str, Any], media: str) -> None:
    body = logs(record, KEPT, service="claude-code")
    escaped = body.replace(b"api_re", b"\\u0061pi_re")
    if media == PROTOBUF:
        body = escaped = Parse(body, ExportLogsServiceRequest()).SerializeToString()
    for one in (body, escaped):
        copy = without_raw(one, media, "logs")
        assert b"conversation" not in copy
        assert b"claude_code.tool_result" in copy
        assert without_raw(copy, media, "logs") is copy
    assert without_raw(body, media, "traces") is body


def test_raw_bodies_go_on_only_where_a_setting_says_so(
    start_collector: Callable[..., RunningCollector], endpoint: Endpoint
) -> None:
    body = logs(RAW[0], KEPT, service="claude-code")
    settings: list[dict[str, str]] = [{}, {"FORWARD_CONTENT": "sanitised"}, {"FORWARD_RAW": "true"}]
    for number, more in enumerate(settings, 1):
        start_collector(FORWARD=endpoint.base, **more).post("/v1/logs", body)
        wait_until(partial(lambda wanted: len(endpoint.taken) == wanted, number))
    assert [b"whole conversation" in copy for _, _, copy in endpoint.taken] == [False, False, True]


def placed(value: Any) -> dict[str, Any]:
    """A request with the value wherever OTLP allows one."""
    told = pairs({"x": value, "list": [value], "map": {"x": value}})
    record = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "2", "timeUnixNano": "1795297311000000000",
              "body": any_value({"x": value}), "attributes": told}  # fmt: skip
    scope = {"scope": {"name": "s", "attributes": told}, "logRecords": [record, {"body": any_value(value)}]}
    return {"resourceLogs": [{"resource": {"attributes": told}, "scopeLogs": [scope]}]}


def test_a_value_is_cut_wherever_it_stands() -> None:
    for fake in islice(fakes(load_rules(), 7, per_kind=1), 0, None, max(1, 100 // EXAMPLES)):
        check_cut(fake)


def check_cut(fake: Fake) -> None:
    clean = SANITISER.scrub_value({"x": fake.value})[0]
    assert isinstance(clean, dict)
    found = json.loads(sanitised(json.dumps(placed(fake.value)).encode(), JSON, "logs", SANITISER))
    [group] = found["resourceLogs"]
    [scope] = group["scopeLogs"]
    for holder in (group["resource"], scope["scope"], scope["logRecords"][0]):
        assert holder["attributes"][0] == {"key": "x", "value": any_value(clean["x"])}
        assert holder["attributes"][2] == {"key": "map", "value": any_value({"x": clean["x"]})}
    assert scope["logRecords"][0]["body"] == any_value({"x": clean["x"]})


def everywhere(text: str) -> ExportTraceServiceRequest:
    """A protobuf request with the text in every field that can contain one."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add(schema_url=text)
    group.resource.attributes.add(key="a").value.string_value = text
    part = group.scope_spans.add(schema_url=text)
    part.scope.name = part.scope.version = text
    raw = part.spans.add(name=text, trace_state=text, trace_id=bytes(15) + b"\1", span_id=bytes(7) + b"\1")
    raw.status.message = text
    raw.events.add(name=text).attributes.add(key=text).value.string_value = text
    raw.links.add(trace_state=text).attributes.add(key="b").value.bytes_value = text.encode()
    raw.attributes.add(key="a").value.array_value.values.add().kvlist_value.values.add(
        key="password"
    ).value.string_value = text
    raw.attributes.add(key="a").value.int_value = 7  # the same key twice
    return message


def test_no_text_of_a_protobuf_message_is_left_out() -> None:
    body = everywhere(f"with {TOKEN} in it").SerializeToString() + b"\xf2\x3f\x04gh" + b"p_"  # and an unknown field
    found = sanitised(body, PROTOBUF, "traces", SANITISER)
    assert b"gh" + b"p_" not in found
    raw = ExportTraceServiceRequest.FromString(found).resource_spans[0].scope_spans[0].spans[0]
    assert (raw.trace_id[-1], raw.span_id[-1], raw.attributes[1].value.int_value) == (1, 1, 7)
    assert raw.name == "with [redacted:github-token] in it"


def test_what_holds_no_secret_stays_as_it_is() -> None:
    message = everywhere("nothing of interest")
    del message.resource_spans[0].scope_spans[0].spans[0].attributes[:]
    assert sanitised(message.SerializeToString(), PROTOBUF, "traces", SANITISER) == message.SerializeToString()
    tree = {"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "kind": 3, "unknown": [1, {"a": None}],
         "attributes": pairs({"max_tokens": 4096, "rate": 0.5, "whole": 2.0, "yes": True, "none": None, "no": []})}
    ]}]}]}  # fmt: skip
    assert json.loads(sanitised(json.dumps(tree).encode(), JSON, "traces", SANITISER)) == tree
    assert sanitised(b"", JSON, "traces", SANITISER) == b""


@pytest.mark.parametrize("other", [{"value": {"stringValue": "x"}}, {}, None])
def test_an_attribute_without_a_key_leaves_the_others_their_rules(other: Any) -> None:
    tree = {"resource": {"attributes": [other, *pairs({"password": "hunter2h"})]}}
    found = json.loads(sanitised(json.dumps({"resourceSpans": [tree]}).encode(), JSON, "traces", SANITISER))
    attributes = found["resourceSpans"][0]["resource"]["attributes"]
    assert attributes[-1] == {"key": "password", "value": {"stringValue": "[redacted:password]"}}
    assert attributes[:-1] == ([] if other is None else [{"key": "", "value": other.get("value", {})}])


def test_an_id_that_is_none_is_removed() -> None:
    ids = {"traceId": "AKIA" + "2345672345672345", "spanId": "0af7651916cd43dd", "parentSpanId": "hunter2hunter2hu"}
    raw = {**span(0), **ids, "links": [{"traceId": "0AF7651916cd43dd8448eb211c80319c", "spanId": "ab"}]}
    [one] = json.loads(sanitised(traces(raw), JSON, "traces", SANITISER))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (one["traceId"], one["spanId"], one["parentSpanId"]) == ("", ids["spanId"], "")
    assert one["links"] == [{"traceId": "0AF7651916cd43dd8448eb211c80319c", "spanId": ""}]
    message = everywhere("x")
    other = message.resource_spans[0].scope_spans[0].spans[0]
    other.trace_id, other.parent_span_id = b"AKIA" + b"2345672345672345", b"hunter2h2"
    other.links[0].trace_id, other.links[0].span_id = bytes(range(16)), TOKEN.encode()
    clean = sanitised(message.SerializeToString(), PROTOBUF, "traces", SANITISER)
    found = ExportTraceServiceRequest.FromString(clean).resource_spans[0].scope_spans[0].spans[0]
    assert (found.trace_id, found.span_id, found.parent_span_id) == (b"", bytes(7) + b"\1", b"")
    assert (found.links[0].trace_id, found.links[0].span_id) == (bytes(range(16)), b"")


def test_lists_and_maps_without_end_are_shortened_with_a_mark() -> None:
    small = {f"k{number}": f"value {number}" for number in range(20_000)}
    body = logs({"attributes": {"map": small, "list": [small], "x": 1}, "body": small}, {"attributes": small})
    log = ExportLogsServiceRequest()
    Parse(body, log)
    for found in (
        ExportLogsServiceRequest.FromString(sanitised(log.SerializeToString(), PROTOBUF, "logs", SANITISER)),
        Parse(sanitised(body, JSON, "logs", SANITISER), ExportLogsServiceRequest()),
    ):
        one, two = found.resource_logs[0].scope_logs[0].log_records
        for value in (one.attributes[0].value.kvlist_value, one.body.kvlist_value):
            assert 1_000 < len(value.values) < 5_000
            assert re.fullmatch(r"\[redacted:oversize:[45]\d{5}\]", value.values[-1].key)
        assert "[redacted:oversize:" in one.attributes[1].value.array_value.values[-1].string_value
        assert one.attributes[2].value.int_value == 1
        assert len(two.attributes) == 20_000  # as many as a record may have
    [record] = json.loads(
        sanitised(logs({"attributes": {f"k{number}": "x" * 1000 for number in range(5_000)}}), JSON, "logs", SANITISER)
    )["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert len(record["attributes"]) == 1_029
    assert record["attributes"][-1]["key"] == "[redacted:oversize:5000000]"


@pytest.mark.parametrize("media", [JSON, PROTOBUF])
def test_what_takes_too_long_to_search_is_dropped_from_the_copy(media: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.forward.sanitised.SEARCH_S", -1)
    raw = {**span(0), "status": {"code": 2, "message": f"no access with {TOKEN}"}, "attributes": pairs({"n": 1})}
    body = traces({**raw, "events": [{"name": "x", "attributes": pairs({"label": "password", "value": "hunter2h"})}]})
    message = Parse(body, ExportTraceServiceRequest())
    given = body if media == JSON else message.SerializeToString()
    clean = sanitised(given, media, "traces", SANITISER)
    found = Parse(clean, message) if media == JSON else ExportTraceServiceRequest.FromString(clean)
    [one] = found.resource_spans[0].scope_spans[0].spans
    assert (one.name, one.status.message, one.attributes[0].value.int_value) == (raw["name"], FAILED, 1)
    assert b"hunter2" not in clean


def test_unknown_fields_of_json_are_searched_too() -> None:
    tree = {"resourceLogs": [{"note": TOKEN, "password": "hunter2hunter", "deep": {"er": [TOKEN]}}]}
    found = sanitised(json.dumps(tree).encode(), JSON, "logs", SANITISER).decode()
    assert TOKEN not in found
    assert "hunter2" not in found


@pytest.mark.parametrize("body", [b"{", b'{"resourceLogs":' + b"[" * 5000 + b"]" * 5000 + b"}", b"\xff"])
def test_what_cannot_be_read_does_not_go_on(body: bytes) -> None:
    with pytest.raises(Rejected):
        sanitised(body, JSON, "logs", SANITISER)
    with pytest.raises(Rejected):
        sanitised(b"\x00" + body, PROTOBUF, "logs", SANITISER)
    assert sanitised(ExportLogsServiceRequest().SerializeToString(), PROTOBUF, "logs", SANITISER) == b""


@pytest.mark.parametrize(
    "value",
    [{"intValue": "5.0"}, {"intValue": [1]}, {"doubleValue": "x"}, {"bytesValue": "a!"}, {"bytesValue": {"0": 1}}],
)
def test_a_value_that_is_none_costs_no_copy(value: dict[str, Any]) -> None:
    about = [{"key": "password", "value": {"stringValue": TOKEN}}, {"key": "n", "value": value}]
    record = {"body": {"stringValue": "x"}, "attributes": about}
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
    copy = sanitised(body, JSON, "logs", SANITISER)
    [resource] = json.loads(copy)["resourceLogs"]
    [read] = resource["scopeLogs"][0]["logRecords"]
    assert (read["body"], read["attributes"][1]) == ({"stringValue": "x"}, {"key": "n", "value": {}})
    assert TOKEN.encode() not in copy


def test_what_the_door_mends_goes_on_mended() -> None:
    message = ExportLogsServiceRequest()
    message.resource_logs.add().scope_logs.add().log_records.add().body.string_value = f"token {TOKEN} XX"
    copy = sanitised(message.SerializeToString().replace(b"XX", b"\xff\xfe"), PROTOBUF, "logs", SANITISER)
    [record] = ExportLogsServiceRequest.FromString(copy).resource_logs[0].scope_logs[0].log_records
    assert record.body.string_value.endswith(" \ufffd\ufffd")
    assert TOKEN not in record.body.string_value


@pytest.mark.parametrize("wrong", ["localhost:4318", "grpc://localhost:4317", "http://"])
def test_an_address_that_is_none_is_named_without_its_password(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"forward = \*\*\*: write an address"):
        load({}, {"MISSTEP_FORWARD": wrong})


@pytest.mark.parametrize("wrong", ["a=hunter2%0A", "a=hunter2%0d%0aX: y", "a=%00", "a=b\x7f"])
def test_headers_with_what_none_can_carry_are_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"forward_headers = \*\*\*: entry 1: has a control character"):
        load({}, {"MISSTEP_FORWARD_HEADERS": wrong})


@pytest.mark.parametrize("wrong", ["=x", "Authorization: Bearer abc", "abc", "authorization=Basic a,b", "a b=c", "a="])
def test_headers_that_are_none_are_refused_without_their_values(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"forward_headers = \*\*\*: entry \d: write name=value"):
        load({}, {"MISSTEP_FORWARD_HEADERS": wrong})


def test_forwarding_costs_no_memory_where_it_is_off() -> None:
    loaded = "import sys, collector.serve; print([one for one in sys.modules if one.startswith('collector.forward')])"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True) == "[]\n"


def test_the_recipe_sends_every_signal_to_a_base_address_and_never_gives_up() -> None:
    text = (Path(__file__).parent.parent / "docs/forward.md").read_text()
    [recipe] = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    written = yaml.safe_load(recipe)
    name = "otlp_http/misstep"
    exporter = written["exporters"][name]
    assert exporter["endpoint"] == load({}, {}, Path("no such file")).collector_url
    assert exporter["compression"] == "gzip"
    assert exporter["retry_on_failure"]["max_elapsed_time"] == "0s"
    pipelines = written["service"]["pipelines"]
    assert set(pipelines) == {"traces", "logs", "metrics"}
    for pipeline in pipelines.values():
        assert pipeline["exporters"] == list(written["exporters"]), "beside the one that is there"
        assert pipeline["receivers"] == list(written["receivers"])
        assert "processors" not in pipeline, "a rate needs its denominator"
