"""Finds the row of the tables that takes a record."""

from __future__ import annotations

from collections.abc import Iterable

from collector.decode.plain import unwrapped
from collector.decode.record import Record
from collector.recognise.readers import Around, as_text, parsed
from collector.recognise.sources import AI_OPERATION, Fitting, Plan


def fitting(plan: Plan, record: Record, around: Around) -> Fitting | None:
    """The first row that matches the record; None if it is not a report."""
    if record.signal == "span":
        found = _span(plan, record, around)
        if found is None or not found.row.disguised:
            return found
        return _first(plan, "log", as_text(record.attributes.get("event.name")) or "", record, around)
    sent = ""
    for name in _event_names(record):
        sent = sent or name
        if (found := _first(plan, record.signal, name, record, around, sent)) is not None:
            return found
    return None


def _span(plan: Plan, record: Record, around: Around) -> Fitting | None:
    """The row that a span matches. One of the AI SDK that the table of its scope has no call in is tried beside it."""
    if AI_OPERATION not in record.attributes:
        return _first(plan, "span", record.name, record, around)
    name = as_text(record.attributes[AI_OPERATION]) or record.name
    found = _first(plan, "span", name, record, around)
    if plan.beside and (found is None or found.row.operation == "link"):
        own = _first(plan.beside, "span", name, record, around)
        if own is not None and (found is None or own.row.operation not in ("link", "drop")):
            return own
        around.captured = found.captured if found else ""
    return found


def _first(plan: Plan, signal: str, name: str, record: Record, around: Around, event: str = "") -> Fitting | None:
    """The first row that fits; after a link, which tells no call, a later table may have one that does."""
    around.event = event or name
    link: Fitting | None = None
    for one in plan.fitting(signal, name, record.attributes):
        if link is not None and (one.row.operation in ("link", "drop") or one.row.source in link.row.related):
            continue
        around.captured = one.captured
        if one.fits(record, around):
            if one.row.operation != "link" or plan.claimed:
                return one
            link = one
    if link is not None:
        around.captured = link.captured
    return link


def _event_names(record: Record) -> Iterable[str]:
    """Candidates for a log record's name, in order; "" last, for rows that require no name."""
    if name := as_text(record.attributes.get("event.name")):
        yield name
    if record.name:
        yield record.name
    body = record.body
    if isinstance(body, str) and body[:1].isalpha():
        yield body.split(maxsplit=1)[0].rstrip(":")
    yield ""


def opened(record: Record) -> bool:
    """Adds the entries of a body that is a map, or the JSON text of one, to the record's attributes; whether there were
    any.

    Loggers that write JSON put everything there. This is done only for records that no row matches: otherwise bodies
    contain prompts.
    """
    body = record.body
    body = parsed(body) if isinstance(body, str) and body[:1] == "{" else body
    if not isinstance(body, dict):
        return False
    for key, value in unwrapped(body).items():
        record.attributes.setdefault(key, value)
    return bool(body)
