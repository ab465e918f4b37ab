"""Whether a lesson helped: its sessions before it was adopted against those after, and what else changed meanwhile.

A session counts once, however often it made the mistake. Verdicts are given after fixed numbers of sessions: who looks
daily finds something by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt

from collector.intervals import Interval, apart, wilson
from collector.lessons.groups import Seen, Sums, comparable, sums
from collector.plural import plural
from collector.times import DAY

VERDICTS = ("helped", "avoided", "no_sign_yet", "no_effect", "worse", "cannot_tell")
LOOKS = (20, 40, 80, 160, 320)  # sessions after
LEAST_BEFORE = 10
HOPED = 0.25  # of the share before: what a sentence that is followed leaves of a mistake
POWER_Z, ERROR_Z = 0.8416, 1.9600  # 80 % power, 5 % error
CONTROLS = 3  # snoozed lessons of the same kind, unless another repository makes the same mistake without the sentence
UNUSED = 60 * DAY


@dataclass(frozen=True, slots=True)
class Measured:
    """A lesson in force: `since_ns` is when it was adopted, `next` what it advises instead, if anything."""

    kind: str
    shape: str
    scope: str
    since_ns: int
    needed_sessions: int = 3  # with the mistake, to become a lesson
    next: str = ""
    firm: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What became of a lesson. Sums are of the sessions that were compared; `needed` more give a verdict.

    `seen_after` are all sessions after; `by_record` whether transcripts say who had read the sentence.
    """

    verdict: str
    sentence: str
    before: Sums
    after: Sums
    difference: Interval | None = None
    control: Interval | None = None
    controls: int = 0
    needed: int = 0
    seen_after: int = 0
    by_record: bool = False


def effect(
    one: Measured, sessions: Sequence[Seen], controls: Sequence[Sequence[Seen]], elsewhere: bool, now_ns: int
) -> Effect:
    """`sessions` are those that could make the mistake; `controls` those of other lessons that nobody adopted.

    `elsewhere`: a control is the same mistake in another repository, so one is enough.
    """
    before, after, by_record = parted(sessions, one.since_ns)
    before = _since_it_happens(before, one.needed_sessions)
    reason = _not_before(before)
    if not reason:
        before, after, reason = comparable(before, after, LEAST_BEFORE, LOOKS[0])
    if not reason:
        before, reason = _without_fading(before)
    if reason or (reason := _not_before(before)):
        return Effect("cannot_tell", f"Cannot tell: {reason}.", sums(before), sums(after), seen_after=len(after))
    found = _judged(one, before, after, _controlled(one, controls, elsewhere), now_ns)
    return replace(found, by_record=by_record)


def parted(sessions: Sequence[Seen], since_ns: int) -> tuple[list[Seen], list[Seen], bool]:
    """Sessions without and with the sentence, oldest first, and whether transcripts record it.

    They do if one of those after shows it. Else time decides, and sessions that run across the change are left out.
    """
    ordered = sorted(sessions, key=lambda each: each.first_ns)
    by_record = any(each.loaded and each.last_ns >= since_ns for each in ordered)
    before: list[Seen] = []
    after: list[Seen] = []
    for each in ordered:
        if by_record and each.loaded is not None:
            (after if each.loaded else before).append(each)
        elif each.last_ns < since_ns:
            before.append(each)
        elif each.first_ns >= since_ns:
            after.append(each)
    return before, after, by_record


def _since_it_happens(before: list[Seen], needed: int) -> list[Seen]:
    """Without what was before the mistake could be made, and, if enough remain, without the sessions that made it a
    lesson: it was proposed because they were many.
    """
    happened = [place for place, each in enumerate(before) if each.failed]
    if not happened:
        return before
    crossed = happened[min(needed, len(happened)) - 1] + 1
    rest = before[crossed:]
    return rest if len(rest) >= LOOKS[0] and any(each.failed for each in rest) else before[happened[0] :]


def _not_before(before: Sequence[Seen]) -> str:
    if len(before) < LEAST_BEFORE:
        return f"only {plural(len(before), 'session')} before it was adopted are known; {LEAST_BEFORE} are needed"
    if not any(each.failed for each in before):
        return f"it did not happen in the {len(before)} sessions before it was adopted"
    return ""


