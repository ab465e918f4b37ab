"""Keys of a call other than its ids, by which reports without a common id are recognised as one call."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from functools import cache
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from collector.report import Report
from collector.tables import load_toml, schemas

Key = tuple[str, ...]

COUNT = re.compile(r"[_:][0-9]{1,3}\Z")
WORDS = re.compile(
    r"(?i)(?<![a-z])(?:chatcmpl|functions?|tools?|toolu|tooluse|calls?|fc|id|step|turn|run|request|req|msg|message)(?![a-z])"
)
RUNS = re.compile(r"[A-Za-z]+|[0-9]+")
UNIQUE, LIKELY = 2, 1


def key64(*parts: str) -> int:
    """A 64-bit key, the same in every process."""
    return xxh3_64_intdigest("\x1f".join(parts).encode("utf-8", "replace"))


def family(source: str, service: str) -> str:
    """Who numbers calls: an agent whose transcripts are read, whatever service its front ends call themselves, or else
    the service.
    """
    return source if source in transcribed() else service


@cache
def transcribed() -> frozenset[str]:
    """The agents whose transcripts are read, as sources."""
    tables = (load_toml(path) for path in (schemas() / "transcripts").iterdir() if path.name.endswith(".toml"))
    return frozenset(table.get("telemetry", table["id"]) for table in tables)


def identify(rules: Collection[str], report: Report, *, own: bool) -> None:
    """Adds `_keys`, `_refs` and `_site` to the report by the row's `keys`. `own`: the span id is that of the call."""
    keys: list[Key] = []
    trace, parent = report.get("trace_id"), report.get("parent_span_id")
    if rules and trace:
        # What is called: a tool, or a model.
        name = bare_tool(report.get("tool", "")) if report["operation"] == "tool" else report["operation"]
        if "parent" in rules and parent:
            keys.append(("call of", trace, parent, name) if name == "model" else ("span", trace, parent))
        if "span+tool" in rules and own and name:
            keys.append(("call of", trace, report["span_id"], name))
        if "parent+tool" in rules and parent and name:
            keys.append(("call of", trace, parent, name))
        if "parent+tool+params" in rules and parent and name and "params" in report:
            keys.append(site_key(site(trace, parent, name), params_mark(report["params"])))
        if "site" in rules and "call_id" in report and parent:
            report["_site"] = [site(trace, parent, name), params_mark(report["params"]) if "params" in report else ""]
        if "parent?tool" in rules and parent and name:
            report["_refs"] = [("call of", trace, parent, name)]
        if "only call" in rules and own:
            keys.append(only_call(trace, report["span_id"]))
        if "hand-off" in rules and parent:
            keys.append(hand_off(trace, parent))
    if keys:
        report["_keys"] = keys


def only_call(trace: str, span: str) -> Key:
    """The key of the only call that a model asked for in this span."""
    return ("only call", trace, span)


def hand_off(trace: str, parent: str) -> Key:
    """The key of the one hand-off to another agent that can happen below this span."""
    return ("hand-off", trace, parent)


def site(trace: str, parent: str, name: str) -> str:
    """The place of a call: trace, parent span and tool, as 16 hex digits."""
    return f"{key64(trace, parent, name):016x}"


def site_key(place: str, mark: str) -> Key:
    """The key of a call without an id: its site, and the mark of its arguments.

    Gemini CLI's log of a call has no id, its span has id and site, the next model request has id and arguments. So
    each report with an id contributes its half as `_site`, and the correlator finds the log by both.
    """
    return "call at", place, mark


def bare_tool(tool: str) -> str:
    """The tool's own name, without the MCP server's name in front (`mcp__files__read`, `files.read`, `files/read`)."""
    for mark in ("__", "/", ":", "."):
        tool = tool.rpartition(mark)[2] or tool
    return tool


def bare_id(call_id: str, tool: str) -> str:
    """The call id without the tool's name that Gemini CLI puts in front (`read_file__call_1`)."""
    start = f"{tool}__"
    return call_id[len(start) :] if tool and call_id.startswith(start) and len(call_id) > len(start) else call_id


def is_name(call_id: str, tool: str) -> bool:
    """Whether the id is only the tool's name, which every call of the tool has (Ollama in Strands and LlamaIndex). One
    with a number, such as Kimi's `functions.read:0`, may be of one call alone.
    """
    return tool != "" and call_id.removeprefix("functions.") == tool


def uniqueness(call_id: str, tool: str) -> int:
    """How sure a call id is of one call alone, wherever it is told: UNIQUE, LIKELY in one service, or 0 for a counter
    (`call_1`, `functions.read:0`) or the tool's name.
    """
    own = call_id.replace(tool, "") if tool else call_id
    runs = RUNS.findall(WORDS.sub("", own)) if len(own) <= 200 else ["long"] * 5
    letters, digits = (sum(len(run) for run in runs if run.isdigit() is kind) for kind in (False, True))
    if digits >= 16 or max(map(len, re.findall(r"[A-Za-z0-9]+", own)), default=0) >= 20:
        return UNIQUE
    if letters >= 2 and digits >= 1 and letters + digits >= 8 and len(runs) >= 3:
        return UNIQUE
    return LIKELY if digits >= 8 or (letters and digits >= 3 and len(runs) >= 3) else 0


def call_key(service: str, call_id: str, tool: str) -> Key | None:
    """The key of a call in whatever trace it is told, if its id is unique."""
    return ("call anywhere", service, call_id) if uniqueness(call_id, tool) == UNIQUE else None


def counted_tools(call_id: str) -> tuple[str, str]:
    """The tools whose name the id may be, with a number or without."""
    name = call_id.removeprefix("functions.")
    return name, COUNT.sub("", name)


def params_mark(params: Any) -> str:
    """A 16-bit hash of the canonical arguments: enough to distinguish parallel calls of one turn, too little to reveal
    the arguments.
    """
    return hashlib.blake2b(canonical(params), digest_size=2).hexdigest()


def canonical(value: Any) -> bytes:
    """One byte string for equal values, whatever the order of their keys."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value).encode("utf-8", "replace")
