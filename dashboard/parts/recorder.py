"""The recorder: calls of a session as lanes over real time, one of them selected, each a link that selects it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import Any

import polars as pl

from dashboard.charts import time_axis
from dashboard.charts.colours import Palette
from dashboard.charts.time_axis import Axis
from dashboard.data import frames
from dashboard.parts import words
from dashboard.parts.linking import component

MOST_LANES = 24  # of tools; the rarest share one
LOW = 0.25  # height of a bin without errors
BINS = 200  # in the strip of the whole session
TEXT_PX = 5.5  # of a character on a mark
PLOT_PX = (900, 480, 210)  # about the width of the lanes in wide, narrow and small windows
TICK_PX = 95  # that a label of the axis has at least
ENDS = {"recovered": "repaired", "open": "not over", "ended": "never repaired"}
KINDS = ("model", "agent", "tool")  # of lanes, in their order
NAMES = {"model": "model", "agent": "the agent itself"}
LEVELS = 4  # of calls at the same time in a lane; more overlap
LONGEST_MS = 7 * 86_400_000  # of a call on the axis
Link = Callable[[str], str]  # where the event of this id is selected
Lane = tuple[str | None, str, str]  # sub-agent, kind, name


@dataclass(frozen=True, slots=True)
class Recording:
    """What is drawn: the calls of a window in full, and of the whole session their ids and outcomes.

    `rows`: events with `order`; `index`: order, event_id, outcome; `at`: the order of the selected one; `width`: pixels
    that the lanes have.
    """

    rows: pl.DataFrame
    index: pl.DataFrame
    at: int
    streaks: pl.DataFrame
    link: Link
    width: int = PLOT_PX[0]


def show(recording: Recording, key: str, palette: Palette, zone: tzinfo, said: str) -> None:
    """Draws it; `said` is the answer in a sentence, for readers who cannot see it."""
    component("recorder")(key=key, data=content(recording, palette, zone, said))


def content(recording: Recording, palette: Palette, zone: tzinfo, said: str) -> dict[str, Any]:
    """What the browser gets: places from 0 to 1, texts, and addresses."""
    rows = _spanned(recording.rows)
    axis = time_axis.folded(rows.select("begun", "time").iter_rows())
    lanes, of_rows = _lanes(rows)
    rows = rows.with_columns(lane=pl.Series(of_rows))
    levels = _levels(rows)
    marks = [_mark(row, level, axis, recording) for row, level in zip(rows.iter_rows(named=True), levels, strict=True)]
    brackets, streaked = _brackets(rows, recording, axis)
    return {
        "colours": dict(palette.outcome),
        "label": said,
        **_headed(_described(lanes, rows, levels), marks, brackets, streaked, _joins(rows, axis)),
        "folds": [
            {"from": low, "to": high, "label": words.duration(pause.total_seconds() * 1000)}
            for low, high, pause in axis.folds()
        ],
        "ticks": [{"at": at, "label": label} for at, label in axis.ticks(recording.width // TICK_PX, zone)],
        "cursor": next(({"from": mark["from"], "to": mark["to"]} for mark in marks if mark["selected"]), None),
        "strip": _strip(recording),
        **_ways(recording),
    }


def _spanned(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the time at which each call began; that of its end where no duration is reported."""
    nanoseconds = (pl.col("duration_ms").fill_null(0).clip(0, LONGEST_MS) * 1e6).cast(pl.Int64)
    begun = pl.col("time") - nanoseconds.cast(pl.Duration("ns"))
    return rows.with_columns(begun=begun, again=frames.again(rows))


def _lanes(rows: pl.DataFrame) -> tuple[list[Lane], list[int]]:
    """The lanes in their order, of the main agent before those of its sub-agents, requests before tools; and the number
    of that of each call. The rarest tools share one without a name.
    """
    own = [_lane(row) for row in rows.iter_rows(named=True)]
    tools = Counter(lane for lane in own if lane[1] == "tool")
    rare = {lane for lane, _ in tools.most_common()[MOST_LANES:]}
    own = [(lane[0], "tool", "") if lane in rare else lane for lane in own]
    agents = list(dict.fromkeys([None, *(agent for agent, _, _ in own)]))
    listed = sorted(dict.fromkeys(own), key=lambda lane: (agents.index(lane[0]), KINDS.index(lane[1]), lane[2] == ""))
    return listed, [listed.index(lane) for lane in own]


def _lane(row: Mapping[str, Any]) -> Lane:
    kind = row["operation"]
    return row["subagent"], kind, NAMES.get(kind) or row["tool"] or words.NONE


def _levels(rows: pl.DataFrame) -> list[int]:
    """For each call the level in its lane on which it overlaps no other in time."""
    ends: dict[int, list[datetime]] = {}
    found = {}
    for order, lane, begun, time in rows.sort("begun", "order").select("order", "lane", "begun", "time").iter_rows():
        taken = ends.setdefault(lane, [])
        level = next((level for level, end in enumerate(taken) if end <= begun), len(taken))
        taken[level : level + 1] = [time]
        found[order] = min(level, LEVELS - 1)
    return [found[order] for order in rows["order"]]


