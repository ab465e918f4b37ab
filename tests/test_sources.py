"""The tables of sources: every row by its own examples, every mistake named, and noise dropped by name alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from collector.decode.record import Convert, Record, Scope
from collector.recognise.examples import check_examples, wrong_examples
from collector.recognise.recognise import recognise
from collector.recognise.source_tables import load_sources
from collector.recognise.sources import Source
from collector.report import each_twin
from collector.tables import TableError, load_toml, schemas
from tests.cpu import cpu_seconds

TABLES = load_sources()


@pytest.mark.parametrize("source", TABLES.sources, ids=lambda source: source.id)
def test_rows_recognise_their_examples_and_leave_their_counter_examples_alone(source: Source) -> None:
    assert list(wrong_examples(source)) == []


def test_every_table_tells_what_it_covers() -> None:
    assert all(source.coverage and source.title for source in TABLES.sources)


@pytest.mark.parametrize("source", TABLES.sources, ids=lambda source: source.id)
def test_what_a_model_says_is_no_evidence(source: Source) -> None:
    above = [row for row in source.rows if row.operation in ("model", "agent")]
    used = [
        use
        for row in above
        for use in (*chain(*row.reading().uses.values()), *(one.use for one in row.reading().special))
    ]
    assert "outputs" not in {use.kind for use in used}


def keys_in(value: Any) -> Iterator[str]:
    """Every text in a part of a table, names included."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield name
            if name not in ("examples", "counter_examples"):
                yield from keys_in(below)
    elif isinstance(value, list):
        for below in value:
            yield from keys_in(below)
    elif isinstance(value, str):
        yield value


LITERALS = re.compile(r"(?:[\w ',:;\"=/-]|\\[.{}\[\]()'\"|])+")


def test_every_pattern_of_a_key_takes_linear_time() -> None:
    """Over what agents send, such as the output of a tool, that has pieces of what the pattern looks for."""
    tables = [load_toml(path) for path in (schemas() / "sources").iterdir() if path.name.endswith(".toml")]
    patterns = {text.partition("~")[2] for text in keys_in(tables)}
    slow = []
    for pattern in sorted(one for one in patterns if one and one[0] != "{"):
        literals = [re.sub(r"\\(.)", r"\1", one) for one in LITERALS.findall(pattern)]
        for piece in {*literals, *(f"{one}x" for one in literals), "x", "{", "["}:
            for start in {"", *literals[:1]}:
                text = start + piece * (32_768 // len(piece))
                if (took := cpu_seconds(partial(re.search, pattern, text), enough=0.1)) >= 0.1:
                    slow.append((pattern, start, piece, took))
    assert len(patterns) > 80
    assert slow == []


def test_the_artifact_of_a_failed_tool_is_no_part_of_its_message() -> None:
    said = "content='gone' name='read' tool_call_id='c1' artifact={'content': '" + "x" * 600 + "'} status='error'"
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "langgraph_node": "tools",
        "gen_ai.tool.call.result": json.dumps(said),
    }
    records = [Record("span", "execute_tool read", tool)]
    report = recognise([Scope({}, "opentelemetry.util.genai.handler", "", records)], TABLES).reports[0]
    assert (report["outcome"], report["message"]) == ("error", "gone")


def test_an_answer_that_was_filtered_is_not_stored() -> None:
    said = {"output.value": "the answer", "llm.output_messages.0.message.content": "the answer"}
    span = {"openinference.span.kind": "LLM", "llm.finish_reason": "content_filter", **said}
    for scope in ("openinference.instrumentation.openai", "openinference.instrumentation.smolagents"):
        for record in (Record("span", "ChatCompletion", dict(span)), Record("span", "LLM", dict(span), status=2)):
            report = recognise([Scope({}, scope, "", [record])], TABLES).reports[0]
            assert (report["outcome"], report["operation"]) == ("error", "model")
            assert "the answer" not in str(report)


