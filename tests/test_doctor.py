"""What `misstep doctor` reports about installations that work and that do not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.commands.doctor import Check, examine
from collector.engine.duckdb.store import Store
from tests.conftest import RunningCollector, free_port, misstep
from tests.doors import logs, spans
from tests.secrets import OWN_RULE


def entry(seconds_ago: float) -> str:
    return json.dumps(
        {
            "level": "warn",
            "category": "tool_validation",
            "tool": "apply_diff",
            "error_type": "MissingParameterError",
            "message": "Missing required parameter: diff",
            "timestamp": int((time.time() - seconds_ago) * 1000),
        }
    )


def findings(collector: RunningCollector, **more: str) -> dict[str, Check]:
    """Part of the installation → the last finding about it, with the collector's settings."""
    environ = {
        "MISSTEP_STORE": f"duckdb:///{collector.store}",
        "MISSTEP_COLLECTOR_URL": collector.url,
        "MISSTEP_DASHBOARD": f"127.0.0.1:{free_port()}",
        **more,
    }
    found = list(examine(environ, collector.folder / "misstep.toml"))
    assert all(finding.remedy for finding in found if finding.state != "ok")
    return {finding.what.partition(":")[0].partition(" ")[0]: finding for finding in found}


def test_what_it_says_as_a_set_up_comes_to_life(collector: RunningCollector) -> None:
    assert "nothing has been received yet" in findings(collector)["sources"].what

    collector.post("/v1/traces", spans({"name": "pilot.tool"}, scope="pilot.core"))
    assert "1 record arrived, and no table knows a call" in findings(collector)["sources"].what

    collector.post("/v1/events", entry(7200))
    assert "nothing received since" in findings(collector)["sources"].what

    collector.post("/v1/events", entry(5))
    found = findings(collector)
    assert {part: finding.state for part, finding in found.items()} == {
        "setting": "ok",
        "settings": "ok",
        "store": "ok",
        "collector": "ok",
        "clock": "ok",
        "source": "ok",
        "dashboard": "warn",
    }
    assert "3 records accepted, 2 stored, 0 duplicate, dropped: no_event 1" in found["collector"].what

    odd = {"error_type": "FrobnicationError", "category": "x", "message": "it went sideways"}
    collector.post("/v1/events", json.dumps(json.loads(entry(5)) | odd))
    collector.post("/v1/logs", logs({}))
    found = findings(collector)
    assert "dropped: no_event 2" in found["collector"].what
    assert found["source"].state == "warn"
    assert "33% of its errors have no class" in found["source"].what


def test_a_sender_without_a_service_is_said_to_have_none(collector: RunningCollector) -> None:
    collector.post("/v1/events", json.dumps({"tool": "flux", "outcome": "ok", "session": "s"}))
    assert findings(collector)["source"].what.startswith("source event from a service without a name: 1 event, last ")


def test_it_says_that_only_a_part_of_the_records_arrives(collector: RunningCollector) -> None:
    span = {"name": "execute_tool read", "traceState": "ot=th:e", "attributes": {"gen_ai.tool.name": "read"}}
    at = {"startTimeUnixNano": str(time.time_ns() - 10**6), "endTimeUnixNano": str(time.time_ns())}
    collector.post("/v1/traces", spans(span | at, service="my-agent"))
    found = findings(collector)["source"]
    assert (found.state, "about 12% of its records arrive (tracestate ot=th)" in found.what) == ("warn", True)
    assert "always_on" in found.remedy
    said = about(collector, "my-agent")[1]
    assert "tool 1 (0 errors); sampled upstream" in said


