"""For authors of agents: errors that the model, the person and the telemetry each understand, and recorded calls.

`errors` has the classes, `tool` and `tool_call` record calls of tools, `model_request` and `model_stream` those of
models, `session` says whose they are, `retry` repeats what may work, `MistakeTracker` counts mistakes in a row.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TypeVar

from misstep_sdk import errors, streams
from misstep_sdk.convert import as_agent_error
from misstep_sdk.errors import AgentError
from misstep_sdk.mistakes import Limit, MistakeTracker
from misstep_sdk.paths import path_in
from misstep_sdk.record import ModelRequest, Recorder, ToolCall
from misstep_sdk.retries import retry
from misstep_sdk.sessions import Session, session
from misstep_sdk.setup import configure
from misstep_sdk.tools import Tools, answer, answering

Chunk = TypeVar("Chunk")

_recorder = Recorder()
tool = Tools(_recorder)
tool_call = _recorder.tool_call
model_request = _recorder.model_request


def model_stream(chunks: Iterable[Chunk], model: str, *, provider: str | None = None) -> Iterator[Chunk]:
    """The same chunks; whether the stream ended well, was cut, malformed or stopped is recorded."""
    return streams.model_stream(_recorder, chunks, model, provider=provider)


def model_stream_async(
    chunks: AsyncIterable[Chunk], model: str, *, provider: str | None = None
) -> AsyncIterator[Chunk]:
    """The same for async iteration."""
    return streams.model_stream_async(_recorder, chunks, model, provider=provider)


__all__ = [
    "AgentError",
    "Limit",
    "MistakeTracker",
    "ModelRequest",
    "Recorder",
    "Session",
    "ToolCall",
    "Tools",
    "answer",
    "answering",
    "as_agent_error",
    "configure",
    "errors",
    "model_request",
    "model_stream",
    "model_stream_async",
    "path_in",
    "retry",
    "session",
    "tool",
    "tool_call",
]
