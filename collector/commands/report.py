"""`misstep report`: what the agents on this machine keep getting wrong, read from their files; nothing is stored.

The calls go through the same pipeline, correlation and queries as in a collector, in this process and in memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from collector.commands.imports import OF_NO_AGENT, looking, nothing_found, read_all
from collector.commands.lessons import evidence
from collector.correlate.correlate import Correlator
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.lessons.instructions import instructions
from collector.made import pipeline_of
from collector.pipeline import Pipeline
from collector.plural import plural
from collector.query.breakdowns import breakdown
from collector.query.filters import Selection, terms_of
from collector.query.groups import groups
from collector.query.lessons import find
from collector.settings import Settings
from collector.times import rfc3339
from collector.transcripts.positions import Positions
from collector.transcripts.read import Readings
from collector.transcripts.tables import Agent, load_agents

JSON_LINES = "application/x-ndjson"
MOST_LESSONS = 5


@dataclass(slots=True)
class History:
    """The calls that were read, in a store in memory, and what was counted while reading; `title` of a class for
    people.
    """

    store: Store
    title: Callable[[str], str]
    readings: Readings
    selection: Selection


def report(wanted: Sequence[str], since_ns: int, settings: Settings) -> Iterator[str]:
    """The lines of the report. Raises OSError if a path that was named is not there."""
    agents = load_agents(*([settings.tables] if settings.tables else []))
    files = looking(wanted, agents)()
    if not files:
        yield nothing_found(wanted, agents)
        yield "Or have an agent send what it does: misstep up, then misstep connect AGENT"
        return
    history = read(Readings(files, Positions(None), since_ns), settings)
    try:
        yield from _told(history, agents)
    finally:
        history.store.close()


def read(readings: Readings, settings: Settings) -> History:
    """All calls of the files, in memory."""
    pipeline = pipeline_of(settings, os.urandom(32)).pipeline
    store = Store.open("duckdb://:memory:")
    correlator = Correlator(Lookup(store), fresh=True)

    def take(lot: list[dict[str, Any]]) -> None:
        _take(lot, pipeline, correlator, store)

    read_all(readings, take)
    for _ in store.rebuild():
        pass
    now = time.time_ns()

    def title(name: str) -> str:
        return pipeline.taxonomy.defaults(name, "").title

    return History(store, title, readings, Selection(readings.since_ns, now, clock_ns=now))


def _take(lot: list[dict[str, Any]], pipeline: Pipeline, correlator: Correlator, store: Store) -> None:
    body = b"\n".join(map(msgspec.json.encode, lot))
    changes = correlator.plan([pipeline.process(body, JSON_LINES, "events", time.time_ns())])
    store.write(changes)
    correlator.learn(changes)


def _told(history: History, agents: Mapping[str, Agent]) -> Iterator[str]:
    store, selection = history.store, history.selection
    calls = sum(count.calls for count in history.readings.counts.values())
    yield from _counts(history)
    lessons = find(selection, state="proposed", limit=MOST_LESSONS).rows(store)[:MOST_LESSONS]
    if lessons:
        yield ""
        yield "What keeps going wrong, and the sentence that would prevent it:"
    for number, row in enumerate(lessons, 1):
        shown = row | {name: rfc3339(row[name]) for name in ("first_seen", "last_seen")}
        yield f"{number}. {row['text']}"
        yield f"   {evidence(shown)}"
        yield f"   for {_file_of(row)}"
        if row["firm"]:
            yield f"   firmer: {row['firm']}"
    yield from _groups(history, MOST_LESSONS - len(lessons))
    yield ""
    yield from _unread(history, agents)
    if calls:
        yield "Nothing of this was stored. misstep import keeps it; then misstep lessons draft ID writes one down."


def _counts(history: History) -> Iterator[str]:
    """The whole, then each agent, as the query API counts them."""
    rows = breakdown(history.selection, ["operation"], ["sessions"]).rows(history.store)
    whole = next((row for row in rows if row["operation"] == "tool"), None)
    if whole is None:
        yield "No calls of tools were found in these sessions."
        return
    first, last = rfc3339(whole["first_seen"])[:10], rfc3339(whole["last_seen"])[:10]
    when = f"on {first}" if first == last else f"{first} to {last}"
    yield f"{plural(whole['calls'], 'call')} of tools in {plural(whole['sessions'], 'session')}, {when}"
    others = f"{whole['denied']:,} denied, {whole['cancelled']:,} cancelled, {whole['unknown']:,} without a result"
    yield f"{_of(whole)}; {others}"
    for row in breakdown(history.selection, ["source", "operation"], ["sessions"], sort=["-calls"]).rows(history.store):
        if row["operation"] == "tool":
            sessions = plural(row["sessions"], "session")
            yield f"  {row['source'] or 'unknown':<14} {plural(row['calls'], 'call')} in {sessions}: {_of(row)}"


def _of(row: Mapping[str, Any]) -> str:
    """How many failed: of those that ended by themselves, if these are not all."""
    if row["error_rate"] is None:
        return f"{row['errors']:,} failed"
    of = "" if row["rated"] == row["calls"] else f" of the {row['rated']:,} that ran to their end"
    return f"{row['errors']:,} failed ({row['error_rate']:.1%}{of})"


def _groups(history: History, most: int) -> Iterator[str]:
    """The most frequent errors, where fewer lessons passed the gates than there is room for."""
    errors = replace(history.selection, terms=tuple(terms_of("outcome", "error")))
    rows = groups(errors, ["recovery_rate"], sort=["-events"], limit=most).rows(history.store)[:most]
    if not most or not rows:
        return
    yield ""
    yield "What failed most besides:" if most < MOST_LESSONS else "What failed most:"
    for row in rows:
        tool = row["tool"] or f"a request to the {row['operation']}"
        tried, well = row["retried"], row["recovered"]
        repaired = f"tried again, {well} of {tried} worked" if tried else "not tried again"
        where = f"{plural(row['events'], 'time')} in {plural(row['sessions'], 'session')}"
        yield f"  {history.title(row['error_class'])} ({tool}): {where}; {repaired}"
        yield f"    {(row['template'] or '')[:160]}"
    if most == MOST_LESSONS:
        yield "No sentence to write down yet: a mistake must come back in three sessions or more, on two days."


def _file_of(row: Mapping[str, Any]) -> str:
    agents = [name for name in (row["agents"] or "").split(", ") if name in instructions()] or ["other"]
    return ", ".join(dict.fromkeys(f"{instructions()[name].made} ({name})" for name in agents))


def _older(readings: Readings) -> Iterator[str]:
    """What was left out because of its age."""
    older = {"file": readings.older_files, "call": readings.older_calls}
    if left := [plural(number, what) for what, number in older.items() if number]:
        yield f"Older than {rfc3339(readings.since_ns)[:10]} and left out: {' and '.join(left)}; --since 1y reads more"


def _unread(history: History, agents: Mapping[str, Agent]) -> Iterator[str]:
    """What was not read, and how long there is history."""
    yield from _older(history.readings)
    for name, count in sorted(history.readings.counts.items()):
        title = agents[name].title
        if agents[name].any_agent:
            yield f"{title}: {plural(count.files, 'file')} {OF_NO_AGENT}"
        unread = {"file": count.failed, "line": count.told.unreadable}
        lost = [plural(number, what) for what, number in unread.items() if number]
        if lost:
            yield f"{title}: {' and '.join(lost)} could not be read"
        if agents[name].keeps_days and count.calls:
            kept = f"{title} removes its sessions after {agents[name].keeps_days} days"
            yield f"{kept}; misstep import --watch keeps more"
