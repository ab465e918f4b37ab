"""Sanitises a JSON-like value string by string, using its structure: keys, labels, pairs and arguments.

Returns the same object if nothing was cut, otherwise a value of the same structure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping
from itertools import pairwise

from collector.sanitise.find import Finder
from collector.sanitise.headers import header_secrets
from collector.sanitise.keyed import Span
from collector.sanitise.personal import Personal
from collector.sanitise.plausible import MARK, WORDS, keyed_secret
from collector.sanitise.redactions import Rule

# Last words of the names of fields that label another one, and of those labelled: ParameterKey and ParameterValue.
LABELS = frozenset(
    (
        *("name", "key", "k", "id", "field", "label", "header", "variable", "parameter", "property", "selector"),
        *("element", "ref", "target", "placeholder"),
    )
)
_VALUES = frozenset(("value", "val", "v", "text", "content", "data", "default", "fill", "plaintext", "secretstring"))
_LAST_WORD = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)\d*\Z")
_FLAG = re.compile(r"--?(?P<name>[\w.-]+)=")
_Items = list[object] | tuple[object, ...] | set[object] | frozenset[object]
_JWK = frozenset(("d", "p", "q", "dp", "dq", "qi", "k"))
_DEEPEST = 200
_LONGEST_LABEL = 120
_ABOUT_IT = frozenset(WORDS["about_it"])
_KUBERNETES_DATA = ("data", "stringData")


class Walk:
    """`walk(value, hits)` returns the sanitised value, and adds the id of the rule of every cut to `hits`."""

    def __init__(
        self,
        finder: Finder,
        personal: Personal | None,
        scrub: Callable[[str, list[str]], str],
        mark: Callable[[Rule, bytes], bytes],
    ) -> None:
        self._finder, self._scrub, self._mark = finder, scrub, mark
        self._account = personal.account_rule if personal else None
        self._account_keys = personal.account_keys if personal else frozenset[str]()

    def __call__(self, value: object, hits: list[str]) -> object:
        return self._value(value, None, hits, 0)

    def _value(self, value: object, rule: Rule | None, hits: list[str], depth: int, *, below: bool = False) -> object:
        if depth > _DEEPEST:
            raise RecursionError(f"nested deeper than {_DEEPEST}")
        if isinstance(value, str):
            return self._announced(value, rule, hits) if rule else self._scrub(value, hits)
        if isinstance(value, Mapping):
            return self._map(value, rule, hits, depth + 1, below)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, rule, hits, depth + 1, below)
        if isinstance(value, bytes):
            return self._bytes(value, rule, hits)
        number = isinstance(value, int) and not isinstance(value, bool) and abs(value) > 999
        if number and rule and rule.id == "password":
            return self._cut(rule, str(value), hits)
        return value

    def _bytes(self, value: bytes, rule: Rule | None, hits: list[str]) -> bytes:
        text = value.decode("utf-8", "surrogateescape")
        clean = self._value(text, rule, hits, 0)
        return value if clean is text else str(clean).encode("utf-8", "surrogateescape")

    def _cut(self, rule: Rule, secret: str, hits: list[str]) -> str:
        hits.append(rule.id)
        return self._mark(rule, secret.encode("utf-8", "surrogatepass")).decode()

    def _announced(self, value: str, rule: Rule, hits: list[str]) -> str:
        """Sanitises a string whose key or label announces a secret."""
        raw = value.encode("utf-8", "surrogatepass")
        if rule is self._account:
            return value if not value or MARK.fullmatch(raw) else self._cut(rule, value, hits)
        if rule.value:
            spans = list(header_secrets(raw, 0, rule))
            if not spans:
                return self._scrub(value, hits)
            return self._scrub(self._spliced(raw, spans, hits), hits)
        if value in self._finder.allowed or not keyed_secret(raw.strip(), rule.proof, True):
            clean = self._scrub(value, hits)
            # The masked text may look like a secret.
            return value if clean is value else self._announced(clean, rule, hits)
        known: list[str] = []
        clean = self._scrub(value, known)
        # A rule for the value is more specific than the key's.
        if MARK.fullmatch(clean.encode("utf-8", "surrogatepass")):
            hits += known
            return clean
        return self._cut(rule, value, hits)

    def _spliced(self, raw: bytes, spans: list[Span], hits: list[str]) -> str:
        for span in reversed(spans):
            raw = raw[: span.start] + self._mark(span.rule, raw[span.start : span.end]) + raw[span.end :]
            hits.append(span.rule.id)
        return raw.decode("utf-8", "surrogatepass")

    def _map(
        self, value: Mapping[object, object], rule: Rule | None, hits: list[str], depth: int, below: bool
    ) -> object:
        """With `below`, the rule is for all texts in the value, not only for those with a name like `value`."""
        labelled = self._label(value)
        jwk = "kty" in value
        kubernetes = self._finder.keys.telling("password") if value.get("kind") == "Secret" else None
        clean: dict[object, object] = {}
        repeated: Counter[str] = Counter()
        for key, item in value.items():
            name = self._scrub(key, hits) if isinstance(key, str) else key
            own: Rule | None = None
            under = False
            if kubernetes and name in _KUBERNETES_DATA:
                own, under = kubernetes, True
            elif isinstance(name, str):
                own, under = self._rule_under(name, rule, item, below, self._rule_for(name, rule, labelled, jwk))
            if name in clean:  # two keys became equal
                name = _another(str(name), clean, repeated)
            clean[name] = self._value(item, own, hits, depth, below=under)
        pairs = zip(clean.items(), value.items(), strict=False)
        same = len(clean) == len(value) and all(a is b and x is y for (a, x), (b, y) in pairs)
        return value if same else clean

    def _rule_under(
        self, name: str, inherited: Rule | None, item: object, below: bool, own: Rule | None
    ) -> tuple[Rule | None, bool]:
        """The rule for the value under a name, and whether it is for everything below it."""
        if own:
            return own, _holds_many(name, own, item)
        below = below and _last_word(name) not in _ABOUT_IT
        return (inherited if below else None), below

    def _rule_for(self, key: str, inherited: Rule | None, labelled: Rule | None, jwk: bool) -> Rule | None:
        if key in self._account_keys:
            return self._account
        is_value = key.lower() in _VALUES or _last_word(key) in _VALUES
        if labelled and is_value:
            return labelled
        telling = self._finder.keys.telling
        if jwk and key in _JWK:
            return telling("private_key")
        if own := telling(key):
            return own
        if inherited and inherited.id == "cookie":
            return telling("session_token")
        return inherited if is_value else None

    def _label(self, value: Mapping[object, object]) -> Rule | None:
        """The rule for `{"name": "API_KEY", "value": …}` or `{"selector": "#password", "text": …}`."""
        for key, label in value.items():
            if not isinstance(key, str) or not isinstance(label, str) or len(label) > _LONGEST_LABEL:
                continue
            if _last_word(key) in LABELS:
                told = self._finder.keys.telling(label.strip("#.$- ")) or self._finder.keys.mentioned(label)
                if told:
                    return told
        return None

    def _list(self, value: _Items, rule: Rule | None, hits: list[str], depth: int, below: bool) -> object:
        clean = [self._flag(item, hits) or self._value(item, rule, hits, depth, below=below) for item in value]
        if rule is None and len(value) > 1:
            clean = self._arguments(clean, hits)
        if all(a is b for a, b in zip(clean, value, strict=True)):
            return value
        return clean if isinstance(value, list) else type(value)(clean)

    def _flag(self, item: object, hits: list[str]) -> str | None:
        """Handles `--password=x` as a separate argument, whose value may contain spaces."""
        flag = _FLAG.match(item) if isinstance(item, str) else None
        rule = self._finder.keys.telling(flag["name"]) if flag else None
        if flag is None or rule is None:
            return None
        value = flag.string[flag.end() :]
        clean = self._announced(value, rule, hits)
        return None if clean is value else flag[0] + clean

    def _arguments(self, clean: list[object], hits: list[str]) -> list[object]:
        """Handles `["--password", "x"]`, `["API_KEY", "x"]`, `["mysql", "-u", "root", "-px"]`."""
        for place, (name, item) in enumerate(pairwise(clean), 1):
            if isinstance(name, str) and isinstance(item, str) and item[:1] != "-":
                rule = self._names(name, len(clean))
                clean[place] = self._announced(item, rule, hits) if rule else item
        words = [item for item in clean if isinstance(item, str)]
        if len(words) < len(clean) or not any(word[:1] == "-" for word in words):
            return clean
        return self._command(words, hits)

    def _names(self, name: str, length: int) -> Rule | None:
        """The rule of an item that names the next one: a flag, a header, the first of a pair."""
        header = name[:2].lower() == "x-" or name.lower() == "authorization"
        if " " in name or "=" in name or not (length == 2 or name[:1] == "-" or header):
            return None
        return self._finder.keys.telling(name.lstrip("-"))

    def _command(self, words: list[str], hits: list[str]) -> list[object]:
        raw = [word.encode("utf-8", "surrogatepass") for word in words]
        spans = [span for span in self._finder.spans(b" ".join(raw)) if span.rule.family == "command"]
        at = 0
        clean: list[object] = []
        for word, text in zip(words, raw, strict=True):
            inside = [span for span in spans if span.start < at + len(text) and span.end > at]
            here = [span._replace(start=max(span.start - at, 0), end=min(span.end - at, len(text))) for span in inside]
            here = [span for span in here if not MARK.fullmatch(text[span.start : span.end])]
            clean.append(self._spliced(text, here, hits) if here else word)
            at += len(text) + 1
        return clean


def _holds_many(key: str, rule: Rule, value: object) -> bool:
    """Whether it holds secrets under names of their own: `{"tokens": {"ci": …}}`; not a schema of a password."""
    if rule.value or (isinstance(value, Mapping) and "type" in value):
        return False
    return rule.id == "password" or key[-1:] in "sS"


def _another(name: str, taken: Container[object], repeated: Counter[str]) -> str:
    """The name with a number, so that it differs from those taken."""
    while True:
        repeated[name] += 1
        if (numbered := f"{name} ({repeated[name] + 1})") not in taken:
            return numbered


def _last_word(key: str) -> str:
    found = _LAST_WORD.search(key[-40:])
    return found[0].lower() if found else ""
