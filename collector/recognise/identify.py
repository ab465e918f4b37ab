"""Identities of a call beside its ids: how reports without a common id are still known to be of one call."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

Report = dict[str, Any]
Key = tuple[str, ...]


def identify(rules: Collection[str], report: Report, sites: Sites, *, own: bool) -> None:
    """Adds `_keys` and `_refs` to the report, as a row's `keys` ask; `own` says that the span id is the call's."""
    keys: list[Key] = []
    trace, parent = report.get("trace_id"), report.get("parent_span_id")
    if rules and trace:
        # what the call is of: a tool, or a model
        name = bare_tool(report.get("tool", "")) if report["operation"] == "tool" else report["operation"]
        if "parent" in rules and parent:
            keys.append(("span", trace, parent))
        if "span+tool" in rules and own and name:
            keys.append(("call of", trace, report["span_id"], name))
        if "parent+tool" in rules and parent and name:
            keys.append(("call of", trace, parent, name))
        if "parent+tool+params" in rules and parent and name and "params" in report:
            keys.append(("call at", trace, parent, name, params_mark(report["params"])))
        if "site" in rules and "call_id" in report and parent and (key := sites.key(report, (trace, parent, name))):
            keys.append(key)
        if "parent?tool" in rules and parent and name:
            report["_refs"] = [("call of", trace, parent, name)]
    if keys:
        report["_keys"] = keys


class Sites:
    """Where calls with an id stand in their trace, and what arguments they had.

    Gemini CLI's log of a call has no id, its span has id and site, the next model request has id and arguments: the log
    is found by site and arguments. Remembers the newest calls, in two generations; what a restart forgets stays apart.
    """

    def __init__(self, size: int = 20_000) -> None:
        self._size = size
        self._young: dict[Key, tuple[Key, str]] = {}
        self._old: dict[Key, tuple[Key, str]] = {}

    def key(self, report: Report, site: Key = ()) -> Key:
        """The key of a log record of this call, () as long as site or arguments are not known."""
        call = (report.get("service", ""), report.get("session", ""), report["call_id"])
        known_site, known_mark = self._young.get(call) or self._old.get(call) or ((), "")
        site, mark = site or known_site, params_mark(report["params"]) if "params" in report else known_mark
        self._young[call] = site, mark
        if len(self._young) > self._size:
            self._old, self._young = self._young, {}
        return ("call at", *site, mark) if site and mark else ()


def bare_tool(tool: str) -> str:
    """The tool's own name, without the MCP server's before it (`mcp__files__read`, `files.read`, `files/read`)."""
    for mark in ("__", "/", ":", "."):
        tool = tool.rpartition(mark)[2] or tool
    return tool


def bare_id(call_id: str, tool: str) -> str:
    """The call id without the tool's name that Gemini CLI puts before it (`read_file__call_1`)."""
    start = f"{tool}__"
    return call_id[len(start) :] if tool and call_id.startswith(start) and len(call_id) > len(start) else call_id


def params_mark(params: Any) -> str:
    """16 bits over the canonical arguments: they tell the parallel calls of one turn apart, and tell nobody what they
    were.
    """
    return hashlib.blake2b(canonical(params), digest_size=2).hexdigest()


def canonical(value: Any) -> bytes:
    """One byte string for equal values, whatever the order of their keys."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value).encode("utf-8", "replace")
