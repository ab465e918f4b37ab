"""How a session ended and what it cost, in a sentence and a few figures. Pure: the API's row in, words out."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from dashboard.parts import components, words
from dashboard.parts.components import Figure

HELP = (
    "How the last call of the session ended, or the class of its error if that is unrepaired; not over: a record of it "
    "came within the last hour; not told: the outcome of its last call is unknown."
)
DID: Mapping[str, str] = {
    "ok": "went well", "cancelled": "was cancelled", "denied": "was refused by a person or a policy",
    "unknown": "has an outcome that nobody tells",
}  # fmt: skip
GOING_ON = timedelta(minutes=2)  # after its last record, a session is said to go on
STATES: Mapping[str, str] = {
    "open": "not over", "ok": "ended well", "error": "ended in error", "cancelled": "cancelled", "denied": "denied",
    "unknown": "not told",
}  # fmt: skip


def ended(row: Mapping[str, Any], now: datetime) -> str:
    """How it ended, after what, and what says so, as far as the events prove it, in Markdown."""
    return f"**{_end(row, now)}** after {_cost(row)}. {_because(row, now)}"


def _end(row: Mapping[str, Any], now: datetime) -> str:
    match row["state"]:
        case "error":
            return f"Ended in an unrepaired {words.plain(row['ended_in'] or 'error')}"
        case "ok":
            return "Ended well"
        case "cancelled":
            return "Cancelled"
        case "denied":
            return "Ended in a refusal"
        case "unknown":
            return "How it ended is not told,"
    return "Still going" if now - components.moment(row["last_received"]) < GOING_ON else "Not known yet how it ends,"


def _because(row: Mapping[str, Any], now: datetime) -> str:
    last = f"Its last call, {_call(row)},"
    if row["state"] == "unknown" and row["last_outcome"] != "unknown":
        return f"{last} failed, and its agent tells only of failures."
    if row["state"] == "error":
        return f"That was its last call, {_call(row)}."
    said = f"{last} {_did(row)}{_left(row)}."
    if row["state"] != "open":
        return said
    ago = words.elapsed(components.moment(row["last_received"]), now)
    return f"{said} Its last record came {ago} ago; after an hour without one it counts as ended."


def _call(row: Mapping[str, Any]) -> str:
    return words.plain(row["last_tool"], 60) if row["last_tool"] else "a model request"


def _did(row: Mapping[str, Any]) -> str:
    if row["last_outcome"] == "error":
        return f"failed with {words.plain(row['last_class'] or 'an error')}"
    return DID[row["last_outcome"]]


def _left(row: Mapping[str, Any]) -> str:
    """The errors that were left behind although the last call went well."""
    if row["last_outcome"] != "ok" or not row["lasting"]:
        return ""
    return f", but {words.plural(row['lasting'], 'error')} before it {_were(row['lasting'])} never repaired"


def _were(number: float) -> str:
    return "was" if number == 1 else "were"


def _cost(row: Mapping[str, Any]) -> str:
    parts = [words.plural(row["calls"], "call"), words.plural(row["streaks"], "streak")]
    tokens = _tokens(row)
    parts.append("tokens not told" if tokens is None else f"{tokens:,.0f} tokens")
    parts.append("money not told" if row["cost_usd"] is None else words.plain(words.dollars(row["cost_usd"])))
    return ", ".join(parts)


def _tokens(row: Mapping[str, Any]) -> float | None:
    told = [row[name] for name in ("input_tokens", "output_tokens") if row[name] is not None]
    return sum(told) if told else None


def figures(row: Mapping[str, Any]) -> list[Figure]:
    """The numbers of a session, each with what it is made of."""
    tokens = _tokens(row)
    ways = [f"{row[name]:,.0f} {way}" for name, way in (("input_tokens", "in"), ("output_tokens", "out"))
            if row[name] is not None]  # fmt: skip
    made = f"{words.plural(row['tool_calls'], 'tool call')}, {words.plural(row['requests'], 'model request')}"
    longest = f"the longest of {words.count(row['worst_streak'])}" if row["streaks"] else "no two mistakes in a row"
    return [
        Figure("Calls", words.count(row["calls"]), note=made),
        Figure("Errors", words.count(row["errors"]), note=_lasting(row), help=words.HELP["lasting errors"]),
        Figure("Streaks", words.count(row["streaks"]), note=longest, help=words.HELP["streak"]),
        Figure("Tokens", words.count(tokens), note=_told(row, "with_tokens", ways)),
        Figure("Money", words.plain(words.dollars(row["cost_usd"])), note=_told(row, "with_cost", [])),
        Figure("Time", words.duration(row["seconds"] * 1000), note="from the first call to the end of the last"),
    ]


def _lasting(row: Mapping[str, Any]) -> str:
    if not row["errors"]:
        return "none"
    open_ = f", {words.count(row['not_known_yet'])} not known yet" if row["not_known_yet"] else ""
    return f"{words.count(row['lasting'])} never repaired{open_}"


def _told(row: Mapping[str, Any], by: str, parts: list[str]) -> str:
    if not row[by]:
        return "its agent does not tell"
    requests = words.plural(row["requests"], "request")
    return ", ".join([*parts, f"told by {words.count(row[by])} of {requests}"])
