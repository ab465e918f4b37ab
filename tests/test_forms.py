"""The form of an answer for an `Accept` header."""

from __future__ import annotations

import pytest

from collector.api.representations import ARROW, wants_arrow


@pytest.mark.parametrize(
    ("accept", "arrow"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        (ARROW, True),
        (ARROW.upper(), True),
        (f"{ARROW}, */*;q=0.1", True),
        (f"{ARROW};q=0", False),
        (f"{ARROW}; q=0.000", False),
        (f"application/json;q=0.9, {ARROW};q=0.2", False),
        (f"application/json;q=0.2, {ARROW};q=0.9", True),
        (f"application/json, {ARROW}", True),
        (f"application/json, {ARROW};q=0.5", False),
        (f"{ARROW};q=much", True),
        (f"{ARROW}.other", False),
        (";;,,q=1", False),
    ],
)
def test_arrow_is_sent_where_it_is_named_and_liked_no_less_than_json(accept: str, arrow: bool) -> None:
    assert wants_arrow(accept) is arrow
