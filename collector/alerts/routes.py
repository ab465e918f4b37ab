"""Alerting in the API: `/api/v1/alerts`, `/rules`, `/silences`. The engine is `request.app.state.alerts`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath, QueryParameter
from litestar.types import ControllerRouterHandler

from collector.alerts import status
from collector.alerts.engine import Engine
from collector.alerts.ledger import UNTIL_RESOLVED, Silence, new_id
from collector.alerts.rulefile import MAX_BYTES, RuleError, parse_rules
from collector.errors import Rejected
from collector.query.describe import taking
from collector.query.filters import BadParameter, duration_ns, time_ns, whole_number
from collector.receive.access import check_json

STATES = ("pending", "firing", "resolved")
# What each list can be sorted by; as it is, it is in the order that its address tells of.
ALERTS_BY = ("rule", "state", "severity", "value", "calls", "since", "fired", "resolved")
RULES_BY = ("name", "state", "measure", "severity", "value", "calls", "evaluated", "took_ms")
SILENCES_BY = ("rule", "author", "starts", "ends")

RULES_SHOWN = """rules:
  - name: diff-tool-failing
    measure: error_rate
    where: {tool: apply_diff}
    window: 15m
    condition: "> 0.3"
"""

Asked = Request[Any, Any, Any]
Limit = Annotated[str, QueryParameter(description="most rows, up to 10000")]
Sort = Annotated[str, QueryParameter(description="a column of the rows to sort by; - for descending")]


class NewSilence(msgspec.Struct, forbid_unknown_fields=True):
    """What not to be told about: alerts of `rule` (empty: of all) that have `labels`, for `duration` from now.

    The duration `until resolved` ends once all alerts that it is about have resolved.
    """

    duration: str
    author: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    rule: str = ""
    labels: dict[str, str] = {}


@get(
    "/api/v1/alerts",
    sync_to_thread=True,
    summary="Alerts that are pending or firing, and with history=true those that fired",
)
def alerts(
    request: Asked,
    alert_state: Annotated[str | None, QueryParameter(name="state", description="pending, firing or resolved")] = None,
    history: Annotated[str, QueryParameter(description="true: also every firing since `from`")] = "false",
    since: Annotated[str, QueryParameter(name="from", description="start of the history")] = "-7d",
    sort: Sort = "",
    limit: Limit = "100",
) -> dict[str, Any]:
    """The most urgent first; with the file in force, receivers, and the time of the last evaluation."""
    check_names(request, "state", "history", "from", "sort", "limit")
    engine = _engine(request)
    now_ns = engine.clock()
    if alert_state not in (None, *STATES):
        raise BadParameter("state", str(alert_state), f"state is one of {', '.join(STATES)}", STATES)
    if history not in ("true", "false"):
        raise BadParameter("history", history, "history is true or false", ("true", "false"))
    most = whole_number("limit", limit, 1, 10_000)
    rows = [row for row in status.alert_rows(engine, now_ns) if alert_state in (None, row["state"])]
    answer = {
        "rows": _arranged(rows, sort, ALERTS_BY)[:most],
        **status.file_row(engine),
        "receivers": status.receiver_rows(engine),
    }
    if history == "true":
        answer["history"] = status.history_rows(engine, time_ns("from", since, now_ns), most)
    return answer


@get("/api/v1/rules", sync_to_thread=True, summary="Rules in force with their last value")
def rules(request: Asked, sort: Sort = "", limit: Limit = "10000") -> dict[str, Any]:
    """In the file's order; `mistakes` are those of a file that could not be taken."""
    check_names(request, "sort", "limit")
    engine = _engine(request)
    most = whole_number("limit", limit, 1, 10_000)
    return {"rows": _arranged(status.rule_rows(engine), sort, RULES_BY)[:most], **status.file_row(engine)}


@get("/api/v1/rules/{name:str}/samples", sync_to_thread=True, summary="Value of a rule over time")
def samples(
    request: Asked,
    name: FromPath[str],
    start: Annotated[str, QueryParameter(name="from")] = "-24h",
    end: Annotated[str, QueryParameter(name="to")] = "now",
    limit: Limit = "10000",
) -> dict[str, Any]:
    """One row for each change of a label set's value; it holds until the next."""
    check_names(request, "from", "to", "limit")
    engine = _engine(request)
    now_ns = engine.clock()
    if name not in _names(engine):
        raise Rejected(f"there is no rule {name!r}", 404)
    start_ns, end_ns = time_ns("from", start, now_ns), time_ns("to", end, now_ns)
    most = whole_number("limit", limit, 1, 10_000)
    return {"rows": status.sample_rows(engine, name, start_ns, end_ns + (end == "now"), most)}


