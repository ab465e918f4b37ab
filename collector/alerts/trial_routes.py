"""Trying rules through the API before they page anyone: backtest, suggest, and a test message to a receiver.

What is tried is the body: a rule file in YAML (JSON is YAML). Nothing of it stays. It need not name receivers; those
that its rules name and it does not are taken from the file in force.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

from litestar import Request, post
from litestar.params import FromPath, QueryParameter
from litestar.types import ControllerRouterHandler

from collector.alerts import status
from collector.alerts.notify import send, trial_message
from collector.alerts.routes import check_names
from collector.alerts.rulefile import MAX_BYTES, RuleError, parse_rules
from collector.alerts.rules import Receiver, Rule, RuleFile
from collector.alerts.trials import backtest_row, evaluations, suggest_row
from collector.errors import Rejected, Unavailable
from collector.query.filters import BadParameter, duration_ns, rfc3339, time_ns
from collector.query.history import Evaluations
from collector.store.reading import QueryTimeout

SECONDS = 20.0

Asked = Request[Any, Any, Any]
Try = Callable[[Rule, Evaluations, float], dict[str, Any]]

From = Annotated[str, QueryParameter(name="from", description="start of the history")]
To = Annotated[str, QueryParameter(name="to", description="its end")]
Step = Annotated[str, QueryParameter(description="between two evaluations, 15s to 5m")]
Only = Annotated[str, QueryParameter(name="rule", description="only this rule of the file")]


@post("/api/v1/rules/backtest", status_code=200, summary="What rules would have done over stored history")
async def backtest(request: Asked, since: From = "-7d", until: To = "now", step: Step = "1m", only: Only = "") -> Any:
    """For each rule when it would have fired, for how long, whom it would have told, which sessions, and its values."""
    check_names(request, "from", "to", "step", "rule")
    found = await _file(request)
    if isinstance(found, dict):
        return found

    def row(rule: Rule, steps: Evaluations, seconds: float) -> dict[str, Any]:
        return backtest_row(
            request.app.state.alerts.store,
            rule,
            found.receivers,
            steps,
            failure_only=_failure_only(request),
            timeout_s=seconds,
        )

    return await asyncio.to_thread(_tried, request, found, (since, until, step, only), row)


@post("/api/v1/rules/suggest", status_code=200, summary="Thresholds for a wanted number of pages a week")
async def suggest(
    request: Asked,
    pages: Annotated[str, QueryParameter(description="most pages a week, such as 2 or 0.5")] = "1",
    since: From = "-7d",
    until: To = "now",
    step: Step = "1m",
    only: Only = "",
) -> Any:
    """For each rule the most sensitive condition with at most so many pages, and what others would have come to."""
    check_names(request, "pages", "from", "to", "step", "rule")
    try:
        wanted = float(pages)
    except ValueError:
        wanted = -1.0
    if not 0 <= wanted <= 10_000:
        raise BadParameter("pages", pages, "pages is a number from 0 to 10000")
    found = await _file(request)
    if isinstance(found, dict):
        return found

    def row(rule: Rule, steps: Evaluations, seconds: float) -> dict[str, Any]:
        return suggest_row(
            request.app.state.alerts.store,
            rule,
            found.receivers,
            steps,
            wanted,
            failure_only=_failure_only(request),
            timeout_s=seconds,
        )

    return await asyncio.to_thread(_tried, request, found, (since, until, step, only), row)


@post("/api/v1/receivers/{name:str}/test", status_code=200, summary="A test message to a receiver of the file in force")
async def test_receiver(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """One row for each of its addresses: whether it took the message, else why not."""
    if request.content_type[0] != "application/json":  # what a foreign web page may send without asking is not JSON
        raise Rejected("send Content-Type: application/json", 415)
    engine = request.app.state.alerts
    asked = [receiver for receiver in engine.book.file.receivers if receiver.name == name]
    if not asked:
        names = ", ".join(dict.fromkeys(receiver.name for receiver in engine.book.file.receivers)) or "none"
        raise Rejected(f"there is no receiver {name[:40]!r}; there are: {names}", 404)
    rows = []
    for receiver in asked:
        rows.append(row := await asyncio.to_thread(tell, receiver, engine.clock()))
        engine.dispatch.tried(receiver.key, row["error"])
    return {"rows": rows}


def tell(receiver: Receiver, now_ns: int) -> dict[str, Any]:
    """Sends a test message to one address; what became of it."""
    try:
        send(trial_message(receiver, now_ns))
    except (Rejected, Unavailable) as error:
        return {"receiver": receiver.key, "sent": False, "error": str(error)}
    return {"receiver": receiver.key, "sent": True, "error": None}


def trial_routes() -> list[ControllerRouterHandler]:
    """The handlers of this module."""
    return [backtest, suggest, test_receiver]


async def _file(request: Asked) -> RuleFile | dict[str, Any]:
    """The rules of the body, else the answer that names its mistakes."""
    body = await request.body()
    if len(body) > MAX_BYTES:
        raise Rejected(f"a rule file has at most {MAX_BYTES} bytes", 413)
    engine = request.app.state.alerts
    book = engine.book
    try:
        text = body.decode(errors="replace")
        found = await asyncio.to_thread(parse_rules, text, elsewhere=book.file.receivers)
    except RuleError as error:
        return {
            "ok": False,
            "mistakes": [status.mistake_row(mistake, engine.scrub) for mistake in error.mistakes],
            "rows": [],
        }
    return found


def _tried(request: Asked, found: RuleFile, asked: tuple[str, str, str, str], row: Try) -> dict[str, Any]:
    since, until, step, only = asked
    names = [rule.name for rule in found.rules]
    if only and only not in names:
        raise BadParameter("rule", only, f"the file has no rule {only!r}", names)
    now_ns = request.app.state.alerts.clock()
    start_ns, end_ns = time_ns("from", since, now_ns), time_ns("to", until, now_ns)
    steps = evaluations(start_ns, end_ns, duration_ns("step", step))
    started = time.monotonic()
    rows = []
    for rule in found.rules:
        if only in ("", rule.name):
            left_s = SECONDS - (time.monotonic() - started)
            if left_s <= 0:
                raise QueryTimeout(f"the rules took longer than {SECONDS:g} s")
            rows.append(row(rule, steps, left_s))
    return {
        "ok": True,
        "rows": rows,
        "from": rfc3339(steps.first_ns),
        "to": rfc3339(end_ns),
        "step_s": steps.step_ns / 1e9,
        "evaluations": steps.count,
        "took_ms": round((time.monotonic() - started) * 1000, 1),
    }


def _failure_only(request: Asked) -> tuple[str, ...]:
    return tuple(request.app.state.get("failure_only", ()))
