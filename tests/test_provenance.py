"""Where calls are known from, and which repository they are of: filters, dimensions, and cautions of comparisons."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.query.breakdowns import breakdown
from collector.query.filters import BadParameter, Selection, select
from collector.query.provenance import caution
from tests.recorded import DAY, HOUR, NOW, event, failed, holding


def stored(store: Store, before: str | None, after: str | None) -> Store:
    """Two days: in the earlier one calls are known from `before`, in the later one from `after`."""
    sides = {0: after, 1: before}
    return holding(
        store,
        (
            (failed if number % 5 == 0 else event)(
                number, time_ns=NOW - number * HOUR // 4, provenance=sides[number // 96],
                repository="~/work/app" if number % 2 else None, session=f"s{number // 8}",
            )
            for number in range(192)
        ),
    )  # fmt: skip


def told(store: Store, **options: str) -> Any:
    body: dict[str, Any] = {}
    caution(SimpleNamespace(store=store), Selection(NOW - DAY + 1, NOW + 1), options)(body, [])
    return body["caution"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, "transcript", "0 % on side a and 100 % on side b come from transcripts"),
        ("both", None, "100 % on side a and 0 % on side b"),
        (None, None, None),
        ("transcript", "both", None),
    ],
)
def test_periods_that_are_known_from_different_places_say_so(
    store: Store, before: str | None, after: str | None, said: str | None
) -> None:
    found = told(stored(store, before, after))
    assert (found is None) == (said is None)
    assert (said or "") in (found or "")


def test_two_values_of_a_dimension_say_so_too(store: Store) -> None:
    stored(store, None, "transcript")
    assert told(store, dimension="provenance", a="telemetry", b="transcript") is None  # of one day, there is one only
    whole = {"dimension": "session", "a": "s0", "b": "s23"}
    body: dict[str, Any] = {}
    caution(SimpleNamespace(store=store), Selection(NOW - 3 * DAY, NOW + 1), whole)(body, [])
    assert "100 % on side a and 0 % on side b" in body["caution"]


def test_both_are_dimensions_and_filters(store: Store) -> None:
    stored(store, None, "transcript")

    def calls(**asked: str) -> dict[Any, int]:
        selection = select({"from": "-10d", **asked}, NOW + 1)
        rows = breakdown(selection, ["repository", "provenance"]).rows(store)
        return {(row["repository"], row["provenance"]): row["calls"] for row in rows}

    app = "~/work/app"
    whole = {(app, None): 48, (None, None): 48, (app, "transcript"): 48, (None, "transcript"): 48}
    assert calls() == whole
    assert calls(provenance="telemetry", repository=app) == {(app, None): 48}
    assert calls(provenance="!telemetry", repository="") == {(None, "transcript"): 48}
    assert calls(provenance="telemetry,transcript") == whole
    with pytest.raises(BadParameter, match="telemetry, transcript, both"):
        calls(provenance="guessed")
