"""The gate: verdicts with known truth, how often chance misleads it, and runs from a collector, a store and files."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from collector.commands.gate import Evaluation
from collector.engine.duckdb.store import Store
from collector.gate.difference import difference, t95
from collector.gate.junit import junit
from collector.gate.markdown import comment, markdown
from collector.gate.trials import MEASURES, Trial, success_of, trials_of, unstable
from collector.gate.verdict import Asked, Gate, judged
from collector.query.compare import COMPARED, compare
from collector.query.filters import Selection
from collector.query.trials import trials
from collector.transcripts.find import find_in
from collector.transcripts.kinds import by_content
from collector.transcripts.positions import Positions
from collector.transcripts.tables import load_agents
from collector.transcripts.trial import beside
from tests.conftest import RunningCollector, misstep
from tests.recorded import HOUR, NOW, SILENT, event, failed, holding, mixed

CALLS = 20


def trial(task: str, mistakes: float, calls: int = CALLS, **more: Any) -> Trial:
    return Trial(task, calls, sums={"mistake_rate": (mistakes, calls)}, **more)


def suite(mistakes: Sequence[Sequence[int]], **more: Any) -> list[Trial]:
    """A task for each list, with a trial for each number of mistakes in twenty calls."""
    return [trial(f"t{place}", one, **more) for place, task in enumerate(mistakes) for one in task]


STEADY = suite([[2, 1, 2], [0, 0, 0], [4, 5, 4], [1, 1, 2], [3, 2, 3]])
WORSE = suite([[8, 7, 9], [5, 6, 5], [11, 12, 11], [8, 8, 7], [10, 9, 9]])
EQUAL = suite([[3, 1, 1], [0, 1, 0], [5, 4, 5], [1, 2, 1], [2, 3, 3]])
LIMITED = Asked(limits={"mistake_rate": 0.05})
APART = [Trial(f"t{place}", 10, 8) for place in range(5)]


@pytest.mark.parametrize(
    ("baseline", "current", "asked", "state", "says"),
    [
        (STEADY, WORSE, Asked(), "failed", "Mistake_rate is worse: 10.0 % → 41.7 % (+31.7 pts, between "),
        (WORSE, STEADY, Asked(), "passed", "Mistake_rate is better: 41.7 % → 10.0 %"),
        (STEADY, STEADY, Asked(), "passed", "No clear difference in mistake_rate: 10.0 % → 10.0 %"),
        (STEADY, EQUAL, Asked(), "passed", "No clear difference"),
        (None, STEADY, LIMITED, "failed", "Mistake_rate is above the limit of 5.0 %: 10.0 %"),
        (None, STEADY, Asked(limits={"mistake_rate": 0.11}), "passed", "Mistake_rate: 10.0 %"),
        (STEADY, STEADY, LIMITED, "failed", "above the limit of 5.0 %"),
        # one trial of each task warns, however bad it is, unless that is asked for
        (suite([[0]] * 6), suite([[18]] * 6), Asked(), "warning", "Mistake_rate is worse"),
        (suite([[0]]), suite([[20]]), Asked(), "warning", ""),
        (None, suite([[20]]), LIMITED, "warning", "above the limit"),
        (suite([[0, 1]] * 6), suite([[18]] * 6), Asked(), "warning", "Mistake_rate is worse"),
        (suite([[0]] * 6), suite([[18], [16], [17]] * 2), Asked(trials=1), "failed", "Mistake_rate is worse"),
        # what cannot be told
        (suite([[0, 1], [0, 0]]), suite([[18, 18]] * 2), Asked(), "cannot tell", "4 trials on a side are too few"),
        ([], WORSE, Asked(), "cannot tell", "there are no trials of the baseline"),
        (STEADY, [], Asked(), "cannot tell", "there are no trials of this run"),
        (STEADY, APART, Asked(), "cannot tell", "the infrastructure broke 5 of 5 trials of this run"),
        (APART, STEADY, Asked(), "cannot tell", "the infrastructure broke 5 of 5 trials of the baseline"),
        (STEADY, [trial("other", 1), trial("other", 1)], Asked(), "cannot tell", "no task was tried on both sides"),
        (STEADY, STEADY, Asked(("recovery_rate",)), "cannot tell", "no call of this run counts for recovery_rate"),
        # one task alone: its trials are independent
        (suite([[1, 2, 1, 2, 1]]), suite([[9, 8, 9, 9, 8]]), Asked(), "failed", "Mistake_rate is worse"),
        # a task that only one side has is named and changes nothing
        (STEADY, [one for one in STEADY if one.task != "t2"], Asked(), "warning", "No clear difference"),
        (STEADY, [*STEADY, trial("t9", 20), trial("t9", 20)], Asked(), "passed", "No clear difference"),
    ],
)  # fmt: skip
def test_a_verdict_is_what_is_known(
    baseline: list[Trial] | None, current: list[Trial], asked: Asked, state: str, says: str
) -> None:
    found = judged(baseline, current, asked)
    assert found.state == state, found.sentence
    assert says in found.sentence
    assert found.exit == {"passed": 0, "warning": 0, "failed": 1, "cannot tell": 2}[state]


def test_a_task_counts_once_however_often_it_was_tried() -> None:
    """Without that, the hard task that was repeated would make an equal run look worse."""
    hard, easy = [trial("hard", 10)], [trial("easy", 0)]
    found = judged(hard * 2 + easy * 6, hard * 8 + easy * 2, Asked())
    assert "25.0 % → 25.0 %" in found.sentence
    assert found.state == "passed"


def test_what_the_infrastructure_broke_is_counted_apart_and_left_out() -> None:
    broken = [Trial("t0", 9, 1, cut_off=True, sums={"mistake_rate": (8, 8)}), Trial("t1", 4, 4)]
    found = judged(STEADY, [*STEADY, *broken], Asked())
    assert "10.0 % → 10.0 %" in found.sentence
    assert "- Counted apart on this run: 5 failures of environment or provider, which broke 2 trials." in markdown(
        found
    )


def test_success_stands_beside_and_never_fails_unless_asked() -> None:
    well = [trial(f"t{n}", 2, success=True) for n in range(8) for _ in range(3)]
    badly = [trial(f"t{n}", 2, success=False) for n in range(8) for _ in range(3)]
    found = judged(well, badly, Asked())
    assert found.state == "passed"
    assert "| task_success (beside) | 100 % | 0 % | -100.0 pts |" in markdown(found)
    assert judged(well, badly, Asked(("task_success",))).state == "failed"
    assert judged(well, badly, Asked(limits={"task_success": 0.5})).state == "failed"


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([trial("a", 1), trial("a", 2), trial("a", 1)], False),
        ([trial("a", 0), trial("a", 9), trial("a", 0)], True),
        ([trial("a", 20), trial("a", 20)], False),
        ([trial("a", 0), trial("a", 0)], False),
        ([trial("a", 9)], False),
        ([trial("a", 1, success=True), trial("a", 1, success=False)], True),
        ([trial("a", 1, success=True), trial("a", 1, success=None)], False),
    ],
)
def test_a_task_is_unstable_if_its_trials_differ_more_than_chance(trials: list[Trial], expected: bool) -> None:
    assert unstable(trials, "mistake_rate") is expected
    told = markdown(judged([*STEADY, *trials], [*STEADY, *trials], Asked()))
    assert ("Unstable on the baseline: `a`" in told) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.0", True), ("0.0", False), ("0.5", False), ("C", True), ("I", False), ("true", True), ("", None), (None, None),
     ("maybe", None), ("nan", False)],
)  # fmt: skip
def test_success_is_a_word_or_a_full_reward(text: str | None, expected: bool | None) -> None:
    assert success_of(text) is expected


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)])
def test_students_t_is_that_of_the_tables(freedom: int, value: float) -> None:
    assert t95(freedom) == pytest.approx(value, abs=0.01)


def test_the_interval_is_that_of_the_formulas_by_hand() -> None:
    """Two tasks, two trials: the variance between tasks is (1/2·(.2² + .2²)…) by paper, here with whole 10 each."""
    tasks = [([(1, 10), (3, 10)], [(4, 10), (6, 10)]), ([(2, 10), (2, 10)], [(3, 10), (5, 10)])]
    found = difference(tasks)
    assert (found.a.value, found.b.value) == (0.2, 0.45)
    # residuals from the common 0.325: task 1: -2.25 -.25 .75 2.75, task 2: -1.25 -1.25 -.25 1.75
    within = (4.333333 + 2.0) * (1 / 2 + 1 / 2) / 20**2
    between = 2 * ((0.5 / 20) ** 2 + (-0.5 / 20) ** 2)
    assert within > between
    assert found.between is not None
    assert found.between[2] - found.between[0] == pytest.approx(t95(6) * within**0.5, rel=1e-5)


def simulated(dice: random.Random, tasks: int, repeats: int, effect: float) -> tuple[list[Trial], list[Trial]]:
    """Tasks of very different difficulty, whose trials differ more than calls alone would; `effect` on the odds."""
    sides: tuple[list[Trial], list[Trial]] = ([], [])
    for number in range(tasks):
        rate = dice.betavariate(0.6, 4)
        for side, factor in zip(sides, (1.0, effect), strict=True):
            odds = factor * rate / (1 - rate)
            mean = min(max(odds / (1 + odds), 1e-6), 1 - 1e-6)
            for _ in range(repeats):
                own, calls = dice.betavariate(mean * 12, (1 - mean) * 12), dice.randrange(3, 30)
                side.append(trial(f"t{number}", sum(dice.random() < own for _ in range(calls)), calls))
    return sides


@pytest.mark.parametrize(("tasks", "repeats"), [(3, 4), (8, 2), (12, 3), (40, 2)])
def test_an_equal_run_seldom_fails_and_a_worse_one_does(tasks: int, repeats: int) -> None:
    """At no difference at most 5 of 100 verdicts are clear, and half of these say worse."""
    dice, runs = random.Random(5), 250
    clear = worse = 0
    for _ in range(runs):
        found = judged(*simulated(dice, tasks, repeats, 1.0), Asked())
        clear += found.rows[0].verdict != "unclear"
        worse += found.exit == 1
    assert clear / runs <= 0.07
    assert worse / runs <= 0.05
    seen = sum(judged(*simulated(dice, tasks, repeats, 4.0), Asked()).exit == 1 for _ in range(60)) / 60
    assert seen >= {3: 0.3, 8: 0.4, 12: 0.85, 40: 0.95}[tasks]


def test_a_few_mistakes_more_are_no_verdict() -> None:
    """Where hardly any call fails, a handful of unlucky trials must not look certain."""
    dice, runs = random.Random(3), 400
    worse = 0
    for _ in range(runs):
        a, b = ([trial(f"t{n}", dice.random() < 0.08) for n in range(10) for _ in range(3)] for _ in "ab")
        worse += judged(a, b, Asked()).exit == 1
    assert worse / runs <= 0.05


HOSTILE = "a|b`<img src=x>@everyone\n# big\x1b[31m\ufffe"


def test_names_of_tasks_change_nothing_in_markdown_and_xml() -> None:
    found = judged([*STEADY, trial(HOSTILE, 0), trial(HOSTILE, 12)], STEADY, Asked())
    said = comment(found)
    assert said.startswith("<!-- misstep gate -->\n**Misstep: warning.**")
    assert "`a\\|b'<img src=x>@everyone # big\\x1b[31m" in said
    assert "\x1b" not in said
    suite = ElementTree.fromstring(junit(found))
    assert suite.attrib | {"tests": ""} == {
        "name": "misstep gate", "tests": "", "failures": "0", "errors": "0", "skipped": "1",
    }  # fmt: skip


def cases(found: Gate) -> dict[str, list[str]]:
    suite = ElementTree.fromstring(junit(found))
    return {case.attrib["name"]: [one.tag for one in case] for case in suite.iter("testcase")}


def test_junit_fails_for_the_measure_that_is_worse_and_errs_where_nothing_is_known() -> None:
    assert cases(judged(STEADY, WORSE, Asked()))["mistake_rate"] == ["failure"]
    assert cases(judged(suite([[0]] * 6), suite([[18]] * 6), Asked()))["mistake_rate"] == ["system-out"]
    assert cases(judged(STEADY, APART, Asked()))["verdict"] == ["error"]


# From events
# ---------------------------------------------------------------------------

EVERY = Selection(NOW - 12 * HOUR, NOW, failure_only=SILENT, clock_ns=NOW)


@pytest.mark.parametrize("name", [name for name in MEASURES if name in COMPARED])
def test_the_parts_of_trials_sum_up_to_what_compare_tells(store: Store, name: str) -> None:
    events = [one for one in mixed(500) if "session" in one]
    holding(store, events)
    rows = trials(EVERY, [name]).rows(store)
    assert len(rows) == len({(one["service"], one["session"]) for one in events})
    assert sum(row["calls"] for row in rows) == len(events)
    halves = Selection(EVERY.end_ns, 2 * EVERY.end_ns - EVERY.start_ns, failure_only=SILENT, clock_ns=NOW)
    told = compare(halves, [name]).rows(store)[0]
    if COMPARED[name].unit.kind == "quantile":
        return
    scale = 1000 if COMPARED[name].unit.kind == "per_1000" else 1
    assert sum(row["part"] for row in rows) * scale == pytest.approx((told["a_part"] or 0) * scale)


def test_failures_of_the_infrastructure_are_in_no_measure(store: Store) -> None:
    apart = {"attribution": "provider", "mistake": False, "error_class": "OverloadedError"}
    holding(store, [
        event(9, attributes='{"task": "a", "reward": 1}'), failed(8), failed(7, **apart),
        event(6, session="s2", attributes='{"task.id": "b"}'), failed(5, session="s2", operation="model", **apart),
    ])  # fmt: skip
    first, second = trials_of(trials(EVERY, ["error_rate", "calls"]).rows(store))
    assert (first.task, first.success, first.calls, first.infrastructure, first.cut_off) == ("a", True, 3, 1, False)
    assert first.sums == {"error_rate": (1.0, 2.0), "calls": (2.0, 1.0)}
    assert (second.task, second.success, second.cut_off) == ("b", None, True)


@pytest.mark.parametrize("name", ["suite.task", 'a"b', "a/b", "~", "$", "*", "ü", "0"])
def test_any_attribute_may_name_the_task(store: Store, name: str) -> None:
    holding(store, [event(9, attributes=json.dumps({name: "rates"})), event(8), event(7, session="s2")])
    assert [row["task"] for row in trials(EVERY, ["calls"], name).rows(store)] == [None, "rates"]


def calls(version: str, task: str, number: int, mistakes: int, at: float) -> list[dict[str, Any]]:
    """A trial of ten calls as plain events."""
    return [
        {
            "tool": "read_file", "session": f"{version}-{task}-{number}", "service": "evals",
            "service_version": version,
            "call_id": f"{version}-{task}-{number}-{call}", "time": at + call, "task": task,
            "outcome": "error" if call < mistakes else "ok",
            **({"error": "FileNotFoundError: File not found: src/rate.py"} if call < mistakes else {}),
        }
        for call in range(10)
    ]  # fmt: skip


def test_a_collector_and_its_store_tell_the_same(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    running = start_collector(DIMENSIONS="task,suite")
    at = time.time() - 3600
    told = [
        one
        for version, more in (("1.2", 0), ("1.3", 5))
        for task in ("rates", "labels", "stock")
        for number in range(3)
        for one in calls(version, task, number, more + number % 2, at)
    ]
    answer = running.post("/v1/events", json.dumps(told))
    assert answer.is_success, answer.text
    running.kept_up()
    arguments = ["gate", "service_version=1.3", "--baseline", "service_version=1.2", "--task", "task"]
    files = ["--junit", "gate.xml", "--comment", "gate.md"]
    done = misstep(*arguments, "--to", running.url, *files, cwd=tmp_path, settings={"DIMENSIONS": "task,suite"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "**Misstep: failed.** Mistake_rate is worse: 3.3 % → 53.3 % (+50.0 pts" in done.stdout
    assert (tmp_path / "gate.md").read_text().endswith(done.stdout)
    assert b"<failure" in (tmp_path / "gate.xml").read_bytes()
    running.stop()
    stored = misstep(
        *arguments, "--store", f"duckdb:///{running.store}", cwd=tmp_path, settings={"DIMENSIONS": "task,suite"}
    )
    assert (stored.returncode, stored.stdout) == (1, done.stdout)


def transcript(session: str, mistakes: int) -> str:
    """A session of Claude Code with eight calls."""
    lines = []
    for call in range(8):
        at = f"2026-10-03T10:00:{call * 2:02d}.000Z"
        common = {"sessionId": session, "timestamp": at, "cwd": "/work", "version": "2.1.332"}
        asked = {"type": "tool_use", "id": f"toolu_{session}_{call}", "name": "Read", "input": {"file_path": "/work/a"}}
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": asked["id"], "content": "1\tx"}
        if call < mistakes:
            result |= {"is_error": True, "content": "<tool_use_error>File does not exist.</tool_use_error>"}
        model = {"role": "assistant", "content": [asked], "id": f"msg_{session}{call}", "model": "claude-sonnet-5"}
        user = {"role": "user", "content": [result]}
        lines.append(json.dumps({"type": "assistant", **common, "uuid": f"{session}{call}", "message": model}))
        lines.append(json.dumps({"type": "user", **common, "uuid": f"{session}r{call}", "message": user}))
    return "\n".join(lines) + "\n"


def evaluation(folder: Path, mistakes: int, reward: float) -> Path:
    for task in ("rates", "labels", "stock"):
        for number in range(2):
            trial = folder / f"{task}__{number}x"
            sessions = trial / "agent" / "sessions" / "projects" / "-work"
            sessions.mkdir(parents=True)
            name = f"{folder.name}-{task}-{number}"
            (sessions / f"{name}.jsonl").write_text(transcript(name, mistakes))
            rewards = {"verifier_result": {"rewards": {"reward": reward}}}
            (trial / "result.json").write_text(json.dumps({"task_name": f"shop/{task}", **rewards}))
    return folder


def test_files_of_two_evaluations_are_compared_without_a_collector(tmp_path: Path) -> None:
    old, new = evaluation(tmp_path / "old", 0, 1.0), evaluation(tmp_path / "new", 5, 0.0)
    done = misstep("gate", new, "--baseline", old, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Mistake_rate is worse: 0 % → 62.5 %" in done.stdout
    assert "| task_success (beside) | 100 % | 0 % |" in done.stdout
    assert "| `shop/rates` | 0 % | 62.5 % | 2 and 2 |" in done.stdout
    limited = misstep("gate", new, "--limit", "10%", cwd=tmp_path)
    assert (limited.returncode, "above the limit of 10.0 %: 62.5 %" in limited.stdout) == (1, True)


@pytest.mark.parametrize(
    ("agent", "task", "success"),
    [("harbor", "parcel/rates", "false"), ("inspect", "1", "I"), ("tau2", "3", None)],
)
def test_evaluations_tell_task_and_success(agent: str, task: str, success: str | None) -> None:
    folder = Path(__file__).parent / "data" / "transcripts" / agent
    files = by_content(find_in(load_agents().values(), folder))
    readings = Evaluation(files, Positions(None)).below([folder])
    told = {(one["more"]["task"], one["more"].get("task.success")) for found in files for one in readings.calls(found)}
    assert (task, success) in told


@pytest.mark.parametrize(
    ("path", "task"),
    [
        ("rates/trial-1/x.jsonl", "rates"),
        ("rates__aBc123/agent/sessions/projects/-work/x.jsonl", "rates"),
        (".claude/projects/-work-shop/x.jsonl", "-work-shop"),
        ("x.jsonl", None),
    ],
)
def test_a_task_is_the_first_folder_that_is_not_the_agents_own(tmp_path: Path, path: str, task: str | None) -> None:
    assert beside(tmp_path / path, tmp_path).get("task") == task


@pytest.mark.parametrize("text", ["[]", "{", '{"task_name": 1}', '{"verifier_result": {"rewards": []}}', "[" * 5000])
def test_a_strange_result_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    assert beside(tmp_path / "x.jsonl", tmp_path) == {}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["old"], "name this run, and a --baseline or a --limit"),
        (["nowhere", "--baseline", "old"], "nowhere is neither an agent nor a file or folder"),
        (["old", "--baseline", "old", "--measure", "luck"], "'luck' is no measure; measures are error_rate, "),
        (["old", "--limit", "many"], "--limit many: 'many' is no number"),
        (["old", "--limit", "mistake_rate=nan"], "--limit mistake_rate=nan: 'nan' is no limit"),
        (["old", "--limit", "inf"], "--limit inf: 'inf' is no limit"),
        (["old", "colour=red", "--baseline", "old"], "there is no parameter 'colour' here"),
        (["a=b", "--baseline", "tool=x", "--store", "duckdb:///none.duckdb"], "none.duckdb"),
    ],
)
def test_what_cannot_be_asked_is_told_and_ends_with_2(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "old").mkdir()
    done = misstep("gate", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
