"""CPU time per event from request bytes to committed rows, compared with parsing the same bytes in the same run.

    python -m benchmarks.ingest [--requests 40] [--events 500] [--recordings FOLDER…]

In one process, without HTTP: senders and sockets are not included. Microseconds of CPU time of all threads.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from benchmarks import traffic
from collector.batch import Batch
from collector.classify.classify import load_taxonomy
from collector.columns import TABLES
from collector.commands.recordings import find
from collector.commands.recordings import read as recordings
from collector.correlate.correlate import Correlator
from collector.decode.json_messages import DECODERS
from collector.decode.otlp import JSON, PROTOBUF, decode
from collector.engine.duckdb.arrow import ArrowColumns, columns_of
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.pipeline import Pipeline
from collector.recognise.source_tables import load_sources
from collector.sanitise.redactions import load_rules
from collector.sanitise.sanitise import Sanitiser
from collector.times import SECOND

# What each may take, in µs of CPU time.
EVENT_US, NOISE_US, CONVERSATION_US, KEEPER_US = 35, 8, 110, 4
GROUP = 8  # requests in one transaction, as under load (`WORTH_BYTES` of the writer)


def main() -> None:
    """Prints one line per way to read the same requests, with its ratio to the reference line of its encoding."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=40)
    arguments.add_argument("--events", type=int, default=500)
    arguments.add_argument(
        "--recordings", type=Path, nargs="*", default=[], help="OTLP bodies as `misstep replay` reads"
    )
    given = arguments.parse_args()
    ready = pipeline()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # as in the collector
    synthetic(ready, given.requests, given.events)
    others(ready, given.requests, given.events)
    if given.recordings:
        recorded(ready, given.recordings)
    gc.unfreeze()  # otherwise the engine's Python binding reports frozen objects as leaks


def synthetic(ready: Pipeline, requests: int, events: int) -> None:
    """Tool calls with 14 attributes, in both encodings, each compared with parsing the bytes alone."""
    random, now_ns = Random(1), time.time_ns()
    messages = [request(random, events, now_ns) for _ in range(requests)]
    binary = [message.SerializeToString() for message in messages]
    text = [otlp_json(message) for message in messages]
    total = requests * events
    sizes = [sum(map(len, bodies)) / total for bodies in (text, binary)]
    print(f"{total} events, {sizes[0]:.0f} bytes each in JSON, {sizes[1]:.0f} in protobuf; µs of CPU time per event")
    typed = DECODERS["traces"].decode
    table = Table(total)
    table.line("JSON, orjson.loads alone", lambda: each(orjson.loads, text), reference=True)
    table.line("JSON, attributes left as bytes", lambda: each(typed, text))
    table.line("JSON, bytes to batches", lambda: each(partial(read, ready, JSON), text))
    with fresh_store(total) as store:
        table.line("JSON, bytes to committed rows", lambda: commit(ready, store, text, JSON), budget=EVENT_US)
    with fresh_store(total) as store:
        arrays = events_of(ready, store, text)
        table.line("of these, the engine with `events`", lambda: insert(store, arrays))
    table.line("protobuf, FromString alone", lambda: each(ExportTraceServiceRequest.FromString, binary))
    table.line("protobuf, every attribute read", lambda: each(walk, binary), reference=True)
    table.line("protobuf, bytes to batches", lambda: each(partial(read, ready, PROTOBUF), binary))
    with fresh_store(total) as store:
        table.line("protobuf, bytes to committed rows", lambda: commit(ready, store, binary, PROTOBUF), budget=EVENT_US)


