"""Sends recorded requests to a collector, one after the other, and reports the results."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import stamina

from collector.commands.client import collector
from collector.commands.progress import progress
from collector.commands.recordings import Recording, find, read
from collector.commands.shift import moved, newest_ns
from collector.decode import otlp
from collector.errors import Rejected
from collector.plural import plural
from collector.settings import without_user
from collector.times import retry_after_s

AGAIN = (429, 503)  # answers after which the same request may be accepted later
ATTEMPTS = 10
PATIENCE_S = 120.0


@dataclass(slots=True)
class Replayed:
    """The result of a replay, with one sentence for each request, or part of one, that was refused or mended."""

    requests: int = 0
    records: int = 0
    refused: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counted = f"{plural(self.requests, 'request')}, {plural(self.records, 'record')} accepted"
        lines = [f"{counted}, {len(self.refused):,} refused"]
        lines += [f"  refused: {reason}" for reason in self.refused]
        lines += [f"  mended: {reason}" for reason in self.mended]
        return "\n".join(lines)


def replay(
    paths: Sequence[Path], to: str, *, token: str = "", now: bool = False, clock: Callable[[], int] = time.time_ns
) -> Replayed:
    """Sends the recordings in `paths` to the collector at `to`.

    With `now`, shifts their times so that the newest is now. Raises OSError if a file cannot be read, or if no
    collector answers at `to`.
    """
    if not paths:
        raise FileNotFoundError("name what to send: folders or files of recorded bodies, such as events.jsonl")
    files = find(paths)
    if not files:
        raise FileNotFoundError(f"{', '.join(map(str, paths))}: no recorded bodies such as 001-traces.json or *.jsonl")
    by_ns = clock() - max((newest_ns(each) for each in _read(files)), default=0) if now else 0
    stamina.instrumentation.set_on_retry_hooks(())  # no log lines about waiting
    sent = Replayed()
    with progress("replay", len(files)) as advance, collector(to, token) as client:
        for file in files:
            for recording in read(file):
                try:
                    _send(client, moved(recording, lambda time_ns: time_ns + by_ns) if by_ns else recording, sent)
                except httpx.TransportError as error:
                    said = f"no collector answers at {without_user(to)} ({error}); sent before: {sent}"
                    raise ConnectionError(said) from None
            advance()
    return sent


def _read(files: Sequence[Path]) -> Iterator[Recording]:
    for file in files:
        yield from read(file)


def _send(client: httpx.Client, recording: Recording, sent: Replayed) -> None:
    headers = {"content-type": recording.media_type, "content-encoding": "gzip"}
    body = gzip.compress(recording.body, compresslevel=1, mtime=0)
    sent.requests += 1
    try:
        for attempt in stamina.retry_context(on=wait_s, attempts=ATTEMPTS, timeout=PATIENCE_S):
            with attempt:
                answer = client.post(f"/v1/{recording.signal}", content=body, headers=headers)
                answer.raise_for_status()
    except httpx.HTTPStatusError as error:
        if error.response.status_code in AGAIN:  # all further requests would wait as long
            raise ConnectionError(
                f"the collector accepts nothing: {_message(error.response)}; sent before: {sent}"
            ) from None
        sent.refused.append(f"{recording.place}: {error.response.status_code} {_message(error.response)}")
        return
    said = _partial(recording, answer)
    rejected = sum(int(count) for name, count in said.items() if name.startswith("rejected"))
    sent.records += _accepted(recording, answer, rejected)
    if said:
        (sent.refused if rejected else sent.mended).append(f"{recording.place}: {said.get('errorMessage', rejected)}")


def wait_s(error: Exception) -> bool | float:
    """Whether to send again, or after how many seconds if the collector names a time."""
    if not isinstance(error, httpx.HTTPStatusError) or error.response.status_code not in AGAIN:
        return isinstance(error, httpx.TimeoutException)
    return retry_after_s(error.response.headers.get("retry-after", ""), time.time()) or True


def _message(answer: httpx.Response) -> str:
    if answer.headers.get("content-type") == otlp.PROTOBUF:
        from google.rpc.status_pb2 import Status

        return str(Status.FromString(answer.content).message)
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200] or answer.reason_phrase


def _partial(recording: Recording, answer: httpx.Response) -> dict[str, Any]:
    """The partial success of an answer: `errorMessage`, `rejectedSpans` and the like; empty if it has none."""
    if recording.media_type != otlp.PROTOBUF:
        said: dict[str, Any] = answer.json().get("partialSuccess", {})
        return said
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    # The answers of all three signals have the same fields under the same numbers.
    return MessageToDict(ExportTraceServiceResponse.FromString(answer.content)).get("partialSuccess", {})  # type: ignore[no-any-return]


def _accepted(recording: Recording, answer: httpx.Response, rejected: int) -> int:
    if recording.signal == "events":  # the only answer that has the number
        return int(answer.json().get("accepted", 0))
    try:
        return max(0, otlp.decode(recording.body, recording.media_type, recording.signal).records - rejected)
    except Rejected:
        return 0
