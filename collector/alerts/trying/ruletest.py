"""Tests that users write beside their rules: lines of values, and the state expected after each.

The same `step` that runs live is stepped through them; nothing is measured and nobody is notified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collector.alerts.rules import Rule, RuleFile, RuleTest
from collector.alerts.state import Alert, State, step
from collector.measures.measure import Sample
from collector.plural import plural
from collector.query.filters import duration_ns

START_NS = 1_760_000_000 * 10**9
MOST_VALUES = 100_000
LETTERS = {State.PENDING: "P", State.FIRING: "F", State.INACTIVE: "R"}

_NUMBER = r"-?\d+(?:\.\d+)?"
_WORD = re.compile(
    rf"(?:(?P<value>{_NUMBER})(?:/(?P<calls>\d+))?(?:~(?P<baseline>{_NUMBER}))?|(?P<none>-)|(?P<unknown>\?))"
    r"(?:x(?P<times>\d{1,6}))?"
)


def mistakes(raw: Mapping[str, Any], rules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a schema cannot say of a test: field and message."""
    if raw["rule"] not in rules:
        yield "rule", f"is no rule of this file; there are {', '.join(rules) or 'none'}"
    try:
        values = list(samples(raw["values"], 1))
        states = unfolded(raw["states"])
    except ValueError as error:
        yield ("values" if str(error).startswith("value") else "states"), str(error)
        return
    if len(values) != len(states):
        yield "states", f"has {plural(len(states), 'state')} for {plural(len(values), 'value')}; write one for each"
    if not duration_ns("interval", raw.get("interval", "1m")):
        yield "interval", "must be longer than nothing"


def failures(file: RuleFile) -> Iterator[str]:
    """One paragraph for each test of a file that fails: what was expected and what came."""
    rules = {rule.name: rule for rule in file.rules}
    for test in file.tests:
        expected, found = unfolded(test.states), run(test, rules[test.rule])
        if expected != found:
            place = next(i for i, (one, other) in enumerate(zip(expected, found, strict=True)) if one != other)
            yield (
                f"{file.path}:{test.line}: test {test.name!r} of rule {test.rule!r} fails at value {place + 1}:\n"
                f"  expected {expected}\n  found    {found}\n           {' ' * place}^"
            )


def run(test: RuleTest, rule: Rule) -> str:
    """The states that the rule goes through, one letter for each value."""
    alert: Alert | None = None
    seen = ""
    for number, sample in enumerate(samples(test.values, test.calls)):
        alert = step(alert, rule, sample, START_NS + number * test.interval_ns)
        seen += LETTERS[alert.state] if alert else "."
        if alert and alert.state is State.INACTIVE:
            alert = None
    return seen


def samples(values: str, calls: int) -> Iterator[Sample | None]:
    """`4`, `4/3` (that rests on 3 calls), `4~2` (with a baseline), `-` (no events), `?` (no value), each `x5` for five.

    Raises ValueError that names the word.
    """
    count = 0
    for word in values.split():
        match = _WORD.fullmatch(word)
        if match is None:
            remedy = "write 0.4, 0.4/20 (of 20 calls), 4~2 (baseline 2), - or ?, and x5 for five of them"
            raise ValueError(f"value {word!r} is not known; {remedy}")
        count += (times := int(match["times"] or 1))
        if count > MOST_VALUES:
            raise ValueError(f"values are at most {MOST_VALUES}")
        one = None if match["none"] else _sample(match, calls)
        for _ in range(times):
            yield one


def unfolded(states: str) -> str:
    """`...PPFFR`, or with numbers: `.x3 Px2 F`. Raises ValueError."""
    out = ""
    for word in states.split():
        match = re.fullmatch(r"([.PFR])x(\d{1,6})|([.PFR]+)", word)
        if match is None:
            remedy = "write . (none), P (pending), F (firing), R (resolved), and Fx5 for five"
            raise ValueError(f"state {word!r} is not known; {remedy}")
        out += match[3] or match[1] * int(match[2])
    return out


def _sample(match: re.Match[str], calls: int) -> Sample:
    return Sample(
        {},
        None if match["unknown"] else float(match["value"]),
        calls if match["calls"] is None else int(match["calls"]),
        None if match["baseline"] is None else float(match["baseline"]),
    )
