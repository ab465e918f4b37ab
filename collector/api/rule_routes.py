"""Changing the rule file through the API: rules and receivers, one at a time.

A change names the revision of the file that it was made from in `If-Match`, which every answer has as its ETag. All
projects share the file. Addresses of receivers are taken and never answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, post, put
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.rights import ALERTS, check_json, check_rules
from collector.alerts import status, written
from collector.alerts.addresses import kinds, receiver_of, wrong_with
from collector.alerts.changing import File, change, check, file_of
from collector.alerts.engine import Engine
from collector.alerts.rulefile import MAX_BYTES, RuleError, read_values
from collector.api.auditing import detail
from collector.api.describe import taking
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.api.representations import json_answer, read_body
from collector.errors import Rejected
from collector.query.filters import BadParameter

RULE_SHOWN = """name: diff-tool-failing
measure: error_rate
where: {tool: apply_diff}
window: 15m
condition: "> 0.3"
"""
RECEIVER_SHOWN = {"name": "team", "address": "slack://TokenA/TokenB/TokenC/#channel"}
CHANGES = {RIGHT: ALERTS, WHOLE: True}
RECEIVER_NAME = r"^[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}$"

Asked = Request[Any, Any, Any]


class NewReceiver(msgspec.Struct, forbid_unknown_fields=True):
    """Whom to tell: one address of a service that schemas/receivers.toml lists, or an https:// webhook."""

    name: Annotated[str, msgspec.Meta(pattern=RECEIVER_NAME)]
    address: Annotated[str, msgspec.Meta(min_length=1)]


@get("/api/v1/rules/{name:str}", opt={WHOLE: True}, summary="A rule as its file says it, and the file's revision")
async def one_rule(request: Asked, name: FromPath[str]) -> Response[bytes]:
    """`rule` is what to change and to send back; `text` are its lines. A default rule is `own: false`."""
    read_none(request.scope["query_string"])
    return await asyncio.to_thread(_asked_rule, _engine(request), name)


@post(
    "/api/v1/rules",
    opt=CHANGES,
    request_max_body_size=MAX_BYTES,
    summary="Adds a rule to the rule file",
    operation_class=taking("application/yaml", RULE_SHOWN),
)
async def add_rule(request: Asked) -> Response[bytes]:
    """The rule as `GET /api/v1/rules/{name}` answers it. A file without rules gets the default ones before it."""
    rule = await _rule_of(request)
    detail(request, str(rule["name"]))
    file = await _changed(request, partial(_adding, rule=rule))
    return _told(file, str(rule["name"]), 201) if isinstance(file, File) else file


@put(
    "/api/v1/rules/{name:str}",
    opt=CHANGES,
    request_max_body_size=MAX_BYTES,
    summary="Replaces a rule of the rule file",
    operation_class=taking("application/yaml", RULE_SHOWN),
)
async def replace_rule(request: Asked, name: FromPath[str]) -> Response[bytes]:
    """What stays the same stays as it is written, with its comments. The name stays too: it tells alerts apart."""
    rule = await _rule_of(request)
    if rule.get("name") != name:
        raise BadParameter("name", str(rule.get("name")), f"a rule keeps its name: write name: {name}", [name])
    file = await _changed(request, partial(written.with_changed_rule, name=name, rule=rule))
    return _told(file, name) if isinstance(file, File) else file


@delete("/api/v1/rules/{name:str}", status_code=200, opt=CHANGES, summary="Removes a rule from the rule file")
async def remove_rule(request: Asked, name: FromPath[str]) -> Response[bytes]:
    """Its alerts resolve. Comments before it stay in the file."""
    read_none(request.scope["query_string"])
    file = await _changed(request, partial(written.without_rule, name=name))
    return _told(file) if isinstance(file, File) else file


@get(
    "/api/v1/receivers",
    opt={WHOLE: True},
    summary="Receivers that rules can name, and the kinds of addresses that can be added",
)
async def receivers(request: Asked) -> Response[bytes]:
    """`rows` are those in force, without their addresses; `kinds` have an example each."""
    read_none(request.scope["query_string"])
    engine = _engine(request)
    file = await asyncio.to_thread(file_of, engine.book)
    names = dict.fromkeys(receiver.name for receiver in engine.book.file.receivers)
    shown = [{"scheme": one.name, "service": one.service, "example": one.example} for one in kinds().values()]
    return _answer(file, {"rows": [{"name": engine.scrub(name)} for name in names], "kinds": shown})


