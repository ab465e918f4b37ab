"""A server that only reads each request and answers 200: what HTTP alone costs with the collector's HTTP server.

python -m benchmarks.floor PORT
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An ASGI application that ignores the bodies of requests."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})


def main() -> None:
    """Serves until it is killed."""
    server = Server(
        application, port=int(sys.argv[1]), interface=Interfaces.ASGI, http=HTTPModes.auto, websockets=False,
        log_enabled=False,
    )  # fmt: skip
    asyncio.run(server.serve())


if __name__ == "__main__":
    main()
