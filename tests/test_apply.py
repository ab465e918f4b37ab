"""After a rule was added, `misstep sanitise apply` removes what it matches from every byte of the store."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from collector.api.apply import Apply
from collector.api.runs import Runs
from collector.columns import COLUMNS, TABLES
from collector.correlate.changes import Changes
from collector.correlate.correlate import Correlator
from collector.engine.duckdb import rewrite as rewriting
from collector.engine.duckdb import store as module
from collector.engine.duckdb.copy import copy
from collector.engine.duckdb.derive import KEPT
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.maintenance import Upkeep
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.journal.journal import Journal, pack
from collector.journal.writer import Writer
from collector.pipeline import Pipeline
from collector.sanitise.redactions import load_rules
from collector.sanitise.sanitise import Sanitiser
from tests.conftest import RunningCollector, misstep
from tests.doors import NOW, logs, pipeline, spans, taken
from tests.recorded import event as made

WORD = "zauberwort"
RULE = f"""
[[rule]]
id = "acme-word"
title = "What opens our door"
family = "token"
keywords = ["{WORD}"]
pattern = '{WORD}-[a-z]{{4}}-[0-9]{{4}}'
examples = ["{WORD}-open-1234"]
"""


def secret(number: int) -> str:
    return f"{WORD}-{'abcdefghijklm'[number % 10 :][:4]}-{1000 + number}"


def body(first: int, last: int) -> bytes:
    """Calls with the word in every column, with two reports each, so that `reports` has rows too."""
    items = []
    for number in range(first, last):
        word = secret(number)
        told = {
            "hook_event_name": "PostToolUseFailure", "session_id": f"s-{number % 7} {word}",
            "tool_name": f"Bash {word}",
            "tool_use_id": f"call-{number}", "error": f"cannot open {word} for {number}", "cwd": f"/srv/{word}",
            "tool_input": {"command": f"open {word}", word: [word]}, "timestamp": "2026-11-22T00:00:00Z",
        }  # fmt: skip
        items += [told, {**told, "error": f"again: cannot open {word}"}]
    return json.dumps(items).encode()


def silence(collector: RunningCollector) -> None:
    wanted = {"duration": "1h", "author": secret(3), "reason": "x", "labels": {"tool": secret(4)}}
    collector.post("/api/v1/silences", json.dumps(wanted)).raise_for_status()


def held(folder: Path) -> bytes:
    """Every byte of the store's files and of the audit log beside them."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and "misstep.duckdb" in str(path))


def tables(path: Path) -> str:
    with duckdb.connect(str(path), read_only=True) as store:
        return "".join(str(store.table(name).fetchall()) for (name,) in store.execute("show tables").fetchall())


@pytest.mark.parametrize("running", [True, False])
def test_a_new_rule_reaches_what_is_stored(
    start_collector: Callable[..., RunningCollector], tmp_path: Path, running: bool
) -> None:
    own = tmp_path / "tables"
    own.mkdir()
    collector = start_collector(TABLES=str(own), WORKERS="0")
    for start in range(0, 100, 50):
        collector.post("/v1/events", body(start, start + 50)).raise_for_status()
    collector.post("/v1/logs", logs({"body": "x", "attributes": {"tool_name": "x"}}, service=secret(1)))
    silence(collector)
    before = {event["event_id"]: event for event in collector.events()}
    assert len(before) == 100
    collector.stop()
    assert WORD.encode() in held(collector.folder)
    assert tables(collector.store).count(WORD) > 500

    (own / "redactions.toml").write_text(RULE)
    if running:
        collector.start()
    settings = {"STORE": f"duckdb:///{collector.store}", "TABLES": str(own), "COLLECTOR_URL": collector.url}
    ran = misstep("sanitise", "apply", cwd=tmp_path, settings=settings)
    assert ran.returncode == 0, ran.stderr
    assert "acme-word: " in ran.stdout
    assert WORD not in ran.stdout + ran.stderr
    again = misstep("sanitise", "apply", cwd=tmp_path, settings=settings)
    assert again.stdout == "0 rows changed\n"
    if running:
        assert WORD.encode() not in held(collector.folder)
        assert collector.post("/v1/events", body(100, 110)).is_success
    else:
        assert WORD.encode() not in held(collector.folder)
        collector.start()
    after = {event["event_id"]: event for event in collector.events()}
    assert before.keys() <= after.keys()
    for event_id, event in before.items():
        now = after[event_id]
        assert "[redacted:acme-word]" in now["message"]
        assert now["redactions"] >= 4
        kept = ("time", "tool_kind", "error_class", "outcome", "call_id", "params_hash", "source")
        assert {name: now[name] for name in kept} == {name: event[name] for name in kept}
    assert len({event["session"] for event in before.values()}) == len({after[one]["session"] for one in before})
    collector.stop()
    assert WORD not in tables(collector.store)
    assert WORD.encode() not in held(collector.folder)


