"""What a call acted on, from its arguments or from its error message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.classify.target import READ_CHARS, TARGET_CHARS, extract_target, target_from_params
from tests.doors import only, spans, taken


@pytest.mark.parametrize(
    ("params", "target"),
    [
        ({"path": "src/x.py", "content": "…"}, "src/x.py"),
        ({"old_string": "a", "file_path": "/srv/x"}, "/srv/x"),
        ({"filePath": "/srv/x", "command": "ls"}, "/srv/x"),
        ({"absolute_path": "/srv/x"}, "/srv/x"),
        ({"url": "https://a.test", "method": "GET"}, "https://a.test"),
        ({"command": "ls -la " + "x" * 5000}, ("ls -la " + "x" * 5000)[:READ_CHARS]),
        ({"cmd": ["git", "push"]}, "git push"),
        ({"paths": ["a.py", "b.py"]}, "a.py"),
        ({"pattern": "TODO", "path": ""}, "TODO"),
        ({"session_id": 7}, "7"),
        ("http://a.test/x\n", "http://a.test/x"),
        ("./src/x.py", "./src/x.py"),
        ("read /srv/x", None),
        ("a text", None),
        ({"path": True, "other": "x"}, None),
        ({"input": "*** Begin Patch\n*** Update File: src/a b.ts\n@@ x\n*** End Patch"}, "src/a b.ts"),
        ({"diff": "--- /dev/null\n+++ b/src/new.py\t2026-01-01\n@@ -0,0 +1 @@\n+x"}, "src/new.py"),
        ("*** Begin Patch\n*** Delete File: old.md\n*** End Patch", "old.md"),
        ("say *** Update File: x", None),
        (None, None),
        ({}, None),
    ],
)
def test_target_of_arguments(params: object, target: str | None) -> None:
    assert target_from_params(params) == target


@pytest.mark.parametrize(
    ("message", "target"),
    [
        (
            "Resource not found: packages/core/src/chat/errors/ChatError.ts",
            "packages/core/src/chat/errors/ChatError.ts",
        ),
        ("No such file or directory: '/srv/app/x y.toml'", "/srv/app/x y.toml"),
        ("File not found: /src/utils/helper.ts.", "/src/utils/helper.ts"),
        ("ENOENT: no such file or directory, open 'C:\\x\\y.txt'", "C:\\x\\y.txt"),
        ("GET https://a.test/x?y=1 failed: 403", "https://a.test/x?y=1"),
        ('could not read "notes.md"', "notes.md"),
        ("cat: nope.txt: No such file or directory", "nope.txt"),
        ("Access denied: secrets.env (rooignore)", "secrets.env"),
        ("Resource not found: ticket-42", "ticket-42"),
        ("Unknown tool: search_repo", None),
        ("expected str, bytes or os.PathLike object, not NoneType", None),
        ("cannot parse analysis.Rmd", "analysis.Rmd"),
        ("Field required, for more visit https://errors.example.test/missing", None),
        ("Recursion limit of 8 reached. For troubleshooting, visit: https://docs.example.test/errors/LIMIT", None),
        ("ticket not found (404)", None),
        ("bash: foo: No such file or directory", "foo"),
        ("bash: line 1: frobnicate: command not found", "frobnicate"),
        ("rm: cannot remove\nls: build: Permission denied", "build"),
        ("No such file or directory", None),
        *[
            (f"{word}: permission denied", None)
            for word in ("Error", "error", "Fatal", "PermissionError", "Exception", "tool", "open", "Failed")
        ],
        ("error_log: Permission denied", "error_log"),
        ("ENOENT: no such file or directory", None),
        ("Error: ENOENT: no such file or directory, open 'Makefile'", "Makefile"),
        ("ECHO: command not found", "ECHO"),
        ("Unable to verify if domain docs.test is safe to fetch: a policy may block claude.ai.", "docs.test"),
        ("An unknown error occurred", None),
        ("the branch does not exist or you lack access", None),
        ("Element not found on page", None),
        ("table not found in schema", None),
        ("no such column: user_id", "user_id"),
        ("no such table 'users'", "users"),
        ("cannot find symbol", None),
        ("cannot find createClient", "createClient"),
        ("branch not found: main", "main"),
        ("", None),
    ],
)
def test_target_of_a_message(message: str, target: str | None) -> None:
    assert extract_target(message) == target


@given(st.text())
def test_any_message_has_a_short_target_or_none(message: str) -> None:
    target = extract_target(message)
    assert target is None or 0 < len(target) <= TARGET_CHARS


def called(arguments: dict[str, str], message: str = "") -> str | None:
    """The target of a failed call, as stored."""
    attributes = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "run", "error.type": "ValueError",
        "gen_ai.tool.call.arguments": json.dumps(arguments), "error.message": message,
    }  # fmt: skip
    target: str | None = only(taken(spans({"attributes": attributes, "status": 2}), "traces")).get("target")
    return target


def test_no_part_of_a_secret_is_a_target() -> None:
    """Neither a part of a hash between two slashes, nor the rest of a long command that was cut."""
    hashed = "$2b$" + "12$" + "4gjri0ECBfr1ZSlPy/1jdG89HTVfgk.WBPEWeOgCB97QNsZ4i2J.s"
    assert not called({}, f"{hashed} is in use")
    assert called({}, "/srv/app/x.py is in use") == "/srv/app/x.py"
    token = "ghp" + "_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA3bC6"
    for gap in range(TARGET_CHARS - 60, TARGET_CHARS):
        told = called({"command": "curl " + "x" * gap + f" -u {token} https://api.example.test/" + "y" * 300})
        assert told
        assert len(told) <= TARGET_CHARS
        assert "aB3d" not in told


@pytest.mark.parametrize(("operation", "target"), [("tool", "src/a.ts"), ("model", None)])
def test_a_model_request_has_no_target_so_that_its_retries_share_a_chain(operation: str, target: str | None) -> None:
    failure = {"operation": operation, "outcome": "error", "tool": "read", "message": "cannot read src/a.ts"}
    [report] = taken(json.dumps({"service": "x", "session": "s", **failure}).encode(), "events").reports
    assert report.get("target") == target
