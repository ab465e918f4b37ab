"""What `measures` would have answered at many past evaluations, from one statement."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from collector.engine import Reads
from collector.measures.families import GONE, SHARES, label
from collector.measures.history_sql import Evaluations, WindowedMeasure, statement
from collector.measures.measure import Labels, Sample, labels_of
from collector.query.filters import BadParameter, Selection, terms_of_rule

MOST_ROWS = 300_000


class Point(NamedTuple):
    """The value of a label set from evaluation `number` on; it is `there` if there are events in the window."""

    number: int
    value: float | None
    calls: int
    there: bool = True


class _Columns:
    """Points of many label sets, as arrays: these take 25 bytes per point, tuples 150."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.values = array("d")  # NaN for None
        self.calls = array("q")
        self.there = bytearray()

    def append(self, point: Point) -> None:
        self.numbers.append(point.number)
        self.values.append(math.nan if point.value is None else point.value)
        self.calls.append(point.calls)
        self.there.append(point.there)

    def pop(self) -> None:
        for column in (self.numbers, self.values, self.calls, self.there):
            column.pop()


class Line:
    """The points of one label set, oldest first."""

    __slots__ = ("_columns", "_start", "_stop")

    def __init__(self, columns: _Columns, start: int, stop: int) -> None:
        self._columns, self._start, self._stop = columns, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Point]:
        columns, mine = self._columns, slice(self._start, self._stop)
        rows = (columns.numbers[mine], columns.values[mine], columns.calls[mine], columns.there[mine])
        for number, value, calls, there in zip(*rows, strict=True):
            yield Point(number, None if math.isnan(value) else value, calls, bool(there))

    def __getitem__(self, place: int) -> Point:
        at = range(self._start, self._stop)[place]
        return next(iter(Line(self._columns, at, at + 1)))


@dataclass(frozen=True, slots=True)
class History:
    """The points of each label set. With `rising`, values grow by 1 per second after each point."""

    evaluations: Evaluations
    lines: Mapping[Labels, Line]
    rising: bool = False

    @property
    def points(self) -> int:
        """The number of points."""
        return sum(map(len, self.lines.values()))

    def sample(self, labels: Labels, point: Point, number: int) -> Sample | None:
        """The sample at an evaluation, from the last point up to then."""
        if not point.there:
            return None
        value = point.value
        if self.rising and value is not None:
            value += (number - point.number) * self.evaluations.step_ns / 1e9
        return Sample(dict(labels), value, point.calls)

    def edges(self, labels: Labels) -> list[tuple[int, float | None]]:
        """Evaluation and value of each point; of rising values also of the last evaluation before the next point."""
        found: list[tuple[int, float | None]] = []
        for point, following in pairwise(chain(self.lines[labels], [None])):
            assert point
            if point.number >= self.evaluations.count:
                break
            found.append((point.number, point.value if point.there else None))
            last = (following.number if following else self.evaluations.count) - 1
            if self.rising and last > point.number and (sample := self.sample(labels, point, last)):
                found.append((last, sample.value))
        return found


def history(
    store: Reads,
    measure: str,
    where: Mapping[str, list[str] | str | bool],
    by: Sequence[str],
    evaluations: Evaluations,
    window_ns: int,
    *,
    failure_only: Sequence[str] = (),
    timeout_s: float = 30,
) -> History:
    """The points at which the samples of `measure_family` change. Raises BadParameter if there are too many."""
    until_ns = evaluations.at(evaluations.count - 1)
    reach_ns = GONE if measure == "silent" else window_ns
    selection = Selection(
        max(0, evaluations.first_ns - reach_ns),
        until_ns,
        terms_of_rule(where),
        failure_only=tuple(failure_only),
        clock_ns=until_ns,
    )
    asked = WindowedMeasure(selection, measure, tuple(by), evaluations, window_ns)
    rows = _rows(store, asked, timeout_s)
    found = _longest(rows, by) if measure == "streak" else _points(rows, by)
    if not by:
        nothing = None if measure in (*SHARES, "failing_sessions", "p95_ms", "silent") else 0.0
        found = chain([((), Point(0, nothing, 0))], ((labels, point._replace(there=True)) for labels, point in found))
    return History(evaluations, _lines(found), rising=measure == "silent")


def _lines(found: Iterable[tuple[Labels, Point]]) -> dict[Labels, Line]:
    """Lines from points in the order of label sets and time; of two points at one evaluation, the later one counts."""
    columns = _Columns()
    lines: dict[Labels, Line] = {}
    for labels, points in groupby(found, key=itemgetter(0)):
        start, last = len(columns.numbers), -1
        for _, point in points:
            if point.number == last:
                columns.pop()
            columns.append(point)
            last = point.number
        lines[labels] = Line(columns, start, len(columns.numbers))
    return lines


def _rows(store: Reads, asked: WindowedMeasure, timeout_s: float) -> list[dict[str, Any]]:
    order = ", ".join((*(f'"{name}"' for name in asked.by), "number"))
    sql = f"""select * from ({statement(asked)})
      where number < {asked.evaluations.count} order by {order} limit {MOST_ROWS + 1}"""
    rows = store.rows(sql, asked.selection.params(), timeout_s=timeout_s)
    if len(rows) > MOST_ROWS:
        remedy = "choose a shorter range, a longer step, or fewer dimensions in by"
        raise BadParameter("from", "", f"the values changed more than {MOST_ROWS} times: {remedy}")
    return rows


def _points(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> Iterator[tuple[Labels, Point]]:
    for row in rows:
        value = row["value"]
        yield (
            _labels(row, by),
            Point(row["number"], None if value is None else float(value), row["calls"], row["there"]),
        )


def _longest(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> Iterator[tuple[Labels, Point]]:
    """The longest open streak after each change; rows are in the order of label sets and time."""
    labels: Labels | None = None
    known: Counter[int] = Counter()
    open_: Counter[int] = Counter()
    for row in rows:
        if (whose := _labels(row, by)) != labels:
            labels, known, open_ = whose, Counter(), Counter()
        known[row["length"]] += row["known"]
        open_[row["length"]] += row["open"]
        value = max((length for length, count in open_.items() if count), default=0)
        calls = sum(length * count for length, count in known.items())
        yield labels, Point(row["number"], float(value), calls, any(known.values()))


def _labels(row: Mapping[str, Any], by: Sequence[str]) -> Labels:
    return labels_of({name: label(row[name]) for name in by})
