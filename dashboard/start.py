"""Shown while the collector has received nothing yet: how to connect each agent, as text to copy."""

import os
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import streamlit as st

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

# What to paste, in which language, and the agent's source in schemas/switches.toml.
AGENTS: Mapping[str, tuple[str, str, str]] = {
    "Claude Code": (CLAUDE_CODE, "bash", "claude-code"),
    "Codex": (CODEX, "toml", "codex"),
    "Gemini CLI": (GEMINI, "bash", "gemini-cli"),
    "Qwen Code": (QWEN, "json", "qwen-code"),
    "OpenCode": (OPENCODE, "bash", "opencode"),
    "Copilot CLI": (COPILOT, "bash", "copilot"),
    "Python": (PYTHON, "python", "gen-ai"),
    "curl": (CURL, "bash", ""),
}


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


def agents() -> Mapping[str, Mapping[str, Any]]:
    """The agents of `schemas/switches.toml` by their source."""
    table = tomllib.loads(resources.files("schemas").joinpath("switches.toml").read_text(encoding="utf-8"))
    return {row["source"]: row for row in table["agents"]}


def untold(agent: Mapping[str, Any]) -> str:
    """What an agent does not tell by default, and what would tell it at which price, as a list in Markdown."""
    lines = [f"Not told unless you set it (`docs/agents/{agent['page']}.md`):"]
    for each in agent["untold"]:
        ways = each.get("switches", ())
        lines.append(f"- {each['what']}{':' if ways else ': no setting is known.'}")
        for number, one in enumerate(ways):
            price = f". It costs: {one['privacy']}" if one["privacy"] else ""
            lines.append(f"    - {'or ' if number else ''}`{one['setting']}`{price}.")
    return "\n".join(lines).replace(USUAL, address())


def show() -> None:
    """The empty state of the Overview."""
    st.subheader("Nothing received yet. Point an agent here:", anchor=False)
    known = agents()
    for tab, (text, language, source) in zip(st.tabs(list(AGENTS)), AGENTS.values(), strict=True):
        tab.code(text.format(http=address()), language=language, wrap_lines=True)
        if agent := known.get(source):
            if "connect" in agent:
                tab.caption("Or let this command set it, and show it first:")
                tab.code(connected(source), language="bash", wrap_lines=True)
            tab.caption(untold(agent))
    st.caption("This page notices the first event by itself.")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("No agent at hand?", width="content")
        st.code(demo(), language="bash", width="content")
