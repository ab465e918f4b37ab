"""The filters of a page, as in its URL and in queries to the API; both use the API's grammar.

Filters are kept only in the URL, which widgets show and change. No Streamlit or HTTP here.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dashboard.launch import listed

DEFAULT_RANGE = "-24h"
USUAL_REFRESH_S = 10
PRESETS: Mapping[str, str] = {"15m": "-15m", "1h": "-1h", "24h": "-24h", "7d": "-7d", "30d": "-30d"}

# Dimensions in the order in which chips and the "+ Filter" menu show them; the label is what people read.
DIMENSIONS: dict[str, str] = {
    "project": "project",
    "service": "service", "tool": "tool", "service_version": "version", "environment": "environment", "agent": "agent",
    "model": "model", "error_class": "class", "category": "category", "domain": "domain", "outcome": "outcome",
    "operation": "operation", "attribution": "attribution", "recovery": "recovery", "mistake": "mistake",
    "recovered": "recovered", "retryable": "retryable", "fatal": "fatal", "severity": "severity", "source": "source",
    "mcp_server": "MCP server", "tool_kind": "tool kind", "target": "target", "provider": "provider",
    "reported_class": "reported class", "classified_by": "classified by", "status_code": "status", "session": "session",
    "subagent": "sub-agent", "trace_id": "trace", "fingerprint": "group", "repository": "repository",
    "provenance": "provenance",
}  # fmt: skip
# The user's own attributes that the collector stores as columns; the dashboard needs the same setting.
OWN = listed(os.environ, "MISSTEP_DIMENSIONS")
DIMENSIONS = DIMENSIONS | {name: name for name in OWN if name not in DIMENSIONS}
BOOLEANS = frozenset({"mistake", "recovered", "retryable", "fatal"})
CHOICES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(BOOLEANS, frozenset({"true", "false"})),
    "outcome": frozenset({"ok", "error", "cancelled", "denied", "unknown"}),
    "operation": frozenset({"tool", "model", "agent"}),
    "attribution": frozenset({"model", "tool", "environment", "provider", "user", "agent"}),
    "recovery": frozenset({"retry", "fix_and_retry", "needs_user", "none"}),
}
NUMBERS = frozenset({"fingerprint", "status_code"})
VIEW_KEYS = (
    "by", "sort", "page", "rows", "limit", "tz", "refresh", "a", "b", "event", "started", "scope", "kind", "state",
    "alert", "rule", "setup",
)  # fmt: skip
OF_TABLE = ("sort", "page", "rows")  # what the link says of a page's main table; of others as `name.sort`

# Dimensions that calls that went well have no value of.
OF_FAILURES = frozenset({
    "error_class", "category", "domain", "attribution", "recovery", "mistake", "recovered", "retryable", "fatal",
    "severity", "reported_class", "classified_by", "fingerprint",
})  # fmt: skip
NO_VALUE = "(none)"  # how people read the empty value
EVER = "1970-01-01T00:00:00Z"  # the start of a range of all that there is

_NAMED = re.compile(rf"[a-z]{{1,20}}\.(?:{'|'.join(OF_TABLE)})")
_PART = re.compile(r"(\d{1,6})(ms|[smhdw])")
_RELATIVE = re.compile(rf"-(?:{_PART.pattern})+")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_S = 50 * 365 * 86_400  # there are no older events
_LONGEST_TIME = 80  # characters; of no time more are needed


@dataclass(frozen=True, slots=True)
class Condition:
    """The filter on one dimension: one of `allowed` (if any), none of `excluded`; `""` stands for no value."""

    dimension: str
    allowed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value in the API's grammar: `a,b` or `!a`, with a backslash before a literal comma, `!` or backslash."""
        return ",".join([*map(escaped, self.allowed), *(f"!{escaped(value)}" for value in self.excluded)])

    @property
    def of_failures(self) -> bool:
        """Whether no call that went well meets it."""
        well = "ok" if self.dimension == "outcome" else "" if self.dimension in OF_FAILURES else None
        return well is not None and (well in self.excluded or (bool(self.allowed) and well not in self.allowed))

    def __str__(self) -> str:
        """The condition as people read it: `tool = a, b and tool ≠ c`."""
        name = DIMENSIONS[self.dimension]
        sides = ((sign, values) for sign, values in (("=", self.allowed), ("≠", self.excluded)) if values)
        return " and ".join(
            f"{name} {sign} {', '.join(value or NO_VALUE for value in values)}" for sign, values in sides
        )


