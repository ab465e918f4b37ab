"""Liveness, readiness, health, Prometheus metrics and the description of the API."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from collector import telemetry
from collector.access.rights import OPEN, READ, check_page
from collector.api.describe import completed
from collector.api.guard import RIGHT, access_of, admitted, check_whole
from collector.api.parameters import read_none
from collector.api.token_routes import row_of
from collector.engine.duckdb.open import file_id
from collector.engine.duckdb.schema import SCHEMA_VERSION
from collector.engine.duckdb.store import Store
from collector.errors import Unavailable
from collector.journal.writer import Writer
from collector.projects import PROJECT

STARTED = time.monotonic()
FOR_ALL = {RIGHT: OPEN}
# Parts of `health` that are counted over all projects.
OF_ALL = (
    "queue", "aside", "keeper", "refused", "sources", "checkpoints", "errors", "answer_p99_ms", "commit_p99_ms",
    "lag_seconds", "failures", "redactions", "forward", "langfuse", "cluster",
)  # fmt: skip
TRIAL_S = 2.0  # for each thing that is tried before the collector is called ready


@get("/healthz", opt=FOR_ALL, sync_to_thread=False, summary="Liveness")
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@get("/readyz", opt=FOR_ALL, sync_to_thread=True, summary="Readiness")
def readyz(request: Request[Any, Any, Any]) -> Response[dict[str, str]]:
    """The store answers and accepts writes."""
    store: Store = request.app.state.local
    writer: Writer = request.app.state.writer
    try:
        store.rows("select 1", timeout_s=TRIAL_S)
        if writer.refusing and writer.queued:
            writer.settle(TRIAL_S)
        if writer.refusing and writer.queued:  # what little room there is does not take them
            raise Unavailable("answered requests cannot be stored")
        if writer.complaint.lasts():
            request.app.state.journal.try_to_write()
            store.try_to_write()  # while not ready, nothing is sent to it that could show the cause is gone
    except Exception:  # whatever it is, the collector is not ready
        return Response({"status": "the store does not answer or accepts no writes"}, status_code=503)
    return Response({"status": "ready"})


@get("/metrics", opt=FOR_ALL, sync_to_thread=True, summary="Prometheus metrics", media_type="text/plain")
def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Prometheus text format. Waits for nothing and needs no token, but checks that no foreign web page asks. Where
    there are tokens for single projects, it needs one for all: services and tools of every project are named.
    """
    if request.app.state.tokens.apart:
        check_whole(admitted(request, READ))
    else:
        check_page(request.headers, request.app.state.allowed_hosts)
    telemetry.ASIDE_RECORDS.set(request.app.state.writer.aside.counted().records)
    with suppress(Unavailable):
        kept = _keeper(request.app.state)
        telemetry.KEEPER_SESSIONS.set(kept["sessions"])
        telemetry.KEEPER_SECONDS.set(kept["seconds"])
    if path := request.app.state.local.path:
        with suppress(Unavailable):
            for part, size in sizes(path).items():
                telemetry.STORE_BYTES.labels(part).set(size)
    return Response(generate_latest(telemetry.REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})


@get("/openapi.json", opt=FOR_ALL, include_in_schema=False, sync_to_thread=False)
def openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The description of this API."""
    return completed(request.app.openapi_schema.to_schema())


@get("/api/v1/health", sync_to_thread=True, summary="Accepted = stored + duplicate + dropped by reason")
def health(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """What became of every record ever accepted, and the state of store and queue; to a token of one project, of its
    own records, and null for what is counted over all projects.
    """
    read_none(request.scope["query_string"])
    store: Store = request.app.state.local
    if PROJECT.get() is not None:
        return _of_project(request)
    writer: Writer = request.app.state.writer
    queue = _queue(writer)  # before waiting until it is empty
    answered = request.app.state.intake.accepted
    settled = writer.settle()
    return {
        "version": version("misstep"),
        "schema_version": SCHEMA_VERSION,
        **account(answered, store, settled=settled),
        "events": store.rows("select count(*) as n from events")[0]["n"],
        "queue": queue,
        "aside": writer.aside.counted()._asdict(),
        "keeper": _keeper(request.app.state),
        "refused": {sample.labels["reason"]: int(sample.value) for sample in _samples(telemetry.REFUSED, "_total")},
        "sources": _sources(),
        "uptime_seconds": round(time.monotonic() - STARTED, 1),
        "checkpoints": int(_samples(telemetry.CHECKPOINT_SECONDS, "_count")[0].value),
        "errors": list(telemetry.RECENT),
        "answer_p99_ms": _p99(telemetry.ANSWER_SECONDS),
        "commit_p99_ms": _p99(telemetry.COMMIT_SECONDS),
        "lag_seconds": _value(telemetry.LAG_SECONDS),
        "failures": {sample.labels["part"]: sample.value for sample in _samples(telemetry.FAILED, "_total")},
        "redactions": {sample.labels["rule"]: int(sample.value) for sample in _samples(telemetry.REDACTED, "_total")},
        "forward": _forward(request.app.state.forward),
        "langfuse": _langfuse(request.app.state.langfuse),
        "cluster": _cluster(request.app.state),
        "store": _store(store.path),
        "not_exported": store.not_exported,
        "tokens": _tokens(request),
    }


def _of_project(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """What one project may know: nothing that is counted over all of them."""
    state = request.app.state
    settled = state.writer.settle()
    return {
        "version": version("misstep"),
        "schema_version": SCHEMA_VERSION,
        **account(0, state.local, settled=settled),
        "events": state.local.rows("select count(*) as n from events")[0]["n"],
        "uptime_seconds": round(time.monotonic() - STARTED, 1),
        **dict.fromkeys(OF_ALL),
        "store": {"path": ":memory:"},
        "not_exported": "",
        "tokens": _tokens(request),
    }


def account(answered: int, store: Store, *, settled: bool) -> dict[str, Any]:
    """What became of every record ever accepted. `unaccounted` is the number missing, or if negative, the surplus.

    `answered` are the records answered with success, read before the store is queried; `settled`: none of them still
    waits in the journal. The store's count also includes those whose answer is being sent or was cut off by the end of
    the process.
    """
    fates = store.accounting()
    written = fates.pop("accepted", 0)
    accepted = max(answered, written)
    waiting = 0 if settled else accepted - written
    stored, duplicate = fates.pop("stored", 0), fates.pop("duplicate", 0)
    return {
        "accepted": accepted,
        "stored": stored,
        "duplicate": duplicate,
        "dropped": {fate: records for fate, records in sorted(fates.items(), key=lambda item: -item[1]) if records},
        "waiting": waiting,
        "unaccounted": accepted - stored - duplicate - sum(fates.values()) - waiting,
    }


# These need no token; `health` does.
HEALTH_ROUTES: list[ControllerRouterHandler] = [healthz, readyz, metrics, openapi]


def _tokens(request: Request[Any, Any, Any]) -> list[dict[str, Any]]:
    """The named tokens in force with what each used; those of the caller's project, if that is restricted to one."""
    tokens, mine = request.app.state.tokens, access_of(request).project
    rows = [row_of(tokens, token) for token in tokens.named() if not token.revoked_ns]
    return [row for row in rows if mine is None or row["project"] == mine]


