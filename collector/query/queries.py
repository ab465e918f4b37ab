"""Which events, sessions and senders: the lists behind the counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from collector.engine import Reads
from collector.engine.duckdb.derive import FACTS
from collector.query.filters import BY_NAME, BadParameter, Selection, Term
from collector.query.hours import counted
from collector.query.retries import judged, relation
from collector.query.sessions import sessions
from collector.query.statement import ROWS, Row, Statement, load, order_by, presented
from collector.streak_rules import IDLE_NS, LAST, WINDOW_NS
from collector.switches import agents
from collector.times import DAY
from collector.trace_links import trace_link

EVENT_TIMES = ("time", "received_time")
SOURCE_COLUMNS = (
    "source", "service", "project", "events", "errors", "unknown", "last_seen", "unclassified", "unclassified_rate",
    "reports_ok", "coverage", "tool_data", "metrics", "sampled", "kept", "sampled_by", "switched",
    "unread", "unread_since", "unread_by", "unread_scopes",
)  # fmt: skip
PAGED = "event_id, time_ns, received_ns, project, service, session, outcome"  # what `whole.sql` needs of a page

Complete = Callable[[Row, Sequence[Row]], None]  # adds to the body of a list what belongs beside its rows


def events(selection: Selection, limit: int, *, cursor: str = "", after: str = "", sort: str = "-time") -> Statement:
    """Whole events, newest or oldest first, beyond `cursor`; or with `after`, those that arrived since, in order of
    arrival.
    """
    beyond, direction = ("<", " desc") if sort == "-time" else (">", "")
    order = f"time_ns{direction}, event_id{direction}"
    seek, bound = "true", selection.params()
    if cursor:  # not as a comparison of pairs, for which DuckDB would read all events
        seek += f" and time_ns {beyond}= $seek_0 and (time_ns {beyond} $seek_0 or event_id {beyond} $seek_1)"
        bound |= read_token("cursor", cursor, 2)
    if after:
        seek += " and received_ns >= $after_0 and (received_ns > $after_0 or event_id > $after_1)"
        bound |= read_token("after", after, 2, "after")
        order = "received_ns, event_id"
    page = f"""select {PAGED}
      from {relation(selection)} where {selection.where()} and {seek}
      order by {order} limit {ROWS}"""
    shown = order.replace("_ns", "_time" if after else "")
    return _events_of(page, selection, bound, shown, limit)


def next_events(state: Any, selection: Selection, options: Mapping[str, Any]) -> Complete:
    """The cursors of a list of events: `next` for older ones, `after` for those that arrive later."""
    after = options["after"]
    before = after or arrived(state.store)  # now, so that nothing that arrives before the rows are read is missed

    def complete(body: Row, rows: Sequence[Row]) -> None:
        last = rows[-1] if rows else None
        if after:
            body |= {"next": None, "after": token(last["received_time"], last["event_id"]) if last else after}
        else:
            further = token(last["time"], last["event_id"]) if last and body["truncated"] else None
            body |= {"next": further, "after": before}

    return complete


def session_events(
    selection: Selection, session: str, limit: int, cursor: str = "", columns: Sequence[str] = ()
) -> Statement:
    """The events of one session, in their order: whole, or only the `columns` beside their place in it."""
    order = f"time_ns, coalesce(sequence, {LAST}), event_id"
    seek, bound = "session = $session", selection.params() | {"session": session}
    if cursor:
        seek += f" and ({order}) > ($seek_0, $seek_1, $seek_2)"
        bound |= read_token("cursor", cursor, 3, signed=True)  # an agent's `sequence` may be below 0
    listed = ", ".join(dict.fromkeys(("time_ns as time", "sequence", "event_id", *columns)))
    page = f"""select {listed if columns else PAGED}
      from {relation(selection)} where {selection.where()} and {seek}
      order by {order} limit {ROWS}"""
    shown = "time, sequence nulls last, event_id"
    if columns:
        answer = Statement(page, bound, shown, limit, EVENT_TIMES[:1], limited=True)
    else:
        answer = _events_of(page, selection, bound, shown, limit)
    return replace(answer, of_kept=True, of_clock=True)  # as is the summary beside them


def beside_session(state: Any, selection: Selection, options: Mapping[str, Any]) -> Complete:
    """The cursor of a session's events, `next` for later ones; beside the first of them, as `summary`, its row among
    all sessions, unless several services have a session of this name.
    """
    session = Term(BY_NAME["session"], (options["session"],))
    named = replace(selection, terms=(*selection.terms, session))
    asked = sessions(named, limit=1)
    found = [] if options["cursor"] else asked.rows(state.store)

    def complete(body: Row, rows: Sequence[Row]) -> None:
        body |= {"next": None, "summary": presented(found[0], asked.times) if len(found) == 1 else None}
        if body["truncated"]:
            last = rows[-1]
            sequence = LAST if last["sequence"] is None else last["sequence"]
            body["next"] = token(last["time"], sequence, last["event_id"])

    return complete


def event(event_id: int, failure_only: Sequence[str] = (), clock_ns: int = 0) -> Statement:
    """One event whole, as known at `clock_ns`."""
    selection = Selection(0, 0, failure_only=tuple(failure_only), clock_ns=clock_ns)
    page = f"select {PAGED} from events where event_id = $event_id limit {ROWS}"
    return _events_of(page, selection, selection.params() | {"event_id": event_id}, "time", 1)


def linked(state: Any, selection: Selection, options: Mapping[str, Any]) -> Complete:
    """Adds to one event its place in the trace viewer of MISSTEP_TRACE_URL, as `trace_url`."""
    template = state.settings.trace_url

    def complete(body: Row, rows: Sequence[Row]) -> None:
        body["trace_url"] = trace_link(template, body) or None

    return complete


def _events_of(page: str, selection: Selection, params: Row, order: str, limit: int) -> Statement:
    """The whole events of a page, which has no more than `ROWS` of them."""
    kept = selection.reads_chains()
    sql = _whole(page, selection)
    return Statement(sql, params, order, limit, EVENT_TIMES, of_kept=kept, of_clock=True, limited=True)


def _whole(page: str, selection: Selection) -> str:
    around = load("around").format(window=WINDOW_NS)
    known_by = "time_ns >= (select min(time_ns) from page) and time_ns <= (select until_ns from known)"
    chains = judged(selection, around, known_by=known_by)
    return load("whole").format(page=page, judged=chains, window=WINDOW_NS, day=DAY)


def read_token(name: str, text: str, parts: int, prefix: str = "seek", *, signed: bool = False) -> dict[str, int]:
    """The position that `token` wrote, as parameters `seek_0`, `seek_1`, …. Raises BadParameter."""
    numbers = text.split(".")
    number_of = re.compile(r"-?[0-9]{1,20}" if signed else r"[0-9]{1,20}")
    if len(numbers) != parts or not all(map(number_of.fullmatch, numbers)):
        raise BadParameter(name, text, f"{name} is taken unchanged from an earlier answer to the same question")
    return {f"{prefix}_{place}": max(-(2**63), min(int(number), 2**64 - 1)) for place, number in enumerate(numbers)}


def token(*numbers: int) -> str:
    """A position in a list."""
    return ".".join(str(number) for number in numbers)


def redirected(store: Reads, event_id: int) -> int | None:
    """The id of the event into which this one was merged."""
    rows = store.rows(
        "select event_id from redirects where old_id = $old_id"
        " union all select event_id from twins where unit = $old_id and event_id != unit limit 1",
        {"old_id": event_id},
    )
    return int(rows[0]["event_id"]) if rows else None


def arrived(store: Reads) -> str:
    """The position of the newest arrival, for `after` of `events`."""
    newest = store.rows("select max(received_ns) as newest from events")[0]["newest"]
    return token(newest or 0, 2**64 - 1)


def newest_ns(store: Reads) -> int | None:
    """Time of the newest event of all."""
    newest = store.rows("select max(time_ns) as newest from events")[0]["newest"]
    return None if newest is None else int(newest)


def last_silence(store: Reads, clock_ns: int) -> int:
    """When the last record was received of what an hour without another one has decided by now; 0 if there is none."""
    heard = " union all ".join(
        f"select max({name}) as heard_ns from {table} where {name} < $clock_ns - {IDLE_NS}"
        for table, name in (("kept_chains", "heard_ns"), ("kept_streaks", "heard_ns"), ("events", "received_ns"))
    )
    rows = store.rows(f"select max(heard_ns) as heard_ns from ({heard})", {"clock_ns": clock_ns})
    return int(rows[0]["heard_ns"] or 0)


def sources(selection: Selection, sort: Sequence[str] = (), limit: int = 100) -> Statement:
    """Senders, with the share of their errors without a class and of their events that have each fact."""
    rows = counted(selection, ["source", "service", "project", "model"], facts=True)
    error, call, left_open = "outcome = 'error'", "operation = 'tool'", "outcome = 'unknown'"
    told = {
        "events": rows.count(), "errors": rows.count(error), "unknown": rows.count(left_open), "last_seen": rows.last(),
        "unclassified": rows.count(error, "error_class = 'UnknownError'"),
        "with_model": rows.count("model is not null"), **{name: rows.fact(name) for name in FACTS},
        "calls": rows.count(call), "with_outcome": rows.count(call, f"not {left_open}"),
        "with_params": rows.fact("with_params", call),
    }  # fmt: skip
    sql = load("sources").format(
        told=", ".join(f"{expression} as {name}" for name, expression in told.items()),
        source=rows.source,
        events=relation(selection),
        where=selection.where(),
        rated=selection.rated(),
    )
    order = order_by(sort or ["-last_seen"], SOURCE_COLUMNS, ("source", "service", "project"))
    asks = selection.reads_chains()
    return Statement(sql, selection.params(), order, limit, ("last_seen", "unread_since"), of_kept=asks, of_clock=asks)


def add_remedies(state: Any, selection: Selection, options: Mapping[str, Any]) -> Complete:
    """For each fact that a source only sends when configured to, the line that turns it on; what else its agent leaves
    untold by default, with the settings that tell it, their price and whether they show; and what of it is missing.
    """
    remedies = {
        source.id: {fact: said for fact, said in source.coverage.items() if isinstance(said, str)}
        for source in state.sources.sources
    }

    def complete(body: Row, rows: Sequence[Row]) -> None:
        body["rows"] = [row | {"remedies": remedies.get(row["source"], {})} | _told(row) for row in body["rows"]]

    return complete


def checked(row: Row) -> Iterator[Row]:
    """What the agent of this sender leaves untold by default: `what`, `page`, `switches`, and the `state` of each."""
    agent = agents().get(row["source"])
    if agent is None or not row["tool_data"]:
        return
    seen = frozenset((row["switched"] or "").split(", "))
    for each, state in agent.checked(row["coverage"], seen):
        switches = [
            {"setting": one.setting, "privacy": one.privacy, "command": agent.command(one)} for one in each.switches
        ]
        yield {"what": each.what, "page": f"docs/agents/{agent.page}.md", "state": state, "switches": switches}


def _told(row: Row) -> Row:
    checks = list(checked(row))
    missing = [check for check in checks if check["state"] == "missing"]
    untold = [{name: value for name, value in check.items() if name != "state"} for check in missing]
    return {"untold": untold, "checks": checks}
