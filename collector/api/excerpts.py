"""What stood around an imported call in the transcript, for readers at the machine where the file is."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import structlog
from litestar import Request, get
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.rights import MAINTAIN
from collector.api.auditing import AUDIT
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.errors import Rejected
from collector.query.filters import whole_number
from collector.settings import LOOPBACK
from collector.transcripts.excerpt import Line, excerpt, known_file
from collector.transcripts.tables import load_agents

SAID = {
    "read": "From {file}, masked; nothing of this is stored.",
    "telemetry": "No transcript is known: telemetry told this call.",
    "gone": "{file} is not among the sessions that agents keep on this machine: the agent has removed it, or it was"
    " imported from another machine or folder.",
    "changed": "{file} is not as it was when it was imported: there is no record at this place any more.",
    "refused": "{file} cannot be read by the collector.",
}
ABOUT = (
    "select source, attributes ->> '$.\"transcript.file\"' as file,"
    " try_cast(attributes ->> '$.\"transcript.offset\"' as bigint) as place from events where event_id = $event_id"
)

log = structlog.get_logger()


@get(
    "/api/v1/events/{event_id:str}/excerpt",
    opt={RIGHT: MAINTAIN, WHOLE: True, AUDIT: "read"},
    summary="What stood around an imported call in the agent's own file, masked, read now and not stored",
)
async def event_excerpt(request: Request[Any, Any, Any], event_id: FromPath[str]) -> dict[str, Any]:
    """`rows`, and what is `said` of them; `state` is read, telemetry, gone, changed or refused.

    A collector that listens beyond loopback reads nobody's files: Rejected 403.
    """
    read_none(request.scope["query_string"])
    state = request.app.state
    if state.settings.http.host not in LOOPBACK:
        raise Rejected("only a collector on loopback reads files: misstep show CALL does so on your machine", 403)
    number = whole_number("event_id", event_id, 0, 2**64 - 1)
    return await asyncio.to_thread(_told, state, number)


EXCERPT_ROUTES: list[ControllerRouterHandler] = [event_excerpt]


def _told(state: Any, number: int) -> dict[str, Any]:
    rows = state.local.rows(ABOUT, {"event_id": number})
    if not rows:
        raise Rejected(f"there is no event with event_id {number}: it never existed, or retention has removed it", 404)
    [row] = rows
    outcome, lines = _read(state, row)
    return {
        "state": outcome, "said": SAID[outcome].format(file=row["file"]), "file": row["file"],
        "rows": [{"text": line.text, "is_it": line.is_it} for line in lines],
    }  # fmt: skip


def _read(state: Any, row: dict[str, Any]) -> tuple[str, list[Line]]:
    if not row["file"] or row["place"] is None:
        return "telemetry", []
    tables = load_agents(*([state.settings.tables] if state.settings.tables else []))
    agents = [one for one in tables.values() if row["source"] in (one.id, one.telemetry)]
    try:
        found = known_file(row["file"], agents, os.environ, Path.home(), state.scrub)
        if found is None:
            return "gone", []
        lines = list(excerpt(found, row["place"], state.scrub))
    except (OSError, ValueError, msgspec.MsgspecError) as error:  # its text may quote the file
        log.warning("a transcript could not be read", kind=type(error).__name__)
        return "refused", []
    return ("read", lines) if lines else ("changed", [])
