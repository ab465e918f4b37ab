"""The parameters of the query API beside the filters, as a table that the parser, its errors and OpenAPI share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from collector.query import changes, groups
from collector.query.breakdowns import COUNTS, MEASURES
from collector.query.compare import COMPARED
from collector.query.filters import (
    BY_NAME,
    SECOND,
    BadParameter,
    Selection,
    duration_ns,
    select,
    whole_number,
)
from collector.query.retries import STORM_STATES
from collector.query.streaks import KINDS, SCOPES, STATES

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind` is words, choice, flag, number, id, duration or text; `path` ones are part of the address.

    Words and choices of `dimensions` may be any that there is, the user's own included, without those in `allowed`, and
    those of `besides`.
    """

    name: str
    kind: str
    text: str
    example: str
    default: Any = None
    allowed: tuple[str, ...] = ()
    path: bool = False
    dimensions: bool = False
    besides: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that can be used; none: any."""
        if not self.dimensions:
            return self.allowed
        return (*(name for name in BY_NAME if name not in self.allowed), *self.besides)

    def read(self, word: str) -> Any:
        """The value as Python has it. Raises BadParameter."""
        match self.kind:
            case "words":
                return list(dict.fromkeys(self._one_of(part) for part in word.split(",") if part))
            case "choice":
                return self._one_of(word)
            case "flag":
                return self._one_of(word) == "true"
            case "number":
                return whole_number(self.name, word, 1, MOST_ROWS)
            case "id":
                return whole_number(self.name, word, 0, 2**64 - 1)
            case "duration":
                if not (length := duration_ns(self.name, word)):
                    raise BadParameter(self.name, word, f"{self.name} is longer than nothing, such as {self.example}")
                return length
        return word

    def _one_of(self, word: str) -> str:
        allowed = self.choices
        if allowed and word not in allowed:
            raise BadParameter(self.name, word, f"{self.name} takes {', '.join(allowed)}", allowed)
        return word


FROM = Parameter("from", "text", "start of the range, inclusive: RFC 3339 or relative", "-24h", "-24h")
TO = Parameter("to", "text", "end of the range, exclusive: RFC 3339 or relative", "now", "now")
Q = Parameter("q", "text", "text in the message, upper and lower case alike", "does not exist")
RANGE = (FROM, TO, Q)

BY = Parameter("by", "words", "dimensions to break down by", "tool,error_class", (), dimensions=True)
BY_ERROR = replace(BY, allowed=("recovered",), example="error_class")
ALWAYS = (*COUNTS, "error_rate")
MEASURES_NAMED = Parameter(
    "measures", "words", "further measures, which cost more; the counts and error_rate always come", "sessions,p95_ms",
    (), (*MEASURES, *ALWAYS),
)  # fmt: skip
GROUP_MEASURES = Parameter(
    "measures", "words", "further measures, which cost more", "recovery_rate", (), groups.MEASURES
)
PREVIOUS = Parameter(
    "previous",
    "flag",
    "add previous_… columns: the same for the equally long period before",
    "true",
    False,
    ("true", "false"),
)
SORT = Parameter("sort", "words", "columns of the answer to sort by; - for descending", "-errors", ())
LIMIT = Parameter("limit", "number", f"rows at most, 1 to {MOST_ROWS}", "100", 100)
MANY = Parameter("limit", "number", LIMIT.text, "1000", 1000)
ALL = Parameter("limit", "number", LIMIT.text, "10000", MOST_ROWS)
MEASURE = Parameter("measure", "words", "what is compared", "error_rate,p95_ms", ("error_rate",), tuple(COMPARED))
COMPARED_DIMENSION = Parameter(
    "dimension", "choice", "compare two of its values; without it, this period with the one before", "service_version",
    dimensions=True,
)  # fmt: skip
A = Parameter("a", "text", "value of the dimension to compare from, as in a filter", "3.1", "")
B = Parameter("b", "text", "value of the dimension to compare with; what a has already is left out", "3.2", "")
CHANGED = Parameter("measure", "choice", "whose change is explained", "error_rate", "errors", changes.MEASURES)
BY_CHANGED = replace(
    BY,
    text="dimensions to look at, and volume; by default all that have few values",
    example="tool,model",
    besides=(changes.VOLUME,),
)
BUCKET = Parameter("bucket", "duration", "length of a bucket; by default the range makes at most 120", "5m")
CONTAINS = Parameter("contains", "text", "text in the value, upper and lower case alike", "diff", "")
CURSOR = Parameter("cursor", "text", "`next` of the answer before: the rows that follow", "1763761311123456789.42", "")
AFTER = Parameter(
    "after", "text", "`after` of the answer before: only what arrived since", "1763761311123456789.42", ""
)
ORDER = Parameter("sort", "choice", "newest or oldest first", "-time", "-time", ("-time", "time"))
SCOPE = Parameter("scope", "choice", "where a streak is counted", "session", "session", tuple(SCOPES))
KIND = Parameter("kind", "choice", "what counts", "mistake", "mistake", tuple(KINDS))
MIN_LENGTH = Parameter("min_length", "number", "shortest streak to list", "2", 1)
MISTAKE_LIMIT = Parameter("mistake_limit", "number", "length that is marked; by default 3, in the target scope 2", "3")
STORM_WINDOW = Parameter(
    "window", "duration", "a storm has `least` errors within any such time, and ends after one without", "1m",
    60 * SECOND,
)  # fmt: skip
LEAST = Parameter("least", "number", "errors within `window` that make a storm", "10", 10)
STORM_STATE = Parameter("state", "choice", "only storms in this state", "ongoing", None, STORM_STATES)
STREAK_STATE = Parameter("state", "choice", "only streaks in this state", "open", None, STATES)
GROUP_STATE = Parameter("state", "choice", "only groups in this state", "new", None, groups.STATES)
DIMENSION = Parameter("dimension", "choice", "dimension whose values are listed", "tool", path=True, dimensions=True)
EVENT_ID = Parameter("event_id", "id", "id of the event", "42", path=True)
FINGERPRINT = Parameter("fingerprint", "id", "fingerprint of the group", "42", path=True)
SESSION = Parameter(
    "session", "text", "session key; add service=… where two services use the same", "task-7", path=True
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's question, read: which events, and the other parameters by name, each with its default."""

    selection: Selection
    options: Mapping[str, Any]