@dataclass(frozen=True, slots=True)
class Filters:
    """What a page shows: a time range, conditions, message text, and the state of the view.

    `start` and `end` are in the API's grammar (RFC 3339 or relative); an empty `end` is now. `ignored` has the parts of
    the link that were not understood, as `name=value`.
    """

    start: str = DEFAULT_RANGE
    end: str = ""
    conditions: tuple[Condition, ...] = ()
    text: str = ""
    view: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()

    def api(self) -> dict[str, str]:
        """The parameters of every query of this page, always with the range."""
        return {"from": self.start, **({"to": self.end} if self.end else {}), **self._common()}

    def query(self) -> dict[str, str]:
        """The parameters of this page's link; defaults are left out."""
        start = {"from": self.start} if self.start != DEFAULT_RANGE else {}
        return {**start, **({"to": self.end} if self.end else {}), **self._common(), **dict(self.view)}

    def _common(self) -> dict[str, str]:
        text = {"q": self.text} if self.text else {}
        return {condition.dimension: condition.text for condition in self.conditions} | text

    def values(self, dimension: str) -> tuple[str, ...]:
        """The allowed values of one dimension; empty if it is not filtered."""
        return self.on(dimension).allowed

    def on(self, dimension: str) -> Condition:
        """The condition on one dimension, with no values if there is none."""
        return next((c for c in self.conditions if c.dimension == dimension), Condition(dimension))

    def only(self, dimension: str) -> str:
        """The single allowed value of a dimension, `""` if there is none or more than one."""
        values = self.values(dimension)
        return values[0] if len(values) == 1 else ""

    @property
    def of_failures(self) -> tuple[str, ...]:
        """The names of those filters that no call that went well matches: among what is left, every rate of errors is
        100 %.
        """
        text = ("q",) if self.text else ()  # only failures have a message
        return (*(condition.dimension for condition in self.conditions if condition.of_failures), *text)

    def state(self, key: str, default: str = "") -> str:
        """The value of one key of the view's state."""
        return dict(self.view).get(key, default)

    def set(self, dimension: str, allowed: Iterable[str] = (), excluded: Iterable[str] = ()) -> "Filters":
        """These filters with the condition on one dimension replaced, or removed if there are no values."""
        rest = [c for c in self.conditions if c.dimension != dimension]
        new = Condition(dimension, _unique(allowed), _unique(excluded))
        return replace(self, conditions=_ordered([*rest, new] if new.allowed or new.excluded else rest))

    def also(self, dimension: str, text: str) -> str:
        """Another condition on a dimension, as the API has it, together with the one here; nothing meets both if they
        contradict each other.
        """
        mine, other = self.on(dimension), _condition(dimension, text) if dimension in DIMENSIONS else None
        if not other:
            return text
        excluded = mine.excluded + other.excluded
        allowed = other.allowed or mine.allowed
        if mine.allowed and other.allowed:
            allowed = tuple(value for value in other.allowed if value in mine.allowed)
            if not allowed:
                allowed, excluded = other.allowed, excluded + other.allowed
        return Condition(dimension, allowed, _unique(excluded)).text

    def adding(self, dimension: str, values: Iterable[str], *, excluded: bool) -> "Filters":
        """These filters with further values of a dimension allowed or excluded; the last word on a value holds."""
        new, mine = _unique(values), self.on(dimension)
        kept = [tuple(value for value in side if value not in new) for side in (mine.allowed, mine.excluded)]
        kept[excluded] += new
        return self.set(dimension, *kept)

    def between(self, start: str, end: str = "") -> "Filters":
        """These filters with another range."""
        return replace(self, start=start, end=end)

    def viewed(self, understood: Mapping[str, Collection[str] | None]) -> "Filters":
        """These filters with only that state of the view that a page understands; the rest is added to `ignored`.

        `understood` has the values that each of its keys may have, None for any.
        """
        known = tuple(
            (key, value)
            for key, value in self.view
            if key in understood and ((values := understood[key]) is None or value in values)
        )
        rest = (f"{key}={value}" for key, value in self.view if (key, value) not in known)
        return replace(self, view=known, ignored=(*self.ignored, *rest))

    def showing(self, **view: str) -> "Filters":
        """These filters with changes to the view's state; an empty value removes a key."""
        merged = dict(self.view) | view
        keys = (*VIEW_KEYS, *sorted(key for key in merged if _NAMED.fullmatch(key)))
        return replace(self, view=tuple((key, merged[key]) for key in keys if merged.get(key)))

    def carried(self, *left: str) -> "Filters":
        """What links to other pages keep: range, conditions (without the dimensions `left`), text, reader settings."""
        kept = tuple((key, value) for key, value in self.view if key in {"tz", "refresh"})
        conditions = tuple(c for c in self.conditions if c.dimension not in left)
        return replace(self, conditions=conditions, view=kept, ignored=())

    @property
    def refresh(self) -> int:
        """Seconds between refreshes, 0 for never."""
        chosen = self.state("refresh")
        return int(chosen[:6]) if chosen.isdecimal() else USUAL_REFRESH_S

    @property
    def seconds(self) -> float | None:
        """Length of the range; None if it cannot be computed."""
        if ago := _ago(self.start):
            return None if self.end else ago
        if not self.end or _ago(self.end):
            return None
        return (datetime.fromisoformat(self.end) - datetime.fromisoformat(self.start)).total_seconds()

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """First and last moment of the range."""
        return _moment(self.start, now), _moment(self.end, now) if self.end else now

    def still(self, now: datetime) -> "Filters":
        """These filters with the range in absolute times."""
        ends = zip((self.start, self.end), self.span(now), strict=True)
        return self.between(*(rfc3339(moment) if not text or _ago(text) else text for text, moment in ends))

    @property
    def moving(self) -> bool:
        """Whether the range ends now, so that refreshing shows something new."""
        return not self.end


