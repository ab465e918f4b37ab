"""A real time axis on which long pauses are folded. Pure: times in, places from 0 to 1 out."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

Span = tuple[datetime, datetime]

FOLDS = 0.3  # of the axis that all folded pauses take at most
FOLD = 0.03  # that one takes
LONG = 0.2  # of all shorter time on the axis; what is longer is folded
LABEL = 0.8  # of the distance between ticks that the text of one takes, to its right
LEAST = timedelta(seconds=1)  # that is folded
STEPS = (
    *(milliseconds / 1000 for milliseconds in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """Spans of time in order, each folded or not, with the places on the axis where they begin; the last ends at 1."""

    spans: Sequence[Span]
    folded: Sequence[bool]
    places: Sequence[float]

    def at(self, time: datetime) -> float:
        """The position of a time on the axis, limited to its ends."""
        number = min(max(bisect_right(self.spans, time, key=lambda span: span[0]) - 1, 0), len(self.spans) - 1)
        (start, end), first = self.spans[number], self.places[number]
        last = self.places[number + 1] if number + 1 < len(self.places) else 1.0
        part = (time - start) / (end - start) if end > start else 0.0
        return first + (last - first) * min(max(part, 0.0), 1.0)

    def folds(self) -> Iterator[tuple[float, float, timedelta]]:
        """Where each folded pause begins and ends, and how long it is."""
        for (start, end), folded in zip(self.spans, self.folded, strict=True):
            if folded:
                yield self.at(start), self.at(end - timedelta(microseconds=1)), end - start

    def ticks(self, most: int, zone: tzinfo) -> list[tuple[float, str]]:
        """About as many labelled places: where time goes on after a pause, and round times."""
        open_spans = [span for span, folded in zip(self.spans, self.folded, strict=True) if not folded]
        length = sum((end - start).total_seconds() for start, end in open_spans)
        step = next((step for step in STEPS if length <= step * most), STEPS[-1])
        days = self.spans[0][0].astimezone(zone).date() != self.spans[-1][1].astimezone(zone).date()
        chosen: list[tuple[float, datetime]] = []
        for time in (
            *(start for start, _ in open_spans),
            *(time for span in open_spans for time in _round(span, step)),
        ):
            place = self.at(time)
            if place <= 1 - LABEL / most and all(abs(place - other) >= LABEL / most for other, _ in chosen):
                chosen.append((place, time))
        return [(place, _label(time.astimezone(zone), step, days=days)) for place, time in sorted(chosen)]


def folded(busy: Iterable[Span]) -> Axis:
    """The axis of what happened in these spans, which may be points and overlap; there is at least one.

    A pause is folded if it is longer than a fifth of everything shorter: it would leave little room for the rest.
    """
    active = _merged(busy)
    pauses = [(end, start) for (_, end), (start, _) in pairwise(active)]
    longest = _limit(active, pauses)
    spans: list[Span] = [active[0]]
    closed = [False]
    for pause, span in zip(pauses, active[1:], strict=True):
        if pause[1] - pause[0] > longest:
            spans += [pause, span]
            closed += [True, False]
        else:
            spans[-1] = (spans[-1][0], span[1])
    return Axis(spans, closed, _places(spans, closed))


def _merged(busy: Iterable[Span]) -> list[Span]:
    active: list[Span] = []
    for start, end in sorted(busy):
        if active and start <= active[-1][1]:
            active[-1] = (active[-1][0], max(active[-1][1], end))
        else:
            active.append((start, end))
    return active


def _limit(active: Sequence[Span], pauses: Sequence[Span]) -> timedelta:
    """The longest pause that is not folded: the shorter half never is."""
    total = sum((end - start for start, end in active), timedelta())
    lengths = sorted(end - start for start, end in pauses)
    for number, length in enumerate(lengths):
        if total and number >= len(lengths) // 2 and length > max(total * LONG, LEAST):
            return lengths[number - 1] if number else timedelta()
        total += length
    return lengths[-1] if lengths else timedelta()


def _places(spans: Sequence[Span], closed: Sequence[bool]) -> list[float]:
    width = min(FOLD, FOLDS / max(sum(closed), 1))
    room = 1 - width * sum(closed)
    length = sum((end - start for (start, end), shut in zip(spans, closed, strict=True) if not shut), timedelta())
    alone = closed.count(False)
    places, at = [], 0.0
    for (start, end), shut in zip(spans, closed, strict=True):
        places.append(at)
        at += width if shut else room * ((end - start) / length if length else 1 / alone)
    return places


def _round(span: Span, step: float) -> Iterator[datetime]:
    start, end = (time.timestamp() for time in span)
    number = -(-start // step)
    while number * step <= end:
        yield datetime.fromtimestamp(number * step, UTC)
        number += 1


def _label(time: datetime, step: float, *, days: bool) -> str:
    day = f"{time:%-d %b} " if days else ""
    if step >= 60:
        return f"{day}{time:%H:%M}"
    return f"{day}{time:%H:%M:%S}" + (f".{time.microsecond // 1000:03}" if step < 1 else "")
