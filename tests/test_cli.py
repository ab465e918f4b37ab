"""The command line, as people and scripts use it."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collector import app as collector_app
from collector.engine.duckdb.store import Store
from tests.conftest import MISSTEP, RunningCollector, free_port, misstep, wait_until

AWS = "AKIA" + "QWERTYUIOPASDFGH"
GITHUB = "gh" + "p_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def loaded(code: str, *modules: str) -> set[str]:
    """Which of `modules` a new Python has imported after `code`."""
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    return set(modules) & set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_help_names_the_commands(tmp_path: Path) -> None:
    done = misstep("--help", cwd=tmp_path)
    assert all(name in done.stdout for name in ("up", "collector", "dashboard", "replay", "demo", "doctor", "export"))
    helps = [misstep(*words, "--help", cwd=tmp_path).stdout for words in ([], ["up"])]
    assert all("`misstep settings` lists them all" in " ".join(text.split()) for text in helps)


def test_command_line_alone_loads_nothing_slow() -> None:
    slow = (
        "duckdb",
        "litestar",
        "granian",
        "grpc",
        "msgspec",
        "polars",
        "streamlit",
        "httpx",
        "hyperscan",
        "rich.progress",
    )
    assert loaded("import collector.cli.main", *slow) == set()


def test_collector_loads_nothing_that_only_other_commands_need() -> None:
    others = (
        "polars",
        "pandas",
        "pyarrow",
        "streamlit",
        "altair",
        "httpx",
        "apprise",
        "opentelemetry.sdk",
        "rich.progress",
    )
    assert loaded("import collector.app, collector.serve", *others, "cyclopts") == set()


def test_readers_share_no_memory_with_what_only_serves() -> None:
    serving = (
        "duckdb",
        "litestar",
        "granian",
        "grpc",
        "uvloop",
        "cyclopts",
        "collector.engine.duckdb.store",
        "collector.serve",
    )
    assert loaded("import collector.app", *serving) == set()


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (["collector"], {"HTTP": "nonsense"}, "misstep: environment: http = 'nonsense': write host:port"),
        (["collector", "--grpc", "1"], {}, "misstep: command line: grpc = '1': write host:port"),
        (["collector"], {"HTTP": ":4318"}, "others could read and write"),
        (["dashboard"], {"DASHBOARD": ":8501"}, "misstep: dashboard = 0.0.0.0:8501: others could see everything"),
        (["up"], {"DASHBOARD": ":8501"}, "misstep: dashboard = 0.0.0.0:8501: others could see everything"),
        (["collector", "--store", "mysql://x"], {}, "store: mysql is not known"),
        (["collector"], {"STORE": "clickhouse://u:p@h:8123/db"}, "set MISSTEP_STORE (or --store) to duckdb:///"),
        (["collector"], {"TABLES": "."}, "taxonomy.toml: "),
        (["replay", "nowhere"], {}, "misstep: nowhere: no such file or folder"),
        (["replay", "."], {}, "no recorded bodies such as 001-traces.json"),
        (["replay"], {}, "misstep: name what to send: folders or files of recorded bodies"),
        (["demo", "--sessions", "0"], {}, 'Invalid value "0" for --sessions. Must be >= 1.'),
        (["export", "--format", "csv", "nonsense"], {}, "misstep: 'nonsense' is not a filter; write name=value"),
        (
            ["sql", "select 1"],
            {"COLLECTOR_URL": "http://u:p@127.0.0.1:abc"},
            "collector_url = 'http://127.0.0.1:abc': write an address",
        ),
        (["export", "--format", "csv"], {"QUERY_TOKEN": "\u00e9"}, "misstep: environment: query_token = ***: write"),
        (["replay", "alerts.yaml"], {"INGEST_TOKENS": "\u00e9"}, "misstep: environment: ingest_tokens = ***: write"),
        (
            ["rules", "backtest", "alerts.yaml"],
            {"COLLECTOR_URL": "http://\u2603.."},
            "misstep: http://\u2603.. is no",
        ),
        (
            ["sql", "select 1"],
            {"COLLECTOR_URL": "http://u:p@127.0.0.1:1"},
            "at http://127.0.0.1:1 does not",
        ),
        (["sql", "select 1"], {"COLLECTOR_URL": "http://127.0.0.1:1"}, "; start one with misstep up, or give its"),
        (
            ["rules", "backtest", "alerts.yaml", "--since", "yesterday"],
            {},
            "misstep: --since = 'yesterday': --since is a duration such as 90s, 5m, 1h30m or 7d",
        ),
        (["rules", "suggest", "alerts.yaml", "--step=-1m"], {}, "misstep: --step = '-1m': --step is a duration"),
        (["sql", "select 1"], {"COLLECTOR_URL": "ftp://u:p@h"}, "collector_url = 'ftp://h': write an address"),
        (["sanitise", "check", "nowhere"], {}, "No such file or directory: 'nowhere'"),
        (["rebuild", "--store", "duckdb://:memory:"], {}, "there is no store at duckdb://:memory:"),
        (["sanitise", "apply"], {"STORE": "duckdb:///nowhere"}, "there is no store at nowhere"),
    ],
)
def test_what_cannot_run_says_why_in_one_line(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], said: str
) -> None:
    (tmp_path / "taxonomy.toml").write_text("[classes.X]\n")
    (tmp_path / "alerts.yaml").write_text("rules:\n  - {name: a, measure: errors, condition: '> 1'}\n")
    done = misstep(*arguments, cwd=tmp_path, settings=settings)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_no_proxy_stands_before_this_machine(
    shared: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.post("/v1/events", json.dumps([{"tool": "a", "outcome": "ok"}]))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for url in (shared.url, shared.url.replace("127.0.0.1", "localhost")):
        settings = {"COLLECTOR_URL": url}
        told = misstep("sql", "select tool from events", "--format", "csv", cwd=tmp_path, settings=settings)
        assert told.stdout.splitlines() == ["tool", "a"], told.stderr


def test_port_that_is_taken_is_said_before_anything_is_opened(shared: RunningCollector, tmp_path: Path) -> None:
    done = misstep("collector", "--http", shared.url.removeprefix("http://"), cwd=tmp_path)
    assert done.returncode == 2
    assert "is another collector running?" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("mib", [300, 879, 1200])
def test_a_limit_of_the_address_space_is_named(mib: int, tmp_path: Path) -> None:
    run = f'ulimit -v {mib << 10}; exec "$0" collector'
    done = subprocess.run(["sh", "-c", run, MISSTEP], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(rf"misstep: the address space is limited to {mib} MiB \(ulimit -v\), .*\n", done.stderr)


def test_a_collector_that_gets_no_thread_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(collector_app, "run", run)
    assert collector_app.main() == 2
    assert re.fullmatch(r"misstep: .*can't start new thread.*ulimit.*\n", capsys.readouterr().err)


def test_second_collector_on_one_store_is_refused(shared: RunningCollector, tmp_path: Path) -> None:
    done = misstep(
        "collector",
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
        cwd=tmp_path,
        settings={"STORE": f"duckdb:///{shared.store}"},
    )
    assert done.returncode == 2
    assert "is in use by another process" in done.stderr


def test_rules_check_names_every_mistake(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("rules:\n  - {name: a, measure: errors, window: 5m, condition: '> 3', summary: s}\n")
    done = misstep("rules", "check", file, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{file}: 1 rule, 0 receivers, no mistakes\n")
    file.write_text("rules:\n  - {name: a, measure: erors, window: 5, condition: '> 3', summary: s}\n")
    done = misstep("rules", "check", file, cwd=tmp_path)
    assert done.returncode == 1
    assert all(f"{file}:2:" in line for line in done.stdout.splitlines())
    assert "erors" in done.stdout
    assert "window" in done.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_nobodys(tmp_path: Path, closed: str) -> None:
    """A file that got the number of one would have in it what is written there."""
    shell = f"exec {MISSTEP} rebuild --store duckdb:///m.duckdb {closed}"
    Store.open(f"duckdb:///{tmp_path}/m.duckdb").close()
    done = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    Store.open(f"duckdb:///{tmp_path}/m.duckdb").close()
    assert done.stdout == ("" if ">&-" in closed.split() else "0 sessions recomputed in duckdb:///m.duckdb\n")


def test_a_collector_needs_no_standard_error(tmp_path: Path) -> None:
    http, grpc = free_port(), free_port()
    shell = f"exec {MISSTEP} collector --http 127.0.0.1:{http} --grpc 127.0.0.1:{grpc} 2>&-"
    with subprocess.Popen(["sh", "-c", shell], cwd=tmp_path) as process:
        running = RunningCollector(tmp_path, url=f"http://127.0.0.1:{http}", process=process)
        running.log.touch()
        wait_until(running._ready)
        assert running.stop() == 0


def test_any_text_can_be_printed(shared: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    settings = {"COLLECTOR_URL": shared.url}
    shown = misstep("sql", "select 'é😀' x", cwd=tmp_path, settings=settings, fresh=True)
    assert ("\\xe9\\U0001f600" in shown.stdout, shown.returncode) == (True, 0), shown.stderr
    told = misstep("sql", "select 'é😀' x", "--format", "jsonl", cwd=tmp_path, settings=settings, fresh=True)
    assert json.loads(told.stdout) == {"x": "é😀"}, told.stderr
    assert misstep("sanitise", "filter", cwd=tmp_path, stdin='"é😀"\n', fresh=True).stdout == '"é😀"\n'


def test_who_has_read_enough_is_told_of_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("rules:\n" + "  - {name: a, measure: erors, condition: '> 3'}\n" * 2000)
    command = [MISSTEP, "rules", "check", str(file)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)  # less than what is printed, whoever is slower
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_rules_may_name_the_dimensions_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    rule = "{name: a, measure: errors, by: [team], where: {team: [a, b]}, condition: '> 3'}"
    file.write_text(f"rules: [{rule}]\ntests: [{{name: t, rule: a, values: '4', states: F}}]\n")
    for command in ("check", "test"):
        done = misstep("rules", command, file, cwd=tmp_path, settings={"DIMENSIONS": "team"})
        assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stdout + done.stderr
    done = misstep("rules", "check", file, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("is no dimension")) == (1, 2)


def test_sanitise_filter_keeps_order_and_everything_but_the_secret(tmp_path: Path) -> None:
    values = [{"path": "src/app.py", "note": f"key {AWS}"}, "plain", 17, [1.5, None, True], {"a": {"b": [GITHUB]}}]
    stdin = "".join(json.dumps(value) + "\n" for value in values)
    done = misstep("sanitise", "filter", cwd=tmp_path, stdin=stdin)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[1:4] == values[1:4]
    assert lines[0]["path"] == "src/app.py"
    assert lines[0]["note"].startswith("key [redacted:")
    assert AWS not in done.stdout
    assert GITHUB not in done.stdout


def test_sanitise_filter_answers_line_by_line(tmp_path: Path) -> None:
    command = [MISSTEP, "sanitise", "filter"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write('{"one": 1}\n')
        process.stdin.flush()
        assert process.stdout.readline() == '{"one":1}\n'


def test_sanitise_filter_keeps_its_place_where_a_line_is_no_json(tmp_path: Path) -> None:
    done = misstep("sanitise", "filter", cwd=tmp_path, stdin=f"1\nkey {AWS}\n2\n")
    first, second, third = done.stdout.splitlines()
    assert (done.returncode, first, third) == (0, "1", "2")
    assert second.startswith("key [redacted:")


def test_sanitise_check_says_where_and_never_what(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text(f"first line\nkey {AWS}\nand {GITHUB} here\n")
    done = misstep("sanitise", "check", file, cwd=tmp_path)
    assert done.returncode == 1
    first, second, summary = done.stdout.splitlines()
    assert first.startswith(f"{file}:2:5: ")
    assert second.startswith(f"{file}:3:5: ")
    assert summary == f"{file}: 2 places would be cut"
    assert AWS not in done.stdout
    file.write_text("git commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12\n")
    done = misstep("sanitise", "check", file, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{file}: nothing would be cut\n")
