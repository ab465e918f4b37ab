"""What goes wrong between the agent and a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misstep_sdk.errors.base import AgentError, Said
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class NetworkError(AgentError):
    """An error between the agent and a provider."""

    facts = FACTS["ConnectionError"]


class LimitError(NetworkError):
    """The provider takes no more for now, or at all."""

    facts = FACTS["RateLimitError"]


class RateLimitError(LimitError):
    """Too many requests. `retry_after` is in seconds."""

    def __init__(
        self, retry_after: float | None = None, *, status_code: int | None = None, **details: Unpack[Said]
    ) -> None:
        wait = "" if retry_after is None else f", retry after {retry_after:g} s"
        if retry_after is not None:
            details.setdefault("user_message", f"API rate limited. Retrying in {retry_after:g} s …")
        super().__init__(f"Rate limited{wait}", retry_after=retry_after, status_code=status_code, **details)


class OverloadedError(LimitError):
    """The provider is busy."""


class QuotaError(LimitError):
    """Quota or credit is used up."""


class AuthenticationError(NetworkError):
    """The key or login was refused."""


class TimeoutError(NetworkError):
    """The request took longer than it may."""


class ConnectionError(NetworkError):
    """The host cannot be reached."""

    def user_message(self) -> str:
        """One sentence for the person in front of the agent."""
        return self._user_message or "Network error. Check your internet connection."


class ServerError(NetworkError):
    """The other side failed (5xx)."""


class ResponseError(NetworkError):
    """An answer came, but not one that helps."""

    facts = FACTS["InvalidResponseError"]


class InvalidResponseError(ResponseError):
    """The answer could not be read."""


class ApiError(ResponseError):
    """The request was refused as invalid."""

    def __init__(self, status_code: int, message: str, **details: Unpack[Said]) -> None:
        super().__init__(f"API error {status_code}: {message}", status_code=status_code, **details)


class ModelNotFoundError(ResponseError):
    """The model is not available."""


class RefusedError(ResponseError):
    """A content rule blocked the request."""
