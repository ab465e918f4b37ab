"""What breaks while the model answers. None of these is a tool's error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misstep_sdk.errors.base import AgentError, Details
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class StreamingError(AgentError):
    """An error of reading the model's answer."""

    facts = FACTS["InvalidStreamError"]


class ParseError(StreamingError):
    """What arrived could not be read."""

    facts = FACTS["InvalidStreamError"]


class InvalidStreamError(ParseError):
    """The answer arrived empty or broken."""

    def __init__(self, reason: str, **details: Unpack[Details]) -> None:
        super().__init__(f"Invalid stream: {reason}", **details)


class ChunkParseError(ParseError):
    """One chunk could not be parsed. `chunk` is its text, `position` where parsing stopped."""

    def __init__(self, message: str, chunk: str = "", position: int | None = None, **details: Unpack[Details]) -> None:
        super().__init__(message, **details)
        self.chunk = chunk
        self.position = position


class HandlerError(StreamingError):
    """The agent failed with what arrived."""

    facts = FACTS["ChunkHandlerError"]


class ChunkHandlerError(HandlerError):
    """The agent failed while it handled a chunk."""


class AbortError(StreamingError):
    """The stream was ended on purpose."""

    facts = FACTS["StreamAbortedError"]


class StreamAbortedError(AbortError):
    """The agent or a person stopped the stream."""


class UserInterruptError(AbortError):
    """A person interrupted, perhaps with feedback."""


class ProviderError(StreamingError):
    """The provider ended the stream."""

    facts = FACTS["StreamProviderError"]


class StreamProviderError(ProviderError):
    """The provider broke the stream, or it ended without saying why."""


class TokenBudgetError(StreamingError):
    """Tokens could not be counted, or there were too many."""

    facts = FACTS["TokenError"]


class TokenError(TokenBudgetError):
    """Tokens could not be counted."""


class ContextOverflowError(TokenBudgetError):
    """The conversation does not fit the model. `used` and `limit` are in tokens."""

    def __init__(self, used: int, limit: int, **details: Unpack[Details]) -> None:
        super().__init__(f"Context limit exceeded: {used} tokens > {limit} max", **details)
        self.used = used
        self.limit = limit


class OutputLimitError(TokenBudgetError):
    """The answer was cut at the limit of output tokens."""
