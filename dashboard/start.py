"""Shown while the collector has received nothing yet: how to connect each agent, as text to copy."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import streamlit as st

CLAUDE_CODE = """\
export CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_METRICS_EXPORTER=otlp
export OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_EXPORTER_OTLP_ENDPOINT={http}
export OTEL_LOG_TOOL_DETAILS=1   # error texts and parameters
claude"""

CODEX = """\
# ~/.codex/config.toml (the address is used as it is written, so it needs its path)
[otel]
exporter = {{ otlp-http = {{ endpoint = "{http}/v1/logs", protocol = "json" }} }}
trace_exporter = {{ otlp-http = {{ endpoint = "{http}/v1/traces", protocol = "json" }} }}
metrics_exporter = {{ otlp-http = {{ endpoint = "{http}/v1/metrics", protocol = "json" }} }}"""

GEMINI = """\
export GEMINI_TELEMETRY_ENABLED=true GEMINI_TELEMETRY_TARGET=local
export GEMINI_TELEMETRY_OTLP_PROTOCOL=http GEMINI_TELEMETRY_OTLP_ENDPOINT={http}
gemini"""

QWEN = """\
# ~/.qwen/settings.json
{{"telemetry": {{"enabled": true, "target": "local", "otlpProtocol": "http", "otlpEndpoint": "{http}"}}}}"""

OPENCODE = """\
export OTEL_EXPORTER_OTLP_ENDPOINT={http}
# and for the arguments and results of tools, in opencode.json:
#   {{"experimental": {{"openTelemetry": true}}}}
opencode"""

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

AGENTS: Mapping[str, tuple[str, str]] = {
    "Claude Code": (CLAUDE_CODE, "bash"),
    "Codex": (CODEX, "toml"),
    "Gemini CLI": (GEMINI, "bash"),
    "Qwen Code": (QWEN, "json"),
    "OpenCode": (OPENCODE, "bash"),
    "Python": (PYTHON, "python"),
    "curl": (CURL, "bash"),
}


def address(environ: Mapping[str, str] = os.environ) -> str:
    """The collector's address for agents, which may differ from the dashboard's, such as between containers."""
    told = environ.get("MISSTEP_OTLP_URL") or environ.get("MISSTEP_COLLECTOR_URL") or "http://127.0.0.1:4318"
    return told.rstrip("/")


def demo(environ: Mapping[str, str] = os.environ) -> str:
    """The command that sends the traffic of some agents to the collector, for any shell of this machine."""
    command = Path(sys.executable).with_name("misstep")
    found = "misstep" if not command.exists() or shutil.which("misstep") == str(command) else shlex.quote(str(command))
    return f"{found} demo --to {address(environ)}"


def show() -> None:
    """The empty state of the Overview."""
    st.subheader("Nothing received yet. Point an agent here:", anchor=False)
    for tab, (text, language) in zip(st.tabs(list(AGENTS)), AGENTS.values(), strict=True):
        tab.code(text.format(http=address()), language=language, wrap_lines=True)
    st.caption("This page notices the first event by itself.")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("No agent at hand?", width="content")
        st.code(demo(), language="bash", width="content")
