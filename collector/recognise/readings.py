"""What a row of a table reads from a record: columns and evidence by the keys of attributes, and what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar

from collector.recognise.readers import Reader, glob, is_attribute, needs, reader
from collector.recognise.source_checks import ABOVE_CALLS, EVIDENCE_LISTS

T = TypeVar("T", bound=Hashable)

START = r"\A"
GLOB = re.compile(r"[*?\[]")  # what a pattern has that is no plain word
OF_A_CALL = ("tool", "params")
# The columns that a record of another table has from the conventions too, by operation.
OF_ALL = ("session", "agent", "model", "provider", "reported_class", "message", "stack", "status_code")
SPOKEN = {
    "tool": (*OF_ALL, "call_id", "tool", "params", "mcp_server"),
    "model": (*OF_ALL, "input_tokens", "output_tokens", "cost_usd"),
    "agent": OF_ALL,
    "link": ("session",),
}
EVIDENCE_OF = {
    "tool": (*EVIDENCE_LISTS, "error_output"),
    "model": tuple(one for one in EVIDENCE_LISTS if one not in ("outputs", "schemas", "exits")),
}
WEAK = ("@name", "=")  # keys that every record has


class Use(NamedTuple):
    """What an attribute is used for: a column (the use with the lowest preference wins), or evidence of a kind."""

    slot: str
    kind: str = ""
    preference: int = 0
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Rules:
    """How `settle` reads the evidence of a row."""

    exit_header: tuple[re.Pattern[str], ...] = ()
    error_start: re.Pattern[str] | None = None
    error_output: tuple[re.Pattern[str], ...] = ()
    denied_output: tuple[re.Pattern[str], ...] = ()
    cancelled_output: tuple[re.Pattern[str], ...] = ()
    preamble: tuple[re.Pattern[str], ...] = ()
    denied: re.Pattern[str] | None = None
    cancelled: re.Pattern[str] | None = None
    wrappers: re.Pattern[str] | None = None
    status: bool = True
    exceptions: bool = True
    silence: bool = True

    @property
    def reads_text(self) -> bool:
        """Whether any pattern applies to texts."""
        return bool(
            self.exit_header
            or self.error_start
            or self.error_output
            or self.denied_output
            or self.cancelled_output
            or self.preamble
        )


class Wanted(NamedTuple):
    """Texts and globs: a value must match one of them."""

    words: frozenset[str]
    globs: re.Pattern[str] | None

    def has(self, text: str) -> bool:
        """Whether the text matches one."""
        return text in self.words or (self.globs is not None and self.globs.fullmatch(text) is not None)


class Special(NamedTuple):
    """The use of a key that is more than an attribute's name, and the attributes of which it needs one, if any."""

    use: Use
    read: Reader
    needs: tuple[str, ...]


class Reading(NamedTuple):
    """What a row reads from a record."""

    uses: Mapping[str, tuple[Use, ...]]
    special: tuple[Special, ...]
    resource: tuple[tuple[Use, str], ...]
    never: frozenset[str]
    ignored: Wanted
    rules: Rules
    worded: bool  # what attributes of any vendor say by their names is evidence


def reading(table: Mapping[str, Any], row: Mapping[str, Any], standard: Mapping[str, Any]) -> Reading:
    """What a row of a table reads, with what its table and the conventions say; `standard` is empty where they do not
    count.
    """
    inherited, outcome, said = dict(table.get("fields", {})), dict(table.get("outcome", {})), list[str]()
    if row.get("operation") in ABOVE_CALLS:  # there these keys hold an answer, which must never become a message
        said += listed(outcome.pop("outputs", None) or [])
    if row.get("operation") == "model":  # and these the request or the answer
        said += [key for column in OF_A_CALL for key in listed(inherited.pop(column, []))]
    fields = before(row.get("fields", {}), inherited)
    evidence = before(row.get("evidence", {}), outcome)
    if standard and not row.get("lends"):
        said += [key for column in OF_A_CALL for key in standard["fields"].get(column, ())]
        fields = _behind(fields, standard["fields"], SPOKEN.get(row.get("operation", ""), ()))
        evidence = _behind(evidence, standard["outcome"], EVIDENCE_OF.get(row.get("operation", ""), ()))
    uses, special, resource = _uses(fields, evidence)
    return Reading(
        uses=uses,
        special=special,
        resource=resource,
        never=same(frozenset(column for column, keys in fields.items() if not keys)),
        ignored=words_and_globs((*_unread(table), *_unread(standard), *filter(is_attribute, said))),
        rules=same(_rules(evidence)),
        worded=bool(evidence.get("worded", False)),
    )


