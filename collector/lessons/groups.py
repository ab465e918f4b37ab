"""Sessions as the effect of a lesson is measured on them, and which of two groups of them may be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.times import rfc3339

SAME_MIX = 0.2  # of the sessions: so many may differ in model, version or source before it counts as a change


@dataclass(frozen=True, slots=True)
class Seen:
    """A session that could make a mistake: how often it tried and failed, and whether it did first what is advised.

    `loaded` is whether its transcript shows the sentence among the instructions, None if it records none. `errors` are
    those of all calls; `tokens` and `cost_usd` of its model requests, None where they are not told.
    """

    first_ns: int
    last_ns: int
    failed: int = 0
    tried: int = 0
    followed: bool = False
    model: str | None = None
    version: str | None = None
    imported: bool = False
    loaded: bool | None = None
    calls: int = 0
    errors: int = 0
    tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Sums:
    """Of several sessions."""

    sessions: int = 0
    happened: int = 0
    tried_in: int = 0
    followed: int = 0
    tried: int = 0
    failed: int = 0
    calls: int = 0
    errors: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Of the sessions, in which the mistake was made."""
        return self.happened / max(1, self.sessions)

    @property
    def tried_share(self) -> float:
        return self.tried_in / max(1, self.sessions)

    @property
    def followed_share(self) -> float:
        return self.followed / max(1, self.sessions)

    @property
    def rate(self) -> float | None:
        """Of the attempts that failed."""
        return self.failed / self.tried if self.tried else None

    def told(self) -> Mapping[str, float | int | None]:
        """As the API tells it: counts, and the means of a session."""
        many = max(1, self.sessions)
        return {
            "sessions": self.sessions, "happened": self.happened, "share": self.share, "attempts": self.tried,
            "failed": self.failed, "attempts_per_session": self.tried / many, "failed_per_attempt": self.rate,
            "followed_share": self.followed_share, "errors_per_session": self.errors / many,
            "calls_per_session": self.calls / many, "seconds_per_session": self.seconds / many,
            "tokens_per_session": None if self.tokens is None else self.tokens / many,
            "cost_usd_per_session": None if self.cost_usd is None else self.cost_usd / many,
        }  # fmt: skip


def sums(sessions: Sequence[Seen]) -> Sums:
    """Tokens and money are None where no session tells them."""
    tokens = [each.tokens for each in sessions if each.tokens is not None]
    money = [each.cost_usd for each in sessions if each.cost_usd is not None]
    return Sums(
        len(sessions),
        sum(each.failed > 0 for each in sessions),
        sum(each.tried > 0 for each in sessions),
        sum(each.followed for each in sessions),
        sum(each.tried for each in sessions),
        sum(each.failed for each in sessions),
        sum(each.calls for each in sessions),
        sum(each.errors for each in sessions),
        sum(tokens) if tokens else None,
        sum(money) if money else None,
        sum(each.last_ns - each.first_ns for each in sessions) / 1e9,
    )


def _model(each: Seen) -> str:
    return each.model or "an unknown model"


def _version(each: Seen) -> str:
    """Without the patch: agents that update themselves have another one every day."""
    return ".".join((each.version or "an unknown version").split(".")[:2])


def _source(each: Seen) -> str:
    return "transcripts" if each.imported else "telemetry alone"


# What must not change together with a lesson, with what is said where it did.
ASPECTS: Mapping[str, Callable[[Seen], str]] = {
    "the model changed": _model,
    "the agent's version changed": _version,
    "sessions are known from other sources": _source,
}


def comparable(
    before: Sequence[Seen], after: Sequence[Seen], least_before: int, least_after: int
) -> tuple[list[Seen], list[Seen], str]:
    """Both groups with the same model, version and source, and the reason if too few such sessions remain."""
    left, right = list(before), list(after)
    for change, aspect in ASPECTS.items():
        if not right:
            break
        old, new = Counter(map(aspect, left)), Counter(map(aspect, right))
        if _apart(old, new) <= SAME_MIX:
            continue
        same = max(old | new, key=lambda value: (min(old[value], new[value]), value))
        if old[same] < least_before or new[same] < min(least_after, len(right)):
            return left, right, _changed(change, aspect, old, new, right)
        left = [each for each in left if aspect(each) == same]
        right = [each for each in right if aspect(each) == same]
    return left, right, ""


def _apart(old: Counter[str], new: Counter[str]) -> float:
    """The share of sessions by which two mixes differ: 0 the same, 1 nothing in common."""
    return sum(abs(old[value] / old.total() - new[value] / new.total()) for value in old | new) / 2


def _changed(
    change: str, aspect: Callable[[Seen], str], old: Counter[str], new: Counter[str], after: Sequence[Seen]
) -> str:
    was, now = old.most_common(1)[0][0], max(new, key=lambda value: new[value] / new.total() - old[value] / old.total())
    since = min(each.first_ns for each in after if aspect(each) == now)
    return f"{change} from {was} to {now} on {rfc3339(since)[:10]}"
