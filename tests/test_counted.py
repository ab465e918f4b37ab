"""What /metrics counts: each call once, when it has settled; never less than before; as many as the API counts."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.correlate.correlate import Correlator
from collector.engine.duckdb.counted import MOST_NAMES, OTHER
from collector.engine.duckdb.forgetting import forget_transcripts
from collector.engine.duckdb.store import Store
from collector.telemetry import CALL_LABELS
from tests.conftest import HTTP, RunningCollector, wait_until
from tests.doors import NOW
from tests.recorded import emptied, event, failed, holding, replacing
from tests.test_recordings import FOLDER, RECORDINGS, exports, read

EVER = 2**62
SILENT = ("codex", "roo-code")  # as if neither told of successes


def in_store(store: Store) -> Counter[tuple[str, ...]]:
    """The events in the store by the labels of the metric."""
    rated = f"outcome in ('ok', 'error') and source not in {SILENT}"
    columns = {name: f"coalesce({name}, '')" for name in CALL_LABELS} | {"rated": f"({rated})::varchar"}
    names = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    rows = store.rows(f"select {names}, count(*) as calls from events group by all")
    return Counter({tuple(row[name] for name in CALL_LABELS): row["calls"] for row in rows})


def calls(store: Store, **labels: str) -> int:
    """The total of all series with these labels."""
    wanted = {(CALL_LABELS.index(name), value) for name, value in labels.items()}
    return sum(n for found, n in store.counted.shown()[0].items() if wanted <= set(enumerate(found)))


def owed(store: Store) -> int:
    return store.counted.shown()[1]


@pytest.fixture
def store(store: Store) -> Store:
    """A store in which nothing was ever counted."""
    store.counted.services, store.counted.silent = (), SILENT
    return emptied(store)


@pytest.mark.parametrize("settle", [0, EVER // 2])
def test_recordings_in_any_order_are_counted_as_the_store_has_them(
    settle: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.engine.duckdb.counted.MOST_NAMES", {})
    chance = random.Random(settle)
    items = [item for path in chance.sample(RECORDINGS, 30) for item in json.loads(path.read_text())["records"]]
    chance.shuffle(items)
    correlator = Correlator(store.lookup(), fresh=True)
    before: dict[tuple[str, ...], int] = {}
    for number, batch in enumerate(read([items[at : at + 100] for at in range(0, len(items), 100)])):
        changes = correlator.plan([batch])
        store.write(changes)
        correlator.learn(changes)
        store.count_settled(NOW + number - settle)
        if number % 10 == 0:
            store.count_again()  # as after a restart
        shown = store.counted.shown()[0]
        assert all(shown[labels] >= n for labels, n in before.items()), "a total went down"
        before = shown
    store.count_settled(EVER)
    shown, left = store.counted.shown()
    stored = in_store(store)
    assert len(stored) > 100
    assert sum(shown.values()) - left == stored.total() == store.rows("select count(*) n from events")[0]["n"]
    if settle > len(items):
        assert (shown, left) == (dict(stored), 0), "exactly: nothing changed after it was counted"
    else:
        assert left > 0, "late reports do correct calls"
        assert all(shown[labels] >= n for labels, n in stored.items())
        assert Counter(shown) - stored == Counter(shown) - Counter(stored)


def test_a_correction_moves_a_call_without_any_total_going_down(store: Store) -> None:
    holding(store, [event(1), event(2)])
    assert store.count_settled(EVER)
    assert not store.count_settled(EVER), "each once"
    replacing(store, [1], [failed(1)])
    assert (calls(store, outcome="ok"), calls(store, outcome="error"), owed(store)) == (2, 1, 1)
    assert calls(store, outcome="error", error_class="FileNotFoundError", category="file_operation") == 1
    store.count_again()
    assert owed(store) == 1, "a restart forgets nothing"
    replacing(store, [], [event(3), event(4)])
    assert (calls(store, outcome="ok"), owed(store)) == (3, 0), "the next one pays"
    replacing(store, [3], [event(3, duration_ms=5.0)])
    assert (calls(store), owed(store)) == (4, 0), "nothing that is a label has changed"


def test_two_calls_that_become_one_are_counted_once(store: Store) -> None:
    holding(store, [event(1), event(2, outcome="unknown")])
    store.count_settled(EVER)
    replacing(store, [1, 2], [event(1)])
    assert (calls(store), owed(store)) == (2, 1)


def test_what_retention_removes_stays_counted_and_what_is_forgotten_is_owed(store: Store) -> None:
    holding(store, [event(1, received_ns=1), event(2, provenance="transcript"), event(3)])
    store.count_settled(EVER)
    store.prune(NOW, NOW - 10)
    assert (calls(store), owed(store)) == (3, 0)
    forget_transcripts(store)
    assert (calls(store), owed(store)) == (3, 1)


def test_a_transaction_that_fails_counts_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    holding(store, [event(1)])
    store.count_settled(EVER)

    def fails() -> None:
        raise OSError("the file is gone")

    monkeypatch.setattr(store._connection, "check_file", fails)
    with pytest.raises(OSError, match="is gone"):
        replacing(store, [1], [failed(1)])
    monkeypatch.undo()
    assert (calls(store), calls(store, outcome="ok"), owed(store)) == (1, 1, 0)


def test_names_that_senders_make_up_become_one_series(store: Store) -> None:
    events = [event(number, service=f"s{number}", tool=f"t{number}") for number in range(1000)]
    holding(store, [*events, *(event(2000 + number, service="big", tool="late") for number in range(5))])
    store.count_settled(EVER)
    shown, _ = store.counted.shown()
    assert len(shown) <= MOST_NAMES["service"] + MOST_NAMES["tool"] + 2
    assert calls(store) == 1005
    assert calls(store, service="big", tool="late") == 5, "the most used have names"
    assert calls(store, service=OTHER, tool=OTHER) > 900
    store.count_again()
    replacing(store, [], [event(5000, service="new"), event(5001, service="big")])
    assert (calls(store, service="new"), calls(store, service="big")) == (0, 6), "after a restart too"


def test_services_that_are_named_have_a_series_and_no_others(store: Store) -> None:
    store.counted.services = ("web", "api")
    holding(store, [event(number, service=name) for number, name in enumerate(["api", "web", "x", "y", "api"])])
    store.count_settled(EVER)
    assert (calls(store, service="api"), calls(store, service="web"), calls(store, service=OTHER)) == (2, 1, 2)


BY = ("service", "operation", "tool", "outcome", "error_class")
SERVICES = ("claude-code", "codex_cli_rs", "gemini-cli", "qwen-code")


def shown_by(collector: RunningCollector) -> Counter[tuple[str, ...]]:
    """What /metrics counts, and in all of what has a rate."""
    found: Counter[tuple[str, ...]] = Counter()
    families = {one.name: one for one in text_string_to_metric_families(HTTP.get(f"{collector.url}/metrics").text)}
    for sample in families["misstep_calls"].samples:
        found[tuple(sample.labels[name] for name in BY)] += int(sample.value)
        found["rated",] += int(sample.value) if sample.labels["rated"] == "true" else 0
    assert families["misstep_overcounted_calls"].samples[0].value == 0
    return found


def told_by(collector: RunningCollector) -> Counter[tuple[str, ...]]:
    """The same by the API."""
    rows = collector.get("/api/v1/breakdown", by=",".join(BY), limit=1000, **{"from": "2020-01-01T00:00:00Z"})["rows"]
    found: Counter[tuple[str, ...]] = Counter({("rated",): sum(row["rated"] for row in rows)})
    for row in rows:
        service, *others = (row[name] or "" for name in BY)
        found[service if service in ("", *SERVICES) else OTHER, *others] += row["calls"]
    return found


def test_metrics_are_what_the_api_says_of_the_same_events_over_restarts(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector(METRICS_SETTLE="1s", METRICS_SERVICES=",".join(SERVICES))
    for agent in ("gemini-cli-default", "codex"):
        for signal, body in exports(json.loads((FOLDER / f"{agent}.json").read_text())["records"]):
            assert collector.post(f"/v1/{signal}", body).status_code == 200
        expected = told_by(collector.kept_up())
        assert len(expected) > 5
        wait_until(lambda: shown_by(collector) == expected, lambda: str(shown_by(collector) - expected))  # noqa: B023
        if agent != "codex":
            collector.restart()
            assert shown_by(collector) == expected, "goes on where it was"
