"""Links to a trace viewer, from the template in MISSTEP_TRACE_URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

PLACES = ("trace_id", "span_id", "session")
NAMED = re.compile(r"\{(\w+)\}")  # braces of JSON in an address are none


def trace_link(template: str, known: Mapping[str, object]) -> str:
    """The template with its places filled from these fields, each percent-encoded; "" if one of them is not known."""
    names = [name for name in NAMED.findall(template) if name in PLACES]
    if not names or not all(known.get(name) for name in names):
        return ""
    values = {name: quote(str(known[name]), safe="", errors="replace") for name in names}
    return NAMED.sub(lambda place: values.get(place[1], place[0]), template)
