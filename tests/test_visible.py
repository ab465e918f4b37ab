"""Outside text on a terminal: nothing in it moves the cursor, sets a title, opens a link or turns the line."""

from __future__ import annotations

import pytest

from collector.commands.sql import Found, _table
from collector.visible import visible


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


def test_a_table_on_a_terminal_holds_no_control_character() -> None:
    row = b'{"tool":"\\u001b[2J\\u202e","calls":1}'
    shown = _table(Found([row], ["tool", "calls"], False), "table")  # type: ignore[list-item]
    assert "\\x1b[2J\\u202e" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
