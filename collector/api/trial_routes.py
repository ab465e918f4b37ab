"""Trying rules through the API before they page anyone: backtest, suggest, and a test message to a receiver.

What is tried is the body: a rule file in YAML (JSON is YAML). Nothing of it stays. It need not name receivers; those
that its rules name and it does not are taken from the file in force.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from litestar import Request, post
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.rights import READ, check_json, check_rules
from collector.alerts import status
from collector.alerts.rulefile import MAX_BYTES, RuleError, parse_rules
from collector.alerts.rules import Receiver, Rule, RuleFile
from collector.alerts.send import tell
from collector.alerts.trying.backtest import Past
from collector.alerts.trying.trials import backtest_row, evaluations, suggest_row, with_threshold
from collector.api.alert_routes import RULES_SHOWN, options_of
from collector.api.auditing import AUDIT
from collector.api.describe import taking
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import FROM, TO, Parameter, read_none
from collector.errors import QueryTimeout, Rejected
from collector.loop import in_daemon
from collector.query.filters import BadParameter, duration_ns, range_ns
from collector.times import rfc3339

SECONDS = 20.0
MOST = 1e9

Asked = Request[Any, Any, Any]

STEP = Parameter("step", "text", "between two evaluations, 15s to 5m", "1m", "1m")
ONLY = Parameter("rule", "text", "only this rule of the file", "tool-broken", "")
TRIED = (replace(FROM, example="-7d", default="-7d"), TO, STEP, ONLY)
BACKTEST = (*TRIED, Parameter("threshold", "text", "another number in the conditions", "0.4", ""))
SUGGEST = (Parameter("pages", "text", "most pages a week, such as 2 or 0.5", "1", "1"), *TRIED)


class Try(Protocol):
    """What a rule comes to over what it measured."""

    def __call__(
        self, rule: Rule, receivers: Sequence[Receiver], past: Past, *, timeout_s: float
    ) -> dict[str, Any]: ...


@post(
    "/api/v1/rules/backtest",
    opt={RIGHT: READ, AUDIT: ""},
    status_code=200,
    request_max_body_size=MAX_BYTES,
    summary="What rules would have done over stored history",
    operation_class=taking("application/yaml", RULES_SHOWN, BACKTEST),
)
async def backtest(request: Asked) -> Any:
    """For each rule when it would have fired, for how long, whom it would have notified, sessions, and values.

    With another threshold `recover` keeps its proportion.
    """
    options = options_of(request, BACKTEST)
    number = _number("threshold", options["threshold"]) if options["threshold"] else None
    store, failure_only = request.app.state.store, request.app.state.failure_only

    def row(rule: Rule, receivers: Sequence[Receiver], past: Past, *, timeout_s: float) -> dict[str, Any]:
        moved = rule if number is None else with_threshold(rule, number)
        return backtest_row(store, moved, receivers, past, failure_only=failure_only, timeout_s=timeout_s)

    return await _tried(request, options, row)


@post(
    "/api/v1/rules/suggest",
    opt={RIGHT: READ, AUDIT: ""},
    status_code=200,
    request_max_body_size=MAX_BYTES,
    summary="Thresholds for a wanted number of pages a week",
    operation_class=taking("application/yaml", RULES_SHOWN, SUGGEST),
)
async def suggest(request: Asked) -> Any:
    """For each rule the most sensitive condition with at most so many pages, and what others would have come to."""
    options = options_of(request, SUGGEST)
    return await _tried(request, options, partial(suggest_row, pages=_number("pages", options["pages"])))


@post(
    "/api/v1/receivers/{name:str}/test",
    opt={RIGHT: READ, WHOLE: True, AUDIT: "test"},
    status_code=200,
    summary="A test message to a receiver of the file in force",
)
async def test_receiver(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """One row for each of its addresses: whether it took the message, else why not."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    engine = request.app.state.alerts
    asked = [receiver for receiver in engine.book.file.receivers if receiver.name == name]
    if not asked:
        names = ", ".join(dict.fromkeys(receiver.name for receiver in engine.book.file.receivers)) or "none"
        raise Rejected(f"there is no receiver {name[:40]!r}; there are: {names}", 404)
    rows = []
    for receiver in asked:
        rows.append(row := await in_daemon(partial(tell, receiver, engine.clock()), "alerts"))
        engine.dispatch.tried(receiver.key, row["error"])
    return {"rows": rows}


TRIAL_ROUTES: list[ControllerRouterHandler] = [backtest, suggest, test_receiver]


async def _tried(request: Asked, options: Mapping[str, Any], row: Try) -> dict[str, Any]:
    """The rows for the rules of the body, else the answer that names its mistakes."""
    check_rules(request.content_type[0])
    body = await request.body()
    engine = request.app.state.alerts
    text = body.decode(errors="replace")
    try:
        found = await asyncio.to_thread(parse_rules, text, elsewhere=engine.book.file.receivers)
    except RuleError as error:
        mistakes = [status.mistake_row(mistake, engine.scrub) for mistake in error.mistakes]
        return {"ok": False, "mistakes": mistakes, "rows": []}
    return await asyncio.to_thread(_rows, request, found, options, row)


def _rows(request: Asked, found: RuleFile, options: Mapping[str, Any], row: Try) -> dict[str, Any]:
    only = options["rule"]
    names = [rule.name for rule in found.rules]
    if only and only not in names:
        raise BadParameter("rule", only, f"the file has no rule {only!r}", names)
    state = request.app.state
    now_ns = state.alerts.clock()
    start_ns, end_ns = range_ns(options["from"], options["to"], now_ns)
    steps = evaluations(start_ns, end_ns, duration_ns("step", options["step"]))
    started = time.monotonic()

    def left_s() -> float:
        left = SECONDS - (time.monotonic() - started)
        if left <= 0:
            raise QueryTimeout(f"the rules took longer than {SECONDS:g} s")
        return left

    rows = []
    for rule in found.rules:
        if only in ("", rule.name):
            past = state.looked_back(state.store, rule, steps, failure_only=state.failure_only, timeout_s=left_s())
            rows.append(row(rule, found.receivers, past, timeout_s=left_s()))
    return {
        "ok": True,
        "rows": rows,
        "from": rfc3339(steps.first_ns),
        "to": rfc3339(end_ns),
        "step_s": steps.step_ns / 1e9,
        "evaluations": steps.count,
        "took_ms": round((time.monotonic() - started) * 1000, 1),
    }


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= MOST:
        raise BadParameter(name, text, f"{name} is a number from 0 to {MOST:g}")
    return number
