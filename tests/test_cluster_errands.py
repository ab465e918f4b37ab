"""Forgetting and sanitising reach what only the cluster has, from any collector, and what all others have."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collector.api.apply import Apply
from collector.api.forget import Forget
from collector.cluster import reach as reaching
from collector.cluster.client import Cluster, ClusterError
from collector.cluster.errands import Errands
from collector.cluster.reach import Reach, _spans, named
from collector.cluster.shared import Shared
from collector.cluster.tables import VERSIONED, Layout, home_of, make
from collector.correlate.changes import Changes
from collector.engine.duckdb.back import Back
from collector.engine.duckdb.meta import Meta
from collector.engine.duckdb.notes import note_changes
from collector.engine.duckdb.store import Store
from collector.engine.duckdb.write import put
from collector.errors import Rejected
from collector.pipeline import Pipeline
from collector.sanitise.redactions import load_rules
from collector.sanitise.sanitise import Sanitiser
from collector.times import SECOND
from tests.clickhouse import Front
from tests.conftest import HTTP, RunningCollector, wait_until
from tests.doors import pipeline
from tests.recorded import DAY, NOW, failed
from tests.test_apply import RULE, WORD, secret
from tests.test_publishing import publish, same

KEY = "k" * 32
OLD = NOW - 5 * DAY
WHERE = ("transcript", "both", None)


def told(number: int, **more: Any) -> Any:
    """A failed call, as telemetry, an agent's file or both tell it, some with a word in their texts."""
    word = secret(number) if number % 3 == 0 else "nothing"
    at = OLD + number * 7 * SECOND + (number % 5) * DAY // 4
    texts = {"message": f"cannot open {word}", "target": f"/srv/{word}", "attributes": json.dumps({"x": word})}
    session = None if number % 11 == 0 else f"s{number // 4}{f' {word}' if number % 24 < 4 else ''}"
    return failed(
        number, session=session, time_ns=at, received_ns=at, provenance=WHERE[number % 3 if number % 8 else 0],
        repository="~/x", **texts, **more,
    )  # fmt: skip


def filled(first: int, last: int, cluster: Cluster, *, published: bool = True) -> Store:
    """A store with these calls, which it has published, and removed as they are old."""
    store = Store.open("duckdb://:memory:")
    store.publishing = published
    changes = Changes(NOW, events=[told(number) for number in range(first, last)])
    with store.transaction() as cursor:
        put(cursor, changes)
        if published:
            note_changes(cursor, changes)
    while store.keep_up():
        pass
    if published:
        publish(store, cluster)
        assert store.prune(NOW, 2 * DAY) == last - first
        assert store.count("events") == 0
    return store


def reach(store: Store, cluster: Cluster) -> Reach:
    def fence() -> Callable[[], bool]:
        publish(store, cluster)
        return lambda: True

    return Reach(cluster, Back(store), Meta(store).collector(), fence)


def pipeline_with_rule(tmp_path: Path) -> Pipeline:
    (tmp_path / "redactions.toml").write_text(RULE)
    rules = load_rules(tmp_path / "redactions.toml")
    return replace(pipeline(), sanitiser=Sanitiser(rules))


def ended(work: Forget | Apply) -> dict[str, Any]:
    while work.step():
        pass
    assert work.state == "done"
    return work.told()


def versions(cluster: Cluster, where: str) -> int:
    """Rows of all versions, those that were replaced too."""
    return sum(cluster.rows(f"select count() as n from {table}_rows where {where}")[0]["n"] for table in VERSIONED)


