"""The tables of sources: every row by its own examples, every mistake named, and noise dropped by name alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.decode.record import Convert, Record, Scope, SpanEvent
from collector.recognise.readers import Around
from collector.recognise.recognise import recognise, row_of
from collector.recognise.sources import Plan, Row, Source, Sources, load_sources
from collector.tables import TableError

TABLES = load_sources()
PLACES = ("resource", "scope", "scope_version", "events", "signal")


def record_of(given: dict[str, Any], signal: str) -> Record:
    """A record from its JSON in an example."""
    fields = {name: value for name, value in given.items() if name not in (*PLACES, "name", "attributes")}
    events = [SpanEvent(one["name"], 0, one.get("attributes", {})) for one in given.get("events", ())]
    return Record(signal, given.get("name", ""), dict(given.get("attributes", {})), events=events, **fields)


def rows() -> list[Any]:
    return [
        pytest.param(source, row, id=f"{source.id}-{number}")
        for source in TABLES.sources
        for number, row in enumerate(source.rows, 1)
        if row.examples or row.counter_examples
    ]


def reported(source: Source, row: Row, text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the table alone makes of an example, and what the example expects."""
    record, _, expected = text.partition(" => ")
    given = json.loads(record)
    claims = Sources((source,))
    claims._plans[given.get("resource", {}).get("service.name", ""), given.get("scope", "")] = Plan(
        True, claims.sources
    )
    signal = sorted(row.signals)[0]
    version = given.get("scope_version", "")
    scope = Scope(given.get("resource", {}), given.get("scope", ""), version, [record_of(given, signal)])
    return recognise([scope], claims).reports, json.loads(expected or "{}")


@pytest.mark.parametrize(("source", "row"), rows())
def test_row_recognises_its_examples(source: Source, row: Row) -> None:
    for text in row.examples:
        found, expected = reported(source, row, text)
        assert len(found) == 1, text
        report = found[0]
        assert report["operation"] == row.operation, text
        assert {name: report.get(name) for name in expected} == expected, text


@pytest.mark.parametrize(("source", "row"), rows())
def test_row_leaves_its_counter_examples_alone(source: Source, row: Row) -> None:
    for text in row.counter_examples:
        if " => " in text:
            found, wrong = reported(source, row, text)
            assert all({name: one.get(name) for name in wrong} != wrong for one in found), text
            continue
        given = json.loads(text)
        record = record_of(given, sorted(row.signals)[0])
        around = Around(given.get("resource", {}), given.get("scope", ""), version=given.get("scope_version", ""))
        assert row_of(Plan(True, (source,)), record, around) is not row, text


def test_every_table_tells_what_it_covers() -> None:
    assert all(source.coverage and source.title for source in TABLES.sources)


WRONG = [
    ('id = "y"\ntitle = "Y"', "id: 'y' must be the file's name, 'x'"),
    ('id = "x"', "title: is missing"),
    ('id = "x"\ntitle = "X"\ncolour = "red"', "colour: is not known; known are id, title"),
    ('id = "x"\ntitle = 3', "title: must be a text, not 3"),
    ('id = "x"\ntitle = "X"\ntold = "all"', "told: 'all' is not one of create, refused, amend"),
    ('id = "x"\ntitle = "X"\nextends = ["nobody"]', "extends: 'nobody' is not a table"),
    ('id = "x"\ntitle = "X"\n[match]\nservices = ["a"]', "match: services: is not known; known are service, scope"),
    ('id = "x"\ntitle = "X"\n[coverage]\nsmell = true', "coverage: 'smell' is not one of session, parameters"),
    (
        'id = "x"\ntitle = "X"\n[fields]\ntol = "a"',
        "fields: tol: is not a column that a table can fill; those are agent",
    ),
    ('id = "x"\ntitle = "X"\n[outcome]\nflag = ["a"]', "outcome: flag: is not a kind of evidence; those are status"),
    ('id = "x"\ntitle = "X"\n[outcome]\nexit_header = ["("]', "outcome: exit_header: '(' is not a valid pattern"),
    ('id = "x"\ntitle = "X"\n[outcome]\nexit_header = ["a"]', "it needs one group, the exit code"),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "smoke"\noperation = "drop"',
        "signal: must be one or several of log",
    ),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\nname = "a"\noperation = "tol"',
        "records 1 (a): operation: 'tol'",
    ),
    ('id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "tool"', "examples: is missing"),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "tool"\nexamples = ["{"]',
        "examples: '{' is not JSON",
    ),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "drop"\nkeys = ["luck"]',
        "keys: 'luck' is not one",
    ),
    ("id = ", "is not TOML"),
]


