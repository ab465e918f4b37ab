"""What is wrong with the agent's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misstep_sdk.errors.base import AgentError, Details
from misstep_sdk.facts import FACTS

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ConfigError(AgentError):
    """An error of the agent's settings."""

    facts = FACTS["InvalidConfigError"]


class ConfigFileNotFoundError(ConfigError):
    """There is no configuration file."""

    def __init__(self, path: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", path)
        super().__init__(f"Config file not found: {path}", **details)


class InvalidConfigError(ConfigError):
    """The configuration is invalid."""


class MissingFieldError(ConfigError):
    """A required field is missing."""

    def __init__(self, field: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", field)
        super().__init__(f"Missing required field: {field}", **details)


class InvalidValueError(ConfigError):
    """A field has a wrong value."""

    def __init__(self, field: str, value: object, expected: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", field)
        super().__init__(f"Invalid value for {field}: {value} (expected {expected})", **details)


class EnvNotSetError(ConfigError):
    """An environment variable is not set."""

    def __init__(self, variable: str, **details: Unpack[Details]) -> None:
        details.setdefault("target", variable)
        details.setdefault("user_message", f"Missing environment variable: {variable}. Set it and restart.")
        super().__init__(f"Environment variable {variable} not set", **details)
