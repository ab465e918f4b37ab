"""The history at every evaluation equals the live measure on a store that ends there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from collector.alerts.rules import MEASURES
from collector.engine.duckdb.store import Store
from collector.errors import Unavailable
from collector.measures import families
from collector.measures import history as module
from collector.measures.all import measure_all
from collector.measures.families import RELATIONS, First, MeasureQuery, measure_family, nearest
from collector.measures.history import History, history
from collector.measures.history_sql import Evaluations
from collector.measures.measure import Labels, Sample, labels_of
from collector.query.filters import BY_NAME, BadParameter, Term, terms_of_rule
from collector.query.group_marks import Mark, mark
from tests.recorded import DAY, HOUR, MINUTE, NOW, Event, failed, holding, measure
from tests.recorded import event as well
from tests.search import EXAMPLES

SILENT = ("roo-code",)
START = NOW - 6 * HOUR
LIVELY = (2, 3)  # seeds of which every measure changes
LOOKED_AT = max(2, EXAMPLES // 5)  # evaluations of a history


def lively(seed: int, count: int = 240) -> list[Event]:
    """A day of a few sessions with pauses, equal times, retries, denials, unknown classes and null columns.

    A third of the groups were seen nine days before, and their services three days before.
    """
    chance = random.Random(seed)
    events = [failed(count + one, time_ns=START - 9 * DAY, fingerprint=one) for one in range(0, 20, 3)]
    events += [well(count + 20 + one, time_ns=START - 3 * DAY, service=name) for one, name in enumerate(("api", "web"))]
    clocks = {session: START - 3 * HOUR + chance.randrange(HOUR) for session in ("a", "b", "c", None)}
    for number in range(count):
        session = chance.choice(list(clocks))
        clocks[session] += chance.choice((0, 1, 20 * 10**9, MINUTE, 4 * MINUTE, 31 * MINUTE, 70 * MINUTE)) // 2
        fields: dict[str, Any] = {
            "time_ns": clocks[session],
            "session": session,
            "service": chance.choice(("api", "api", "web")) if session != "c" else None,
            "source": chance.choice(("codex", "codex", "roo-code")),
            "tool": chance.choice(("read", "write")),
            "duration_ms": chance.choice((None, 5.0, 7.5, 100.0 + number)),
        }
        if chance.random() < 0.5:
            fields["outcome"] = chance.choice(("ok", "ok", "ok", "denied"))
            events.append(well(number, **fields))
        else:
            unknown = chance.random() < 0.3
            fields["error_class"] = "UnknownError" if unknown else "FileNotFoundError"
            fields["fingerprint"] = chance.randrange(12) + number // 30
            fields["mistake"] = not unknown
            events.append(failed(number, **fields))
    return events


def marked(store: Store) -> Store:
    """The store in which somebody resolved four groups."""
    for fingerprint in range(6, 10):
        mark(store, fingerprint, Mark(state="resolved"), str, lambda: START + 2 * HOUR)
    return store


def plain(
    store: Store, cases: Sequence[Case], at_ns: int, window_ns: int, events: Sequence[Event]
) -> list[dict[Labels, Sample]]:
    """The slow reference: the live measures at one evaluation, on what was stored until then.

    `silent` with `recovered` reads the chains that the store keeps, which reflect only the present.
    """
    if any(name == "silent" and where for name, where, _ in cases):
        holding(store, [one for one in events if one["time_ns"] < at_ns])
    asked = [MeasureQuery(name, terms_of_rule(where), tuple(by), at_ns - window_ns, at_ns) for name, where, by in cases]
    found = measure_all(store, asked, SILENT)
    assert not [answer.error for answer in found.values() if answer.error]
    return [{labels_of(one.labels): one for one in found[query].samples} for query in asked]


def unfolded(past: History) -> list[dict[Labels, Sample]]:
    """The samples at every evaluation, from the points where they change."""
    found: list[dict[Labels, Sample]] = [{} for _ in range(past.evaluations.count)]
    for labels, line in past.lines.items():
        for point, following in zip(line, [*list(line)[1:], None], strict=True):
            for number in range(point.number, following.number if following else past.evaluations.count):
                if sample := past.sample(labels, point, number):
                    found[number][labels] = sample
    return found


Case = tuple[str, Any, list[str]]
CASES: list[Case] = [
    *((name, {}, by) for name in MEASURES for by in ([], ["service"], ["session", "tool"])),
    ("errors", {"recovered": True}, []),
    *((name, {"recovered": False}, by) for name in MEASURES for by in ([], ["service"])),
    ("streak", {"recovered": [""]}, ["service"]),
    ("p95_ms", {}, ["recovered"]),
    ("streaks", {}, ["recovered"]),
    ("calls", {}, ["recovered", "outcome"]),
    ("new_groups", {"tool": "read"}, ["service"]),
    ("streak", {"tool": ["!read"]}, ["service"]),
    ("silent", {"outcome": "error"}, ["tool"]),
    ("error_rate", {"service": ""}, ["mistake"]),
]


# Those that few statements answer for one evaluation, and those for which the store must end there.
ENDING = [case for case in CASES if case[0] == "silent" and case[1]]
ALIKE = [
    ([], {}),
    (["service"], {}),
    (["session", "tool"], {}),
    ([], {"recovered": False}),
    (["service"], {"recovered": False}),
]
GROUPS = [[case for case in CASES if (case[2], case[1]) == one and case not in ENDING] for one in ALIKE]
GROUPS += [[case for case in CASES if (case[2], case[1]) not in ALIKE and case not in ENDING], ENDING]


@pytest.mark.parametrize("seed", [LIVELY[0], pytest.param(LIVELY[1], marks=pytest.mark.deep)])
@pytest.mark.parametrize("cases", GROUPS, ids=lambda cases: f"{cases[0]} …")
def test_history_is_what_was_measured_then(store: Store, cases: list[Case], seed: int) -> None:
    marked(holding(store, lively(seed)))
    window_ns = (47 * MINUTE + 13, 2 * HOUR)[LIVELY.index(seed)]
    grid = Evaluations(START, 13 * MINUTE + 7, 27)
    found = [
        unfolded(history(store, name, where, by, grid, window_ns, failure_only=SILENT)) for name, where, by in cases
    ]
    for case, samples in zip(cases, found, strict=True):
        values = {(labels, one.value, one.calls) for then in samples for labels, one in then.items()}
        assert len(values) > len({labels for labels, _, _ in values}), f"nothing happens to {case}"
    events = store.rows("from events order by time_ns")
    for number in random.Random(seed).sample(range(grid.count), min(grid.count, LOOKED_AT)):
        expected = plain(store, cases, grid.at(number), window_ns, events)
        for case, ours, theirs in zip(cases, found, expected, strict=True):
            assert {labels: (one.value, one.calls) for labels, one in ours[number].items()} == {
                labels: (one.value and pytest.approx(one.value), one.calls) for labels, one in theirs.items()
            }, (case, number)


class Keeping:
    """The store, with the names of what it kept; without room it keeps nothing."""

    materializes = True

    def __init__(self, store: Store, *, room: bool) -> None:
        self.kept: list[str] = []
        self.rebuilding = False
        self.room = room
        self.version, self.rows, self.arrow, self.drop_kept = store.version, store.rows, store.arrow, store.drop_kept
        self._keep = store.keep

    def keep(self, name: str, sql: str, params: Mapping[str, object]) -> str:
        if not self.room:
            raise Unavailable("no room")
        self.kept.append(name.rsplit("_", 1)[0])
        return self._keep(name, sql, params)


@pytest.mark.parametrize("room", [True, False])
def test_many_questions_at_once_are_answered_as_each_alone(store: Store, room: bool) -> None:
    holding(store, lively(5))
    keeping = Keeping(store, room=room)
    spans = [(window_ns, START + later) for window_ns in (HOUR, 3 * HOUR) for later in (0, HOUR)]
    asked = {
        MeasureQuery(name, terms_of_rule(where), tuple(by), end_ns - window_ns, end_ns): (name, where, by)
        for window_ns, end_ns in (spans if room else spans[:1])
        for name, where, by in CASES
    }
    found = measure_all(keeping, asked, SILENT)
    for one, about in random.Random(room).sample(sorted(asked.items(), key=str), min(len(asked), 2 * EXAMPLES)):
        alone = measure(store, *about, one.start_ns, one.end_ns, failure_only=SILENT)
        assert sorted(map(str, found[one].samples)) == sorted(map(str, alone)), one
    assert Counter(keeping.kept) == (dict.fromkeys(RELATIONS, 2) if room else {})
    assert not store.rows("select table_name from duckdb_tables() where database_name = 'kept'")


@pytest.mark.parametrize(
    ("low_first", "least_calls", "by", "first"),
    [(False, 0, "session", "dc"), (True, 0, "session", "ab"), (False, 3, "session", "dc"), (True, 3, "session", "cd"),
     (False, 0, "tool", "dcba")],
)  # fmt: skip
def test_of_very_many_label_sets_those_nearest_to_firing_are_answered(
    store: Store, monkeypatch: pytest.MonkeyPatch, low_first: bool, least_calls: int, by: str, first: str
) -> None:
    """Session a has one call, b two …; one error more would make each twice as likely to come first."""
    monkeypatch.setattr(families, "MOST", 2)
    calls = [(name, number) for many, name in enumerate("abcd", 1) for number in range(many)]
    holding(store, [
        failed(place, session=name, tool=name, time_ns=START - MINUTE) for place, (name, _) in enumerate(calls)
    ])  # fmt: skip
    asked = MeasureQuery("errors", (), (by,), START - HOUR, START)
    [samples] = measure_family(store, [nearest(asked, First(least_calls, low_first))])
    assert sorted(one.labels[by] for one in samples) == sorted(first)
    [every] = measure_family(store, [asked])
    assert len(every) == 4


def test_a_question_that_fails_costs_no_other_its_answer(store: Store) -> None:
    holding(store, lively(5))
    well_asked = MeasureQuery("errors", (), ("tool",), START - HOUR, START)
    broken = replace(well_asked, terms=(Term(BY_NAME["fingerprint"], ("no number",)),))
    found = measure_all(store, [well_asked, broken, replace(well_asked, measure="calls")])
    assert [bool(one.error) for one in found.values()] == [False, True, False]
    assert found[well_asked].samples == measure(store, "errors", {}, ["tool"], START - HOUR, START)


def test_while_streaks_are_recomputed_no_rule_takes_their_absence_for_the_truth(store: Store) -> None:
    holding(store, lively(5))
    asked = [MeasureQuery(name, (), (), START - HOUR, START) for name in ("streak", "recovery_rate", "errors")]
    recomputing = store.rebuild()
    next(recomputing)
    found = measure_all(store, asked)
    assert [isinstance(found[one].error, Unavailable) for one in asked] == [True, True, False]
    assert list(recomputing)
    assert not any(answer.error for answer in measure_all(store, asked).values())


def test_evaluations_are_counted_from_a_time_that_need_not_be_round(store: Store) -> None:
    """An event counts from the first evaluation after it until the first after it left the window."""
    holding(store, [well(0, time_ns=START), well(1, time_ns=START + MINUTE - 1), well(2, time_ns=START - MINUTE)])
    past = history(store, "calls", {}, [], Evaluations(START, MINUTE, 5), MINUTE)
    assert [(point.number, point.value) for point in past.lines[()]] == [(0, 1), (1, 2), (2, 0)]


def test_what_changes_too_often_is_refused_with_a_remedy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    holding(store, lively(1))
    with pytest.raises(BadParameter, match="choose a shorter range"):
        history(store, "calls", {}, ["session"], Evaluations(START, MINUTE, 300), HOUR)
