"""Writes sdk/misstep_sdk/facts.py from schemas/taxonomy.toml (`make facts`); a test compares the two."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FACTS = ROOT / "sdk" / "misstep_sdk" / "facts.py"

HEAD = '''"""What follows from each class of error; made from schemas/taxonomy.toml by `make facts`."""

from __future__ import annotations

from typing import NamedTuple


class Facts(NamedTuple):
    """One class of the taxonomy. `retry_after` is in seconds; `details`: a person needs to see the text."""

    name: str
    domain: str
    category: str
    attribution: str
    mistake: bool
    recovery: str
    retryable: bool
    fatal: bool
    severity: str
    title: str
    advice_model: str
    advice_person: str
    details: bool = False
    retry_after: float | None = None


FACTS = {
'''


def written() -> str:
    """The whole module, as it must be."""
    classes = tomllib.loads((ROOT / "schemas" / "taxonomy.toml").read_text())["classes"]
    return HEAD + "".join(_row(name, row) for name, row in classes.items()) + "}\n"


def _row(name: str, row: dict[str, Any]) -> str:
    texts = ("domain", "category", "attribution", "mistake", "recovery", "retryable", "fatal", "severity")
    fields = [f"{key}={_literal(row[key])}" for key in (*texts, "title", "advice_model", "advice_person")]
    if row.get("details"):
        fields.append("details=True")
    if (delay_ms := _delay_ms(row)) is not None:
        fields.append(f"retry_after={delay_ms / 1000}")
    lines = "".join(f"        {field},\n" for field in fields)
    return f'    "{name}": Facts(\n        name="{name}",\n{lines}    ),\n'


def _literal(value: str | bool) -> str:
    """Python's literal, texts in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _delay_ms(row: dict[str, Any]) -> int | None:
    """The class's own delay, or else the one that a seed names for it: Loopr's waits of 5, 2 and 1 s."""
    delays = [row, *row.get("overrides", {}).values()]
    return next((each["retry_after_ms"] for each in delays if "retry_after_ms" in each), None)


if __name__ == "__main__":
    FACTS.write_text(written())
