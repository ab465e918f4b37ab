"""When the store is asked for what is no longer in memory."""

from __future__ import annotations

import pytest

from collector.store.later import Later


@pytest.mark.parametrize(
    ("took_s", "rest_s"),
    [(0.0, 0.0), (0.04, 0.0), (0.1, 2.0), (1.0, 20.0), (60.0, 30.0)],
)
def test_looking_takes_a_twentieth_of_the_time_unless_it_is_cheap(took_s: float, rest_s: float) -> None:
    now = [100.0]
    later = Later(lambda: now[0])
    later.begin()
    assert later.looking
    with later.timed():
        now[0] += took_s
    later.end()
    if rest_s:
        now[0] += rest_s - 0.01
        later.begin()
        assert not later.looking
        later.end()
    now[0] += 0.02
    later.begin()
    assert later.looking