@pytest.mark.parametrize(("text", "mistake"), WRONG)
def test_mistake_is_named(text: str, mistake: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(TableError) as error:
        load_sources(tmp_path)
    assert mistake in str(error.value)
    assert "x.toml" in str(error.value)


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('id = "x"\ntitle = "X"\n[fields]\na = "b"\nc = 3\n[match]\nd = ["e"]\n')
    with pytest.raises(TableError) as error:
        load_sources(tmp_path)
    assert len(error.value.mistakes) == 3


OWN = """
id = "ours"
title = "Our agent"
order = 5
extends = ["gen-ai"]
[match]
scope = ["our.*"]
[coverage]
session = true
[fields]
session = ["task"]
[outcome]
flags = ["went_well"]
[[records]]
signal = "span"
name = "call *"
operation = "tool"
fields = {tool = "@name"}
examples = ['''{"name": "call ls", "attributes": {"went_well": "no"}} => {"outcome": "error", "tool": "ls"}''']
"""


def test_users_table_comes_first_and_takes_over_what_it_extends(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(OWN)
    sources = load_sources(tmp_path)
    own = Record("span", "call ls", {"went_well": "no", "task": "t"})
    convention = Record("span", "x", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "cat"})
    found = recognise([Scope({}, "our.agent", "", [own, convention])], sources).reports
    assert [(one["source"], one["tool"], one["outcome"]) for one in found] == [
        ("ours", "ls", "error"),
        ("ours", "cat", "ok"),
    ]


def unread(raw: Any) -> Any:
    """Stands for a conversion that must not be asked for."""
    raise AssertionError("the name alone decides")


@pytest.mark.parametrize(
    ("service", "scope", "name"),
    [
        ("codex_exec", "codex_exec", "append_items"),
        ("opencode", "opencode", "sql.execute"),
        ("gemini-cli", "gemini-cli", "schedule_tool_calls"),
        ("codex-cli", "", "handle_responses"),
    ],
)
def test_noise_is_dropped_by_name(service: str, scope: str, name: str) -> None:
    span = Record("span", name, parent_span_id="01", convert=Convert(unread, unread, unread))
    found = recognise([Scope({"service.name": service}, scope, "", [span])], TABLES)
    assert not found.reports
    assert found.dropped == {"no_event": 1}


@pytest.mark.parametrize(
    ("service", "scope", "source"),
    [
        ("codex_cli_rs", "codex_otel.log_only", "codex"),
        ("mine", "codex_otel.log_only", "codex"),
        ("gemini-cli", "gemini-cli", "gemini-cli"),
        ("mine", "pydantic-ai", "pydantic-ai"),
        ("mine", "openinference.instrumentation.openai_agents", "openai-agents"),
        ("mine", "strands.telemetry.tracer", "strands"),
        ("mine", "fastmcp", "fastmcp"),
        ("mine", "ai", "vercel-ai"),
        ("opencode", "ai", "opencode"),
        ("mine", "opentelemetry.instrumentation.langchain", "openllmetry"),
        ("mine", "mine", None),
    ],
)
def test_scope_is_claimed_by(service: str, scope: str, source: str | None) -> None:
    plan = TABLES.plan(service, scope)
    assert (plan.sources[0].id if plan.claimed else None) == source


def test_random_names_do_not_grow_the_plans() -> None:
    sources = load_sources()
    scope = Scope({}, "s", "", [Record("span", f"name {number}", {f"key {number}": number}) for number in range(5000)])
    recognise([scope], sources)
    plan = sources.plan("", "s")
    assert len(plan._names) <= 2000
