"""`misstep backup`: copies the whole store, by the collector if one has it open, else by this process."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import httpx

from collector.commands.client import check, collector, followed
from collector.commands.progress import progress
from collector.settings import Settings
from collector.store.opening import StoreInUse, path_of
from collector.store.store import Store


def backup(settings: Settings, place: Path) -> Path:
    """Writes the copy to a new file, or into a folder under a name with the present time; returns its path.

    Raises OSError if it cannot be written, StoreError if the store cannot be opened.
    """
    if place.is_dir():
        place /= f"misstep-{datetime.now():%Y%m%d-%H%M%S}.duckdb"
    if place.exists():
        raise OSError(f"{place} is there already: name another file, or a folder")
    part = place.with_name(f"{place.name}.part")
    try:
        _write(settings, part)
        part.rename(place)
    finally:
        part.unlink(missing_ok=True)
    return place


def left_out(copy: Path) -> str:
    """A sentence about the archived events that the copy lists but does not contain; empty if there are none."""
    store = Store.open(f"duckdb:///{copy.absolute()}")
    try:
        rows = store.rows("select file, events from archived order by file")
    finally:
        store.close()
    folders = ", ".join(sorted({str(Path(row["file"]).parent.parent) for row in rows}))
    events = sum(row["events"] for row in rows)
    return f"{events} archived events are not in it: copy {folders} too ({len(rows)} Parquet files)" if rows else ""


def _write(settings: Settings, part: Path) -> None:
    path = path_of(settings.store)
    if path is not None and path.exists():
        try:
            store = Store.open(settings.store)
        except StoreInUse:
            pass
        else:
            try:
                store.copy_to(part)
            finally:
                store.close()
            return
    with collector(settings.collector_url, settings.query_token) as client:
        _await(client)
        _fetch(client, part)


def _await(client: httpx.Client) -> None:
    steps = followed(client, "/api/v1/backup")
    told = next(steps)
    with progress("copy, MB", told["of"] // 1_000_000) as advance:
        shown = 0
        for told in steps:
            advance(told["bytes"] // 1_000_000 - shown)
            shown = told["bytes"] // 1_000_000
    if told["state"] != "done":
        raise OSError(f"the collector at {client.base_url} could not copy its store; its log says why")


def _fetch(client: httpx.Client, part: Path) -> None:
    with (
        client.stream("GET", "/api/v1/backup/file") as answer,
        part.open("xb") as out,
        progress("fetch, MB", None) as advance,
    ):
        if not answer.is_success:
            answer.read()
            check(answer)
        written = 0
        for chunk in answer.iter_bytes():
            out.write(chunk)
            advance((written + len(chunk)) // 1_000_000 - written // 1_000_000)
            written += len(chunk)
        out.flush()
        os.fsync(out.fileno())
