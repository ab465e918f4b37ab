"""A store filled by `misstep demo --bulk`: realistic, the same for the same seed, and only if nobody has it open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.columns import COLUMNS
from collector.commands.bulk import bulk
from collector.engine.duckdb.store import Store
from collector.query.breakdowns import breakdown
from collector.query.filters import Selection, terms_of
from collector.query.groups import groups
from collector.query.retries import retries
from collector.query.streaks import Scope, streaks
from tests.conftest import RunningCollector, misstep
from tests.recorded import DAY, NOW

EVENTS = 8_000
MONTH = Selection(NOW - 30 * DAY, NOW)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"duckdb:///{tmp_path_factory.mktemp('bulk') / 'one.duckdb'}"
    assert bulk(url, EVENTS, 7, NOW) == EVENTS
    opened = Store.open(url)
    yield opened
    opened.close()


def test_bulk_makes_what_the_questions_are_about(store: Store) -> None:
    total = breakdown(MONTH, [], ["sessions", "p95_ms"]).rows(store)[0]
    assert total["calls"] == EVENTS
    assert 0.08 < total["error_rate"] < 0.25
    assert total["cancelled"] > 0
    assert total["denied"] > 0
    assert EVENTS / 40 < total["sessions"] < EVENTS / 20
    states = {row["state"] for row in streaks(MONTH, Scope(), min_length=3, limit=10_000).rows(store)}
    assert {"recovered", "ended"} <= states
    again = retries(MONTH, []).rows(store)[0]
    assert 0.5 < again["recovery_rate"] < 0.95
    assert again["recovered_identical"] > 0
    assert again["recovered_changed"] > 0
    assert len(groups(MONTH).rows(store)) > 20


def test_bulk_has_a_release_that_made_a_tool_worse(store: Store) -> None:
    diffs = Selection(
        MONTH.start_ns, MONTH.end_ns, (*terms_of("tool", "apply_diff"), *terms_of("service", "shop-coder"))
    )
    rates = {row["service_version"]: row["error_rate"] for row in breakdown(diffs, ["service_version"]).rows(store)}
    assert rates["1.8.0"] > 1.5 * rates["1.7.2"]


def test_bulk_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    contents = []
    for number, seed in enumerate((7, 7, 8)):
        url = f"duckdb:///{tmp_path / f'{number}.duckdb'}"
        bulk(url, 500, seed, NOW)
        made = Store.open(url)
        contents.append(made.rows(f"select {', '.join(COLUMNS)} from events order by event_id"))
        made.close()
    assert contents[0] == contents[1] != contents[2]


def test_bulk_refuses_a_store_that_a_collector_has_open(collector: RunningCollector) -> None:
    done = misstep("demo", "--bulk", 100, "--store", f"duckdb:///{collector.store}", cwd=collector.folder)
    assert done.returncode == 2
    assert "is in use by another process" in done.stderr
    assert collector.events() == []