def before(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merges list by list, own entries first; an own empty list or boolean replaces what is inherited, `-key` leaves it
    out.
    """
    both = dict(other)
    for name, value in own.items():
        both[name] = _joined(_as_list(value), _as_list(both.get(name, [])))
    return both


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _joined(keys: Any, inherited: Any) -> Any:
    """Two lists as one without the keys that are left out; a boolean or an empty list alone."""
    if isinstance(keys, bool) or not keys or isinstance(inherited, bool):
        return keys
    left_out = {f"-{key}" for key in inherited}.intersection(keys)
    return [key for key in (*keys, *inherited) if key not in left_out and f"-{key}" not in left_out]


def is_standard(key: str) -> bool:
    """Whether a key names an attribute that no other software uses for something else: one with a namespace."""
    head = key.partition("#")[0].partition("~")[0]
    return is_attribute(head) and "." in head


def _behind(own: dict[str, Any], standard: Mapping[str, list[str]], names: Iterable[str]) -> dict[str, Any]:
    """The keys of a row with the conventions' behind them, but before names of spans and constants, which are always
    there. An empty list stays empty, and what a row fixes stays fixed.
    """
    both = dict(own)
    for name in names:
        keys = listed(own.get(name, ["-"]))
        if not keys or keys[0].startswith("=") or not standard.get(name):
            continue
        weak = [key for key in keys if key.startswith(WEAK)]
        firm = [key for key in keys if not key.startswith((*WEAK, "-"))]
        both[name] = [*firm, *(key for key in standard[name] if key not in firm and f"-{key}" not in keys), *weak]
    return both


def _uses(
    fields: Mapping[str, Any], evidence: Mapping[str, Any]
) -> tuple[Mapping[str, tuple[Use, ...]], tuple[Special, ...], tuple[tuple[Use, str], ...]]:
    """The inverted keys: uses by attribute, uses of keys of other forms, uses of resource attributes."""
    uses: dict[str, list[Use]] = {}
    special: list[Special] = []
    resource: list[tuple[Use, str]] = []
    for slot, kind, keys in _wanted(fields, evidence):
        for preference, written in enumerate(keys):
            key = written.removesuffix("|s")
            use = _use(slot, kind, preference, 1000.0 if key != written else 1.0)
            if is_attribute(key):
                uses.setdefault(key, []).append(use)
            elif key.startswith("resource:") and "#" not in key:
                resource.append((use, key.removeprefix("resource:")))
            else:
                special.append(Special(use, reader(key), needs(key)))
    by_key = {key: same(tuple(found)) for key, found in uses.items()}
    return by_key, same(tuple(special)), same(tuple(resource))


def _wanted(fields: Mapping[str, Any], evidence: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Column or kind of evidence, the other one empty, and the keys that it is read from."""
    for column, keys in fields.items():
        yield column, "", listed(keys)
    for kind in EVIDENCE_LISTS:
        yield "", kind, listed(evidence.get(kind) or [])
    for key in evidence.get("shapes") or ():
        yield "", f"shape:{key.rpartition('#')[2]}", [key]


@cache
def _use(slot: str, kind: str, preference: int, scale: float) -> Use:
    """One shared object for all equal ones."""
    return Use(slot, kind, preference, scale)


def _rules(evidence: Mapping[str, Any]) -> Rules:
    def patterns(name: str) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(one, re.MULTILINE) for one in evidence.get(name) or ())

    failed = evidence.get("error_output") or ()
    begins = tuple(one for one in failed if one.startswith(START))
    return Rules(
        exit_header=patterns("exit_header"),
        error_start=_at_start(begins) if begins else None,
        error_output=tuple(re.compile(one, re.MULTILINE) for one in failed if one not in begins),
        denied_output=patterns("denied_output"),
        cancelled_output=patterns("cancelled_output"),
        preamble=patterns("preamble"),
        denied=glob(evidence.get("denied") or ()),
        cancelled=glob(evidence.get("cancelled") or ()),
        wrappers=glob(evidence.get("wrappers") or ()),
        status=evidence.get("status", True),
        exceptions=evidence.get("exceptions", True),
        silence=evidence.get("silence", True),
    )


@cache  # most rows inherit the same ones
def _at_start(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern, to be matched at the start alone: a search tries each of them at every place of a text."""
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.MULTILINE)


def _unread(table: Mapping[str, Any]) -> list[str]:
    """The attributes that are read for no column: what people and models said, and noise."""
    return [*table.get("content", ()), *table.get("noise", ())]


def listed(value: str | list[str]) -> list[str]:
    """A value of a table that may be one text or several."""
    return [value] if isinstance(value, str) else value


@cache  # most rows inherit the same ones
def words_and_globs(written: tuple[str, ...]) -> Wanted:
    """What these texts match."""
    words = dict.fromkeys(written)
    return Wanted(frozenset(words), glob(one for one in words if GLOB.search(one)))


@cache
def same(value: T) -> T:
    """One shared object for all equal ones: tables that extend others repeat most parts, 27,000 with 200 distinct."""
    return value
