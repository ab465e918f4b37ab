"""A real HTTP server on loopback that accepts notifications, and fails when a test wants it to."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Keeps what it accepted, which is what it answered 200. `status` is what it answers, but 422 to what contains
    `refuses`.
    """

    def __init__(self) -> None:
        self.status = 200
        self.refuses = b"nothing that is sent"
        self.headers: dict[str, str] = {}
        self.body = b""
        self.taken: list[Any] = []
        self.attempts = 0
        self.hold = threading.Event()  # if cleared, requests wait
        self.hold.set()
        hook = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.attempts += 1
                hook.hold.wait(20)
                status = 422 if hook.refuses in body else hook.status
                if status == 200:
                    hook.keep(self.path, dict(self.headers), body)
                self.send_response(status)
                for name, value in hook.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(hook.body)))
                self.end_headers()
                self.wfile.write(hook.body)

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def keep(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Handles one request."""
        self.taken.append(json.loads(body))

    def close(self) -> None:
        """Frees the port: nothing listens there any more."""
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def told(self) -> list[tuple[str, list[str]]]:
        """For each accepted message: its status, and its alerts as "firing x" or "resolved x", x being their labels."""
        return [(message["status"], [self._brief(alert) for alert in message["alerts"]]) for message in self.taken]

    @staticmethod
    def _brief(alert: Any) -> str:
        own = [value for name, value in alert["labels"].items() if name not in ("alertname", "severity")]
        return " ".join([alert["status"], *own])
