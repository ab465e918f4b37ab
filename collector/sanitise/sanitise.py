"""Removes secrets and personal data from text before anything is written, logged or sent.

The gate, one pass over the serialised value, clears almost every value, which is then returned as the same object.
Only the others are searched string by string and cut. The result is a fixed point: sanitising it again changes
nothing. A text on which this fails is dropped and counted as rule `failed`; it is never passed on unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

import msgspec

from collector.sanitise.find import Finder, merged
from collector.sanitise.keyed import Span
from collector.sanitise.keys import Keys
from collector.sanitise.personal import Personal
from collector.sanitise.prefilter import Gate, Verdict
from collector.sanitise.redactions import Rule
from collector.sanitise.walk import Walk
from collector.setting_values import personal_kinds

LIMIT = 64 * 1024
SEARCH_S = 20  # CPU seconds spent on one body: 64 MiB with a secret in each line would take minutes
FAILED = "[redacted:failed]"
_ROUNDS = 6
_TEXTUAL = (str, dict, list, tuple, set, frozenset, bytes)
_SEARCH_ALL = Verdict(True, True, [])
_Value = TypeVar("_Value", bound=object)
_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_UNWRITABLE = (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError)


class Sanitiser:
    """All rules, compiled once for all instances and cached for the next start; one instance per thread.

    For `personal` see `personal_kinds`. With a `key`, every mark has a fingerprint of its secret.
    """

    def __init__(self, rules: Sequence[Rule], *, personal: str = "mask", key: bytes | None = None) -> None:
        kinds = personal_kinds(personal)
        masked = Personal(rules, kinds) if kinds else None
        keys = Keys(rules)
        with ThreadPoolExecutor(2) as pool:  # hyperscan compiles without the GIL: saves 0.5 s at a first start
            finder = pool.submit(Finder, rules, keys, masked)
            gate = pool.submit(Gate, rules, keys, masked)
        self._finder, self._gate = finder.result(), gate.result()
        self._personal = masked
        self._of_persons = frozenset(rule.id for rule in rules if rule.family == "personal")
        self._key = key
        self._walk = Walk(self._finder, masked, self._scrub, self._mark)
        self._search_until = math.inf

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Drops what may contain something to cut and was not searched within this much of the thread's CPU time."""
        self._search_until = time.thread_time() + seconds
        try:
            yield
        finally:
            self._search_until = math.inf

    def scrub(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text without secrets, and the rule id of every cut; the same object if nothing was cut."""
        try:
            hits: list[str] = []
            clean = self._scrub(text, hits)
        except Exception:  # whatever it is: the text must not be passed on
            return FAILED, ("failed",)
        return clean, tuple(hits)

    def scrub_value(self, value: object) -> tuple[object, tuple[str, ...]]:
        """The same for a JSON-like value, including its keys; the structure stays."""
        try:
            hits: list[str] = []
            return self._scrub_value(value, hits), tuple(hits)
        except Exception:
            return FAILED, ("failed",)

    def scrub_report(self, fields: dict[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
        """All fields of a report at once; their names are ours and ignored. If a field fails, only that one is lost."""
        hits: list[str] = []
        with suppress(Exception):  # whatever it is: each field is searched by itself
            verdict = self._look(fields)
            if verdict is None:
                return fields, ()
            if not verdict.secret:
                fields, stable = self._masked(fields, verdict, hits)
                if stable:
                    return fields, tuple(hits)
        clean: dict[str, object] = {}
        for name, value in fields.items():
            clean[name], found = self.scrub_value(value) if isinstance(value, _TEXTUAL) else (value, ())
            hits += found
        return (clean if hits else fields), tuple(hits)

    def secrets(self, cuts: Iterable[str]) -> int:
        """How many of these cuts, given by rule, were secrets and not personal data."""
        return sum(rule not in self._of_persons for rule in cuts)

    def suspects(self, documents: Sequence[bytes | None]) -> set[int]:
        """The indices of documents (made by `written`) in which there may be something to cut."""
        found = {place for place, one in enumerate(documents) if one is None or len(one) > LIMIT}
        short = [one or b"" for one in documents]
        for place in found:
            short[place] = b""
        return found.union(self._gate.stopped(short))

    def spans(self, text: str) -> list[Span]:
        """The spans that `scrub` would cut from `text`, in characters."""
        raw = text.encode("utf-8", "surrogatepass")

        def place(at: int) -> int:
            return len(raw[:at].decode("utf-8", "surrogatepass"))

        return [span._replace(start=place(span.start), end=place(span.end)) for span in self._finder.spans(raw)]

    def _check_time(self) -> None:
        if time.thread_time() > self._search_until:
            raise TimeoutError

    def _look(self, value: object) -> Verdict | None:
        """The gate's verdict on a JSON-like value; one that cannot be serialised is always searched."""
        try:
            encoded = _encode(value)
        except _UNWRITABLE:
            return _SEARCH_ALL
        return _SEARCH_ALL if len(encoded) > LIMIT else self._gate.look(encoded)

    def _masked(self, value: _Value, verdict: Verdict, hits: list[str]) -> tuple[_Value, bool]:
        """Masks a value that only has personal data, directly in its JSON; also whether it is clean now.

        It may not be: secrets contain signs like `~`, so a masked text can look like one. If two keys became equal, or
        the JSON has escapes, which are no part of the text, the value is returned as it was.
        """
        if self._personal is None:
            return value, True
        encoded = _encode(value)
        if b"\\" in encoded:
            return value, False
        found = (self._personal.span(number, encoded, end) for number, end in verdict.personal)
        spans = merged(span for span in found if span)
        if not spans:
            return value, True
        rules: list[str] = []
        cut = self._spliced(encoded, spans, rules)
        masked = msgspec.json.decode(cut, type=type(value))
        if _encode(masked) != cut:
            return value, False
        again = self._gate.look(cut)
        hits += rules
        return masked, again is None or not again.secret

    def _scrub_value(self, value: object, hits: list[str]) -> object:
        if isinstance(value, str):
            return self._scrub(value, hits)
        verdict = self._look(value)
        if verdict is None:
            return value
        self._check_time()
        if not verdict.secret and isinstance(value, dict | list):
            value, stable = self._masked(value, verdict, hits)
            if stable:
                return value
        return self._walk(value, hits)

    def _scrub(self, text: str, hits: list[str]) -> str:
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) <= LIMIT:
            verdict = self._gate.look(raw)
            if verdict is None:
                return text
            clean = self._stable(raw, verdict.hiding, hits)
        else:
            clean = self._stable(_shortened(raw, len(raw)), True, hits)
            hits.append("oversize")
        return text if clean == raw else clean.decode("utf-8", "surrogatepass")

    def _stable(self, text: bytes, hiding: bool, hits: list[str]) -> bytes:
        """Cuts `text` repeatedly until nothing is left to cut."""
        self._check_time()
        for _ in range(_ROUNDS):
            spans = self._finder.spans(text, hiding=hiding)
            cut = self._spliced(text, spans, hits) if spans else text
            cut = _shortened(cut, len(text)) if len(cut) > LIMIT else cut
            if cut == text or (len(cut) <= LIMIT and self._gate.look(cut) is None):
                return cut
            text = cut
        raise RecursionError("the text still has secrets after being cut several times")

    def _spliced(self, text: bytes, spans: Iterable[Span], hits: list[str]) -> bytes:
        parts: list[bytes] = []
        done = 0
        for span in spans:
            if span.start < done:
                continue
            parts += (
                text[done : span.start],
                self._mark(span.rule, text[span.start : span.end]) if span.becomes is None else span.becomes,
            )
            done = span.end
            hits.append(span.rule.id)
        parts.append(text[done:])
        return b"".join(parts)

    def _mark(self, rule: Rule, secret: bytes) -> bytes:
        if self._key is None:
            return b"[redacted:%s]" % rule.id.encode()
        return b"[redacted:%s:%s]" % (rule.id.encode(), fingerprint(self._key, secret).encode())


def written(values: Sequence[object]) -> list[bytes | None]:
    """The JSON of each value, without line breaks; None if it cannot be serialised."""
    with suppress(*_UNWRITABLE):
        return list(_encoder.encode_lines(values).splitlines())
    return [_written(value) for value in values]


def _written(value: object) -> bytes | None:
    with suppress(*_UNWRITABLE):
        return _encode(value)
    return None


def fingerprint(key: bytes, secret: bytes) -> str:
    """The 8 hex digits for this secret in marks."""
    return hmac.new(key, secret, hashlib.sha256).hexdigest()[:8]


def _shortened(text: bytes, length: int) -> bytes:
    """At most LIMIT bytes, with a mark of the original length. Cut between words: half a secret is hard to find."""
    mark = b" [redacted:oversize:%d]" % length
    keep = text[: LIMIT - len(mark)]
    space = max(keep.rfind(blank, len(keep) - 4096) for blank in (b" ", b"\n", b"\t", b'"', b","))
    keep = keep[: space if space > 0 else len(keep) - 4096]
    return keep.decode("utf-8", "ignore").encode() + mark
