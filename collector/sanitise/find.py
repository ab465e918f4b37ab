"""Finds all secrets in a text, also after decoding it. Spans always refer to the text as given."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import hyperscan

from collector.sanitise.csv import column
from collector.sanitise.headers import header_secrets
from collector.sanitise.keyed import REACH, Span, announced, bare_end, closing, header
from collector.sanitise.keys import Keys
from collector.sanitise.personal import Personal
from collector.sanitise.plausible import CHECKS, MARK, looks_random, placeholder
from collector.sanitise.redactions import Rule, compile_patterns, shortest
from collector.sanitise.unwrap import Unwrapped, decoded, joined, opened

MOST_HITS = 20_000
MOST_JUDGED = 8, 64 << 10  # limit of bytes judged, times text length plus bytes: nested telling words share long values
_DEPTH = 4
_FAMILY_ORDER = {"token": 0, "structure": 1, "command": 2, "keyed": 3, "personal": 4}
_EDGE = rb"|%[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\x1b\[[0-9;]{0,8}[A-Za-z])\Z"
_LEFT = re.compile(rb"(?:\A|[^A-Za-z0-9]" + _EDGE)
_LEFT_ALONE = re.compile(rb"(?:\A|[^\w.+-]|:-" + _EDGE)
_BLANKS = re.compile(rb"[ \t=]{0,8}")
_SHELL_QUOTE = re.compile(rb"(?P<quote>\\{0,15}[\"'])")
_PAIR_SIGN = re.compile(rb"[:%,]")
_WINDOWS_FLAG = re.compile(rb"/[a-z]+")
_SHELL_WORD = re.compile(rb"(?:[^\s\"'`\\;|&<>()]|\\(?=[^\s\"'nrtu\\/])){1,4096}+")
_CALL_QUOTE = re.compile(rb"\s{0,8}(?:pass(?:word|wd)?\s{0,2}=\s{0,2})?(?:Some\(|\$)?(?P<quote>\\{0,15}[\"'])")
_GUTTER = r"[0-9]{1,6}(?:\t|\\{1,15}t|: |→| ?[|] )"  # the line number that file-reading tools put before each line
_BREAK = rf"(?:\s|\\{{1,15}}[nrt]|[>|+#*\"',-]|{_GUTTER}){{0,24}}"
_KEY_LINES = re.compile(
    rf"(?:{_BREAK}[A-Za-z0-9+/=]{{16,}}+)*+(?:{_BREAK}=?[A-Za-z0-9+/]{{1,80}}+={{0,2}}(?![\w:]))?".encode()
)
_PEM_HEAD = re.compile(
    rf"(?:{_BREAK}(?:Proc-Type|DEK-Info|Version|Comment|Hash|Subject|X-[\w-]+): ?[^\n\\\"]{{0,120}})*".encode()
)
_KEY_RUN = re.compile(rb"[A-Za-z0-9+/=]{16}")
_PEM_END = re.compile(rb"-{4,5} ?END [A-Z0-9 ]{0,60}-{4,5}")
_KEY_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n\t \\>|"
_PEM_REACH = 16_384
_LEAST_KEY = 16  # characters of base64: anything shorter is an example
_ESCAPED = re.compile(rb"%[0-7]|\\|&[a-z#]|\x1b\[|\xe2\x80|\xe2\x81|\xef\xbb|\xc2\xad")


class TooManyHits(Exception):
    """A text has more candidates than can be judged; the whole text is dropped."""


class Finder:
    """All rules, compiled for locating secrets. Not thread-safe."""

    def __init__(self, rules: Sequence[Rule], keys: Keys, personal: Personal | None) -> None:
        self.keys = keys
        allowing = (rule.keywords for rule in rules if rule.family == "allow")
        self.allowed = frozenset(chain.from_iterable(allowing))
        self._allowed = frozenset(value.encode() for value in self.allowed)
        self._personal = personal
        self._forms = [rule for rule in rules if rule.pattern]
        self._compiled = [re.compile(rule.pattern.encode()) for rule in self._forms]
        self._leads = list(map(_leads, self._forms))
        patterns = list(map(_located, self._forms))
        flags = [0 if leads else hyperscan.HS_FLAG_SOM_LEFTMOST for leads in self._leads]
        self._first_word = len(patterns)
        patterns += ["(?i)" + word for word in (*keys.anywhere, *keys.whole)]
        self._first_personal = len(patterns)
        if personal:
            patterns += personal.patterns
        flags += [0] * (len(patterns) - len(flags))
        self._database = compile_patterns(tuple(patterns), tuple(flags))
        self._scratch = hyperscan.Scratch(self._database)

    def spans(self, text: bytes, *, hiding: bool = True) -> list[Span]:
        """The spans to cut from `text`, in order, without overlaps; with `hiding` also base64 and split tokens."""
        found = list(self._read(text, hiding))
        views: list[Unwrapped] = []
        seen = text
        while len(views) < _DEPTH and _ESCAPED.search(seen) and (view := decoded(seen)):
            views.append(view)
            seen = view.text
            found += [_in_original(span, views) for span in self._read(seen, hiding)]
        if b"[redacted:" in text:
            found = _outside_marks(text, found)
        return merged(span for span in found if text[span.start : span.end] not in (b"", *self._allowed))

    def _read(self, text: bytes, hiding: bool) -> Iterator[Span]:
        yield from self._direct(text)
        if hiding:
            yield from self._across(text)
            yield from self._inside(text)

    def _direct(self, text: bytes, joins: Container[int] = ()) -> list[Span]:
        """Spans in the text without decoding; `joins` count as word boundaries."""
        hits: list[tuple[int, int, int]] = []
        self._database.scan(text, _collect, context=hits, scratch=self._scratch)
        if len(hits) > MOST_HITS:
            raise TooManyHits
        found: list[Span] = []
        seen: set[tuple[int, int]] = set()
        word_end = 0
        left = MOST_JUDGED[0] * len(text) + MOST_JUDGED[1]
        for number, start, end in hits:
            if number >= self._first_personal:
                found += self._personal_at(number, text, end)
            elif number >= self._first_word:
                if end >= word_end:
                    word_end = bare_end(text, end, line=True)
                left -= word_end - end
                if left < 0:
                    raise TooManyHits
                found += self._keyed_at(text, end)
            elif self._leads[number]:
                found += _led(text, end, self._forms[number])
            elif (number, start) not in seen:
                seen.add((number, start))
                found += _formed(text, start, self._forms[number], self._compiled[number], joins)
        return found

    def _personal_at(self, number: int, text: bytes, end: int) -> Iterator[Span]:
        span = self._personal.span(number - self._first_personal, text, end) if self._personal else None
        if span:
            yield span

    def _keyed_at(self, text: bytes, end: int) -> Iterator[Span]:
        """What the telling word that ends there announces."""
        yield from announced(text, end, self.keys)
        yield from column(text, end, self.keys)
        if parsed := header(text, end, self.keys):
            rule, at = parsed
            yield from header_secrets(text, at, rule)

    def _across(self, text: bytes) -> Iterator[Span]:
        """Tokens split by a line break or a string concatenation: only complete ones, without what follows them."""
        view = joined(text)
        if view is None:
            return
        for span in self._direct(view.text, frozenset(view.joins)):
            if span.rule.family != "token" and span.rule.id != "jwt":
                continue
            inside = [join for join in view.joins if span.start < join < span.end]
            end = self._whole_end(view, span, inside)
            if any(join < end for join in inside):
                start, stop = view.original(span.start, end)
                yield span._replace(start=start, end=stop)

    def _whole_end(self, view: Unwrapped, span: Span, joins: Sequence[int]) -> int:
        """Where a token ends that goes across these joins, without words after a join that are no part of it."""
        pattern, end = self._compiled[self._forms.index(span.rule)], span.end
        for join in sorted(joins, reverse=True):
            whole = pattern.match(view.text, span.start, join)
            if whole is None or whole.end() < join or looks_random(view.text[join:end]):
                break
            end = join
        return end

    def _inside(self, text: bytes) -> Iterator[Span]:
        for start, end, inside in opened(text):
            found = self._direct(inside)
            secrets = [span for span in found if span.rule.family != "personal"]
            if secrets:
                yield Span(start, end, secrets[0].rule)


def _leads(rule: Rule) -> bool:
    """Whether the secret follows what the rule's pattern matches."""
    return rule.family == "command" and rule.value != ""


