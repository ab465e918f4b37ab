"""What users send besides tool calls: agents most of whose spans are noise, and frameworks that repeat the whole
conversation in each model request. And sessions whose events come in order, for the keeper of streaks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from collector.batch import Batch
from collector.correlate.correlate import Correlator
from collector.decode.otlp import JSON, PROTOBUF
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.pipeline import Pipeline
from collector.times import SECOND

NOISE = ("append_items", "handle_responses", "session_loop", "stream_request", "file_system_sandbox", "get_config")
SPANS, CALLS = 500, 25  # in a request of noise; of these, tool calls: as one coding agent sends them
TURNS = 24  # of a conversation
WORDS = "reads the module then writes a test for its parser and runs all of them again to see what is left to do"


def attribute(key: str, value: str) -> dict[str, Any]:
    """One attribute as OTLP/JSON."""
    return {"key": key, "value": {"stringValue": value}}


def span(random: Random, name: str, now_ns: int, attributes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One span as OTLP/JSON, below another."""
    return {
        "traceId": f"{random.getrandbits(128) | 1:032x}", "spanId": f"{random.getrandbits(64) | 1:016x}",
        "parentSpanId": f"{random.getrandbits(64) | 1:016x}", "name": name, "kind": 1,
        "startTimeUnixNano": str(now_ns - 50_000_000), "endTimeUnixNano": str(now_ns), "attributes": attributes,
    }  # fmt: skip


def request(service: str, scopes: Mapping[str, Sequence[dict[str, Any]]]) -> bytes:
    """A request with the spans of each of these scopes."""
    resource = {"attributes": [attribute("service.name", service)]}
    parts = [{"scope": {"name": scope}, "spans": list(spans)} for scope, spans in scopes.items()]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": parts}]}, separators=(",", ":")).encode()


def noise(random: Random, now_ns: int) -> bytes:
    """A request of which nineteen spans in twenty are internals of the agent, in a scope that a table claims."""
    spans: dict[str, list[dict[str, Any]]] = {"codex_exec": [], "an.agent": []}
    for number in range(SPANS):
        more = [("code.file.path", "core/session.rs"), ("code.module.name", "core::session"), ("thread.name", "w-3")]
        more += [(f"busy.part_{place}", f"{random.random():.6f}") for place in range(5)]
        scope, name = "codex_exec", random.choice(NOISE)
        if number % (SPANS // CALLS) == 0:
            scope, name = "an.agent", "execute_tool shell"
            more += [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "shell"),
                     ("gen_ai.tool.call.id", f"call_{random.getrandbits(96):024x}")]  # fmt: skip
        spans[scope].append(span(random, name, now_ns + number, [attribute(*pair) for pair in more]))
    return request("codex_exec", spans)


def conversation(random: Random, now_ns: int) -> Iterator[bytes]:
    """The requests of a conversation: each repeats all messages before it, and tells one result more."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "parts": [{"type": "text", "content": WORDS * 8}]},
        {"role": "user", "parts": [{"type": "text", "content": WORDS}]},
    ]
    for turn in range(TURNS):
        call_id = f"call_{random.getrandbits(96):024x}"
        arguments = {"path": f"/srv/shop/src/module_{random.randrange(10_000)}.py"}
        asked = {"type": "tool_call", "id": call_id, "name": "read_file", "arguments": arguments}
        failed = f"Error: file not found: {arguments['path']}" if random.random() < 0.2 else WORDS * 4
        told = {"type": "tool_call_response", "id": call_id, "response": failed}
        messages += [{"role": "assistant", "parts": [asked]}, {"role": "tool", "parts": [told]}]
        attributes = [
            attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.request.model", "a-model"),
            attribute("gen_ai.provider.name", "a-provider"), attribute("gen_ai.input.messages", json.dumps(messages)),
        ]  # fmt: skip
        asking = span(random, "chat a-model", now_ns + turn * SECOND, attributes)
        yield request("a-framework", {"a.framework": [asking]})


def read_all(ready: Pipeline, bodies: Sequence[bytes]) -> None:
    """Reads requests, each of which is stored before the next one comes."""
    for body in bodies:
        batch = ready.process(body, JSON, "traces", time.time_ns())
        ready.stored(batch.told_ns)


def stored(ready: Pipeline, store: Store, bodies: Sequence[bytes], keeping: list[float]) -> None:
    """Stores requests one by one, and adds to `keeping` the CPU seconds of the keeper after each."""
    correlator = Correlator(Lookup(store), fresh=True)
    for body in bodies:
        batches: list[Batch] = [ready.process(body, PROTOBUF, "traces", time.time_ns())]
        changes = correlator.plan(batches)
        store.write(changes)
        correlator.learn(changes)
        began = time.process_time()
        store.keep_up()
        keeping.append(time.process_time() - began)
