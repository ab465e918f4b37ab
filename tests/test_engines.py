"""Two engines, DuckDB and one in memory, hold the same after the same commits and answer every look-up alike."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.batch import Batch
from collector.correlate import conversations, memory
from collector.correlate.changes import Changes
from collector.correlate.correlate import Correlator
from collector.correlate.pacing import Later
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.times import DAY, HOUR, MAX_NS
from tests.memory import Memory, commit
from tests.recorded import emptied
from tests.reports import CALLS, NOW, Slow, batch, made, pieces
from tests.search import searching
from tests.test_recordings import RECORDINGS, read

QUESTIONS = [name for name in vars(Lookup) if not name.startswith("_")]
FORGOTTEN = [(memory, "KEYS"), (memory, "TRACES"), (memory, "REQUESTS"), (conversations, "KEYS"),
             (conversations, "TRACES")]  # fmt: skip
MOMENT = ("event_id", "service", "session", "time_ns", "operation", "duration_ms")  # of which `Changes` notes changes
ANY_OF = ("orphans", "waiting")
MANY = 10_000


@pytest.fixture
def store(store: Store) -> Store:
    """The store that the tests of this module share, with nothing in it."""
    return emptied(store)


def plain(answer: Any) -> Any:
    """An answer without the order in which it lists what has none."""
    if isinstance(answer, dict):
        return {key: plain(value) for key, value in answer.items()}
    if isinstance(answer, (list, set)):
        return sorted((plain(one) for one in answer), key=str)
    return answer


class Both:
    """An engine that asks two, says what both say, and fails where they differ."""

    def __init__(self, store: Store) -> None:
        self.store, self.memory = store, Memory()
        self.lookup = Lookup(store)

    def __getattr__(self, question: str) -> Callable[..., Any]:
        def asked(*of: Any) -> Any:
            answer, other = getattr(self.lookup, question)(*of), getattr(self.memory, question)(*of)
            if question in ANY_OF and len(answer) == of[0]:  # as many as may be, whichever
                assert len(other) == of[0], (question, of)
            else:
                assert plain(answer) == plain(other), (question, of)
            return answer

        return asked

    def write(self, changes: Changes) -> None:
        gone: Any = [self.memory.events[one] for one in sorted(changes.replaced) if one in self.memory.events]
        old, gone = ([[event.get(name) for name in MOMENT] for event in events] for events in (changes.old, gone))
        assert sorted(old) == gone
        self.store.write(changes)
        self.memory.write(changes)

    def compare(self) -> None:
        """Compares all that is stored, and the answers to every question about it."""
        assert self.store.rows("select * from events order by time_ns, event_id") == self.memory.rows()
        assert self.store.accounting() == self.memory.accounting()
        assert self.store.position() == self.memory.position()
        answered = {name: [getattr(self, name)(*of) for of in some] for name, some in self.questions().items()}
        assert answered.keys() == set(QUESTIONS)

    def questions(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every question, about all that is stored, about none of it, and about what came since some times."""
        memory = self.memory
        newest = memory.newest_ns()
        keys, refs = [7, *memory.keys], [7, *(key for key, _ in memory.waits)]
        calls = sorted({"none", *(row["call_id"] for row in memory.rows() if row["call_id"])})
        traces = sorted({"none", *memory.sessions, *(row["trace_id"] for row in memory.rows() if row["trace_id"])})
        named = ["none", *(session for _, session in memory.conversations.values())]
        since = [(time_ns,) for time_ns in (0, newest - 1, newest, newest + 1, newest + DAY)]
        most: list[tuple[Any, ...]] = [(MANY,), (0,)]
        units = [[row["unit"] for row in memory.twins][:number] for number in (0, 1, MANY)]
        wide = {row["identity"]: (row["time_ns"] - HOUR, row["time_ns"] + HOUR) for row in memory.twins}
        narrow = {row["identity"]: (row["time_ns"], row["time_ns"] + 1) for row in memory.twins}
        return {
            "known_requests": [([b"x" * 16, *memory.requests],), ([],)],
            "known_keys": [(keys,), ([],)],
            "ended_between": [(0, MAX_NS, calls, keys), (0, newest - 1, calls, []), (newest, MAX_NS, [], keys)],
            "keys_kept_since": [()],
            "known_sessions": [(traces,), ([],)],
            "has_conversations": [()],
            "traces_retelling": [([7, *memory.retold],), ([],)],
            "retelling_alike": since,
            "conversations_of": [([*traces, *memory.conversations],), ([],)],
            "in_conversations": [(named,), ([],)],
            "strayed": since,
            "newest_ns": [()],
            "sharing": since,
            "nested": since,
            "newest_below": [*most, (2,)],
            "misplaced": since,
            "known_senders": [("seen",), ("sampled",)],
            "known_switches": [()],
            "known_unread": [()],
            "orphans": most,
            "orphaned": [(traces, newest), (traces, newest + DAY + 1), (traces[:1], newest), ([], newest)],
            "waiting": most,
            "awaiting": [(refs,), (refs[:2],), ([],)],
            "twins_near": [(spans, some) for spans in (wide, narrow, {}) for some in units],
            "reports_of": [([7, *memory.events, *memory.reports], when) for when in (newest, newest + 2 * DAY, 0)],
        }


