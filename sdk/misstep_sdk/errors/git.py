"""What goes wrong with the agent's version control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from misstep_sdk.errors.base import AgentError, Details
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class GitError(AgentError):
    """An error of version control."""

    facts = FACTS["GitCommandFailedError"]


class WorktreeCreationError(GitError):
    """No working copy could be made."""


class WorktreeRemovalError(GitError):
    """A working copy could not be removed."""


class MergeConflictError(GitError):
    """Both sides changed the same lines of `files`."""

    def __init__(self, files: Sequence[str], **details: Unpack[Details]) -> None:
        super().__init__(f"Merge conflict in files: {', '.join(files)}", **details)
        self.files = tuple(files)


class BranchNotFoundError(GitError):
    """There is no such branch."""

    def __init__(self, branch: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", branch)
        super().__init__(f"Branch {branch} not found", **details)


class GitCommandFailedError(GitError):
    """Git refused a command."""

    def __init__(self, command: str, stderr: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", command)
        super().__init__(f"Git command failed: {command} - {stderr}", **details)
