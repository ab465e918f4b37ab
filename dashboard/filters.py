"""The filters of a page: what stands in its URL and what is sent to the query API, in one grammar (the API's).

The URL is the only place where filters live; widgets show and write it. Nothing here knows Streamlit or HTTP.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

DEFAULT_RANGE = "-24h"
PRESETS: Mapping[str, str] = {"15m": "-15m", "1h": "-1h", "24h": "-24h", "7d": "-7d", "30d": "-30d"}

# Dimensions in the order in which chips and the "+ Filter" menu show them; the label is what people read.
DIMENSIONS: dict[str, str] = {
    "service": "service", "tool": "tool", "service_version": "version", "environment": "environment", "agent": "agent",
    "model": "model", "error_class": "class", "category": "category", "domain": "domain", "outcome": "outcome",
    "operation": "operation", "attribution": "attribution", "recovery": "recovery", "mistake": "mistake",
    "recovered": "recovered", "retryable": "retryable", "fatal": "fatal", "severity": "severity", "source": "source",
    "mcp_server": "MCP server", "tool_kind": "tool kind", "target": "target", "provider": "provider",
    "reported_class": "reported class", "classified_by": "classified by", "status_code": "status", "session": "session",
    "subagent": "sub-agent", "trace_id": "trace", "fingerprint": "group",
}  # fmt: skip
# Attributes of the user's own that the collector keeps as columns; the dashboard is started with the same setting.
OWN = tuple(name.strip() for name in os.environ.get("MISSTEP_DIMENSIONS", "").split(",") if name.strip())
DIMENSIONS = DIMENSIONS | {name: name for name in OWN if name not in DIMENSIONS}
BOOLEANS = frozenset({"mistake", "recovered", "retryable", "fatal"})
CHOICES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(BOOLEANS, frozenset({"true", "false"})),
    "outcome": frozenset({"ok", "error", "cancelled", "denied"}),
    "operation": frozenset({"tool", "model", "agent"}),
    "attribution": frozenset({"model", "tool", "environment", "provider", "user", "agent"}),
    "recovery": frozenset({"retry", "fix_and_retry", "needs_user", "none"}),
}
NUMBERS = frozenset({"fingerprint", "status_code"})
VIEW_KEYS = (
    "by", "sort", "view", "limit", "bucket", "tz", "refresh", "a", "b", "event", "started", "scope", "kind", "state",
)  # fmt: skip

_PART = re.compile(r"(\d{1,6})(ms|[smhdw])")
_RELATIVE = re.compile(rf"-(?:{_PART.pattern})+")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_S = 50 * 365 * 86_400  # before that there is no event
_LOST_PLUS = re.compile(r"(.*[Tt:].*) (\d{2}:?\d{2})")  # of a zone's offset, which a URL turns into a space


@dataclass(frozen=True, slots=True)
class Condition:
    """One dimension's filter: the value is one of `allowed` (if any), none of `excluded`; `""` is a missing value."""

    dimension: str
    allowed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value in the API's grammar: `a,b` or `!a`, with a backslash before a meant comma, `!` or backslash."""
        return ",".join([*map(escaped, self.allowed), *(f"!{escaped(value)}" for value in self.excluded)])


