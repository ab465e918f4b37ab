"""Reports of calls that `misstep import` read from an agent's own files: read and settled there, bounded, and sent as
plain JSON with `"source": "transcript"` (docs/transcripts.md).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from collector.columns import COLUMNS
from collector.decode.record import Record
from collector.projects import within
from collector.report import STRENGTHS, Rank, Report, as_report

SCOPE = "transcript"  # the value of `source`


# Their logs have no call id: a log of the same tool in the session, within two seconds, is of the same call.
BESIDE_LOGS = ("gemini-cli",)


class Told(msgspec.Struct):
    """What may be sent of a call; other fields are not looked at."""

    agent_id: str
    operation: str
    outcome: str
    strength: int
    same: list[str]  # what tells it from other calls, besides session and id
    session: str | None = None
    subagent: str | None = None
    agent: str | None = None
    turn: str | None = None
    call_id: str | None = None
    tool: str | None = None
    tool_kind: str | None = None
    mcp_server: str | None = None
    target: str | None = None
    phase: str | None = None
    model: str | None = None
    provider: str | None = None
    reported_class: str | None = None
    service: str | None = None
    service_version: str | None = None
    repository: str | None = None
    retryable_declared: bool | None = None
    attempt: int | None = None
    retry_after_ms: int | None = None
    status_code: int | None = None
    duration_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    message: str | None = None
    text: str | None = None
    shape: list[str] | None = None
    params: Any = None
    params_digest: str | None = None
    more: dict[str, str | int | float | bool] | None = None  # attributes; under that name they would be fields of it


OF_COLUMNS = tuple(name for name in Told.__struct_fields__ if name in COLUMNS)


def report_of(record: Record, known: Collection[str], project: str | None = None) -> Report | None:
    """The report of one call; None if the record is not in this form, or of an agent that is not `known`."""
    try:
        told = msgspec.convert(record.attributes, Told)
    except msgspec.ValidationError:
        return None
    if told.agent_id not in known or told.outcome not in STRENGTHS or told.operation not in ("tool", "model", "agent"):
        return None
    report = as_report({name: value for name in OF_COLUMNS if (value := getattr(told, name)) is not None})
    report["source"], report["source_signal"], report["provenance"] = told.agent_id, "event", "transcript"
    report["time_ns"] = record.time_ns
    report["_rank"] = Rank.TRANSCRIPT
    report["_strength"] = max(0, min(told.strength, STRENGTHS[told.outcome]))
    report["_keys"] = [(within(project, "transcript"), told.agent_id, told.operation, one) for one in told.same[:4]]
    if project:
        report["project"] = project
    if told.more:
        report["attributes"] = told.more
    if told.session is not None:
        report["session_source"] = "record"
        if told.operation == "tool" and told.agent_id in BESIDE_LOGS:
            report["_twin"] = ["transcript", "session", "tool"]
    if told.params_digest is not None:
        report["_digest"] = told.params_digest
    if told.outcome not in ("ok", "unknown"):
        if told.text:
            report["_text"] = told.text
        if told.shape:
            report["_shape"] = tuple(told.shape[:8])
    else:
        report.pop("message", None)
    return report