WRONG = [
    ('id = "y"\ntitle = "Y"', "id: 'y' must be the file's name, 'x'"),
    ('id = "x"', "title: is missing"),
    ('id = "x"\ntitle = "X"\ncolour = "red"', "colour: is not known; known are id, title"),
    ('id = "x"\ntitle = 3', "title: must be a text, not 3"),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "tool"\ntwin = [["a", "session"], "b"]',
        "twin: must be a list of a role and columns, or of such lists, not [['a', 'session'], 'b']",
    ),
    ('id = "x"\ntitle = "X"\ntold = "all"', "told: 'all' is not one of create, refused, amend"),
    ('id = "x"\ntitle = "X"\nextends = ["nobody"]', "extends: 'nobody' is not a table"),
    (
        'id = "x"\ntitle = "X"\n[match]\nservices = ["a"]',
        "match: services: is not known; known are service, within, scope",
    ),
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
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "tool"\nexamples = [\'{"tool": "ls"}\']',
        "examples: tool: is not known; known are name, attributes,",
    ),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "tool"\nexamples = [\'{"events": [1]}\']',
        "examples: events: must be a list of tables, not [1]",
    ),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "tool"\nexamples = [\'{} => {"tol": 1}\']',
        "examples: tol: is not known; known are ",
    ),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "log"\noperation = "drop"\nkeys = ["luck"]',
        "keys: 'luck' is not one",
    ),
    (
        'id = "x"\ntitle = "X"\n[[records]]\nsignal = "span"\noperation = "model"\nevidence = {outputs = ["said"]}',
        "evidence: outputs: is only for rows of operation tool",
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


@pytest.mark.parametrize(
    ("twin", "without_id", "with_id"),
    [
        ('["begun", "trace_id"]', [["begun", "trace_id"]], []),
        ('["ours", "session"]', [["ours", "session"]], [["ours", "session"]]),
        (
            '[["begun", "trace_id"], ["ours", "session"]]',
            [["begun", "trace_id"], ["ours", "session"]],
            [["ours", "session"]],
        ),
    ],
)
def test_a_call_with_an_id_needs_no_twin_that_asked_for_it(
    tmp_path: Path, twin: str, without_id: list[list[str]], with_id: list[list[str]]
) -> None:
    (tmp_path / "ours.toml").write_text(OWN.replace('name = "call *"', f'name = "call *"\ntwin = {twin}'))
    scope = Scope({}, "our.agent", "", [
        Record("span", "call ls", {"went_well": "no", "task": "t"} | more, trace_id="a")
        for more in ({}, {"gen_ai.tool.call.id": "call_1"})
    ])  # fmt: skip
    found = recognise([scope], load_sources(tmp_path)).reports
    twins = [[[*one] for one in each_twin(report.get("_twin", ()))] for report in found]
    assert twins == [without_id, with_id]


def test_only_what_is_inherited_is_left_out(tmp_path: Path) -> None:
    """JSON-RPC's codes and a pattern begin with "-", too."""
    more = (
        'session = ["task", "-session.id"]',
        'flags = ["went_well"]\ndenied = ["-32002"]\nerror_output = ["-{3,} FAILED"]',
    )
    text = OWN.replace('session = ["task"]', more[0]).replace('flags = ["went_well"]', more[1])
    (tmp_path / "ours.toml").write_text(text)
    own = load_sources(tmp_path).named("ours")
    assert own
    rules = own.rows[0].reading().rules
    assert rules.denied
    assert rules.denied.fullmatch("-32002")
    assert "-{3,} FAILED" in [one.pattern for one in rules.error_output]
    record = Record("span", "call ls", {"session.id": "window"})
    assert [
        one.get("session") for one in recognise([Scope({}, "our.x", "", [record])], load_sources(tmp_path)).reports
    ] == [None]


def test_examples_of_a_users_table_are_run(tmp_path: Path) -> None:
    more = """
[[records]]
signal = "log"
name = "done"
operation = "agent"
examples = ['{"name": "done"}', '{"name": "gone"}']
counter_examples = ['{"name": "done", "body": "x"}', '{"name": "done"} => {"operation": "agent"}']
"""
    path = tmp_path / "ours.toml"
    path.write_text(OWN)
    check_examples(load_sources(tmp_path), [tmp_path])
    path.write_text(OWN.replace('"no"', '"yes"') + more)
    with pytest.raises(TableError) as error:
        check_examples(load_sources(tmp_path), [tmp_path])
    assert [mistake.partition("{")[0] for mistake in error.value.mistakes] == [
        "records 1: examples: ", "records 2: examples: ", "records 2: counter_examples: ",
        "records 2: counter_examples: ",
    ]  # fmt: skip
    assert 'must give {"operation": "tool", "outcome": "error", "tool": "ls"}' in error.value.mistakes[0]
    assert "must make one report, but makes 0" in error.value.mistakes[1]
    assert error.value.path == str(path)


def unread(*_: Any) -> Any:
    """Stands for a conversion that must not be asked for."""
    raise AssertionError("the name alone decides")


@pytest.mark.parametrize(
    ("service", "scope", "name"),
    [
        ("codex_exec", "codex_exec", "append_items"),
        ("opencode", "opencode", "sql.execute"),
        ("gemini-cli", "gemini-cli", "schedule_tool_calls"),
    ],
)
def test_noise_is_dropped_by_name(service: str, scope: str, name: str) -> None:
    convert = Convert(unread, unread, unread, unread, lambda raw, sought: False, lambda _: "1f", "0")
    span = Record.later("span", name, None, convert)
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
        ("mine", "traceai_langchain", "traceai"),
        ("mine", "lmnr.tracer", "laminar"),
        ("openhands", "lmnr.tracer", "openhands"),
        ("mine", "strands.telemetry.tracer", "strands"),
        ("mine", "fastmcp", "fastmcp"),
        ("mine", "ai", "vercel-ai"),
        ("opencode", "ai", "opencode"),
        ("mine", "opentelemetry.instrumentation.langchain", "openllmetry"),
        ("opencode-mine", "opencode-plugin-otel", None),
        ("codex-review-bot", "app", None),
        ("claude-code", "langfuse-sdk", "langfuse"),
        ("mine", "mine", None),
    ],
)
def test_scope_is_claimed_by(service: str, scope: str, source: str | None) -> None:
    plan = TABLES.plan(service, scope)
    assert (plan.sources[0].id if plan.claimed else None) == source


