"""Lessons: the examples of the table, what counts as working next, the gates, and the answer of the API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.lessons.call import Call, Failure
from collector.lessons.candidates import candidates
from collector.lessons.kinds import lessons
from collector.lessons.shapes import parameter, path
from collector.query.check import check
from collector.query.filters import BadParameter, Selection
from collector.query.lessons import find
from collector.tables import load_toml, schemas
from tests.recorded import DAY, MINUTE, NOW, Event, event, holding

ROWS = load_toml(schemas().joinpath("lessons.toml"))["lesson"]
SHELLS = ("Bash",)
OUTCOMES = ("ok", "denied", "cancelled")


def parsed(text: str) -> tuple[Call, str | None, str]:
    """A call of the table's examples, with its class and its message."""
    tool, target, ended, *message = (part.strip() for part in text.split("|"))
    outcome = ended if ended in OUTCOMES else "error"
    kind = "command" if tool in SHELLS else None
    return Call(tool, outcome, kind, target or None), None if outcome == ended else ended, "".join(message)


def told(texts: Sequence[str], sessions: int) -> list[Failure]:
    """The failed calls of that many sessions, one a day, each with these calls."""
    calls = [parsed(text) for text in texts]
    return [
        Failure(
            session * 100 + place, NOW - session * DAY, "app", f"s{session}", call, error_class, message=message,
            mcp_server=call.tool.split("__")[1] if call.tool.startswith("mcp__") else None,
            following=tuple(after for after, _, _ in calls[place + 1 :]),
        )
        for session in range(sessions)
        for place, (call, error_class, message) in enumerate(calls)
        if call.outcome in ("error", "denied")
    ]  # fmt: skip


def sentences(texts: Sequence[str], kind: str) -> list[str]:
    return [one.text for one in candidates(told(texts, 5), lessons()) if one.kind.kind == kind]


EXAMPLES = [(row["kind"], one) for row in ROWS for one in row["examples"]]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(EXAMPLES)])
def test_calls_of_each_row_become_its_sentence(kind: str, example: dict[str, Any]) -> None:
    assert sentences(example["calls"], kind) == [example["says"]]


COUNTER = [(row["kind"], calls) for row in ROWS for calls in row["counter"]]


@pytest.mark.parametrize(("kind", "calls"), COUNTER, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(COUNTER)])
def test_other_calls_do_not(kind: str, calls: list[str]) -> None:
    assert not sentences(calls, kind)


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        ("pytest -q tests/test_a.py", "pytest"),
        ("cd web && CI=1 pnpm test -- a.ts", "pnpm test"),
        ("cd api; sudo timeout 30s make -j4 e2e", "make e2e"),
        ("/usr/local/bin/python3 -m pytest -x", "python3 -m pytest"),
        ("uv run --frozen pytest", "uv run pytest"),
        ("npm run build:prod", "npm run build:prod"),
        ("docker compose -f a.yml up -d", "docker compose up"),
        ("git -C repo push origin main", "git push"),
        ("./gradlew test --info", "./gradlew test"),
        ("FOO=1 BAR=2", None),
        ("cd /srv", None),
        ("", None),
        ("&& && |", None),
        ("echo hi | tee a", "tee"),
    ],
)
def test_the_shape_of_a_command(command: str, shape: str | None) -> None:
    assert lessons().commands.shape(command) == shape


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("pytest", "uv run pytest", True),
        ("python", "python3", True),
        ("npm test", "pnpm test", True),
        ("npm test", "git status", False),
        ("rg", "grep", True),
        ("npm test", "npm run build", False),
    ],
)
def test_commands_with_the_same_goal(one: str, other: str, same: bool) -> None:
    assert lessons().commands.same_goal(one, other) is same


def test_paths_of_one_run_are_not_of_the_project() -> None:
    assert path("~/work/app/src/a.py", "~/work/app") == "src/a.py"
    assert path("src/a.py", "app") == "src/a.py"
    assert path("/tmp/x/out.log", "") is None
    assert path("logs/2026-11-02.txt", "") is None
    assert path("build/9f86d081884c7d65", "") is None


def test_the_parameter_that_a_message_names() -> None:
    assert parameter("Missing required parameter 'path'", "read") == "path"
    assert parameter('"count" is required for tool `list`', "list") == "count"
    assert parameter("argument limit must be below 100", "list") == "limit"
    assert parameter("bad call", "list") is None


