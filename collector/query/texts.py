"""What error texts lead to: what the model did after each, until a repair, and whether a new wording does better.

A text is a group of errors (its fingerprint). Each error of a call of a tool in a session counts once: `repaired` (a
later attempt of the same tool at the same target succeeded), `repeated` (tried again with the same parameters, in
vain), `changed` (with others, in vain), `other_tool` (not tried again; another tool or target was), `gave_up` (no call
of a tool followed within half an hour), or `not_known_yet`, which includes sources that report only failures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from collector.query.filters import Selection
from collector.query.ranking import at_equal
from collector.query.retries import chains
from collector.query.statement import Derived, Row, Statement, load, order_by
from collector.query.verdicts import Side, Unit, judge
from collector.streak_rules import WINDOW_NS

STEPS = ("repaired", "changed", "repeated", "other_tool", "gave_up", "not_known_yet")
COLUMNS = (
    "fingerprint", "error_class", "tool", "errors", *STEPS, "median_calls", "median_tokens", "tokens_told",
    "first_seen", "last_seen", "template",
)  # fmt: skip
MOST = 10_000
WORDING = {
    "error_class": "varchar", "tool": "varchar", "fingerprint_a": "ubigint", "fingerprint_b": "ubigint",
    "template_a": "varchar", "template_b": "varchar", "models": "json", "a": "double", "a_low": "double",
    "a_high": "double", "a_errors": "bigint", "b": "double", "b_low": "double", "b_high": "double",
    "b_errors": "bigint", "difference": "double", "low": "double", "high": "double", "verdict": "varchar",
    "sentence": "varchar",
}  # fmt: skip
REPAIRED = Unit("rate", -1, "settled error")


def texts(selection: Selection, by: str | None = None, sort: Sequence[str] = (), limit: int = 100) -> Statement:
    """One row for each text, and each value of `by`: how many errors, and what followed them."""
    keys = f'"{by}", ' if by else ""
    sql = load("next_steps").format(
        chains=chains(selection, *([by] if by else [])),
        where=selection.where(),
        window=WINDOW_NS,
        keys=keys,
        groups=f', "{by}"' if by else "",
        its=f'"{by}" as its_value, ' if by else "",
        same=f' and found."{by}" is not distinct from its_value' if by else "",
        steps=", ".join(f"count(*) filter (step = '{step}') as {step}" for step in STEPS),
    )
    named = (*COLUMNS, *([by] if by else []))
    order = order_by(sort or ["-errors"], named, ("fingerprint", *([by] if by else [])))
    times = ("first_seen", "last_seen")
    return Statement(sql, selection.params(), order, limit, times, of_kept=True, of_clock=True)


def wordings(selection: Selection, sort: Sequence[str] = (), limit: int = 100) -> Derived:
    """Each text beside the one that was seen before it, of the same class and tool, at equal models: whether its errors
    are repaired more often. Only errors whose outcome is known count.
    """

    def work(rows: Sequence[Row]) -> list[Row]:
        found = [row for each in _alike(rows).values() for row in _followed(each)]
        return sorted(found, key=lambda row: (row["verdict"] in ("unclear", "too_few"), -abs(row["difference"] or 0)))

    return Derived((texts(selection, "model", limit=MOST),), work, WORDING, sort, limit)


def _alike(rows: Sequence[Row]) -> Mapping[tuple[Any, Any], list[Row]]:
    found: defaultdict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["error_class"], row["tool"]].append(row)
    return found


def _followed(rows: Sequence[Row]) -> Iterator[Row]:
    """The texts of one class and tool, each with the one that was first seen before it."""
    texts_of: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["first_seen"], row["fingerprint"])):
        texts_of[row["fingerprint"]].append(row)
    for old, new in pairwise(texts_of.values()):
        if both := {row["model"] for row in old} & {row["model"] for row in new}:
            yield _wording(old, new, both)


def _wording(old: Sequence[Row], new: Sequence[Row], both: set[Any]) -> Row:
    counts = [
        {row["model"]: (row["repaired"], row["errors"] - row["not_known_yet"]) for row in each} for each in (old, new)
    ]
    weights = Counter(
        {model: sum(of[model][1] for of in counts) for model in both if all(of[model][1] for of in counts)}
    )
    a, b = (_side([(model, *of[model]) for model in weights], weights) for of in counts)
    return {
        "error_class": old[0]["error_class"], "tool": old[0]["tool"],
        **{f"{name}_{side}": rows[0][name] for name in ("fingerprint", "template")
           for side, rows in (("a", old), ("b", new))},
        "models": sorted(weights, key=str), "a": a.value, "a_low": a.low, "a_high": a.high, "a_errors": a.whole,
        "b": b.value, "b_low": b.low, "b_high": b.high, "b_errors": b.whole, **judge(REPAIRED, a, b),
    }  # fmt: skip


def _side(own: Sequence[tuple[Any, int, int]], weights: Mapping[Any, int]) -> Side:
    if not own:
        return Side(None, None, None, 0, 0)
    value, low, high = at_equal(own, weights)
    return Side(value, low, high, sum(part for _, part, _ in own), sum(whole for *_, whole in own))
