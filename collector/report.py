"""The report: what one record says of one call. What the tables find in a record, what the pipeline makes of it, what
the journal keeps and the correlator folds with others into an event, is this one plain dict.

It has columns of an event (absent where nothing is said) and private keys, which begin with "_" and are never columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypedDict, cast

from collector.columns import Row


class Report(TypedDict, total=False):
    """The columns are those of `events` in schemas/events.sql, which says what they mean; users' dimensions
    (MISSTEP_DIMENSIONS) are beside them. A report has no `event_id`; the event that reports are folded into has.
    """

    time_ns: int
    received_ns: int
    event_id: int
    source: str
    source_signal: str
    service: str
    service_version: str
    service_instance: str
    environment: str
    project: str
    repository: str
    provenance: str
    agent: str
    model: str
    model_from: str
    asked_by: int
    provider: str
    session: str | None
    session_source: str | None
    subagent: str
    turn: str
    call_id: str
    asked: str
    purpose: str
    sequence: int
    trace_id: str
    span_id: str
    parent_span_id: str
    operation: str
    outcome: str
    tool: str
    tool_kind: str
    mcp_server: str
    target: str | None
    phase: str
    domain: str
    category: str
    error_class: str
    reported_class: str
    classified_by: str
    severity: str
    attribution: str
    recovery: str
    mistake: bool
    retryable: bool
    fatal: bool
    retryable_declared: bool
    attempt: int
    retry_after_ms: int
    status_code: int
    duration_ms: float
    input_tokens: int
    output_tokens: int
    cost_usd: float
    message: str
    stack: str
    suggestion: str
    fingerprint: int
    template: str
    params: Any  # of the agent; JSON text once it is sanitised
    params_hash: int
    redactions: int
    reported_streak: int
    attributes: Any  # as `params`
    report_rank: int
    outcome_strength: int
    target_guessed: bool

    _rank: int
    _strength: int
    _keys: list[Any]  # tuples of texts from `recognise`, hashes from `pipeline`
    _refs: list[Any]
    _lends: bool
    _twin: Sequence[Any]
    _site: Sequence[str]
    _text: str
    _shape: tuple[str, ...]
    _observed: int
    _digest: str


class Private(NamedTuple):
    """What a private key means, and which modules below `collector/` set and read it; the pipeline hashes and removes
    keys as the flags say, whatever their names.
    """

    meaning: str
    set_by: tuple[str, ...]
    read_by: tuple[str, ...]
    stored: bool = True  # with the report, if the event has several; of an event's only report, in `column`
    column: str = ""
    hashed: bool = False  # may contain a tool's name
    covered: bool = False  # a report with it may still add nothing to what a better one says (correlate/fold.py)


PRIVATE = {
    "_rank": Private(
        "whose fields win (`Rank`)",
        ("correlate/fold", "correlate/lookup", "recognise/recognise", "recognise/results", "recognise/transcript"),
        ("correlate/attempts", "correlate/changes", "correlate/fold", "correlate/twins"),
        column="report_rank",
        covered=True,
    ),
    "_strength": Private(
        "whose outcome wins (`Strength`)",
        ("correlate/fold", "correlate/lookup", "recognise/complete", "recognise/results", "recognise/transcript"),
        ("correlate/changes", "correlate/fold", "transcripts/settled"),
        column="outcome_strength",
        covered=True,
    ),
    "_keys": Private(
        "further identities: reports that share one are one event",
        (
            "recognise/complete",
            "recognise/identify",
            "recognise/recognise",
            "recognise/results",
            "recognise/transcript",
        ),
        ("correlate/gather",),
        hashed=True,
    ),
    "_refs": Private(
        "identities of another report, usually of the parent span: the report joins that event if it is a call of the "
        "same tool; two reports that share only a ref stay separate",
        ("recognise/identify",),
        ("correlate/fold", "correlate/gather", "correlate/join"),
        hashed=True,
    ),
    "_lends": Private(
        "makes no event by itself, only adds to one that another report makes",
        ("recognise/recognise", "recognise/results"),
        ("correlate/attempts", "correlate/fold", "correlate/nested"),
    ),
    "_twin": Private(
        "the role of a report without any common id, and the columns that must be equal in its twin; or several such",
        ("recognise/complete", "recognise/recognise", "recognise/results", "recognise/transcript"),
        ("correlate/fold", "correlate/twins"),
        covered=True,
    ),
    "_site": Private(
        'for a call with an id: its place and the mark of its arguments, "" if unknown; a report of the call without '
        "an id is found by both",
        ("recognise/identify", "recognise/results"),
        ("correlate/correlate", "correlate/join", "correlate/sites"),
    ),
    "_text": Private(
        "the whole text of a failure, for the classifier",
        ("recognise/complete", "recognise/results", "recognise/transcript"),
        ("classify/reports", "transcripts/settled"),
        stored=False,
    ),
    "_shape": Private(
        "what a failure looks like besides its text, for the classifier",
        ("recognise/complete", "recognise/results", "recognise/transcript"),
        ("classify/reports", "transcripts/settled"),
        stored=False,
    ),
    "_observed": Private(
        "when the sender observed the record: its time if it has no plausible one",
        ("recognise/fields",),
        ("pipeline",),
        stored=False,
    ),
    "_digest": Private(
        "of all arguments, where those that are told are not whole: what the keyed hash is made of",
        ("recognise/transcript",),
        ("pipeline",),
        stored=False,
    ),
}
HASHED = tuple(name for name, key in PRIVATE.items() if key.hashed)
RAW = tuple(name for name, key in PRIVATE.items() if not key.stored)  # removed once the report is classified
STORED = tuple(name for name, key in PRIVATE.items() if key.stored)
ONLY_OF_REPORTS = frozenset(name for name in STORED if not PRIVATE[name].column)  # a report with one is kept as it is
COVERED = frozenset(name for name, key in PRIVATE.items() if key.covered)


class Rank:
    """Whose fields win in the fold: of a call's reports, the highest that has the field. A row of a source's table may
    have a rank of its own, between `FRESH` and `LOG`, or 0 for what is no word of the call itself.
    """

    ASKED = 1  # the answer to a model request asks for the call
    REPEATED = 2  # a model request repeats a result that an earlier one told
    CLIENT = 3  # a model request tells a new result, and comes from a client below a framework that tells it too
    FRESH = 4  # a model request tells a new result; the ranks of the call's own reports are above
    TRANSCRIPT = 20  # the agent's own file: who called, when and how long, its telemetry knows better
    SPAN = 30
    LOG = 40


RANKS = {"log": Rank.LOG, "span": Rank.SPAN, "event": Rank.LOG, "moment": Rank.LOG}  # by the record's signal


class Strength:
    """How certain an outcome is: the fold takes the strongest. What the text of a result seems to say never wins over
    the call's own report (`OK_DEFAULT` and more), but over a result without any mark.
    """

    UNKNOWN = 1
    RESULT_OK = 2  # a model was told a result that nothing marks as an error
    RESULT_MAYBE = 5  # the text of such a result reads like an error
    OK_DEFAULT = 10  # the call's own report says nothing else
    UNSURE = 15  # at most this has what a row of a table says that is not sure
    OK = 20  # stated
    ERROR = 40
    CANCELLED = 50
    DENIED = 60


STRENGTHS = {
    "denied": Strength.DENIED,
    "cancelled": Strength.CANCELLED,
    "error": Strength.ERROR,
    "ok": Strength.OK,
    "unknown": Strength.UNKNOWN,
}


class Role:
    """Roles of twins that rules know; tables in schemas/sources name others. An event has each role at most once."""

    RESULT = "told"  # a result in a model request
    ASKED = "asked"  # a call that the answer to a model request asks for
    CALL = "call"  # the span of a call without an id
    BEGUN = "begun"
    OPENS, OPENED = "opens", "opened"
    FRAMEWORK, CLIENT = "framework", "client"  # two that tell one request, and with it the same results


BEGINNINGS = (Role.BEGUN, Role.OPENS, Role.OPENED)  # near another by when they began, not by when they ended
OF_ONE_CALL = (Role.RESULT, Role.BEGUN, Role.CALL)  # a call with an id needs no twin for these

# The twins of these are spans of tools without a call id, in all tables that do not only amend. A call asked for again
# in a later turn, below one parent, is another call: each began soon after it was asked for.
RESULT_TWIN = (Role.RESULT, "trace_id", "tool", "params_hash")
CALL_TWIN = (Role.CALL, *RESULT_TWIN[1:])
ASKED_TWIN = (Role.ASKED, "trace_id", "parent_span_id", "tool", "params_hash")


def each_twin(twin: Sequence[Any]) -> Sequence[Sequence[str]]:
    """Each role and its columns, of one such list or of several."""
    return [twin] if twin and isinstance(twin[0], str) else twin


# Where a session came from, the most reliable last.
SESSION_RANK = {None: 0, "instance": 1, "trace_id": 2, "trace": 3, "resource": 4, "record": 5}
KNOWN = ("resource", "record")  # sessions that are never corrected
GUESSED = ("trace", "trace_id", "instance")  # those that their trace may still correct


def as_row(report: Report) -> Row:
    """The same dict, for what goes over columns by their names."""
    return cast("Row", report)


def as_report(row: Row) -> Report:
    """The same dict, typed as a report."""
    return cast("Report", row)


def part_of(report: Report, columns: Iterable[str]) -> Report:
    """A new report with those of these columns that the other has."""
    row = as_row(report)
    return as_report({name: row[name] for name in columns if name in row})
