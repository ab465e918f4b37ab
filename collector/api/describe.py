"""The OpenAPI description of the query API, from the same tables that read its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from litestar.openapi.spec import (
    Example,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Reference,
    RequestBody,
    Schema,
)
from litestar.openapi.spec import Parameter as OpenAPIParameter
from litestar.openapi.spec.enums import OpenAPIFormat

from collector.api.meanings import about, columns, row_of
from collector.api.parameters import MOST_ROWS, RANGE, Parameter
from collector.api.representations import ARROW
from collector.query.filters import BY_NAME, Dimension
from collector.tables import schemas
from collector.times import DURATION

TEXT = Schema(type=OpenAPIType.STRING)
PROBLEM = Schema(
    type=OpenAPIType.OBJECT,
    properties={
        "error": Schema(
            type=OpenAPIType.OBJECT,
            properties={
                "parameter": TEXT,
                "value": TEXT,
                "message": TEXT,
                "allowed": Schema(type=OpenAPIType.ARRAY, items=TEXT),
            },
        )
    },
)
ROW = Schema(type=OpenAPIType.OBJECT)
ROWS = Schema(
    type=OpenAPIType.OBJECT,
    properties={
        "rows": Schema(type=OpenAPIType.ARRAY, items=ROW),
        "truncated": Schema(type=OpenAPIType.BOOLEAN),
        "exact": Schema(type=OpenAPIType.BOOLEAN),
        "from": Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.DATE_TIME),
        "to": Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.DATE_TIME),
        "next": Schema(type=[OpenAPIType.STRING, OpenAPIType.NULL]),
        "after": TEXT,
        "summary": Schema(type=[OpenAPIType.OBJECT, OpenAPIType.NULL]),
        "kinds": Schema(type=OpenAPIType.OBJECT),
        "caution": Schema(type=[OpenAPIType.STRING, OpenAPIType.NULL]),
        "since": Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.DATE_TIME),
        "ids_from": Schema(type=OpenAPIType.INTEGER),
        "newest": Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.DATE_TIME),
    },
    required=["rows"],
)
REFUSALS = {
    "400": "A parameter is wrong: its name, its value, and what is allowed",
    "401": "A token is needed",
    "403": "The token lacks the right, or the Host header is not allowed",
    "404": "There is nothing with this name or id",
    "409": "Not in the present state; the message says why",
    "412": "The rule file has changed since it was read",
    "413": "The body is too large",
    "415": "The body is not application/json",
    "428": "The header If-Match is missing",
    "429": "The token has reached a limit, or another statement is running",
    "503": "The query took too long or needed too much memory: narrow the range, or lower the limit",
}


EVERYWHERE = ("400", "401", "403")
ALWAYS_REFUSED = (*EVERYWHERE, "503")  # of addresses that run a query
REFUSED_BODY: Mapping[str, Sequence[str]] = {
    "mark": ("413", "415"),
    "lesson": ("413", "415"),
    "sql": ("413", "415", "429"),
}  # by key of BODIES
CHANGING = ("409", "412", "413", "415", "428")  # the rule file
# Refusals of addresses of which nothing but the handler describes them.
ALSO_REFUSED: Mapping[str, Sequence[str]] = {
    "post /api/v1/silences": ("415",),
    "delete /api/v1/silences/{id}": ("404",),
    "get /api/v1/rules/{name}": ("404", "409"),
    "post /api/v1/rules": CHANGING,
    "put /api/v1/rules/{name}": ("404", *CHANGING),
    "delete /api/v1/rules/{name}": ("404", "409", "412", "428"),
    "get /api/v1/receivers": ("409",),
    "post /api/v1/receivers": CHANGING,
    "delete /api/v1/receivers/{name}": ("404", "409", "412", "428"),
    "post /api/v1/marks": ("413", "415"),
    "delete /api/v1/marks/{mark_id}": ("404",),
    "post /api/v1/views": ("413", "415"),
    "delete /api/v1/views/{view_id}": ("404",),
    "post /api/v1/receivers/{name}/test": ("404", "415"),
    "get /api/v1/events/{event_id}/excerpt": ("404",),
    "post /api/v1/forget": ("415",),
    "post /api/v1/sanitise": ("415",),
    "post /api/v1/backup": ("409", "415"),
    "get /api/v1/backup/file": ("409",),
    "post /api/v1/tokens": ("409", "413", "415"),
    "delete /api/v1/tokens/{name}": ("404",),
}


WHOLE = f"^{DURATION}$"
TYPED = ("number", "flag")  # kinds of parameters whose values are no text

# Bodies of requests: the fields, each with an example.
BODIES: Mapping[str, Mapping[str, Any]] = {
    "mark": {
        "state": "resolved", "version": "1.8.1", "service": "coder", "issue": "https://tracker.example/AGENT-42",
        "note": "the tool's path was wrong",
    },
    "lesson": {"state": "adopted", "time": "2026-11-20T09:00:00Z", "known_by": "commit"},
    "sql": {"sql": "select tool, count(*) as n from events group by all order by n desc"},
}  # fmt: skip
# Fields that do not go with those of the example.
OTHER_FIELDS: Mapping[str, Mapping[str, Schema]] = {
    "mark": dict.fromkeys(("until_events", "until_sessions"), Schema(type=OpenAPIType.INTEGER, minimum=1)),
    "lesson": {"for": TEXT},
}
REQUIRED: Mapping[str, list[str]] = {"sql": ["sql"], "lesson": ["state"]}  # fields of bodies that must be there
# Example bodies for addresses of which nothing but the handler describes the body.
TAKEN_AS_IS: Mapping[str, Mapping[str, Any]] = {
    "post /v1/events": {
        "tool": "apply_diff", "outcome": "error", "error_class": "DiffApplyFailedError", "message": "no such hunk",
        "service": "coder", "session": "task-7", "call_id": "call-42", "time": "2026-11-21T21:41:51.123Z",
        "params": {"path": "a.py"}, "duration_ms": 12.5,
    },
}  # fmt: skip


# Examples: a row of each list, by its path; and complete answers, by method and path.
ANSWERS: Mapping[str, Mapping[str, Any]] = msgspec.json.decode(schemas().joinpath("answers.json").read_bytes())
ROWS_SHOWN = {re.sub(r":\w+}", "}", path): row for path, row in ANSWERS.items() if path.startswith("/")}
RANGE_SHOWN = {"from": "2026-11-20T21:41:51.000000000Z", "to": "2026-11-21T21:41:51.000000000Z"}


def operation(
    takes: Sequence[Parameter], filters: bool, one: str, body: str = "", answers: str = "", *, tagged: bool = True
) -> type[Operation]:
    """The operation of an address that takes these parameters, and with `filters` also the filters.

    `body` is a key of `BODIES`, `answers` a key of `ANSWERS`; `tagged` answers have an ETag.
    """
    named = {parameter.name for parameter in takes}
    described = [_parameter(parameter) for parameter in takes]
    if filters:
        described += map(_parameter, RANGE)
        described += [_filter(dimension) for name, dimension in BY_NAME.items() if name not in named]
    responses = {"200": _answer(one, ANSWERS.get(answers)), **_refusals(one, body)}
    if tagged and not body:
        responses["304"] = OpenAPIResponse("Nothing has been written since the answer with this ETag")
    taken = _body(body) if body else None

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            self.parameters = list(described)
            self.responses = dict(responses)
            self.request_body = taken

    return Described


def _answer(one: str, row: Any) -> OpenAPIResponse:
    """An answer of one object, or of rows; `row` is the example of either."""
    if row is not None and not one:
        row = {"rows": [row], **RANGE_SHOWN, "truncated": False, "exact": True}
    examples: dict[str, Example | Reference] | None = {"example": Example(value=row)} if row else None
    return OpenAPIResponse(
        description=f"The {one}" if one else "The rows, and whether there are more",
        content={
            "application/json": OpenAPIMediaType(schema=ROW if one else ROWS, examples=examples),
            ARROW: OpenAPIMediaType(),
        },
    )


def _refusals(one: str, body: str) -> dict[str, OpenAPIResponse]:
    """What an address may refuse with."""
    possible = [*ALWAYS_REFUSED, *REFUSED_BODY.get(body, ())]
    if one:
        possible.append("404")
    content = {"application/json": OpenAPIMediaType(schema=PROBLEM)}
    return {status: OpenAPIResponse(REFUSALS[status], content=content) for status in sorted(possible)}


def taking(media_type: str, example: object, takes: Sequence[Parameter] = ()) -> type[Operation]:
    """The operation of an address that reads its body itself: its media type, an example of it, and parameters."""
    shown = OpenAPIMediaType(schema=Schema(), examples={"example": Example(value=example)})

    @dataclass
    class Taking(Operation):
        def __post_init__(self) -> None:
            self.request_body = RequestBody({media_type: shown}, required=True)
            self.parameters = [_parameter(one) for one in takes]

    return Taking


def completed(description: dict[str, Any]) -> dict[str, Any]:
    """The description with what is listed by method and path: meanings, examples of answers and bodies, refusals."""
    for path, methods in description["paths"].items():
        for method, described in methods.items():
            _complete(described, f"{method} {path}", everywhere=path.startswith("/api/v1/"))
    return description


def _complete(described: dict[str, Any], name: str, *, everywhere: bool) -> None:
    if name in TAKEN_AS_IS:
        described["requestBody"] = {"content": {"application/json": _shown(TAKEN_AS_IS[name])}, "required": True}
    problem = {"application/json": {"schema": PROBLEM.to_schema()}}
    for status in (*(EVERYWHERE if everywhere else ()), *ALSO_REFUSED.get(name, ())):
        described["responses"].setdefault(status, {"description": REFUSALS[status], "content": problem})
    if text := about(name):
        described["description"] = text
    for status, answer in described["responses"].items():
        if status.startswith("2"):
            content = answer.get("content", {})
            if name in ANSWERS:
                _exemplify(content, ANSWERS[name])
            _add_nulls(content.get("application/json", {}), name.partition(" ")[2].removeprefix("/api/v1"))
            _explain(content.get("application/json", {}), name)


def _add_nulls(content: dict[str, Any], path: str) -> None:
    """Puts back what Litestar leaves out of an example: columns that are null."""
    if path in ROWS_SHOWN and (examples := content.get("examples")):
        whole = "rows" in examples["example"]["value"]
        examples["example"]["value"] |= {"rows": [ROWS_SHOWN[path]]} if whole else ROWS_SHOWN[path]


def _explain(content: dict[str, Any], name: str) -> None:
    """Gives the schema of an answer, which has an example, the meaning of each of its columns."""
    shown = content.get("examples", {}).get("example", {}).get("value")
    if not (meanings := columns(name, shown)):
        return
    explained: dict[str, Any] = {column: {"description": text} for column, text in meanings.items()}
    if row_of(name, shown) is not shown:
        explained = {"rows": {"type": "array", "items": {"type": "object", "properties": explained}}}
    schema = content["schema"]
    content["schema"] = {**schema, "properties": {**schema.get("properties", {}), **explained}}


def _exemplify(content: dict[str, Any], shown: Any) -> None:
    """Adds an example to each media type of an answer."""
    for media_type in content.keys() & {"application/json", "text/plain"}:
        content[media_type] |= _shown(shown)
    if "application/json" in content and isinstance(shown, dict):
        content["application/json"]["schema"] = ROW.to_schema()


def _shown(value: Any) -> dict[str, Any]:
    return {"examples": {"example": {"value": value}}}


def _body(name: str) -> RequestBody:
    example = BODIES[name]
    schema = Schema(
        type=OpenAPIType.OBJECT,
        properties={**dict.fromkeys(example, TEXT), **OTHER_FIELDS.get(name, {})},
        required=REQUIRED.get(name),
        additional_properties=False,
    )
    shown = OpenAPIMediaType(schema=schema, examples={"example": Example(value=dict(example))})
    return RequestBody({"application/json": shown}, required=True)


def _parameter(parameter: Parameter) -> OpenAPIParameter:
    text, example = parameter.text, parameter.example
    if parameter.kind == "words" and parameter.choices:
        text += f"; any of {', '.join(parameter.choices)}, comma-separated"
    return OpenAPIParameter(
        name=parameter.name,
        param_in="path" if parameter.path else "query",
        description=text,
        required=parameter.path or parameter.needed,
        schema=_schema(parameter),
        examples={"example": Example(value=msgspec.json.decode(example) if parameter.kind in TYPED else example)},
    )


def _schema(parameter: Parameter) -> Schema:
    match parameter.kind:
        case "number":
            return Schema(type=OpenAPIType.INTEGER, minimum=1, maximum=MOST_ROWS, default=parameter.default)
        case "duration":
            usual = parameter.example if parameter.default else None
            return Schema(type=OpenAPIType.STRING, pattern=WHOLE, default=usual)
        case "words":
            either = "|".join(map(re.escape, parameter.choices))
            return Schema(type=OpenAPIType.STRING, pattern=f"^({either})(,({either}))*$" if either else None)
        case "id":
            return Schema(type=OpenAPIType.STRING, pattern="^[0-9]{1,20}$")
        case "flag":
            return Schema(type=OpenAPIType.BOOLEAN, default=parameter.default)
    return Schema(type=OpenAPIType.STRING, enum=list(parameter.choices) or None, default=parameter.default or None)


@cache  # one object for all addresses: there are some fifty of each
def _filter(dimension: Dimension) -> OpenAPIParameter:
    kind = {"flag": "true or false", "integer": "integers", "id": "64-bit ids"}.get(dimension.type, "values")
    allowed = f" ({', '.join(dimension.allowed)})" if dimension.allowed else ""
    return OpenAPIParameter(
        name=dimension.name,
        param_in="query",
        description=f"{dimension.text}: {kind}{allowed}, comma-separated, ! before one for not, empty for none",
        required=False,
        schema=TEXT,
    )
