"""The parameters of the query API other than filters, as a table for the parser, its error messages and OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from collector.columns import EVENT_COLUMNS
from collector.query import changes, groups, lessons, sessions, trials
from collector.query.breakdowns import COUNTS, MEASURES
from collector.query.compare import COMPARED
from collector.query.filters import BY_NAME, BadParameter, Selection, duration_ns, select, whole_number
from collector.query.ranking import BY as RANKED_BY
from collector.query.retries import STORM_STATES
from collector.query.streaks import KINDS, SCOPES, STATES
from collector.times import SECOND

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind` is words, choice, flag, number, id, duration or text; with `path`, it is a part of the address.

    With `dimensions`, all dimensions are allowed, including the user's own, except those in `allowed`; the words in
    `besides` are allowed too. One that is `needed` has no default.
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
    needed: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words; empty if any word is."""
        if not self.dimensions:
            return self.allowed
        return (*(name for name in BY_NAME if name not in self.allowed), *self.besides)

    def read(self, word: str) -> Any:
        """The value as its Python type. Raises BadParameter."""
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
                    raise BadParameter(self.name, word, f"{self.name} must be longer than 0, such as {self.example}")
                return length
        return word

    def _one_of(self, word: str) -> str:
        allowed = self.choices
        if allowed and word not in allowed:
            raise BadParameter(self.name, word, f"{self.name} takes {', '.join(allowed)}", allowed)
        return word


FROM = Parameter("from", "text", "start of the range, inclusive: RFC 3339 or relative", "-24h", "-24h")
TO = Parameter("to", "text", "end of the range, exclusive: RFC 3339 or relative", "now", "now")
Q = Parameter("q", "text", "text in the message, case-insensitive", "does not exist")
RANGE = (FROM, TO, Q)

BY = Parameter("by", "words", "dimensions to break down by", "tool,error_class", (), dimensions=True)
BY_ERROR = replace(BY, allowed=("recovered",), example="error_class")
ALWAYS = (*COUNTS, "error_rate")
MEASURES_NAMED = Parameter(
    "measures", "words", "additional measures, which cost more; counts and error_rate are always included",
    "sessions,p95_ms", (), (*MEASURES, *ALWAYS),
)  # fmt: skip
GROUP_MEASURES = Parameter(
    "measures", "words", "additional measures, which cost more", "recovery_rate", (), groups.MEASURES
)
PREVIOUS = Parameter(
    "previous",
    "flag",
    "add previous_… columns: the same for the period of equal length before",
    "true",
    False,
    ("true", "false"),
)
SORT = Parameter("sort", "words", "columns of the answer to sort by; - for descending", "-errors", ())


def sort_by(example: str) -> Parameter:
    """SORT with an example for one answer."""
    return replace(SORT, example=example)