def _mark(row: Mapping[str, Any], level: int, axis: Axis, recording: Recording) -> dict[str, Any]:
    low, high = axis.at(row["begun"]), axis.at(row["time"])
    told = (row["input_tokens"] or 0) + (row["output_tokens"] or 0)
    text = words.count(told) if row["operation"] == "model" and told else "✕" if row["outcome"] == "error" else ""
    return {
        "lane": row["lane"], "level": level, "from": low, "to": high, "outcome": row["outcome"],
        "title": said_of(row), "href": recording.link(row["event_id"]), "selected": row["order"] == recording.at,
        "text": text if (high - low) * recording.width > TEXT_PX * len(text) + 6 else "",
    }  # fmt: skip


def said_of(row: Mapping[str, Any]) -> str:
    """A call in one line of plain text."""
    what = words.line(row["tool"] or frames.NO_TOOL.get(row["operation"], words.NONE), 60)
    parts = [f"call {row['order']:,}: {what}", row["error_class"] or row["outcome"]]
    if row["duration_ms"] is not None:
        parts.append(f"took {words.duration(row['duration_ms'])}")
    return " · ".join([*parts, *spent(row)])


def spent(row: Mapping[str, Any]) -> list[str]:
    """Tokens and money of a call, as far as they are reported."""
    told = [f"{row[name]:,.0f} tokens {way}" for name, way in (("input_tokens", "in"), ("output_tokens", "out"))
            if row.get(name) is not None]  # fmt: skip
    return [*told, *([words.dollars(row["cost_usd"])] if row.get("cost_usd") is not None else [])]


def _joins(rows: pl.DataFrame, axis: Axis) -> list[dict[str, Any]]:
    """A line from each error to its retry."""
    begun, lane = (dict(zip(rows["order"], rows[name], strict=True)) for name in ("begun", "lane"))
    levels = frames.lanes(rows.select("order", "again", tool="lane"))
    found = []
    for (order, time, again), level in zip(rows.select("order", "time", "again").iter_rows(), levels, strict=True):
        if again in begun:
            low, high = sorted((axis.at(time), axis.at(begun[again])))
            found.append({"lane": lane[order], "from": low, "to": high, "level": level % 3})
    return found


