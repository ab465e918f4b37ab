"""Values that no agent should send, in every attribute that a table reads: they cost nothing but themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.recognise.sources import Source
from tests.doors import held, logs, pipeline, spans, taken

ABSURD: tuple[Any, ...] = (
    2**31, -(2**31) - 1, 2**63 - 1, -(2**63), -1, 0, 1e308, -1e308, 5e-324, 1.5, True, False,
    "", "null", "none", "NaN", "1e400", "-0", "9" * 50, "x" * 70_000, "a.b.c" * 200, "(" * 500, "%s" * 50, "\x00", "²",
    "{'a': (1,", '{"a":', "[1,2", "1795630000000000000", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59.999999999Z",
    "PT1H", [], {}, [[1]], {"a": {"b": [1, {"c": "d"}]}},
)  # fmt: skip


def bodies(source: Source) -> Iterator[bytes]:
    """Each example of the table's rows, as often as it has attributes, each time with another one absurd."""
    dice = random.Random(source.id)
    for row in source.rows:
        for text in row.examples:
            given = json.loads(text.partition(" => ")[0])
            of_span = "span" in row.signals
            known = {"body": given.get("body")} if not of_span else {"status": given.get("status", 0)}
            records = [
                {
                    "name": given.get("name", ""),
                    **known,
                    "attributes": given.get("attributes", {}) | {key: dice.choice(ABSURD)},
                }
                for key in given.get("attributes") or ["absurd"]
            ]
            around = {"service": given.get("resource", {}).get("service.name", ""), "scope": given.get("scope", "")}
            yield spans(*records, **around) if of_span else logs(*records, **around)


SOURCES = [source for source in pipeline().sources.sources if any(row.examples for row in source.rows)]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.id)
def test_absurd_values_are_read_and_stored(store: Store, source: Source) -> None:
    batches = [taken(body, "traces" if b"resourceSpans" in body[:20] else "logs") for body in bodies(source)]
    rows = held(store, batches)
    assert len(rows) <= sum(batch.records for batch in batches)
    assert not [batch.warning for batch in batches if "failed" in batch.warning]
