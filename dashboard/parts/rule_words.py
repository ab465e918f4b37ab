"""Rules as text: made for a group, wrapped as a file to try, and what a trial came to. Pure functions, no Streamlit."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dashboard.parts import words

# How far back a rule looks, in words and as the rule file has it.
WINDOWS: Mapping[str, str] = {"5 min": "5m", "15 min": "15m", "1 h": "1h", "6 h": "6h", "a day": "24h"}
NAMED = 3  # firings in a sentence
MOST_NAME = 63


def for_group(
    group: Mapping[str, Any], *, name: str, window: str, threshold: float, notify: Sequence[str]
) -> dict[str, Any]:
    """A rule that fires when a group has more than so many errors within the window."""
    within = next((said for said, written in WINDOWS.items() if written == window), window)
    return {
        "name": name,
        "measure": "errors",
        "where": {"fingerprint": str(group["fingerprint"])},
        "window": window,
        "condition": f"> {threshold:g}",
        "summary": f"{_title(group)}: {{{{ value | number }}}} errors within {within}",
        "notify": list(notify),
    }


def _title(group: Mapping[str, Any]) -> str:
    """Class and tool, with nothing that a template could read."""
    said = " of ".join(str(group[key]) for key in ("error_class", "tool") if group.get(key)) or "one group of errors"
    return words.clip(re.sub(r"[{}%#\s]+", " ", said).strip(), 120)


def name_for(group: Mapping[str, Any], taken: Sequence[str]) -> str:
    """A name for a rule on a group that no other rule has."""
    said = f"{group.get('error_class') or 'errors'} {group.get('tool') or ''}"
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", said)
    name = re.sub(r"[^a-z0-9]+", "-", spaced.lower()).strip("-")[: MOST_NAME - 4].strip("-") or "errors"
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, 10_000))) if one not in taken)


def as_file(rule: Mapping[str, Any]) -> str:
    """A file with this rule alone: JSON, which is YAML."""
    return json.dumps({"rules": [rule]})


def as_text(rule: Mapping[str, Any]) -> str:
    """A rule as the API takes it."""
    return json.dumps(rule)


def file_of(text: str) -> str:
    """A file whose only rule is this text, with the same lines two further in and one further down."""
    first, *rest = text.split("\n")
    return "\n".join(["rules:", f"- {first}", *(f"  {line}" for line in rest)])


def name_in(text: str) -> str:
    """The name that the text of a rule gives it; "" if it gives none."""
    found = re.search(r"^name:[ \t]*[\"']?([a-z0-9-]+)", text, re.MULTILINE)
    return found[1] if found else ""


def fired(told: Mapping[str, Any], firings: Sequence[Mapping[str, Any]], when: Sequence[str]) -> str:
    """What a rule would have done, and at which times, written as `when`."""
    count = int(told.get("fired") or 0)
    if not count:
        return "It would **not have fired**."
    said = [
        f"{at} for {words.duration((one['seconds'] or 0) * 1000)}" if one.get("resolved") else f"{at} and until now"
        for one, at in zip(firings[:NAMED], when, strict=False)
    ]
    more = f" and {words.plural(count - NAMED, 'time')} more" if count > NAMED else ""
    pages = words.plural(told.get("pages"), "page")
    return f"It would have fired **{words.plural(count, 'time')}** ({pages}): {', '.join(said)}{more}."


def moments(firings: Sequence[Mapping[str, Any]]) -> list[datetime]:
    """When each firing began."""
    return [datetime.fromisoformat(one["fired"]) for one in firings]


def watches(rule: Mapping[str, Any], fingerprint: str) -> bool:
    """Whether a rule of the API is about this group alone."""
    where = rule.get("where")
    said = json.loads(where) if isinstance(where, str) else where or {}
    return isinstance(said, dict) and said.get("fingerprint") in (fingerprint, [fingerprint])
