"""`misstep backup`: copies the whole store, by the collector if one has it open, else by this process."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import httpx

from collector.commands.client import check, check_store, collector, followed
from collector.commands.naming import naming
from collector.commands.progress import progress
from collector.engine.duckdb.copy import copy_closed
from collector.engine.duckdb.open import path_of
from collector.errors import StoreInUse
from collector.journal.journal import check_stored
from collector.settings import Settings, without_user


def backup(settings: Settings, place: Path) -> Path:
    """Writes the copy to a new file, or into a folder under a name with the present time; returns its path.

    Raises OSError if it cannot be written, StoreError if the store cannot be opened.
    """
    if place.is_dir():
        place /= f"misstep-{datetime.now():%Y%m%d-%H%M%S}.duckdb"
    if place.exists():
        raise OSError(f"{place} is there already: name another file, or a folder")
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        _write(settings, part, place)
        with naming(place, part):
            part.rename(place)
    finally:
        part.unlink(missing_ok=True)
    return place


def _write(settings: Settings, part: Path, place: Path) -> None:
    path = path_of(settings.store)
    there = path is not None and path.exists()
    if there:
        with suppress(StoreInUse), naming(place, part):
            copy_closed(settings.store, part, partial(check_stored, otherwise="and a copy would lack them"))
            return
    elif settings.store != Settings().store:  # it was named
        raise OSError(f"there is no store at {path or settings.store}")
    with collector(settings.collector_url, settings.admin_token or settings.query_token) as client:
        if there:
            check_store(client, settings.store)
        _await(client)
        with naming(place, part):
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
        raise OSError(
            f"the collector at {without_user(str(client.base_url))} could not copy its store; its log says why"
        )


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
