"""`misstep show`: one call, with a masked excerpt of the transcript around it, read from the person's own file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collector.commands.client import check, collector
from collector.sanitise.sanitise import Sanitiser
from collector.settings import Settings
from collector.transcripts.excerpt import excerpt
from collector.transcripts.find import Found, find, find_in
from collector.transcripts.tables import load_agents

FACTS = (
    "time", "service", "session", "subagent", "tool", "target", "outcome", "error_class", "attribution", "recovery",
    "message", "suggestion", "model", "repository", "provenance",
)  # fmt: skip


def show(call: str, settings: Settings, sanitiser: Sanitiser) -> Iterator[str]:
    """What is stored of the call with this id (its own, or the event's), then the records around it.

    Raises OSError where no such call is stored or the collector does not answer.
    """
    event = _event(call, settings)
    for name in FACTS:
        if event.get(name) is not None:
            yield f"{name:<12} {event[name]}"
    yield ""
    yield from _excerpt(event, settings, sanitiser)


def _event(call: str, settings: Settings) -> Mapping[str, Any]:
    with collector(settings.collector_url, settings.query_token) as client:
        found = client.get("/api/v1/search", params={"q": call, "limit": "5"})
        check(found)
        hits = [row for row in found.json()["rows"] if row["kind"] in ("call", "event") and row["event_id"]]
        if not hits:
            raise OSError(f"no call with the id {call!r} is stored; misstep import brings those of transcripts")
        answer = client.get(f"/api/v1/events/{hits[0]['event_id']}", follow_redirects=True)
        check(answer)
    event: Mapping[str, Any] = answer.json()
    return event


def _excerpt(event: Mapping[str, Any], settings: Settings, sanitiser: Sanitiser) -> Iterator[str]:
    about = event.get("attributes") or {}
    name, place = about.get("transcript.file"), about.get("transcript.offset")
    if not name or place is None:
        yield "No transcript is known: telemetry told this call."
        return
    found = _file(str(name), str(event["source"]), settings)
    if found is None:
        yield f"{name} is not there any more: agents remove their sessions after a while."
        return
    yield f"From {name}, masked; nothing of this is stored:"
    for line in excerpt(found, int(place), lambda text: sanitiser.scrub(text)[0]):
        yield f"{'→' if line.is_it else ' '} {line.text}"


def _file(name: str, source: str, settings: Settings) -> Found | None:
    """The agent's file of that name; of its path, what names a person was masked before it was stored."""
    agents = load_agents(*([settings.tables] if settings.tables else []))
    candidates = [agent for agent in agents.values() if source in (agent.id, agent.telemetry)]
    path = Path(name)
    if path.is_file():
        return next(iter(find_in(candidates, path)), None)
    files = [found for found in find(candidates, os.environ, Path.home()) if found.path.name == path.name]
    return max(files, key=lambda found: _alike(found.path, path), default=None)


def _alike(path: Path, other: Path) -> int:
    """How many parts of the two paths are equal."""
    return sum(one == two for one, two in zip(reversed(path.parts), reversed(other.parts), strict=False))
