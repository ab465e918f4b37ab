"""Records that speak a convention and are read by no table: counted apart, by sender, and shown."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from collector.batch import SENDERS, Unread
from collector.correlate.senders import counted
from collector.recognise.unread import load_unread
from collector.tables import load_toml, schemas
from dashboard.parts import words
from tests.conftest import RunningCollector

ROWS = load_toml(schemas().joinpath("unread.toml"))["signs"]


def spans(*attributes: dict[str, str], scope: str = "qwen-code", trace: str = "0a") -> dict[str, Any]:
    """A request of these spans, whose names no table knows."""
    made = [
        {
            "name": "strange", "traceId": trace * 16, "spanId": f"{number:016x}",
            "startTimeUnixNano": "1790000000000000000",
            "endTimeUnixNano": "1790000000000000001",
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in each.items()],
        }
        for number, each in enumerate(attributes, 1)
    ]  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "qwen-code"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": scope}, "spans": made}]}]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['key']} {' '.join(row.get('values', ()))}")
def test_each_sign_is_found_by_its_examples_alone(row: dict[str, Any]) -> None:
    signs = load_unread()
    for text in row["examples"]:
        found = signs.of(json.loads(text))
        assert found is not None
        assert (found.key, found.tells) == (row["key"], row["tells"])
    assert not [text for text in row["counter_examples"] if signs.of(json.loads(text))]


def test_unread_records_are_counted_once_and_shown_with_their_sender(
    collector: RunningCollector, open_app: Callable[..., AppTest]
) -> None:
    first = spans(
        {"gen_ai.tool.name": "read", "error.type": "timeout"}, {"openinference.span.kind": "TOOL"}, {"a": "b"}
    )
    for body in (first, first, spans({"gen_ai.tool.name": "write"}, trace="0b")):
        collector.post("/v1/traces", json.dumps(body))
    collector.kept_up()
    health = collector.get("/api/v1/health")
    assert (health["dropped"], health["duplicate"], health["unaccounted"]) == ({"unread": 3, "no_event": 1}, 3, 0)
    [row] = collector.get("/api/v1/sources")["rows"]
    assert (row["source"], row["service"], row["events"], row["tool_data"]) == ("qwen-code", "qwen-code", 0, False)
    assert (row["unread"], row["unread_by"], row["unread_scopes"]) == (
        3, "gen_ai.tool.name, openinference.span.kind", "qwen-code",
    )  # fmt: skip
    [said] = [
        each.value for each in open_app(collector.url, "sources").caption if "no table of sources reads" in each.value
    ]
    assert said.startswith(f"**{words.plain('qwen-code')}**: {words.plural(3, 'record')} (")


def test_random_names_cannot_grow_the_table_and_known_senders_are_counted_all_the_same() -> None:
    def sender(number: int) -> Unread:
        return "", f"s{number}", "", "tool.name"

    known = {sender(number) for number in range(SENDERS - 1)}
    found = counted(known, [[(sender(0), 2), (sender(SENDERS), 3)], [(sender(SENDERS + 1), 5), (sender(SENDERS), 7)]])
    assert found == {sender(0): 2, sender(SENDERS): 10}
