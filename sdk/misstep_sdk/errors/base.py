"""What every error of an agent says: to the model, to the log, to the person."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from misstep_sdk.facts import FACTS, Facts
from misstep_sdk.masking import masked

if TYPE_CHECKING:
    from typing_extensions import Self

LEVELS = {"info": "info", "warn": "warn", "error": "error", "fatal": "error"}


class Said(TypedDict, total=False):
    """What can be said of any error; what is left out comes from the class."""

    tool: str
    target: str
    suggestion: str
    recommendations: Iterable[str]
    retryable: bool
    fatal: bool
    user_message: str


class Details(Said, total=False):
    """The same with what mostly a provider tells."""

    retry_after: float
    status_code: int


class AgentError(Exception):
    """An error that the model, the person and the telemetry each understand.

    Catch it by class: by domain (`ToolError`), by category (`FileOperationError`) or by name. A class of your own
    inherits what its parent's row in Misstep's taxonomy says; override `facts` where it differs.

    `tool` is the tool that failed, `target` what it acted on, `suggestion` what the model should do, `recommendations`
    the same in steps, `retry_after` seconds to wait before another attempt. `retryable` and `fatal` replace what the
    class says: whether trying again may help, changed or not, and whether the conversation must stop.
    """

    facts: ClassVar[Facts] = FACTS["UnknownError"]  # those of a domain or category are its most general class's

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__ in FACTS and cls.__module__.startswith("misstep_sdk."):
            cls.facts = FACTS[cls.__name__]

    def __init__(
        self,
        message: str,
        *,
        tool: str | None = None,
        target: str | None = None,
        suggestion: str | None = None,
        recommendations: Iterable[str] = (),
        retry_after: float | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        fatal: bool | None = None,
        user_message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.tool = tool
        self.target = target
        self.suggestion = suggestion or self.facts.advice_model
        self.recommendations = tuple(recommendations) or (self.suggestion,)
        self.retry_after = self.facts.retry_after if retry_after is None else retry_after
        self.status_code = status_code
        self.retryable = self.facts.retryable if retryable is None else retryable
        self.fatal = self.facts.fatal if fatal is None else fatal
        self._user_message = user_message

    @classmethod
    def saying(cls, message: str, **details: Any) -> Self:
        """An error of this class with a text of its own, where the constructor would make one from fields."""
        error = cls.__new__(cls)
        AgentError.__init__(error, message, **details)
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__

    @property
    def error_class(self) -> str:
        """The class of Misstep's taxonomy: the error's own, or that of the class which it is derived from."""
        return self.facts.name

    @property
    def show_details(self) -> bool:
        """Whether a person needs to see the text and not only the title, as with a command's output."""
        return self.facts.details

    def user_message(self) -> str:
        """One sentence for the person in front of the agent."""
        return self._user_message or self.message

    def to_llm_payload(self) -> dict[str, Any]:
        """What to hand to the model as the tool's result: what went wrong, what to do, whether to try again."""
        payload: dict[str, Any] = {
            "ok": False,
            "error": self.message,
            "error_class": type(self).__name__,
            "category": self.facts.category,
            "retryable": self.retryable,
            "suggestion": self.suggestion,
            "recommendations": list(self.recommendations),
        }
        if self.target:
            payload["target"] = self.target
        if self.retry_after is not None:
            payload["retry_after_s"] = self.retry_after
        return payload

    def to_log_entry(self, params: Mapping[str, Any] | None = None, *, time_s: float | None = None) -> dict[str, Any]:
        """What to log: class, masked parameters, time in milliseconds. The collector takes it at `/v1/events`."""
        entry: dict[str, Any] = {
            "level": LEVELS[self.facts.severity],
            "category": f"{self.facts.domain}_{self.facts.category}",
            "tool": self.tool,
            "error_class": self.error_class,
            "message": masked(self.message),
            "params": masked(dict(params or {})),
            "timestamp": int((time.time() if time_s is None else time_s) * 1000),
        }
        if self.target:
            entry["target"] = masked(self.target)
        return {name: value for name, value in entry.items() if value is not None}


class UnknownError(AgentError):
    """Nothing is known but the text."""


def _restored(kind: type[AgentError], args: tuple[Any, ...]) -> AgentError:
    error = kind.__new__(kind)
    error.args = args
    return error