def _located(rule: Rule) -> str:
    return rule.pattern if _leads(rule) else shortest(rule.pattern)


def _in_original(span: Span, views: Sequence[Unwrapped]) -> Span:
    """A span of the last of the views, each of which is of the one before, as one of the first one's original."""
    start, end = span.start, span.end
    for view in reversed(views):
        start, end = view.original(start, end)
    return span._replace(start=start, end=end)


def _collect(number: int, start: int, end: int, _flags: int, hits: Any) -> bool | None:
    hits.append((number, start, end))
    return True if len(hits) > MOST_HITS else None


def _formed(text: bytes, start: int, rule: Rule, pattern: re.Pattern[bytes], joins: Container[int]) -> Iterator[Span]:
    """The secrets of a rule of family token or structure whose match begins at `start`."""
    token = rule.family == "token"
    if token and start not in joins and not _stands_alone(text, start, rule):
        return
    match = pattern.match(text, start, start + REACH)
    if match is None:
        return
    if rule.value:
        yield from _key_block(text, match, rule)
        return
    groups: list[str | int] = [name for name, value in match.groupdict().items() if value]
    if not groups and not (token and _goes_on(text, match.end(), joins)):
        groups = [0]
    for group in groups:
        if _is_secret(match[group], rule, token):
            yield Span(*match.span(group), rule)


