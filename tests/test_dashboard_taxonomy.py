"""The collector accepts and applies the row that the Sources page offers for an error without a class."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.classify.classify import Evidence, load_taxonomy
from collector.classify.template.fingerprint import template
from dashboard.data.taxonomy import CLASSES, alias_row, message_row
from tests.search import searching

LONG = "the warp core of deck 12 says: " + "no " * 400


MESSAGES = (
    "the flux capacitor went sideways",
    "Flux of /home/me/a.txt and /tmp/b.txt went (strangely) sideways [3.5%] in 1200 ms",
    "it's 'odd' and \"even\", a\\b and C:\\new\\things went sideways",
    "went sideways\n\n  twice: ${x} {y} ^z$ | a* b+ c?\ttab\x7f",
    '{"message": "the \\"flux\\" went\\nsideways", "retry": 3}',
    "schräg ging es zur Seite – 二 😀",
    "<div> of <path> went sideways",
    LONG,
)


@pytest.mark.parametrize("operation", CLASSES)
def test_the_rows_for_messages_are_taken(tmp_path: Path, operation: str) -> None:
    rows = {message: message_row(operation, template(message), message) for message in MESSAGES}
    path = tmp_path / "taxonomy.toml"
    path.write_text("\n".join(row or "" for row in rows.values()) + "\n", encoding="utf-8")
    taxonomy = load_taxonomy(path)
    for message, row in rows.items():
        found = taxonomy.classify(Evidence(operation=operation, text=message))
        assert found == (CLASSES[operation], "message"), row


@searching()
@given(st.text(max_size=60))
def test_any_text_makes_a_row_that_is_toml_and_fits(text: str) -> None:
    message = f"the file cannot be read {text} any more"
    row = message_row("tool", template(message), message)
    assert row is not None
    assert tomllib.loads(row)["messages"][0]["examples"] == [message]


@pytest.mark.parametrize("operation", CLASSES)
@pytest.mark.parametrize("reported", ["Frobnication", 'it\'s "odd"\\', "schräg\tx"])
def test_the_row_for_a_reported_class_without_a_message_is_taken(tmp_path: Path, operation: str, reported: str) -> None:
    row = alias_row(operation, reported)
    assert row is not None
    path = tmp_path / "taxonomy.toml"
    path.write_text(row + "\n", encoding="utf-8")
    found = load_taxonomy(path).classify(Evidence(operation=operation, reported=reported))
    assert found == (CLASSES[operation], "alias"), row
    assert alias_row(operation, None) is alias_row(operation, "") is None


@pytest.mark.parametrize("message", ["", "42", "/tmp/a.txt", "3 2 1", "…"])
def test_a_message_without_words_makes_no_row(message: str) -> None:
    assert message_row("tool", template(message), message) is None
    assert message_row("tool", None, None) is None
