"""`misstep demo --bulk N`: N made-up events of a month, computed inside the store, to try Misstep at a large size."""

from __future__ import annotations

import time

from collector.classify.classify import load_taxonomy
from collector.classify.template.fingerprint import fingerprint, template
from collector.columns import Row
from collector.commands.progress import progress
from collector.commands.rebuild import rebuilt
from collector.engine.duckdb.bulk import Cast, fill
from collector.engine.duckdb.store import Store

# ruff: noqa: E501 - a row of a table is a line

# The outcomes of eight consecutive events (ok, error, denied, cancelled), the number of each one's call (equal numbers
# are retries of one call), and the weight.
PATTERNS = (
    ("oooooooo", "01234567", 44),
    ("oooeoooo", "01233456", 12),
    ("ooooooeo", "01234566", 10),
    ("oooeoooo", "01234567", 6),
    ("oeeooooo", "01112345", 8),
    ("ooeeeooo", "01222234", 5),
    ("oeeeeeoo", "01111112", 3),
    ("oooooeee", "01234555", 3),
    ("eeeeeeee", "00112233", 1),
    ("oodooooo", "01123456", 4),
    ("ooooococ", "01234567", 4),
)

# service, version, next version, share of the month after which it is deployed, the tool that it makes worse, agent,
# model, provider, source, environment, weight
AGENTS = (
    ("shop-coder", "1.7.2", "1.8.0", 0.7, "apply_diff", "coder", "claude-sonnet-4-5", "anthropic", "claude-code", "production", 30),
    ("shop-coder", "1.7.2", "1.8.0", 0.7, "apply_diff", "coder", "claude-haiku-4-5", "anthropic", "claude-code", "staging", 12),
    ("support-desk", "3.1.0", "3.2.0", 0.4, "", "support", "gpt-5-mini", "openai", "gen-ai", "production", 20),
    ("nightly-review", "0.9.4", "0.9.5", 0.9, "", "reviewer", "gemini-2.5-pro", "gcp.gemini", "gen-ai", "production", 12),
    ("data-team", "2026.9", "2026.10", 0.5, "", "analyst", "gpt-5", "openai", "openinference", "production", 14),
    ("terminal", "0.169.0", "0.170.0", 0.6, "", "codex", "gpt-5-codex", "openai", "codex", "laptop", 8),
    ("kode", "2.4.0", "2.5.0", 0.3, "", "kode", "claude-sonnet-4-5", "anthropic", "kode-sdk", "laptop", 4),
)  # fmt: skip

# name, kind, MCP server, target ({a}, {b}: numbers), median milliseconds, weight
TOOLS = (
    ("read_file", "file", None, "~/shop/src/part{a}/file{b}.py", 20.0, 30),
    ("apply_diff", "file", None, "~/shop/src/part{a}/file{b}.py", 60.0, 20),
    ("execute_command", "command", None, "pytest -q tests/part{a}", 2500.0, 22),
    ("search_files", "file", None, "~/shop/src/part{a}", 110.0, 12),
    ("browser_action", "browser", None, "http://localhost:3000/cart/{a}", 900.0, 5),
    ("get_ticket", "mcp", "tickets", None, 240.0, 6),
    ("run_query", "function", None, None, 700.0, 5),
)

