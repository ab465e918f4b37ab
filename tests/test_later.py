"""When the store is asked for what is no longer in memory."""

from __future__ import annotations

from contextlib import suppress

import pytest

from collector.correlate.pacing import Later


def looks(later: Later) -> bool:
    later.begin()
    return later.looking


@pytest.mark.parametrize(
    ("took_s", "rest_s"),
    [(0.0, 0.0), (0.02, 0.0), (0.1, 2.0), (1.0, 20.0), (60.0, 30.0)],
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


def test_looking_that_fails_took_its_time_too() -> None:
    now = [100.0]
    later = Later(lambda: now[0], lambda: now[0])
    assert looks(later)
    with suppress(OSError), later.timed():
        now[0] += 1.0
        raise OSError
    later.end()
    assert not looks(later)


def test_what_was_postponed_is_looked_for_once_since_the_earliest_time() -> None:
    clock = iter(range(0, 1000, 25)).__next__  # every look takes long enough for a rest of 30 s
    later = Later(clock, clock)
    assert later.begin() is None
    with later.timed():
        pass
    later.end()
    assert (later.begin(), later.looking) == (None, False)
    for received_ns in (20, 10, 30):  # the system's clock may go back
        later.postpone(received_ns)
    later.end()
    assert (later.begin(), later.looking) == (10, True)
    assert later.begin() is None
