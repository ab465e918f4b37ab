"""The HTTP server: granian in this process, on a socket of ours."""

from __future__ import annotations

import os
import socket
from typing import Any

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.embed import Server
from litestar.types import ASGIApp

from collector.receive.certificates import Certificates
from collector.setting_values import Address

CONNECTIONS = 4_096  # concurrent requests; slow ones cost little
UNREAD_MS = 60_000  # a connection is closed if its client reads nothing of what was sent for this long


class HttpServer(Server):
    """granian on a socket of ours: it makes its own without a time for those who do not read."""

    def _init_shared_socket(self) -> None:
        family = socket.AF_INET6 if ":" in self.bind_addr else socket.AF_INET
        listening = socket.create_server((self.bind_addr, self.bind_port), family=family, backlog=self.backlog)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections have it from the socket that took them
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        listening.setblocking(False)
        self._listening = listening

    def _spawn_worker(self, *args: Any, **more: Any) -> Any:
        holder: Any = SocketHolder
        # Each worker closes its own when it stops, as the one before does when certificates were renewed.
        self._ssp, self._shd = None, holder(os.dup(self._listening.fileno()), False, self.backlog)
        return super()._spawn_worker(*args, **more)

    async def shutdown(self, exit_code: int = 0) -> None:
        await super().shutdown(exit_code)  # type: ignore[no-untyped-call]
        self._listening.close()

    def renew(self, certificates: Certificates) -> None:
        """Takes these files for new connections; the others stay until they are idle."""
        pair = certificates.certificate, certificates.key
        self.build_ssl_context(*pair, None, SSLProtocols.tls12, None, [], False)
        if hasattr(self, "_listening"):
            self.reload()  # type: ignore[no-untyped-call]


def http_server(application: ASGIApp, place: Address) -> HttpServer:
    """The HTTP server, not started; `serve` of it returns some time after `stop`."""
    return HttpServer(
        application,
        address=place.host,
        port=place.port,
        interface=Interfaces.ASGI,
        http=HTTPModes.auto,
        websockets=False,
        log_enabled=False,
        backlog=CONNECTIONS,
        backpressure=CONNECTIONS,  # the default of 128 requests could all be slow ones
    )
