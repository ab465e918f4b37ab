"""The form of a body, and the two of an answer: JSON, or its rows as an Arrow IPC stream if `Accept` prefers that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response

from collector.engine.duckdb.arrow import arrow_stream
from collector.errors import Rejected
from collector.query.statement import arranged, order_by
from collector.times import iso_ns

ARROW = "application/vnd.apache.arrow.stream"

Said = TypeVar("Said", bound=msgspec.Struct)


def read_body(body: bytes, kind: type[Said], what: str) -> Said:
    """A body of JSON; `what` should have been sent. Raises Rejected."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"send {what} as JSON: {error}") from None


def wants_arrow(accept: str) -> bool:
    """Whether an `Accept` header names Arrow and does not prefer JSON."""
    wanted: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        weight = next((word[2:] for word in parameters if word.startswith("q=")), "1")
        try:
            wanted[name] = float(weight)
        except ValueError:
            wanted[name] = 1.0
    return wanted.get(ARROW, 0) > 0 and wanted[ARROW] >= wanted.get("application/json", 0)


def json_answer(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response[bytes]:
    """A JSON answer."""
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=headers or {})


def rows_answer(
    accept: str, rows: Sequence[dict[str, Any]], types: Mapping[str, str], **beside: Any
) -> Response[bytes]:
    """Rows, given as for JSON, in the form that `accept` prefers; `beside` is added in JSON only.

    In Arrow, they have the columns of `types`: times as timestamps, lists and objects as JSON text.
    """
    if not wants_arrow(accept):
        return json_answer({"rows": rows, **beside})
    plain = [{name: _cell(kind, row[name]) for name, kind in types.items()} for row in rows]
    return Response(arrow_stream(plain, types), media_type=ARROW)


def list_answer(
    request: Request[Any, Any, Any],
    rows: Sequence[dict[str, Any]],
    types: Mapping[str, str],
    options: Mapping[str, Any],
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> Response[bytes]:
    """The rows, with `sort` and `limit` from the options applied, and whether there are more. Raises BadParameter."""
    sort, limit = options.get("sort", ()), options["limit"]
    order_by(sort, [name for name, kind in types.items() if kind != "json"])
    beside = {"truncated": len(rows) > limit, **beside}
    return rows_answer(request.headers.get("accept", ""), arranged(rows, sort)[:limit], types, **beside)


def _cell(kind: str, value: Any) -> Any:
    if value is None:
        return None
    return iso_ns(value) if kind == "timestamp" else msgspec.json.encode(value).decode() if kind == "json" else value