# tool (*model, *storm, *denied: of no particular tool), class, message, reported class, status, weight
FAILURES = (
    ("read_file", "FileNotFoundError", "File {target} does not exist", "ENOENT", None, 70),
    ("read_file", "PermissionDeniedError", "EACCES: permission denied, open '{target}'", None, None, 12),
    ("read_file", "NotAFileError", "{target} is a directory", None, None, 18),
    ("apply_diff", "DiffApplyFailedError", "No sufficiently similar match found at line {n} of {target}", "diff_error", None, 55),
    ("apply_diff", "ContentNotFoundError", "String to replace not found in {target}", None, None, 25),
    ("apply_diff", "MissingParameterError", "Missing value for required parameter 'diff'", None, None, 12),
    ("apply_diff", "NoChangeError", "Old and new text are equal", None, None, 8),
    ("execute_command", "CommandFailedError", "Command failed with exit code 1: {target}", None, 1, 70),
    ("execute_command", "CommandTimeoutError", "Command timed out after {n} ms", None, None, 20),
    ("execute_command", "CommandNotFoundError", "/bin/sh: pytest: command not found", None, 127, 10),
    ("search_files", "InvalidParameterError", "regex parse error at position {n}: unclosed group", None, None, 60),
    ("search_files", "ToolTimeoutError", "search in {target} took longer than {n} s", None, None, 40),
    ("browser_action", "BrowserActionError", "Timeout {n}ms exceeded while waiting for locator('#pay')", None, None, 100),
    ("get_ticket", "McpToolError", "ticket {n} is archived", "mcp_error", None, 60),
    ("get_ticket", "McpConnectionError", "connection to tickets closed", None, None, 40),
    ("run_query", "ToolExecutionError", "syntax error at or near line {n}", "ProgrammingError", None, 65),
    ("run_query", "UnknownError", "something went wrong ({n})", "Error", None, 35),
    ("*model", "ServerError", "upstream connect error or disconnect/reset before headers", None, 503, 45),
    ("*model", "TimeoutError", "request timed out after {n} ms", None, None, 30),
    ("*model", "ContextOverflowError", "prompt is too long: {n} tokens", None, 400, 25),
    ("*storm", "RateLimitError", "rate limit reached, try again in 2 s", "rate_limit_error", 429, 100),
    ("*denied", "ToolPermissionError", "the user does not want to run this tool", None, None, 100),
)  # fmt: skip


def bulk(url: str, events: int, seed: int, now_ns: int | None = None) -> int:
    """Adds `events` events of the last 30 days to a store that no collector has open; returns how many."""
    store = Store.open(url)
    try:
        with progress("demo", events) as advance:
            for done in fill(store, events, seed, time.time_ns() if now_ns is None else now_ns, _cast()):
                advance(done)
        rebuilt(store)
    finally:
        store.close()
    return events


def _cast() -> Cast:
    patterns = [{"outcomes": row[0], "calls": row[1]} for row in PATTERNS for _ in range(row[2])]
    tools = [
        dict(zip(("tool", "tool_kind", "mcp_server", "targets", "milliseconds"), row, strict=False))
        for row in TOOLS
        for _ in range(row[5])
    ]
    names = ("service", "version", "later_version", "deployed", "worse", "agent", "model", "provider", "source",
             "environment")  # fmt: skip
    low, agents = 0, []
    for row in AGENTS:
        agents.append(dict(zip(names, row, strict=False)) | {"low": low, "high": low + row[10]})
        low += row[10]
    return Cast(patterns, agents, tools, _failures())


def _failures() -> list[Row]:
    taxonomy = load_taxonomy()
    rows: list[Row] = []
    low = 0
    for tool, name, message, reported, status, weight in FAILURES:
        low = 0 if not rows or rows[-1]["tool"] != tool else low
        meant = taxonomy.defaults(name, "")
        group = template(message.replace("{target}", "~/shop/src/part1/file1.py").replace("{n}", "17"))
        rows.append(
            {
                "tool": tool, "low": low, "high": low + weight, "domain": meant.domain, "category": meant.category,
                "error_class": name, "reported_class": reported,
                "classified_by": "status" if status else "alias" if reported else "message",
                "severity": meant.severity, "attribution": meant.attribution, "recovery": meant.recovery,
                "mistake": meant.mistake, "retryable": meant.retryable, "fatal": meant.fatal, "status_code": status,
                "message": message, "suggestion": meant.advice_model, "template": group,
                "fingerprint": fingerprint(name, "" if tool.startswith("*") else tool, group),
            }
        )  # fmt: skip
        low += weight
    return rows
