"""Loads and checks the redaction rules of `schemas/redactions.toml` and of a user's own files.

A rule is data; `sanitise` finds its matches, `plausible` judges the values. Every pattern is compiled
twice: by hyperscan, which finds where a match begins (or ends) in linear time, and by `re`, which is applied only
there, over a bounded window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import hyperscan

from collector.patterns import database
from collector.sanitise.plausible import CHECKS
from collector.table_checks import TEXT, TEXTS, missing_fields, wrong_fields, wrong_words
from collector.tables import TableError, load_toml, schemas

FAMILIES = ("token", "structure", "command", "keyed", "personal", "allow")
PROOFS = ("given", "word-proof", "random")
READERS = (
    "",
    *("word", "attached", "pair", "quoted", "cookie", "authorization", "pem", "pem-end", "lines", "lines-after"),
)
_ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_NEEDED = ("id", "title", "family")
_FIELDS = dict.fromkeys((*_NEEDED, "pattern", "value"), TEXT) | dict.fromkeys(
    ("words", "keywords", "check", "examples", "counter_examples"), TEXTS
)
TABLES = ("rule", "allow")
ALLOWED = {"keys": TEXTS, "values": TEXTS}
_NESTED_REPEAT = re.compile(r"(?<!\\)[+*}]\)(?:[+*]|\{\d+,)")
_ONE_OF_BYTES = re.compile(r"\[[^\]]*[^\x00-\x7f]|[^\x00-\x7f][*+?{]")  # texts are UTF-8
_BOUNDED = re.compile(r"\{(\d+),(\d+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a redaction table; `schemas/redactions.toml` describes the fields.

    Family `allow` is the table `[allow]` of a user's file: `words` are keys and `keywords` are values never cut.
    """

    id: str
    title: str
    family: str
    pattern: str = ""
    value: str = ""
    words: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    counter_examples: tuple[str, ...] = ()
    own: bool = field(default=False, compare=False)  # of a user's table

    @property
    def proof(self) -> str:
        """The check of a keyed rule: which values are secrets (`plausible.keyed_secret`)."""
        return self.check[0] if self.check else "given"


def load_rules(*paths: str | Path) -> tuple[Rule, ...]:
    """The built-in rules, then those of `paths`; a user's rule replaces a built-in one of the same id.

    Raises TableError with every mistake of a file.
    """
    rules = {rule.id: rule for rule in _load(schemas() / "redactions.toml", built_in=True)}
    personal = [rule.id for rule in rules.values() if rule.family == "personal"]
    for place in map(Path, paths):
        own = own_rules(place)
        moved = [rule.id for rule in own if rule.id in personal and rule.family != "personal"]
        if moved:
            remedy = "must stay 'personal', as in the built-in rule; a rule of another family needs another id"
            raise TableError(str(place), [f"rule {name!r}: family: {remedy}" for name in moved])
        rules |= {rule.id: rule for rule in own}
    return tuple(rules.values())


def own_rules(path: str | Path) -> list[Rule]:
    """The rules of a user's table alone. Raises TableError with every mistake."""
    return _load(Path(path), built_in=False)


def shortest(pattern: str) -> str:
    """`pattern` in the shortest form that is still certain, for hyperscan: it compiles, and reports a match once."""
    pattern = re.sub(r"(?<=[\])])\{(\d+),\d*\}(\Z|(?=\)\Z))", r"{\1}", pattern)
    return _BOUNDED.sub(lambda m: m[0] if int(m[2]) <= 8 else f"{{{m[1]},}}", pattern)


def word_pattern(word: str) -> str:
    """A telling word as a pattern for keys: `api key` matches apiKey, api_key, api-key, api.key; `a|b key` either."""
    parts = (part.split("|") for part in word.lstrip("=").split(" "))
    return r"[_\-. ]?".join(
        re.escape(part[0]) if len(part) == 1 else f"(?:{'|'.join(map(re.escape, part))})" for part in parts
    )


