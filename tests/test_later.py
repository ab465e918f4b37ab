"""When the store is asked for what is no longer in memory."""

from __future__ import annotations

import pytest

from collector.store import later as module
from collector.store.later import Later


def looks(later: Later) -> bool:
    later.begin()
    return later.looking


@pytest.mark.parametrize(
    ("took_s", "rest_s"),
    [(0.0, 0.0), (0.04, 0.0), (0.1, 2.0), (1.0, 20.0), (60.0, 30.0)],
)
def test_looking_takes_a_twentieth_of_the_time_unless_it_is_cheap(took_s: float, rest_s: float) -> None:
    now = [100.0]
    later = Later(lambda: now[0], lambda: now[0])
    assert looks(later)
    with later.timed():
        now[0] += took_s
    later.end()
    if rest_s:
        now[0] += rest_s - 0.01
        assert not looks(later)
        later.end()
    now[0] += 0.02
    assert looks(later)


def test_keys_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEYS", 2)
    clock = iter(range(100)).__next__  # every look takes a second
    later = Later(clock, clock)
    assert looks(later)
    with later.timed():
        pass
    later.end()
    for keys, looking in (({1, 2}, False), ({1, 2, 3}, True)):
        later.keys = keys
        assert looks(later) is looking