def _brackets(rows: pl.DataFrame, recording: Recording, axis: Axis) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The streaks that are seen, as spans, and whose they are; a label ends before the next one begins."""
    found: list[dict[str, Any]] = []
    whose: list[str | None] = []
    for streak in recording.streaks.iter_rows(named=True):
        within = pl.col("time").dt.cast_time_unit("us").is_between(streak["started"], streak["ended"])
        mine = rows.filter(within, pl.col("subagent").eq_missing(pl.lit(streak["subagent"])))
        if mine.is_empty():
            continue
        span = {"from": axis.at(mine["begun"].min()), "to": axis.at(streak["ended"])}  # type: ignore[arg-type]
        found.append(span | {"length": words.count(streak["length"]), "end": ENDS[streak["state"]], "outcome": "error",
                             "href": recording.link(str(streak["first_event_id"]))})  # fmt: skip
        whose.append(streak["subagent"])
    return [_labelled(one, found, whose, recording.width) for one in zip(found, whose, strict=True)], whose


def _labelled(
    one: tuple[dict[str, Any], str | None], others: Sequence[dict[str, Any]], whose: Sequence[str | None], width: int
) -> dict[str, Any]:
    """A bracket with as much of its label as there is room for: beside it, else its length inside, else nothing."""
    bracket, agent = one
    length, end = bracket["length"], bracket["end"]
    label = f"{length} in a row, {end}"
    after = [other["from"] for other, its in zip(others, whose, strict=True)
             if its == agent and other is not bracket and other["to"] > bracket["to"]]  # fmt: skip
    room = (min([1.0, *after]) - bracket["to"]) * width
    inside = room < TEXT_PX * len(label) + 20
    fits = (bracket["to"] - bracket["from"]) * width > TEXT_PX * len(length) + 6
    place = {name: bracket[name] for name in ("from", "to", "outcome", "href")}
    return place | {"label": (length if fits else "") if inside else label, "inside": inside, "title": label}


def _described(lanes: Sequence[Lane], rows: pl.DataFrame, levels: Sequence[int]) -> list[dict[str, Any]]:
    said = []
    for number, (agent, kind, name) in enumerate(lanes):
        mine = rows.filter(pl.col("lane") == number)
        depth = max((level for level, lane in zip(levels, rows["lane"], strict=True) if lane == number), default=0)
        note = _note(mine) if kind == "model" else words.count(mine.height)
        label = words.line(name or "other tools", 60)
        said.append({"agent": agent, "kind": kind, "label": label, "note": note,
                     "depth": 1 if agent else 0, "levels": depth + 1})  # fmt: skip
    return said


def _note(requests: pl.DataFrame) -> str:
    tokens = requests.select(pl.sum_horizontal(pl.col("input_tokens", "output_tokens").fill_null(0)).sum()).item()
    money = requests["cost_usd"].drop_nulls()
    parts = [words.count(requests.height), *([f"{words.count(tokens)} tok."] if tokens else [])]
    return " · ".join([*parts, *([words.dollars(float(money.sum()))] if money.len() else [])])


def _headed(
    lanes: list[dict[str, Any]], marks: list[dict[str, Any]], brackets: list[dict[str, Any]],
    streaked: list[str | None], joins: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """The lanes with a heading for each sub-agent, and a lane for the streaks of each; all else placed in these."""
    listed: list[dict[str, Any]] = []
    moved, streak_lane = {}, {}
    agents = dict.fromkeys(lane["agent"] for lane in lanes)
    for agent in agents:
        if agent is not None:
            heading = f"sub-agent {words.line(agent, 40)}"
            listed.append({"kind": "heading", "label": heading, "note": "", "depth": 0, "levels": 1})
        if agent in streaked:
            streak_lane[agent] = len(listed)
            depth = 1 if agent else 0
            listed.append({"kind": "streaks", "label": "streaks", "note": str(streaked.count(agent)), "depth": depth,
                           "levels": 1})  # fmt: skip
        for number, lane in enumerate(lanes):
            if lane["agent"] == agent:
                moved[number] = len(listed)
                listed.append({name: value for name, value in lane.items() if name != "agent"})
    return {
        "lanes": listed,
        "marks": [mark | {"lane": moved[mark["lane"]]} for mark in marks],
        "brackets": [one | {"lane": streak_lane[agent]} for one, agent in zip(brackets, streaked, strict=True)],
        "joins": [join | {"lane": moved[join["lane"]]} for join in joins],
    }


def _strip(recording: Recording) -> dict[str, Any] | None:
    """The whole session in order, in bins of equally many calls; None if all of it is in the lanes."""
    index, rows = recording.index, recording.rows
    if index.height <= rows.height:
        return None
    edges = sorted({round(number * index.height / BINS) for number in range(BINS + 1)})
    bins, worst = [], _worst(index, edges)
    for low, high in pairwise(edges):
        part = index[low:high]
        errors = part.filter(pl.col("outcome") == "error")
        orders = f"calls {part['order'][0]:,} to {part['order'][-1]:,}"
        bins.append({
            "from": low / index.height, "to": high / index.height, "outcome": "error" if errors.height else "ok",
            "height": LOW + (1 - LOW) * errors.height / worst,
            "title": f"{orders}: {words.plural(errors.height, 'error')}",
            "href": recording.link((errors if errors.height else part)["event_id"][0]),
        })  # fmt: skip
    before = index["order"].index_of(rows["order"][0]) or 0
    total = words.plural(index.filter(pl.col("outcome") == "error").height, "error")
    return {
        "bins": bins, "from": before / index.height, "to": (before + rows.height) / index.height,
        "label": f"The whole session: {words.plural(index.height, 'call')}, {total}. Shown below: {_span_of(rows)}.",
    }  # fmt: skip


def _worst(index: pl.DataFrame, edges: Sequence[int]) -> int:
    """The most errors in one bin, at least 1."""
    errors = index["outcome"] == "error"
    return max(1, *(int(errors[low:high].sum()) for low, high in pairwise(edges)))


def _span_of(rows: pl.DataFrame) -> str:
    return f"calls {rows['order'][0]:,} to {rows['order'][-1]:,}"


def _ways(recording: Recording) -> dict[str, Any]:
    """Links to the calls and errors before and after the selected one, and where that is."""
    index, at = recording.index, recording.at
    errors = index.filter(pl.col("outcome") == "error")
    before, after = errors.filter(pl.col("order") < at), errors.filter(pl.col("order") > at)
    here = index["order"].index_of(at) or 0
    to = {
        "error-before": before["event_id"][-1] if before.height else None,
        "error-after": after["event_id"][0] if after.height else None,
        "before": index["event_id"][here - 1] if here else None,
        "after": index["event_id"][here + 1] if here + 1 < index.height else None,
    }
    labels = {
        "error-before": ("← error", "p"), "error-after": ("error →", "n"),
        "before": ("← call", "left arrow, where the focus is here"),
        "after": ("call →", "right arrow, where the focus is here"),
    }  # fmt: skip
    place = f"Call {at:,} of {index.height:,}" if at <= index.height else f"Call {at:,}"
    if index["outcome"][here] == "error":
        place += f", error {before.height + 1:,} of {errors.height:,}"
    return {
        "ways": [
            {"way": way, "label": label, "key": key, "href": recording.link(event) if (event := to[way]) else ""}
            for way, (label, key) in labels.items()
        ],
        "place": place,
    }
