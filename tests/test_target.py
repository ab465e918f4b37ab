"""What a call acted on, from its arguments or from its error message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.classify.target import TARGET_CHARS, extract_target, target_from_params


@pytest.mark.parametrize(
    ("params", "target"),
    [
        ({"path": "src/x.py", "content": "…"}, "src/x.py"),
        ({"old_string": "a", "file_path": "/srv/x"}, "/srv/x"),
        ({"filePath": "/srv/x", "command": "ls"}, "/srv/x"),
        ({"absolute_path": "/srv/x"}, "/srv/x"),
        ({"url": "https://a.test", "method": "GET"}, "https://a.test"),
        ({"command": "ls -la " + "x" * 300}, ("ls -la " + "x" * 300)[:TARGET_CHARS]),
        ({"cmd": ["git", "push"]}, "git push"),
        ({"paths": ["a.py", "b.py"]}, "a.py"),
        ({"pattern": "TODO", "path": ""}, "TODO"),
        ({"session_id": 7}, "7"),
        ({"path": True, "other": "x"}, None),
        ({}, None),
    ],
)
def test_target_of_arguments(params: dict[str, object], target: str | None) -> None:
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
        ("Field required, for more visit https://errors.example.test/missing", None),
        ("ticket not found (404)", None),
        ("", None),
    ],
)
def test_target_of_a_message(message: str, target: str | None) -> None:
    assert extract_target(message) == target


@given(st.text())
def test_any_message_has_a_short_target_or_none(message: str) -> None:
    target = extract_target(message)
    assert target is None or 0 < len(target) <= TARGET_CHARS