def others(ready: Pipeline, requests: int, events: int) -> None:
    """What the same tool calls do not show: noise, conversations, and the keeper of streaks; each in its own unit."""
    random, now_ns = Random(2), time.time_ns()
    bodies = [traffic.noise(random, now_ns) for _ in range(requests)]
    table = Table(requests * traffic.SPANS)
    print(f"{table.total} spans of agents, 19 in 20 of them noise; µs of CPU time per span")
    table.line("orjson.loads alone", lambda: each(orjson.loads, bodies), reference=True)
    table.line("bytes to batches", lambda: traffic.read_all(ready, bodies), budget=NOISE_US)
    talks = [body for _ in range(requests) for body in traffic.conversation(random, now_ns)]
    table = Table(len(talks))
    print(f"{table.total} model requests that repeat their conversation; µs of CPU time per request")
    table.line("orjson.loads alone", lambda: each(orjson.loads, talks), reference=True)
    table.line("bytes to batches", lambda: traffic.read_all(ready, talks), budget=CONVERSATION_US)
    # The events of a session come in order: each request begins when the one before has ended.
    later = [request(random, events, now_ns - (requests - n) * SECOND).SerializeToString() for n in range(requests)]
    keeping: list[float] = []
    with fresh_store(requests * events) as store:
        traffic.stored(ready, store, later, keeping)
    print(f"{requests * events} events, computed after every {events}; µs of CPU time per event")
    Table(requests * events).told("streaks and chains kept up", sum(keeping), KEEPER_US)


def recorded(ready: Pipeline, places: Sequence[Path]) -> None:
    """Requests as agents sent them; most of their records are not events. µs per record."""
    found = [one for path in find(places) for one in recordings(path) if one.signal in ("logs", "traces")]
    bodies = [one for one in found if one.media_type == JSON]
    total = sum(decode(one.body, JSON, one.signal).records for one in bodies)
    print(f"{len(bodies)} recorded JSON requests, {total} records; µs of CPU time per record")
    table = Table(total)
    table.line("orjson.loads alone", lambda: each(orjson.loads, [one.body for one in bodies]), reference=True)
    table.line(
        "bytes to batches", lambda: [ready.process(one.body, JSON, one.signal, time.time_ns()) for one in bodies]
    )


@dataclass
class Table:
    """Lines of one run; ratios are to the last reference line."""

    total: int
    reference_s: float = 0

    def line(self, title: str, run: Callable[[], object], *, reference: bool = False, budget: float = 0) -> None:
        """Calls `run` and prints its CPU time per event in µs."""
        started = time.process_time()
        run()
        used = time.process_time() - started
        if reference:
            self.reference_s = used
        self.told(title, used, budget)

    def told(self, title: str, used_s: float, budget: float = 0) -> None:
        """Prints CPU time per event in µs, its ratio to the reference, and the budget if there is one."""
        ratio = f"{used_s / self.reference_s:6.1f} ×" if self.reference_s else " " * 8
        wanted = f"  budget {budget:g}" if budget else ""
        print(f"{title:<36} {used_s / self.total * 1e6:6.1f} {ratio}{wanted}".rstrip(), flush=True)


def walk(body: bytes) -> None:
    """Reads every attribute of every span: the least that a receiver does that uses attributes."""
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                {pair.key: pair.value.string_value for pair in span.attributes}


def each(do: Callable[[bytes], object], bodies: Sequence[bytes]) -> None:
    """Calls `do` with each body. Results are not kept: their garbage collection would be measured too."""
    for body in bodies:
        do(body)


def pipeline() -> Pipeline:
    """The pipeline of a collector with default settings."""
    return Pipeline(
        load_sources(),
        load_taxonomy(),
        Sanitiser(load_rules()),
        b"a key of the benchmark",
    )


