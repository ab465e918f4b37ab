"""ClickHouse by HTTP: statements, answers as they come, blocks of rows that count once however often they are sent.

What a statement means is the caller's. Errors are of two kinds, as everywhere: `Unavailable` may go away,
`ClusterError` is the statement's own. Neither names the password. Safe for many threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import stamina

from collector.errors import QueryTimeout, QueryTooLarge, Unavailable
from collector.setting_values import place_of

CONNECT_S = 3.0
ANSWER_S = 30.0
TRIES = 3  # of a statement that found nobody, or was cut off: all of ours may be sent again
ROWS = {"default_format": "JSONCompact", "output_format_json_quote_64bit_integers": "0"}
ARROW = {
    "default_format": "ArrowStream",
    "output_format_arrow_string_as_string": "1",
    "output_format_arrow_compression_method": "none",
}
# Codes of ClickHouse that say nothing about the statement (ErrorCodes.cpp): too many at once, no memory, a replica that
# cannot write now, Keeper away, too many parts, shutting down.
PASSING = frozenset((164, 202, 203, 209, 210, 216, 225, 236, 242, 252, 279, 285, 286, 319, 394, 425, 439, 499, 999))
TOO_SLOW = frozenset((159, 160))
TOO_LARGE = frozenset((241, 307, 396))
ERROR_CODE = re.compile(r"Code: (\d+)\. ")
EXCEPTION = re.compile(r"^(?:Code: \d+\. )?(?:DB::Exception: )?")
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "'": "\\'"})


class ClusterError(Exception):
    """ClickHouse refused the statement, and would again; `code` is its error code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Cluster:
    """A ClickHouse database, reached when it is first asked."""

    def __init__(self, url: str) -> None:
        stamina.instrumentation.set_on_retry_hooks(())  # no lines about tries: who asks says what failed
        self.place = place_of(url)
        self.database = self.place.database
        self._http = httpx.Client(
            base_url=self.place.address,
            headers={b"X-ClickHouse-User": self.place.user.encode(), b"X-ClickHouse-Key": self.place.password.encode()},
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=8, keepalive_expiry=2),
        )

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()

    def run(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        data: bytes = b"",
        settings: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_S,
        tries: int = TRIES,
    ) -> bytes:
        """What one statement answers; `params` are written `{name:Type}` in it, `data` follow an insert's `format`.

        Raises Unavailable, QueryTimeout, QueryTooLarge or ClusterError.
        """
        given = {"wait_end_of_query": "1", **(settings or {})}
        for attempt in stamina.retry_context(on=_passing, attempts=tries, timeout=timeout_s, wait_initial=0.05):
            with attempt, self._answer(sql, params, data, given, timeout_s) as answer:
                return answer.read()
        raise AssertionError  # the last attempt raises

    def rows(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_S,
        tries: int = TRIES,
    ) -> list[dict[str, Any]]:
        """The rows of a statement without `format`; integers of 64 bits are integers."""
        answer = self.run(sql, params, settings={**ROWS, **(settings or {})}, timeout_s=timeout_s, tries=tries)
        told = msgspec.json.decode(answer) if answer else {"meta": (), "data": ()}
        names = [column["name"] for column in told["meta"]]
        return [dict(zip(names, row, strict=True)) for row in told["data"]]

    @contextmanager
    def stream(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Iterator[Iterator[bytes]]:
        """The answer as it comes, as an Arrow IPC stream unless the settings name another `default_format`; one that
        the server had to break off has no end mark.
        """
        with self._answer(sql, params, b"", {**ARROW, **(settings or {})}, timeout_s) as answer:
            yield _told(answer)

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]], token: str, *, timeout_s: float = ANSWER_S) -> None:
        """Adds rows as one block; columns that a row does not have get their defaults.

        A block with a token that the table has seen (the last 10,000 at least) adds nothing.
        """
        encode = msgspec.json.Encoder().encode
        lines = b"\n".join(map(encode, rows))
        if lines:
            self.insert_lines(table, lines, token, timeout_s=timeout_s)

    def insert_lines(self, table: str, lines: bytes, token: str, *, timeout_s: float = ANSWER_S) -> None:
        """`insert` of rows that are JSON lines already."""
        settings = {"insert_deduplication_token": token, "async_insert": "0", "input_format_null_as_default": "1"}
        self.run(f"insert into {table} format JSONEachRow", data=lines, settings=settings, timeout_s=timeout_s, tries=1)

    @contextmanager
    def _answer(
        self, sql: str, params: Mapping[str, Any] | None, data: bytes, settings: Mapping[str, str], timeout_s: float
    ) -> Iterator[httpx.Response]:
        asked = {"database": self.database, **settings}
        asked |= {f"param_{name}": as_text(value) for name, value in (params or {}).items()}
        body = sql.encode() + b"\n" + data if data else sql.encode()
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_S)
        try:
            with self._http.stream("POST", "/", params=asked, content=body, timeout=timeout) as answer:
                if answer.status_code != 200:
                    raise _refusal(answer)
                yield answer
        except httpx.InvalidURL as error:  # longer than 64 KiB
            raise QueryTooLarge("the question names too much for one of the cluster: name less", 5) from error
        except httpx.TimeoutException as error:
            raise QueryTimeout(f"{self.place.address} did not answer within {timeout_s:g} s", 5) from error
        except httpx.TransportError as error:
            raise Unavailable(f"{self.place.address} cannot be reached: {type(error).__name__}", 5) from error


def as_text(value: Any) -> str:
    """A parameter as ClickHouse reads it: escaped text, `\\N` for nothing, `['a','b']` for a list."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value.translate(ESCAPES)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_element, value))}]"
    return str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value.translate(ESCAPES)}'" if isinstance(value, str) else as_text(value)


def _told(answer: httpx.Response) -> Iterator[bytes]:
    try:
        yield from answer.iter_bytes()
    except httpx.TransportError as error:
        raise Unavailable(f"the answer of the cluster broke off: {type(error).__name__}", 5) from error


def _passing(error: Exception) -> bool:
    return isinstance(error, Unavailable) and not isinstance(error, QueryTimeout)


def _refusal(answer: httpx.Response) -> Exception:
    """What a status other than 200 means. Its text can quote the statement, so only its first line goes on."""
    text = answer.read().decode(errors="replace")
    told = answer.headers.get("X-ClickHouse-Exception-Code", "")
    found = ERROR_CODE.search(text)
    code = int(told) if told.isdigit() else int(found[1]) if found else 0
    line = EXCEPTION.sub("", text.partition("\n")[0])[:300] or f"status {answer.status_code}"
    if code in TOO_SLOW:
        return QueryTimeout(f"the cluster: {line}", 5)
    if code in TOO_LARGE:
        return QueryTooLarge(f"the cluster: {line}", 5)
    if code in PASSING or (not code and answer.status_code >= 500):
        return Unavailable(f"the cluster: {line}", 5)
    return ClusterError(line, code)