LIMIT = Parameter("limit", "number", f"most rows to return, 1 to {MOST_ROWS}", "100", 100)
MANY = Parameter("limit", "number", LIMIT.text, "1000", 1000)
ALL = Parameter("limit", "number", LIMIT.text, "10000", MOST_ROWS)
MEASURE = Parameter("measure", "words", "what is compared", "error_rate,p95_ms", ("error_rate",), tuple(COMPARED))
OF_TRIALS = Parameter(
    "measure", "words", "what is counted of each trial", "mistake_rate", ("mistake_rate",), trials.MEASURES
)
TASK = Parameter("task_from", "text", "dimension or attribute with the task; by default task, task.id, …", "task", "")
SUCCEEDED = Parameter(
    "success_from", "text", "the attribute that says whether the task succeeded; by default task.success, reward, …",
    "task.success", "",
)  # fmt: skip
COMPARED_DIMENSION = Parameter(
    "dimension", "choice", "compare two of its values; without it, this period with the one before", "service_version",
    dimensions=True,
)  # fmt: skip
TEXTS_BY = Parameter("by", "choice", "also by this dimension", "model", None, ("model", "service_version", "agent"))
RANKED = Parameter("by", "choice", "whose values are ranked; versions by service", "model", "model", RANKED_BY)
A = Parameter("a", "text", "value of the dimension to compare from, as in a filter; empty: events without one", "3.1")
B = Parameter("b", "text", "value of the dimension to compare with, without the events of a", "3.2")
CHANGED = Parameter("measure", "choice", "measure whose change is explained", "error_rate", "errors", changes.MEASURES)
BY_CHANGED = replace(
    BY,
    text="dimensions to examine, and volume; by default all that have few values",
    example="tool,model",
    besides=(changes.VOLUME,),
)
LOOKED_FOR = Parameter(
    "q", "text", "what to look for: an id or its beginning, a name, words of a message", "apply_diff", needed=True
)
EACH = Parameter("limit", "number", f"most rows of each kind, 1 to {MOST_ROWS}", "5", 5)
BUCKET = Parameter(
    "bucket", "duration", "length of a bucket; by default the shortest round one that gives at most 120", "5m"
)
CONTAINS = Parameter("contains", "text", "text in the value, case-insensitive", "diff", "")
CURSOR = Parameter(
    "cursor", "text", "`next` of the previous answer: the rows that follow it", "1763761311123456789.42", ""
)
CURSOR_OF_SESSION = replace(CURSOR, example="1763761311123456789.3.42")
AFTER = Parameter(
    "after", "text", "`after` of the previous answer: the events that arrived since", "1763761311123456789.42", ""
)
ORDER = Parameter("sort", "choice", "newest or oldest first", "-time", "-time", ("-time", "time"))
SCOPE = Parameter("scope", "choice", "what the events of a streak have in common", "session", "session", tuple(SCOPES))
KIND = Parameter("kind", "choice", "which events form streaks", "mistake", "mistake", tuple(KINDS))
MIN_LENGTH = Parameter("min_length", "number", "shortest streak to list", "2", 1)
MISTAKE_LIMIT = Parameter(
    "mistake_limit", "number", "length from which limit_reached is true; by default 3, in the target scope 2", "3"
)
STORM_WINDOW = Parameter(
    "window", "duration", "in a storm, each error is one of `least` within this time; a longer pause ends it", "1m",
    60 * SECOND,
)  # fmt: skip
LEAST = Parameter("least", "number", "number of errors within `window` that make a storm", "10", 10)
STORM_STATE = Parameter("state", "choice", "only storms in this state", "ongoing", None, STORM_STATES)
STREAK_STATE = Parameter("state", "choice", "only streaks in this state", "open", None, STATES)
SESSION_STATE = Parameter("state", "choice", "only sessions that ended so", "error", None, sessions.STATES)
GROUP_STATE = Parameter("state", "choice", "only groups in this state", "new", None, groups.STATES)
DIMENSION = Parameter("dimension", "choice", "dimension whose values are listed", "tool", path=True, dimensions=True)
EVENT_ID = Parameter("event_id", "id", "id of the event", "42", path=True)
FINGERPRINT = Parameter("fingerprint", "id", "fingerprint of the group", "42", path=True)
COMMAND = Parameter(
    "command", "text", "a command: those of the same program and sub-command are counted", "pytest -q", ""
)
ON_TARGET = Parameter("on", "text", "a path, URL or resource that a call acts on", "src/rate.py", "")
OF_TOOL = Parameter("of", "text", "the name of a tool", "lookup_ticket", "")
LESSON_STATE = Parameter("state", "words", "only lessons in these states", "proposed,adopted", (), lessons.STATES)
LESSON = Parameter("id", "text", "id of the lesson", "7f3a92c1", path=True)
SESSION = Parameter(
    "session", "text", "session key; add service=… if two services use the same key", "task-7", path=True
)


COLUMNS = Parameter(
    "columns", "words", "only these columns, beside time, sequence and event_id", "outcome,tool", (),
    tuple(sorted(EVENT_COLUMNS - {"time_ns", "received_ns", "report_rank", "outcome_strength", "target_guessed"})),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The parameters of a request: the selected events, and the other parameters by name, with their defaults."""

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
) -> ParsedQuery:
    """Reads a query string against the parameters that an address declares. Raises BadParameter."""
    words = _words(query_string)
    taken = {parameter.name: parameter for parameter in declared if not parameter.path}
    places = {parameter.name: parameter for parameter in declared if parameter.path}
    known = [*taken]
    if filters:  # not on what the path names already
        known += (parameter.name for parameter in RANGE)
        known += (name for name in BY_NAME if name not in places)
    _refuse(words, declared, known)
    options = {name: parameter.default for name, parameter in taken.items()}
    options |= {name: parameter.read(path[name]) for name, parameter in places.items()}
    options |= {name: taken[name].read(word) for name, word in words.items() if name in taken}
    rest = {name: word for name, word in words.items() if name not in taken}
    return ParsedQuery(select(rest, now_ns, since=since, failure_only=failure_only), options)


def _refuse(words: Mapping[str, str], declared: Sequence[Parameter], known: Sequence[str]) -> None:
    """Raises BadParameter if a parameter is missing or not known."""
    for parameter in declared:
        if parameter.needed and parameter.name not in words:
            raise BadParameter(parameter.name, "", f"{parameter.name} is needed: {parameter.text}")
    for name, word in words.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise BadParameter(name, word, f"there is no parameter {name!r} here; allowed are {allowed}", known)


def read_none(query_string: bytes) -> None:
    """For an address that takes no parameters. Raises BadParameter if there is one."""
    read(query_string, (), {}, 0, filters=False)


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
