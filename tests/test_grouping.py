"""Groups as a person would make them: of messages written for this test, by others, by agents, and recorded, and of
errors as they are wrapped by programs that pass them on.

Every pair of messages is judged: precision is the share of pairs with the same fingerprint that a person groups
together, recall the share of the person's pairs that have the same fingerprint.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from collector.classify.template.fingerprint import fingerprint, template

DATA = Path(__file__).parent / "data"
WRITTEN = tomllib.loads((DATA / "error-groups.toml").read_text())
STRANGERS = tomllib.loads((DATA / "stranger-groups.toml").read_text())
AGENTS = tomllib.loads((DATA / "agent-groups.toml").read_text())
DRESSED = tomllib.loads((DATA / "dressed-groups.toml").read_text())
SERVICES = tomllib.loads((DATA / "service-groups.toml").read_text())
KEPT_BACK = tomllib.loads((DATA / "kept-back-groups.toml").read_text())
MIXED = tomllib.loads((DATA / "mixed-groups.toml").read_text())
RECORDED = [json.loads(line) for line in (DATA / "recorded-errors.jsonl").read_text().splitlines()]


def pairs(groups: Iterable[object]) -> int:
    return sum(size * (size - 1) // 2 for size in Counter(groups).values())


def f1(found: Sequence[tuple[object, object]]) -> tuple[float, float, float]:
    """Precision, recall and their harmonic mean, of (person's group, fingerprint) of each message."""
    both, ours, theirs = pairs(found), pairs(one for _, one in found), pairs(one for one, _ in found)
    return both / ours, both / theirs, 2 * both / (ours + theirs)


def test_written_messages_are_grouped_as_a_person_would() -> None:
    precision, recall, both = f1(
        [(name, fingerprint("E", "t", template(text))) for name, texts in WRITTEN.items() for text in texts]
    )
    assert both >= 0.95, (precision, recall)
    assert precision >= 0.98, "different errors have one template"


def test_recorded_messages_are_grouped_as_a_person_would() -> None:
    precision, recall, both = f1(
        [(row["group"], fingerprint(row["class"], "t", template(row["text"]))) for row in RECORDED]
    )
    assert both >= 0.95, (precision, recall)


@pytest.mark.parametrize(
    ("lots", "least"),
    [(STRANGERS, 0.94), (AGENTS, 0.94), (DRESSED, 0.91), (SERVICES, 0.86), (KEPT_BACK, 0.93), (MIXED, 0.96)],
    ids=["strangers", "agents", "dressed", "services", "kept back", "mixed"],
)
def test_messages_of_others_are_grouped_as_a_person_would(lots: dict[str, dict[str, list[str]]], least: float) -> None:
    found: list[tuple[object, object]] = [
        ((lot, name), (lot, fingerprint("E", "t", template(text))))
        for lot, groups in lots.items()
        for name, texts in groups.items()
        for text in texts
    ]
    precision, recall, both = f1(found)
    assert both >= least, (precision, recall)
    assert precision >= 0.98, "different errors have one template"


def test_the_measure_itself_tells_lumps_and_splits() -> None:
    assert f1([("a", 1), ("a", 1), ("b", 2)]) == (1.0, 1.0, 1.0)
    assert f1([("a", 1), ("a", 1), ("b", 1)]) == (1 / 3, 1.0, 0.5)
    assert f1([("a", 1), ("a", 1), ("a", 2)]) == (1.0, 1 / 3, 0.5)
