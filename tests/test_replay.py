"""Recorded bodies are found, read and sent again."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.commands.recordings import find, read
from collector.commands.replay import ATTEMPTS, replay
from tests.conftest import RunningCollector, free_port, misstep

THEN = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
ENTRY = {
    "level": "warn",
    "category": "tool_validation",
    "tool": "apply_diff",
    "error_type": "MissingParameterError",
    "message": "Missing required parameter: diff",
    "timestamp": int(THEN.timestamp() * 1000),
}


def log_body(call: str = "1") -> dict[str, Any]:
    """One failed call of Codex."""
    attributes = {
        "event.name": "codex.tool_result",
        "event.timestamp": THEN.isoformat().replace("+00:00", "Z"),
        "conversation.id": "a conversation",
        "tool_name": "apply_patch",
        "call_id": call,
        "success": "false",
        "output": "apply_patch verification failed: no such file",
    }
    record = {"attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "codex_cli_rs"}}]}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}


def trace_body() -> bytes:
    """One successful call by the GenAI conventions, in protobuf."""
    message = ExportTraceServiceRequest()
    span = message.resource_spans.add().scope_spans.add().spans.add(name="execute_tool search", trace_id=b"t" * 16)
    span.span_id = b"s" * 8
    span.start_time_unix_nano = int(THEN.timestamp()) * 10**9
    span.end_time_unix_nano = span.start_time_unix_nano + 10**9
    for key, text in {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}.items():
        span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=text)))
    return message.SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Recordings of two agents in all forms of files."""
    place = tmp_path / "recordings"
    (place / "b").mkdir(parents=True)
    (place / "b/001-traces.pb.gz").write_bytes(gzip.compress(trace_body()))
    (place / "b/001.headers.json").write_text("{}")
    (place / "a-001").mkdir()
    (place / "a-001/002-logs.json").write_text(json.dumps(log_body()))
    (place / "entries.jsonl").write_text(f"{json.dumps(ENTRY)}\n\n{json.dumps(ENTRY | {'tool': 'read_file'})}\n")
    (place / "truth.json").write_text('{"resourceLogs": "no recording"}')
    return place


def test_folder_is_read_by_name_without_what_is_no_recording(folder: Path) -> None:
    names = [path.relative_to(folder).as_posix() for path in find([folder])]
    assert names == ["a-001/002-logs.json", "b/001-traces.pb.gz", "entries.jsonl"]
    assert find([folder / "truth.json"]) == [folder / "truth.json"]
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder"):
        find([folder / "nowhere"])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("001-logs.json", "{broken", [("logs", 1)]),
        ("metrics.pb", "\x08", [("metrics", 1)]),
        ("x.json", json.dumps(log_body(), indent=1), [("logs", 1)]),
        ("x.json", json.dumps([log_body(), log_body()]), [("logs", 1), ("logs", 1)]),
        ("x.json", json.dumps(ENTRY, indent=1), [("events", 1)]),
        ("x.json", f"{json.dumps(ENTRY)}\n{json.dumps(ENTRY)}", [("events", 2)]),
        ("x.ndjson", f"{json.dumps(ENTRY)}\n{{broken\n{json.dumps(ENTRY)}", [("events", 3)]),
        ("x.log", "\n".join(map(json.dumps, (ENTRY, log_body(), ENTRY))), [("events", 1), ("logs", 1), ("events", 1)]),
        ("x.jsonl", '{"resourceSpans": []}\n{"resourceMetrics": []}', [("traces", 1), ("metrics", 1)]),
        ("empty.jsonl", "", []),
    ],
)
def test_file_becomes_requests(tmp_path: Path, name: str, text: str, expected: list[tuple[str, int]]) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert [(each.signal, each.body.count(b"\n") + 1) for each in read(path)] == expected


def test_unreadable_files_say_why(tmp_path: Path) -> None:
    (tmp_path / "001-logs.json.gz").write_bytes(gzip.compress(b"{}" * 99)[:-12])
    with pytest.raises(OSError, match=r"001-logs.json.gz: is a damaged gzip file"):
        list(read(tmp_path / "001-logs.json.gz"))
    (tmp_path / "dump.pb").write_bytes(trace_body())
    with pytest.raises(OSError, match=r"dump.pb: protobuf does not say what it holds"):
        list(read(tmp_path / "dump.pb"))


