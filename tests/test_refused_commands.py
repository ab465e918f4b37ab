"""A tool for commands that failed has a class of commands only if one is known to have run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.classify.target import command_in
from tests.doors import taken

LS = {"command": "ls -la"}


def posted(**more: Any) -> str | None:
    """The class of a failed call of `run_command`."""
    call = {"tool": "run_command", "outcome": "error", "session": "s", "time": "2026-11-20T10:00:00Z"}
    [report] = taken(json.dumps(call | more).encode(), "events").reports
    return report.get("error_class")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"error_class": "TOOL_ERROR"}, "ToolExecutionError"),
        ({"error_class": "TOOL_ERROR", "params": {}}, "ToolExecutionError"),
        ({"error_class": "_OTHER"}, "ToolExecutionError"),
        ({"error_class": "TypeError"}, "ToolExecutionError"),
        ({}, "ToolExecutionError"),
        ({"params": {"timeout_s": "soon"}}, "ToolExecutionError"),
        ({"params": {"command": None}, "error_class": "TypeError"}, "InvalidParameterError"),
        ({"params": {"command": ""}, "error_class": "builtins.ValueError"}, "InvalidParameterError"),
        ({"params": {"command": [], "cwd": "/a"}, "error_class": "java.lang.NullPointerException"},
         "InvalidParameterError"),
        ({"params": {"command": 42}, "error_class": "AttributeError", "message": "'int' has no attribute 'split'"},
         "InvalidParameterError"),
        ({"params": {"comand": "ls"}, "error_class": "KeyError", "message": "KeyError: 'command'"},
         "InvalidParameterError"),
        ({"params": '{"command": "ls -la', "message": "Parameters must be formatted as a valid JSON!"},
         "InvalidParameterError"),
        ({"params": LS}, "CommandFailedError"),
        ({"params": LS, "error_class": "TOOL_ERROR"}, "CommandFailedError"),
        ({"params": LS, "error_class": "RuntimeError", "message": "went wrong"}, "CommandFailedError"),
        ({"params": {"action": {"type": "exec", "command": ["ls", "-la"]}}}, "CommandFailedError"),
        ({"message": "make: *** [Makefile:14: test] Error 2"}, "CommandFailedError"),
        ({"message": "went wrong"}, "CommandFailedError"),
        ({"params": {"command": None}, "message": "Process exited with code 2"}, "CommandFailedError"),
        ({"params": {}, "error_class": "TimeoutError"}, "CommandTimeoutError"),
        ({"params": {"timeout": 30}, "message": "no such file: run.sh"}, "FileNotFoundError"),
    ],
)  # fmt: skip
def test_a_command_class_needs_a_command_that_ran(given: dict[str, Any], expected: str) -> None:
    assert posted(**given) == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (None, None), ({}, False), ({"command": " "}, False), ({"cwd": "/a", "timeout": 3}, False), ("", False),
        (7, False), (LS, True), ({"cmd": ["bash", "-lc", "ls"]}, True), ({"Shell-Command": "ls"}, True),
        ({"python_code": "1"}, True),
        ("ls -la", True), ('{"command": "ls', False), (["ls"], True), ({"input": {"script": "x"}}, True),
        ({"args": {"command": None}}, False),
    ],
)  # fmt: skip
def test_whether_arguments_hold_a_command(params: object, expected: bool | None) -> None:
    assert command_in(params) is expected
