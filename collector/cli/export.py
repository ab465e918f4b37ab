"""`misstep export` and `misstep sql`: events as a file, and as rows of a statement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from collector.cli.options import End, Filters, Start, settings_from
from collector.plural import plural
from collector.streams import in_utf8
from collector.visible import say


def export(
    *where: Filters,
    format: Annotated[Literal["parquet", "csv", "jsonl"], Parameter(help="Format of the file.")],
    output: Annotated[Path | None, Parameter(help="The file; default events.parquet, .csv or .jsonl.")] = None,
    since: Start = "-30d",
    until: End = "now",
) -> int:
    """Write the events of a range to a file.

    They come from the collector at MISSTEP_COLLECTOR_URL, by default that of MISSTEP_HTTP.
    """
    settings = settings_from()
    from collector.commands.export import export

    path = output or Path(f"events.{format}")
    rows = export(settings.collector_url, path, format, [*where, f"from={since}", f"to={until}"], settings.query_token)
    out = sys.stdout if path.is_file() else sys.stderr  # such as /dev/stdout
    say(f"{plural(rows, 'event')} in {path}", file=out)
    return 0


def sql(
    statement: Annotated[str, Parameter(help="One SELECT over the table events.")],
    *where: Filters,
    since: Start = "-24h",
    until: End = "now",
    limit: Annotated[int, Parameter(help="Most rows to return, 1 to 10,000.")] = 100,
    format: Annotated[Literal["table", "csv", "jsonl"], Parameter(help="Format of the rows.")] = "table",
) -> int:
    """Run a read-only SQL statement over the events of a range.

    It is answered by the collector at MISSTEP_COLLECTOR_URL, by default that of MISSTEP_HTTP.
    """
    settings = settings_from()
    from collector.commands.sql import sql

    if format != "table":  # for programs
        in_utf8()
    asked = [*where, f"from={since}", f"to={until}", f"limit={limit}"]
    found = sql(settings.collector_url, statement, asked, format, settings.query_token)
    shows = say if format == "table" or sys.stdout.isatty() else print
    shows(found)
    return 0