def test_query_token_is_asked_for(start_collector: Any) -> None:
    collector = start_collector(QUERY_TOKENS="right")
    assert findings(collector)["collector"].remedy == "set MISSTEP_QUERY_TOKEN"
    found = findings(collector, MISSTEP_QUERY_TOKEN="right\n")  # as a secret that is mounted as a file often ends
    assert found["collector"].state == "ok"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"HTTP": "x"}, "fail  settings: environment: http = 'x': write host:port"),
        ({"STORE": "mysql://x"}, "fail  store: mysql is not known"),
        ({"STORE": "duckdb://:memory:"}, "warn  store: in memory"),
        ({"STORE": "duckdb:///none/x.duckdb"}, "warn  store: none/x.duckdb is not there yet"),
        ({"STORE": "duckdb:///."}, "fail  store: . cannot be opened for writing (Is a directory)"),
        ({"LOG": "json"}, "ok    setting log = json (from MISSTEP_LOG)"),
        ({"RETENTION": "14d"}, "ok    setting retention = 14d (from MISSTEP_RETENTION)"),
        ({"ALLOWED_HOSTS": "a.internal,b"}, "ok    setting allowed_hosts = a.internal,b (from MISSTEP_ALLOWED_HOSTS)"),
        (
            {"RETENTON": "7d"},
            "fail  settings: environment: MISSTEP_RETENTON is no setting; did you mean MISSTEP_RETENTION?",
        ),
        ({"RULES": "mine.yaml"}, "warn  rules: mine.yaml is not there, the default rules are in force"),
        ({"STORE": "mysql://root:hunter2@h/db"}, "ok    setting store = mysql://h/db (from MISSTEP_STORE)"),
        ({"OTLP_URL": "http://a:hunter2@h:1"}, "ok    setting otlp_url = http://h:1 (from MISSTEP_OTLP_URL)"),
        ({"DASHBOARD_URL": "https://a:hunter2@b@h/x@y"}, "ok    setting dashboard_url = https://h/x@y (from"),
        ({"TRACE_URL": "https://hunter2@h/{trace_id}"}, "ok    setting trace_url = https://h/{trace_id} (from"),
        ({"QUERY_TOKEN": "hunter2"}, "ok    setting query_token = *** (from MISSTEP_QUERY_TOKEN)"),
    ],
)
def test_what_it_says_without_a_collector(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    done = misstep("doctor", cwd=tmp_path, settings={"COLLECTOR_URL": address, **settings})
    assert done.returncode == 1
    assert said in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    if "fail  settings" not in said:
        assert f"fail  collector: nobody answers at {address}" in done.stdout


def newer(path: Path) -> None:
    with duckdb.connect(str(path)) as engine:
        engine.execute("update meta set value = '999' where name = 'schema_version'")


def of_another_program(path: Path) -> None:
    path.unlink()
    duckdb.connect(str(path)).execute("create table t as select 1").close()


@pytest.mark.parametrize(
    ("harm", "said", "remedy"),
    [
        (lambda path: path.write_bytes(b""), "is not a DuckDB file", "move it away"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(9000)), "is not a DuckDB file", "move it away"),
        (lambda path: os.truncate(path, 5000), "seems to be damaged", "put a backup in its place"),
        (lambda path: path.write_bytes(path.read_bytes()[:12288] + bytes(1 << 20)), "seems to be damaged", "a backup"),
        (newer, "has the tables of another version", "use the version that wrote it"),
        (of_another_program, "is no store of Misstep", "move it away"),
    ],
)
def test_a_store_that_no_collector_could_open(
    tmp_path: Path, harm: Callable[[Path], object], said: str, remedy: str
) -> None:
    path = tmp_path / "it's.duckdb"
    environ = {"MISSTEP_STORE": f"duckdb:///{path}", "MISSTEP_COLLECTOR_URL": f"http://127.0.0.1:{free_port()}"}
    Store.open(environ["MISSTEP_STORE"]).close()

    def found() -> Check:
        return next(one for one in examine(environ, tmp_path / "misstep.toml") if one.what.startswith("store: "))

    assert found().state == "ok"
    harm(path)
    content = path.read_bytes()
    check = found()
    assert (check.state, said in check.what, remedy in check.remedy) == ("fail", True, True), check
    assert path.read_bytes() == content


def test_the_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    port = free_port()
    done = misstep("doctor", cwd=tmp_path, settings={"COLLECTOR_URL": f"http://user:hunter2@127.0.0.1:{port}"})
    assert f"ok    setting collector_url = http://127.0.0.1:{port} (from MISSTEP_COLLECTOR_URL)" in done.stdout
    assert f"fail  collector: nobody answers at http://127.0.0.1:{port}\n" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"COLLECTOR_URL": "http://a:hunter2@127.0.0.1:abc"},
            "collector_url = 'http://127.0.0.1:abc': write an address",
        ),
        ({"COLLECTOR_URL": "http://a:hunter2@\u2603.."}, "fail  collector: http://\u2603.. is no address"),
        ({"QUERY_TOKEN": "hunter2\u00e9"}, "fail  settings: environment: query_token = ***: write printable ASCII"),
        ({"QUERY_TOKEN": "hunter2\nX: y"}, "fail  settings: environment: query_token = ***: write printable ASCII"),
        ({"INGEST_TOKENS": "a,hunter2\x7f"}, "fail  settings: environment: ingest_tokens = ***: write printable"),
    ],
)
def test_what_no_request_can_be_made_of(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    settings = {"COLLECTOR_URL": f"http://127.0.0.1:{free_port()}", **settings}
    done = misstep("doctor", cwd=tmp_path, settings=settings)
    assert (done.returncode, said in done.stdout, done.stderr) == (1, True, "")
    assert "hunter2" not in done.stdout
    if "fail  collector" in said:
        done = misstep("doctor", "--agent", "codex", cwd=tmp_path, settings=settings)
        assert (done.returncode, said in done.stdout, done.stderr) == (1, True, "")


def test_origin_of_a_setting_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "misstep.toml").write_text('personal = "keep"\n')
    done = misstep("doctor", cwd=tmp_path, settings={"COLLECTOR_URL": f"http://127.0.0.1:{free_port()}"})
    assert "ok    setting personal = keep (from misstep.toml)" in done.stdout


