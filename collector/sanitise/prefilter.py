"""The gate: one hyperscan pass that clears almost every event, which then needs no search.

It reads the JSON of a whole value. It must stop everything that `find` would cut (a test compares both over the whole
corpus), and as little else as possible. Code is full of `token = …`, so for a keyed value it also requires a digit or
sign, quotes, a flag or an upper-case key.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import accumulate, chain
from math import ceil
from typing import Any, NamedTuple

import hyperscan

from collector.sanitise.keys import Keys
from collector.sanitise.personal import Personal
from collector.sanitise.plausible import WORDS
from collector.sanitise.redactions import Rule, compile_patterns, shortest
from collector.sanitise.unwrap import in_base64
from collector.sanitise.walk import LABELS

_GLUE = r"(?:[^\w\r\n]|\\+[nrt]|&(?:quot|gt|lt|#34|#x22);|%[2-7][0-9A-Fa-f])+"
_BETWEEN = "|".join(
    (
        *WORDS["said"],
        rf"for{_GLUE}[\w@.'-]+",
        "val|v|text|content|data|default|string|str|type|or|b|u|r|f|n|rb|from|Some|new|SecretStr|CDATA",
    )
)
_OPEN = r"(?:\s|\\+[nrt]){0,4}(?:\\*[\"'`])"
_IN = r"[^\s\"'`,;(){}<>\\]"
_SIGN, _LETTER = "[0-9!#%^*~@&$=]", "[a-z_$+/=.-]"
_AFTER_ANY_KEY = (
    rf"{_GLUE}(?:(?:{_BETWEEN}){_GLUE})*{_IN}*(?:{_LETTER}{_IN}*{_SIGN}|{_SIGN}{_IN}*{_LETTER})",  # a digit or a sign
    rf"\]?(?:\\*[\"'`])?\]?\s*(?::|=|\(|>|:=|=>){_OPEN}[^\s\"'`\\$<{{]{{3}}",  # in quotes
    r"\\*[\"'](?:\r?\n|(?:\\+r)?\\+n)(?:\r?\n|(?:\\+r)?\\+n|Content-)",  # a field of a form
    r":\s*[|>][-+]?[0-9]?(?:\\*\s*[\r\n]|\\+[rn])",  # a YAML block
    r"(?:\\*[\"'`])?,?\s*[\r\n][\s\"']*(?:value|val|text|content)\b",  # a label, and its value on the next line
    r"(?:\\*[\"'])?>(?:<!\[CDATA\[)?[^\s<>{\\]{3}",  # an XML element
)
_IN_STRING = r'(?:[^"\\]|\\+[^\\])'  # of compact JSON
_TELLS = rf'(?:(?:ANYWHERE){_IN_STRING}*|(?:WHOLE)(?:(?:[^a-z"\\]|\\+[^\\]){_IN_STRING}*)?)"'  # to the end of a string
_LABEL = rf"(?:{'|'.join(sorted(LABELS))})"
_KEYED = (
    rf"(?i)KEY(?:{'|'.join(_AFTER_ANY_KEY)})",
    r"(?i)(?:--?|[?&;](?:amp;)?)[\w.-]*KEY(?:=|\s+|\\*[\"'],\s*\\*[\"'])\\*[\"']?[^\s\"'`\\$<{]{3}",  # a flag, a query
    r"(?i)(?:(?:ANYWHERE)[\w-]*|(?:WHOLE))\\*[\"']\s*(?:,\s*\\*[\"']|\}|\{|:\s*[\[{])",  # a pair; a list, a map
    rf'(?i){_TELLS}:(?:"[^"]|[\[{{])',  # a key of any words
    rf'(?i)(?:PASSWORD){_IN_STRING}*":-?[0-9]{{4}}',
    rf'(?i){_LABEL}":"{_IN_STRING}*{_TELLS}',  # a label of any words
    rf'(?i)\\*"[a-z_]*{_LABEL}\\*"\s*:\s*\\*"[^"\\]*KEY\\*"',  # one inside a text ends with the telling word
    r'"kind":"Secret"',
    r"(?:PASS|PWD|SECRET|TOKEN|K[E]Y|AUTH|CRED|COOKIE)[A-Z0-9_]*=[^\s\"'$<{,;)]{4}",
    r"(?i)(?:pass|pwd|pw|otp|code)[\w.-]*[^\w\s]+\s?[^\w\s]*[0-9]{4}",
    r"(?i)(?:pass|pwd)[\w.-]*(?:\\*[\"'])?(?::\s+|\s?=\s?)[^\s\"'{<$\[(\\]{5}",
    r"(?i)(?:pass|pwd)[\w.-]*(?:\s+|\\*[\"']\]?\\*[\"']?\s?\}?\)\)?\.\w+\()\\*[\"'][^\s\"'{<$\[(\\]{3}",
    r"(?i)(?:cookie|authorization)[^\w\s]",
    r"(?i)KEY(?: \w+){0,2}(?:[,;|\t]|\\+t)[a-z_]",  # the name of a column
    r"(?i)(?:[,;|\t]|\\+t)[\w. -]*KEY(?: \w+){0,2}(?:\r?\n|(?:\\+r)?\\+n)",
)
# Escapes of letters and of characters that secrets are recognised by; invisible characters.
_UNREADABLE = (
    r"\\u(?:00[2-7][0-9a-fA-F]|200[b-fB-F]|2060|[fF][eE][fF][fF]|00[aA][dD])",
    r"%(?:4[1-9A-Fa-f]|5[0-9Aa]|6[1-9A-Fa-f]|7[0-9Aa])",
    r"%(?:2[012678BbFf]|3[AaDdFf]|40|5[Bb]|7[Bb])",
    r":\\+/|[A-Za-z0-9+]\\+/(?:\\+/)?[A-Za-z0-9+]|\x1b\[|\\u001[bB]\[",
    r"\xe2\x80[\x8b-\x8f]|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad",
)
_KEYS = ("password", "passwd", "secret", "token", "api_key", "apikey", "private_key", "authorization", "credential")
_HIDDEN = (*_KEYS, *map(str.upper, _KEYS), *map(str.title, _KEYS), "apiKey", "PASS=", "PRIVATE KEY", "://", "Bearer ")
_MORE_BASE64 = "[A-Za-z0-9+/]{20}"  # required after codes that are too short by themselves
# A line or a literal that continues in the next one.
_BROKEN = r"[\w-]{4}(?:\\\r?\n|\\{3,}n|\\*[\"']\s*\+\s*\\*[\"'])[\w-]{4}"
_BELOW = r"(?i)(?:ANYWHERE)[\w-]*:\s*(?:[\r\n]|\\+n)(?:\s|\\+[nrt])*[\w.:/-]{10}"  # a token on lines of its own
_MOST_WORDS = 1500  # bytes of telling words in one pattern
_MOST_PERSONAL = 500
_TOGETHER = 16 << 10  # bytes of documents that are scanned together
# A pattern that begins with a counted class makes hyperscan count at every byte; the literal after it is enough.
_CLASS_OR_BLANK = re.compile(r"\[(?:\\.|[^\]\\])*\]|\\s")
_LEADING_CLASSES = re.compile(r"\A(?:\[[^\]]*\](?:\{\d+(?:,\d*)?\})?)+(?=\\?[^\[({?*+])")


class Verdict(NamedTuple):
    """What the gate saw: something to search for, something wrapped or broken, personal data (pattern, end)."""

    secret: bool
    hiding: bool
    personal: list[tuple[int, int]]


class _SearchedFor:
    """What the rules search for: literals that stop a text alone, other forms, and both in base64, sorted."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        literals: set[str] = set()
        hidden = set(_HIDDEN)
        self.forms = []
        for rule in rules:
            if rule.family in ("token", "structure"):
                hidden.update(rule.keywords)
            if _certain(rule):
                literals.update(rule.keywords)
            elif rule.pattern:
                self.forms.append(shortest(rule.pattern))
        self.literals = sorted(literals)
        codes = sorted(set(chain.from_iterable(map(in_base64, hidden))))
        self.base64 = [re.escape(code) + ("" if len(code) > 4 else _MORE_BASE64) for code in codes]


