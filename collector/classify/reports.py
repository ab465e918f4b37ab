"""Adds to reports of failures their class, and what follows from it."""

from __future__ import annotations

from collector.classify.classify import Evidence, Taxonomy
from collector.classify.target import command_in
from collector.report import Report


def add_class(taxonomy: Taxonomy, report: Report) -> None:
    """Adds the class and what follows from it; for cancelled and denied calls only if there is evidence for one."""
    outcome, mistake = report.get("outcome"), report.pop("mistake", None)  # as its agent counts it
    if outcome in ("ok", "unknown", None):
        return
    evidence = _evidence(report)
    name, by = taxonomy.classify(evidence)
    if outcome != "error" and by == "none":
        return
    facts = taxonomy.defaults(name, evidence.source)
    if outcome == "cancelled" and facts.attribution == "model":
        return  # a stopped call may print anything: the model did nothing wrong
    if facts.category == "state":  # it concerns the agent: repetition, a limit reached
        report["operation"] = "agent"
    declared = report.get("retryable_declared")
    report.update(
        {"domain": facts.domain, "category": facts.category, "error_class": name, "classified_by": by,
         "attribution": facts.attribution, "recovery": facts.recovery,
         "mistake": (facts.mistake if mistake is None else mistake) and outcome == "error",
         "retryable": facts.retryable if declared is None else declared}
    )  # fmt: skip
    report.setdefault("severity", facts.severity)
    report.setdefault("fatal", facts.fatal)
    if facts.retry_after_ms is not None and outcome == "error":
        report.setdefault("retry_after_ms", facts.retry_after_ms)
    if facts.advice_model:
        report.setdefault("suggestion", facts.advice_model)


def _evidence(report: Report) -> Evidence:
    text = report.get("_text") or report.get("message")
    return Evidence(
        report.get("source", ""),
        report.get("operation", "tool"),
        report.get("tool_kind") if report["outcome"] == "error" else None,  # what usually fails in such a tool did not
        report.get("reported_class"),
        report.get("_shape") or (),
        report.get("status_code"),
        text,
        _ran(report, text),
    )


def _ran(report: Report, text: str | None) -> bool | None:
    """Whether a command ran: its exit code says so, or its arguments; a text, where these are not told."""
    if any(flag.startswith("exit") for flag in report.get("_shape") or ()):
        return True
    runs = command_in(report.get("params"))
    return True if runs is None and (text or " " in report.get("reported_class", "")) else runs
