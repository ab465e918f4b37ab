"""Validates the table of a source: reports every mistake by row and field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from collector.columns import COLUMNS
from collector.table_checks import (
    ANY,
    BOOL,
    INT,
    ROWS,
    TABLE,
    TEXT,
    TEXTS,
    TWINS,
    holds,
    missing_fields,
    wrong_fields,
    wrong_words,
)

OPERATIONS = ("tool", "model", "agent", "link", "drop")
ABOVE_CALLS = ("model", "agent")  # operations whose output is what a model said
OUTCOMES = ("ok", "error", "cancelled", "denied", "unknown")
SIGNALS = ("log", "span", "event", "moment")
POLICIES = ("create", "refused", "amend")
MARKS = ("session", "parameters", "outcome", "order", "class", "model", "retryable", "successes")
KEY_RULES = ("parent", "parent+tool+params", "parent+tool", "parent?tool", "only call", "hand-off", "span+tool", "site")
EVIDENCE_LISTS = ("flags", "failed", "says", "decisions", "errors", "exits", "statuses", "outputs", "schemas")
EVIDENCE_SWITCHES = ("status", "exceptions", "silence", "worded")
EVIDENCE_PATTERNS = ("exit_header", "error_output", "denied_output", "cancelled_output", "preamble")
EVIDENCE_GLOBS = ("denied", "cancelled", "wrappers")

TABLE_FIELDS = {
    "id": TEXT,
    "title": TEXT,
    "order": INT,
    "reports_ok": BOOL,
    "counter": TEXTS,
    "extends": TEXTS,
    "prefixes": TEXTS,
    "told": TEXT,
    "asks": TEXTS,
    "ai_sdk": BOOL,
    "vocabulary": BOOL,
    "match": TABLE,
    "coverage": TABLE,
    "fields": TABLE,
    "outcome": TABLE,
    "content": TEXTS,
    "noise": TEXTS,
    "records": ROWS,
}
MATCH_FIELDS = {
    "service": TEXTS,
    "within": TEXTS,
    "scope": TEXTS,
    "version": TEXTS,
    "events": TEXTS,
    "attributes": TEXTS,
    "routes": TEXTS,
}
ROW_FIELDS = {
    "signal": ANY,
    "name": ANY,
    "where": TABLE,
    "operation": TEXT,
    "drop": TEXT,
    "rank": INT,
    "outcome": TEXT,
    "lends": BOOL,
    "sure": BOOL,
    "told": TEXTS,
    "asked": TEXTS,
    "switch": TABLE,
    "told_policy": TEXT,
    "as": TEXT,
    "keys": TEXTS,
    "twin": TWINS,
    "fields": TABLE,
    "evidence": TABLE,
    "examples": TEXTS,
    "counter_examples": TEXTS,
}
EXAMPLE_FIELDS = {
    "name": TEXT,
    "attributes": TABLE,
    "body": ANY,
    "status": INT,
    "status_message": TEXT,
    "kind": INT,
    "events": ROWS,
    "resource": TABLE,
    "scope": TEXT,
    "scope_version": TEXT,
    "trace_id": TEXT,
    "span_id": TEXT,
    "parent_span_id": TEXT,
    "trace_state": TEXT,
    "time_ns": INT,
    "start_ns": INT,
    "severity": INT,
}
ONE_OF = {"as": ("log",), "outcome": OUTCOMES, "told_policy": POLICIES}
COLUMNS_WITH_KEYS = COLUMNS.keys() - {
    "received_ns",
    "event_id",
    "source",
    "source_signal",
    "project",
    "session_source",
    "operation",
    "outcome",
    "domain",
    "category",
    "error_class",
    "classified_by",
    "attribution",
    "recovery",
    "retryable",
    "fingerprint",
    "template",
    "params_hash",
    "model_from",
    "asked",
    "asked_by",
    "redactions",
    "attributes",
}


def mistakes_in(table: Mapping[str, Any], name: str) -> list[str]:
    """Every mistake in the table of the file `name`.toml; a table without any can be compiled."""
    return list(_table(table, name))


def _table(table: Mapping[str, Any], name: str) -> Iterator[str]:
    wrong = list(wrong_fields(table, TABLE_FIELDS, ""))
    yield from wrong
    yield from missing_fields(table, ("id", "title"), "")
    if table.get("id", name) != name:
        yield f"id: {table['id']!r} must be the file's name, {name!r}"
    yield from wrong_words([table.get("told", "amend")], POLICIES, "told")
    if wrong:
        return
    yield from wrong_fields(table.get("match", {}), MATCH_FIELDS, "match: ")
    yield from wrong_words(table.get("coverage", {}), MARKS, "coverage")
    for mark, value in table.get("coverage", {}).items():
        if not isinstance(value, (bool, str)):
            yield f"coverage: {mark}: must be true, false or the setting that turns it on, not {value!r}"
    yield from _columns(table.get("fields", {}), "fields: ")
    yield from _evidence(table.get("outcome", {}), "outcome: ")
    for number, row in enumerate(table.get("records", ()), 1):
        yield from _row(row, f"records {number} ({row.get('name', row.get('where', ''))}): ")


def _columns(fields: Mapping[str, Any], place: str) -> Iterator[str]:
    for column, keys in fields.items():
        if column not in COLUMNS_WITH_KEYS:
            columns = ", ".join(sorted(COLUMNS_WITH_KEYS))
            yield f"{place}{column}: is not a column that a table can fill; those are {columns}"
        elif not isinstance(keys, str) and not holds(keys, TEXTS):
            yield f"{place}{column}: must be a key or a list of keys, not {keys!r}"


def _evidence(evidence: Mapping[str, Any], place: str) -> Iterator[str]:
    for name, value in evidence.items():
        if name in EVIDENCE_SWITCHES:
            if not isinstance(value, bool):
                yield f"{place}{name}: must be true or false, not {value!r}"
        elif name not in (*EVIDENCE_LISTS, "shapes", *EVIDENCE_PATTERNS, *EVIDENCE_GLOBS):
            yield (
                f"{place}{name}: is not a kind of evidence; those are "
                + ", ".join((*EVIDENCE_SWITCHES, "shapes", *EVIDENCE_LISTS, *EVIDENCE_PATTERNS, *EVIDENCE_GLOBS))
            )
        elif value is not False and not holds(value, TEXTS):
            yield f"{place}{name}: must be a list of texts, not {value!r}"
        elif name in EVIDENCE_PATTERNS and value:
            yield from (
                f"{place}{name}: {one!r} is not a valid pattern: {why}"
                for one in value
                if (why := _pattern_mistake(name, one))
            )


def _pattern_mistake(name: str, text: str) -> str:
    try:
        groups = re.compile(text, re.MULTILINE).groups
    except re.error as error:
        return str(error)
    return "it needs one group, the exit code" if name == "exit_header" and groups != 1 else ""


def _row(row: Mapping[str, Any], place: str) -> Iterator[str]:
    if wrong := list(wrong_fields(row, ROW_FIELDS, place)):
        yield from wrong
        return
    yield from _signals_and_names(row, place)
    operation = row.get("operation")
    if "as" not in row:
        yield from wrong_words([operation], OPERATIONS, f"{place}operation")
    for field, allowed in ONE_OF.items():
        if field in row:
            yield from wrong_words([row[field]], allowed, f"{place}{field}")
    yield from wrong_words(row.get("keys", ()), KEY_RULES, f"{place}keys")
    yield from _columns(row.get("fields", {}), f"{place}fields: ")
    yield from _evidence(row.get("evidence", {}), f"{place}evidence: ")
    if operation in ABOVE_CALLS and "outputs" in row.get("evidence", {}):
        yield f"{place}evidence: outputs: is only for rows of operation tool; what a model says is not stored"
    yield from _examples(row, place, needed=operation in ("tool", *ABOVE_CALLS))


def _signals_and_names(row: Mapping[str, Any], place: str) -> Iterator[str]:
    signals, names = row.get("signal"), row.get("name", [])
    known = set([signals] if isinstance(signals, str) else signals or ()) <= set(SIGNALS)
    if not signals or not known:
        yield f"{place}signal: must be one or several of {', '.join(SIGNALS)}, not {signals!r}"
    if not _is_text_or_texts(names):
        yield f"{place}name: must be a name or a list of names, not {names!r}"
    for key, value in row.get("where", {}).items():
        if not isinstance(value, bool) and not _is_text_or_texts(value):
            yield f"{place}where: {key}: must be true, false, a text or a list of texts, not {value!r}"


def _is_text_or_texts(value: Any) -> bool:
    return isinstance(value, str) or holds(value, TEXTS)


def _examples(row: Mapping[str, Any], place: str, *, needed: bool) -> Iterator[str]:
    if needed and not row.get("examples"):
        yield f"{place}examples: is missing; a row that makes reports needs at least one"
    for field in ("examples", "counter_examples"):
        for text in row.get(field, ()):
            record, _, columns = text.partition(" => ")
            yield from _example(record, f"{place}{field}: ", EXAMPLE_FIELDS)
            yield from _example(columns or "{}", f"{place}{field}: ", dict.fromkeys(COLUMNS, ANY))


def _example(text: str, place: str, allowed: Mapping[str, str]) -> Iterator[str]:
    try:
        given = json.loads(text)
    except ValueError as error:
        yield f"{place}{text[:60]!r} is not JSON: {error}"
        return
    if isinstance(given, dict):
        yield from wrong_fields(given, allowed, place)
    else:
        yield f"{place}{text[:60]!r} must be a JSON object"
