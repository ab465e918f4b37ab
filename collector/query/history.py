"""What `measures` would have answered at each of many past evaluations: one statement for all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from collector.alerts.state import Labels, Sample, labels_of
from collector.query.filters import BadParameter, Selection, terms_of_rule
from collector.query.history_sql import Asked, Evaluations, statement
from collector.query.measures import GONE, SHARES, label
from collector.query.statement import Reads, used

MOST_ROWS = 300_000


class Point(NamedTuple):
    """What a label set was worth from one evaluation on. Without events in the window it is not `there`."""

    number: int
    value: float | None
    calls: int
    there: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """The points of each label set, oldest first. `rising` values grow by a second a second from each point on."""

    evaluations: Evaluations
    lines: Mapping[Labels, list[Point]]
    rising: bool = False

    def sample(self, labels: Labels, point: Point, number: int) -> Sample | None:
        """What an evaluation since the point saw."""
        if not point.there:
            return None
        value = point.value
        if self.rising and value is not None:
            value += (number - point.number) * self.evaluations.step_ns / 1e9
        return Sample(dict(labels), value, point.calls)

    def edges(self, labels: Labels) -> list[tuple[int, float | None]]:
        """Evaluation and value wherever the line turns; of a rising one both ends."""
        found: list[tuple[int, float | None]] = []
        line = self.lines[labels]
        for point, following in zip(line, [*line[1:], None], strict=True):
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
    """The samples of `measures.measure` at every evaluation, where they change.

    Raises BadParameter where the history is too large.
    """
    until_ns = evaluations.at(evaluations.count - 1)
    reach_ns = GONE if measure == "silent" else window_ns
    selection = Selection(
        max(0, evaluations.first_ns - reach_ns), until_ns, terms_of_rule(where), failure_only=tuple(failure_only)
    )
    asked = Asked(selection, measure, tuple(by), evaluations, window_ns)
    lines: defaultdict[Labels, list[Point]] = defaultdict(list)
    if not by:
        nothing = None if measure in (*SHARES, "failing_sessions", "p95_ms", "silent") else 0.0
        lines[()].append(Point(0, nothing, 0))
    rows = _rows(store, asked, timeout_s)
    for labels, point in _longest(rows, by) if measure == "streak" else _points(rows, by):
        line = lines[labels]
        if line and line[-1].number == point.number:
            line.pop()
        line.append(point if by else point._replace(there=True))
    return History(evaluations, dict(lines), rising=measure == "silent")


def _rows(store: Reads, asked: Asked, timeout_s: float) -> list[dict[str, Any]]:
    order = ", ".join((*(f'"{name}"' for name in asked.by), "number"))
    sql = f"""select * from ({statement(asked)})
      where number < {asked.evaluations.count} order by {order} limit {MOST_ROWS + 1}"""
    rows = store.rows(sql, used(sql, asked.selection.params()), timeout_s=timeout_s)
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
    """The longest open streak after each change; rows of one label set follow each other, oldest first."""
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
