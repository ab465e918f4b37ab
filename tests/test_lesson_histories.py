"""Did it help, in two more histories with a known truth: two repositories, and a repair that came from elsewhere."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.query.filters import Selection
from collector.query.lesson_marks import LessonMark, mark_lesson
from collector.query.lessons import find
from tests.recorded import DAY, NOW, emptied
from tests.test_lesson_effects import ADOPTED, Call, Plan, bash, history, holding

SHOP, DOCS = "~/shop", "~/docs"


@pytest.fixture(autouse=True)
def unmarked(store: Store) -> None:
    emptied(store)


def wrong(command: str, right: str, before: float, after: float) -> Plan:
    """`command` is not found, and `right` works next: in a share of the sessions before adoption, and after it."""

    def plan(day: float, dice: random.Random) -> Sequence[Call]:
        share = before if day > 20 else after
        return [bash(command, "CommandNotFoundError"), bash(right)] if dice.random() < share else [bash(right)]

    return plan


def in_repository(name: str, plans: Sequence[Plan], number: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """The history of one repository; sessions and events of several are told apart."""
    events = []
    for one in history(plans, repository=name, **fields):
        one["session"] = f"{name} {one['session']}"
        one["event_id"] = one["event_id"] + number * 1_000_000
        events.append(one)
    return events


def rows(store: Store, end_ns: int = NOW, **asked: Any) -> dict[tuple[str, str], Any]:
    return {(row["scope"], row["shape"]): row for row in find(Selection(NOW - 60 * DAY, end_ns), **asked).rows(store)}


def marked(store: Store, row: Any, state: str) -> None:
    at = f"-{(NOW - ADOPTED) // DAY}d"
    said = LessonMark(state, time=at) if state == "adopted" else LessonMark(state, for_="90d")
    mark_lesson(store, row, said, str, NOW if state == "adopted" else ADOPTED)


def test_two_repositories_learn_different_sentences_and_each_is_judged_by_its_own_sessions(store: Store) -> None:
    """The shop follows its sentence, the docs do not follow theirs; neither is judged by the other's sessions."""
    everything = [
        *in_repository(SHOP, [wrong("pytest -q", "uv run pytest -q", 0.6, 0.02)]),
        *in_repository(DOCS, [wrong("hugo server", "npx hugo server", 0.5, 0.5)], 1),
    ]
    holding(store, [one for one in everything if one["time_ns"] < ADOPTED])
    found = rows(store, end_ns=ADOPTED, state=["proposed"])
    assert {where: row["text"] for where, row in found.items()} == {
        (SHOP, "pytest"): "`pytest` is not installed here. Use `uv run pytest`.",
        (DOCS, "hugo"): "`hugo` is not installed here. Use `npx hugo`.",
    }
    for row in found.values():
        marked(store, row, "adopted")
    holding(store, everything)
    verdicts = {where: row["verdict"] for where, row in rows(store, state=["adopted"]).items()}
    assert verdicts == {(SHOP, "pytest"): "helped", (DOCS, "hugo"): "no_effect"}


def test_what_fell_where_nothing_was_written_is_not_the_sentences_doing(store: Store) -> None:
    """Somebody installed all four tools on the day that one sentence was written; three were snoozed."""
    tools = {
        "pytest -q": "uv run pytest -q",
        "ruff check": "uvx ruff check",
        "mypy src": "uvx mypy src",
        "tox -q": "uvx tox -q",
    }
    everything = in_repository(SHOP, [wrong(bad, good, 0.6, 0.05) for bad, good in tools.items()])
    holding(store, [one for one in everything if one["time_ns"] < ADOPTED])
    found = rows(store, end_ns=ADOPTED, state=["proposed"])
    assert len(found) == 4, found.keys()
    for (_, shape), row in found.items():
        marked(store, row, "adopted" if shape == "pytest" else "snoozed")
    holding(store, everything)
    row = rows(store, state=["adopted"])[SHOP, "pytest"]
    assert row["verdict"] == "cannot_tell"
    assert "nothing was adopted" in row["sentence"] or "snoozed" in row["sentence"], row["sentence"]


def test_a_sentence_that_was_there_from_the_first_session_has_no_before(store: Store) -> None:
    """Written into the instructions before anything was recorded: what would have been without it is not known."""
    everything = in_repository(SHOP, [wrong("pytest -q", "uv run pytest -q", 0.4, 0.4)])
    holding(store, everything)
    row = rows(store)[SHOP, "pytest"]
    mark_lesson(store, row, LessonMark("adopted", time="-61d", known_by="commit"), str, NOW)
    row = rows(store, state=["adopted"])[SHOP, "pytest"]
    assert row["verdict"] == "cannot_tell"
    assert "before" in row["sentence"], row["sentence"]
