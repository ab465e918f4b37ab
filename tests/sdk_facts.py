"""Writes sdk/misstep_sdk/facts.py and names.py from schemas/taxonomy.toml (`make facts`); a test compares them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from misstep_sdk.convert import key

ROOT = Path(__file__).parents[1]
FACTS = ROOT / "sdk" / "misstep_sdk" / "facts.py"
NAMES = FACTS.with_name("names.py")
PLACES = ("tool", "model")

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


NAMES_HEAD = '''"""What the classes are called elsewhere; made from schemas/taxonomy.toml by `make facts`."""

from __future__ import annotations

'''


def taxonomy() -> dict[str, Any]:
    """The table as it is written."""
    return tomllib.loads((ROOT / "schemas" / "taxonomy.toml").read_text())


def written() -> str:
    """The module of facts, as it must be."""
    return HEAD + "".join(_row(name, row) for name, row in taxonomy()["classes"].items()) + "}\n"


def written_names() -> str:
    """The module of names, as it must be: names in the form of `key`, without those that say nothing."""
    table = taxonomy()
    classes, generic = table["classes"], {key(name) for name in table["generic"]}
    names = {name: sorted({*map(key, row.get("aliases", ())), key(name)} - generic) for name, row in classes.items()}
    parts = [
        ("KNOWN_AS", "every class: its names, without case, signs, and a final Error or Exception", names),
        ("STATUSES", "classes: the HTTP statuses that mean them",
         {name: row["status"] for name, row in classes.items() if "status" in row}),
        ("STATUSES_OF_MODELS", "the same of a model's provider alone",
         {name: row["status_of"]["model"] for name, row in classes.items() if "model" in row.get("status_of", {})}),
        *((f"KNOWN_AS_OF_{place.upper()}S", f"the same where a {place} was asked",
           {name: sorted(set(map(key, row["aliases_of"][place]))) for name, row in classes.items()
            if place in row.get("aliases_of", {})}) for place in PLACES),
        *((f"BECOMES_OF_{place.upper()}S", f"classes: what the same error is called where a {place} was asked",
           {name: row["becomes"][place] for name, row in classes.items() if place in row.get("becomes", {})})
          for place in PLACES),
    ]  # fmt: skip
    return NAMES_HEAD + "\n".join(_mapping(*part) for part in parts)


def _mapping(name: str, said: str, rows: dict[str, Any]) -> str:
    lines = "".join(f"    {_literal(each)}: {_value(held)},\n" for each, held in rows.items() if held)
    return f"# {said[0].upper()}{said[1:]}.\n{name} = {{\n{lines}}}\n"


def _value(held: str | list[Any]) -> str:
    """A text, or a tuple of numbers or of words, these written as one text."""
    if isinstance(held, str):
        return _literal(held)
    return _literal(" ".join(held)) if isinstance(held[0], str) else repr(tuple(held))


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
    NAMES.write_text(written_names())
