"""Alerting in the API: `/api/v1/alerts`, `/rules`, `/silences`. The engine is `request.app.state.alerts`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.audit import named
from collector.access.rights import READ, check_json, check_rules
from collector.alerts import status
from collector.alerts.engine import Engine
from collector.alerts.ledger import UNTIL_RESOLVED, Silence, new_id
from collector.alerts.rulefile import MAX_BYTES, RuleError, parse_rules
from collector.alerts.state import seen_as
from collector.api.auditing import AUDIT, detail
from collector.api.describe import operation, taking
from collector.api.guard import RIGHT, access_of
from collector.api.parameters import ALL, FROM, LIMIT, TO, Parameter, read, read_none, sort_by
from collector.api.representations import list_answer, read_body
from collector.errors import Rejected
from collector.projects import PROJECT
from collector.query.filters import BadParameter, duration_ns, range_ns, time_ns

STATES = ("pending", "firing", "resolved")
STATE = Parameter("state", "choice", "only alerts in this state", "firing", None, STATES)
HISTORY = Parameter("history", "flag", "also every firing since `from`", "true", False, ("true", "false"))
SINCE = replace(FROM, text="start of the history: RFC 3339 or relative", example="-7d", default="-7d")
RULE = Parameter("name", "text", "name of the rule", "tool-broken", path=True)
ALERTS_TAKEN = (STATE, HISTORY, SINCE, sort_by("-since"), LIMIT)
RULES_TAKEN = (sort_by("-value"), ALL)
SAMPLES_TAKEN = (RULE, FROM, TO, ALL)
SILENCES_TAKEN = (sort_by("ends"), LIMIT)

# The columns of each list; it can be sorted by those that hold one value.
ALERTS = {
    "rule": "varchar", "labels": "json", "state": "varchar", "value": "double", "value_text": "varchar",
    "threshold": "double", "condition": "varchar", "condition_text": "varchar", "measure": "varchar", "calls": "bigint",
    "since": "timestamp", "fired": "timestamp", "resolved": "timestamp", "severity": "varchar", "summary": "varchar",
    "description": "varchar", "evidence": "varchar", "link": "varchar", "trace_url": "varchar", "silenced": "boolean",
    "inhibited_by": "varchar",
}  # fmt: skip
RULES = {
    "name": "varchar", "state": "varchar", "measure": "varchar", "unit": "varchar", "where": "json", "by": "json",
    "window_s": "double", "condition": "varchar", "condition_text": "varchar", "recover": "varchar",
    "min_calls": "bigint", "for_s": "double", "keep_firing_for_s": "double", "severity": "varchar", "labels": "json",
    "summary": "varchar", "description": "varchar", "notify": "json", "inhibits": "json", "lateness_s": "double",
    "line": "bigint", "value": "double", "value_text": "varchar", "threshold": "double", "calls": "bigint",
    "label_sets": "bigint", "evaluated": "timestamp", "took_ms": "double", "error": "varchar",
}  # fmt: skip
SAMPLES = {
    "time": "timestamp", "labels": "json", "value": "double", "calls": "bigint", "threshold": "double",
    "state": "varchar",
}  # fmt: skip
SILENCES = {
    "id": "varchar", "rule": "varchar", "labels": "json", "author": "varchar", "reason": "varchar",
    "starts": "timestamp", "ends": "timestamp",
}  # fmt: skip

RULES_SHOWN = """rules:
  - name: diff-tool-failing
    measure: error_rate
    where: {tool: apply_diff}
    window: 15m
    condition: "> 0.3"
