"""Tells Langfuse what became of its own observations: a score on each span that was a call.

What is to be told is read from the store, once it has settled, and where it was read up to is kept there: nothing
waits in memory, and a restart goes on where the last run stopped. Telling the same again changes nothing, as a score
has the same id each time. What changes after it was told is told again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import structlog

from collector import telemetry
from collector.engine.duckdb.store import Store
from collector.errors import Unavailable
from collector.loop import in_daemon
from collector.times import SECOND, retry_after_s, rfc3339

NAME = "misstep"  # of the scores
TOLD = "langfuse"  # in `meta`: the last event that was told, as "received_ns event_id"
MOST = 200  # events in a request, of at most 1.5 kB each; Langfuse takes 3.5 MB
EVERY_S = 5.0
LONGEST_PAUSE_S = 60.0
LONGEST_WAIT_S = 3600.0  # for a Retry-After
TIMEOUT_S = 30.0
MOST_READ = 1 << 20  # bytes of an answer
COMMENT = 500  # characters
ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")
ABOUT = ("tool", "category", "attribution", "recovery", "mistake", "retryable")

# Of an event that a span told, and no log within it: only that span is the call itself.
_OF_SPANS = "source_signal = 'span' and trace_id is not null and span_id is not null and outcome != 'unknown'"
_NEXT = f"""
  select * from events
  where {_OF_SPANS} and received_ns >= $since and (received_ns, event_id) > ($since, $id) and received_ns <= $until
  order by received_ns, event_id limit $most
"""
_AGAIN = f"""
  select * from events
  where {_OF_SPANS} and event_id in (select event_id from corrected order by received_ns limit $most)
