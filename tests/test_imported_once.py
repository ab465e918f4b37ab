"""Each call is one event, whatever told it first: telemetry, an agent's own file, the file again, another machine's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.batch import Batch
from collector.columns import Row
from collector.correlate.correlate import Correlator
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.measures.families import MeasureQuery, measure_family
from collector.times import HOUR, MINUTE, SECOND, time_of
from tests.doors import logs, pipeline
from tests.memory import Memory, commit
from tests.recorded import emptied
from tests.test_transcripts import SAMPLES, read

RAN = time_of("2026-10-03T08:16:00Z")
SESSION = "5d1f7c02-8a3e-4c11-9b7d-0a6f2e9c1b34"
# What Claude Code exports of the same session: nothing of unknown tools and of edits that it refused.
TELEMETRY = {
    "toolu_01A": {"tool_name": "Read", "success": "false", "error_type": "Error:ENOENT", "duration_ms": 12},
    "toolu_01C": {"tool_name": "Read", "success": "true", "duration_ms": 3},
    "toolu_01D": {"tool_name": "Bash", "success": "false", "error_type": "ShellError", "duration_ms": 40},
    "toolu_01F": {"tool_name": "Bash", "success": "true", "duration_ms": 9},
}
KEPT_A_DAY = ("requests", "keys", "reports", "waiting", "twins", "trace_session", "conversation_keys", "conversations")


def telemetry(received_ns: int, service: str = "claude-code") -> Batch:
    names = {"event.name": "tool_result", "session.id": SESSION}
    records = [
        {
            "timeUnixNano": str(RAN - MINUTE + number * SECOND),
            "body": "claude_code.tool_result",
            "attributes": {**names, "tool_use_id": name, **told},
        }
        for number, (name, told) in enumerate(TELEMETRY.items())
    ]
    return pipeline().process(
        logs(*records, service=service, scope="com.anthropic.claude_code.events"),
        "application/json",
        "logs",
        received_ns,
    )


def transcript(received_ns: int, agent: str = "claude-code", home: Path | None = None) -> Batch:
    sent, _ = read(home or SAMPLES / agent, agent)
    body = b"\n".join(json.dumps(one).encode() for one in sent)
    return pipeline().process(body, "application/x-ndjson", "events", received_ns)


def forget(engine: Memory | Store) -> None:
    if isinstance(engine, Memory):
        engine.forget()
    else:
        for table in KEPT_A_DAY:
            engine.rows(f"delete from {table}")


def calls(engine: Memory | Store) -> list[Row]:
    rows = (
        engine.rows() if isinstance(engine, Memory) else engine.rows("select * from events order by time_ns, event_id")
    )
    return [row for row in rows if row["operation"] == "tool"]


def told(engine: Memory | Store, batches: Sequence[Batch], *, forgotten: bool) -> list[Row]:
    """The calls after these batches; before each, the collector was restarted, and maybe a day had passed."""
    for number, batch in enumerate(batches):
        if number and forgotten:
            forget(engine)
        lookup = engine if isinstance(engine, Memory) else Lookup(engine)
        commit(engine, [[batch]], Correlator(lookup, fresh=not number))
    return calls(engine)


@pytest.fixture(params=["memory", "duckdb"])
def engine(request: pytest.FixtureRequest, store: Store) -> Memory | Store:
    return Memory() if request.param == "memory" else emptied(store)


@pytest.mark.parametrize("forgotten", [False, True], ids=["at once", "a day later"])
@pytest.mark.parametrize("order", ["ttff", "fftt", "tftf", "ftft", "ft", "tf"])
def test_telemetry_and_transcripts(engine: Memory | Store, order: str, forgotten: bool) -> None:
    times = [RAN + (50 + 25 * number) * HOUR for number in range(len(order))]
    batches = [telemetry(ns) if which == "t" else transcript(ns) for which, ns in zip(order, times, strict=True)]
    rows = {row["call_id"]: row for row in told(engine, batches, forgotten=forgotten)}
    assert len(calls(engine)) == len(rows) == 12
    assert {name for name, row in rows.items() if row["provenance"] == "both"} == set(TELEMETRY)
    assert {row["provenance"] for name, row in rows.items() if name not in TELEMETRY} == {"transcript"}
    failed = rows["toolu_01D"]
    assert (failed["outcome"], failed["error_class"], failed["duration_ms"]) == ("error", "CommandNotFoundError", 40)
    assert failed["message"] == "Exit code 127\n/bin/bash: line 1: pytest: command not found"
    assert rows["toolu_01A"]["repository"] == "~/parcel"
    assert rows["toolu_01F"]["outcome"] == "ok"


@pytest.mark.parametrize("forgotten", [False, True], ids=["at once", "a day later"])
@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_file_read_again_changes_nothing(engine: Memory | Store, agent: str, forgotten: bool) -> None:
    first = told(engine, [transcript(RAN + 50 * HOUR, agent)], forgotten=False)
    for number in (1, 2):
        if forgotten:
            forget(engine)
        lookup = engine if isinstance(engine, Memory) else Lookup(engine)
        again = transcript(RAN + (50 + 25 * number) * HOUR, agent)
        again.identity = bytes([number]) * 16
        commit(engine, [[again]], Correlator(lookup, fresh=False))
    assert calls(engine) == first


@pytest.mark.parametrize("forgotten", [False, True], ids=["at once", "a day later"])
def test_a_service_that_its_user_named(engine: Memory | Store, forgotten: bool) -> None:
    batches = [telemetry(RAN + 50 * HOUR, "the-team"), transcript(RAN + 75 * HOUR)]
    rows = told(engine, batches, forgotten=forgotten)
    assert sum(row["call_id"] in TELEMETRY for row in rows) == len(TELEMETRY)


def one_call(session: str, second: int, text: str | None, call_id: str = "call_0") -> list[dict[str, Any]]:
    asked = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": call_id}
    said = {"type": "function_call_output", "call_id": call_id, "output": text}
    records: list[tuple[str, dict[str, Any]]] = [("session_meta", {"id": session}), ("response_item", asked)]
    records += [("response_item", said)] if text is not None else []
    return [{"timestamp": f"2026-10-03T08:15:{second:02d}Z", "type": kind, "payload": one} for kind, one in records]


def written(folder: Path, session: str, records: list[dict[str, Any]]) -> None:
    path = folder / "sessions" / f"rollout-{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("forgotten", [False, True], ids=["at once", "a day later"])
def test_ids_that_local_models_give_again_are_of_one_session(
    engine: Memory | Store, forgotten: bool, tmp_path: Path
) -> None:
    batches = []
    for number, session in enumerate(("one", "two")):
        written(tmp_path / session, session, one_call(session, number, "Exit code: 1\nboom"))
        batches.append(transcript(RAN + (50 + number) * HOUR, "codex", tmp_path / session))
    assert [row["session"] for row in told(engine, batches, forgotten=forgotten)] == ["one", "two"]


@pytest.mark.parametrize("forgotten", [False, True], ids=["at once", "a day later"])
def test_a_call_is_unknown_until_its_result_comes(engine: Memory | Store, forgotten: bool, tmp_path: Path) -> None:
    written(tmp_path, "S", one_call("S", 1, None))
    before = transcript(RAN + 50 * HOUR, "codex", tmp_path)
    assert [row["outcome"] for row in told(engine, [before], forgotten=False)] == ["unknown"]
    if forgotten:
        forget(engine)
    written(tmp_path, "S", one_call("S", 1, "Exit code: 1\nboom"))
    after = transcript(RAN + 75 * HOUR, "codex", tmp_path)
    lookup = engine if isinstance(engine, Memory) else Lookup(engine)
    commit(engine, [[after]], Correlator(lookup, fresh=False))
    assert [(row["outcome"], row["message"]) for row in calls(engine)] == [("error", "exit code 1: boom")]


@pytest.mark.parametrize(("minutes", "alerts"), [(5, True), (15, False)])
def test_calls_long_over_set_off_no_alert(store: Store, minutes: int, alerts: bool) -> None:
    emptied(store)
    now = time_of("2026-10-03T08:15:35Z") + minutes * MINUTE
    told(store, [transcript(now)], forgotten=False)
    window = now - HOUR, now + HOUR
    names = ("errors", "calls", "new_groups", "streaks", "failing_sessions", "retries")
    for name in names:
        [[sample]] = measure_family(store, [MeasureQuery(name, (), (), *window)])
        assert bool(sample.calls) is alerts, name
    assert len(calls(store)) == 12


@pytest.mark.parametrize("order", ["ft", "tf", "ftft", "tftf"])
def test_a_log_without_the_calls_id_is_of_the_call_that_ended_with_it(engine: Memory | Store, order: str) -> None:
    now = RAN + 50 * HOUR
    files = transcript(now, "gemini-cli")
    ended = [one for one in files.reports if one["operation"] == "tool"]
    records = [
        {
            "timeUnixNano": str(one["time_ns"] + SECOND // 10),
            "body": "Tool call",
            "attributes": {
                "event.name": "gemini_cli.tool_call", "function_name": one["tool"], "session.id": one["session"],
                "success": one["outcome"] == "ok", "duration_ms": 7,
            },
        }
        for one in ended
    ]  # fmt: skip
    sent = pipeline().process(logs(*records, service="gemini-cli"), "application/json", "logs", now)
    rows = told(engine, [files if which == "f" else sent for which in order], forgotten=False)
    assert len(rows) == len(ended)
    assert {(row["provenance"], row["duration_ms"]) for row in rows} == {("both", 7)}