def _queue(writer: Writer) -> dict[str, float]:
    """What is waiting now: answered requests and their records for the store, bytes for an answer."""
    return {
        "requests": writer.queued,
        "records": writer.records,
        "bytes": _value(telemetry.QUEUE_BYTES),
        "receiving_bytes": _value(telemetry.RECEIVING_BYTES),
    }


def _keeper(state: State) -> dict[str, float]:
    """Sessions whose streaks and retries are out of date, and how long the oldest commit has waited for them."""
    seconds = round(state.keeper.waiting_s(), 3)
    return {"sessions": state.local.behind() if seconds else 0, "seconds": seconds}


def _forward(forward: Any) -> dict[str, Any] | None:
    """Where copies are sent, their fates since the start, and how much waits; None without forwarding."""
    if forward is None:
        return None
    fates = {sample.labels["fate"]: int(sample.value) for sample in _samples(telemetry.FORWARDED, "_total")}
    return {"to": forward.place, "requests": fates, "queue_bytes": _value(telemetry.FORWARD_BYTES)}


def _cluster(state: State) -> dict[str, Any] | None:
    """What waits to be published, and who evaluates the alert rules; None without a cluster."""
    return state.publisher and {**state.publisher.state(), **state.sharing.state()}


def _langfuse(langfuse: Any) -> dict[str, Any] | None:
    """Where verdicts are sent, their fates since the start, and why they are not taken; None without Langfuse."""
    if langfuse is None:
        return None
    fates = {sample.labels["fate"]: int(sample.value) for sample in _samples(telemetry.LANGFUSE, "_total")}
    return {"to": langfuse.place, "scores": fates, "error": langfuse.error or None}


def _sources() -> dict[str, int]:
    """Events since the start, by source."""
    found: Counter[str] = Counter()
    for sample in _samples(telemetry.EVENTS, "_total"):
        found[sample.labels["source"]] += int(sample.value)
    return dict(found)


def _samples(metric: Any, suffix: str) -> list[Any]:
    return [sample for family in metric.collect() for sample in family.samples if sample.name.endswith(suffix)]


def _value(gauge: Any) -> float:
    return float(_samples(gauge, "")[0].value)


def _p99(times: Any) -> float | None:
    """Upper bound of the histogram bucket that holds the 99th percentile of times, in milliseconds."""
    buckets = [(float(sample.labels["le"]), sample.value) for sample in _samples(times, "_bucket")]
    total = buckets[-1][1] if buckets else 0
    for bound, count in buckets:
        if total and count >= 0.99 * total:
            return bound * 1e3 if bound != float("inf") else None
    return None


def _store(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {"path": ":memory:"}
    size = sizes(path)
    return {
        "path": path.name,
        "id": file_id(path) if path.exists() else None,
        "bytes": size["file"],
        "log_bytes": size["log"],
        "disk_free_bytes": size["free"],
    }


def sizes(path: Path) -> dict[str, int]:
    """Bytes of the store's file and its log, and free bytes on their disk."""
    log = path.with_name(path.name + ".wal")
    try:
        free = shutil.disk_usage(path.parent).free
        return {"file": _size(path), "log": _size(log), "free": free}
    except OSError:
        raise Unavailable("the folder of the store cannot be read") from None


def _size(path: Path) -> int:
    return os.path.getsize(path) if path.exists() else 0
