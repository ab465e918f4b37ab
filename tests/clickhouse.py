"""A ClickHouse for tests: the real engine (chdb, in a process of its own) behind a small HTTP front, so that several
collectors share it through the ordinary client; or the server that MISSTEP_TEST_CLICKHOUSE names.

`python -m tests.clickhouse FOLDER PORT` is the front: statements and inserts in any format, settings, `{name:Type}`
parameters, tokens. It has no users, no sessions, no compression.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx

NO_SETTINGS = frozenset(("query", "database", "default_format", "query_id", "wait_end_of_query", "user", "password"))
CODE = re.compile(r"Code: (\d+)")
DATA_FOLLOW = re.compile(rb"(\s*insert\s+into\b.*?)\sformat\s+(\w+)[ \t]*\n", re.I | re.S)
LAST_FORMAT = re.compile(r"\s+format\s+(\w+)\s*;?\s*$", re.I)
SERVER = os.environ.get("MISSTEP_TEST_CLICKHOUSE", "")
_databases = count()


class Engine:
    """chdb, with a connection for each thread; settings of a request are undone before the next."""

    def __init__(self, folder: str) -> None:
        self._folder, self._mine = folder, threading.local()

    def connection(self, database: str, settings: dict[str, str]) -> Any:
        import chdb

        mine = self._mine
        if not hasattr(mine, "connection"):
            mine.connection, mine.settings, mine.database = chdb.connect(self._folder), {}, ""
        if database != mine.database:
            mine.connection.query(f"use `{database}`")
            mine.database = database
        for name in mine.settings.keys() - settings.keys():
            mine.connection.query(f"set {name} = default")
            del mine.settings[name]
        for name, value in settings.items():
            if mine.settings.get(name) != value:
                mine.connection.query(f"set {name} = '{value}'")
                mine.settings[name] = value
        return mine.connection

    def answer(self, text: bytes, asked: dict[str, str]) -> bytes:
        """What a statement answers; `text` is the statement, with data of an insert after its first line."""
        params = {name.removeprefix("param_"): value for name, value in asked.items() if name.startswith("param_")}
        settings = {name: value for name, value in asked.items() if not name.startswith("param_")}
        settings = {name: value for name, value in settings.items() if name not in NO_SETTINGS}
        connection = self.connection(asked.get("database", "default"), settings)
        if (into := DATA_FOLLOW.match(text)) and text[into.end() :].strip():
            insert = connection.send_insert(into[1].decode(), into[2].decode())
            insert.append(text[into.end() :])
            insert.finish()
            return b""
        sql = text.decode()
        found = LAST_FORMAT.search(sql)
        form = found[1] if found else asked.get("default_format", "TabSeparated")
        return connection.query(sql[: found.start()] if found else sql, form, params=params).bytes() or b""


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", 1 << 16, True
    engine: Engine

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        self._send(200, b"Ok.\n")

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        try:
            told = self.engine.answer(text, asked)
        except Exception as error:
            found = CODE.search(str(error))
            return self._send(500, str(error).encode(), found[1] if found else "1002")
        self._send(200, told)

    def _send(self, status: int, told: bytes, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)


class Front:
    """The front as a process; `kill` and `start` are those of a server that dies and comes back with what it had."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.url = SERVER or f"clickhouse://tester:{'s' * 6}@127.0.0.1:{port}/default"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Front:
        """Returns when it answers."""
        if not SERVER:
            command = [sys.executable, "-m", "tests.clickhouse", str(self.folder / "clickhouse"), str(self.port)]
            root = Path(__file__).parents[1]
            self.process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert self.process.stdout
            self.process.stdout.readline()
        return self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it."""
        if self.process and self.process.stdout:
            self.process.send_signal(number)
            self.process.wait(20)
            self.process.stdout.close()

    def database(self) -> str:
        """The URL of a database that nobody has used, which does not exist yet."""
        parts = urlsplit(self.url)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        return urlunsplit(parts._replace(path=f"/test_{os.getpid()}_{worker}_{next(_databases)}"))

    def answers(self) -> bool:
        """Whether it can be reached."""
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{self.port}/ping").is_success
        return False


def main(folder: str, port: int) -> None:
    """Serves until it is ended."""
    Handler.engine = Engine(folder)
    Handler.engine.connection("default", {})
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