class Gate:
    """The patterns of all rules as one yes-or-no question. Not for use by two threads at once."""

    def __init__(self, rules: Sequence[Rule], keys: Keys, personal: Personal | None) -> None:
        signs = _SearchedFor(rules)
        portions = list(_portions(keys))
        patterns = [_in_json(_LEADING_CLASSES.sub("", form)) for form in signs.forms]
        patterns += dict.fromkeys(_for_words(_KEYED, portions))
        patterns += _UNREADABLE
        self._hiding = len(patterns)
        patterns += map(re.escape, signs.literals)
        patterns += signs.base64
        patterns += ("eyJ[A-Za-z0-9+/]{8}", _BROKEN)
        patterns += _for_words((_BELOW,), portions)
        self._personal = len(patterns)
        if personal:
            patterns += personal.patterns
        flags = [hyperscan.HS_FLAG_SINGLEMATCH] * self._personal + [0] * (len(patterns) - self._personal)
        self._database = compile_patterns(tuple(patterns), tuple(flags))
        self._scratch = hyperscan.Scratch(self._database)

    def look(self, text: bytes) -> Verdict | None:
        """None if there is nothing to cut. Takes plain text, or the JSON of a value."""
        hits: list[tuple[int, int]] = []
        self._database.scan(text, _note, context=hits, scratch=self._scratch)
        if not hits:
            return None
        first, last = self._hiding, self._personal
        personal = [(number - last, end) for number, end in hits if number >= last]
        hiding = any(first <= number < last for number, _ in hits)
        secret = hiding or len(personal) < len(hits) or len(personal) > _MOST_PERSONAL
        return Verdict(secret, hiding, personal)

    def stopped(self, documents: Sequence[bytes]) -> Iterator[int]:
        """The indices of documents for which `look` is not None, and hardly any others.

        Documents are JSON without line breaks. They are scanned together up to the first hit, then from the next
        document on: for many short ones this costs half as much as a scan of each.
        """
        ends = list(accumulate(len(one) + 1 for one in documents))
        place = 0
        while place < len(documents):
            start = ends[place] - len(documents[place]) - 1
            stop = min(bisect_right(ends, start + _TOGETHER) + 1, len(documents))
            hits: list[int] = []
            with suppress(hyperscan.ScanTerminated):
                together = b"\n".join(documents[place:stop])
                self._database.scan(together, _first, context=hits, scratch=self._scratch)
            if not hits:
                place = stop
                continue
            place = bisect_right(ends, start + hits[0] - 1)
            yield place
            place += 1


