"""Exact quantiles in little memory: `median` and `quantile_cont` hold every value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.query.statement import load


def ranked(
    source: str,
    where: str,
    keys: Mapping[str, str],
    fractions: str,
    values: Sequence[str],
    *,
    of: str = "duration_ms",
    earlier: str = "false",
) -> str:
    """Quantiles of the column `of` by `keys` (name → expression, at least one), as SQL.

    `fractions` is a list in SQL; it may use `last`, the number of values minus one. `values` are expressions that
    use `at_place`; `earlier` is a condition that splits the rows of a key in two.
    """
    return load("ranked").format(
        named=", ".join(f"{expression} as {key}" for key, expression in keys.items()),
        keys=", ".join(keys),
        of=of,
        earlier=earlier,
        source=source,
        where=where,
        fractions=fractions,
        of_measured=", ".join(f"measured.{key}" for key in keys),
        same=" and ".join(f"measured.{key} is not distinct from wanted.{key}" for key in keys),
        values=", ".join(values),
    )


def at_place(place: int) -> str:
    """The quantile of the fraction at this place, counted from 1, as SQL; its filter is left open for conditions."""
    return f"min(low + (high - low) * beyond) filter (place = {place}"