@post(
    "/api/v1/rules/check",
    status_code=200,
    summary="Every mistake in a rule file",
    operation_class=taking("application/yaml", RULES_SHOWN),
)
async def check(request: Asked) -> dict[str, Any]:
    """The body is the file. It changes nothing."""
    body = await request.body()
    if len(body) > MAX_BYTES:
        raise Rejected(f"a rule file has at most {MAX_BYTES} bytes", 413)
    scrub = _engine(request).scrub
    try:
        text = body.decode(errors="replace")
        found = await asyncio.to_thread(parse_rules, text)
    except RuleError as error:
        return {"ok": False, "rows": [status.mistake_row(mistake, scrub) for mistake in error.mistakes]}
    return {"ok": True, "rows": [], "rules": [scrub(rule.name) for rule in found.rules]}


@get("/api/v1/silences", sync_to_thread=True, summary="Silences that have not ended")
def silences(request: Asked, sort: Sort = "", limit: Limit = "100") -> dict[str, Any]:
    """The next to end first."""
    check_names(request, "sort", "limit")
    engine = _engine(request)
    most = whole_number("limit", limit, 1, 10_000)
    rows = [status.silence_row(silence) for silence in engine.ledger.silences(engine.clock())]
    return {"rows": _arranged(rows, sort, SILENCES_BY)[:most]}


@post(
    "/api/v1/silences",
    summary="Not to be told about some alerts for a while",
    operation_class=taking(
        "application/json",
        {"rule": "diff-tool-failing", "duration": "2h", "author": "ann", "reason": "a fix is on its way"},
    ),
)
async def add_silence(request: Asked) -> dict[str, Any]:
    """The silence, with the id that ends it. The body is a `NewSilence` as JSON."""
    check_json(request.content_type[0])
    body = await request.body()
    try:
        wanted = msgspec.json.decode(body, type=NewSilence)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"a silence has duration, author, reason, rule and labels: {error}") from None
    return await asyncio.to_thread(_silence, _engine(request), wanted)


def _silence(engine: Engine, wanted: NewSilence) -> dict[str, Any]:
    now_ns = engine.clock()
    if not wanted.rule and not wanted.labels:
        raise Rejected("name a rule, labels, or both: everything cannot be silenced")
    if wanted.rule and wanted.rule not in _names(engine):
        raise BadParameter("rule", wanted.rule, f"there is no rule {wanted.rule!r}", _names(engine))
    scrub = engine.scrub
    until_resolved = wanted.duration == "until resolved"
    silence = Silence(
        id=new_id(),
        rule=wanted.rule,
        labels=tuple(sorted((scrub(name), scrub(value)) for name, value in wanted.labels.items())),
        author=scrub(wanted.author),
        reason=scrub(wanted.reason),
        starts_ns=now_ns,
        ends_ns=UNTIL_RESOLVED if until_resolved else now_ns + duration_ns("duration", wanted.duration),
    )
    if silence.over(engine.alerts.values()):
        raise Rejected("no alert that this is about is pending or firing: say for how long, such as 2h")
    engine.ledger.add_silence(silence)
    engine.silences = engine.ledger.silences(now_ns)
    return status.silence_row(silence)


@delete("/api/v1/silences/{id:str}", sync_to_thread=True, summary="Ends a silence now")
def end_silence(request: Asked, id: FromPath[str]) -> None:
    """404 where no silence in force has this id."""
    engine = _engine(request)
    now_ns = engine.clock()
    if id not in {silence.id for silence in engine.ledger.silences(now_ns)}:
        raise Rejected(f"there is no silence {id!r} in force", 404)
    engine.ledger.end_silence(id, now_ns)
    engine.silences = engine.ledger.silences(now_ns)


def alert_routes() -> list[ControllerRouterHandler]:
    """The handlers of this module."""
    return [alerts, rules, samples, check, silences, add_silence, end_silence]


def _engine(request: Asked) -> Engine:
    engine: Engine = request.app.state.alerts
    return engine


def _arranged(rows: list[dict[str, Any]], sort: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows sorted by a column, those without a value last; as they are where `sort` is empty."""
    column = sort.removeprefix("-")
    if not sort:
        return rows
    if column not in columns:
        raise BadParameter("sort", sort, f"sort is one of {', '.join(columns)}, with - for descending", columns)
    known = [row for row in rows if row[column] is not None]
    unknown = [row for row in rows if row[column] is None]
    return [*sorted(known, key=lambda row: row[column], reverse=sort.startswith("-")), *unknown]


def _names(engine: Engine) -> tuple[str, ...]:
    return tuple(rule.name for rule in engine.book.file.rules)


def check_names(request: Asked, *known: str) -> None:
    """Raises BadParameter for a query parameter that an address does not have."""
    for name, value in request.query_params.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise BadParameter(name, value, f"{name} is no parameter here; there are: {allowed}", known)
