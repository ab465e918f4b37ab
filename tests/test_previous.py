"""With `previous`, rates of retry chains and streaks equal those of a query for the period before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collector.engine.duckdb.store import Store
from collector.query.filters import Selection
from collector.query.retries import curve, retries
from collector.query.statement import Statement
from collector.query.streaks import Scope, limits, summary
from tests.recorded import HOUR, NOW, SILENT, failed, holding, mixed

PERIODS = [
    (lambda selection, **more: retries(selection, ["error_class"], limit=1000, **more), ["error_class"]),
    (lambda selection, **more: retries(selection, [], limit=1000, **more), []),
    (lambda selection, **more: curve(selection, ["tool"], **more), ["tool", "axis", "at"]),
    (lambda selection, **more: summary(selection, Scope(), limit=1000, **more), ["length"]),
    (lambda selection, **more: limits(selection, Scope(), ["tool"], **more), ["tool", "mistake_limit"]),
]


@pytest.mark.parametrize(("ask", "keys"), PERIODS)
def test_rates_of_chains_and_streaks_have_those_of_the_period_before_beside_them(
    store: Store, ask: Callable[..., Statement], keys: list[str]
) -> None:
    holding(store, [*mixed(), *(failed(330 + number, tool="gone", error_class="GoneError") for number in range(3))])
    now = Selection(NOW - 4 * HOUR, NOW, failure_only=SILENT)
    before = Selection(NOW - 8 * HOUR, NOW - 4 * HOUR, failure_only=SILENT)
    here, past = ({tuple(row[key] for key in keys): row for row in ask(one).rows(store)} for one in (now, before))
    both = {tuple(row[key] for key in keys): row for row in ask(now, previous=True).rows(store)}
    assert set(both) == set(here) | set(past)
    assert len(past) > 0
    for key, row in both.items():
        for prefix, side in (("", here), ("previous_", past)):
            shown = {name: row[f"{prefix}{name}"] for name in (*here.values(),)[0] if name not in keys}
            assert (
                shown == {name: side[key][name] for name in shown}
                if key in side
                else not any(value for value in shown.values() if not isinstance(value, str))
            )
