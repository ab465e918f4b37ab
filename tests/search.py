"""How long properties search for counter-examples: one budget for all, which MISSTEP_EXAMPLES makes larger."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("MISSTEP_EXAMPLES", "10"))


def searching(times: float = 1) -> settings:
    """Settings of a property that tries `times` the budget: more where an example costs next to nothing, less where
    one holds many.
    """
    return settings(
        max_examples=max(2, round(times * EXAMPLES)),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
