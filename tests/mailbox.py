"""A real SMTP server on loopback that keeps the messages that it accepted."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
import time
from email.message import EmailMessage


class Mailbox:
    """Accepts every message after a pause, or none while `refusing`."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []
        self.refusing = False
        self.pause_s = 0.0
        mailbox = self

        class Door(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                while line := self.rfile.readline():
                    word = line[:4].upper()
                    if word == b"QUIT":
                        self.wfile.write(b"221 bye\r\n")
                        return
                    if word == b"MAIL" and mailbox.refusing:
                        self.wfile.write(b"451 later\r\n")
                    elif word == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        body = b""
                        while (part := self.rfile.readline()) not in (b".\r\n", b""):
                            body += part
                        message = email.message_from_bytes(body, policy=email.policy.default)
                        assert isinstance(message, EmailMessage)
                        mailbox.taken.append(message)
                        time.sleep(mailbox.pause_s)
                        self.wfile.write(b"250 taken\r\n")
                    else:
                        self.wfile.write(b"250 fine\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Door)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
