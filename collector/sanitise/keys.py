"""Decides which keys announce a secret, in any case style: apiKey, API_KEY, x-api-key, spring.datasource.password.

The telling words come from the keyed rules, the words that mean something else from `schemas/harmless_words.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from collector.sanitise.plausible import WORDS, looks_random
from collector.sanitise.redactions import Rule, word_pattern

_LONGEST = 200
_MOST_KNOWN = 20_000
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\w\s.\-]+")

_ABOUT_IT = frozenset(WORDS["about_it"])
_STILL_IT = frozenset(WORDS["still_it"])
_BEFORE_IT = frozenset(WORDS["before_it"])
_HARMLESS = re.compile(
    r"""(?ix) tokeni[sz] | author(?!iz|is) | authoriz(?!ation) | token_?type | max_?tokens | num_?tokens | tokens?_per
    | design_?tokens?
    | (?:page|next|continuation|cancellation|sync|lock|starting|forward|backward|pagination|resume)_?token
    | client_?request_?token
    | public_?key | idempotency | secret_?name
    | (?:export|list|delete|import)_?secret_?(?:sub)?keys? | key_?name | access_key_id$ | (?:existing|pull)_?secrets?$
    | passwordless | keyboard | tiktoken | monkey | secretary | password_?(?:hash|salt)_(?:algorithm|rounds)
    | (?:by|com|encom|sur|tres|over|under|first|second|multi|single|render|shader|forward|backward|dry)
      _?pass(?![a-z])"""
)


class Keys:
    """The telling words of all keyed rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.family == "keyed")
        self._allowed = frozenset(key.lower() for rule in rules if rule.family == "allow" for key in rule.words)
        self._known: dict[str, Rule | None] = {}
        words = [(number, word) for number, rule in enumerate(self._rules) for word in rule.words]
        named = [f"(?P<_{number}_{index}>{_bounded(word)})" for index, (number, word) in enumerate(words)]
        self._words = re.compile("(?i)" + "|".join(named))
        whole, anywhere = _whole_and_parts(word for _, word in words)
        self._whole = frozenset(word[1:].replace(" ", "_") for word in whole)
        self.whole, self.anywhere = tuple(map(word_pattern, whole)), tuple(map(word_pattern, anywhere))
        passwords = (rule.words for rule in self._rules if rule.id == "password")
        self.passwords = tuple(map(word_pattern, chain.from_iterable(passwords)))

    def telling(self, key: str) -> Rule | None:
        """The rule of a key that announces a secret; None for every other key."""
        if len(key) > _LONGEST:
            return None
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._judge(key)
        return self._known[key]

    def mentioned(self, label: str) -> Rule | None:
        """The password rule if a label for people mentions one: "Password field", "input[name=passwd]"."""
        found = self._words.search(label)
        rule = self._rule(found) if found else None
        return rule if rule and rule.id == "password" else None

    def is_short(self, key: str) -> bool:
        """Whether the key is a word with another meaning in running text: pass, auth."""
        return key.lower() in self._whole and "_" not in key

    def _rule(self, found: re.Match[str]) -> Rule:
        return self._rules[int((found.lastgroup or "_0").split("_")[1])]

    def _judge(self, key: str) -> Rule | None:
        name = _snake_case(key)
        if key.lower() in self._allowed or _HARMLESS.search(key) or _HARMLESS.search(name):
            return None
        words = list(self._words.finditer(name))
        if not words or (len(key) > 24 and looks_random(key.encode("utf-8", "replace"))):
            return None
        last = words[-1]
        if self._is_about_it(last, name[last.end() :]):
            return None
        rule = self._rule(last)
        return None if rule.id != "password" and _word_before(key, name, last.start()) in _BEFORE_IT else rule

    def _is_about_it(self, word: re.Match[str], rest: str) -> bool:
        """Whether what follows the telling word means something about the secret, such as its length."""
        after = [part for part in rest.removeprefix("s").split("_") if part and not part.isdigit()]
        if word[0] in self._whole and not _STILL_IT.issuperset(after):
            return True
        if not after:
            return False
        goes_on = len(after) == 1 and rest[0].isalpha() and rest[0] != "s"
        return goes_on or after[-1] in _ABOUT_IT


def _whole_and_parts(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words that must be a whole key or part of one, and those that may be anywhere in it; each once."""
    either: tuple[list[str], list[str]] = [], []
    for word in dict.fromkeys(words):
        either[not word.startswith("=")].append(word)
    return either


def _snake_case(key: str) -> str:
    return key.lower().replace("-", "_") if key.isupper() else "_".join(_PARTS.findall(key)).lower()


def _word_before(key: str, name: str, at: int) -> str:
    """The word before the telling one at `at`; config.secret is not config_secret."""
    own = len(name) - len("_".join(_PARTS.findall(key.rpartition(".")[2])))
    return name[own if own <= at else 0 : at].rstrip("_").rpartition("_")[2]


def _bounded(word: str) -> str:
    pattern = word_pattern(word)
    return rf"(?<![a-z0-9]){pattern}(?![a-z])" if word.startswith("=") else pattern
