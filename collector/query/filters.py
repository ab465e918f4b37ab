"""Which events a query is about: the API's filters as a table, parsed into a `Selection`, written as SQL.

The parser, the sentences of its errors, the OpenAPI description and the documentation all come from `DIMENSIONS`.
Values are bound as parameters; only names out of this table ever become part of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.engine.whole_hours import edges_between
from collector.times import HOUR, MAX_NS, UNITS, iso_ns, length_ns, rfc3339

Value = str | int | bool | None

NO_VALUE = "(none)"  # how people read the empty value
MOST_VALUES = 1000  # of one filter: a statement with ten thousand parameters takes seconds to prepare
LATEST = MAX_NS - HOUR  # 2262-04-11, the last time that 64-bit nanoseconds hold, less room for `Selection.until_ns`


class BadParameter(ValueError):
    """A parameter that cannot be used: answered as 400 with these four fields."""

    def __init__(self, parameter: str, value: str, message: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.value = value
        self.message = message
        self.allowed = tuple(allowed)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A column to filter and to break down by.

    `type` is text, flag, integer or id (64 bits, decimal). `about` says whether it describes the call (who, what,
    where) or how it ended: a share of all calls keeps the former's filters in its denominator and leaves the latter's
    out. `usual` is the allowed word for an empty column.
    """

    name: str
    type: str
    about: str
    text: str
    allowed: tuple[str, ...] = ()
    usual: str = ""


DIMENSIONS = (
    Dimension("operation", "text", "call", "kind of attempt", ("tool", "model", "agent")),
    Dimension("outcome", "text", "end", "how it ended", ("ok", "error", "cancelled", "denied", "unknown")),
    Dimension("domain", "text", "end", "first level of the taxonomy, such as tool or network"),
    Dimension("category", "text", "end", "second level of the taxonomy, such as validation"),
    Dimension("error_class", "text", "end", "third level of the taxonomy, such as FileNotFoundError"),
    Dimension("reported_class", "text", "end", "what the agent itself called the error"),
    Dimension(
        "classified_by", "text", "end", "why this class", ("reported", "alias", "shape", "status", "message", "none")
    ),
    Dimension("severity", "text", "end", "how bad it is", ("info", "warn", "error", "fatal")),
    Dimension(
        "attribution", "text", "end", "who has to act", ("model", "tool", "environment", "provider", "user", "agent")
    ),
    Dimension("recovery", "text", "end", "what has to happen", ("retry", "fix_and_retry", "needs_user", "none")),
    Dimension("mistake", "flag", "end", "the model could have avoided it"),
    Dimension(
        "retryable", "flag", "end", "another attempt may succeed, as declared by the agent, else by the taxonomy"
    ),
    Dimension("fatal", "flag", "end", "the conversation must stop"),
    Dimension("recovered", "flag", "end", "a later attempt succeeded; empty while that is not yet known"),
    Dimension("tool", "text", "call", "name of the tool"),
    Dimension("tool_kind", "text", "call", "function, mcp, browser, command, file, …"),
    Dimension("mcp_server", "text", "call", "MCP server that offers the tool"),
    Dimension("target", "text", "call", "path, URL, command or resource that the tool acted on"),
    Dimension("source", "text", "call", "dialect that was recognised, such as codex or gen-ai"),
    Dimension("project", "text", "call", "whose it is, by the token it was sent with; empty: the token names none"),
    Dimension("service", "text", "call", "service.name of the sender"),
    Dimension("service_version", "text", "call", "service.version of the sender"),
    Dimension("environment", "text", "call", "deployment.environment.name of the sender"),
    Dimension("repository", "text", "call", "code base that a coding agent worked in"),
    Dimension(
        "provenance",
        "text",
        "call",
        "where it is known from; telemetry alone: an empty column",
        ("telemetry", "transcript", "both"),
        "telemetry",
    ),
    Dimension("agent", "text", "call", "name of the agent"),
    Dimension("model", "text", "call", "name of the model"),
    Dimension("provider", "text", "call", "who serves the model"),
    Dimension("session", "text", "call", "conversation or task"),
    Dimension("subagent", "text", "call", "agent started by another inside the session"),
    Dimension("trace_id", "text", "call", "trace, in hex"),
    Dimension("fingerprint", "id", "end", "group of equal errors"),
    Dimension("status_code", "integer", "end", "HTTP or exit status"),
)
BY_NAME: dict[str, Dimension] = {dimension.name: dimension for dimension in DIMENSIONS}


