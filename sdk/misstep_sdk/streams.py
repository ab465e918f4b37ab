"""Records a model's stream: whether it ended as it should, was cut, was malformed, or was stopped."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from misstep_sdk import errors
from misstep_sdk.convert import as_agent_error, was_cancelled
from misstep_sdk.errors import AgentError
from misstep_sdk.record import ModelRequest, Recorder, log

Chunk = TypeVar("Chunk")

CUT = {"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"}
REFUSED = {"content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"}
MALFORMED = {"malformed_function_call", "MALFORMED_FUNCTION_CALL"}
# Where the providers' libraries put these in a chunk; the first that is there counts.
REASONS = (
    ("choices", 0, "finish_reason"),
    ("delta", "stop_reason"),
    ("message", "stop_reason"),
    ("candidates", 0, "finish_reason"),
    ("response", "incomplete_details", "reason"),
    ("response", "status"),
    ("finish_reason",),
    ("stop_reason",),
)
INPUT = (
    ("usage", "prompt_tokens"),
    ("usage", "input_tokens"),
    ("message", "usage", "input_tokens"),
    ("response", "usage", "input_tokens"),
    ("usage_metadata", "prompt_token_count"),
)
OUTPUT = (
    ("usage", "completion_tokens"),
    ("usage", "output_tokens"),
    ("response", "usage", "output_tokens"),
    ("usage_metadata", "candidates_token_count"),
)
ENDLESS = {"in_progress", "queued"}  # a status of a response that has not ended
# A chunk of a provider that says at the end why it ended: without that its stream was cut.
TELLING = ("choices", "candidates", "delta", "content_block", "response")


class Watch:
    """What the chunks of one stream say."""

    def __init__(self) -> None:
        self.chunks = 0
        self.reason: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self._tells = False

    def see(self, chunk: Any) -> None:
        """Takes the next chunk; whatever it looks like, nothing is raised."""
        self.chunks += 1
        try:
            self._look(chunk)
        except Exception:
            log.debug("a chunk could not be looked at", exc_info=True)

    def _look(self, chunk: Any) -> None:
        self._tells = self._tells or any(_at(chunk, (name,)) is not None for name in TELLING)
        reason = _first(chunk, REASONS)
        if isinstance(reason, str) and reason not in ENDLESS:
            self.reason = reason
        elif reason is not None and hasattr(reason, "name"):  # an enumeration
            self.reason = str(reason.name)
        self.input_tokens = _number(_first(chunk, INPUT), self.input_tokens)
        self.output_tokens = _number(_first(chunk, OUTPUT), self.output_tokens)

    def ended(self) -> AgentError | None:
        """What is wrong with a stream that ended without an exception."""
        if self.chunks == 0:
            return errors.InvalidStreamError("no chunk arrived")
        if self.reason in CUT:
            return errors.OutputLimitError(f"the answer ended with {self.reason}")
        if self.reason in REFUSED:
            return errors.RefusedError(f"the answer ended with {self.reason}")
        if self.reason in MALFORMED:
            return errors.MalformedToolCallError(f"the answer ended with {self.reason}")
        if self.reason is None and self._tells:
            return errors.StreamProviderError("the stream ended without saying why")
        return None


def model_stream(
    recorder: Recorder, chunks: Iterable[Chunk], model: str, *, provider: str | None = None
) -> Iterator[Chunk]:
    """The same chunks; what becomes of the stream is recorded. Exceptions go on as they are."""
    request, watch = recorder.model_request(model, provider=provider, stream=True), Watch()
    request.begin(inside=False)
    try:
        for chunk in chunks:
            watch.see(chunk)
            yield chunk
    except BaseException as exception:
        request.end(broken(exception))
        raise
    _end(request, watch)


async def model_stream_async(
    recorder: Recorder, chunks: AsyncIterable[Chunk], model: str, *, provider: str | None = None
) -> AsyncIterator[Chunk]:
    """The same for async iteration."""
    request, watch = recorder.model_request(model, provider=provider, stream=True), Watch()
    request.begin(inside=False)
    try:
        async for chunk in chunks:
            watch.see(chunk)
            yield chunk
    except BaseException as exception:
        request.end(broken(exception))
        raise
    _end(request, watch)


def broken(exception: BaseException) -> AgentError:
    """What an exception in the middle of a stream means."""
    if isinstance(exception, AgentError):
        return exception
    if was_cancelled(exception):
        error: AgentError = errors.StreamAbortedError(str(exception) or "the stream was stopped")
    elif (isinstance(exception, ValueError) and "JSON" in type(exception).__name__) or isinstance(
        exception, UnicodeError
    ):
        error = errors.ChunkParseError(str(exception))
    else:
        error = as_agent_error(exception, model=True)
        if isinstance(error, (errors.ConnectionError, errors.TimeoutError)):
            error = errors.StreamProviderError(error.message)
    error.__cause__ = exception
    return error


def _end(request: ModelRequest, watch: Watch) -> None:
    request.used(input_tokens=watch.input_tokens, output_tokens=watch.output_tokens)
    if watch.reason:
        request.finished(watch.reason)
    if error := watch.ended():
        request.failed(error)
    request.end()


def _first(chunk: Any, places: Iterable[tuple[str | int, ...]]) -> Any:
    return next((found for place in places if (found := _at(chunk, place)) is not None), None)


def _at(value: Any, place: tuple[str | int, ...]) -> Any:
    """The value at a place of a chunk: of attributes, maps and lists."""
    for step in place:
        if isinstance(step, int):
            value = value[step] if isinstance(value, (list, tuple)) and len(value) > step else None
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            value = getattr(value, step, None)
        if value is None:
            return None
    return value


def _number(value: Any, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) else otherwise