@dataclass(frozen=True, slots=True)
class Filters:
    """What a page is about: a time range, conditions, message text, and the state of the view.

    `start` and `end` are in the API's grammar (RFC 3339 or relative); an empty `end` is now. `ignored` holds what of
    the link was not understood, as `name=value`.
    """

    start: str = DEFAULT_RANGE
    end: str = ""
    conditions: tuple[Condition, ...] = ()
    text: str = ""
    view: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()

    def api(self) -> dict[str, str]:
        """The parameters of every query of this page; the range is always named."""
        return {"from": self.start, **({"to": self.end} if self.end else {}), **self._common()}

    def query(self) -> dict[str, str]:
        """The parameters of this page's link; defaults are left out."""
        start = {"from": self.start} if self.start != DEFAULT_RANGE else {}
        return {**start, **({"to": self.end} if self.end else {}), **self._common(), **dict(self.view)}

    def _common(self) -> dict[str, str]:
        text = {"q": self.text} if self.text else {}
        return {condition.dimension: condition.text for condition in self.conditions} | text

    def values(self, dimension: str) -> tuple[str, ...]:
        """The allowed values of one dimension; empty when it is not filtered."""
        return next((c.allowed for c in self.conditions if c.dimension == dimension), ())

    def only(self, dimension: str) -> str:
        """The single allowed value of a dimension, `""` if there is none or more than one."""
        values = self.values(dimension)
        return values[0] if len(values) == 1 else ""

    def state(self, key: str, default: str = "") -> str:
        """One key of the view state."""
        return dict(self.view).get(key, default)

    def set(self, dimension: str, allowed: Iterable[str] = (), excluded: Iterable[str] = ()) -> "Filters":
        """These filters with one dimension replaced; without values it is removed."""
        rest = [c for c in self.conditions if c.dimension != dimension]
        new = Condition(dimension, _unique(allowed), _unique(excluded))
        return replace(self, conditions=_ordered([*rest, new] if new.allowed or new.excluded else rest))

    def between(self, start: str, end: str = "") -> "Filters":
        """These filters over another range."""
        return replace(self, start=start, end=end)

    def showing(self, **view: str) -> "Filters":
        """These filters with view state changed; an empty value removes the key."""
        merged = dict(self.view) | view
        return replace(self, view=tuple((key, merged[key]) for key in VIEW_KEYS if merged.get(key)))

    def carried(self, *left: str) -> "Filters":
        """What another page of the menu keeps: range, conditions and text, without `left`, and who is reading."""
        kept = tuple((key, value) for key, value in self.view if key in {"tz", "refresh"})
        conditions = tuple(c for c in self.conditions if c.dimension not in left)
        return replace(self, conditions=conditions, view=kept, ignored=())

    @property
    def seconds(self) -> float | None:
        """Length of the range, None where it cannot be told."""
        if ago := _ago(self.start):
            return None if self.end else ago
        if not self.end or _ago(self.end):
            return None
        return (datetime.fromisoformat(self.end) - datetime.fromisoformat(self.start)).total_seconds()

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """First and last moment of the range."""
        return _moment(self.start, now), _moment(self.end, now) if self.end else now

    def still(self, now: datetime) -> "Filters":
        """These filters over the same range in times that stay."""
        ends = zip((self.start, self.end), self.span(now), strict=True)
        return self.between(*(rfc3339(moment) if not text or _ago(text) else text for text, moment in ends))

    @property
    def moving(self) -> bool:
        """Whether the range ends now, so that refreshing shows something new."""
        return not self.end


def parse(query: Mapping[str, str]) -> Filters:
    """The filters that a link holds. Total: what is unknown or malformed is kept in `ignored`, never raised."""
    conditions: list[Condition] = []
    view: dict[str, str] = {}
    times: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in query.items():
        if name in DIMENSIONS and (condition := _condition(name, value)):
            conditions.append(condition)
        elif name in VIEW_KEYS and value:
            view[name] = value
        elif name in {"from", "to"} and (time := _time(value)):
            times[name] = time
        elif (name, value) == ("to", "now"):
            continue
        elif name != "q":
            ignored.append(f"{name}={value}")
    start, end = times.get("from", DEFAULT_RANGE), times.get("to", "")
    if _reversed(start, end):
        ignored.append(f"from={start} to={end}")
        start, end = DEFAULT_RANGE, ""
    filters = Filters(start, end, _ordered(conditions), query.get("q", ""), ignored=tuple(ignored))
    return filters.showing(**view)


def _condition(name: str, text: str) -> Condition | None:
    words = re.findall(r"(?:^|,)((?:\\.|[^,\\]|\\$)*)", text, re.DOTALL)
    allowed = _unique(_unescaped(word) for word in words if not word.startswith("!"))
    excluded = _unique(_unescaped(word[1:]) for word in words if word.startswith("!"))
    values = {value for value in allowed + excluded if value}
    if name in CHOICES and not CHOICES[name].issuperset(values):
        return None
    if name in NUMBERS and not all(value.isascii() and value.isdecimal() for value in values):
        return None
    return Condition(name, allowed, excluded)


def escaped(value: str) -> str:
    """One value in the API's grammar."""
    return re.sub(r"([\\,!])", r"\\\1", value)


def _unescaped(word: str) -> str:
    return re.sub(r"\\([\\,!])", r"\1", word)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _ordered(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    order = list(DIMENSIONS)
    return tuple(sorted(conditions, key=lambda condition: order.index(condition.dimension)))


def _time(text: str) -> str:
    """A time of the API's grammar as the pages have it: relative, or with a zone; "" for anything else."""
    if _ago(text):
        return text
    try:
        whole = _LOST_PLUS.sub(r"\1+\2", text).upper()  # RFC 3339 allows t and z
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return ""
    return whole if moment.tzinfo else moment.replace(tzinfo=UTC).isoformat()


def _ago(text: str) -> float:
    """Seconds before now, of a relative time; 0 for any other."""
    if not _RELATIVE.fullmatch(text):
        return 0
    return min(sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), _LONGEST_S)


def _moment(text: str, now: datetime) -> datetime:
    ago = _ago(text)
    return now - timedelta(seconds=ago) if ago else datetime.fromisoformat(text)


def _reversed(start: str, end: str) -> bool:
    if _ago(start) or not end or _ago(end):
        return False
    return datetime.fromisoformat(start) >= datetime.fromisoformat(end)


def rfc3339(moment: datetime) -> str:
    """A time as links and the API have it: UTC, whole seconds."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"