def add_dimensions(names: Iterable[str]) -> None:
    """Adds dimensions for MISSTEP_DIMENSIONS. To be called before anything is asked."""
    for name in names:
        BY_NAME[name] = Dimension(name, "text", "call", "attribute of your own (MISSTEP_DIMENSIONS)")


def own_dimensions() -> list[str]:
    """The names that were added."""
    return [name for name in BY_NAME if all(name != each.name for each in DIMENSIONS)]


@dataclass(frozen=True, slots=True)
class Term:
    """One dimension is (or is not) one of `values`; None stands for a missing value."""

    dimension: Dimension
    values: tuple[Value, ...]
    negated: bool = False
    mark: str = ""  # distinguishes terms of one statement on the same dimension

    def param(self, place: int) -> str:
        """The name by which the statement knows the value at `place`."""
        number = list(BY_NAME).index(self.dimension.name)  # spelt out, two names could become the same word
        return f"{self.mark}{'not' if self.negated else 'is'}_{number}_{place}"

    def params(self) -> dict[str, Value]:
        """The values by these names."""
        return {self.param(place): value for place, value in enumerate(self.values)}

    def sql(self) -> str:
        """The condition over `events`; `!value` holds for an empty column too."""
        column = f'"{self.dimension.name}"'
        named = ", ".join(f"${self.param(place)}" for place, value in enumerate(self.values) if value is not None)
        parts = (
            [f"coalesce({column} in ({named}), false)" if self.negated else f"{column} in ({named})"] if named else []
        )
        parts += [f"{column} is null"] if None in self.values else []
        either = f"({' or '.join(parts)})"
        return f"not {either}" if self.negated else either