"""
_NOTES = "select event_id, max(received_ns) as received_ns from corrected group by all order by 2 limit $most"

log = structlog.get_logger()


class Place(NamedTuple):
    """An event in the order in which events are told."""

    received_ns: int
    event_id: int


class Refused(Exception):
    """The request as a whole can never be taken; smaller ones may be."""


class Langfuse:
    """`run` tells until it is cancelled."""

    def __init__(self, store: Store, url: str, public_key: str, secret_key: str, settle_ns: int) -> None:
        self._store = store
        self._address = f"{url.rstrip('/')}/api/public/ingestion"
        self._auth = httpx.BasicAuth(public_key, secret_key)
        self._settle_ns = settle_ns
        self._most = MOST
        self._failures = 0
        self._again = False  # some scores of the last requests are to be sent again, after a pause
        self.place = urlsplit(url).hostname or ""
        self.error = ""  # why it does not take scores at present
        store.counted.noting = True

    async def run(self) -> None:
        """Tells what has settled, every few seconds."""
        logging.getLogger("httpx").setLevel(logging.WARNING)
        async with httpx.AsyncClient(timeout=TIMEOUT_S, auth=self._auth) as client:
            while True:
                await asyncio.sleep(await self._turn(client))

    async def _turn(self, client: httpx.AsyncClient) -> float:
        """Tells one batch; the seconds until the next one."""
        try:
            corrected = await self._corrections(client)
            more = await self._settled(client) or corrected
            if self._again:
                self._again = False
                raise Unavailable("did not take some of the scores", 0.0)
        except Unavailable as error:
            self._failures += 1
            self._failed(str(error))
            return max(min(error.retry_after, LONGEST_WAIT_S), min(2.0**self._failures, LONGEST_PAUSE_S))
        except Exception as error:  # a defect of ours must not end it
            telemetry.FAILED.labels("langfuse").inc()
            self._failed(type(error).__name__)
            return LONGEST_PAUSE_S
        if self.error:
            self.error = ""
            log.info("scores are taken again", to=self.place)
        self._failures = 0
        return 0.0 if more else min(EVERY_S, max(self._settle_ns / SECOND, 0.2))

    async def _settled(self, client: httpx.AsyncClient) -> bool:
        """Tells the next events that have settled; whether there were any."""
        until_ns = min(time.time_ns() - self._settle_ns, self._store.counted.until_ns)
        rows = await in_daemon(lambda: self._next(until_ns), "langfuse")
        if not rows or (again := await self._tell(client, rows)) is None:
            return bool(rows)
        if again:
            notes = [{"id": event_id, "now": time.time_ns()} for event_id in again]
            insert = "insert into corrected values ($id, $now)"
            await in_daemon(lambda: self._store.execute_all((insert, note) for note in notes), "langfuse")
        last = rows[-1]
        await in_daemon(lambda: self._note(Place(last["received_ns"], last["event_id"])), "langfuse")
        return True

    async def _corrections(self, client: httpx.AsyncClient) -> bool:
        """Tells events again that have changed since; whether there were any."""
        most = {"most": self._most}
        notes = await in_daemon(lambda: self._store.rows(_NOTES, most), "langfuse")
        if not notes:
            return False
        rows = await in_daemon(lambda: self._store.rows(_AGAIN, most), "langfuse")
        if (again := await self._tell(client, rows) if rows else set()) is None:
            return True
        done = [note for note in notes if note["event_id"] not in again]
        forget = "delete from corrected where event_id = $event_id and received_ns <= $received_ns"
        await in_daemon(lambda: self._store.execute_all((forget, note) for note in done), "langfuse")
        return bool(done)

    def _next(self, until_ns: int) -> list[dict[str, Any]]:
        found = self._store.rows("select value from meta where name = $name", {"name": TOLD})
        if not found:  # what was received before anybody asked for scores is not told
            self._note(Place(time.time_ns() - self._settle_ns, 0))
            return []
        since, event_id = map(int, found[0]["value"].split())
        place = {"since": since, "id": event_id, "until": until_ns, "most": self._most}
        return self._store.rows(_NEXT, place)

    def _note(self, place: Place) -> None:
        value = f"{place.received_ns} {place.event_id}"
        self._store.execute_all(
            [
                ("delete from meta where name = $name", {"name": TOLD}),
                ("insert into meta values ($name, $value)", {"name": TOLD, "value": value}),
            ]
        )

    async def _tell(self, client: httpx.AsyncClient, rows: Sequence[Mapping[str, Any]]) -> set[int] | None:
        """Sends the scores of these events; which are to be sent again. None: all, fewer at a time."""
        scores = [score_of(row) for row in rows]
        sent = {score["id"]: row for score, row in zip(scores, rows, strict=True)}
        try:
            refused, again = await self._post(client, scores)
        except Refused as error:
            if len(rows) > 1:
                self._most = max(len(rows) // 2, 1)
                return None
            self._failed(str(error))
            refused, again = set(sent), set()
        self._again = self._again or bool(again)
        self._most = min(self._most * 2, MOST)
        telemetry.LANGFUSE.labels("refused").inc(len(refused))
        telemetry.LANGFUSE.labels("sent").inc(len(rows) - len(refused) - len(again))
        return {sent[name]["event_id"] for name in again if name in sent}

    async def _post(self, client: httpx.AsyncClient, scores: Sequence[object]) -> tuple[set[str], set[str]]:
        """The ids of scores that were refused for good, and of those to be sent again."""
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                client.stream("POST", self._address, json={"batch": scores}) as answer,
            ):
                body = b""
                async for part in answer.aiter_bytes():
                    if len(body := body + part) > MOST_READ:
                        break
        except (httpx.TransportError, httpx.DecodingError, TimeoutError) as error:
            raise Unavailable(f"cannot be reached: {type(error).__name__}", 0.0) from None
        status = answer.status_code
        if status in (400, 413, 422):
            raise Refused(f"answered {status}")
        if not answer.is_success:  # of wrong keys too: they can be put right there
            after = retry_after_s(answer.headers.get("Retry-After", ""), time.time())
            raise Unavailable(f"answered {status}", after or 0.0)
        return _failed_ones(body)

    def _failed(self, reason: str) -> None:
        """Logs one line when it begins to fail, and for every other reason."""
        if self.error != reason:
            self.error = reason
            log.warning("scores are not taken", to=self.place, reason=reason)


def score_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict about an event as an event of Langfuse's ingestion.

    The score's id is of its observation, so that there is one; the id around it is of its contents, by which Langfuse
    knows one that is sent twice.
    """
    trace_id, span_id = event["trace_id"], event["span_id"]
    body: dict[str, Any] = {
        "id": _hash(NAME, trace_id, span_id),
        "traceId": trace_id,
        "observationId": span_id,
        "name": NAME,
        "value": event.get("error_class") or event["outcome"],
        "dataType": "CATEGORICAL",
        "metadata": {
            "outcome": event["outcome"], "event_id": str(event["event_id"]),
            **{name: event[name] for name in ABOUT if event.get(name) is not None},
        },
    }  # fmt: skip
    if message := event.get("message"):
        body["comment"] = message if len(message) <= COMMENT else message[: COMMENT - 1] + "…"
    if ENVIRONMENT.fullmatch(environment := event.get("environment") or ""):
        body["environment"] = environment
    about = {"type": "score-create", "timestamp": rfc3339(event["received_ns"])}
    return {"id": _hash(json.dumps(body, sort_keys=True)), **about, "body": body}


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _failed_ones(body: bytes) -> tuple[set[str], set[str]]:
    """Of a multi-status answer, the ids with a final error, and those with one that may pass."""
    try:
        errors: Iterable[Any] = json.loads(body)["errors"]
        told = [(str(error["id"]), int(error["status"])) for error in errors]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Unavailable("answered with something else than Langfuse does: is the address right?", 0.0) from None
    again = {name for name, status in told if status >= 500 or status in (408, 429)}
    return {name for name, _ in told} - again, again
