"""The gates that a candidate must pass before it is a lesson, each with its reason in words.

The thresholds have reasons of their own: an instruction costs context in every session, a single incident is none, and
what has gone away by itself needs no sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.intervals import wilson
from collector.lessons.candidates import Candidate
from collector.times import DAY

LEAST_DAYS = 2
LEAST_CALLS = 5
LEAST_SHARE = 0.05
LEAST_SECONDS = 600.0
LEAST_TOKENS = 50_000
LEAST_ATTEMPTS = 5
LEAST_RATE = 0.1
STILL = 14 * DAY
FADED = 0.5  # of the rate of the first two thirds: below it, the mistake goes away by itself
LEAST_SESSIONS_OF_MODEL = 5
ALWAYS, MOSTLY = 0.95, 0.5


@dataclass(frozen=True, slots=True)
class Scope:
    """What else happened where a candidate was found: sessions in each third of the range, models with the sessions
    that used them, newest first.
    """

    sessions: tuple[int, int, int]
    models: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often a shape was tried, with successes; `rated` is false if its senders report failures only."""

    calls: int
    rated: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the gates look at; the range is [`start_ns`, `end_ns`)."""

    candidate: Candidate
    scope: Scope
    attempts: Attempts
    start_ns: int
    end_ns: int

    @property
    def rate(self) -> float | None:
        """Failed calls of all attempts; None if no successes are reported."""
        if not self.attempts.rated or not self.attempts.calls:
            return None
        return min(1.0, len(self.candidate.failures) / self.attempts.calls)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the rate."""
        if self.rate is None:
            return None
        return wilson(self.rate, max(self.attempts.calls, len(self.candidate.failures)))

    @property
    def share(self) -> float:
        """Of the sessions of its scope, in which it happened."""
        return len(self.candidate.sessions) / max(1, sum(self.scope.sessions), len(self.candidate.sessions))

    @property
    def seconds(self) -> float:
        """Duration of the failed calls together."""
        return sum(one.duration_ms or 0.0 for one in self.candidate.failures) / 1000

    @property
    def tokens(self) -> int | None:
        """Of the requests that asked for the failed calls; None if no agent tells them."""
        told = [one.tokens for one in self.candidate.failures if one.tokens is not None]
        return sum(told) if told else None

    @property
    def strength(self) -> str:
        """How often trying fails: always, mostly, sometimes, or few attempts to say."""
        if self.rate is None or self.attempts.calls < LEAST_ATTEMPTS:
            return "few"
        return "always" if self.rate >= ALWAYS else "mostly" if self.rate >= MOSTLY else "sometimes"


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate that was tried; `passed` is None if it is not checked here."""

    gate: str
    passed: bool | None
    why: str


def gates(evidence: Evidence) -> list[Gate]:
    """Every gate with its outcome, in the order in which they are said."""
    return [Gate(name, *check(evidence)) for name, check in CHECKS.items()]


def refusal(tried: Sequence[Gate]) -> Gate | None:
    """The first gate that refuses."""
    return next((gate for gate in tried if gate.passed is False), None)


def _breadth(evidence: Evidence) -> tuple[bool, str]:
    one = evidence.candidate
    passed = len(one.sessions) >= one.kind.sessions and one.days >= LEAST_DAYS
    return passed, f"{len(one.sessions)} sessions on {one.days} days; {one.kind.sessions} on {LEAST_DAYS} are needed"


def _count(evidence: Evidence) -> tuple[bool, str]:
    calls = len(evidence.candidate.failures)
    least = LEAST_CALLS if evidence.candidate.kind.sessions > LEAST_DAYS else LEAST_DAYS
    return calls >= least, f"{calls} failed calls; {least} are needed"


def _share(evidence: Evidence) -> tuple[bool, str]:
    costly = evidence.seconds >= LEAST_SECONDS or (evidence.tokens or 0) >= LEAST_TOKENS
    happened = f"in {evidence.share:.0%} of the sessions there"
    return (
        costly or evidence.share >= LEAST_SHARE,
        f"{happened}; {LEAST_SHARE:.0%}, 10 minutes or 50,000 tokens are needed",
    )


def _denominator(evidence: Evidence) -> tuple[bool, str]:
    if evidence.interval is None:
        return False, "its senders report failures only, so how often it works is not known"
    low, calls = evidence.interval[0], evidence.attempts.calls
    failed = f"{len(evidence.candidate.failures)} of {calls} attempts failed, at least {low:.0%} in the long run"
    return calls >= LEAST_ATTEMPTS and low >= LEAST_RATE, f"{failed}; {LEAST_RATE:.0%} of {LEAST_ATTEMPTS} are needed"


def _still(evidence: Evidence) -> tuple[bool, str]:
    last = max(one.time_ns for one in evidence.candidate.failures)
    days = max(0, evidence.end_ns - last) // DAY
    return evidence.end_ns - last <= STILL, f"last seen {days} days before the end of the range; more than 14 is over"


def _lasting(evidence: Evidence) -> tuple[bool, str]:
    """Whether its share of sessions in the last third is at least half of that before."""
    third = max(1, (evidence.end_ns - evidence.start_ns) // 3)
    places = [set[str](), set[str](), set[str]()]
    for one in evidence.candidate.failures:
        places[min(2, max(0, (one.time_ns - evidence.start_ns) // third))].add(one.session)
    first, second, last = evidence.scope.sessions
    if not first + second or not last:
        return True, "there is no earlier or later part of the range to compare with"
    before = (len(places[0]) + len(places[1])) / (first + second)
    after = len(places[2]) / last
    return after > FADED * before, f"in {before:.0%} of the sessions before, in {after:.0%} of those of the last third"


def _same_model(evidence: Evidence) -> tuple[bool, str]:
    models = {one.model for one in evidence.candidate.failures}
    if not evidence.scope.models or models == {None}:
        return True, "no model is told"
    newest, sessions = evidence.scope.models[0]
    if newest in models:
        return True, f"seen with {newest}, the newest model there"
    if sessions < LEAST_SESSIONS_OF_MODEL:
        return True, f"{newest} is new there: {sessions} sessions are too few to say"
    return False, f"not seen with {newest}, which took over in {sessions} sessions"


def _specific(evidence: Evidence) -> tuple[bool, str]:
    return bool(evidence.candidate.shape), f"it names {evidence.candidate.shape}"


def _not_checked(evidence: Evidence) -> tuple[None, str]:
    return None, "not checked: it needs the files of the project, which `misstep lessons` reads"


CHECKS: Mapping[str, Callable[[Evidence], tuple[bool | None, str]]] = {
    "breadth": _breadth,
    "count": _count,
    "share": _share,
    "denominator": _denominator,
    "still_happening": _still,
    "same_model": _same_model,
    "not_cured_by_itself": _lasting,
    "specific": _specific,
    "not_said_yet": _not_checked,
    "budget": _not_checked,
}
