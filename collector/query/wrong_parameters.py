"""Which parameters of a tool are missing or wrong most often, read from the texts of its errors, for its schema.

How a text names a parameter is in schemas/parameters.toml. Of a text that names none, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from collector.query.filters import Selection
from collector.query.retries import relation
from collector.query.statement import Statement, order_by
from collector.tables import load_toml, schemas

COLUMNS = ("tool", "parameter", "error_class", "errors", "sessions", "of", "share", "sample", "first_seen", "last_seen")
MISSING = "MissingParameterError"


@cache
def patterns() -> tuple[str, ...]:
    """The patterns of the table in their order; the first group is the parameter's name."""
    return tuple(row["match"] for row in load_toml(schemas().joinpath("parameters.toml"))["named"])


def named() -> str:
    """The parameter that a message names, as SQL over `message`; null where it names none."""
    found = (f"nullif(regexp_extract(message, $named_{place}, 1, 'i'), '')" for place in range(len(patterns())))
    return f"coalesce({', '.join(found)})"


def bound() -> dict[str, object]:
    """What `named` needs as parameters."""
    return {f"named_{place}": pattern for place, pattern in enumerate(patterns())}


def wrong_parameters(selection: Selection, sort: Sequence[str] = (), limit: int = 100) -> Statement:
    """One row for each tool, parameter and class of the validation errors; `of` are all of these errors of the tool."""
    sql = f"""select tool, parameter, error_class, count(*) as errors,
        count(distinct hash(project, service, session)) filter (session is not null) as sessions,
        any_value(every) as of,
        count(*) / any_value(every) as share, max_by(message, time_ns) as sample,
        min(time_ns) as first_seen, max(time_ns) as last_seen
      from (
        select tool, error_class, project, service, session, message, time_ns, {named()} as parameter,
          count(*) over (partition by tool) as every
        from {relation(selection)} where {selection.where()} and operation = 'tool' and outcome = 'error'
          and category = 'validation' and tool is not null and error_class <> 'InvalidToolError'
      )
      where parameter is not null group by tool, parameter, error_class"""
    order = order_by(sort or ["-errors"], COLUMNS, ("tool", "parameter", "error_class"))
    asks = selection.reads_chains()
    given = selection.params() | bound()
    return Statement(sql, given, order, limit, ("first_seen", "last_seen"), of_kept=asks, of_clock=asks)