# Of all ranges that queries read from counted hours: `middle_ns` is where a comparison of two periods parts them.
WHOLE_HOURS = edges_between(
    ("0", "previous_ns", "start_ns", "middle_ns"), ("start_ns", "middle_ns", "until_ns", str(MAX_NS))
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Events with `start_ns` ≤ time < `until_ns` that meet every term and have `text` in their message.

    `failure_only` are the sources that never report a success, from their tables: no rate is computed over them.
    `clock_ns` is the collector's time: of sessions that it has not heard of for an hour, nothing more is expected.
    `start` and `until` are the parameters of the range that SQL asks about; `before` asks about the earlier period.
    """

    start_ns: int
    end_ns: int
    terms: tuple[Term, ...] = ()
    text: str = ""
    failure_only: tuple[str, ...] = ()
    to_now: bool = False
    clock_ns: int = 0
    start: str = "$start_ns"
    until: str = "$until_ns"

    @property
    def until_ns(self) -> int:
        """The upper bound; an hour later for a range that ends now, because some agents' clocks are ahead."""
        return self.end_ns + HOUR if self.to_now else self.end_ns

    @property
    def previous_ns(self) -> int:
        """Start of the equally long period before this one."""
        return max(0, 2 * self.start_ns - self.end_ns)

    def before(self) -> Selection:
        """The same in the period before, for SQL with the same parameters."""
        return replace(self, start="$previous_ns", until="$start_ns")

    def uses(self, name: str) -> bool:
        return any(term.dimension.name == name for term in self.terms)

    def reads_chains(self, *names: str) -> bool:
        """Whether a query by these columns asks what became of errors."""
        return self.uses("recovered") or "recovered" in names

    def about_call(self) -> Selection:
        """The same without the terms on how calls ended: the denominator of a share of all calls."""
        terms = tuple(term for term in self.terms if term.dimension.about == "call")
        return replace(self, terms=terms, text="")

    def params(self) -> dict[str, object]:
        """The parameters of `where`, `condition` and `rated`, the bounds, and whole hours between these."""
        bound: dict[str, object] = {
            "start_ns": self.start_ns, "until_ns": self.until_ns, "previous_ns": self.previous_ns, "text": self.text,
            "clock_ns": self.clock_ns, **WHOLE_HOURS,
        }  # fmt: skip
        for term in self.terms:
            bound |= term.params()
        return bound | {f"failure_only_{place}": source for place, source in enumerate(self.failure_only)}

    def where(self, start: str = "") -> str:
        """Time range, by default the selection's, and condition, as SQL over `events`."""
        return f"time_ns >= {start or self.start} and time_ns < {self.until} and {self.condition()}"

    def condition(self) -> str:
        """Everything but the time range, as SQL over `events`."""
        parts = [term.sql() for term in self.terms]
        if self.text:
            parts.append("contains(lower(message), lower($text))")
        return " and ".join(parts) or "true"

    def rated(self) -> str:
        """Whether an event's source also reports successes, as SQL over `events`."""
        if not self.failure_only:
            return "true"
        names = ", ".join(f"$failure_only_{place}" for place in range(len(self.failure_only)))
        return f"coalesce(source not in ({names}), true)"


def terms_of(name: str, text: str, mark: str = "") -> list[Term]:
    """Reads `value[,value…]`, each with an optional `!`; `\\` before a comma, `!` or `\\` makes it part of the value.

    An empty value means that the column is empty. Raises BadParameter.
    """
    return _terms(name, ((word[:1] == "!", _plain(word.removeprefix("!"))) for word in split_values(text)), mark)


def escaped(value: str) -> str:
    """A value as `terms_of` reads it."""
    return re.sub(r"([\\,!])", r"\\\1", value)


def _plain(word: str) -> str:
    return re.sub(r"\\([\\,!])", r"\1", word)


def terms_of_rule(where: Mapping[str, list[str] | str | bool]) -> tuple[Term, ...]:
    """The filters of an alert rule: values are whole words, only a leading `!` has a meaning. Raises BadParameter."""
    terms: list[Term] = []
    for name, value in where.items():
        words = value if isinstance(value, list) else [value]
        plain = [str(word).lower() if isinstance(word, bool) else str(word) for word in words]
        terms += _terms(name, ((word[:1] == "!", word.removeprefix("!")) for word in plain))
    return tuple(terms)


def _terms(name: str, words: Iterable[tuple[bool, str]], mark: str = "") -> list[Term]:
    """The terms of values, each with whether it is unwanted."""
    dimension = BY_NAME[name]
    wanted: list[Value] = []
    unwanted: list[Value] = []
    for place, (negated, word) in enumerate(words):
        if place == MOST_VALUES:
            raise BadParameter(name, word, f"{name} has more than {MOST_VALUES} values; ask for fewer at a time")
        (unwanted if negated else wanted).append(_typed(dimension, word))
    terms = [Term(dimension, tuple(wanted), mark=mark)] if wanted else []
    return terms + ([Term(dimension, tuple(unwanted), negated=True, mark=mark)] if unwanted else [])


def split_values(text: str) -> list[str]:
    """Splits at commas that no backslash protects; the escapes stay in place."""
    return re.findall(r"(?:^|,)((?:\\.|[^,\\]|\\$)*)", text, re.DOTALL)


def _typed(dimension: Dimension, word: str) -> Value:
    if word in ("", dimension.usual):
        return None
    match dimension.type:
        case "flag":
            if word not in ("true", "false"):
                raise BadParameter(dimension.name, word, f"{dimension.name} is true or false", ("true", "false"))
            return word == "true"
        case "integer":
            return whole_number(dimension.name, word, -(2**31), 2**31 - 1)
        case "id":
            return whole_number(dimension.name, word, 0, 2**64 - 1)
    if dimension.allowed and word not in dimension.allowed:
        message = f"{dimension.name} is one of {', '.join(dimension.allowed)}"
        raise BadParameter(dimension.name, word, message, dimension.allowed)
    return word


def whole_number(name: str, word: str, least: int, most: int) -> int:
    """Raises BadParameter where `word` is no decimal integer between the two bounds."""
    if not re.fullmatch(r"-?[0-9]{1,20}", word) or not least <= int(word) <= most:
        raise BadParameter(name, word, f"{name} is a whole number from {least} to {most}", (f"{least} to {most}",))
    return int(word)


def duration_ns(name: str, word: str) -> int:
    """`90s`, `5m`, `1h30m`, `7d` in nanoseconds, at most a hundred years. Raises BadParameter."""
    try:
        return length_ns(word)
    except ValueError:
        raise BadParameter(name, word, f"{name} is a duration such as 90s, 5m, 1h30m or 7d", tuple(UNITS)) from None


def duration(length_ns: int) -> str:
    """A duration as it is written, in the largest unit that it is a whole number of; of less than 1 ms, 0ms."""
    unit = next(unit for unit in reversed(UNITS) if length_ns % UNITS[unit] == 0 or unit == "ms")
    return f"{length_ns // UNITS[unit]}{unit}"


LONGEST_TIME = 80  # characters; of no time more are needed

TIMES = ("RFC 3339", "now", "-90s", "-5m", "-24h", "-7d")


def time_ns(name: str, word: str, now_ns: int) -> int:
    """`now`, `-24h` or RFC 3339 (UTC where it names no zone) in nanoseconds since 1970. Raises BadParameter.

    A space before the zone's offset is read as the `+` that a URL turns into a space.
    """
    if word == "now":
        return now_ns
    try:
        if len(word) > LONGEST_TIME:
            raise ValueError("no time is so long")
        ago = word.startswith("-")
        at = max(0, now_ns - duration_ns(name, word[1:])) if ago else iso_ns(with_plus(word))
    except ValueError:
        message = f"{name} is a time in RFC 3339, such as 2026-11-21T21:41:51Z, or relative, such as -24h or now"
        raise BadParameter(name, word, message, TIMES) from None
    if not 0 <= at <= LATEST:
        raise BadParameter(name, word, f"{name} lies between 1970 and 2262", TIMES)
    return at


def with_plus(time: str) -> str:
    """A time whose zone's offset has its `+` again, which a URL turns into a space."""
    rest, space, offset = time.rpartition(" ")
    digits = offset.replace(":", "", 1)
    lost = space and ":" in rest and len(digits) == 4 and digits.isascii() and digits.isdecimal()
    return f"{rest}+{offset}" if lost else time


def range_ns(start: str, end: str, now_ns: int) -> tuple[int, int]:
    """`from` and `to` in nanoseconds since 1970. Raises BadParameter, also if the range ends before it starts."""
    start_ns, end_ns = time_ns("from", start, now_ns), time_ns("to", end, now_ns)
    if start_ns > end_ns:
        message = f"from ({rfc3339(start_ns)}) is after to ({rfc3339(end_ns)})"
        raise BadParameter("from", start, message, TIMES)
    return start_ns, end_ns


def select(
    params: Mapping[str, str], now_ns: int, *, since: str = "-24h", failure_only: Sequence[str] = ()
) -> Selection:
    """Reads `from`, `to`, `q` and the dimensions out of `params`; other names are left alone. Raises BadParameter."""
    start, end = range_ns(params.get("from", since), params.get("to", "now"), now_ns)
    terms = tuple(term for name, text in params.items() if name in BY_NAME for term in terms_of(name, text))
    to_now = params.get("to", "now") == "now"
    return Selection(start, end, terms, params.get("q", ""), tuple(failure_only), to_now, now_ns)
