"""Outside text on a terminal: nothing in it moves the cursor, sets a title, opens a link or turns the line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from collector.commands.sql import Found, _table
from collector.visible import say, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, naïve, 日本語 and 🙂", "plain, naïve, 日本語 and 🙂"),
        ("two\nlines", "two\nlines"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x1b]8;;http://evil.example\x1b\\link", "\\x1b]8;;http://evil.example\\x1b\\link"),
        ("\x9b31m and \x90q", "\\x9b31m and \\x90q"),
        ("over\rwritten\b\x7f\t", "over\\rwritten\\x08\\x7f\\t"),
        ("a\u202egpj.exe\u2066\u200f\u061c", "a\\u202egpj.exe\\u2066\\u200f\\u061c"),
        ("zero\u200bwidth\ufeff\u2028", "zero\\u200bwidth\\ufeff\\u2028"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_would_steer_a_terminal_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_table_on_a_terminal_holds_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    row = b'{"tool":"\\u001b[2J\\u202e","calls":1}'
    say(_table(Found([row], ["tool", "calls"], False), "table"))  # type: ignore[list-item]
    shown = capsys.readouterr().out
    assert "\\x1b[2J\\u202e" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


ROOT = Path(__file__).parents[1] / "collector"
# The commands whose output is CSV or JSON, or a token.
FOR_PROGRAMS = {("export.py", "sql"), ("sanitise.py", "sanitise_filter"), ("access.py", "token_create")}


def test_commands_print_what_people_read_in_one_place() -> None:
    found = set()
    for path in (*(ROOT / "cli").glob("*.py"), ROOT / "app.py", *(ROOT / "commands").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                names = [one.id for one in ast.walk(function) if isinstance(one, ast.Name)]
                found |= {(path.name, function.name)} if "print" in names else set()
    assert found == FOR_PROGRAMS


def test_what_a_command_says_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(OSError("tool \x1b]0;title\x07 \u202egpj.exe"))
    assert capsys.readouterr().out == "tool \\x1b]0;title\\x07 \\u202egpj.exe\n"