@lru_cache(maxsize=8)
def compile_patterns(patterns: tuple[str, ...], flags: tuple[int, ...]) -> hyperscan.Database:
    """A block-mode database whose ids are indices of `patterns`. It is shared: scan with your own Scratch."""
    return database([pattern.encode() for pattern in patterns], flags, range(len(patterns)))


def _load(place: Path | Traversable, *, built_in: bool) -> list[Rule]:
    data = load_toml(place)
    mistakes = [f"{name!r} is not known; known are [[rule]] and [allow]" for name in data if name not in TABLES]
    rules: list[Rule] = []
    for number, row in enumerate(data.get("rule", ()), 1):
        if found := list(_mistakes(row, built_in)):
            mistakes += [f"rule {row.get('id', number)!r}: {mistake}" for mistake in found]
        else:
            fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
            rules.append(Rule(**fields, own=not built_in))
    mistakes += _doubled(rule.id for rule in rules)
    allow = data.get("allow", {})
    if not isinstance(allow, dict) or [*wrong_fields(allow, ALLOWED, "")]:
        mistakes.append("[allow]: give `values` and `keys`, each a list of strings")
    elif allow:
        keys, values = (tuple(allow.get(name, ())) for name in ALLOWED)
        rules.append(Rule(f"allow-{place.name}", "never cut", "allow", words=keys, keywords=values))
    if mistakes:
        raise TableError(str(place), mistakes)
    return rules


def _doubled(names: Iterable[str]) -> Iterator[str]:
    for name, count in sorted(Counter(names).items()):
        if count > 1:
            yield f"rule {name!r}: id: used more than once; every rule needs its own"


def _mistakes(row: dict[str, Any], built_in: bool) -> Iterator[str]:
    wrong = [*wrong_fields(row, _FIELDS, ""), *missing_fields(row, _NEEDED, "")]
    if wrong:
        yield from wrong
        return
    if not _ID.fullmatch(row["id"]):
        yield f"id: {row['id']!r} must be words of small letters and digits joined by '-'"
    yield from wrong_words([row["family"]], FAMILIES[:-1], "family")
    if "value" in row:
        yield from wrong_words([row["value"]], READERS[1:], "value")
    yield from wrong_words(row.get("check", ()), CHECKS, "check")
    for word in row.get("words", ()):
        if not word.isascii():
            yield f"words: {word!r}: only letters a to z are taken for a key; write a pattern of family 'token'"
    if row["family"] in ("token", "structure", "command"):
        yield from _pattern_mistakes(row.get("pattern", ""), built_in)
    elif row["family"] == "keyed":
        yield from _keyed_mistakes(row)


def _keyed_mistakes(row: dict[str, Any]) -> Iterator[str]:
    if not row.get("words"):
        yield "words: give at least one word that names a value"
    if (check := row.get("check")) and (len(check) > 1 or check[0] not in PROOFS):
        yield f"check: {check!r} is not one of {', '.join(PROOFS)}: what the value of a key must be"


def _pattern_mistakes(pattern: str, built_in: bool) -> Iterator[str]:
    if not pattern:
        yield "pattern: must be given"
        return
    if _ONE_OF_BYTES.search(pattern):
        remedy = "which is several bytes, in [] or repeated: write (?:ä|ö) and (?:ä){2}"
        yield f"pattern: {pattern!r} has a letter beyond ASCII, {remedy}"
    if not built_in and _NESTED_REPEAT.search(pattern):
        yield f"pattern: {pattern!r} repeats a repeated group, which is not linear; write the group once"
    try:
        if re.compile(pattern.encode()).match(b""):
            yield f"pattern: {pattern!r} matches the empty text; name what it must begin with"
        if not built_in:  # 250 compilations cost 0.7 s at every start; tests compile the built-in ones
            compile_patterns((shortest(pattern),), (hyperscan.HS_FLAG_SOM_LEFTMOST,))
    except re.error as error:
        yield f"pattern: {pattern!r}: {error}"
    except hyperscan.HyperscanError as error:
        yield f"pattern: {pattern!r}: {error} (hyperscan takes no look-around and no back-references)"