@pytest.mark.parametrize(
    ("what", "kills"),
    [
        ("forget", 1),
        ("sanitise", 1),
        *(pytest.param(what, 9, marks=pytest.mark.deep) for what in ("forget", "sanitise")),
    ],
)
def test_what_only_the_cluster_has_becomes_as_if_it_were_here(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, kills: int
) -> None:
    """Also where a run is killed anywhere, again and again; rows of another collector stay until it does the same."""
    monkeypatch.setattr(reaching, "SLICE", 25)
    monkeypatch.setattr(reaching, "SESSIONS", 5)
    chance = random.Random(5)
    store, other = filled(0, 40, cluster), filled(100, 125, cluster)
    cluster.insert(
        "collectors_rows",
        [
            {
                "collector": Meta(each).collector(),
                "at_ns": NOW,
                "published_ns": NOW,
                "pending": 0,
                "version": 1,
                "gone": 0,
            }
            for each in (store, other)
        ],
        "both",
    )
    clean = pipeline_with_rule(tmp_path)

    def work(here: Store, *, far: bool = True) -> Forget | Apply:
        to = reach(here, cluster) if far else None
        return Forget(here, reach=to) if what == "forget" else Apply(here, clean, reach=to)

    for _ in range(kills):
        begun = work(store)
        for _ in range(chance.randrange(2, 7)):
            begun.step()
        if chance.random() < 0.5:
            publish(store, cluster)
            store.keep_up()
            store.prune(NOW, 2 * DAY)
    ended(work(store))
    theirs = f"collector = '{Meta(other).collector()}'"
    assert versions(cluster, f"{theirs} and not gone") > 50
    ended(work(other))

    whole = Store.open("duckdb://:memory:")  # the same calls, never published and never removed
    with whole.transaction() as cursor:
        put(cursor, Changes(NOW, events=[told(number) for number in (*range(40), *range(100, 125))]))
    ended(work(whole, far=False))
    same(whole, cluster)
    if what == "forget":
        assert 0 < whole.count("events") < 60
        assert cluster.rows("select count() as n from events where provenance is not null") == [{"n": 0}]
    assert versions(cluster, "gone") == 0
    assert versions(cluster, "true") == sum(cluster.rows(f"select count() as n from {t}")[0]["n"] for t in VERSIONED)
    if what == "sanitise":
        for table in VERSIONED:
            sql = f"select count() as n from {table}_rows where toString(tuple(*)) like {{word:String}}"
            assert cluster.rows(sql, {"word": f"%{WORD}%"}) == [{"n": 0}], table
    for each in (store, other, whole):
        each.close()


def test_texts_that_people_and_senders_gave_are_cut_in_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    word, now = secret(1), time.time_ns()
    shared = Shared(cluster)
    shared.put("alert_silences", [("1", {"author": word, "labels": {"tool": word}})])
    shared.put("file", [("rules", f"sealed {word}")])
    marked = {"fingerprint": 7, "resolved_ns": 0, "ignored_ns": 5, "issue": "", "note": word, "changed_ns": 1}
    cluster.insert("group_marks_rows", [marked], "mark")
    sender: dict[str, Any] = {
        "collector": "me",
        "project": "",
        "about": "seen",
        "source": "",
        "service": word,
        "name": "",
        "sign": "",
    }
    cluster.insert("senders_rows", [{**sender, "first_ns": now, "last_ns": now, "version": now, "gone": 0}], "sender")
    store = Store.open("duckdb://:memory:")
    store.publishing = True
    ended(Apply(store, pipeline_with_rule(tmp_path), reach=reach(store, cluster)))
    [silence] = cluster.rows("select value from shared_rows where kind = 'alert_silences'")
    assert WORD not in silence["value"]
    assert json.loads(silence["value"])["author"].startswith("[redacted:acme-word")
    [marked] = cluster.rows("select ignored_ns, note from group_marks where fingerprint = 7")
    assert marked["ignored_ns"] == 5
    assert WORD not in str(marked["note"])
    [seen] = cluster.rows("select service, first_ns from seen")
    assert (seen["first_ns"], WORD in str(seen["service"])) == (now, False)
    assert cluster.rows("select value from shared_rows where kind = 'file'")[0]["value"] == f'"sealed {word}"'
    store.close()


def test_hours_are_read_some_at_a_time_and_large_ones_in_parts() -> None:
    hours = [{"hour": hour, "n": n} for hour, n in ((1, 10), (2, 1_500), (9, 900), (11, 9_000), (12, 1))]
    assert [*_spans(hours)] == [(1, 3, 1), (9, 10, 1), (11, 13, 3)]


def test_names_are_asked_for_as_many_as_an_address_takes() -> None:
    short, long = [f"{n}" for n in range(450)], ["ü" * 400 for _ in range(14)]
    assert [len(some) for some in named([*short, *long, "x" * 20_000, "y"], str)] == [200, 200, 56, 6, 2, 1, 1]


class Runs:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.refuses = self.busy = False

    def run(self, at_ns: int) -> None:
        if self.refuses:
            raise Rejected("its rules are not those of its files: start it again", 409)
        self.begun.append(at_ns)
        self.busy = True


