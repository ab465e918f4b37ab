"""Reserved words: no attribute in MISSTEP_DIMENSIONS can have these names, as queries or answers use them."""

from __future__ import annotations


def reserved() -> frozenset[str]:
    """The names, in lower case."""
    # Imported late: most commands need none of it, and the collector forks its workers before it loads the engine.
    from collector.api.endpoints import ENDPOINTS
    from collector.columns import TABLES
    from collector.query import breakdowns, changes, compare, costs, groups, retries, streaks
    from collector.query.filters import BY_NAME

    return frozenset(
        word
        for words in (
            TABLES["events"],
            BY_NAME,
            [parameter.name for endpoint in ENDPOINTS for parameter in endpoint.takes],
            [name for names in breakdowns.MEASURES.values() for name in names],
            (*breakdowns.COUNTS, *breakdowns.SEEN, *compare.TYPES, *changes.TYPES, *costs.COLUMNS),
            (*groups.COLUMNS, *groups.RECOVERY, *retries.COLUMNS, *retries.STORM_COLUMNS),
            (*streaks.COLUMNS, *streaks.LIMIT_COLUMNS),
            ("from", "to", "q", "time", "received_time", "side", "which", "axis", "at", "part", "whole", "rated"),
            ("number", "slot", "whose", "many", "same", "attempts", "seconds", *streaks.ORDER),
            (changes.VOLUME,),
        )
        for word in words
    )
