"""Which reports are one event does not depend on restarts, failed commits and the order of arrival."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from collector.batch import Batch
from collector.columns import Row
from collector.correlate.correlate import Correlator
from collector.correlate.pacing import Later
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from tests.doors import KODE_MONITOR, KODE_PROGRESS, MS, NOW, cline, logs, spans, taken, through
from tests.search import EXAMPLES


def burst(*at_ms: int) -> list[Batch]:
    """Equal KODE failures, each reported on both channels, every report in a request of its own."""
    batches = []
    for number, at in enumerate(at_ms):
        call = KODE_PROGRESS["call"] | {"id": f"call-{number}"}  # type: ignore[operator]
        batches.append(through("events", KODE_MONITOR | {"timestamp": MS + at}))
        later = {"call": call, "bookmark": {"seq": number, "timestamp": MS + at + 1}}
        batches.append(through("events", KODE_PROGRESS | later))
    return batches


def edits() -> list[Batch]:
    """Two failed edits of Cline, 1.5 s apart, each with its reason, which has only the session."""
    batches = []
    for number in range(2):
        at = {"timeUnixNano": str(NOW - 10**10 + number * 1_500_000_000)}
        call = cline("task.tool_used", tool="write_to_file", success=False, iteration=number)
        batches.append(taken(logs(call | at, service="cline")))
        batches.append(
            taken(logs(cline("task.diff_edit_failed", errorType=f"no match {number}") | at, service="cline"))
        )
    return batches


def shell() -> list[Batch]:
    """Two shell calls of Gemini CLI: logs without an id, spans with it, and the request that reports one failure."""
    ids = {"traceId": "a", "parentSpanId": "c"}
    args = [{"command": f"run {number}"} for number in range(2)]
    named = {"event.name": "gemini_cli.tool_call", "function_name": "run_shell_command", "success": True}
    calls = [named | {"function_args": json.dumps(one), "session.id": "s"} for one in args]
    own = {"spanId": "000000000000000c", "traceId": "a".rjust(32, "0")}
    batches = [
        taken(logs({"attributes": call, "timeUnixNano": str(NOW - 9 * 10**9 + number)} | own, service="gemini-cli"))
        for number, call in enumerate(calls)
    ]
    tool = {"gen_ai.tool.name": "run_shell_command", "gen_ai.conversation.id": "s"}
    for number in range(2):
        names = tool | {"gen_ai.tool.call_id": f"run_shell_command__{number}"}
        span = {"name": "tool_call", "spanId": f"b{number}", "attributes": names, "status": 1} | ids
        batches.append(taken(spans(span, service="gemini-cli"), "traces"))
    answer = {"id": "1", "name": "run_shell_command", "response": {"output": "x\nExit Code: 1"}}
    asked = {"id": "1", "name": "run_shell_command", "args": args[1]}
    history = [
        {"role": "model", "parts": [{"functionCall": asked}]},
        {"role": "user", "parts": [{"functionResponse": answer}]},
    ]
    names = {"event.name": "gemini_cli.api_request", "session.id": "s", "request_text": json.dumps(history)}
    batches.append(taken(logs({"attributes": names}, service="gemini-cli")))
    return batches


RECORDINGS = {
    "KODE": (burst(0, 500, 1000), [(f"call-{number}", "error") for number in range(3)]),
    "KODE at one time": (burst(0, 0), [("call-0", "error"), ("call-1", "error")]),
    "Cline": (edits(), [("no match 0", "error"), ("no match 1", "error")]),
    "Gemini CLI": (shell(), [("1", "error"), (None, "ok")]),
}


def restarted(batches: Sequence[Batch], *, fails: bool = False) -> list[Row]:
    """The events after each batch was committed by another collector; with `fails`, at the second attempt."""
    store = Store.open("duckdb://:memory:")
    for number, batch in enumerate(batches):
        batch.identity = number.to_bytes(16, "big")
        # Looking takes no time, so that nothing is postponed on a busy machine.
        correlator = Correlator(Lookup(store), fresh=number == 0, later=Later(spent=lambda: 0.0))
        if fails:
            correlator.plan([batch])  # and the store accepts nothing
        changes = correlator.plan([batch])
        store.write(changes)
        correlator.learn(changes)
    rows = store.rows(
        "select * exclude (event_id, received_ns, report_rank, outcome_strength, target_guessed) from events"
    )
    store.close()
    return sorted(rows, key=str)


@pytest.mark.parametrize("name", RECORDINGS)
def test_neither_restarts_nor_failed_commits_nor_order_change_what_is_one_event(name: str) -> None:
    batches, expected = RECORDINGS[name]
    whole = restarted(batches)
    said = [(row["message"] if name == "Cline" else row["call_id"], row["outcome"]) for row in whole]
    assert sorted(said, key=str) == expected
    chance = random.Random(7)
    for fails in (False, True):
        for _ in range(max(2, EXAMPLES // 8)):
            assert restarted(chance.sample(batches, len(batches)), fails=fails) == whole
