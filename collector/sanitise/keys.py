"""Decides which keys announce a secret, in any case style: apiKey, API_KEY, x-api-key, spring.datasource.password.

The telling words come from the keyed rules, the words that mean something else from `schemas/harmless_words.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    | design_?tokens? | (?:page|next|continuation|cancellation|sync)_?token | public_?key | idempotency | secret_?name
    | (?:export|list|delete|import)_?secret_?(?:sub)?keys? | key_?name | access_key_id$ | (?:existing|pull)_?secrets?$
    | passwordless | keyboard | monkey | secretary | password_?(?:hash|salt)_(?:algorithm|rounds)
    | (?:by|com|encom|sur|tres|over|under|first|second|multi|single|render|shader|forward|backward|dry)
      _?pass(?![a-z])"""
)


class Keys:
    """The telling words of all keyed rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.family == "keyed")
        self._allowed = frozenset(key.lower() for rule in rules if rule.family == "allow" for key in rule.words)
        words = [(number, word) for number, rule in enumerate(self._rules) for word in rule.words]
        named = (f"(?P<_{number}_{place}>{_bounded(word)})" for place, (number, word) in enumerate(words))
        self._words = re.compile("(?i)" + "|".join(named))
        self._whole = frozenset(word[1:].replace(" ", "_") for _, word in words if word.startswith("="))
        self._known: dict[str, Rule | None] = {}
        patterns = dict.fromkeys(word for _, word in words)
        self.anywhere = tuple(word_pattern(word) for word in patterns if not word.startswith("="))
        self.passwords = tuple(
            word_pattern(word) for rule in self._rules if rule.id == "password" for word in rule.words
        )
        self.whole = tuple(word_pattern(word) for word in patterns if word.startswith("="))

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
        name = key.lower().replace("-", "_") if key.isupper() else "_".join(_PARTS.findall(key)).lower()
        if key.lower() in self._allowed or _HARMLESS.search(key) or _HARMLESS.search(name):
            return None
        last = next(reversed(list(self._words.finditer(name))), None)
        if last is None or (len(key) > 24 and looks_random(key.encode("utf-8", "replace"))):
            return None
        rest = name[last.end() :]
        after = [part for part in rest.removeprefix("s").split("_") if part and not part.isdigit()]
        if last[0] in self._whole and not _STILL_IT.issuperset(after):
            return None
        if after and (after[-1] in _ABOUT_IT or (len(after) == 1 and rest[0].isalpha() and rest[0] != "s")):
            return None
        rule = self._rule(last)
        own = len(name) - len("_".join(_PARTS.findall(key.rpartition(".")[2])))  # config.secret is not config_secret
        before = name[own if own <= last.start() else 0 : last.start()].rstrip("_").rpartition("_")[2]
        return None if rule.id != "password" and before in _BEFORE_IT else rule


def _bounded(word: str) -> str:
    pattern = word_pattern(word)
    return rf"(?<![a-z0-9]){pattern}(?![a-z])" if word.startswith("=") else pattern
