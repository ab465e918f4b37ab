"""The page Lessons says what the API says of each lesson."""

from __future__ import annotations

from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from tests.conftest import RunningCollector
from tests.test_mcp import told

__all__ = ["told"]


def test_a_lesson_is_told_with_its_evidence_and_what_worked_next(
    told: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    [row] = told.get("/api/v1/lessons", state="proposed")["rows"]
    app = open_app(told.url, "lessons")
    said = [one.value for one in app.markdown] + [one.value for one in app.caption]
    assert not app.exception
    assert "#### `pytest` is not installed here\\. Use `uv run pytest`\\." in said
    assert any(f"in {row['sessions']} of {row['scope_sessions']} sessions of coder" in one for one in said)
    assert f"What worked next in {row['next_sessions']} of {row['recovered_sessions']} sessions: uv run pytest" in said
    assert app.code[0].value == f"misstep lessons draft {row['id']}"


def test_an_empty_page_says_what_to_do(shared: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(shared.url, "lessons", state="refused", service="nobody")
    assert not app.exception
    assert any("No candidate lacks evidence" in one.value for one in app.caption)


def test_a_button_adopts_a_lesson_and_another_opens_it_again(
    told: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    [row] = told.get("/api/v1/lessons", state="proposed")["rows"]
    open_app(told.url, "lessons").button(key=f"adopted-{row['id']}").click().run()
    app = open_app(told.url, "lessons", state="adopted")
    assert not app.exception
    assert any("No sign yet" in one.value for one in app.markdown)
    app.button(key=f"open-{row['id']}").click().run()
    assert told.get(f"/api/v1/lessons/{row['id']}")["state"] == "proposed"
