"""Texts of errors that differ in nothing but a number inside a name: what such a text means is found once for all."""

from __future__ import annotations

import re

NUMBER_INSIDE = re.compile(r"_\d+")


def alike(text: str) -> str:
    """The text with zeros for the digits of numbers inside names, such as `module_17.py`; as long as it was."""
    return NUMBER_INSIDE.sub(_zeros, text) if "_" in text else text


def _zeros(found: re.Match[str]) -> str:
    return "_" + "0" * (len(found[0]) - 1)