def test_a_collector_with_other_rules_than_the_file_has_says_so(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    own = tmp_path / "tables"
    own.mkdir()
    collector = start_collector(TABLES=str(own))
    (own / "redactions.toml").write_text(RULE)
    answer = collector.post("/api/v1/sanitise", "{}")
    assert answer.status_code == 409
    assert "start it again" in answer.text
    assert httpx.get(f"{collector.url}/api/v1/sanitise").json() == {"state": "idle"}
    assert collector.post("/api/v1/sanitise", "", {"content-type": "text/plain"}).status_code == 415


def test_what_a_kill_left_in_the_journal_is_stored_first(tmp_path: Path) -> None:
    path = tmp_path / "misstep.duckdb"
    Store.open(f"duckdb:///{path}").close()
    Journal(path).append([pack(taken(spans(_span(1)), "traces"))])
    ran = misstep("sanitise", "apply", cwd=tmp_path, settings={"STORE": f"duckdb:///{path}"})
    assert ran.returncode == 2
    assert "holds requests that are not stored yet (1)" in ran.stderr
    assert "start the collector once" in ran.stderr


@pytest.mark.parametrize("first", ["backup", "rewriting"])
def test_a_backup_and_the_rewriting_of_the_file_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    store = Store.open(f"duckdb:///{tmp_path}/m.duckdb")
    store.write(Changes(NOW, events=[made(1, message=secret(1), call_id="call_id", received_ns=NOW)]))
    begun, let = threading.Event(), threading.Event()

    def copied(*given: Any) -> None:
        begun.set()
        assert let.wait(60)
        copy(*given)

    monkeypatch.setattr(module, "copy", copied)
    work = Apply(store, _with_rule(tmp_path))

    def rewrite() -> None:
        while work.step():
            pass

    works = [lambda: store.copy_to(tmp_path / "copy.duckdb"), rewrite]
    with ThreadPoolExecutor() as pool:
        one = pool.submit(works[first == "rewriting"])
        assert begun.wait(60)
        other = pool.submit(works[first == "backup"])
        time.sleep(1)
        assert not other.done()
        let.set()
        one.result(60)
        other.result(60)
    assert work.state == "done"
    store.close()
    assert WORD.encode() not in (tmp_path / "m.duckdb").read_bytes()
    assert "call_id" in tables(tmp_path / "copy.duckdb")


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "misstep.duckdb"
    store = Store.open(f"duckdb:///{path}")
    correlator = Correlator(Lookup(store), fresh=True)
    for part in range(4):
        batch = taken(spans(*(_span(part * 50 + number) for number in range(50))), "traces")
        batch.received_ns += part
        for report in batch.reports:
            report["received_ns"] = batch.received_ns
        changes = correlator.plan([batch])
        store.write(changes)
        correlator.learn(changes)
    first = Apply(store, _with_rule(tmp_path))
    assert first.step()
    assert first.step()
    left = first.changed
    store.close()
    assert WORD.encode() in path.read_bytes()

    store = Store.open(f"duckdb:///{path}")
    second = Apply(store, _with_rule(tmp_path))
    while second.step():
        pass
    assert second.told()["state"] == "done"
    assert left + second.changed >= 200
    assert second.redacted == {"acme-word": 5}
    assert not store.rows("select * from meta where name = 'rewrite_file'")
    assert store.count("events") == 200
    store.close()
    assert WORD not in tables(path)
    assert WORD.encode() not in held(tmp_path)


def test_a_column_that_is_no_longer_in_the_settings_is_gone_over_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (TABLES["events"], COLUMNS):
        monkeypatch.setitem(columns, "team", "varchar")
    url = f"duckdb:///{tmp_path / 'misstep.duckdb'}"
    store = Store.open(url, dimensions=("team",))
    for number in (1, 2):
        store.write(Changes(NOW, events=[made(number, team=f"{secret(number)} of payments")]))
    store.close()
    store = Store.open(url)
    work = Apply(store, _with_rule(tmp_path))
    while work.step():
        pass
    rows = store.rows("select distinct team from events")
    assert rows == [{"team": "[redacted:acme-word] of payments"}]
    store.close()


@pytest.mark.parametrize("statement", range(5))
def test_a_text_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    """Also if both names have rows, and if it is killed at any point."""
    url = f"duckdb:///{tmp_path / 'misstep.duckdb'}"
    store = Store.open(url)
    for service in ("old", "new", "other"):
        store.execute(f"insert into seen values ('x', '{service}', '', 1, 2, 'm')")
        store.execute(f"insert into trace_session values ('t', '{service}', 3, 4)")
    transaction, left = store.transaction, statement

    class Killed:
        def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
            self._cursor = cursor

        def execute(self, *args: Any) -> Any:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return self._cursor.execute(*args)

    @contextmanager
    def broken() -> Iterator[Any]:
        with transaction() as cursor:
            yield Killed(cursor)

    monkeypatch.setattr(store, "transaction", broken)
    texts = [("seen", "service"), ("trace_session", "session")]
    done = set()
    for table, column in texts:
        left = statement
        with suppress(KeyboardInterrupt):
            rewriting.replace_text(store, table, column, "old", "new")
            done.add(table)
    store.close()
    store = Store.open(url)
    for table, column in texts:
        names = {row["name"] for row in store.rows(f"select {column} as name from {table}")}
        assert names == ({"new", "other"} if table in done else {"old", "new", "other"}), table
    store.close()


def test_in_memory_what_is_kept_beside_the_events_is_clean_too(tmp_path: Path) -> None:
    store = Store.open("duckdb://:memory:")
    correlator = Correlator(Lookup(store), fresh=True)
    store.write(correlator.plan([taken(spans(*(_span(number) for number in range(20))), "traces")]))
    store.keep_up()
    streaks = "select session from kept_streaks where scope = 'session' and kind = 'error'"
    assert len(store.rows(streaks)) == 5
    assert WORD in str(store.rows(streaks))
    work = Apply(store, _with_rule(tmp_path))
    while work.step():
        pass
    assert work.told()["state"] == "done"
    assert WORD not in str([store.rows(f"select * from {table}") for table in ("events", *KEPT)])
    assert len(store.rows(streaks)) == 5
    assert not store.rows("select * from meta where name = 'rewrite_file'")
    store.close()


def test_whoever_asks_meanwhile_is_told_of_the_same_run(tmp_path: Path) -> None:
    store = Store.open("duckdb://:memory:")
    rules = _with_rule(tmp_path)

    def slow() -> Callable[[int], Apply]:
        time.sleep(0.2)
        return lambda _: Apply(store, rules)

    applying = Runs("sanitise", slow, Writer(store, Journal(None), Upkeep(store, Retention(1 << 62))))
    with ThreadPoolExecutor(3) as pool:
        [run] = set(pool.map(lambda _: applying.begin(), range(3)))
    assert applying.begin() is run
    while run.step():
        pass
    assert applying.begin() is not run
    store.close()


def test_who_remembers_names_is_told_once_they_were_rewritten(tmp_path: Path) -> None:
    store = Store.open("duckdb://:memory:")
    store.execute("insert into seen values ('x', $service, '', 1, 2, 'm')", {"service": secret(1)})
    told: list[str] = []
    for _ in range(2):
        work = Apply(store, _with_rule(tmp_path), lambda: told.append(store.rows("from seen")[0]["service"]))
        while work.step():
            pass
    assert told == ["[redacted:acme-word]"]
    store.close()


def _span(number: int) -> dict[str, object]:
    attributes = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "error.type": "ToolError",
        "gen_ai.tool.call.arguments": json.dumps({"path": secret(number)}),
        "gen_ai.conversation.id": secret(number % 5),
    }  # fmt: skip
    return {"traceId": f"{number + 1:x}", "attributes": attributes, "status": 2, "status_message": secret(number)}


def _with_rule(folder: Path) -> Pipeline:
    own = folder / "redactions.toml"
    own.write_text(RULE)
    tables = pipeline()
    return Pipeline(tables.sources, tables.taxonomy, Sanitiser(load_rules(own)), tables.hash_key)
