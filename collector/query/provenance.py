"""Whether two sides of a comparison are known from different places.

Transcripts tell calls that telemetry never sends, such as those of unknown tools: error rates rise with an import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.query.compare import Sides, sides_of
from collector.query.filters import Selection
from collector.query.hours import counted
from collector.query.queries import Complete
from collector.query.statement import Row
from collector.query.verdicts import percent

APART = 0.1  # between the shares of both sides that are known from transcripts


def caution(state: Any, selection: Selection, options: Mapping[str, Any]) -> Complete:
    """Adds to the body of a comparison `caution`, a sentence or null."""
    sides = sides_of(selection, options.get("dimension"), options.get("a"), options.get("b"))
    said = _caution(state.store.rows(*_counts(sides)))

    def complete(body: Row, rows: Sequence[Row]) -> None:
        body["caution"] = said

    return complete


def _counts(sides: Sides) -> tuple[str, Mapping[str, object]]:
    selection, named = sides.selection, [sides.dimension] if sides.dimension else []
    rows = counted(selection, ["provenance", *named], cut="" if named else "$middle_ns")
    imported = rows.count("provenance is not null")
    sql = f"""
      select side, {rows.count()} as calls, {imported} as imported
      from (select *, {sides.sql} as side from {rows.source} where {selection.where()})
      where side is not null group by side
    """
    return sql, {**selection.params(), **sides.params}


def _caution(rows: Sequence[Row]) -> str | None:
    shares = {row["side"]: row["imported"] / row["calls"] for row in rows if row["calls"]}
    if len(shares) < 2 or abs(shares["a"] - shares["b"]) <= APART:
        return None
    told = " and ".join(f"{percent(shares[side])} {where}" for side, where in (("a", "on side a"), ("b", "on side b")))
    return (
        f"Both sides are not known from the same places: of the events, {told} come from transcripts, which tell calls "
        "that telemetry never sends. A part of the difference may be that; filter by provenance to compare like with "
        "like."
    )
