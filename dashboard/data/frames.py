"""Turns answers of the API into what tables and charts show. Pure: frames in, frames out."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from typing import Any

import polars as pl

from dashboard.data.filters import NO_VALUE
from dashboard.parts import words

Box = tuple[float, float, float, float]  # left, bottom, right, top

LEVELS = ("domain", "category", "error_class")
STATES = ("recovered", "open", "ended")
HEIGHTS = {"o": 1, "c": 2, "d": 2, "u": 2, "e": 4}
OTHER_MIX = 0.1  # share of the calls that would have to be of another tool
LINES = 3  # of labels above a chart
PLOT_PX, MARGIN_PX = (390, 200), 30  # the narrowest plot area of the dots, and the free margin beside it
DOT_PX, CHARACTER_PX, LINE_PX, LABEL_PX = 11, 6.2, 13, 120  # radius of the largest dot; sizes of labels
RETRY_WITHIN = timedelta(minutes=30)
NO_TOOL = {"model": "model request", "agent": "the agent itself"}


def tree(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows per class as a tree: one for each domain, category and class, with its depth; largest first at each."""
    total = rows["errors"].sum() or 1
    rows = rows.with_columns(pl.col(LEVELS).fill_null("unknown"))
    levels = []
    for depth in range(len(LEVELS)):
        keys = LEVELS[: depth + 1]
        level = rows.group_by(keys).agg(pl.col("errors").sum())
        levels.append(level.with_columns(name=pl.col(keys[-1]), dimension=pl.lit(keys[-1]), depth=pl.lit(depth)))
    whole = pl.concat(levels, how="diagonal")
    for depth in range(len(LEVELS)):
        whole = whole.with_columns(pl.col("errors").max().over(LEVELS[: depth + 1]).alias(f"rank{depth}"))
    order = [column for depth, name in enumerate(LEVELS) for column in (f"rank{depth}", name)]
    whole = whole.sort(order, descending=[True, False] * len(LEVELS), nulls_last=False)
    return whole.select("name", "errors", (pl.col("errors") / total).alias("share"), "dimension", "depth")


def lengths(rows: pl.DataFrame) -> pl.DataFrame:
    """Streaks by exact length and state, computed from how many reached each length; 10 and more are one row."""
    exact = rows.sort("length").with_columns(
        (pl.col(state) - pl.col(state).shift(-1).fill_null(0)).alias(state) for state in STATES
    )
    long = exact.unpivot(STATES, index="length", variable_name="state", value_name="number")
    label = (
        pl.when(pl.col("length") >= 10).then(pl.lit("10+")).otherwise(pl.col("length").cast(pl.Int64).cast(pl.String))
    )
    return long.with_columns(length=label).filter(pl.col("number") > 0)


def findings(rows: pl.DataFrame) -> pl.DataFrame:
    """Adds what was said of each class and by whom (`said_words`), and the API's verdict in words (`finding`)."""
    glyph = pl.when(pl.col("said_retryable")).then(pl.lit("● yes")).otherwise(pl.lit("○ no"))
    by = pl.when(pl.col("declared") > 0).then(pl.lit("agent")).otherwise(pl.lit("table"))
    said = pl.when(pl.col("said_retryable").is_null()).then(pl.lit(words.NONE)).otherwise(glyph + ", " + by)
    finding = pl.col("verdict").replace(words.RETRIED)
    return rows.with_columns(said_words=said, finding=finding)