def _goes_on(text: bytes, end: int, joins: Container[int]) -> bool:
    return text[end : end + 1].isalnum() and end not in joins


def _stands_alone(text: bytes, start: int, rule: Rule) -> bool:
    before = _LEFT_ALONE if "alone" in rule.check else _LEFT
    return before.search(text, max(0, start - 10), start) is not None


def _is_secret(value: bytes, rule: Rule, token: bool) -> bool:
    """Whether a match is a secret; of a token, what follows the keyword decides."""
    own = value
    if token:
        keyword = next((word for word in rule.keywords if value.startswith(word.encode())), "")
        own = value[len(keyword) :]
        if len(set(own)) <= 5 and not rule.own:
            return False
    return not placeholder(own) and _passes(rule, value)


def _passes(rule: Rule, value: bytes) -> bool:
    return all(CHECKS[check](value) for check in rule.check)


def _led(text: bytes, at: int, rule: Rule) -> Iterator[Span]:
    """The secret that follows a command line or a call (family command)."""
    if rule.value == "cookie":
        yield from header_secrets(text, _end(_BLANKS, text, at), rule)
        return
    start, end, quoted = _argument(text, at, rule.value)
    value = text[start:end]
    if rule.value == "pair":
        before, after = _pair(value)
        if CHECKS["random"](before) and (not after or placeholder(after)):  # TOKEN: and TOKEN:api_token
            yield Span(start, start + len(before), rule)
            return
        start, value = end - len(after), after
    if not _stands_for_no_secret(value) and (quoted or _passes(rule, value)):
        yield Span(start, end, rule)


def _argument(text: bytes, at: int, reader: str) -> tuple[int, int, bool]:
    """The span of the argument at `at`, and whether it is in quotes; an empty one if there is none."""
    start = at if reader in ("attached", "quoted") else _end(_BLANKS, text, at)
    quote = (_CALL_QUOTE if reader == "quoted" else _SHELL_QUOTE).match(text, start)
    if quote:
        return quote.end(), closing(text, quote.end(), quote["quote"]), True
    if reader == "quoted" or text[start : start + 1] == b"-":
        return start, start, False
    return start, _end(_SHELL_WORD, text, start), False


def _pair(value: bytes) -> tuple[bytes, bytes]:
    """`user:password` as two; two empty ones if it is no pair."""
    mark = MARK.match(value)
    sign = _PAIR_SIGN.search(value, mark.end() if mark else 0)
    return (value[: sign.start()], value[sign.end() :]) if sign else (b"", b"")


def _stands_for_no_secret(value: bytes) -> bool:
    if len(value) < 3 or b"://" in value[:12]:
        return True
    return placeholder(value) or _WINDOWS_FLAG.fullmatch(value) is not None


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _key_block(text: bytes, match: re.Match[bytes], rule: Rule) -> Iterator[Span]:
    """A private key with its header or footer, as far as its lines continue."""
    start, at = match.span()
    if rule.value == "pem-end":
        window = text[max(0, start - _PEM_REACH) : start]
        start -= len(window) - len(window.rstrip(_KEY_BYTES))
        end = at
    elif rule.value == "pem":
        again = text.find(b"BEGIN ", at, at + _PEM_REACH)
        frame = _PEM_END.search(text, at, again if again >= 0 else at + _PEM_REACH)
        inside = text[at : frame.start()] if frame else b""
        if b"[redacted:" in (inside or text[at : at + 10]) or (frame and not _KEY_RUN.search(inside)):
            return
        end = frame.end() if frame else _end(_KEY_LINES, text, _end(_PEM_HEAD, text, at))
    else:
        end = _end(_KEY_LINES, text, at)
        start = at if rule.value == "lines-after" else start
    if end - start >= _LEAST_KEY + len(match[0]) * (start < at):
        yield Span(start, end, rule)


def _outside_marks(text: bytes, spans: Iterable[Span]) -> list[Span]:
    """The spans that are not inside a mark of an earlier pass."""
    marks = [m.span() for m in MARK.finditer(text)]
    starts = [start for start, _ in marks]

    def inside(span: Span) -> bool:
        place = bisect_right(starts, span.start) - 1
        return place >= 0 and span.end <= marks[place][1]

    return [span for span in spans if not inside(span)]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merges overlapping spans; the rule is that of the more specific family, then of the longer span."""
    whole: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not whole or span.start >= whole[-1].end:
            whole.append(span)
            continue
        last = whole[-1]
        best = min(last, span, key=lambda one: (_FAMILY_ORDER[one.rule.family], one.start - one.end))
        end = max(last.end, span.end)
        becomes = best.becomes if (best.start, best.end) == (last.start, end) else None
        whole[-1] = Span(last.start, end, best.rule, becomes)
    return whole