def test_an_errand_is_done_once_by_each_and_again_after_a_failure(cluster: Cluster) -> None:
    clock = [NOW]
    stores = [Store.open("duckdb://:memory:") for _ in range(2)]
    shared = [Shared(cluster) for _ in stores]

    def joined(number: int) -> tuple[Errands, Runs]:
        errands, runs = Errands(shared[number], Meta(stores[number]), f"c{number}", lambda: clock[0]), Runs()
        errands.join("forget", runs)
        return errands, runs

    def look(number: int, errands: Errands) -> None:
        rows = shared[number].changes().get("errands", {})
        errands.take({key: json.loads(text) if text else None for key, text in rows.items()})
        errands.look()

    (asking, own), (other, theirs) = joined(0), joined(1)
    at_ns = asking.ask("forget")
    look(0, asking)
    look(1, other)
    assert (own.begun, theirs.begun) == ([], [at_ns]), "who asks begins by itself"
    asking.done("forget", at_ns)
    clock[0] += 300 * SECOND
    look(1, other)
    assert theirs.begun == [at_ns], "it is in progress"
    tries = []
    for second in range(200):  # it fails, later and later again
        theirs.busy = False
        clock[0] += SECOND
        other.look()
        tries += [second] if theirs.busy else []
    assert [later - earlier for earlier, later in pairwise(tries)] == [4, 8, 16, 32, 60, 60]
    begun = len(theirs.begun)
    theirs.busy = False
    theirs.refuses = True
    clock[0] += 60 * SECOND
    look(1, other)
    assert len(theirs.begun) == begun
    shared[1].again()
    other, theirs = joined(1)  # it was killed, and starts again
    look(1, other)
    assert theirs.begun == [at_ns]
    other.done("forget", at_ns)
    theirs.busy = False
    for _ in range(2):
        clock[0] += 100 * SECOND
        shared[1].again()
        look(0, asking)
        look(1, other)
    assert (own.begun, theirs.begun) == ([], [at_ns])
    for store in stores:
        store.close()


def test_a_day_that_another_collector_tidies_is_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """ClickHouse merges no day in which an older part is still to be changed: here by a statement that never ends."""
    store = Store.open("duckdb://:memory:")
    event = {"event_id": 1, "time_ns": OLD, "received_ns": OLD, "service": "x", "collector": "me"}
    tidying = Reach(cluster, Back(store), "me", lambda: lambda: True)
    cluster.insert("events_rows", [event | {"version": time.time_ns()}], "older")
    cluster.run("alter table events_rows delete where throwIf(event_id = 1)", settings={"mutations_sync": "0"})
    cluster.insert("events_rows", [event | {"version": time.time_ns()}], "newer")
    run, codes = cluster.run, list[int]()

    def ending(*given: Any, **more: Any) -> bytes:
        try:
            return run(*given, **more)
        except ClusterError as error:
            codes.append(error.code)
            if len(codes) == 2:
                run("kill mutation where database = currentDatabase() sync")
            raise

    monkeypatch.setattr(cluster, "run", ending)
    assert len(list(tidying.tidied())) == 4
    assert codes == [388, 388]
    parts = "select count() as n, sum(rows) as rows from system.parts where database = currentDatabase() and active"
    assert cluster.rows(f"{parts} and table = 'events_rows'") == [{"n": 1, "rows": 1}]
    store.close()


def test_on_shards_rows_are_where_their_shard_is(cluster: Cluster) -> None:
    assert home_of(cluster, "events_rows") == "events_rows"


def imported(session: str) -> list[dict[str, Any]]:
    """Calls as `misstep import` sends them."""
    return [
        {
            "source": "transcript", "agent_id": "claude-code", "operation": "tool", "outcome": "error", "strength": 50,
            "same": [f"{session}.{number}"], "session": session, "tool": "Edit", "message": "file not found",
            "time": f"2026-11-2{number}T10:00:00Z",
        }
        for number in range(3)
    ]  # fmt: skip


@pytest.mark.deep
def test_what_one_collector_is_asked_all_do_also_after_a_kill(
    clickhouse: Front, start_collector: Callable[..., RunningCollector]
) -> None:
    url = clickhouse.database()
    cluster = Cluster(url)
    make(cluster, Layout(), 30 * 86_400)
    collectors = [start_collector(CLUSTER=url, HASH_KEY=KEY) for _ in range(2)]
    for number, each in enumerate(collectors):
        told = {"service": "live", "session": f"live-{number}", "tool": "x", "outcome": "error", "message": "no"}
        assert each.post("/v1/events", json.dumps([told, *imported(f"s{number}")])).is_success
    count = "select count() as n, countIf(provenance = 'transcript') as imported from events"
    wait_until(lambda: cluster.rows(count) == [{"n": 8, "imported": 6}])
    assert HTTP.post(f"{collectors[0].url}/api/v1/forget", json={}).status_code == 202
    collectors[0].kill()
    collectors[0].start()
    wait_until(lambda: cluster.rows(count) == [{"n": 2, "imported": 0}])
    done = "select count() as n from shared_rows where kind = 'errands_done'"
    wait_until(lambda: cluster.rows(done) == [{"n": 2}])
    assert {event["session"] for event in collectors[1].events()} == {"live-0", "live-1"}
    wait_until(
        lambda: cluster.rows("select count() as n from events_rows where provenance = 'transcript'") == [{"n": 0}]
    )
    again = json.dumps(imported("s0"))  # what is imported after that stays
    assert collectors[0].post("/v1/events", again).is_success
    wait_until(lambda: cluster.rows(count) == [{"n": 5, "imported": 3}])
    cluster.close()