"""

Asked = Request[Any, Any, Any]
Options = Mapping[str, Any]
Listing = Callable[[Asked, Options], Response[bytes]]


class NewSilence(msgspec.Struct, forbid_unknown_fields=True):
    """Alerts that nobody is notified of: those of `rule` (empty: of all) that have `labels`, for `duration` from now.

    The duration `until resolved` ends once all alerts that it is about have resolved.
    """

    duration: str
    author: Annotated[str, msgspec.Meta(pattern=r"\S", max_length=200)]
    reason: Annotated[str, msgspec.Meta(pattern=r"\S", max_length=1000)]
    rule: str = ""
    labels: dict[str, str] = {}


def listing(path: str, summary: str, takes: Sequence[Parameter]) -> Callable[[Listing], ControllerRouterHandler]:
    """The handler of an address that takes these parameters and lists rows, as JSON or Arrow."""

    def handler(answer: Listing) -> ControllerRouterHandler:
        async def listed(request: Asked) -> Response[bytes]:
            return await asyncio.to_thread(answer, request, options_of(request, takes))

        return get(path, summary=summary, operation_class=operation(takes, False, "", tagged=False))(listed)

    return handler


@listing("/api/v1/alerts", "Alerts that are pending or firing, and with history=true those that fired", ALERTS_TAKEN)
def alerts(request: Asked, options: Options) -> Response[bytes]:
    """The most urgent first; with the file in force, receivers, and the time of the last evaluation."""
    engine = _engine(request)
    now_ns = engine.clock()
    since_ns = time_ns("from", options["from"], now_ns)
    rows = [row for row in status.alert_rows(engine, now_ns) if options["state"] in (None, row["state"])]
    receivers = status.receiver_rows(engine) if PROJECT.get() is None else None  # all projects share them
    beside = {**status.file_row(engine), "receivers": receivers}
    if options["history"]:
        beside["history"] = status.history_rows(engine, since_ns, options["limit"])
    return list_answer(request, rows, ALERTS, options, beside)


@listing("/api/v1/rules", "Rules in force with their last value", RULES_TAKEN)
def rules(request: Asked, options: Options) -> Response[bytes]:
    """In the file's order; `mistakes` are those of a file that could not be taken."""
    engine = _engine(request)
    return list_answer(request, status.rule_rows(engine), RULES, options, status.file_row(engine))


@listing("/api/v1/rules/{name:str}/samples", "Value of a rule over time", SAMPLES_TAKEN)
def samples(request: Asked, options: Options) -> Response[bytes]:
    """One row for each change of a label set's value; it holds until the next."""
    engine, name = _engine(request), options["name"]
    now_ns = engine.clock()
    if name not in _names(engine):
        raise Rejected(f"there is no rule {name!r}; there are: {', '.join(_names(engine)) or 'none'}", 404)
    start_ns, end_ns = range_ns(options["from"], options["to"], now_ns)
    until_ns, limit = end_ns + (options["to"] == "now"), options["limit"]
    rows = status.sample_rows(engine, name, start_ns, until_ns, limit + 1)
    return list_answer(request, rows[-limit:], SAMPLES, options, {"truncated": len(rows) > limit})


@post(
    "/api/v1/rules/check",
    opt={RIGHT: READ, AUDIT: ""},
    status_code=200,
    request_max_body_size=MAX_BYTES,
    summary="Every mistake in a rule file",
    operation_class=taking("application/yaml", RULES_SHOWN),
)
async def check(request: Asked) -> dict[str, Any]:
    """The body is the file. It changes nothing."""
    read_none(request.scope["query_string"])
    check_rules(request.content_type[0])
    body = await request.body()
    scrub = _engine(request).scrub
    try:
        text = body.decode(errors="replace")
        found = await asyncio.to_thread(parse_rules, text)
    except RuleError as error:
        return {"ok": False, "rows": [status.mistake_row(mistake, scrub) for mistake in error.mistakes]}
    return {"ok": True, "rows": [], "rules": [scrub(rule.name) for rule in found.rules]}


@listing("/api/v1/silences", "Silences that have not ended", SILENCES_TAKEN)
def silences(request: Asked, options: Options) -> Response[bytes]:
    """The next to end first."""
    engine = _engine(request)
    rows = [status.silence_row(silence) for silence in engine.ledger.silences(engine.clock())]
    return list_answer(request, rows, SILENCES, options)


