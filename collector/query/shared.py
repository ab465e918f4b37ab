"""`measure` for many rules: what several of them need of one window is worked out once and kept for the evaluation.

Retry chains and streaks cost a hundred times what counting them does. The first rule that needs a relation reads it
as part of its own statement; for the second it becomes a table in memory, which all further ones read, and at the
next evaluation the first one too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from collector.alerts.state import Sample
from collector.query.filters import Selection
from collector.query.measures import chains, of_groups, runs
from collector.query.measures import measure as measured
from collector.query.statement import Reads, used

RELATIONS: Mapping[str, Callable[[Selection], str]] = {
    "chains": chains,
    "runs": runs,
    "new_groups": lambda _: of_groups("new_groups"),
    "regressed_groups": lambda _: of_groups("regressed_groups"),
}
MOST_ASKS = 10_000

Where = Mapping[str, list[str] | str | bool]


class Keeps(Reads, Protocol):
    """The part of the store that this needs: tables that live in memory, outside of the file."""

    def keep(self, name: str, sql: str, params: Mapping[str, object]) -> str: ...

    def drop_kept(self) -> None: ...


class Measures:
    """Called like `measure`, by one thread at a time. A later end begins a new evaluation."""

    def __init__(self, store: Keeps, failure_only: Sequence[str] = ()) -> None:
        self._store = store
        self._failure_only = tuple(failure_only)
        self._newest_ns = 0
        self._asked: set[tuple[str, int, int]] = set()
        self._kept: dict[tuple[str, int, int], str] = {}
        self._answers: dict[str, list[Sample]] = {}
        self._shared: set[tuple[str, int]] = set()  # relations and lengths of windows that the last evaluation shared

    def __call__(
        self, store: Reads, measure: str, where: Where, by: Sequence[str], start_ns: int, end_ns: int
    ) -> list[Sample]:
        if end_ns > self._newest_ns:
            self._forget()
            self._newest_ns = end_ns
        ask = repr((measure, dict(where), tuple(by), start_ns, end_ns))
        if ask not in self._answers:
            found = measured(
                store, measure, where, by, start_ns, end_ns, failure_only=self._failure_only, prepared=self._prepared
            )
            if sum(map(len, self._answers.values())) + len(found) > MOST_ASKS:
                return found
            self._answers[ask] = found
        return self._answers[ask]

    def _prepared(self, relation: str, selection: Selection) -> str | None:
        key = (relation, selection.start_ns, selection.end_ns)
        known_to_share = (relation, selection.end_ns - selection.start_ns) in self._shared
        if key not in self._asked and not known_to_share:
            self._asked.add(key)
            return None
        if key not in self._kept:
            sql = RELATIONS[relation](selection)
            name = f"{relation}_{len(self._kept)}"
            self._kept[key] = self._store.keep(name, sql, used(sql, selection.params()))
        return self._kept[key]

    def _forget(self) -> None:
        self._shared = {(relation, end_ns - start_ns) for relation, start_ns, end_ns in self._kept}
        if self._kept:
            self._store.drop_kept()
        self._asked, self._kept, self._answers = set(), {}, {}