def told_apart(rules: Sequence[str], labels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each alert's rule, followed by the label values in which alerts of that rule differ."""
    values: dict[tuple[str, str], set[Any]] = {}
    for rule, said in zip(rules, labels, strict=True):
        for name, value in said.items():
            values.setdefault((rule, name), set()).add(value)
    return [
        " ".join([rule, *(str(value or NO_VALUE) for name, value in said.items() if len(values[rule, name]) > 1)])
        for rule, said in zip(rules, labels, strict=True)
    ]


def quiet() -> pl.Expr:
    """Whether receivers are not notified of an alert, because of a silence or the alert of its cause."""
    return pl.col("silenced").fill_null(False) | pl.col("inhibited_by").fill_null("").ne("")


def ordered(rows: pl.DataFrame, before: int = 0) -> pl.DataFrame:
    """The events with their position as `order`, from 1, or after those that came `before`."""
    return rows.with_row_index("order", before + 1).with_columns(pl.col("order").cast(pl.Int64))


def again(rows: pl.DataFrame) -> pl.Series:
    """For each error among a session's ordered events, the position of its retry; null for others.

    As in the API's retry chains: the next event of the same sub-agent, operation, tool and target within half an hour.
    """
    chain = ("subagent", "operation", "tool", "target")
    following, at = (pl.col(name).shift(-1).over(chain) for name in ("order", "time"))
    tried = (pl.col("outcome") == "error") & (at - pl.col("time") <= RETRY_WITHIN)
    return rows.select(pl.when(tried).then(following).alias("again"))["again"]


def lanes(rows: pl.DataFrame) -> list[int]:
    """For each of the ordered events a lane for the line to its retry, so that lines of one tool do not overlap.

    `rows`: order, tool, again.
    """
    ends: dict[str | None, list[int]] = {}
    found = []
    for order, tool, again in rows.select("order", "tool", "again").iter_rows():
        taken = ends.setdefault(tool, [])
        lane = next((lane for lane, end in enumerate(taken) if end <= order), len(taken))
        if again is not None:
            taken[lane : lane + 1] = [again]
        found.append(lane)
    return found


def lines(marks: pl.DataFrame, span: tuple[datetime, datetime], lengths: list[float]) -> list[int | None]:
    """For each mark the text line on which its label overlaps no other, or None. Later marks choose first.

    `marks`: time, late (its label is on the left); `lengths` are those of the labels, as shares of the span.
    """
    whole = (span[1] - span[0]).total_seconds()
    taken: list[list[tuple[float, float]]] = [[] for _ in range(LINES)]
    found: list[int | None] = []
    for (time, late), length in reversed(list(zip(marks.select("time", "late").iter_rows(), lengths, strict=True))):
        place = (time - span[0]).total_seconds() / whole
        start, end = (place - length, place) if late else (place, place + length)
        free = (line for line in range(LINES) if all(end < first or last < start for first, last in taken[line]))
        found.append(next(free, None))
        if found[-1] is not None:
            taken[found[-1]].append((start, end))
    return found[::-1]


def strip(letters: str | None) -> list[int]:
    """A session's last calls as bar heights: ok 1, cancelled, denied or unknown 2, error 4."""
    return [HEIGHTS.get(letter, 1) for letter in letters or ""]


def told(shares: dict[str, float | None], fact: str) -> str:
    """How often a sender reports a fact: ✓ (almost) always, ~ sometimes, – (almost) never; empty if not applicable."""
    share = shares.get(fact)
    if share is None:
        return ""
    return "✓" if share >= 0.95 else "–" if share < 0.05 else "~"


def filled(rows: pl.DataFrame, step_s: int, span: tuple[datetime, datetime]) -> pl.DataFrame:
    """A series with a row for every bucket of the range, with 0 for those that the answer lacks."""
    start, end = (int(moment.timestamp()) for moment in span)
    times = pl.Series("time", range(start // step_s * step_s, end, step_s), dtype=pl.Int64) * 1_000_000_000
    whole = pl.DataFrame({"time": times.cast(pl.Datetime("ns", "UTC"))})
    return whole.join(rows, on="time", how="left").fill_null(0)


def retried(rows: pl.DataFrame) -> dict[str, float | None]:
    """The totals of what became of errors, from those of each class."""
    counts = ("errors", "retried", "rated", "lasting", "not_known_yet", "identical_retries")
    sums = (pl.col(name).sum() for name in counts)
    return rows.select(*sums, recovery_rate=_of_all("recovery_rate")).row(0, named=True)


def longer(rows: pl.DataFrame, step_s: int) -> pl.DataFrame:
    """An error rate over time in longer buckets, of which each holds whole ones of before.

    `rows`: time, error_rate, rated.
    """
    start = pl.col("time").dt.timestamp("ms") // (1000 * step_s) * (1000 * step_s)
    times = start.cast(pl.Datetime("ms", "UTC")).cast(rows.schema["time"])
    return rows.group_by(time=times).agg(error_rate=_of_all("error_rate"))


def _of_all(rate: str) -> pl.Expr:
    """The rate of all rows together, from that of each and `rated`, what it is a rate of; null if that is 0."""
    return (pl.col(rate) * pl.col("rated")).sum() / pl.col("rated").sum().replace(0, None)


def rates(rows: pl.DataFrame, name: str, rate: str, of: str) -> pl.Series:
    """A rate with its denominator in words, as a column of this name."""
    return pl.Series(name, [words.rate_of(*pair) for pair in rows.select(rate, of).iter_rows()], dtype=pl.String)


def summed(rows: pl.DataFrame, dimension: str, count: str) -> pl.DataFrame:
    """A count by one of the rows' dimensions, largest first; rows without a value of it are left out."""
    sums = rows.drop_nulls(dimension).group_by(dimension).agg(pl.col(count).sum())
    return sums.sort(count, dimension, descending=[True, False])


def held(samples: pl.DataFrame, end: datetime) -> pl.DataFrame:
    """The values of a rule; the last one of each label set is repeated at `end`."""
    last = (
        samples.group_by("labels", maintain_order=True)
        .last()
        .with_columns(time=pl.lit(end).cast(samples["time"].dtype))
    )
    return pl.concat([samples, last.select(samples.columns)])


def equal_mix(rows: pl.DataFrame) -> float | None:
    """The difference b - a of a rate if both sides had used each tool equally often; None if the mix hardly differs.

    `rows`: a, b, a_whole, b_whole, one row per tool.
    """
    both = rows.drop_nulls(["a", "b"]).filter((pl.col("a_whole") > 0) & (pl.col("b_whole") > 0))
    mine, theirs = both["a_whole"].sum() or 1, both["b_whole"].sum() or 1
    moved = both.select(((pl.col("a_whole") / mine - pl.col("b_whole") / theirs).abs()).sum() / 2).item()
    if both.height < 2 or moved < OTHER_MIX:
        return None
    weight = (pl.col("a_whole") / mine + pl.col("b_whole") / theirs) / 2
    return float(both.select((weight * (pl.col("b") - pl.col("a"))).sum()).item())


def since_ever(rows: pl.DataFrame, ever: pl.DataFrame) -> pl.DataFrame:
    """The rows of versions with the first call ever of each as `first_seen`, and that of its service's first version as
    `service_seen`.

    `rows`: service, service_version, first_seen; `ever`: the same of all kept events, maybe of a minute ago.
    """
    both = pl.concat([ever, rows.select(ever.columns)]).drop_nulls(["service_version", "first_seen"])
    begun = both.group_by("service", "service_version").agg(pl.col("first_seen").min())
    begun = begun.with_columns(service_seen=pl.col("first_seen").min().over("service"))
    same = ["service", "service_version"]
    return rows.drop("first_seen").join(begun, on=same, how="left", nulls_equal=True, maintain_order="left")


def deploys(rows: pl.DataFrame, start: datetime, bucket_s: int, most: int) -> pl.DataFrame:
    """The first calls, from `start` on, of versions that came after another one of the same service; the newest `most`.

    `rows`: as from `since_ever`. Versions that appeared within one bucket run side by side.
    """
    later = pl.col("first_seen") >= pl.col("service_seen") + pl.duration(seconds=bucket_s)
    shown = rows.filter(later, pl.col("first_seen") >= start).drop_nulls(["service", "service_version"])
    named = shown.sort("first_seen").tail(most).select(
        time="first_seen", label=pl.format("{} {}", pl.col("service").str.slice(0, 20), "service_version")
    )  # fmt: skip
    return named.with_columns(about=pl.format("first call of {}", "label"))


def newest_versions(rows: pl.DataFrame, a: str = "", b: str = "") -> tuple[str | None, str, str] | None:
    """The busiest service that has two versions, if possible with the chosen `a` and `b` among them, and its two newest
    ones, older one first; if `b` is not its first one, `b` and the one before it.

    `rows`: service, service_version, calls, first_seen.
    """
    known = rows.drop_nulls(["service_version", "first_seen"])
    several = known.filter(pl.len().over("service") > 1)
    if several.is_empty():
        return None
    chosen = pl.col("service_version").is_in([a, b])
    best = several.group_by("service").agg(chosen.sum(), pl.col("calls").sum())
    service: str | None = best.sort("service_version", "calls", "service")["service"][-1]
    versions = several.filter(pl.col("service").eq_missing(service)).sort("first_seen")["service_version"].to_list()
    newer = versions.index(b) if b in versions[1:] else len(versions) - 1
    return service, versions[newer - 1], versions[newer]


def twin(rows: pl.DataFrame, event: Mapping[str, Any]) -> int | None:
    """The position of the last earlier call of the same tool with the same arguments; None if there is none."""
    if not event.get("params_hash") or "params_hash" not in rows.columns:
        return None
    same = rows.filter(
        pl.col("order") < event["order"],
        pl.col("tool").eq_missing(pl.lit(event["tool"])),
        pl.col("params_hash") == event["params_hash"],
    )
    return int(same["order"][-1]) if same.height else None


def sides(rows: pl.DataFrame, x: str, y: str, top: str, label: str, most: int) -> list[str | None]:
    """For each label the side of its dot on which it overlaps no other dot or earlier label, preferably `right`.

    None if there is no such side, or `most` labels have one. The chart is logarithmic in x; y goes from 0 to the
    largest `top`.
    """
    across = pl.col(x).log() - pl.col(x).log().min()
    places = rows.select(x=across / _largest(across) * PLOT_PX[0], y=pl.col(y) / _largest(pl.col(top)) * PLOT_PX[1])
    dots = [(at - DOT_PX, up - DOT_PX, at + DOT_PX, up + DOT_PX) for at, up in places.iter_rows()]
    said: list[Box] = []
    chosen: list[str | None] = []
    for place, (low, _, high, _) in enumerate(dots):
        others, up = [*said, *dots[:place], *dots[place + 1 :]], places["y"][place]
        length = min(len(rows[label][place]) * CHARACTER_PX, LABEL_PX)
        boxes = {"right": (high, up, high + length, up + LINE_PX), "left": (low - length, up, low, up + LINE_PX)}
        free = [
            name
            for name, box in boxes.items()
            if box[0] > -MARGIN_PX and not any(_meet(box, other) for other in others)
        ]
        side = free[0] if free and len(said) < most else None
        chosen.append(side)
        if side:
            said.append(boxes[side])
    return chosen


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _largest(values: pl.Expr) -> pl.Expr:
    """The largest value, or 1 if all are 0."""
    return pl.when(values.max() > 0).then(values.max()).otherwise(1)


def most_different(messages: pl.Series) -> int:
    """The position of the message that is least like the first."""
    first = messages[0] or ""
    likeness = [SequenceMatcher(None, first, message or "").quick_ratio() for message in messages]
    return likeness.index(min(likeness))
