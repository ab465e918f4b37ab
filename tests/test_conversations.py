"""One conversation, one session: requests of clients that name none are joined by the calls that they retell."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from collector.batch import Batch
from collector.correlate import conversations as module
from collector.correlate import memory
from collector.correlate.correlate import Correlator
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.recognise.identify import LIKELY, UNIQUE, uniqueness
from tests.doors import NOW, spans, taken
from tests.memory import Memory, commit
from tests.recorded import emptied

S = 1_000_000_000
START = NOW - 600 * S


def as_batch(records: Sequence[dict[str, Any]]) -> Batch:
    """A request of these spans."""
    return taken(spans(*records, service="app"), "traces")


def call(call_id: str, path: str) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": "read", "arguments": {"path": path}}


def request(number: int, ids: Sequence[str], asks: str = "", prompt: str = "go", **more: Any) -> dict[str, Any]:
    """The span of a request, in a trace of its own, that retells the calls with these ids and may ask for another."""
    messages: list[Any] = [{"role": "user", "parts": [{"type": "text", "content": prompt}]}]
    for one in ids:
        result = {"type": "tool_call_response", "id": one, "response": "Error: no such file"}
        messages += [{"role": "assistant", "parts": [call(one, one)]}, {"role": "tool", "parts": [result]}]
    answer = [{"role": "assistant", "parts": [call(asks, asks)] if asks else [{"type": "text", "content": "done"}]}]
    return {
        "traceId": f"{number:x}", "spanId": f"{number:x}", "name": "chat m",
        "startTimeUnixNano": str(START + number * S), "endTimeUnixNano": str(START + number * S + S // 2),
        "attributes": {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps(answer), **more,
        },
    }  # fmt: skip


def conversation(first: int, ids: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    """All requests of one conversation, in order."""
    return [request(first + n, ids[:n], one, **more) for n, one in enumerate([*ids, ""])]


def sessions(
    groups: Sequence[Sequence[Batch]], engine: Memory | Store | None = None, *, restarts: bool = False
) -> dict[str, str]:
    """The session of each call, after committing these groups to an empty engine, by default one in memory."""
    engine = engine or Memory()
    lookup = Lookup(engine) if isinstance(engine, Store) else engine
    correlator = Correlator(lookup, fresh=True)
    for group in groups:
        commit(engine, [group], correlator)
        if restarts:
            correlator = Correlator(lookup, fresh=False)
    rows = engine.rows("from events") if isinstance(engine, Store) else engine.rows()
    calls = [row for row in rows if row["operation"] == "tool"]
    assert not [one for one, count in Counter(row["call_id"] for row in calls).items() if count > 1]
    return {row["call_id"]: row["session"].lstrip("0") for row in calls}


IDS = ["toolu_01A09q90qw90lq917835lq9a", "call_9f8e7d6c5b4a", "call_s1_03"]


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A correlator that remembers nothing and looks everything up."""
    monkeypatch.setattr(memory, "TRACES_REMEMBERED", 0)
    monkeypatch.setattr(module, "TRACES_REMEMBERED", 0)
    monkeypatch.setattr(module, "KEYS_REMEMBERED", 0)


@pytest.mark.parametrize("how", ["remembers", "forgets", "restarts"])
def test_requests_that_retell_each_others_calls_are_one_session_in_any_order(
    how: str, request: pytest.FixtureRequest
) -> None:
    if how == "forgets":
        request.getfixturevalue("forgetful")
    batches = [as_batch([piece]) for piece in conversation(1, IDS)]
    for order in itertools.permutations(batches):
        found = sessions([[batch] for batch in order], restarts=how == "restarts")
        assert found == dict.fromkeys(IDS, "1"), [batches.index(batch) for batch in order]


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0)])
def test_what_the_correlator_forgot_or_never_knew_is_found_in_duckdb(store: Store, order: tuple[int, ...]) -> None:
    pieces = conversation(1, IDS)
    groups = [[as_batch([pieces[place]])] for place in order]
    assert sessions(groups, emptied(store), restarts=True) == dict.fromkeys(IDS, "1")


def test_two_conversations_in_one_request_stay_two() -> None:
    others = [one.replace("9", "8") + "x7" for one in IDS]
    both = [one for pair in zip(conversation(1, IDS), conversation(11, others), strict=True) for one in pair]
    assert sessions([[as_batch(both)]]) == dict.fromkeys(IDS, "1") | dict.fromkeys(others, "b")