@post(
    "/api/v1/silences",
    opt={RIGHT: READ},
    request_max_body_size=MAX_BYTES,
    summary="Not to be told about some alerts for a while",
    operation_class=taking(
        "application/json",
        {"rule": "diff-tool-failing", "duration": "2h", "author": "ann", "reason": "a fix is on its way"},
    ),
)
async def add_silence(request: Asked) -> dict[str, Any]:
    """The silence, with the id that ends it. The body is a `NewSilence` as JSON."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    what = "a silence, with duration, author, reason, rule and labels,"
    wanted = read_body(await request.body(), NewSilence, what)
    labels = ", ".join(f"{name}={value}" for name, value in wanted.labels.items())
    detail(request, f"{wanted.rule} {labels} for {wanted.duration}: {wanted.reason}")
    engine, access = _engine(request), access_of(request)
    # Of a signed-in person it is known who they are.
    author = named(access.name, engine.scrub) if access.via else engine.scrub(wanted.author)
    return await asyncio.to_thread(_silence, engine, wanted, author)


def _silence(engine: Engine, wanted: NewSilence, author: str) -> dict[str, Any]:
    now_ns = engine.clock()
    if not wanted.rule and not wanted.labels:
        raise Rejected("name a rule, labels, or both: everything cannot be silenced")
    if wanted.rule and wanted.rule not in _names(engine):
        raise BadParameter("rule", wanted.rule, f"there is no rule {wanted.rule!r}", _names(engine))
    known = {"alertname", "severity"}
    for rule in status.rules_seen(engine):
        known.update(rule.by, map(seen_as, rule.by), rule.labels or ())
    for name in wanted.labels:
        if name not in known:
            raise BadParameter("labels", name, f"no rule has a label {name!r}", sorted(known))
    scrub, project = engine.scrub, PROJECT.get()
    labels = wanted.labels | ({"project": project} if project else {})
    until_resolved = wanted.duration == "until resolved"
    silence = Silence(
        id=new_id(),
        rule=wanted.rule,
        labels=tuple(sorted((scrub(name), scrub(value)) for name, value in labels.items())),
        author=author,
        reason=scrub(wanted.reason),
        starts_ns=now_ns,
        ends_ns=UNTIL_RESOLVED if until_resolved else now_ns + duration_ns("duration", wanted.duration),
    )
    if silence.ends_ns == now_ns:
        raise BadParameter(
            "duration", wanted.duration, "a silence lasts longer than nothing: say for how long, such as 2h"
        )
    if silence.over((alert, engine.seen(alert)) for alert in engine.alerts.values()):
        raise Rejected("no alert that this is about is pending or firing: say for how long, such as 2h")
    engine.ledger.add_silence(silence)
    engine.read_silences(now_ns)
    return status.silence_row(silence)


@delete("/api/v1/silences/{id:str}", opt={RIGHT: READ}, sync_to_thread=True, summary="Ends a silence now")
def end_silence(request: Asked, id: FromPath[str]) -> None:
    """404 where no silence in force has this id."""
    read_none(request.scope["query_string"])
    engine = _engine(request)
    now_ns = engine.clock()
    if id not in {silence.id for silence in engine.ledger.silences(now_ns)}:
        raise Rejected(f"there is no silence {id!r} in force", 404)
    engine.ledger.end_silence(id, now_ns)
    engine.read_silences(now_ns)


ALERT_ROUTES: list[ControllerRouterHandler] = [alerts, rules, samples, check, silences, add_silence, end_silence]


def _engine(request: Asked) -> Engine:
    engine: Engine = request.app.state.alerts
    return engine


def options_of(request: Asked, takes: Sequence[Parameter]) -> Options:
    """What the request says of each of these parameters. Raises BadParameter."""
    path = {name: str(word) for name, word in request.path_params.items()}
    return read(request.scope["query_string"], takes, path, _engine(request).clock(), filters=False).options


def _names(engine: Engine) -> tuple[str, ...]:
    return tuple(rule.name for rule in status.rules_seen(engine))
