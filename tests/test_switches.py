"""What agents leave untold: the table of settings that tell it, and what is said to whoever has not set them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.switches import RECORD, Agent, Switch, agents
from tests.conftest import RunningCollector, misstep
from tests.doors import logs, pipeline, spans, taken

AGENTS = Path(__file__).parent.parent / "docs/agents"
TABLE = agents()
SWITCHES = [(agent, switch) for agent in TABLE.values() for each in agent.untold for switch in each.switches]
NAMED = [f"{agent.source} {switch.name}" for agent, switch in SWITCHES]
SOURCES = {source.id: source for source in pipeline().sources.sources}
TOLD_BY_SETTINGS = ("parameters", "class")  # of the facts of a source, those that cost privacy


@pytest.mark.parametrize("name", TABLE)
def test_an_agent_is_a_source_whose_page_says_what_is_untold(name: str) -> None:
    agent = TABLE[name]
    assert name in SOURCES
    page = (AGENTS / f"{agent.page}.md").read_text()
    assert f"`{name}`" in page.partition("## ")[0]
    rows = [line for line in page.splitlines() if line.lstrip().startswith("- ")]
    for each in agent.untold:
        assert any(each.what in row for row in rows), each.what
        for switch in each.switches:
            assert any(switch.setting in row and (switch.privacy or "nothing") in row for row in rows), switch.setting


@pytest.mark.parametrize(("agent", "switch"), SWITCHES, ids=NAMED)
def test_it_is_known_how_a_switch_shows(agent: Agent, switch: Switch) -> None:
    noticed = {name for row in SOURCES[agent.source].rows for name, _ in row.switch}
    assert switch.arrival in ("", RECORD, "parameters", "class", "model")
    assert (switch.arrival == RECORD) == (switch.name in noticed)


@pytest.mark.parametrize("name", SOURCES)
def test_a_setting_that_a_source_knows_has_a_price(name: str) -> None:
    said = [text for fact in TOLD_BY_SETTINGS if isinstance(text := SOURCES[name].coverage.get(fact), str)]
    priced = [switch.setting for agent, switch in SWITCHES if agent.source == name]
    own = [text for text in said if text.startswith("send ")]  # by a program's author: it is no setting
    assert all(text in own or any(setting in text for setting in priced) for text in said)


CALL = {"event.name": "tool_result", "session.id": "s", "tool_name": "Read", "success": "true"}
REFUSED = {
    "tool_name": "Edit", "tool_input": {"file_path": "a.py"}, "tool_use_id": "toolu_2",
    "tool_response": "<tool_use_error>String to replace not found in file.</tool_use_error>",
}  # fmt: skip
BATCH = {"hook_event_name": "PostToolBatch", "session_id": "s", "tool_calls": [REFUSED]}
RAW = {"attributes": {"event.name": "api_request_body", "session.id": "s", "body": '{"messages": []}'}}
CONTEXT = {"session.id": "s", "success": "true", "request_id": "r", "new_context": "[USER]\nhello"}
DETAILED = {"name": "claude_code.llm_request", "attributes": CONTEXT}
SHOWS = [
    ("events", json.dumps(BATCH), "refused-calls"),
    ("logs", logs(RAW, service="claude-code"), "raw-bodies"),
    ("traces", spans(DETAILED, service="claude-code"), "detailed-traces"),
]


@pytest.mark.parametrize(("signal", "body", "name"), SHOWS)
def test_a_switch_shows_in_its_records(signal: str, body: str | bytes, name: str) -> None:
    raw = body.encode() if isinstance(body, str) else body
    assert taken(raw, signal).switches == [("claude-code", "claude-code", name)]


HIDDEN = [
    {"event.name": "api_request_body", "session.id": "s", "body_length": 7},
    {"event.name": "api_request", "session.id": "s", "request_id": "r"},
    CALL,
]


@pytest.mark.parametrize("attributes", HIDDEN)
def test_other_records_show_no_switch(attributes: dict[str, Any]) -> None:
    assert taken(logs({"attributes": attributes}, service="claude-code")).switches == []


def call(number: int, **more: Any) -> dict[str, Any]:
    return {"attributes": {**CALL, "tool_use_id": f"toolu_{number}", **more}}


def untold(collector: RunningCollector, name: str) -> list[str]:
    rows = collector.get("/api/v1/sources", source=name)["rows"]
    return [each["what"] for row in rows for each in row["untold"]]


def test_what_is_missing_is_said_until_it_arrives(collector: RunningCollector) -> None:
    refused, details, _ = [each.what for each in TABLE["claude-code"].untold]
    collector.post(
        "/v1/logs", logs({"attributes": {"event.name": "api_request", "session.id": "s"}}, service="claude-code")
    )
    assert untold(collector, "claude-code") == []  # no call that could show anything

    collector.post("/v1/logs", logs(call(1), service="claude-code"))
    assert untold(collector, "claude-code") == [refused, details]
    done = misstep("doctor", "--agent", "claude-code", cwd=collector.folder, settings={"COLLECTOR_URL": collector.url})
    assert f"warn  claude-code from claude-code: it does not tell {refused}" in done.stdout
    assert "set the hook PostToolBatch: misstep connect claude-code --with refused-calls" in done.stdout
    assert "or set OTEL_LOG_RAW_API_BODIES=1: misstep connect claude-code --with raw-bodies" in done.stdout
    assert "it costs: the first 60 KB of each request and answer leave the agent" in done.stdout
    assert "see docs/agents/claude-code.md" in done.stdout
    assert done.stdout.count("OTEL_LOG_TOOL_DETAILS=1") == 1

    collector.post("/v1/events", json.dumps({**BATCH, "tool_calls": [{**REFUSED, "tool_response": "fine"}]}))
    assert untold(collector, "claude-code") == [details]  # although no call has been refused yet

    collector.post("/v1/logs", logs(call(2, tool_input='{"file_path": "a.py"}'), service="claude-code"))
    assert untold(collector, "claude-code") == []