def test_recordings_become_events_once(collector: RunningCollector, folder: Path) -> None:
    for _ in range(2):
        done = misstep("replay", folder, "--to", collector.url, cwd=folder)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, "3 requests, 4 records accepted, 0 refused")
    events = collector.events()
    assert {(event["tool"], event["outcome"], event["time"][:19]) for event in events} == {
        ("search", "ok", "2026-05-04T03:02:02"),
        ("apply_patch", "error", "2026-05-04T03:02:01"),
        ("apply_diff", "error", "2026-05-04T03:02:01"),
        ("read_file", "error", "2026-05-04T03:02:01"),
    }
    assert len(events) == 4


def test_now_makes_the_newest_time_the_present(collector: RunningCollector, folder: Path) -> None:
    assert misstep("replay", folder, "--to", collector.url, "--now", cwd=folder).returncode == 0
    times = sorted(datetime.fromisoformat(event["time"]) for event in collector.events())
    assert timedelta(0) <= datetime.now(UTC) - times[-1] < timedelta(seconds=20)
    apart = [times[-1] - each for each in times[:-1]]  # an entry's time has milliseconds
    assert all(abs(each - timedelta(seconds=1)) < timedelta(milliseconds=2) for each in apart)
    assert len(apart) == 3


def test_refusals_are_said_with_file_and_reason(collector: RunningCollector, tmp_path: Path) -> None:
    (tmp_path / "001-logs.json").write_text("{broken")
    (tmp_path / "002-traces.pb").write_bytes(b"\xff\xff")
    (tmp_path / "x.jsonl").write_text(f"{json.dumps(ENTRY)}\n[1]\n")
    done = misstep("replay", tmp_path, "--to", collector.url, cwd=tmp_path)
    assert done.returncode == 1
    summary, *refused = done.stdout.splitlines()
    assert summary == "3 requests, 1 record accepted, 3 refused"
    assert f"{tmp_path}/001-logs.json: 400 " in refused[0]
    assert f"{tmp_path}/002-traces.pb: 400 " in refused[1]
    assert "x.jsonl: " in refused[2]
    assert len(collector.events()) == 1


def test_token_of_the_settings_is_sent(start_collector: Any, folder: Path) -> None:
    collector = start_collector(INGEST_TOKENS="one,two")
    assert misstep("replay", folder, "--to", collector.url, cwd=folder).returncode == 1
    done = misstep("replay", folder, "--to", collector.url, cwd=folder, settings={"INGEST_TOKENS": "two"})
    assert done.returncode == 0, done.stdout


def test_no_collector_is_one_sentence(folder: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    done = misstep("replay", folder, "--to", address.replace("//", "//user:hunter2@"), cwd=folder)
    assert done.returncode == 2
    assert "hunter2" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"misstep: no collector answers at {address}")


@contextmanager
def busy(refusals: int, retry_after: str) -> Iterator[tuple[str, list[float]]]:
    """A server that is too busy for its first requests: its address, and the times of requests."""
    asked: list[float] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            asked.append(time.monotonic())
            self.send_response(429 if len(asked) <= refusals else 200)
            self.send_header("retry-after", retry_after)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_busy_collector_is_given_the_time_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "001-logs.json").write_text(json.dumps(log_body()))
    with busy(2, "1") as (address, asked):
        sent = replay([tmp_path], address)
    assert (sent.requests, sent.records, sent.refused) == (1, 1, [])
    assert [later - earlier >= 1 for earlier, later in pairwise(asked)] == [True, True]


def test_collector_that_takes_nothing_is_not_asked_for_every_file(folder: Path) -> None:
    with (
        busy(1_000, "0") as (address, asked),
        pytest.raises(ConnectionError, match=r"accepts nothing: .*; sent before: 1 request, 0 records"),
    ):
        replay([folder], address)
    assert len(asked) == ATTEMPTS
