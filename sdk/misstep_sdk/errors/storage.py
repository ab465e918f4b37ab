"""What goes wrong with the agent's own data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misstep_sdk.errors.base import AgentError, Details
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class StorageError(AgentError):
    """An error of the agent's own data."""

    facts = FACTS["IoError"]


class StorageNotFoundError(StorageError):
    """A record is missing."""

    def __init__(self, record: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", record)
        super().__init__(f"Record not found: {record}", **details)


class StorageAlreadyExistsError(StorageError):
    """A record is there already."""

    def __init__(self, record: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", record)
        super().__init__(f"Record already exists: {record}", **details)


class StorageParseError(StorageError):
    """Stored data cannot be read."""

    def __init__(self, line: int, reason: str, **details: Unpack[Details]) -> None:
        super().__init__(f"Parse error at line {line}: {reason}", **details)
        self.line = line


class SqliteError(StorageError):
    """The agent's database failed."""


class IoError(StorageError):
    """Reading or writing failed; once more may help."""


class SerializationError(StorageError):
    """A value cannot be written down."""