@post(
    "/api/v1/receivers",
    opt=CHANGES,
    request_max_body_size=64 << 10,
    summary="Adds a receiver to the rule file",
    operation_class=taking("application/json", RECEIVER_SHOWN),
)
async def add_receiver(request: Asked) -> Response[bytes]:
    """Its address is checked and never answered. Rules without `notify` tell it from now on."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    wanted = read_body(await request.body(), NewReceiver, "a receiver, with name and address,")
    detail(request, wanted.name)
    allowed = [host.lower() for host in request.app.state.settings.receiver_hosts]
    if wrong := await asyncio.to_thread(wrong_with, wanted.address, allowed):
        raise BadParameter("address", "", f"the address of {wanted.name!r} {wrong}", kinds())
    file = await _changed(request, partial(_receiving, name=wanted.name, receiver=receiver_of(wanted.address)))
    return _answer(file, {"name": wanted.name}, 201) if isinstance(file, File) else file


@delete(
    "/api/v1/receivers/{name:str}",
    status_code=200,
    opt=CHANGES,
    summary="Removes a receiver from the rule file",
)
async def remove_receiver(request: Asked, name: FromPath[str]) -> Response[bytes]:
    """Refused while a rule names it."""
    read_none(request.scope["query_string"])
    file = await _changed(request, partial(written.without_receiver, name=name))
    return _told(file) if isinstance(file, File) else file


RULE_ROUTES: list[ControllerRouterHandler] = [
    one_rule, add_rule, replace_rule, remove_rule, receivers, add_receiver, remove_receiver,
]  # fmt: skip


def _asked_rule(engine: Engine, name: str) -> Response[bytes]:
    check(file := file_of(engine.book))
    return _told(file, name)


async def _rule_of(request: Asked) -> dict[str, Any]:
    """The rule in the body. Raises Rejected, or BadParameter where it is none."""
    read_none(request.scope["query_string"])
    check_rules(request.content_type[0])
    try:
        said = await asyncio.to_thread(read_values, (await request.body()).decode(errors="replace"))
    except RuleError as error:
        raise Rejected(f"the rule cannot be read: line {error.mistakes[0]}") from None
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        raise BadParameter("name", "", "send one rule, a mapping with name, measure and condition")
    return said


def _adding(text: str, rule: Mapping[str, Any]) -> str:
    return written.with_rule(text, rule)


def _receiving(text: str, name: str, receiver: Mapping[str, Any]) -> str:
    if text.strip() and name in (read_values(text).get("receivers") or ()):
        raise BadParameter("name", name, f"there is a receiver {name!r} already: choose another name")
    return written.with_receiver(text, name, receiver)


async def _changed(request: Asked, edit: Callable[[str], str]) -> File | Response[bytes]:
    """The file after the change, whose rules are in force then; or the answer that names what is wrong with it."""
    engine = _engine(request)
    given = request.headers.get("if-match", "").removeprefix("W/").strip('" ')
    if not given:
        raise Rejected("send If-Match with the ETag of GET /api/v1/receivers: what you change may have changed", 428)
    try:
        file = await asyncio.to_thread(change, engine.book, given, edit)
    except RuleError as error:
        rows = [status.mistake_row(mistake, engine.scrub) for mistake in error.mistakes]
        message = f"{error.path}:{rows[0]['text']}"
        return json_answer({"error": {"message": message, "parameter": rows[0]["field"], "mistakes": rows}}, 400)
    await engine.evaluate_now()
    return file


def _told(file: File, name: str = "", code: int = 200) -> Response[bytes]:
    """The answer about one rule of the file, or about the file alone."""
    if not name:
        return _answer(file, {}, code)
    whole = written.with_own_rules(file.text)
    rule = written.rule_of(whole, name)
    return _answer(file, {"rule": rule, "text": written.rule_text(whole, name), "own": whole == file.text}, code)


def _answer(file: File, body: Mapping[str, Any], code: int = 200) -> Response[bytes]:
    about = {"path": str(file.path), "revision": file.revision}
    return json_answer({**body, **about}, code, {"ETag": f'"{file.revision}"', "Cache-Control": "no-cache"})


def _engine(request: Asked) -> Engine:
    engine: Engine = request.app.state.alerts
    return engine
