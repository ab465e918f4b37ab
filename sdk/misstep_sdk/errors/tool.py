"""What fails when a tool is called: before it runs, while it runs, and around it. None of these is an error of a
stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from misstep_sdk.errors.base import AgentError, Details
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ToolError(AgentError):
    """An error of a tool's call."""

    facts = FACTS["ToolExecutionError"]


# ---- validation: the tool never ran ----


class ValidationError(ToolError):
    """The call was wrong before the tool ran."""

    facts = FACTS["InvalidParameterError"]


class MissingParameterError(ValidationError):
    """A required parameter is missing. `example` is a value that would do."""

    def __init__(self, parameter: str, *, example: str | None = None, **details: Unpack[Details]) -> None:
        hint = f" Example: {example}" if example else ""
        details.setdefault("suggestion", f"Please provide the '{parameter}' parameter.{hint}")
        super().__init__(f"Missing required parameter: {parameter}", **details)
        self.parameter = parameter


class InvalidParameterError(ValidationError):
    """A parameter has a value that the tool cannot take."""

    def __init__(self, parameter: str, reason: str, *, value: Any = None, **details: Unpack[Details]) -> None:
        super().__init__(f"Invalid parameter '{parameter}': {reason}", **details)
        self.parameter = parameter
        self.value = value


class InvalidToolError(ValidationError):
    """There is no such tool."""

    def __init__(self, name: str, **details: Unpack[Details]) -> None:
        details.setdefault("tool", name)
        super().__init__(f"Tool not found: {name}", **details)


class MalformedToolCallError(ValidationError):
    """The call itself could not be read, such as arguments that are not JSON."""


# ---- file_operation ----


class FileOperationError(ToolError):
    """A file could not be used. `target` is its path."""

    facts = FACTS["ToolExecutionError"]._replace(category="file_operation")


class FileNotFoundError(FileOperationError):
    """There is no such file."""

    def __init__(self, path: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        super().__init__(f"File not found: {path}", **details)


class FileExistsError(FileOperationError):
    """The file is there already."""

    def __init__(self, path: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        super().__init__(f"File exists already: {path}", **details)


class NotAFileError(FileOperationError):
    """A directory where a file is needed, or the reverse."""

    def __init__(self, path: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        super().__init__(f"Not of the kind the tool needs: {path}", **details)


PERMISSION_ADVICE = {
    "write_protected": "The file is write-protected. Ask for approval or choose another file.",
    "system_permission": "The system does not permit this. Check the file's permissions or choose another file.",
}


class PermissionDeniedError(FileOperationError):
    """The path may not be touched."""

    def __init__(
        self,
        path: str,
        reason: Literal["write_protected", "system_permission"] = "system_permission",
        **details: Unpack[Details],
    ) -> None:
        details.setdefault("target", path)
        details.setdefault("suggestion", PERMISSION_ADVICE[reason])
        super().__init__(f"Access denied: {path} ({reason})", **details)
        self.reason = reason


class IgnoreViolationError(FileOperationError):
    """An ignore file keeps the path from the agent."""

    def __init__(self, path: str, ignore_file: str = "an ignore file", **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        details.setdefault(
            "recommendations",
            (
                f"Ask the user to change {ignore_file}",
                "Work with other files",
                "Ask for approval of this one operation",
            ),
        )
        super().__init__(f"Access denied: {path} (restricted by {ignore_file})", **details)


class SandboxViolationError(FileOperationError):
    """The path leaves the sandbox, which is `root`."""

    def __init__(self, path: str, root: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        details.setdefault("user_message", f"Security: cannot access {path} (outside {root})")
        super().__init__(f"Path {path} escapes the sandbox {root}", **details)
        self.root = root


class DiskFullError(FileOperationError):
    """No space is left."""


# ---- content: an edit does not fit the file ----


class ContentError(ToolError):
    """The text of an edit and the file do not fit."""

    facts = FACTS["ContentMismatchError"]


class ContentNotFoundError(ContentError):
    """The text to replace is not in the file."""


class ContentMismatchError(ContentError):
    """The file is not as the edit expects it."""


class DuplicateMatchError(ContentError):
    """The text to replace is there more than once."""


class NoChangeError(ContentError):
    """The edit changes nothing."""


class EditWithoutReadError(ContentError):
    """The file has to be read before it is edited."""

    def __init__(self, path: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        super().__init__(f"Must read file before editing: {path}", **details)


# ---- execution ----


class ExecutionError(ToolError):
    """The tool ran and failed."""

    facts = FACTS["ToolExecutionError"]


class CommandTimeoutError(ExecutionError):
    """A command took longer than it may."""

    def __init__(self, timeout_s: float, **details: Unpack[Details]) -> None:
        super().__init__(f"Command timed out after {timeout_s:g} s", **details)
        self.timeout_s = timeout_s


class CommandFailedError(ExecutionError):
    """A command ended with a code other than 0. `stderr` is what it wrote."""

    def __init__(self, exit_code: int, stderr: str = "", **details: Unpack[Details]) -> None:
        text = f": {stderr.strip()}" if stderr.strip() else ""
        super().__init__(f"Command failed with exit code {exit_code}{text}", **details)
        self.exit_code = exit_code
        self.stderr = stderr


class CommandNotFoundError(ExecutionError):
    """The program is not installed."""


class ToolTimeoutError(ExecutionError):
    """The tool took longer than it may."""


class DiffApplyFailedError(ExecutionError):
    """A diff does not apply."""


class BrowserActionError(ExecutionError):
    """An action in a browser failed; close the browser before you hand this on."""


class McpToolError(ExecutionError):
    """An MCP server says that its tool failed."""


class McpResourceError(ExecutionError):
    """A resource of an MCP server could not be read."""


class McpConnectionError(ExecutionError):
    """An MCP server cannot be reached."""


class ToolExecutionError(ExecutionError):
    """The tool failed inside: what any other exception of a tool becomes."""


# ---- state: the agent's loop noticed something about the calls; these are no mistakes themselves ----


class StateError(ToolError):
    """The calls go nowhere."""

    facts = FACTS["ToolRepetitionError"]


class ToolRepetitionError(StateError):
    """The same call was made over and over."""


class ConsecutiveMistakeError(StateError):
    """A limit of mistakes in a row was reached; the person is asked."""

    def __init__(self, count: int, **details: Unpack[Details]) -> None:
        super().__init__(f"{count} mistakes in a row", **details)
        self.count = count


# ---- access and resources ----


class AccessError(ToolError):
    """Somebody has to allow this."""

    facts = FACTS["ToolPermissionError"]


class ToolAuthenticationError(AccessError):
    """The tool has no valid credentials."""


class ToolPermissionError(AccessError):
    """A person or a policy said no to this call."""


class ResourceError(ToolError):
    """What the tool should use is not there."""

    facts = FACTS["ResourceNotFoundError"]


class ResourceNotFoundError(ResourceError):
    """There is no such resource. `target` is found in the message where it is not given."""

    def __init__(self, resource: str | None = None, **details: Unpack[Details]) -> None:
        if resource:
            details.setdefault("target", resource)
        super().__init__(f"Resource not found: {resource}" if resource else "Resource not found", **details)
