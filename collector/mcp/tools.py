"""The tools as a table: what each says of itself, what it takes, and how it answers from the query API.

An answer begins with a sentence and has one screen of data. Recorded text stands under `quoted`; names are quoted too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from collector.mcp.quoting import NOTE, harmless, quoted

MOST_ROWS = 25
SETTLED = "-10m"  # younger sessions are left out, so that an agent does not find what it does at the moment
OWN = "!misstep"  # calls of these tools are not what anybody asks about

Arguments = Mapping[str, Any]
Data = dict[str, Any]
Ask = Callable[..., Awaitable[Data]]  # a path of the query API and its parameters


class Unusable(ValueError):
    """What was asked cannot be answered; the text says why, to the model."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A sentence, and the data behind it."""

    sentence: str
    data: Data

    def structured(self) -> Data:
        """As one object."""
        return harmless({"answer": self.sentence, **self.data}) | {"note": NOTE}  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; `takes` are its own parameters as JSON Schema, of which `needs` must be given, `filters` whether it
    takes those that all share.
    """

    name: str
    title: str
    text: str
    answer: Callable[[Ask, Arguments], Awaitable[Reply]]
    takes: Mapping[str, Mapping[str, Any]]
    needs: tuple[str, ...] = ()
    filters: bool = True

    def schema(self) -> dict[str, Any]:
        """Its parameters as JSON Schema."""
        properties = {**self.takes, **(SHARED if self.filters else {})}
        return {
            "type": "object",
            "properties": properties,
            "required": list(self.needs),
            "additionalProperties": False,
        }


def _text(about: str, most: int = 200) -> dict[str, Any]:
    return {"type": "string", "description": about, "maxLength": most}


SHARED: Mapping[str, Mapping[str, Any]] = {
    "since": _text("start: relative such as 14d or 24h, or RFC 3339; default 14d", 40),
    "service": _text("only this agent, by its service name"),
    "tool": _text("only this tool"),
    "model": _text("only this model"),
    "error_class": _text("only this class, such as FileNotFoundError"),
}
LIMIT = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "description": "rows; default 10"}


def _asked(arguments: Arguments, *, until: str = SETTLED) -> dict[str, Any]:
    """The shared parameters as those of the query API."""
    since = str(arguments.get("since") or "14d")
    start = f"-{since}" if since[:1].isdigit() and "T" not in since and "-" not in since else since
    named = {name: _escaped(arguments[name]) for name in SHARED if name != "since" and arguments.get(name)}
    return {"from": start, "to": until, "mcp_server": OWN, **named}


def _escaped(value: object) -> str:
    return "".join(f"\\{one}" if one in "\\,!" else one for one in str(value))


def _limit(arguments: Arguments) -> int:
    return max(1, min(MOST_ROWS, int(arguments.get("limit") or 10)))


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{share:.1%}"


async def overview(ask: Ask, arguments: Arguments) -> Reply:
    asked = _asked(arguments)
    counts = await ask("/breakdown", measures="sessions", operation="tool", **asked)
    groups = await ask("/groups", sort="-events", limit=5, **asked)
    changed = await ask("/compare", measure="error_rate", operation="tool", **asked)
    senders = await ask("/sources", limit=MOST_ROWS)
    if not counts["rows"] or not counts["rows"][0]["calls"]:
        newest = f" The newest event is of {counts['newest']}." if counts.get("newest") else ""
        return Reply(f"No tool call was recorded since {counts['from']}.{newest}", {})
    row = counts["rows"][0]
    between = f"{_percent(row['low'])} to {_percent(row['high'])} with 95 % confidence"
    said = f"{row['errors']} of {row['calls']} tool calls in {row['sessions']} sessions failed"
    rate = f"error rate {_percent(row['error_rate'])}, {between}" if row["error_rate"] is not None else "no rate"
    data = {
        "counts": {name: row[name] for name in ("calls", "ok", "errors", "denied", "cancelled", "unknown", "sessions")},
        "from": counts["from"],
        "to": counts["to"],
        "since_the_period_before": changed["rows"][0]["sentence"] if changed["rows"] else None,
        "most_frequent": [_group(one) for one in groups["rows"]],
        "told_by": [
            {"service": one["service"], "source": one["source"], "events": one["events"], "last_seen": one["last_seen"]}
            for one in senders["rows"]
        ],
    }
    return Reply(f"{said} ({rate}).", data)


async def list_mistakes(ask: Ask, arguments: Arguments) -> Reply:
    order = {"count": "-events", "sessions": "-sessions", "new": "-first_seen", "rising": "-growth"}
    sort = order[arguments.get("sort") or "count"]
    found = await ask("/groups", sort=sort, limit=_limit(arguments), **_asked(arguments))
    rows = [_group(one) for one in found["rows"]]
    more = "; there are more" if found["truncated"] else ""
    said = f"{len(rows)} groups of equal errors since {found['from']}{more}." if rows else "No errors were recorded."
    return Reply(said, {"shown": len(rows), "truncated": found["truncated"], "mistakes": rows})


def _group(row: Data) -> Data:
    return {
        "id": row["fingerprint"], "error_class": row["error_class"], "tool": row["tool"], "events": row["events"],
        "sessions": row["sessions"], "first_seen": row["first_seen"], "last_seen": row["last_seen"],
        "state": row["state"], "quoted": quoted(row["template"]),
    }  # fmt: skip


async def get_mistake(ask: Ask, arguments: Arguments) -> Reply:
    name = str(arguments["id"])
    group = await ask(f"/groups/{quote(name, safe='')}")
    asked = {"fingerprint": name, "from": "-60d"}
    split = await ask("/breakdown", by="service,model", limit=5, **asked)
    fate = await ask("/retries", **asked)
    events = await ask("/events", limit=max(1, min(3, int(arguments.get("examples") or 3))), **asked)
    retried = fate["rows"][0] if fate["rows"] else {}
    data = {
        "mistake": _group(group),
        "by_agent_and_model": [
            {"service": one["service"], "model": one["model"], "errors": one["errors"]} for one in split["rows"]
        ],
        "what_became_of_it": {
            name: retried.get(name) for name in ("errors", "retried", "recovered", "lasting", "not_known_yet")
        },
        "examples": [_example(one) for one in events["rows"]],
    }
    said = f"{group['error_class']} in {group['tool'] or group['operation']}: {group['events']} times"
    return Reply(f"{said} in {group['sessions']} sessions, {group['state']}.", data)


def _example(row: Data) -> Data:
    params = row["params"] if isinstance(row["params"], dict) else {}
    return {
        "event_id": row["event_id"], "session": row["session"], "time": row["time"], "tool": row["tool"],
        "target": quoted(row["target"]), "quoted": quoted(row["message"]), "parameters": sorted(params)[:20],
        "advice": row["suggestion"] and quoted(row["suggestion"]),
    }  # fmt: skip


async def check_call(ask: Ask, arguments: Arguments) -> Reply:
    names = {"command": "command", "target": "on", "tool": "of"}
    about = {api: arguments[name] for name, api in names.items() if arguments.get(name)}
    if not about:
        raise Unusable("say what you are about to do: command, target or tool")
    found = await ask("/check", **about, mcp_server=OWN, **{"from": "-60d", "to": "now"})
    said = quoted(found["sentence"].replace("`", "")) or ""
    counts = {name: found[name] for name in ("calls", "ok", "failed", "denied", "sessions", "error_class", "last_seen")}
    return Reply(said, counts | {"next": quoted(found["next"]), "next_sessions": found["next_sessions"]})


async def get_session(ask: Ask, arguments: Arguments) -> Reply:
    asked = {"from": "-60d", **({"service": _escaped(arguments["service"])} if arguments.get("service") else {})}
    name = str(arguments["session"])
    if name == "current":
        newest = await ask("/sessions", sort="-ended", limit=1, **asked)
        if not newest["rows"]:
            raise Unusable("no session was recorded")
        name = newest["rows"][0]["session"]
    found = await ask("/sessions", session=_escaped(name), limit=1, **asked)
    if not found["rows"]:
        raise Unusable(f"there is no session {quoted(name)!r} in the last 60 days")
    row = found["rows"][0]
    failed = await ask("/events", session=_escaped(name), outcome="error,denied", sort="time", limit=MOST_ROWS, **asked)
    said = f"{row['errors']} of {row['calls']} calls failed, {row['denied']} were denied"
    data = {
        "session": name,
        **{key: row[key] for key in ("service", "model", "started", "ended", "lasting", "not_known_yet")},
        "longest_run_of_mistakes": row["worst_streak"],
        "last_outcomes": row["strip"],
        "failed": [_failed(one) for one in failed["rows"]],
        "truncated": failed["truncated"],
    }
    return Reply(f"{said}; at most {row['worst_streak']} mistakes in a row.", data)


def _failed(row: Data) -> Data:
    return {
        "time": row["time"], "tool": row["tool"], "target": quoted(row["target"]), "outcome": row["outcome"],
        "error_class": row["error_class"], "recovered": row["recovered"], "quoted": quoted(row["message"]),
    }  # fmt: skip


async def compare(ask: Ask, arguments: Arguments) -> Reply:
    sides = {name: _escaped(arguments[name]) for name in ("a", "b") if arguments.get(name)}
    of = {"dimension": arguments["dimension"]} if arguments.get("dimension") else {}
    asked = _asked(arguments) | {"measure": arguments.get("measure") or "error_rate", "operation": "tool"}
    found = await ask("/compare", **asked, **of, **sides)
    row = found["rows"][0]
    names = ("measure", "a", "a_low", "a_high", "a_whole", "b", "b_low", "b_high", "b_whole", "difference", "low")
    caution = found.get("caution")
    said = f"{row['sentence']}. {caution}" if caution else row["sentence"]
    return Reply(said, {name: row[name] for name in (*names, "high", "verdict")} | {"caution": caution})


async def list_lessons(ask: Ask, arguments: Arguments) -> Reply:
    state = {"state": arguments.get("state") or "proposed"}
    asked = {name: value for name, value in _asked(arguments).items() if name not in ("from", "to")}
    asked["from"] = "-60d"
    found = await ask("/lessons", limit=_limit(arguments), **state, **asked)
    rows = [_lesson(one) for one in found["rows"]]
    said = f"{len(rows)} lessons are {state['state']}." if rows else f"No lesson is {state['state']}."
    return Reply(said, {"shown": len(rows), "truncated": found["truncated"], "lessons": rows})


async def get_lesson(ask: Ask, arguments: Arguments) -> Reply:
    row = await ask(f"/lessons/{quote(str(arguments['id']), safe='')}")
    examples = [{"session": one["session"], "quoted": quoted(one["message"])} for one in row["examples"]]
    gates = {one["gate"]: {"passed": one["passed"], "why": quoted(one["why"])} for one in row["gates"]}
    counted = ("calls", "sessions", "scope_sessions", "attempts", "rate", "low", "high", "first_seen", "last_seen")
    evidence = {name: row[name] for name in counted}
    data = _lesson(row) | {"firm": quoted(row["firm"]), "evidence": evidence, "gates": gates, "examples": examples}
    return Reply(f"{row['calls']} failed calls in {row['sessions']} of {row['scope_sessions']} sessions.", data)


def _lesson(row: Data) -> Data:
    return {
        "id": row["id"], "kind": row["kind"], "state": row["state"], "scope": row["scope"], "place": row["place"],
        "sentence": quoted(row["text"]), "sessions": row["sessions"], "calls": row["calls"],
        "worked_next": quoted(row["next"]), "refused_by": row["refused_by"], "since": row["since"],
        "verdict": row["verdict"], "effect": quoted(row["sentence"]),
    }  # fmt: skip


TOOLS = (
    Tool(
        "overview", "How it is going",
        "How many tool calls failed, how sure that is, the most frequent errors, and what changed. Start here.",
        overview, {},
    ),
    Tool(
        "list_mistakes", "Recurring errors",
        "Groups of equal errors. Use get_mistake with an id for one of them; not for single events.",
        list_mistakes,
        {"sort": {"type": "string", "enum": ["count", "sessions", "new", "rising"], "description": "default count"},
         "limit": LIMIT},
    ),
    Tool(
        "get_mistake", "One recurring error",
        "One group of errors: which agents and models, what became of it, examples.",
        get_mistake,
        {"id": _text("id from list_mistakes", 20),
         "examples": {"type": "integer", "minimum": 1, "maximum": 3, "description": "default 3"}},
        ("id",), filters=False,
    ),
    Tool(
        "check_call", "Has this failed here?",
        "Before you run something: how often calls like it failed here, and what worked next. Give one of command, "
        "target, tool.",
        check_call,
        {"command": _text("a shell command, as you would run it", 1000), "target": _text("a path or URL", 400),
         "tool": _text("the name of a tool")},
        filters=False,
    ),
    Tool(
        "get_session", "One session",
        "How a session went: its failed and denied calls in order. `current` is the one that was active last.",
        get_session,
        {"session": _text("session id, or current"), "service": SHARED["service"]}, ("session",), filters=False,
    ),
    Tool(
        "compare", "Is it worse?",
        "Two values of a dimension side by side, or, without one, this period and the one before.",
        compare,
        {"dimension": _text("model, service, service_version, tool, environment, …", 60),
         "a": _text("the one value"), "b": _text("the other value"),
         "measure": _text("error_rate (default), mistake_rate, recovery_rate, p95_ms, …", 60)},
    ),
    Tool(
        "list_lessons", "What would prevent them",
        "Sentences, permissions and settings that would prevent recurring mistakes, with evidence.",
        list_lessons,
        {"state": {"type": "string", "enum": ["proposed", "adopted", "snoozed", "dismissed", "refused"],
                   "description": "default proposed; adopted tells whether they helped"},
         "limit": LIMIT},
    ),
    Tool(
        "get_lesson", "One lesson",
        "One lesson whole: wording, place, evidence, the gates it passed.",
        get_lesson, {"id": _text("id from list_lessons", 20)}, ("id",), filters=False,
    ),
)  # fmt: skip
BY_NAME = {tool.name: tool for tool in TOOLS}
