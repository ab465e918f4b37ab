"""The file of named tokens beside the store: names, rights, projects and keyed hashes; never a token itself.

A running collector reads it again when it has changed, so that a token is made or revoked without a restart. Whoever
may write the file may make tokens: it is for the owner of the store alone, as the store is.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from collector.access.meter import Limits
from collector.access.rights import RIGHTS
from collector.errors import Rejected, StoreError, Unavailable
from collector.files import Changed, read, write

PREFIX = "mst_"  # schemas/redactions.toml knows it
SECRET_CHARS = 40  # of 62 different ones: 238 bits
LETTERS = string.ascii_letters + string.digits
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}\Z")
KEY = r"^[0-9a-f]{64}\Z"
MOST = 500  # tokens in the file, revoked ones too
ATTEMPTS = 5  # while others change the file too
NO_LIMITS = Limits()

Name = Annotated[str, msgspec.Meta(pattern=NAME.pattern)]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named token. `digest` is the keyed hash of its text; `revoked_ns` 0: it is in force."""

    name: Name
    digest: str
    rights: tuple[str, ...]
    project: Name | None = None
    created_ns: int = 0
    revoked_ns: int = 0
    limits: Limits = NO_LIMITS


class Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds: the key of the hashes, and the tokens, the oldest first."""

    key: Annotated[str, msgspec.Meta(pattern=KEY)]
    tokens: tuple[Token, ...] = ()


def digest(text: str, key: str) -> str:
    """The keyed hash of a token: blake2b-256, in hex."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=32, key=bytes.fromhex(key)).hexdigest()


class TokenFile:
    """The named tokens of a file, or without one of this process's memory.

    Other collectors are told of a change first, from which text to which, by `given`, a block in which it is written
    here; it raises Changed where they have another one.
    """

    def __init__(self, path: Path | None) -> None:
        """Raises StoreError where the file is not what was written there."""
        self.path = path
        self.given: Callable[[str, str], AbstractContextManager[None]] = lambda before, text: nullcontext()
        self._seen: tuple[int, ...] = ()
        self._text = ""
        self.held = Held(secrets.token_hex(32))
        self.read_again()

    @property
    def guarded(self) -> frozenset[str]:
        """The rights that need a token as a named one has them; revoking the last one opens nothing."""
        return frozenset(right for token in self.held.tokens for right in token.rights)

    def read_again(self) -> bool:
        """Whether the file has changed, and so `held`. Raises StoreError, and then keeps what it held."""
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state
        if self.path is None or not state:  # a file that is gone opens nothing while the collector runs
            return False
        self._text = _read(self.path)
        self.held = _held(self._text, self.path)
        return True

    def _state(self) -> tuple[int, ...]:
        try:
            found = self.path.stat() if self.path else None
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_ino, found.st_size) if found else ()

    def create(
        self, name: str, rights: Iterable[str], project: str | None = None, limits: Limits = NO_LIMITS
    ) -> tuple[Token, str]:
        """A new token and its text, which nobody can read again. Raises Rejected where its name is taken or unfit."""
        text = PREFIX + "".join(secrets.choice(LETTERS) for _ in range(SECRET_CHARS))
        asked = tuple(right for right in RIGHTS if right in set(rights))
        _check(name, asked, rights, project)

        def add(held: Held) -> Held:
            if any(token.name == name and not token.revoked_ns for token in held.tokens):
                raise Rejected(f"there is a token {name!r} already: revoke it first, or choose another name", 409)
            if len(held.tokens) >= MOST:
                remedy = f"stop every collector and delete revoked ones from {self.path}"
                raise Rejected(f"there are {MOST} tokens, revoked ones too, and no more are kept: {remedy}", 409)
            made = Token(name, digest(text, held.key), asked, project or None, time.time_ns(), 0, limits)
            return Held(held.key, (*held.tokens, made))

        return self._change(add).tokens[-1], text

    def revoke(self, name: str) -> Token:
        """The token of this name, which is refused from now on. Raises Rejected 404 where none is in force."""

        def mark(held: Held) -> Held:
            if not any(token.name == name and not token.revoked_ns for token in held.tokens):
                raise Rejected(f"there is no token {name!r} in force", 404)
            return Held(held.key, tuple(_revoked(token, name) for token in held.tokens))

        return next(token for token in reversed(self._change(mark).tokens) if token.name == name)

    def _change(self, edit: Callable[[Held], Held]) -> Held:
        """Changes what is in the file now, whoever else changes it."""
        for _ in range(ATTEMPTS):
            self.read_again()
            held = edit(self.held)
            if self.path is None:
                self.held = held
                return held
            text, before = _written(held), self._text if self._seen else ""
            try:
                with self.given(before, text):
                    write(self.path, text, before)
            except Changed:
                self._seen = ()
                continue
            self.held, self._text, self._seen = held, text, self._state()
            return held
        raise Unavailable(f"{self.path} is being changed by others: try again")


def merged(ours: str, theirs: str) -> str | None:
    """The tokens of two versions of one file, a revoked one revoked; None where they are no versions of one file."""
    try:
        one, other = (msgspec.json.decode(text, type=Held) for text in (ours, theirs))
    except ValueError:
        return None
    if one.key != other.key:
        return None
    found = {token.digest: token for token in other.tokens}
    for token in one.tokens:
        known = found.get(token.digest, token)
        revoked = max(known.revoked_ns, token.revoked_ns)
        found[token.digest] = msgspec.structs.replace(known, revoked_ns=revoked)
    return _written(Held(one.key, tuple(sorted(found.values(), key=lambda each: each.created_ns))))


def readable(text: str) -> bool:
    """Whether this is a file of tokens."""
    with suppress(ValueError):
        return bool(msgspec.json.decode(text, type=Held))
    return False


def _written(held: Held) -> str:
    return msgspec.json.format(msgspec.json.encode(held).decode(), indent=1) + "\n"


def _check(name: str, known: tuple[str, ...], rights: Iterable[str], project: str | None) -> None:
    """Raises Rejected for what no token can have."""
    if strange := sorted(set(rights).difference(known)):
        raise Rejected(f"rights: {strange[0]!r} is no right; write some of {', '.join(RIGHTS)}")
    if not known:
        raise Rejected(f"rights: write some of {', '.join(RIGHTS)}")
    for field, value in (("name", name), ("project", project or "x")):
        if not NAME.match(value):
            raise Rejected(f"{field}: {value[:80]!r} is no name: write up to 63 letters, digits, _ . @ and -")


def _revoked(token: Token, name: str) -> Token:
    mine = token.name == name and not token.revoked_ns
    return msgspec.structs.replace(token, revoked_ns=time.time_ns()) if mine else token


def _read(path: Path) -> str:
    try:
        return read(path)
    except OSError as error:
        raise StoreError(f"the tokens in {path} cannot be read: {error.strerror or error}") from None


def _held(text: str, path: Path) -> Held:
    """Raises StoreError; its text has nothing of the file."""
    try:
        held = msgspec.json.decode(text, type=Held)
    except ValueError:
        remedy = "restore it from a backup; without it nobody has a named token"
        raise StoreError(f"{path} is damaged: it does not hold tokens as misstep token writes them; {remedy}") from None
    return held