@contextmanager
def fresh_store(events: int) -> Iterator[Store]:
    """A store in a temporary file. Ends the run if it does not contain `events` events afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(f"duckdb:///{Path(folder, 'bench.duckdb')}")
        yield store
        stored = store.rows("select count(*) as n from events")[0]["n"]
        store.close()
    if stored != events:
        raise SystemExit(f"{stored} events were stored, not {events}: the figures are wrong")


def read(ready: Pipeline, media_type: str, body: bytes) -> Batch:
    """One request as a batch."""
    return ready.process(body, media_type, "traces", time.time_ns())


def commit(ready: Pipeline, store: Store, bodies: Sequence[bytes], media_type: str) -> None:
    """Stores requests as rows, as the writer does."""
    correlator = Correlator(Lookup(store), fresh=True)
    for start in range(0, len(bodies), GROUP):
        changes = correlator.plan([read(ready, media_type, body) for body in bodies[start : start + GROUP]])
        store.write(changes)
        correlator.learn(changes)


def events_of(ready: Pipeline, store: Store, bodies: Sequence[bytes]) -> list[tuple[ArrowColumns, str]]:
    """The events of each transaction as Arrow, with the names of their columns."""
    correlator, types = Correlator(Lookup(store), fresh=True), TABLES["events"]
    found = []
    for start in range(0, len(bodies), GROUP):
        changes = correlator.plan([read(ready, JSON, body) for body in bodies[start : start + GROUP]])
        columns = columns_of(changes.events, types)
        found.append((ArrowColumns(columns, types), ", ".join(f'"{name}"' for name in columns)))
    return found


def insert(store: Store, arrays: Sequence[tuple[ArrowColumns, str]]) -> None:
    """Inserts finished Arrow data into one table: a collector on this engine cannot take less."""
    for incoming, names in arrays:  # noqa: B007 -- the engine finds `incoming` by its name
        with store.transaction() as cursor:
            cursor.execute(f"insert into events ({names}) select {names} from incoming")


def request(random: Random, events: int, now_ns: int) -> ExportTraceServiceRequest:
    """Tool calls of one service: 14 attributes each, one in five failed, one failure in ten with a secret in it."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    put(resource.resource.attributes, {"service.name": "bench", "service.version": "1.0"})
    scope = resource.scope_spans.add()
    for _ in range(events):
        failed = random.random() < 0.2
        span = scope.spans.add(name="execute_tool read_file", kind=1, start_time_unix_nano=now_ns - 50_000_000)
        span.end_time_unix_nano = now_ns - random.randrange(10**9)
        span.trace_id, span.span_id = random.randbytes(16), random.randbytes(8)
        put(span.attributes, attributes(random, failed))
        if failed:
            span.status.code = Status.STATUS_CODE_ERROR
            span.status.message = f"File not found: src/module_{random.randrange(10_000)}.py"
            if random.random() < 0.1:
                span.status.message += " token=" + "gh" + "p_" + "".join(random.choices("abcdefghij0123456789", k=36))
    return message


def attributes(random: Random, failed: bool) -> dict[str, str]:
    """The attributes of a call from an instrumented agent."""
    path = f"/srv/shop/src/module_{random.randrange(10_000)}.py"
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": random.choice(("read_file", "apply_diff", "run_command", "search_files")),
        "gen_ai.tool.call.id": f"call_{random.getrandbits(96):024x}",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": f"conv-{random.randrange(500):08x}",
        "gen_ai.agent.name": "coder",
        "gen_ai.request.model": "a-model-2026-01",
        "gen_ai.provider.name": "a-provider",
        "gen_ai.tool.call.arguments": json.dumps({"path": path, "start_line": random.randrange(900), "end_line": 950}),
        "error.type": "FileNotFoundError" if failed else "",
        "thread.name": "worker-3",
        "code.function.name": "shop.agent.tools.call",
        "user.team": random.choice(("payments", "search", "web")),
        "prompt.version": f"2026-01-{random.randrange(1, 29):02}",
    }


def put(into: MutableSequence[KeyValue], values: dict[str, str]) -> None:
    """Adds text attributes to a repeated KeyValue field, except empty ones."""
    for key, value in values.items():
        if value:
            into.append(KeyValue(key=key, value=AnyValue(string_value=value)))


def otlp_json(message: ExportTraceServiceRequest) -> bytes:
    """The request as OTLP/JSON, with ids in hex; protobuf's own JSON form has them in base64."""
    value = MessageToDict(message)
    spans = zip(
        value["resourceSpans"][0]["scopeSpans"][0]["spans"], message.resource_spans[0].scope_spans[0].spans, strict=True
    )
    for span, original in spans:
        span["traceId"], span["spanId"] = original.trace_id.hex(), original.span_id.hex()
        span["kind"] = original.kind
        if original.status.code:
            span["status"]["code"] = original.status.code
    return json.dumps(value, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
