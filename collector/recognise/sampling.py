"""Detects sampling upstream, and the share of records that remain, from their attributes and gaps in sequences.

`schemas/sampling.toml` lists the attributes. Sampling changes no event. It is recorded per sender, because the counts
of a sampled sender are too low, and its rates are those of the records kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from collector.decode.record import Record, Scope, roots
from collector.recognise.readers import as_float, as_text, present
from collector.tables import load_toml, schemas

MOST_ONE_IN = 10_000  # a larger number is not a sampling rate (audio has sample rates too)
RESET = 1_000  # a larger step in a sequence is a restart, not a gap
ALL, UNTOLD = 1.0, None
Kept = float | None


def _share(value: Any) -> Kept:
    number = None if isinstance(value, bool) else as_float(value)
    return number if number is not None and 0 < number <= 1 else ALL


def _percent(value: Any) -> Kept:
    number = as_float(value)
    return ALL if number is None else _share(number / 100)


def _one_in(value: Any) -> Kept:
    number = as_float(value)
    return 1 / number if number is not None and 1 <= number <= MOST_ONE_IN else ALL


def _threshold(value: Any) -> Kept:
    text = str(value)
    try:
        return (2**56 - int(text.ljust(14, "0"), 16)) / 2**56 if 0 < len(text) <= 14 and text.isalnum() else ALL
    except ValueError:
        return ALL


def _exponent(value: Any) -> Kept:
    number = as_float(value)
    return 2.0**-number if number is not None and 0 <= number < 63 else ALL


READ: Mapping[str, Callable[[Any], Kept]] = {
    "share": _share, "percent": _percent, "one_in": _one_in, "threshold": _threshold, "exponent": _exponent,
    "unknown": lambda value: UNTOLD if present(value) else ALL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sign:
    """One row of the table of signs."""

    key: str
    says: str
    vendor: str
    where: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"tracestate {self.vendor}={self.key}" if self.vendor else self.key


@dataclass(frozen=True, slots=True)
class Signs:
    """All rows: attributes by key, trace states by vendor and key."""

    attributes: Mapping[str, tuple[Sign, ...]]
    states: Mapping[tuple[str, str], Sign]

    def read(self, attributes: Mapping[str, Any], state: str = "") -> tuple[Kept, str]:
        """The smallest share found, and by which sign; (1, "") if nothing shows sampling."""
        found: list[tuple[Kept, str]] = []
        for key in self.attributes.keys() & attributes.keys():
            found += [
                (READ[sign.says](attributes[key]), sign.name)
                for sign in self.attributes[key]
                if all(as_text(attributes.get(name)) == wanted for name, wanted in sign.where.items())
            ]
        if state:
            found += self._in_state(state)
        return min(found, key=_smallest, default=(ALL, ""))

    def _in_state(self, state: str) -> Iterable[tuple[Kept, str]]:
        for member in state.split(","):
            vendor, _, fields = member.strip().partition("=")
            for each in fields.split(";"):
                key, _, value = each.partition(":")
                if sign := self.states.get((vendor, key)):
                    yield READ[sign.says](value), sign.name


@cache
def load_signs() -> Signs:
    """The signs of `schemas/sampling.toml`."""
    rows = load_toml(schemas().joinpath("sampling.toml"))["signs"]
    attributes: dict[str, tuple[Sign, ...]] = {}
    states: dict[tuple[str, str], Sign] = {}
    for row in rows:
        sign = Sign(row["key"], row["says"], row.get("tracestate", ""), row.get("where", {}))
        if sign.vendor:
            states[sign.vendor, sign.key] = sign
        else:
            attributes[sign.key] = (*attributes.get(sign.key, ()), sign)
    return Signs(attributes, states)


def _smallest(one: tuple[Kept, str]) -> tuple[float, str]:
    kept, name = one
    return (ALL - 1e-9 if kept is None else kept), name  # unknown share: certainly less than all


@dataclass(slots=True)
class Sampled:
    """Sampling of one sender in one request: `came` records arrived of `were` that existed."""

    came: float = 0
    were: float = 0
    signs: set[str] = field(default_factory=set)

    def add(self, kept: Kept, sign: str, came: int = 1) -> None:
        """Counts `came` records, of which this share was kept."""
        if kept != ALL:
            self.signs.add(sign)
        if sign and kept is not None:
            self.came += came
            self.were += came / kept

    @property
    def kept(self) -> Kept:
        """The share that was kept; None if unknown."""
        return self.came / self.were if self.were > self.came else UNTOLD


def look(scope: Scope, telling: Sequence[Record], counter: tuple[str, ...], into: Sampled) -> None:
    """Adds the signs of a scope: attributes of its resource, of itself, of `telling` records and of the first root
    span, trace states of all root spans, and gaps in record numbers (`counter`: keys of session and number).

    Attributes of other spans that are dropped by name are not read: that would cost more than everything else.
    """
    signs = load_signs()
    around = min(signs.read(scope.resource), signs.read(scope.attributes), key=_smallest)
    into.add(*around)
    if around[0] in (ALL, UNTOLD):
        _look_at_records(scope, telling, signs, into)
    if counter:
        session, number = counter
        came, were = gaps((record.attributes.get(session), record.attributes.get(number)) for record in scope.records)
        if were > came:
            into.add(came / were, f"gaps in {number}", came)


def _look_at_records(scope: Scope, telling: Sequence[Record], signs: Signs, into: Sampled) -> None:
    outermost = roots(scope.records)
    whole = {id(record): record for record in (*outermost[:1], *telling)}
    for record in whole.values():
        into.add(*signs.read(record.attributes, record.trace_state))
    for record in outermost[1:]:
        if record.trace_state and id(record) not in whole:
            into.add(*signs.read({}, record.trace_state))


def gaps(numbers: Iterable[tuple[Any, Any]]) -> tuple[int, int]:
    """How many distinct numbers arrived, of how many between the first and the last of each session."""
    told: dict[Any, set[int]] = {}
    for session, number in numbers:
        if (value := as_float(number)) is not None:
            told.setdefault(as_text(session), set()).add(int(value))
    came = were = 0
    for each in told.values():
        line = sorted(each)
        steps = [after - before for before, after in pairwise(line)]
        came += len(line)
        were += 1 + sum(step if step <= RESET else 1 for step in steps)
    return came, were