def read(
    query_string: bytes,
    declared: Sequence[Parameter],
    path: Mapping[str, str],
    now_ns: int,
    *,
    filters: bool = True,
    since: str = "-24h",
    failure_only: Sequence[str] = (),
) -> Asked:
    """Reads a query string against the parameters that an address declares. Raises BadParameter."""
    words = _words(query_string)
    taken = {one.name: one for one in declared if not one.path}
    places = {one.name for one in declared if one.path}
    known = [*taken]
    if filters:  # a filter on what the address names already would be a second word for it
        known = [*taken, *(one.name for one in RANGE), *(name for name in BY_NAME if name not in places)]
    for name, word in words.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise BadParameter(name, word, f"there is no parameter {name!r} here; allowed are {allowed}", known)
    options = {one.name: one.default for one in taken.values()}
    options |= {name: taken[name].read(word) for name, word in words.items() if name in taken}
    options |= {one.name: one.read(path[one.name]) for one in declared if one.path}
    rest = {name: word for name, word in words.items() if name not in taken}
    return Asked(select(rest, now_ns, since=since, failure_only=failure_only), options)


def _words(query_string: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=200)
    except ValueError:
        raise BadParameter("", "", "more than 200 parameters") from None
    words: dict[str, str] = {}
    for name, word in pairs:
        if name in words:
            either = f"; write {name}=a,b for either of two values" if name in BY_NAME else ""
            raise BadParameter(name, word, f"{name} is given twice{either}")
        words[name] = word
    return words
