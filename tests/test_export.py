"""Exporting events of a running collector to files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from collector.commands import export
from tests.conftest import MISSTEP, RunningCollector, free_port, misstep

ENTRY = {
    "level": "warn",
    "category": "tool_validation",
    "tool": "apply_diff",
    "error_type": "MissingParameterError",
    "message": "Missing required parameter: diff",
    "params": {"path": "src/a, b.ts", "lines": [1, 2]},
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with 25 events of two tools, a second apart."""
    collector = RunningCollector(tmp_path_factory.mktemp("export")).start()
    now_ms = int(time.time() * 1000)
    entries = [
        ENTRY | {"tool": ("apply_diff", "read_file")[number % 2], "timestamp": now_ms - 1000 * number, "task_id": "t"}
        for number in range(25)
    ]
    collector.post("/v1/events", json.dumps(entries))
    yield collector
    collector.stop()


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_file_has_every_event_that_the_filters_choose(filled: RunningCollector, form: str) -> None:
    path = filled.folder / f"out.{form}"
    arguments = ("export", "--format", form, "--output", path, "--from", "-1h")
    done = misstep(*arguments, "tool=apply_diff", cwd=filled.folder, settings={"COLLECTOR_URL": filled.url})
    assert (done.returncode, done.stdout) == (0, f"13 events in {path}\n"), done.stderr
    expected = filled.events(tool="apply_diff")
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        "parquet": pl.read_parquet,
        "csv": pl.read_csv,
        "jsonl": pl.read_ndjson,
    }
    found = readers[form](path)
    assert [str(each) for each in found["event_id"]] == [event["event_id"] for event in expected]
    assert set(found["tool"]) == {"apply_diff"}


