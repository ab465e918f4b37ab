"""Masks the personal data that agents leak most: home directories, e-mail addresses, ids in documented attributes.

A home directory becomes `~`, an address its domain, an account id a mark. System and shared accounts stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import NamedTuple

from collector.sanitise.keyed import Span, closing
from collector.sanitise.plausible import MARK, WORDS, placeholder
from collector.sanitise.redactions import Rule
from collector.setting_values import PERSONAL_KINDS

_ACCOUNTS = "|".join(map(re.escape, WORDS["shared_account"]))
_SYSTEM = re.compile(rf"(?i)(?:{_ACCOUNTS}|x+|\.+|.*\.(?:html?|php|[tj]sx?|vue|py|css))".encode())
_USER = re.compile(rb"[A-Za-z0-9_\x80-\xff][\w.\x80-\xff-]{0,63}")
_FULL_NAME = re.compile(
    rb"[\w.\x80-\xff-]+(?:(?: [\w.\x80-\xff-]{1,32}){1,3}(?=\\)|(?: [A-Z][\w.\x80-\xff-]{0,31}){1,3}(?=/))"
)
# Allowed before /home or /Users: a quote, a drive, an escape, a colour, `-I`, a host in an address of a file; otherwise
# not a host or a longer path.
_ROOT = re.compile(rb"(?:(?:/mnt|/host_mnt)?/[a-z]|/host_mnt|/var|/System/Volumes/Data)\Z")
_UNIX_BEFORE = re.compile(
    rb"(?:\A|[^\w.~/@%-]|//|\\[nrt]|%(?:0[9AD]|20|3[AD]|2F%2F)|\x1b\[[0-9;]*m|(?:\A|[^\w])-[A-Za-z]{1,2})\Z"
)
_FILE_HOST = re.compile(rb"(?:file|vscode-remote|sftp|ssh)://[^\s/\"'<>\\]{1,120}\Z")
_DRIVE_BEFORE = re.compile(rb"(?:\A|[^A-Za-z0-9]|\\[nrt]|%[0-9A-F]{2})\Z")
_WSL = re.compile(rb"(?i)[\\/]{0,32}wsl[^\\/]*[\\/]+[^\\/]+[\\/]+home[\\/]+\Z")
_SLASH = r"(?:\\{1,16}|/|%5C)"
_SEPARATOR = re.compile(rb"(?:/|\\{1,16}+(?![nrt\"]))")
_LOCAL = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-"
_DOMAIN = re.compile(
    rb"(?!v?\d+\.\d)(?:[A-Za-z0-9\x80-\xff](?:[A-Za-z0-9\x80-\xff-]{0,61}[A-Za-z0-9\x80-\xff])?\.){1,6}"
    rb"(?P<top>[A-Za-z]{2,24}|xn--[a-z0-9-]{1,59})(?![A-Za-z0-9_(-]|\.[A-Za-z])"
)
_NO_DOMAIN = frozenset(word.encode() for word in WORDS["no_domain"])
_COUNTRY_OR_FILE = frozenset((b"py", b"rs", b"md", b"sh", b"pl", b"so"))
_CODE = re.compile(rb"_.*|.*__.*|[a-z]+[A-Z]\w*|(?:main|index|lib|mod|test|src|file|module|app|script)\d*")
_URL_BEFORE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@:\"']*:)?\Z")
_ROLE = re.compile(rf"(?i)(?:{'|'.join(map(re.escape, WORDS['role_address']))}|.*\.(?:js|ts|py))".encode())
_ESCAPES = re.compile(rb"(?:[.+-]|%[0-9A-F]{2})*")


def _full_name(text: bytes, user: re.Match[bytes]) -> bytes:
    """The name of a folder of Windows, in which there may be spaces if the path goes on with the same separator."""
    found = _FULL_NAME.match(text, user.start(), user.start() + 160)
    if found:
        before, after = text[max(0, user.start() - 17) : user.start()], text[found.end() : found.end() + 17]
        if len(before) - len(before.rstrip(b"\\")) == len(after) - len(after.lstrip(b"\\")):
            return found[0]
    return _one_word(text, user)


def _one_word(_text: bytes, user: re.Match[bytes]) -> bytes:
    return user[0].rstrip(b".-").partition(b"%")[0]


def _before_hyphen(text: bytes, user: re.Match[bytes]) -> bytes:
    return _one_word(text, user).partition(b"-")[0]


def _unix_start(text: bytes, end: int) -> int | None:
    start = text.rfind(b"/", 0, end - 5)
    root = _ROOT.search(text, max(0, start - 24), start)
    start = root.start() if root else start
    if _UNIX_BEFORE.search(text, max(0, start - 8), start) or _FILE_HOST.search(text, max(0, start - 140), start):
        return start
    return None


def _drive_start(text: bytes, end: int) -> int | None:
    start = max(text.rfind(b":", 0, end), text.rfind(b"%3A", 0, end)) - 1
    return start if _DRIVE_BEFORE.search(text, max(0, start - 3), start) else None


def _escaped_start(text: bytes, end: int) -> int | None:
    return text.rfind(b"%2F", 0, end - 5)


def _wsl_start(text: bytes, end: int) -> int | None:
    path = _WSL.search(text, max(0, end - 160), end - 1)
    return path.start() if path else None


def _name_start(_text: bytes, end: int) -> int | None:
    return end - 1


class _Home(NamedTuple):
    """A form of a home directory: its pattern up to the first letter of the user's name; where the part to cut begins,
    the name at a match, and whether the separator after it goes too.
    """

    pattern: str
    start: Callable[[bytes, int], int | None]
    name: Callable[[bytes, re.Match[bytes]], bytes] = _one_word
    separator: bool = False


_HOMES = (
    _Home(r"/(?:home|Users)/[A-Za-z0-9_\x80-\xff]", _unix_start),
    _Home(
        rf"[A-Za-z](?::|%3A){_SLASH}(?i:Users|Documents and Settings){_SLASH}[A-Za-z0-9_\x80-\xff]",
        _drive_start,
        _full_name,
        separator=True,
    ),
    _Home(r"%2F(?:home|Users)%2F[A-Za-z0-9_]", _escaped_start),
    _Home(
        rf"(?i)wsl(?:\$|\.localhost){_SLASH}[\w.-]+{_SLASH}home{_SLASH}[A-Za-z0-9_\x80-\xff]",
        _wsl_start,
        separator=True,
    ),
    # As Claude Code names folders.
    _Home(rf"projects{_SLASH}(?:[A-Za-z]-|-mnt-[a-z])?-(?:Users|home)-[A-Za-z0-9_]", _name_start, _before_hyphen),
)


class Personal:
    """Finds personal data; `patterns` are for hyperscan, by number, and `span` gives the part to cut."""

    def __init__(self, rules: Sequence[Rule], kinds: Container[str] = PERSONAL_KINDS) -> None:
        """Only the rules of these `kinds` apply."""
        known = {rule.id: rule for rule in rules if rule.family == "personal"}
        self._home, self._email, self.account_rule = known["home"], known["email"], known["account-id"]
        self.account_keys = frozenset(self.account_rule.words if "account-id" in kinds else ())
        keys = "|".join(map(re.escape, self.account_rule.words))
        account = rf"\"(?:{keys})\\*\"\s?:\s?\\*\"[^\"\\]"
        # Two characters: a decorator after an escaped line break is `n@`.
        mail = r"[A-Za-z0-9._%+-]{2}@[A-Za-z0-9\x80-\xff]"
        found: list[tuple[str, str, Callable[[bytes, int], Span | None]]]
        found = [(form.pattern, "home", partial(self._directory, form)) for form in _HOMES]
        found += [(mail, "email", self._mail), (account, "account-id", self._account_id)]
        self.patterns = tuple(pattern for pattern, _, _ in found)
        self._read = [read if kind in kinds else None for _, kind, read in found]

    def span(self, number: int, text: bytes, end: int) -> Span | None:
        """The part to cut for a hit of pattern `number` that ends at `end`, if any."""
        read = self._read[number]
        return read(text, end) if read else None

    def _directory(self, form: _Home, text: bytes, end: int) -> Span | None:
        user = _USER.match(text, end - 1)
        start = form.start(text, end)
        if user is None or start is None:
            return None
        name = form.name(text, user)
        stop = user.start() + len(name)
        if _SYSTEM.fullmatch(name) or placeholder(name):
            return None
        separator = _SEPARATOR.match(text, stop) if form.separator else None
        return Span(start, separator.end() if separator else stop, self._home, b"~/" if separator else b"~")

    def _mail(self, text: bytes, end: int) -> Span | None:
        at = end - 2
        window = text[max(0, at - 64) : at]
        start = at - (len(window) - len(window.rstrip(_LOCAL)))
        if text[start - 1 : start] == b"\\" and text[start : start + 1] in b"nrt":
            start += 1
        signs = _ESCAPES.match(text, start, at)
        start = signs.end() if signs else start
        domain = _DOMAIN.match(text, at + 1)
        local = text[start:at]
        if domain is None or not local or _ROLE.fullmatch(local):
            return None
        top = domain["top"].lower()
        if top in _NO_DOMAIN or (top in _COUNTRY_OR_FILE and _CODE.fullmatch(local)):
            return None
        if _is_address_of_a_host(text, start, domain.end()):
            return None
        return Span(start, at, self._email, b"")

    def _account_id(self, text: bytes, end: int) -> Span | None:
        start = end - 1
        before = text[max(0, start - 16) : start - 1]
        stop = closing(text, start, before[len(before.rstrip(b"\\")) :] + b'"')
        return Span(start, stop, self.account_rule) if stop > start and not MARK.fullmatch(text[start:stop]) else None


def _is_address_of_a_host(text: bytes, start: int, end: int) -> bool:
    """Whether it is a host with a user (`https://user@host`, `ann@host:/path`), which commands need, not a mailbox."""
    if text[end : end + 1] == b":" and text[end + 1 : end + 2] not in b" \n\r\t\"'\\":
        return True
    return text[start - 1 : start] in (b"/", b":") and bool(_URL_BEFORE.search(text, max(0, start - 96), start))
