"""What goes wrong in the agent's own loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misstep_sdk.errors.base import AgentError, Details
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LoopError(AgentError):
    """An error of the agent's loop."""

    facts = FACTS["InvalidTransitionError"]


class InvalidTransitionError(LoopError):
    """The loop is not in a state for this step."""

    def __init__(self, before: str, after: str, **details: Unpack[Details]) -> None:
        super().__init__(f"Invalid state transition: {before} -> {after}", **details)


class MaxIterationsError(LoopError):
    """All steps are used up."""

    def __init__(self, most: int, **details: Unpack[Details]) -> None:
        details.setdefault("user_message", f"Failed after {most} attempts. Consider adjusting the task.")
        super().__init__(f"Max iterations ({most}) reached without validation passing", **details)


class ParentNotFoundError(LoopError):
    """The loop that started this one is gone."""


class ArtifactNotFoundError(LoopError):
    """The file that should have started this loop is missing."""

    def __init__(self, path: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        super().__init__(f"Triggering artifact not found: {path}", **details)


class LoopInvalidatedError(LoopError):
    """Something before this loop changed."""


class ValidationFailedError(LoopError):
    """The result did not pass its check."""


class WorktreeLostError(LoopError):
    """The working copy was lost in a crash."""
