"""Requests that no client should send: whatever their headers and parameters, they are refused or answered at once."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.access.rights import host_name
from collector.errors import Rejected
from collector.query.filters import BadParameter, split_values, terms_of, time_ns, with_plus
from tests.conftest import RunningCollector, misstep
from tests.cpu import cpu_seconds

PATHS = ("GET /api/v1/events", "GET /metrics", "POST /v1/logs", "POST /v1/events", "POST /api/v1/rules/check")

HOSTS = {
    "localhost": 200, "LOCALHOST:1": 200, "[::1]": 200, "[::1]:4318": 200, "127.0.0.1:": 200,
    "evil.example": 403, "[fe80::1]:80": 403, "": 403,
    "::1": 400, "[::1": 400, "::1]": 400, "[evil.example]:x": 400, "localhost:4318:evil.example": 400,
    "localhost:99999": 400, "localhost:-1": 400, "localhost:\u00b2": 400, "localhost:x": 400, "localhost/": 400,
    "a@localhost": 400, "localhost?x": 400, "localhost\\": 400, "[": 400, "]": 400, "\u00ff": 400, "[::1]x": 400,
}  # fmt: skip

HEADERS = (
    "Origin: http://[", "Origin: http://[::1", "Origin: http://a]b", "Origin: ://", "Origin: http://localhost:x",
    "Origin: null", "Origin: http://\u00ff", "Accept: \u00ff;;q=", "Accept: a/b;q=x", "Accept: ,", "Accept: */",
    "Accept: " + "a/b;q=0.1," * 500, 'If-None-Match: W/"', "If-None-Match: \u00ff", "Cookie: \u00ff=;;;==",
    'Cookie: a="\\', "Content-Length: x", "Content-Length: -1", "Content-Length: \u00b2",
    "Content-Length: 99999999999999999999999", "Content-Length: 1\r\nContent-Length: 2", "Content-Type: ;;",
    "Content-Type: application/json; charset=[", "Content-Type: \u00ff", "Content-Type: multipart/form-data; boundary=",
    "Authorization: \u00ff", "Authorization: Bearer \u00ff", "Content-Encoding: \u00ff", "Content-Encoding: gzip",
    "Transfer-Encoding: x", "Accept-Encoding: gzip;q=x", "X-Forwarded-Host: [", "Forwarded: x", "traceparent: x",
    "Upgrade: websocket\r\nConnection: Upgrade", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    "Range: bytes=x", "Expect: x", "If-Modified-Since: x", "Access-Control-Request-Method: X", "Referer: http://[",
    "TE: \u00ff", "X: " + "a" * 20_000,
)  # fmt: skip

REFUSED = {
    "Authorization: Bearer a\r\nAuthorization: Bearer b": 400,
    "Host: localhost": 400,
    "Origin: http://localhost\r\nOrigin: http://evil.example": 400,
    "Content-Type: application/json\r\nContent-Type: text/plain": 400,
    "Content-Encoding: gzip\r\nContent-Encoding: gzip": 400,
    "Origin: http://localhost@evil.example": 403,
    "Origin: http://localhost:4318.evil.example": 403,
    "Origin: evil.example://localhost.": 403,
    "Sec-Fetch-Site: cross-site": 403,
    "Sec-Fetch-Site: Cross-Site": 403,
}


def status(collector: RunningCollector, line: str, headers: str) -> int:
    """The status of the answer to a request without a body, sent as it is; 0 where the connection is only closed."""
    host, port = collector.url.removeprefix("http://").split(":")
    length = "" if "Content-Length" in headers or line.startswith("GET") else "Content-Length: 0\r\n"
    with socket.create_connection((host, int(port)), 60) as connection:
        sent = f"{line} HTTP/1.1\r\n{headers}\r\n{length}Connection: close\r\n\r\n"
        connection.sendall(sent.encode("latin-1"))
        began = time.monotonic()
        answer = connection.recv(1 << 10).decode("latin-1")
        assert time.monotonic() - began < 30
    return int(answer.split(" ")[1]) if answer else 0


@pytest.mark.parametrize(("host", "expected"), HOSTS.items())
def test_a_host_is_ours_or_foreign_or_unreadable(shared: RunningCollector, host: str, expected: int) -> None:
    assert status(shared, "GET /api/v1/events", f"Host: {host}") == expected
    assert status(shared, "POST /v1/traces", f"Host: {host}") == {200: 415}.get(expected, expected)


@pytest.mark.parametrize("line", PATHS)
def test_no_header_makes_the_collector_fail(shared: RunningCollector, line: str) -> None:
    found = {headers: status(shared, line, f"Host: localhost\r\n{headers}") for headers in HEADERS}
    assert [headers for headers, said in found.items() if said >= 500] == []
    assert "failed" not in shared.logged()


@pytest.mark.parametrize("line", PATHS)
def test_what_pages_of_others_send_and_headers_that_stand_twice_are_refused(
    shared: RunningCollector, line: str
) -> None:
    assert {headers: status(shared, line, f"Host: localhost\r\n{headers}") for headers in REFUSED} == REFUSED


@pytest.mark.parametrize(
    "target", ["/%00", "//[::1", "/api/v1/%ff", "/v1/%0d%0a", "*", "/api/v1/events?%ff=%ff", "http://[/"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "TRACE", "ODD"])
def test_no_address_makes_the_collector_fail(shared: RunningCollector, method: str, target: str) -> None:
    assert status(shared, f"{method} {target}", "Host: localhost") < 500


def test_of_two_tokens_none_is_taken_by_grpc_either(shared: RunningCollector) -> None:
    both = (("authorization", "Bearer one"), ("authorization", "Bearer two"))
    with grpc.insecure_channel(shared.grpc) as channel:
        export: Any = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        with pytest.raises(grpc.RpcError) as refused:
            export(ExportTraceServiceRequest().SerializeToString(), metadata=both, timeout=10)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


LONG = (
    "T" * 8000, "T: " * 2600, " " * 8000 + "T:", "-" + "1m" * 4000, "-" + "1" * 8000, "2026-11-21T" + "0" * 8000,
    "\\" * 8000, "," * 6000, "!" * 8000, "a," * 4000, "[" * 8000, "1" * 8000, "\u202e" * 2600,
)  # fmt: skip
ASKED = {
    "events": ("from", "to", "q", "tool", "fingerprint", "status_code", "limit", "cursor", "after"),
    "breakdown": ("by", "measures", "sort", "mistake", "session"),
    "compare": ("dimension", "a", "b", "measure"),
    "timeseries": ("bucket",),
    "retries/storms": ("window", "least", "state"),
    "values/tool": ("contains",),
}


@pytest.mark.parametrize("path", ASKED)
def test_no_parameter_takes_long_to_read(shared: RunningCollector, path: str) -> None:
    for name in ASKED[path]:
        for text in LONG:
            line = f"GET /api/v1/{path}?{name}={quote(text)}"
            answered = partial(status, shared, line, "Host: localhost")
            assert 200 <= answered() < 500
            assert cpu_seconds(answered, enough=2, clock=time.monotonic) < 2, f"{name}={text[:9]}…"


@pytest.mark.parametrize("text", ["T" * 100_000, "T: " * 30_000, "-" + "1m" * 50_000, "1" * 100_000 + " 01:00"])
def test_a_time_is_read_in_no_time_however_long_it_is(text: str) -> None:
    with pytest.raises(BadParameter):
        time_ns("from", text, 0)
    assert cpu_seconds(lambda: with_plus(text), enough=0.01) < 0.05
    assert cpu_seconds(lambda: split_values(text), enough=0.1) < 0.5


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-21T21:41:51 01:00", "2026-11-21T21:41:51+01:00"),
        ("2026-11-21t21:41:51 0100", "2026-11-21t21:41:51+0100"),
        ("2026-11-21 21:41", "2026-11-21 21:41"),
        ("2026-11-21 21:41 05:30", "2026-11-21 21:41+05:30"),
        ("2026-11-21T21:41:51Z", "2026-11-21T21:41:51Z"),
    ],
)
def test_the_plus_of_a_zone_is_found_again(text: str, meant: str) -> None:
    assert with_plus(text) == meant


def test_a_filter_has_a_thousand_values_at_most() -> None:
    assert len(terms_of("tool", ",".join(map(str, range(1000))))[0].values) == 1000
    with pytest.raises(BadParameter, match="more than 1000 values"):
        terms_of("tool", ",".join(map(str, range(1001))))


@pytest.mark.parametrize(
    "host", ["a" * 100_000, ":" * 100_000, "[" * 100_000, "1." * 50_000 + "]", "[" + ":" * 100_000 + "]"]
)
def test_a_host_is_read_in_no_time_however_long_it_is(host: str) -> None:
    def read() -> None:
        with contextlib.suppress(Rejected):
            host_name(host)

    assert cpu_seconds(read, enough=0.02) < 0.1


def test_what_is_stored_is_for_its_owner_alone(start_collector: Callable[..., RunningCollector]) -> None:
    before = os.umask(0)
    try:
        collector = start_collector()
    finally:
        os.umask(before)
    collector.post("/v1/logs", "{}")
    found = [path for path in collector.folder.rglob("*") if path != collector.log]
    assert {path.name for path in found} >= {"misstep.duckdb"}
    assert [path for path in found if path.stat().st_mode & 0o077] == []


def test_what_commands_write_is_for_its_owner_alone_and_a_store_of_before_is_narrowed(tmp_path: Path) -> None:
    store = tmp_path / "misstep.duckdb"
    copy, other = tmp_path / "misstep.duckdb.old", tmp_path / "misstep.duckdb2"
    settings = {"STORE": f"duckdb:///{store}"}
    before = os.umask(0)
    try:
        made = misstep("demo", "--bulk", "100", cwd=tmp_path, settings=settings)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("misstep.duckdb*")}
        store.chmod(0o664)
        copy.touch(0o666)
        other.touch(0o666)
        again = misstep("rebuild", cwd=tmp_path, settings=settings)
    finally:
        os.umask(before)
    assert (made.returncode, again.returncode) == (0, 0), made.stderr + again.stderr
    assert modes["misstep.duckdb"] == 0o600
    assert [mode for mode in modes.values() if mode & 0o077] == []
    assert [path.stat().st_mode & 0o777 for path in (store, copy, other)] == [0o600, 0o600, 0o666]
