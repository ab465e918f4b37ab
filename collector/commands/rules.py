"""Tries the rules of a file on what a collector has stored, and describes in lines what would have happened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collector.alerts.notify import format_value
from collector.alerts.rulefile import load_rules
from collector.alerts.send import tell
from collector.alerts.summary import duration
from collector.commands.client import collector, said
from collector.commands.progress import progress
from collector.plural import plural
from collector.visible import say

SHOWN_FIRINGS = 5
YAML = {"Content-Type": "application/yaml"}


def try_rules(path: Path, what: str, url: str, token: str = "", **params: str) -> Iterator[dict[str, Any]]:
    """The collector's row for each rule of a file, one after the other; `what` is backtest or suggest.

    Raises RuleError if the file has mistakes, OSError if the collector does not answer or refuses.
    """
    rules = load_rules(path).rules
    body = path.read_bytes()
    with progress(what, len(rules)) as advance, collector(url, token) as client:
        for rule in rules:
            answer = client.post(
                f"/api/v1/rules/{what}", content=body, params={**params, "rule": rule.name}, headers=YAML
            )
            if not answer.is_success:
                raise OSError(f"rule {rule.name}: the collector answered {answer.status_code}: {said(answer)}")
            (row,) = answer.json()["rows"]
            advance()
            yield row


def backtested(row: dict[str, Any]) -> str:
    """What a rule would have done, in lines."""
    if not row["fired"]:
        return f"{row['name']}: would not have fired"
    lines = [
        f"{row['name']}: would have fired {_times(row['fired'])}, {duration(row['firing_seconds'])} in all: "
        f"{plural(row['pages'], 'page')}, {plural(row['notifications'], 'message')}"
    ]
    for firing in row["firings"][-SHOWN_FIRINGS:]:
        labels = ", ".join(f"{name} {value}" for name, value in firing["labels"].items() if value)
        sessions = ", ".join(str(one["session"]) for one in firing["sessions"][:3])
        more = f" and {len(firing['sessions']) - 3} more" if len(firing["sessions"]) > 3 else ""
        lasted = duration(firing["seconds"]) + ("" if firing["resolved"] else ", still firing at the end")
        peak = format_value(row["measure"], firing["peak"])
        lines.append(
            f"  {firing['fired'][:19]}Z for {lasted}, {row['condition']} was {peak}"
            + (f" ({labels})" if labels else "")
            + (f"; sessions {sessions}{more}" if sessions else "")
        )
    if len(row["firings"]) > SHOWN_FIRINGS:
        lines.insert(1, f"  … {len(row['firings']) - SHOWN_FIRINGS} earlier ones, and the last {SHOWN_FIRINGS}:")
    return "\n".join(lines)


def suggested(row: dict[str, Any]) -> str:
    """The suggested condition of a rule, in a line."""
    found = row["suggested"]
    if found is None:
        return f"{row['name']}: no suggestion: there are no values, or every condition would have paged more often"
    recover = f', recover: "{found["recover"]}"' if found["recover"] else ""
    return (
        f'{row["name"]}: condition: "{found["condition"]}"{recover} would have paged {_times(found["pages_per_week"])} '
        f'a week (written: "{row["condition"]}")'
    )


def notify_test(path: Path, name: str) -> int:
    """Sends a test message to each address of a receiver, and prints the results."""
    import time

    receivers = load_rules(path).receivers
    asked = [receiver for receiver in receivers if receiver.name == name]
    if not asked:
        known = ", ".join(dict.fromkeys(receiver.name for receiver in receivers)) or "none"
        say(f"{path}: there is no receiver {name!r}; there are: {known}", file=sys.stderr)
        return 2
    rows = [tell(receiver, time.time_ns()) for receiver in asked]
    for row in rows:
        say(f"{row['receiver']}: {'sent' if row['sent'] else row['error']}")
    return 0 if all(row["sent"] for row in rows) else 1


def _times(number: float) -> str:
    return "once" if number == 1 else f"{number:g} times"
