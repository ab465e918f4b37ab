"""Headers that are parsed: `Authorization`, whose scheme stays, and cookies, whose harmless values stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collector.sanitise.keyed import REACH, Span, opening, trimmed
from collector.sanitise.plausible import CHECKS, placeholder, says_placeholder_pair
from collector.sanitise.redactions import Rule

_SCHEMES = (
    "bearer|basic|token|digest|apikey|api-key|bot|ssws|geniekey|negotiate|ntlm|splunk|key|oauth|hawk|aws4-hmac-sha256|jwt"
    "|client|signature|x-api-key|sharedaccesssignature|sso-key|discogs|pvetoken|user|private|zoho-oauthtoken"
    "|klaviyo-api-key|deepl-auth-key|mac|dpop|vapid|gnap|scram-sha-256"
)
_SCHEME = re.compile(rf"(?i)(?:{_SCHEMES})(?:\s|%20|\+|=)+".encode())
_QUOTED = r"\\{0,15}\"[^\"\\\r\n]*\\{0,15}\""
_PARAMETERS = re.compile(
    rf"[^\s,\"'\\\xe2]+(?:(?<==){_QUOTED})?(?:\s{{0,3}},\s{{0,3}}[\w-]+=(?:{_QUOTED}|[^\s,\"'\\]+))*".encode()
)
_COOKIE = re.compile(rb"(?P<name>[\w.$!*+^~%-]{1,128})\s?=\s?(?P<value>[^\s;,\"'\\&]+)")
_COOKIE_LINE = re.compile(rb"[^\r\n\"'\\]*")
_TELLING_COOKIE = re.compile(
    rb"(?i)sess|sid\b|token|auth|csrf|xsrf|jwt|login|remember|secret|key|user|\bcf_|__secure|__host"
)
_COOKIE_ATTRIBUTE = re.compile(
    rb"(?i)path|domain|expires|max-age|samesite|priority|version|theme|lang|locale|tz|timezone"
)


def header_secrets(text: bytes, at: int, rule: Rule) -> Iterator[Span]:
    """The secrets of the header value that begins at `at`, parsed as `rule.value` requires."""
    return _cookies(text, at, rule) if rule.value == "cookie" else _authorization(text, at, rule)


def _authorization(text: bytes, at: int, rule: Rule) -> Iterator[Span]:
    quoted = opening(text, at)
    at, stop = quoted or (at, len(text))
    scheme = _SCHEME.match(text, at, stop)
    start = scheme.end() if scheme else at
    found = _PARAMETERS.match(text, start, min(stop, start + REACH))
    if found is None:
        return
    end = found.end() if quoted else trimmed(text, start, found.end())
    value = text[start:end]
    command = value[:1] == b"`" and text[end : end + 1] == b" "  # whose output is the value: Bearer `cat token`
    if command or _stands_for_another(value, scheme[0] if scheme else b""):
        return
    if scheme or CHECKS["random"](value):
        yield Span(start, end, rule)


def _stands_for_another(value: bytes, scheme: bytes) -> bool:
    if len(value) < 4 or value[:1] in b"$<{(%+" or placeholder(value):
        return True
    return scheme[:5].lower() == b"basic" and says_placeholder_pair(value)


def _cookies(text: bytes, at: int, rule: Rule) -> Iterator[Span]:
    quoted = opening(text, at)
    if quoted is None:
        line = _COOKIE_LINE.match(text, at, at + REACH)
        if line is None or _COOKIE.match(text, at) is None:
            return
        quoted = line.span()
    for cookie in _COOKIE.finditer(text, *quoted):
        value = cookie["value"]
        if _COOKIE_ATTRIBUTE.fullmatch(cookie["name"]) or placeholder(value):
            continue
        if (_TELLING_COOKIE.search(cookie["name"]) and len(value) >= 6) or CHECKS["random"](value):
            yield Span(*cookie.span("value"), rule)
