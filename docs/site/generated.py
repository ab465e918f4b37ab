"""Pages of the site that are made of the program's own descriptions, and not in git.

Each function returns a page in Markdown: the API's addresses, the settings, the commands, the classes of errors, the
dependencies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig

from collector.api.describe import completed
from collector.api.meanings import columns
from collector.api.parameters import RANGE
from collector.classify.classify import load_taxonomy
from collector.cli.main import app
from collector.query.filters import BY_NAME
from collector.serve import routes
from collector.tables import load_toml, schemas

ADDRESSES = """\
# Addresses of the API

Made from `/openapi.json` of the collector, which has the same for machines. [The query API](api.md) explains what
all of them have in common: answers, filters, limits, errors.
"""
SETTINGS = """\
# All settings

`misstep settings` prints these texts. [Settings](configuration.md) explains how they are set.
"""
COMMANDS = "# All commands\n\nWhat `misstep COMMAND --help` prints. [Commands](commands.md) has those for every day.\n"
CLASSES = """\
# Every class of error

`GET /api/v1/classes` has the classes in force, your own included, with advice for the model.
[Classes of errors](taxonomy.md) explains how a class is chosen.
"""
CLASS_COLUMNS = "| class | who acts | what has to happen | advice for people |\n| --- | --- | --- | --- |\n"
DEPENDENCIES = """\
# Dependencies

Made from `pyproject.toml`. They are locked with hashes ([why](decisions/0001-lock-files.md)).

| package | for, because |
| --- | --- |
"""
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
FILTERS = {*BY_NAME, *(parameter.name for parameter in RANGE)}


def addresses() -> str:
    """Every address: what it does, its own parameters, the columns of its answer, an example."""
    bare = Litestar(routes(), openapi_config=OpenAPIConfig(title="Misstep", version="", render_plugins=[]))
    described = completed(bare.openapi_schema.to_schema())["paths"]
    found = sorted((path, method) for path, methods in described.items() for method in methods)
    return ADDRESSES + "".join(_address(method, path, described[path][method]) for path, method in found)


def _address(method: str, path: str, about: Mapping[str, Any]) -> str:
    parts = [f"\n## {method.upper()} {path}\n", f"{about.get('summary', '')}.\n", about.get("description", "") + "\n"]
    taken = about.get("parameters", [])
    filtered = sum(each["name"] in FILTERS for each in taken) > 10
    if own := [each for each in taken if not filtered or each["name"] not in FILTERS or each["required"]]:
        parts.append("| parameter | meaning | default |\n| --- | --- | --- |\n" + "".join(map(_parameter, own)))
    if filtered:
        parts.append("It also takes the [filters](api.md#filters).\n")
    parts += _body(about)
    for status, answer in about["responses"].items():
        content = answer.get("content", {}).get("application/json", {})
        if status.startswith("2") and "examples" in content:
            parts += _answer(f"{method} {path}", content["examples"]["example"]["value"])
    return "\n".join(part for part in parts if part.strip())


def _parameter(about: Mapping[str, Any]) -> str:
    schema = about["schema"]
    words = f": {', '.join(f'`{word}`' for word in schema['enum'])}" if "enum" in schema else ""
    usual = f"`{json.dumps(schema['default'])}`".replace('"', "") if "default" in schema else ""
    return f"| `{about['name']}` | {_cell(about.get('description', 'part of the address'))}{words} | {usual} |\n"


def _body(about: Mapping[str, Any]) -> Iterator[str]:
    for media_type, content in about.get("requestBody", {}).get("content", {}).items():
        shown = content["examples"]["example"]["value"]
        yield f"Body, `{media_type}`:\n"
        yield _code(shown if isinstance(shown, str) else json.dumps(shown, indent=1, ensure_ascii=False))


def _answer(name: str, shown: Any) -> Iterator[str]:
    if meanings := columns(name, shown):
        rows = "".join(f"| `{column}` | {_cell(text)} |\n" for column, text in meanings.items())
        yield f"| column | meaning |\n| --- | --- |\n{rows}"
    example = _code(json.dumps(shown, indent=1, ensure_ascii=False))
    yield f"<details><summary>Example of an answer</summary>\n\n{example}\n</details>\n"


def settings() -> str:
    """Every setting: variable, default, meaning."""
    rows = load_toml(schemas() / "settings.toml").items()
    return SETTINGS + "".join(
        f"\n## MISSTEP_{name.upper()}\n\n{about['text']}.\n\nIn `misstep.toml`: `{name}`. {_default(about)}\n"
        for name, about in rows
    )


def _default(about: Mapping[str, str]) -> str:
    return f"Default: `{about['default']}`." if "default" in about else "Not set by default."


def commands() -> str:
    """Every command with its parameters."""
    text = app.generate_docs(output_format="markdown", include_hidden=False)
    _, _, sections = text.partition("\n## misstep ")
    return COMMANDS + "\n## misstep " + re.sub(r"<([^>\n]+)>", r"`\1`", sections)


def classes() -> str:
    """Every class of the built-in taxonomy, and what follows from it."""
    text, before = CLASSES, ""
    for name, row in load_taxonomy().classes.items():
        if (category := f"{row.domain} / {row.category}") != before:
            text += f"\n## {category}\n\n{CLASS_COLUMNS}"
            before = category
        who = f"{row.attribution}, by mistake" if row.mistake else row.attribution
        text += f"| `{name}` | {who} | {row.recovery} | {_cell(row.advice_person)} |\n"
    return text


def reasons() -> dict[str, str]:
    """What `pyproject.toml` says of each dependency, in the comment beside it."""
    listed_first, _, _ = PROJECT.read_text().partition("\n[tool.")
    return dict(re.findall(r'^(?:  |[a-z]+ = \[)"([\w-]+)[^"]*"[,\]] +# (.+)$', listed_first, re.MULTILINE))


def dependencies() -> str:
    """Every dependency and its reason."""
    return DEPENDENCIES + "".join(f"| `{name}` | {_cell(reason)} |\n" for name, reason in reasons().items())


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _code(text: str) -> str:
    return f"```\n{text.strip()}\n```\n"