def test_sign_in_that_nobody_could_use(tmp_path: Path) -> None:
    (tmp_path / ".streamlit").mkdir()
    for text, said in (
        ("[auth]\n", "nobody could sign in: [auth]"),
        ("[auth\n", ".streamlit/secrets.toml cannot"),
    ):
        (tmp_path / ".streamlit/secrets.toml").write_text(text)
        done = misstep("doctor", cwd=tmp_path, settings={"COLLECTOR_URL": f"http://127.0.0.1:{free_port()}"})
        assert f"fail  sign-in: {said}" in done.stdout


def test_a_table_whose_example_comes_out_wrong(tmp_path: Path) -> None:
    rule = OWN_RULE + 'examples = ["acme_%s"]'
    settings = {"TABLES": "own", "COLLECTOR_URL": f"http://127.0.0.1:{free_port()}"}
    path = tmp_path / "own" / "redactions.toml"
    path.parent.mkdir()
    path.write_text(rule % "a1b2c3d4e5f6")
    assert "ok    tables: those in own are sound" in misstep("doctor", cwd=tmp_path, settings=settings).stdout
    path.write_text(rule % "short")
    said = "own/redactions.toml: rule 'acme-key': examples: number 1 must be cut, but is not"
    assert f"fail  tables: {said}" in misstep("doctor", cwd=tmp_path, settings=settings).stdout
    assert [one.name for one in tmp_path.iterdir()] == ["own"]
    started = misstep("collector", cwd=tmp_path, settings=settings)
    assert (started.returncode, said in started.stderr) == (2, True)


def about(collector: RunningCollector, name: str) -> tuple[int, str]:
    """Exit code and output of `misstep doctor --agent`."""
    done = misstep("doctor", "--agent", name, cwd=collector.folder, settings={"COLLECTOR_URL": collector.url})
    return done.returncode, done.stdout


def test_what_arrived_from_one_agent_and_what_is_missing(collector: RunningCollector) -> None:
    code, said = about(collector, "codex")
    assert (code, said.splitlines()[0]) == (1, "fail  agent codex: nothing yet")
    assert f'exporter         = {{ otlp-http = {{ endpoint = "{collector.url}/v1/logs"' in said
    code, said = about(collector, "smolagents")  # its page has another name
    assert (code, "OTEL_EXPORTER_OTLP_ENDPOINT" in said) == (1, True)
    code, said = about(collector, "frobnicator")
    assert (code, "there is no page on it" in said, "claude-code" in said) == (1, True, True)

    collector.post("/v1/events", entry(5))
    code, said = about(collector, "roo-code")
    assert (code, said.splitlines()[0].startswith("ok    roo-code from ")) == (0, True)
    assert "tool 1 (1 error); last 20" in said
    assert "it does not report the model, and no known setting turns this on" in said
    assert "it does not report sequence numbers, so that calls of one instant stand in any order" in said

    call = {"event.name": "claude_code.tool_result", "tool_name": "Read", "success": "true", "session.id": "s"}
    collector.post("/v1/logs", logs({"body": "claude_code.tool_result", "attributes": call}, service="a,b"))
    for name in ("claude-code", "a,b"):
        code, said = about(collector, name)
        assert (code, "claude-code from a,b: tool 1 (0 errors)" in said) == (0, True), said
        assert "arguments of calls and texts of errors\n      → set OTEL_LOG_TOOL_DETAILS=1: misstep connect" in said

    points = {"name": "continue.calls", "sum": {"dataPoints": [{"asInt": "1"}]}}
    sender = {"attributes": [{"key": "service.name", "value": {"stringValue": "continue-cli"}}]}
    metrics = {"resourceMetrics": [{"resource": sender, "scopeMetrics": [{"metrics": [points]}]}]}
    collector.post("/v1/metrics", json.dumps(metrics))
    code, said = about(collector, "continue")
    assert (code, "continue from continue-cli: seen, no tool data; metrics continue.calls" in said) == (0, True)
    assert "source continue from continue-cli: seen, no tool data" in misstep(
        "doctor", cwd=collector.folder, settings={"COLLECTOR_URL": collector.url}
    ).stdout  # fmt: skip


def test_asking_for_an_agent_without_a_token_or_a_collector(start_collector: Any) -> None:
    collector = start_collector(QUERY_TOKENS="right")
    assert about(collector, "codex") == (
        1,
        "fail  collector: it wants a query token\n      → set MISSTEP_QUERY_TOKEN\n",
    )
    collector.stop()
    code, said = about(collector, "codex")
    assert (code, "nobody answers" in said) == (1, True)
