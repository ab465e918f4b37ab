"""Every example runs, and what it sends is an event."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import EVER, RunningCollector

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TESTED_HERE = {"agent_loop.py", "agent.ts", "gate.yml", "mcp_server.py", "send.sh"}
# Older versions of Node do not run TypeScript as it is.
STRIP = """
import fs from "node:fs";
import ts from "typescript";
const options = { target: "es2022", module: "esnext" };
const stripped = ts.transpileModule(fs.readFileSync("agent.ts", "utf8"), { compilerOptions: options });
fs.writeFileSync("agent.js", stripped.outputText);
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def calls(collector: RunningCollector, **params: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = collector.get("/api/v1/events", **{"from": EVER}, operation="tool", **params)["rows"]
    return rows[::-1]


def test_every_example_is_tested() -> None:
    assert {each.name for each in EXAMPLES.iterdir()} >= TESTED_HERE


def test_an_agent_loop_makes_and_repairs_mistakes(collector: RunningCollector) -> None:
    said = run(sys.executable, EXAMPLES / "agent_loop.py", collector.url)
    assert "2 mistakes in a row: ask the person" in said
    assert [(each["tool"], each["outcome"], each["error_class"]) for each in calls(collector, session="demo-loop")] == [
        ("read_file", "error", "FileNotFoundError"), ("read_file", "ok", None),
        ("edit_file", "error", "ContentNotFoundError"), ("edit_file", "error", "ContentNotFoundError"),
        ("read_file", "ok", None), ("edit_file", "ok", None),
    ]  # fmt: skip
    collector.kept_up()
    streaks = collector.get("/api/v1/streaks", **{"from": EVER, "scope": "target", "min_length": 2})["rows"]
    assert [(each["length"], each["state"], each["target"]) for each in streaks] == [(2, "recovered", "price.py")]
    assert {each["model"] for each in calls(collector, session="demo-loop")} == {"scripted-1"}


def test_the_mcp_server_answers_with_what_to_do(collector: RunningCollector) -> None:
    async def asked() -> tuple[bool, str]:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        server = StdioServerParameters(command=sys.executable, args=[str(EXAMPLES / "mcp_server.py"), collector.url])
        async with Client(stdio_client(server)) as client:
            result = await client.call_tool("order_status", {"order": "SO-9"})
            return bool(result.is_error), str(result.content[0].text)  # type: ignore[union-attr]

    failed, text = asyncio.run(asked())
    assert failed
    assert "Check the number's spelling" in text


def test_the_shell_example_is_an_event(collector: RunningCollector) -> None:
    run(EXAMPLES / "send.sh", collector.url)
    (event,) = calls(collector, service="shell-agent")
    assert event["error_class"] == "FileNotFoundError"


def test_the_typescript_example_is_an_event(collector: RunningCollector, tmp_path: Path) -> None:
    """Beside the packages that `make test` fetches."""
    (tmp_path / "node_modules").symlink_to(ROOT / "tests/js/node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(EXAMPLES / "agent.ts", tmp_path)
    path = os.pathsep.join((os.environ["PATH"], str(Path(sys.executable).parent)))
    node = shutil.which("node", path=path)
    assert node, "make .venv/.node fetches it"
    (tmp_path / "strip.mjs").write_text(STRIP)
    run(node, "strip.mjs", cwd=tmp_path)
    run(node, "agent.js", collector.url, cwd=tmp_path)
    (event,) = calls(collector, service="typescript-agent")
    assert (event["error_class"], event["session"], event["call_id"]) == ("FileNotFoundError", "session-1", "call_1")


def test_the_workflow_of_the_gate_is_one_and_its_commands_have_these_options() -> None:
    workflow = yaml.safe_load((EXAMPLES / "gate.yml").read_text())
    (job,) = workflow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "misstep gate" in step.get("run", "")]
    assert commands
    told = run(Path(sys.executable).with_name("misstep"), "gate", "--help")
    assert {option for command in commands for option in re.findall(r"(?<= )--[a-z-]+", command)} <= set(
        re.findall(r"--[a-z-]+", told)
    )
