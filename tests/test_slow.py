"""The list of tests that may be slow is short and true."""

from __future__ import annotations

from pathlib import Path

from tests.processes import MOST_NAMED, SLOW

TESTS = Path(__file__).parent


def test_few_tests_may_be_slow_and_each_says_why() -> None:
    assert len(SLOW) <= MOST_NAMED
    assert all(SLOW.values())


def test_each_that_may_be_slow_is_there() -> None:
    for named in SLOW:
        file, _, test = named.partition("::")
        assert (TESTS / file).exists(), named
        assert not test or f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), named
