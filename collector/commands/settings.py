"""Lists every setting: its variable, its default, what it means. The texts are rows of `schemas/settings.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import fill

from collector.tables import load_toml, schemas

WIDTH = 100
_LINK = re.compile(r"\[([^\[\]]+)\]\([^()]*\)")


def lines() -> Iterator[str]:
    """Three lines for each setting, the last one empty."""
    for name, about in load_toml(schemas() / "settings.toml").items():
        default = f", by default {about['default']}" if "default" in about else ""
        yield f"{name} (MISSTEP_{name.upper()}){default}"
        yield fill(_LINK.sub(r"\1", about["text"]), WIDTH, initial_indent="    ", subsequent_indent="    ")
        yield ""
