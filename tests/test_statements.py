"""A statement says itself which tables it reads and whether the clock matters; here its text is asked too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from collector.query.breakdowns import breakdown, timeseries, values
from collector.query.changes import changes
from collector.query.compare import COMPARED, compare
from collector.query.costs import costs
from collector.query.filters import Selection, terms_of
from collector.query.groups import groups
from collector.query.queries import event, events, sources
from collector.query.retries import curve, retries, storms
from collector.query.sessions import sessions
from collector.query.signals import agreement, signals
from collector.query.statement import Answer, Derived, Statement
from collector.query.streaks import Scope, limits, streaks, summary
from collector.times import DAY

ALL = Selection(10 * DAY, 20 * DAY, failure_only=("silent",))
REPAIRED = Selection(10 * DAY, 20 * DAY, tuple(terms_of("recovered", "true")))


def comparing(measure: str) -> Callable[[Selection], Answer]:
    return lambda selection: compare(selection, [measure], ["tool"])


ASKED: dict[str, Callable[[Selection], Answer]] = {
    "breakdown": lambda s: breakdown(s, ["tool"], ["sessions", "p95_ms"]),
    "breakdown by recovered": lambda s: breakdown(s, ["recovered"], previous=True),
    "breakdown with recovery": lambda s: breakdown(s, ["tool"], ["recovery_rate"], previous=True),
    "timeseries": lambda s: timeseries(s, DAY, ["category"], previous=True),
    "values": lambda s: values(s, "tool", "x", [], 10),
    "values of recovered": lambda s: values(s, "recovered", "", [], 10),
    "events": lambda s: events(s, 10),
    "event": lambda s: event(1),
    "sessions": lambda s: sessions(s),
    "sessions by state": lambda s: sessions(s, ["state"], state="error"),
    "sources": lambda s: sources(s),
    "groups": lambda s: groups(s),
    "groups with recovery": lambda s: groups(s, measures=["recovery_rate"]),
    "retries": lambda s: retries(s, ["tool"], previous=True),
    "curve": lambda s: curve(s, ["tool"]),
    "curve by recovered": lambda s: curve(s, ["recovered"], previous=True),
    "storms": lambda s: storms(s, DAY, 10),
    "streaks": lambda s: streaks(s, Scope()),
    "summary": lambda s: summary(s, Scope(), previous=True),
    "limits": lambda s: limits(s, Scope(), ["model"], previous=True),
    "costs": lambda s: costs(s, ["tool"]),
    "signals": lambda s: signals(s, "mistake"),
    "agreement": lambda s: agreement(s, "mistake"),
    "changes": lambda s: changes(s, "errors"),
    "changes of a rate": lambda s: changes(s, "error_rate", ["model"]),
    "changes by tool": lambda s: changes(s, "error_rate", ["tool"]),
    **{f"compare {name}": comparing(name) for name in COMPARED},
    "compare p95": lambda s: compare(s, ["p95_ms"], ["tool"]),
}


def statements(answer: Answer) -> Iterator[Statement]:
    if isinstance(answer, Statement):
        yield answer
    elif isinstance(answer, Derived):
        yield from answer.asked


@pytest.mark.parametrize("name", ASKED)
def test_what_a_statement_says_that_it_reads_is_in_its_text(name: str) -> None:
    for selection in (ALL, REPAIRED):
        found = list(statements(ASKED[name](selection)))
        assert found
        for each in found:
            assert each.of_kept == ("kept_" in each.sql)
            assert each.of_clock == ("$clock_ns" in each.sql)
            assert each.limited == ("$most_rows" in each.sql)
