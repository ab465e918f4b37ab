"""The short form of `make soak`: kills under load, and malformed bodies."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import fuzz
from benchmarks.soak import storm
from tests.conftest import RunningCollector


def silent(_: str) -> None:
    """Shows no progress."""


@pytest.mark.deep
def test_what_was_sent_is_stored_once_or_rejected_whatever_happens(collector: RunningCollector) -> None:
    ledger = storm(collector, 5, 3, silent)
    assert ledger.mistakes() == []
    assert ledger.troubles["kill"] >= 3
    assert ledger.sent["good"] > 1000
    assert ledger.repeated


def test_malformed_bodies_are_the_senders_fault(collector: RunningCollector) -> None:
    fuzzed = fuzz(collector, 400, 1, silent)
    assert fuzzed.mistakes == []
    assert {"200", "400", "OK", "INVALID_ARGUMENT"} <= set(fuzzed.answers)