def _portions(keys: Keys) -> Iterator[tuple[tuple[str, str], ...]]:
    """What the names in `_KEYED` stand for, in portions: patterns of all telling words would be too large for hyperscan
    as soon as somebody adds a few, and near that limit the whole pass takes three times as long.
    """
    count = max(1, min(len(keys.whole), ceil(sum(map(len, (*keys.anywhere, *keys.whole))) / _MOST_WORDS)))
    for first in range(count):
        anywhere, whole, passwords = (
            "|".join(words[first::count]) for words in (keys.anywhere, keys.whole, keys.passwords)
        )
        key = rf"(?:(?:{anywhere})[\w.-]*|(?:{whole})(?:[_.0-9-][\w.-]*)?)"
        yield ("KEY", key), ("ANYWHERE", anywhere), ("WHOLE", whole), ("PASSWORD", passwords)


def _for_words(patterns: Iterable[str], portions: Iterable[Iterable[tuple[str, str]]]) -> Iterator[str]:
    """Each pattern with each portion of the words in the places of their names."""
    for words in portions:
        for pattern in patterns:
            yield reduce(lambda made, word: made.replace(*word), words, pattern)


def _certain(rule: Rule) -> bool:
    """Whether its literals alone stop a text: they are faster than the pattern, and also find split tokens."""
    return rule.family == "token" and rule.pattern != "" and min(map(len, rule.keywords), default=0) >= 3


def _in_json(pattern: str) -> str:
    """`pattern` with white space as it may appear in JSON: an escaped line break, the next string of a list."""
    return _CLASS_OR_BLANK.sub(lambda m: m[0] if m[0] != r"\s" else r'(?:\s|\\+[nrt]|",")', pattern)


def _first(_number: int, _start: int, end: int, _flags: int, hits: Any) -> bool:
    hits.append(end)
    return True


def _note(number: int, _start: int, end: int, _flags: int, hits: Any) -> None:
    hits.append((number, end))
