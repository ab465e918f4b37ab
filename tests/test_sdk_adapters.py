"""The SDK's adapters with the frameworks themselves, scripted models and a real collector."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.conftest import EVER, RunningCollector

ROOT = Path(__file__).parents[1]
FRAMEWORKS = ("pydantic_ai", "openai_agents", "langchain", "mcp")


def test_every_framework_gets_errors_as_results_and_every_call_is_an_event(collector: RunningCollector) -> None:
    run = subprocess.run(
        [ROOT / ".venv/adapters/bin/python", ROOT / "tests/frameworks/adapters.py", collector.url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    given = json.loads(run.stdout)
    for framework in FRAMEWORKS:
        read, gone, refused = (json.dumps(each) for each in given[framework])
        assert "text" in read
        assert "FileNotFoundError" in gone
        assert "List or search the directory first" in gone
        assert "the user said no" in refused
        rows = collector.get("/api/v1/events", **{"from": EVER}, session=framework)["rows"]
        told = [(row["outcome"], row["error_class"], row["agent"], row["source"]) for row in reversed(rows)]
        assert told == [
            ("ok", None, framework, "misstep-sdk"),
            ("error", "FileNotFoundError", framework, "misstep-sdk"),
            ("denied", "ToolPermissionError", framework, "misstep-sdk"),
        ]