@pytest.mark.parametrize("ids", [["call_0", "call_1"], ["0", "1"], ["read", "read"], ["read_0", "read_1"],
                                 ["functions.read:0", "functions.read:1"], ["c1", "c2"], ["step1_call2", "turn_3"]],
)  # fmt: skip
def test_calls_that_are_only_counted_chain_nothing(ids: list[str]) -> None:
    assert all(uniqueness(one, "read") == 0 for one in ids)
    one, other = conversation(1, ids), conversation(11, ids)
    batches = [as_batch([span]) for span in (*one, *other)]
    assert not [keys for batch in batches for keys in batch.retold]


@pytest.mark.parametrize(("call_id", "sure"), [
    ("toolu_01A09q90qw90lq917835lq9a", UNIQUE), ("call_abcdefghijklmnopqrstuvwx", UNIQUE), ("D681PevKs", UNIQUE),
    ("adk-0b6f0e9e-5d0a-4b8e-9b0d-0e3c6a1f2b3c", UNIQUE), ("chatcmpl-tool-5c1f0b9e2a7d4c33", UNIQUE),
    ("tooluse_kZJMlvQmRJ6eAyJE5GIl7Q", UNIQUE), ("read-1712345678901-abc12f", UNIQUE), ("call_s1_01", LIKELY),
    ("365174485", LIKELY), ("", 0), ("call_12", 0), ("tool_0", 0), ("read_2", 0), ("getReadings", 0),
])  # fmt: skip
def test_how_sure_an_id_is_of_one_call(call_id: str, sure: int) -> None:
    assert uniqueness(call_id, "read") == sure


def test_ids_that_may_be_given_again_chain_only_below_the_same_words() -> None:
    one, other = (as_batch(conversation(1, ["call_s1_01"], prompt=prompt)) for prompt in "ab")
    keys = [{key for _, _, keys in batch.retold for key in keys} for batch in (one, other)]
    assert all(keys)
    assert keys[0].isdisjoint(keys[1])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_session_that_is_told_is_that_of_its_conversation(reverse: bool) -> None:
    agent = {"traceId": "2", "spanId": "aa", "name": "invoke_agent", "startTimeUnixNano": str(START),
             "endTimeUnixNano": str(START + S), "attributes": {"gen_ai.operation.name": "invoke_agent",
                                                          "gen_ai.conversation.id": "told"}}  # fmt: skip
    told = [*conversation(1, IDS), agent]
    batches = [as_batch([one]) for one in (told[::-1] if reverse else told)]
    assert sessions([[batch] for batch in batches]) == dict.fromkeys(IDS, "told")


def test_only_the_newest_calls_of_a_long_conversation_are_looked_up() -> None:
    ids = [f"toolu_{number:024x}" for number in range(300)]
    [(_, _, keys)] = as_batch([request(1, ids, "toolu_last0123456789abcdef01")]).retold
    assert len(keys) <= 4


def test_without_content_there_is_no_chain() -> None:
    bare = request(1, [])
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        del bare["attributes"][name]
    assert as_batch([bare]).retold == []


def test_what_goes_on_in_parallel_from_one_history_is_one_session() -> None:
    root = [request(1, [], IDS[0])]
    forks = [request(2, [IDS[0]], IDS[1]), request(3, [IDS[0]], IDS[2]), request(4, [IDS[0], IDS[1]])]
    forks.append(request(5, [IDS[0], IDS[2]]))
    assert sessions([[as_batch([one])] for one in (*forks[::-1], *root)]) == dict.fromkeys(IDS, "1")


@pytest.mark.parametrize("reverse", [False, True])
def test_a_call_in_a_trace_of_its_own_is_the_one_that_its_conversation_tells(reverse: bool) -> None:
    """An own loop around an instrumented client, with spans of its own for its tools."""
    own = {"traceId": "77", "spanId": "77", "name": "execute_tool read", "status": 2, "status_message": "no such file",
           "startTimeUnixNano": str(START + S + S // 2), "endTimeUnixNano": str(START + S + S // 2 + 1),
           "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read",
                          "gen_ai.tool.call.id": IDS[0]}}  # fmt: skip
    told = [*conversation(1, IDS), own]
    found = sessions([[as_batch([one])] for one in (told[::-1] if reverse else told)])
    assert found == dict.fromkeys(IDS, "1")