def history(days: Iterable[int], calls: Sequence[tuple[str, str, str | None]], **fields: Any) -> list[Event]:
    """On each day before NOW a session with these calls of Bash: target, outcome, class."""
    made = []
    for day in days:
        for place, (target, outcome, error_class) in enumerate(calls):
            number = day * 1000 + place + fields.get("event_id", 0)
            one = {
                "event_id": number, "time_ns": NOW - day * DAY - MINUTE + place, "tool": "Bash", "tool_kind": "command",
                "target": target, "outcome": outcome, "session": f"d{day}", "error_class": error_class,
                "duration_ms": 2_000.0,
            }  # fmt: skip
            made.append(event(number, **one | {name: value for name, value in fields.items() if name != "event_id"}))
    return made


def answered(store: Store, events: Iterable[Event], **asked: Any) -> list[dict[str, Any]]:
    holding(store, events)
    return find(Selection(NOW - 60 * DAY, NOW), **asked).rows(store)


WRONG = [("pytest -q", "error", "CommandNotFoundError"), ("uv run pytest -q", "ok", None)]


def test_a_recurring_mistake_is_a_lesson_with_its_evidence(store: Store) -> None:
    quiet = history(range(40, 50), [("ls", "ok", None)])
    [row] = answered(store, [*history(range(1, 13), WRONG), *quiet])
    assert (row["text"], row["state"]) == ("`pytest` is not installed here. Use `uv run pytest`.", "proposed")
    assert (row["calls"], row["sessions"], row["scope_sessions"], row["days"]) == (12, 12, 22, 12)
    assert (row["attempts"], row["rate"], row["strength"]) == (12, 1.0, "always")
    assert (row["next"], row["next_sessions"], row["recovered_sessions"]) == ("uv run pytest", 12, 12)
    assert (row["scope"], row["seconds"], row["tokens"]) == ("api", 24.0, None)
    assert (row["first_seen"], row["last_seen"]) == (NOW - 12 * DAY - MINUTE, NOW - DAY - MINUTE)
    for example in json.loads(row["examples"]):
        named = "select project, service, session from events where event_id = $id"
        [shown] = store.rows(named, {"id": int(example["event_id"])})
        assert {name: example[name] for name in shown} == shown, "a link to it names its session as the page does"


QUIET = [("ls", "ok", None)]
REFUSED = {
    "breadth": history([1, 2], WRONG * 3),
    "still_happening": [*history(range(20, 30), WRONG), *history(range(1, 10), QUIET)],
    "not_cured_by_itself": [*history([*range(31, 45), 12], WRONG), *history(range(1, 12), QUIET)],
    "same_model": [*history(range(9, 25), WRONG, model="old"), *history(range(1, 9), QUIET, model="new")],
    "denominator": [
        *history(range(1, 8), WRONG), *history(range(1, 8), [("pytest", "ok", None)] * 20, event_id=500)
    ],
    "share": [
        *history(range(1, 6), WRONG), *(event(n, session=f"x{n}", event_id=9_000_000 + n) for n in range(150))
    ],
}  # fmt: skip


@pytest.mark.parametrize(("gate", "events"), REFUSED.items(), ids=REFUSED)
def test_a_gate_refuses_and_says_why(store: Store, gate: str, events: list[Event]) -> None:
    [row] = answered(store, events, state="refused")
    assert row["refused_by"] == gate, row["gates"]
    assert not answered(store, events, state="proposed")


def test_nothing_is_a_lesson_where_nothing_failed(store: Store) -> None:
    assert not answered(store, [event(number) for number in range(50)])


def test_before_a_call_is_made_its_like_can_be_looked_up(store: Store) -> None:
    holding(store, [*history(range(1, 8), WRONG), *history([9], [("python -m pytest", "ok", None)])])
    ever = Selection(NOW - 60 * DAY, NOW)
    [row] = check(ever, "cd api && pytest tests/test_b.py", "", "").rows(store)
    assert (row["shape"], row["calls"], row["failed"], row["sessions"]) == ("pytest", 7, 7, 7)
    assert (row["next"], row["next_sessions"]) == ("uv run pytest", 7)
    assert row["sentence"] == (
        "`pytest` failed in 7 of 7 calls, in 7 sessions (CommandNotFoundError). "
        "What worked next in 7 of them: uv run pytest."
    )
    [row] = check(ever, "uv run pytest -x", "", "").rows(store)
    assert row["sentence"] == "`uv run pytest` has not failed in 7 calls."
    [row] = check(ever, "cargo test", "", "").rows(store)
    assert row["sentence"] == "There is no record of `cargo test`."
    [row] = check(ever, "", "", "Bash").rows(store)
    assert (row["calls"], row["failed"], row["ok"]) == (15, 7, 8)
    with pytest.raises(BadParameter, match="say what is to be checked"):
        check(ever, "", "", "")
