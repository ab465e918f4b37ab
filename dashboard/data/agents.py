"""The agents that can be pointed at the collector: what to paste into each, and what each leaves untold."""

import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

CLAUDE_CODE = """\
export CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_METRICS_EXPORTER=otlp
export OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_EXPORTER_OTLP_ENDPOINT={http}
claude"""

CODEX = """\
# ~/.codex/config.toml (the address is used as it is written, so it needs its path)
[otel]
exporter = {{ otlp-http = {{ endpoint = "{http}/v1/logs", protocol = "json" }} }}
trace_exporter = {{ otlp-http = {{ endpoint = "{http}/v1/traces", protocol = "json" }} }}
metrics_exporter = {{ otlp-http = {{ endpoint = "{http}/v1/metrics", protocol = "json" }} }}"""

GEMINI = """\
export GEMINI_TELEMETRY_ENABLED=true GEMINI_TELEMETRY_TARGET=local GEMINI_TELEMETRY_LOG_PROMPTS=false
export GEMINI_TELEMETRY_OTLP_PROTOCOL=http GEMINI_TELEMETRY_OTLP_ENDPOINT={http}
gemini"""

QWEN = """\
# ~/.qwen/settings.json
{{"telemetry": {{"enabled": true, "target": "local", "otlpProtocol": "http", "otlpEndpoint": "{http}",
  "logPrompts": false}}}}"""

OPENCODE = """\
export OTEL_EXPORTER_OTLP_ENDPOINT={http}
opencode"""

COPILOT = """\
export COPILOT_OTEL_ENABLED=true OTEL_EXPORTER_OTLP_ENDPOINT={http}
copilot"""

PYTHON = """\
# pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http, and your framework's instrumentation
# (OpenInference, OpenLLMetry, or any that follows the GenAI conventions)
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource.create({{"service.name": "my-agent"}}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint="{http}/v1/traces")))
trace.set_tracer_provider(provider)"""

CURL = """\
curl -sS {http}/v1/logs -H 'Content-Type: application/json' -d '{{"resourceLogs": [{{
  "resource": {{"attributes": [{{"key": "service.name", "value": {{"stringValue": "roo-code"}}}}]}},
  "scopeLogs": [{{"logRecords": [{{
    "timeUnixNano": "'$(date +%s)000000000'", "severityText": "ERROR",
    "body": {{"stringValue": "Missing value for required parameter path"}},
    "attributes": [
      {{"key": "level", "value": {{"stringValue": "error"}}}},
      {{"key": "category", "value": {{"stringValue": "tool_validation"}}}},
      {{"key": "tool", "value": {{"stringValue": "read_file"}}}},
      {{"key": "error_type", "value": {{"stringValue": "MissingParameterError"}}}},
      {{"key": "message", "value": {{"stringValue": "Missing value for required parameter path"}}}},
      {{"key": "params", "value": {{"stringValue": "{{\\"line_count\\": 20, \\"password\\": \\"hunter2\\"}}"}}}},
      {{"key": "task_id", "value": {{"stringValue": "my-first-task"}}}}
    ]}}]}}]}}]}}'"""

USUAL = "http://127.0.0.1:4318"

# What to paste where the first minutes want less than the agent's page in docs/agents has: nothing that costs privacy.
PASTED: Mapping[str, tuple[str, str]] = {
    "claude-code": (CLAUDE_CODE, "bash"),
    "codex": (CODEX, "toml"),
    "gemini-cli": (GEMINI, "bash"),
    "qwen-code": (QWEN, "json"),
    "opencode": (OPENCODE, "bash"),
    "copilot": (COPILOT, "bash"),
    "gen-ai": (PYTHON, "python"),
    "curl": (CURL, "bash"),
}
TRIAL = "curl"  # no agent: one made-up call, of an agent that speaks plain JSON
TRIAL_SOURCE = "roo-code"


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its page in docs/agents, its sources, and what it leaves untold, as rows of `switches.toml`."""

    page: str
    title: str
    sources: tuple[str, ...]
    paste: str  # Markdown
    untold: tuple[Mapping[str, Any], ...]
    connects: bool  # whether `misstep connect` knows it

    @property
    def pasted(self) -> str:
        """What to paste, as Markdown, with this collector's address."""
        return self.paste.replace(USUAL, address())


def address(environ: Mapping[str, str] = os.environ) -> str:
    """The collector's address for agents, which may differ from the dashboard's, such as between containers."""
    told = environ.get("MISSTEP_OTLP_URL") or environ.get("MISSTEP_COLLECTOR_URL") or USUAL
    return told.rstrip("/")


def demo(environ: Mapping[str, str] = os.environ) -> str:
    """The command that sends the traffic of some agents to the collector, for any shell of this machine."""
    return f"{_misstep()} demo --to {address(environ)}"


def connected(source: str, environ: Mapping[str, str] = os.environ) -> str:
    """The command that puts into an agent's settings what is to be pasted, after a question."""
    return f"{_misstep()} connect {source} --url {address(environ)}"


def _misstep() -> str:
    command = Path(sys.executable).with_name("misstep")
    return "misstep" if not command.exists() or shutil.which("misstep") == str(command) else shlex.quote(str(command))


@cache
def agents() -> Mapping[str, Agent]:
    """Every agent by its page: those with lines of their own first, then the others by title."""
    known = {agent.page: agent for agent in _read()}
    known[TRIAL] = Agent(TRIAL, "No agent yet: one made-up call", (TRIAL_SOURCE,), _fenced(TRIAL), (), connects=False)
    others = sorted(known.keys() - PASTED.keys(), key=lambda page: known[page].title.casefold())
    return {page: known[page] for page in [*PASTED, *others]}


def _read() -> Iterator[Agent]:
    switches = tomllib.loads(resources.files("schemas").joinpath("switches.toml").read_text(encoding="utf-8"))["agents"]
    for page in _pages():
        text = page.read_text(encoding="utf-8")
        name = page.name.removesuffix(".md")
        said = re.search(r"^Sources?: (.+)$", text, re.MULTILINE)
        sources = tuple(re.findall(r"`([^`]+)`", said[1])) if said else ()
        rows = [row for row in switches if row["source"] in sources]
        yield Agent(
            name,
            text.partition("\n")[0].removeprefix("# "),
            sources,
            _fenced(name) if name in PASTED else _section(text),
            tuple(each for row in rows for each in row["untold"]),
            connects=any("connect" in row for row in rows),
        )


def _pages() -> Iterator[Traversable]:
    """The pages in docs/agents; a wheel has them beside the tables."""
    packed = resources.files("schemas").joinpath("agents")
    folder = packed if packed.is_dir() else Path(__file__).parents[2] / "docs/agents"
    return (page for page in folder.iterdir() if page.name.endswith(".md") and page.name != "README.md")


def _section(text: str) -> str:
    """What a page says to paste; its links lead to files that no browser has, so that only their words stay."""
    section = text.partition("## Point it at Misstep\n")[2].partition("\n## ")[0].strip()
    return re.sub(r"\[([^\]\n]+)\]\([^)\s]+\.md[^)\s]*\)", r"\1", section)


def _fenced(name: str) -> str:
    text, language = PASTED[name]
    return f"```{language}\n{text.format(http=USUAL)}\n```"