def of_table(name: str, key: str) -> str:
    """The name in the link of one of `OF_TABLE` for the table of this name; a page's main table has none."""
    return f"{name}.{key}" if name else key


def parse(query: Mapping[str, str]) -> Filters:
    """The filters in a link. Never raises: unknown or malformed parts are kept in `ignored`."""
    conditions: list[Condition] = []
    view: dict[str, str] = {}
    times: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in query.items():
        if name in DIMENSIONS and (condition := _condition(name, value)):
            conditions.append(condition)
        elif value and (name in VIEW_KEYS or _NAMED.fullmatch(name)):
            view[name] = value
        elif name in {"from", "to"} and (time := _time(value)):
            times[name] = time
        elif (name, value) == ("to", "now"):
            continue
        elif name != "q":
            ignored.append(f"{name}={value}")
    start, end = times.get("from", DEFAULT_RANGE), times.get("to", "")
    first, last = Filters(start, end).span(datetime.now(UTC))
    if first >= last:
        ignored.append(f"from={start} to={end or 'now'}")
        start, end = DEFAULT_RANGE, ""
    filters = Filters(start, end, _ordered(conditions), query.get("q", ""), ignored=tuple(ignored))
    return filters.showing(**view)


def _condition(name: str, text: str) -> Condition | None:
    words = re.findall(r"(?:^|,)((?:\\.|[^,\\]|\\$)*)", text, re.DOTALL)
    allowed = _unique(unescaped(word) for word in words if not word.startswith("!"))
    excluded = _unique(unescaped(word[1:]) for word in words if word.startswith("!"))
    values = {value for value in allowed + excluded if value}
    if name in CHOICES and not CHOICES[name].issuperset(values):
        return None
    if name in NUMBERS and not all(value.isascii() and value.isdecimal() for value in values):
        return None
    return Condition(name, allowed, excluded)


def escaped(value: str) -> str:
    """One value in the API's grammar."""
    return re.sub(r"([\\,!])", r"\\\1", value)


def unescaped(word: str) -> str:
    """The value that is written so in the API's grammar."""
    return re.sub(r"\\([\\,!])", r"\1", word)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _ordered(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    order = list(DIMENSIONS)
    return tuple(sorted(conditions, key=lambda condition: order.index(condition.dimension)))


def _time(text: str) -> str:
    """A time in the API's grammar as pages write it: relative, or with a zone; `""` for anything else."""
    if len(text) > _LONGEST_TIME:
        return ""
    if _ago(text):
        return text
    try:
        whole = _with_plus(text).upper()  # RFC 3339 allows t and z
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return ""
    return whole if moment.tzinfo else moment.replace(tzinfo=UTC).isoformat()


def _with_plus(time: str) -> str:
    """A time whose zone's offset has its `+` again, which a URL turns into a space."""
    rest, space, offset = time.rpartition(" ")
    digits = offset.replace(":", "", 1)
    lost = space and ":" in rest and len(digits) == 4 and digits.isascii() and digits.isdecimal()
    return f"{rest}+{offset}" if lost else time


def _ago(text: str) -> float:
    """How many seconds before now a relative time is; 0 for any other."""
    if not _RELATIVE.fullmatch(text):
        return 0
    return min(sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), _LONGEST_S)


def _moment(text: str, now: datetime) -> datetime:
    ago = _ago(text)
    return now - timedelta(seconds=ago) if ago else datetime.fromisoformat(text)


def rfc3339(moment: datetime) -> str:
    """A time as in links and the API: UTC, whole seconds."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"
