"""Admits requests: the token that one offers, else what needs none, settles who asks and what they may do."""

from __future__ import annotations

import hmac
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from threading import Lock

import structlog

from collector.access.file import NO_LIMITS, Token, TokenFile, digest
from collector.access.meter import Limits, Meter
from collector.access.person import narrowed
from collector.access.rights import ADMIN, ALERTS, INGEST, MAINTAIN, READ, Access, check_page
from collector.errors import Rejected, StoreError
from collector.settings import LOOPBACK, Settings

AGAIN_S = 1.0  # between looks at the file
# What is told where no token has a right that nobody has without one.
REMEDIES = {
    ALERTS: "rules and receivers can be changed only with a token of their own: set MISSTEP_ALERTS_TOKENS where the "
    "collector runs, and MISSTEP_ALERTS_TOKEN where the dashboard does",
    ADMIN: "this needs a token with the right 'admin', and there is none: make one beside the store with "
    "misstep token create NAME --rights admin, or set MISSTEP_ADMIN_TOKENS",
}

log = structlog.get_logger()


class Tokens:
    """Every token of a collector: named ones of its file, and those of its settings, which have no name."""

    def __init__(self, file: TokenFile, settings: Settings) -> None:
        self._file = file
        self._unnamed = dict(unnamed(settings))
        self._meters: dict[tuple[str, str | None], Meter] = {}
        self._local = settings.http.host in LOOPBACK
        self._lock = Lock()
        self._looked = time.monotonic()
        self._settle()

    def admit(self, headers: Mapping[str, str], right: str, allowed: Collection[str] = ()) -> Access:
        """Who asks with these headers, whose names are in lower case.

        Raises Rejected 401 or 403 where they have not this right, and Unavailable where the token has reached a limit.
        Without a token, Host and Origin must be `allowed`.
        """
        self._look()
        given = _bearer(headers.get("authorization", ""))
        known = self._known(given) if given else None
        if known and right in self.open.union(known.rights):
            if right not in known.rights:
                check_page(headers, allowed)
                known = replace(known, rights=known.rights | self.open)
            if known.meter:
                known.meter.begin()
            return narrowed(known, headers, right)
        if right in self.open:
            check_page(headers, allowed)
            return narrowed(Access("", self.open), headers, right)
        if right in REMEDIES and right not in self._asked:
            raise Rejected(REMEDIES[right], 403)
        raise _refused(right, given, known)

    @property
    def apart(self) -> bool:
        """Whether a token was ever made for one project alone: what was sent with it stays that project's."""
        self._look()
        return any(token.project for token in self._file.held.tokens)

    def asks(self, right: str) -> bool:
        """Whether this right needs a token."""
        return right not in self.open

    def named(self) -> tuple[Token, ...]:
        """The named tokens, the oldest first, revoked ones too; those of the file as it is now."""
        self._read_again()
        return self._file.held.tokens

    def used(self, token: Token) -> dict[str, int]:
        """What the tokens of this name and project have used since the collector started, by kind; and how often one
        was refused for a limit.
        """
        return dict(self._meters[token.name, token.project].used)

    def create(
        self, name: str, rights: Iterable[str], project: str | None = None, limits: Limits = NO_LIMITS
    ) -> tuple[Token, str]:
        """As `TokenFile.create`; in force at once."""
        with self._lock:
            made = self._file.create(name, rights, project, limits)
            self._settle()
        return made

    def revoke(self, name: str) -> Token:
        """As `TokenFile.revoke`; refused at once."""
        with self._lock:
            gone = self._file.revoke(name)
            self._settle()
        return gone

    def _look(self) -> None:
        if time.monotonic() - self._looked >= AGAIN_S:
            self._read_again()

    def _read_again(self) -> None:
        with self._lock:
            self._looked = time.monotonic()
            try:
                if self._file.read_again():
                    self._settle()
            except StoreError as error:
                log.error("the tokens that were in force stay", reason=str(error))

    def _settle(self) -> None:
        held = self._file.held
        self._asked = self._file.guarded.union(*(access.rights for access in self._unnamed.values()))
        self._digests = [
            (digest(text, held.key), _without_admin(access) if ADMIN in self._asked else access)
            for text, access in self._unnamed.items()
        ]
        for token in held.tokens:
            meter = self._meters.setdefault((token.name, token.project), Meter(token.name, token.limits))
            meter.limits = token.limits  # the last of a name is the one in force
            if not token.revoked_ns:
                self._digests.append((token.digest, _access(token, meter)))
        self._key = held.key
        self.open = _open(self._asked, local=self._local)

    def _known(self, given: str) -> Access | None:
        offered = digest(given, self._key)
        # Every token is compared: the time taken must not depend on which one matches.
        found = [access for known, access in self._digests if hmac.compare_digest(offered, known)]
        return found[0] if found else None


def unnamed(settings: Settings) -> Iterator[tuple[str, Access]]:
    """The tokens of the settings, with what each may do: one may stand in several of them."""
    lists = (
        (settings.ingest_tokens, {INGEST}),
        (settings.query_tokens, {READ, MAINTAIN}),
        (settings.alerts_tokens, {ALERTS}),
        (settings.admin_tokens, {ADMIN, MAINTAIN}),
    )
    for text in dict.fromkeys(text for texts, _ in lists for text in texts):
        yield text, Access("", frozenset().union(*(rights for texts, rights in lists if text in texts)))


def _without_admin(access: Access) -> Access:
    """What a token of the settings may do once there are tokens for admins: maintaining is theirs alone."""
    return access if ADMIN in access.rights else replace(access, rights=access.rights - {MAINTAIN})


def _access(token: Token, meter: Meter) -> Access:
    more = {MAINTAIN} if ADMIN in token.rights else set()
    return Access(token.name, frozenset(token.rights) | more, token.project, meter=meter)


def _open(asked: Collection[str], *, local: bool) -> frozenset[str]:
    """What needs no token, where these rights do."""
    free = {right for right in (INGEST, READ) if right not in asked}
    if READ in free and ADMIN not in asked:
        free.add(MAINTAIN)
    if READ in free and ALERTS not in asked and local:
        free.add(ALERTS)
    if local and not asked:
        free.add(ADMIN)
    return frozenset(free)


def _bearer(authorization: str) -> str:
    scheme, _, given = authorization.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _refused(right: str, given: str, known: Access | None) -> Rejected:
    if not given:
        return Rejected("a token is needed: send the header Authorization: Bearer <token>", 401)
    if known is None:
        return Rejected("this token is not valid here", 403)
    who = f"the token {known.name!r}" if known.name else "this token"
    named = ADMIN if right == MAINTAIN else right
    return Rejected(f"{who} is not valid here: it lacks the right {named!r}", 403)
