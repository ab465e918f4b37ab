"""Masks the personal data that agents leak most: home directories, e-mail addresses, ids in documented attributes.

A home directory becomes `~`, an address its domain, an account id a mark. System and shared accounts stay.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import partial

from collector.sanitise.keyed import Span, closing
from collector.sanitise.plausible import MARK, WORDS, placeholder
from collector.sanitise.redactions import Rule

KINDS = ("home", "email", "account-id")
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


class Personal:
    """Finds personal data; `patterns` are for hyperscan, by number, and `span` gives the part to cut."""

    def __init__(self, rules: Sequence[Rule], kinds: Container[str] = KINDS) -> None:
        """Only the rules of these `kinds` apply."""
        known = {rule.id: rule for rule in rules if rule.family == "personal"}
        self._home, self._email, self.account_rule = known["home"], known["email"], known["account-id"]
        self._kinds = kinds
        self.account_keys = frozenset(self.account_rule.words if "account-id" in kinds else ())
        keys = "|".join(map(re.escape, self.account_rule.words))
        self.patterns = (
            r"/(?:home|Users)/[A-Za-z0-9_\x80-\xff]",
            rf"[A-Za-z](?::|%3A){_SLASH}(?i:Users|Documents and Settings){_SLASH}[A-Za-z0-9_\x80-\xff]",
            r"%2F(?:home|Users)%2F[A-Za-z0-9_]",
            r"[A-Za-z0-9._%+-]{2}@[A-Za-z0-9\x80-\xff]",  # two: a decorator after an escaped line break is `n@`
            rf"\"(?:{keys})\\*\"\s?:\s?\\*\"[^\"\\]",
            rf"(?i)wsl(?:\$|\.localhost){_SLASH}[\w.-]+{_SLASH}home{_SLASH}[A-Za-z0-9_\x80-\xff]",
            rf"projects{_SLASH}(?:[A-Za-z]-|-mnt-[a-z])?-(?:Users|home)-[A-Za-z0-9_]",  # as Claude Code names folders
        )

    def span(self, number: int, text: bytes, end: int) -> Span | None:
        """The part to cut for a hit of pattern `number` that ends at `end`, if any."""
        kind, read = {3: ("email", self._mail), 4: ("account-id", self._account_id)}.get(
            number, ("home", partial(self._directory, number))
        )
        return read(text, end) if kind in self._kinds else None

    def _directory(self, number: int, text: bytes, end: int) -> Span | None:
        user = _USER.match(text, end - 1)
        start = _directory_start(number, text, end)
        if user is None or start is None:
            return None
        name = _full_name(text, user) if number == 1 else _one_word(user)
        name = name.partition(b"-")[0] if number == 6 else name
        stop = user.start() + len(name)
        if _SYSTEM.fullmatch(name) or placeholder(name):
            return None
        separator = _SEPARATOR.match(text, stop) if number in (1, 5) else None
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


def _full_name(text: bytes, user: re.Match[bytes]) -> bytes:
    """The name of a folder of Windows, in which there may be spaces if the path goes on with the same separator."""
    found = _FULL_NAME.match(text, user.start(), user.start() + 160)
    if found:
        before, after = text[max(0, user.start() - 17) : user.start()], text[found.end() : found.end() + 17]
        if len(before) - len(before.rstrip(b"\\")) == len(after) - len(after.lstrip(b"\\")):
            return found[0]
    return _one_word(user)


def _one_word(user: re.Match[bytes]) -> bytes:
    return user[0].rstrip(b".-").partition(b"%")[0]


def _directory_start(number: int, text: bytes, end: int) -> int | None:
    """The start of the path whose user name begins at `end - 1`."""
    if number == 6:
        return end - 1
    if number == 5:
        path = _WSL.search(text, max(0, end - 160), end - 1)
        return path.start() if path else None
    if number == 2:
        return text.rfind(b"%2F", 0, end - 5)
    if number == 1:
        start = max(text.rfind(b":", 0, end), text.rfind(b"%3A", 0, end)) - 1
        return start if _DRIVE_BEFORE.search(text, max(0, start - 3), start) else None
    start = text.rfind(b"/", 0, end - 5)
    root = _ROOT.search(text, max(0, start - 24), start)
    start = root.start() if root else start
    if _UNIX_BEFORE.search(text, max(0, start - 8), start) or _FILE_HOST.search(text, max(0, start - 140), start):
        return start
    return None


def _is_address_of_a_host(text: bytes, start: int, end: int) -> bool:
    """Whether it is a host with a user (`https://user@host`, `ann@host:/path`), which commands need, not a mailbox."""
    if text[end : end + 1] == b":" and text[end + 1 : end + 2] not in b" \n\r\t\"'\\":
        return True
    return text[start - 1 : start] in (b"/", b":") and bool(_URL_BEFORE.search(text, max(0, start - 96), start))