def test_parquet_has_the_types_of_the_store(filled: RunningCollector, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    assert export.export(filled.url, path, "parquet", ["from=-1h"]) == 25
    found = pl.read_parquet(path)
    types = {
        name: found.schema[name] for name in ("time", "received_time", "event_id", "mistake", "duration_ms", "params")
    }
    assert types == {
        "time": pl.Datetime("ns", "UTC"),
        "received_time": pl.Datetime("ns", "UTC"),
        "event_id": pl.UInt64(),
        "mistake": pl.Boolean(),
        "duration_ms": pl.Float64(),
        "params": pl.String(),
    }
    assert json.loads(found["params"][0]) == ENTRY["params"]
    assert sorted(set(filled.events()[0]) - set(found.columns)) == []


def test_pages_are_joined(filled: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 4)
    assert export.export(filled.url, tmp_path / "x.parquet", "parquet", ["from=-1h"]) == 25
    found = pl.read_parquet(tmp_path / "x.parquet").with_columns(pl.col("time").dt.to_string("iso:strict"))
    expected = [(row["event_id"], row["time"].removesuffix("Z")) for row in filled.events()]
    assert [
        (str(row["event_id"]), row["time"][:29].replace(" ", "T")) for row in found.iter_rows(named=True)
    ] == expected


def test_lines_are_rows_of_the_api(filled: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 4)
    assert export.export(filled.url, tmp_path / "x.jsonl", "jsonl", ["from=-1h"]) == 25
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == filled.events()


def test_nothing_chosen_is_an_empty_file(filled: RunningCollector, tmp_path: Path) -> None:
    assert export.export(filled.url, tmp_path / "x.csv", "csv", ["from=-1h", "tool=none"]) == 0
    assert (tmp_path / "x.csv").read_text().startswith("time,received_time,event_id,")


@pytest.mark.parametrize(
    ("where", "said"),
    [(["toll=x"], "answered 400: .*toll"), (["from=yesterday"], "answered 400: from = 'yesterday': .*RFC 3339")],
)
def test_bad_filter_is_said(filled: RunningCollector, tmp_path: Path, where: list[str], said: str) -> None:
    with pytest.raises(OSError, match=said):
        export.export(filled.url, tmp_path / "x.csv", "csv", where)


def test_a_token_that_is_no_header_is_not_shown(filled: RunningCollector, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^the token cannot be sent in a header") as error:
        export.export(filled.url, tmp_path / "x.csv", "csv", ["from=-1h"], "hunter2\n")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_an_export_that_fails_leaves_what_was_there(
    filled: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    path = tmp_path / f"x.{form}"
    path.write_text("the last export")
    pages = count()

    def fails(answer: httpx.Response) -> None:
        if next(pages) == 3:
            raise OSError("the collector is gone")

    monkeypatch.setattr(export, "PAGE", 4)
    monkeypatch.setattr(export, "check", fails)
    with pytest.raises(OSError, match=r"^the collector is gone$"):
        export.export(filled.url, path, form, ["from=-1h"])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(path.name, "the last export")]


SLOW = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN if "nohup" in sys.argv else signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from collector.commands import export
check, pages = export.check, 0
def slow(answer):
    global pages
    pages += 1
    if pages == 4:
        print("begun", flush=True)
        time.sleep(5)
    check(answer)
export.check, export.PAGE = slow, 4
from collector.cli.main import main
sys.argv = ["misstep", "export", "--format", sys.argv[1]]
main()
"""


@pytest.mark.parametrize(("number", "form"), [
    pytest.param(number, form, marks=[] if place == other else pytest.mark.deep)
    for place, number in enumerate((signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
    for other, form in enumerate(("parquet", "csv", "jsonl"))
])  # fmt: skip
def test_who_ends_an_export_finds_no_part_of_it(
    filled: RunningCollector, tmp_path: Path, number: signal.Signals, form: str
) -> None:
    command, environ = [sys.executable, "-c", SLOW, form], filled.environment | {"MISSTEP_COLLECTOR_URL": filled.url}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        assert [path.name for path in tmp_path.iterdir()] == [f".events.{form}.part"]
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert not [*tmp_path.iterdir()]


def test_an_export_below_nohup_goes_on(filled: RunningCollector, tmp_path: Path) -> None:
    command, environ = [sys.executable, "-c", SLOW, "csv", "nohup"], filled.environment
    environ |= {"MISSTEP_COLLECTOR_URL": filled.url}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def test_what_goes_to_a_pipe_is_the_events_alone(filled: RunningCollector) -> None:
    arguments = ("export", "--format", "csv", "--output", "/dev/stdout", "--from", "-1h")
    done = misstep(*arguments, cwd=filled.folder, settings={"COLLECTOR_URL": filled.url}, fresh=True)
    assert (len(done.stdout.splitlines()), done.stderr) == (26, "25 events in /dev/stdout\n")


@pytest.mark.parametrize("form", ["parquet", "csv", pytest.param("jsonl", marks=pytest.mark.deep)])
def test_what_cannot_be_written_is_said_alike_for_every_form(filled: RunningCollector, form: str) -> None:
    about = ["export", "--format", form, "--from", "-1h", "--output"]
    full = misstep(*about, "/dev/full", cwd=filled.folder, settings={"COLLECTOR_URL": filled.url})
    assert (full.returncode, "Traceback" in full.stderr) == (2, False)
    assert "No space left on device: '/dev/full'" in full.stderr
    command, environ = [MISSTEP, *about], filled.environment | {"MISSTEP_COLLECTOR_URL": filled.url}
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command, "x"]
    large = subprocess.run(limited, env=environ, cwd=filled.folder, capture_output=True, text=True)
    assert large.stderr.endswith("File too large: 'x'\n")
    assert not [path for path in filled.folder.iterdir() if "x" in path.name.split(".")]
    with subprocess.Popen(
        [*command, "/dev/stdout"], env=environ, cwd=filled.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_relative_range_is_one_range_for_all_pages(
    filled: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE", 4)
    asked: list[dict[str, str]] = []
    get = httpx.Client.get

    def listening(self: httpx.Client, *where: Any, **how: Any) -> httpx.Response:
        asked.append(dict(how["params"]))
        return get(self, *where, **how)

    monkeypatch.setattr(httpx.Client, "get", listening)
    export.export(filled.url, tmp_path / "x.csv", "csv", ["from=-1h", "to=now"])
    export.export(filled.url, tmp_path / "y.csv", "csv", ["from=-1h", "to=-1s"])
    pages = [one for one in asked if one["limit"] != "1"]
    assert len(pages) > 8
    assert len({(one["from"], one["to"]) for one in pages}) == 2
    assert not any(one["from"].startswith("-") or one["to"].startswith("-") for one in pages)


def test_no_collector_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="does not answer"):
        export.export(f"http://127.0.0.1:{free_port()}", tmp_path / "x.csv", "csv", [])