@contextmanager
def forgetful() -> Iterator[None]:
    """Correlators remember hardly anything meanwhile, so that they ask the store."""
    with ExitStack() as patches:
        for module, name in FORGOTTEN:
            patches.enter_context(patch.object(module, f"{name}_REMEMBERED", 0))
        yield


def committed(store: Store, groups: Sequence[Sequence[Batch]], chance: random.Random) -> None:
    """Commits the groups to both engines, with correlators that forget, are slow to ask, and are started anew."""
    both, clock = Both(store), Slow()
    engine: Any = both
    with forgetful():
        correlator = Correlator(engine, fresh=True, later=Later(clock, clock))
        for group in groups:
            if chance.random() < 0.4:
                correlator = Correlator(engine, fresh=False, later=Later(clock, clock))
                clock.now += 100
            commit(engine, [group], correlator)
        clock.now += 100
        commit(engine, [[batch(identity=b"the last request")]], correlator)
    both.compare()


@pytest.mark.parametrize("part", range(3))  # so that none takes long
@searching(0.2)
@given(CALLS, st.randoms(use_true_random=False), st.sets(st.integers(0, 2)))
def test_engines_agree_on_any_reports(
    part: int, store: Store, calls: list[tuple[int, int, int, str]], chance: random.Random, linked: set[int]
) -> None:
    emptied(store)
    requests = pieces(made(calls), {f"t{trace}": f"S{trace}" for trace in sorted(linked)}, chance)
    size = chance.randint(2, 6)
    committed(store, [requests[at : at + size] for at in range(0, len(requests), size)], chance)


@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=pytest.mark.deep if number % 2 else [])
    for number, path in enumerate(RECORDINGS[::9])
])  # fmt: skip
def test_engines_agree_on_recordings(store: Store, path: Path) -> None:
    items = json.loads(path.read_text())["records"]
    chance = random.Random(path.stem)
    shuffled = items + chance.sample(items, len(items) // 2)
    chance.shuffle(shuffled)
    size = len(shuffled) // 6 + 1
    cut = [shuffled[at : at + size] for at in range(0, len(shuffled), size)]
    committed(store, [[each] for each in read(cut)], chance)


def test_engines_forget_nothing_that_is_asked_days_later(store: Store) -> None:
    """Calls of three days, the first of which are told again on the last."""
    chance = random.Random(3)
    requests = pieces(
        made([(n % 3, n % 2, n % 4, kind) for n, kind in enumerate(["log", "span", "told"] * 4)]), {}, chance
    )
    for number, one in enumerate(requests):
        one.received_ns = NOW + number * 4 * HOUR
        for report in one.reports:
            report["received_ns"] = one.received_ns
    committed(store, [[one] for one in requests], chance)