def _without_fading(before: list[Seen]) -> tuple[list[Seen], str]:
    """The last third before adoption alone, if the mistake was going away by then; a reason if that is too short."""
    early, late = before[: len(before) * 2 // 3], before[len(before) * 2 // 3 :]
    if not late or apart(share(early), share(late))[2] >= 0:
        return before, ""
    if len(late) >= LEAST_BEFORE and any(each.failed for each in late):
        return late, ""
    shares = " → ".join(f"{_happened(part):.0%}" for part in (early, late))
    return before, f"it was going away by itself before it was adopted ({shares} of the sessions)"


def share(sessions: Sequence[Seen]) -> Interval:
    """Of sessions with the mistake, with Wilson's interval; of none, that nothing is known."""
    if not sessions:
        return 0.0, 0.0, 1.0
    value = _happened(sessions)
    return value, *wilson(value, len(sessions))


def _happened(sessions: Sequence[Seen]) -> float:
    return sum(each.failed > 0 for each in sessions) / max(1, len(sessions))


def _controlled(one: Measured, controls: Sequence[Sequence[Seen]], elsewhere: bool) -> tuple[Interval | None, int]:
    """How the share of sessions changed at the same time where nothing was adopted, and of how many lessons."""
    split = [parted(sessions, one.since_ns)[:2] for sessions in controls]
    told = [(_since_it_happens(before, one.needed_sessions), after) for before, after in split if before and after]
    if not told:
        return None, 0
    before = [each for part, _ in told for each in part]
    after = [each for _, part in told for each in part]
    enough = (elsewhere or len(told) >= CONTROLS) and len(after) >= LEAST_BEFORE and len(before) >= LEAST_BEFORE
    return (apart(share(before), share(after)) if enough else None), len(told)


def _judged(
    one: Measured, before: list[Seen], after: list[Seen], control: tuple[Interval | None, int], now_ns: int
) -> Effect:
    enough = needed_sessions(_happened(before))
    look = next((size for size in reversed(LOOKS) if size <= len(after)), 0)
    seen = after[: look or len(after)]
    left, right, changed = sums(before), sums(seen), apart(share(before), share(seen))

    def said(verdict: str, sentence: str, missing: int = 0) -> Effect:
        sentence += _unused(one, after, now_ns) if verdict in ("helped", "avoided") else ""
        return Effect(verdict, sentence, left, right, changed, control[0], control[1], missing, len(after))

    happened = f"it happened in {left.share:.0%} of {plural(left.sessions, 'session')} before"
    if not look:
        missing = LOOKS[0] - len(after)
        so_far = f"and in {right.happened} of {len(after)} after" if after else "and there is no session after yet"
        pace = _pace(missing, len(after), one.since_ns, now_ns)
        return said("no_sign_yet", f"No sign yet: {happened} {so_far}. {missing} more are needed{pace}.", missing)
    both = f"{happened} and in {right.share:.0%} of {right.sessions} after"
    if changed[1] > 0:
        return said("worse", f"Worse: {both}. Take the line out again.")
    if changed[2] < 0:
        if control[0] is not None and apart(control[0], changed)[2] >= 0:
            moved = f"{control[0][0] * 100:+.0f} points where nothing was adopted"
            return said("cannot_tell", f"Cannot tell: {both}, but it changed by {moved} too.")
        return said(*_fewer(one, both, left, right))
    if look >= enough:
        firmer = one.firm or "Take the line out again: it costs context in every session."
        return said("no_effect", f"No effect: {both}. Firmer: {firmer}" if one.firm else f"No effect: {both}. {firmer}")
    missing = next((size for size in LOOKS if size >= enough), LOOKS[-1]) - len(after)
    pace = _pace(missing, len(after), one.since_ns, now_ns)
    return said("no_sign_yet", f"No sign yet: {both}. {missing} more are needed{pace}.", missing)


def _fewer(one: Measured, both: str, before: Sums, after: Sums) -> tuple[str, str]:
    """Whether the advice was followed, or the call is only no longer tried."""
    if one.next and after.followed_share >= 0.5:
        return "helped", f"Helped: {both}; `{one.next}` was used first in {after.followed_share:.0%} of them."
    if after.rate is None or before.rate is None or (after.rate >= before.rate / 2 and after.tried_share < 1):
        tried = f"it was tried in {before.tried_share:.0%} of the sessions before, in {after.tried_share:.0%} after"
        return "avoided", f"Avoided: {both}; {tried}."
    rates = f"of the attempts, {before.rate:.0%} failed before and {after.rate:.0%} after"
    return "helped", f"Helped: {both}; {rates}."


def _unused(one: Measured, after: Sequence[Seen], now_ns: int) -> str:
    last = max((each.last_ns for each in after if each.tried), default=one.since_ns)
    if now_ns - last < UNUSED:
        return ""
    return f" It has not been tried for {(now_ns - last) // DAY} days: the line may go, as it costs context."


def _pace(missing: int, seen: int, since_ns: int, now_ns: int) -> str:
    days = (now_ns - since_ns) / DAY
    if not seen or days < 1:
        return ""
    wait = missing * days / seen
    return f", about {plural(ceil(wait), 'day')} at this pace" if wait < 14 else f", about {ceil(wait / 7)} weeks"


def needed_sessions(before: float) -> int:
    """On each side, to see with 80 % power that a share falls to a quarter of it."""
    after = before * HOPED
    middle = (before + after) / 2
    both, each = 2 * middle * (1 - middle), before * (1 - before) + after * (1 - after)
    reach = ERROR_Z * sqrt(both) + POWER_Z * sqrt(each)
    return ceil(reach**2 / (before - after) ** 2)
