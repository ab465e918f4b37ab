"""Did it help: a history with a known truth, its lessons, and their verdicts after they were adopted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.errors import Rejected
from collector.lessons.effect import Measured, effect, needed_sessions
from collector.lessons.groups import Seen
from collector.projects import only
from collector.query.filters import BadParameter, Selection
from collector.query.lesson_marks import LessonMark, mark_lesson, marks
from collector.query.lessons import find
from tests.recorded import DAY, MINUTE, NOW, Event, emptied, event

ADOPTED = NOW - 20 * DAY
Call = tuple[str, str, str, str | None]  # tool, target, outcome, class
COMMAND = "Bash"


def bash(command: str, error_class: str | None = None) -> Call:
    outcome = "ok" if error_class is None else "denied" if error_class == "denied" else "error"
    return COMMAND, command, outcome, error_class if outcome == "error" else None


def read(path: str, *, fails: bool = False) -> Call:
    return "Read", path, "error" if fails else "ok", "FileNotFoundError" if fails else None


Plan = Callable[[float, random.Random], Sequence[Call]]  # what a session does about one thing, by the days before NOW


def renamed_path(day: float, dice: random.Random) -> Sequence[Call]:
    """The file was renamed 45 days ago; the sentence is followed."""
    if day > 45:
        return [read("src/rate.py")]
    wrong = dice.random() < (0.7 if day > 20 else 0.05)
    return [read("src/rate.py", fails=True), read("src/rates.py")] if wrong else [read("src/rates.py")]


def wrong_test_command(day: float, dice: random.Random) -> Sequence[Call]:
    wrong = dice.random() < (0.6 if day > 20 else 0.05)
    return [bash("npm test", "CommandFailedError"), bash("pnpm test")] if wrong else [bash("pnpm test")]


def denied_push(day: float, dice: random.Random) -> Sequence[Call]:
    wrong = dice.random() < (0.6 if day > 20 else 0.05)
    return [bash("git status"), *([bash("git push", "denied")] if wrong else [])]


def ignored(day: float, dice: random.Random) -> Sequence[Call]:
    """A sentence that nobody follows."""
    return [bash("rg x", "CommandNotFoundError"), bash("grep x")] if dice.random() < 0.5 else [bash("grep x")]


def peak(day: float, dice: random.Random) -> Sequence[Call]:
    """Three weeks of a broken tool, over by itself before anybody wrote anything."""
    fails = dice.random() < (0.8 if 32 < day < 58 else 0.02)
    return [bash("make deploy", "CommandNotFoundError" if fails else None)]


def of_old_model(day: float, dice: random.Random) -> Sequence[Call]:
    """Only the old model does it."""
    wrong = day > 20 and dice.random() < 0.7
    return [bash("python a.py", "CommandNotFoundError"), bash("python3 a.py")] if wrong else [bash("python3 a.py")]


def history(
    plans: Sequence[Plan], model: Callable[[float], str] = lambda day: "m1", per_day: int = 2, **fields: Any
) -> Iterator[Event]:
    """Sessions of sixty days, each with all plans; the newest first."""
    dice = random.Random(7)
    number = 0
    for place in range(60 * per_day):
        day = (place + 0.5) / per_day
        calls = [call for plan in plans for call in plan(day, dice)]
        for step, (tool, target, outcome, error_class) in enumerate(calls):
            number += 1
            one = {
                "event_id": number, "time_ns": NOW - int(day * DAY) + step, "tool": tool, "target": target,
                "tool_kind": "command" if tool == COMMAND else "file", "outcome": outcome, "error_class": error_class,
                "session": f"s{place}", "model": model(day), "duration_ms": 1_000.0,
            }  # fmt: skip
            yield event(number, **one | fields)


def lessons(store: Store, start_ns: int = NOW - 60 * DAY, end_ns: int = NOW, **asked: Any) -> dict[str, Any]:
    return {row["shape"]: row for row in find(Selection(start_ns, end_ns), **asked).rows(store)}


def adopt(store: Store, row: Any, **said: Any) -> None:
    at = f"-{(NOW - ADOPTED) // DAY}d"
    mark_lesson(store, row, LessonMark(**{"state": "adopted", "time": at} | said), str, NOW)


def holding(store: Store, events: Iterable[Event]) -> None:
    """The store with exactly these events; what is derived from them is not asked."""
    store.execute("delete from events")
    store.write(Changes(NOW, events=list(events)))


@pytest.fixture(autouse=True)
def unmarked(store: Store) -> None:
    store.execute("delete from lesson_marks")


def test_the_right_lessons_follow_from_a_history_and_none_for_what_went_away(store: Store) -> None:
    plans = [renamed_path, wrong_test_command, denied_push, peak]
    holding(store, [one for one in history(plans) if one["time_ns"] < ADOPTED])
    found = lessons(store, end_ns=ADOPTED, state=["proposed"])
    assert {shape: row["text"] for shape, row in found.items()} == {
        "src/rate.py": "There is no `src/rate.py`: it is `src/rates.py`.",
        "npm test": "Use `pnpm test`, not `npm test`.",
        "git push": "Do not run `git push` here: it is refused every time.",
    }
    refused = lessons(store, end_ns=ADOPTED, state=["refused"])
    assert refused["make deploy"]["refused_by"] == "not_cured_by_itself"


def test_a_lesson_that_a_new_model_does_not_need_is_refused(store: Store) -> None:
    events = history([of_old_model], lambda day: "m2" if day < 20 else "m1")
    holding(store, [one for one in events if one["time_ns"] < NOW - 14 * DAY])
    assert lessons(store, end_ns=NOW - 14 * DAY)["python"]["refused_by"] == "same_model"


def test_after_adoption_each_gets_its_verdict(store: Store) -> None:
    everything = list(history([renamed_path, wrong_test_command, denied_push, ignored]))
    holding(store, [one for one in everything if one["time_ns"] < ADOPTED])
    for row in lessons(store, end_ns=ADOPTED, state=["proposed"]).values():
        adopt(store, row)
    holding(store, everything)
    found = lessons(store, state=["adopted"])
    assert {shape: row["verdict"] for shape, row in found.items()} == {
        "src/rate.py": "helped", "npm test": "helped", "git push": "avoided", "rg": "no_effect",
    }  # fmt: skip
    assert found["npm test"]["sentence"].startswith("Helped: it happened in ")
    assert "`pnpm test` was used first in 9" in found["npm test"]["sentence"]
    assert "it was tried in" in found["git push"]["sentence"]
    assert found["rg"]["sentence"].endswith("Firmer: Install it, or put it on the PATH that the agent starts with.")
    assert all(row["since"] == ADOPTED and row["known_by"] == "said" for row in found.values())


def test_what_no_longer_fails_at_all_is_still_measured(store: Store) -> None:
    def cured(day: float, dice: random.Random) -> Sequence[Call]:
        return [bash("npm test", "CommandFailedError"), bash("pnpm test")] if day > 20 else [bash("pnpm test")]

    everything = list(history([cured]))
    holding(store, [one for one in everything if one["time_ns"] < ADOPTED])
    adopt(store, lessons(store, end_ns=ADOPTED)["npm test"])
    holding(store, everything)
    [row] = find(Selection(NOW - 10 * DAY, NOW)).rows(store)
    assert (row["state"], row["verdict"], row["calls"]) == ("adopted", "helped", 0)
    assert row["text"] == "Use `pnpm test`, not `npm test`."


def test_a_change_of_the_model_at_the_same_time_can_be_told_from_nothing(store: Store) -> None:
    everything = list(history([of_old_model], lambda day: "m2" if day < 20 else "m1"))
    holding(store, [one for one in everything if one["time_ns"] < ADOPTED])
    adopt(store, lessons(store, end_ns=ADOPTED)["python"])
    holding(store, everything)
    row = lessons(store)["python"]
    assert row["verdict"] == "cannot_tell"
    assert row["sentence"] == "Cannot tell: the model changed from m1 to m2 on 2026-11-02."


def test_a_mark_is_taken_back_and_a_snoozed_one_comes_back(store: Store) -> None:
    holding(store, history([wrong_test_command]))
    row = lessons(store, end_ns=ADOPTED)["npm test"]
    mark_lesson(store, row, LessonMark("snoozed", for_="7d"), str, NOW - 8 * DAY)
    assert lessons(store, end_ns=NOW - 2 * DAY)["npm test"]["state"] == "snoozed"
    assert lessons(store)["npm test"]["state"] in ("proposed", "refused")
    mark_lesson(store, row, LessonMark("dismissed"), str, NOW)
    assert lessons(store)["npm test"]["state"] == "dismissed"
    assert not lessons(store, state=["proposed"])
    mark_lesson(store, row, LessonMark("open"), str, NOW)
    assert not store.rows("from lesson_marks")


def test_marks_are_of_the_project_that_made_them(store: Store) -> None:
    """Also of a lesson that two projects have: each says of it what it wants, and takes back only that."""
    emptied(store)
    holding(store, history([wrong_test_command]))
    row = lessons(store, end_ns=ADOPTED)["npm test"]
    decided = {"alpha": "adopted", "beta": "dismissed", None: "snoozed"}
    for project, state in decided.items():
        with only(project):
            mark_lesson(store, row, LessonMark(state), str, NOW)
    for project, state in decided.items():
        with only(project):
            assert {name: one["state"] for name, one in marks(store).items()} == {row["id"]: state}
    with only("gamma"):
        assert marks(store) == {}
        mark_lesson(store, row, LessonMark("open"), str, NOW)
    with only("alpha"):
        mark_lesson(store, row, LessonMark("open"), str, NOW)
        assert marks(store) == {}
    with only("beta"):
        assert [one["state"] for one in marks(store).values()] == ["dismissed"]
    assert lessons(store)["npm test"]["state"] == "snoozed"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (LessonMark("done"), "adopted, snoozed, dismissed or open"),
        (LessonMark("snoozed", time="-1d"), "go with the state adopted"),
        (LessonMark("adopted", for_="1d"), "goes with the state snoozed"),
        (LessonMark("adopted", known_by="magic"), "said, written, commit or file"),
        (LessonMark("adopted", time="2126-01-01"), "lies ahead"),
        (LessonMark("adopted", time="soon"), "RFC 3339"),
        (LessonMark("snoozed", for_="long"), "a duration"),
    ],
)
def test_what_is_no_mark_is_refused(store: Store, said: LessonMark, named: str) -> None:
    with pytest.raises((Rejected, BadParameter), match=named):
        mark_lesson(store, {"id": "7f3a92c1"}, said, str, NOW)


# Sessions as a text, oldest first: `x` makes the mistake, `.` does what is advised, `-` neither.


def seen(text: str, since: int = 0, **fields: Any) -> list[Seen]:
    """One session an hour."""
    hour = 60 * MINUTE
    return [
        Seen((since + place) * hour, (since + place) * hour + MINUTE, int(how == "x"), int(how == "x"), how == ".",
             **fields)
        for place, how in enumerate(text)
    ]  # fmt: skip


def judged(before: str, after: str, controls: Sequence[tuple[str, str]] = (), **fields: Any) -> Any:
    start = 100_000
    both = seen(before, start - len(before)) + seen(after, start, **fields)
    beside = [seen(one, start - len(one)) + seen(other, start) for one, other in controls]
    one = Measured("wrong-command", "npm test", "app", start * 60 * MINUTE, next="pnpm test")
    return effect(one, both, beside, elsewhere=False, now_ns=(start + len(after)) * 60 * MINUTE)


HALF = "x..x.x.x..x." * 4
GONE = "." * 40


@pytest.mark.parametrize(
    ("before", "after", "verdict", "said"),
    [
        (HALF, GONE, "helped", "`pnpm test` was used first in 100%"),
        (HALF, "-" * 40, "avoided", "it was tried in"),
        (HALF, HALF, "no_effect", "No effect"),
        (HALF, "x" * 40, "worse", "Worse"),
        (HALF, "." * 12, "no_sign_yet", "0 of 12 after. 8 more are needed"),
        (HALF, "", "no_sign_yet", "there is no session after yet. 20 more are needed."),
        ("x........." * 6, ".x........" * 2, "no_sign_yet", "more are needed"),
        ("x.x.", GONE, "cannot_tell", "only 4 sessions before"),
        ("." * 40, GONE, "cannot_tell", "did not happen in the 40 sessions before"),
        ("x" * 24 + "." * 12, GONE, "cannot_tell", "going away by itself before it was adopted"),
        ("x" * 30 + "..x.." * 3, "." * 80, "helped", "in 2"),  # the last third alone is the baseline
    ],
)
def test_verdicts(before: str, after: str, verdict: str, said: str) -> None:
    found = judged(before, after)
    assert (found.verdict, said in found.sentence) == (verdict, True), found.sentence


def test_sessions_before_the_mistake_was_possible_do_not_count() -> None:
    found = judged("." * 500 + HALF, GONE)
    assert found.before.sessions <= len(HALF)
    assert found.before.share > 0.4


def test_a_verdict_is_given_at_fixed_sizes() -> None:
    assert judged(HALF, GONE + "x" * 39).after.sessions == 40
    assert judged(HALF, GONE + "x" * 40).after.sessions == 80
    assert judged(HALF, GONE).seen_after == 40


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "m2"}, "the model changed from an unknown model to m2 on 1981-05-29"),
        ({"version": "3.0.1"}, "the agent's version changed from an unknown version to 3.0 on"),
        ({"imported": True}, "sessions are known from other sources from telemetry alone to transcripts on"),
    ],
)
def test_what_else_changed_is_named(fields: dict[str, Any], said: str) -> None:
    found = judged(HALF, GONE, **fields)
    assert (found.verdict, said in found.sentence) == ("cannot_tell", True), found.sentence


def test_with_enough_sessions_of_one_model_these_alone_are_compared() -> None:
    start = 100_000
    before = seen(HALF, start - 96, model="m1") + seen(HALF, start - 48, model="m2")
    one = Measured("wrong-command", "npm test", "app", start * 60 * MINUTE, next="pnpm test")
    found = effect(one, before + seen(GONE, start, model="m2"), [], elsewhere=False, now_ns=start * 60 * MINUTE + DAY)
    assert (found.verdict, found.before.sessions) == ("helped", 48)


def test_a_patch_of_the_agent_is_no_change() -> None:
    start = 100_000
    before = seen(HALF, start - 48, version="2.1.331")
    one = Measured("wrong-command", "npm test", "app", start * 60 * MINUTE, next="pnpm test")
    found = effect(one, before + seen(GONE, start, version="2.1.332"), [], elsewhere=False, now_ns=start * 60 * MINUTE)
    assert found.verdict == "helped"


def test_what_changed_where_nothing_was_adopted_is_not_the_lessons_doing() -> None:
    assert judged(HALF, GONE, [(HALF, GONE)] * 3).verdict == "cannot_tell"
    assert judged(HALF, GONE, [(HALF, HALF)] * 3).verdict == "helped"
    told = judged(HALF, GONE, [(HALF, GONE)] * 2)  # too few controls
    assert (told.verdict, told.controls, told.control) == ("helped", 2, None)


def test_the_transcripts_record_decides_who_had_read_it() -> None:
    """Some sessions after it, of another branch, did not load the file."""
    start = 100_000
    sessions = [
        *seen("x." * 12, start - 24, loaded=False), *seen("xx.x" * 6, start, loaded=False),
        *seen(GONE, start + 24, loaded=True),
    ]  # fmt: skip
    one = Measured("wrong-command", "npm test", "app", start * 60 * MINUTE, next="pnpm test")
    found = effect(one, sessions, [], elsewhere=False, now_ns=start * 60 * MINUTE + 9 * DAY)
    assert (found.verdict, found.by_record, found.before.sessions + 5, found.after.sessions) == ("helped", True, 48, 40)
    nobody = [
        Seen(each.first_ns, each.last_ns, each.failed, each.tried, each.followed, loaded=False) for each in sessions
    ]
    by_time = effect(one, nobody, [], elsewhere=False, now_ns=start * 60 * MINUTE + 9 * DAY)
    assert (by_time.by_record, by_time.seen_after) == (False, 64)


@pytest.mark.parametrize(("before", "sessions"), [(0.4, 32), (0.2, 76), (0.6, 17), (1.0, 6)])
def test_how_many_sessions_are_needed(before: float, sessions: int) -> None:
    """To see that a share falls to a quarter: the usual formula for two proportions, rounded up."""
    assert needed_sessions(before) == sessions
