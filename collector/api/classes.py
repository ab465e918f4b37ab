"""Every class of error in the taxonomy in force: its meaning, its consequences and its advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.api.parameters import ALL, sort_by
from collector.classify.taxonomy import ErrorClass

TAKEN = (sort_by("category"), ALL)
TYPES = {
    "error_class": "varchar", "domain": "varchar", "category": "varchar", "title": "varchar", "attribution": "varchar",
    "mistake": "boolean", "recovery": "varchar", "retryable": "boolean", "fatal": "boolean", "severity": "varchar",
    "details": "boolean", "retry_after_ms": "bigint", "advice_model": "varchar", "advice_person": "varchar",
}  # fmt: skip


def rows(classes: Mapping[str, ErrorClass]) -> list[dict[str, Any]]:
    """One row for each class, in the order of the table."""
    told = [name for name in TYPES if name != "error_class"]
    return [{"error_class": name, **{field: getattr(row, field) for field in told}} for name, row in classes.items()]
