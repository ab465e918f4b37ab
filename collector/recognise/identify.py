"""Keys of a call other than its ids, by which reports without a common id are recognised as one call."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from collector.projects import within
from collector.report import Report
from collector.tables import schemas

Key = tuple[str, ...]

COUNT = re.compile(r"[_:][0-9]{1,3}\Z")
WORDS = re.compile(
    r"(?i)(?<![a-z])(?:chatcmpl|functions?|tools?|toolu|tooluse|calls?|fc|id|step|turn|run|request|req|msg|message)(?![a-z])"
)
RUNS = re.compile(r"[A-Za-z]+|[0-9]+")
LONG_RUN = re.compile(r"[A-Za-z0-9]{20}")
LONGEST_ID = 200  # of those that are read
MARKED = frozenset(("parent+tool+params", "site"))  # rules for which arguments count
UNIQUE, LIKELY = 2, 1


def key64(*parts: str) -> int:
    """A 64-bit key, the same in every process."""
    told = "\x1f".join(parts)
    try:
        return xxh3_64_intdigest(told.encode())
    except UnicodeEncodeError:
        return xxh3_64_intdigest(told.encode("utf-8", "replace"))


def family(source: str, service: str) -> str:
    """Who numbers calls: an agent whose transcripts are read, whatever service its front ends call themselves, or else
    the service.
    """
    return source if source in transcribed() else service


@cache
def transcribed() -> frozenset[str]:
    """The agents whose transcripts are read, as sources."""
    paths = (path for path in (schemas() / "transcripts").iterdir() if path.name.endswith(".toml"))
    heads = (tomllib.loads(path.read_text(encoding="utf-8").partition("\n[")[0]) for path in paths)  # not the whole
    return frozenset(head.get("telemetry", head["id"]) for head in heads)


def identify(rules: Collection[str], report: Report, *, own: bool) -> None:
    """Adds `_keys`, `_refs` and `_site` to the report by the row's `keys`. `own`: the span id is that of the call."""
    trace = report.get("trace_id")
    if not rules or not trace:
        return
    # What is called: a tool, or a model.
    name = bare_tool(report.get("tool", "")) if report["operation"] == "tool" else report["operation"]
    marked = "params" in report and not MARKED.isdisjoint(rules)
    mark = params_mark(report["params"]) if marked else ""
    at = At(trace, report.get("parent_span_id"), report["span_id"] if own else None, name, mark)
    if keys := [key for rule, key_at in KEYS.items() if rule in rules and (key := key_at(at))]:
        report["_keys"] = keys
    if at.parent:
        _refer(rules, report, at.parent, at)


def _refer(rules: Collection[str], report: Report, parent: str, at: At) -> None:
    if "site" in rules and "call_id" in report:
        report["_site"] = [site(at.trace, parent, at.name), at.mark]
    if "parent?tool" in rules and at.name:
        report["_refs"] = [("call of", at.trace, parent, at.name)]


class At(NamedTuple):
    """Where a call is: its trace, the spans around and of it, what is called, and the mark of its arguments."""

    trace: str
    parent: str | None
    span: str | None
    name: str
    mark: str


def _in_parent(at: At) -> Key | None:
    if not at.parent:
        return None
    return ("call of", at.trace, at.parent, at.name) if at.name == "model" else ("span", at.trace, at.parent)


def _call_of(at: At, span: str | None) -> Key | None:
    return ("call of", at.trace, span, at.name) if span and at.name else None


def _call_at(at: At) -> Key | None:
    return site_key(site(at.trace, at.parent, at.name), at.mark) if at.parent and at.name and at.mark else None


# The key that each rule of a row gives.
KEYS: Mapping[str, Callable[[At], Key | None]] = {
    "parent": _in_parent,
    "span+tool": lambda at: _call_of(at, at.span),
    "parent+tool": lambda at: _call_of(at, at.parent),
    "parent+tool+params": _call_at,
    "only call": lambda at: only_call(at.trace, at.span) if at.span else None,
    "hand-off": lambda at: hand_off(at.trace, at.parent) if at.parent else None,
}


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
    if not tool or "__" not in call_id:
        return call_id
    start = f"{tool}__"
    return call_id[len(start) :] if call_id.startswith(start) and len(call_id) > len(start) else call_id


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
    if LONG_RUN.search(own):
        return UNIQUE
    if len(own) > LONGEST_ID:
        return 0
    runs = RUNS.findall(WORDS.sub("", own))
    digits = sum(len(run) for run in runs if run.isdigit())
    letters = sum(map(len, runs)) - digits
    least, most = sorted((letters, digits))
    mixed = len(runs) >= 3 and least > 0
    if digits >= 16 or (mixed and letters >= 2 and least + most >= 8):
        return UNIQUE
    return LIKELY if digits >= 8 or (mixed and digits >= 3) else 0


def whose(report: Report, kind: str = "") -> Key:
    """The beginning of a key that is made of what a sender chooses: its kind within the project, and the service."""
    return within(report.get("project"), kind), report.get("service") or ""


def call_key(told_by: Report, call_id: str, tool: str) -> Key | None:
    """The key of a call in whatever trace of one sender it is told, if its id is unique."""
    return (*whose(told_by, "call anywhere"), call_id) if uniqueness(call_id, tool) == UNIQUE else None


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
