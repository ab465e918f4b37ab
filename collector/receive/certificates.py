"""The certificate of both doors and its key, from files that may be replaced while the collector runs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    import grpc

SOON_DAYS = 14  # before a certificate ends, the log says so
LOOK_S = 5.0  # between looks at the files

log = structlog.get_logger()


class BadCertificate(OSError):
    """The files hold no pair that a client would accept; the message says why, and what to do."""


class Certificates:
    """A pair of PEM files; `changed` says when they have been replaced."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises BadCertificate."""
        self.certificate, self.key = certificate, key
        self._seen = self._state()
        self._take()

    def changed(self) -> bool:
        """Whether there is a new pair that can be used; says so once. Raises BadCertificate, also once."""
        state = self._state()
        if state == self._seen:
            return False
        self._seen = state
        self._take()
        return True

    def _take(self) -> None:
        self.ends = check(self.certificate, self.key)
        self.pem = self.key.read_bytes(), self.certificate.read_bytes()

    def _state(self) -> tuple[int, ...]:
        try:
            found = [path.stat() for path in (self.certificate, self.key)]
        except OSError:
            return ()
        return tuple(part for each in found for part in (each.st_mtime_ns, each.st_ino, each.st_size))


def check(certificate: Path, key: Path) -> float:
    """When the certificate ends, in seconds since 1970. Raises BadCertificate.

    It is tried as a client would: by a handshake in memory, with this certificate as the only one that is trusted.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    where = f"the certificate in {certificate} with the key in {key}"
    try:
        for path in (certificate, key):
            path.read_bytes()
        server.load_cert_chain(certificate, key, password=_none)
        client.load_verify_locations(certificate)
        shown = _handshake(client, server)
    except ssl.SSLCertVerificationError as error:
        raise BadCertificate(f"{where}: {error.verify_message}; put a new pair there") from None
    except ssl.SSLError as error:
        why = (
            "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else f"no PEM pair ({error.reason})"
        )
        raise BadCertificate(f"{where}: {why}; put the certificate first, its chain after it") from None
    except OSError as error:
        raise BadCertificate(f"{error.filename or where} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise BadCertificate(f"{key} has a password; write the key without one, readable by its user alone") from None
    return ssl.cert_time_to_seconds(shown["notAfter"])


def _none() -> str:
    raise ValueError("a password")


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, str]:
    """The certificate that the client is shown."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown: dict[str, str] = dict(asking.getpeercert() or {})  # type: ignore[arg-type]
    return shown


async def renewing(certificates: Certificates, renew: Callable[[Certificates], None]) -> None:
    """Calls `renew` with each new pair, until it is cancelled; a pair that cannot be used changes nothing."""
    _tell(certificates)
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            if await asyncio.to_thread(certificates.changed):
                renew(certificates)
                _tell(certificates)
        except OSError as error:  # also of the server's, where the files have changed once more, which is seen next
            log.error("the certificate that was in use stays", reason=str(error))


def _tell(certificates: Certificates) -> None:
    days = int((certificates.ends - time.time()) // 86_400)
    told = log.warning if days < SOON_DAYS else log.info
    told("certificate in use", file=str(certificates.certificate), days_left=days)


def credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """For a gRPC server: every new connection gets the pair that is in use."""

    import grpc  # late: the pair is checked before workers are forked

    def pair() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([certificates.pem])

    return grpc.dynamic_ssl_server_credentials(pair(), pair)