@pytest.mark.parametrize(
    ("service", "scope", "version", "source"),
    [
        ("opencode", "opencode", "1.18.33", "opencode"),
        ("opencode", "opencode", "", "opencode"),
        ("opencode", "opencode", "2.0.0", "opencode"),
        ("opencode", "opencode", "7.7.9", "kilo"),
        ("opencode", "opencode.session", "7.8.1-rc.1", "kilo"),
        ("mine", "opencode", "10.0.0", "kilo"),
        ("kilo", "opencode", "", "kilo"),
        ("kilo-cli", "kilo", "", "kilo"),
        ("kilo", "ai", "", "kilo"),
        ("mine", "kilo", "7.9.0", "kilo"),
        ("mine", "codex_otel.log_only", "7.7.9", "codex"),
        ("kilo", "app", "7.7.9", None),
    ],
)
def test_a_fork_with_the_names_of_its_original_is_known_by_its_version(
    service: str, scope: str, version: str, source: str | None
) -> None:
    plan = TABLES.plan(service, scope, version)
    assert (plan.sources[0].id if plan.claimed else None) == source


def test_random_names_do_not_grow_the_plans() -> None:
    sources = load_sources()
    scope = Scope({}, "s", "", [Record("span", f"name {number}", {f"key {number}": number}) for number in range(2500)])
    recognise([scope], sources)
    plan = sources.plan("", "s")
    assert len(plan._names) <= 2000
