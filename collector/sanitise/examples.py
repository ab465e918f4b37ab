"""Runs the examples of a user's own redaction rules whenever they are loaded. Tests do this for the built-in rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from collector.sanitise.redactions import Rule, load_rules, own_rules
from collector.sanitise.sanitise import Sanitiser
from collector.tables import TableError

SHOWN = 200  # characters of a counter-example in a message


def check_cuts(sanitiser: Sanitiser, paths: Iterable[Path]) -> None:
    """Raises TableError with every example of the first file that is not cut, and every counter-example that is."""
    for path in paths:
        built_in = load_rules()
        own = [rule for rule in own_rules(path) if rule not in built_in]
        if mistakes := [mistake for rule in own for mistake in _wrong(sanitiser, rule)]:
            raise TableError(path, mistakes)


def _wrong(sanitiser: Sanitiser, rule: Rule) -> Iterator[str]:
    place = f"rule {rule.id!r}:"
    for number, text in enumerate(rule.examples, 1):
        if not sanitiser.scrub(text)[1]:
            yield f"{place} examples: number {number} must be cut, but is not"  # not shown: it may be a secret
    for text in rule.counter_examples:
        if rule.id in sanitiser.scrub(text)[1]:
            yield f"{place} counter_examples: {text[:SHOWN]!r} must not be cut by this rule, but is"
