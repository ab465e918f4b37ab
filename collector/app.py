"""The composition root: builds every part, starts them in order, stops them in reverse. It alone knows all others."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import signal
import socket
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import structlog
import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server
from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.openapi.config import OpenAPIConfig

from collector import telemetry
from collector.alerts.engine import Engine
from collector.alerts.notify import send
from collector.alerts.routes import alert_routes
from collector.alerts.rulefile import RuleBook
from collector.alerts.trial_routes import trial_routes
from collector.apply import Applying, apply_routes
from collector.classify.classify import load_taxonomy
from collector.errors import Rejected
from collector.health import health, health_routes
from collector.pipeline import Pipeline
from collector.query import filters
from collector.query.api import api_routes, exception_handlers, guard_query
from collector.query.queries import most_called
from collector.query.shared import Measures
from collector.receive.grpc import grpc_server
from collector.receive.http import door_errors, ingest_routes
from collector.receive.intake import Intake
from collector.receive.room import Room
from collector.receive.workers import Readers, chosen
from collector.recognise.sources import load_sources
from collector.sanitise.sanitise import Rule, Sanitiser, load_rules
from collector.settings import LOOPBACK, Address, Settings
from collector.store import batch
from collector.store.keeper import Keeper
from collector.store.opening import StoreError, make_folder, path_of
from collector.store.store import Store
from collector.store.writer import Writer
from collector.tables import schemas
from collector.telemetry import Scrub, configure_logging

if TYPE_CHECKING:
    from collector.forward.forward import Forwarder

CONNECTIONS = 4_096  # requests at a time; those that send slowly cost little but their number
FORWARD_DRAIN_S = 3  # after that, how long copies that wait may still be delivered
DRAIN_S = 5  # after SIGTERM, how long requests that are being taken may finish

log = structlog.get_logger()


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Raises StoreError, TableError or OSError where it cannot start."""
    for place in (settings.http, settings.grpc):
        _check_free(place)
    made = pipeline_of(settings)
    scrub = _shared(Sanitiser(made.rules, personal=settings.personal))  # for logs and answers, from many threads
    configure_logging(scrub, json_lines={"auto": None, "json": True, "text": False}[settings.log])
    # The tables stay, in pages that forks share; requests make many dicts and no cycles, at 700 objects a collection
    # took a tenth of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    readers = Readers(made.pipeline, chosen(settings.workers))  # forks: before the loop, its threads and the store
    forward = _forwarder(settings, made) if settings.forward else None
    try:
        uvloop.run(_serve(settings, made, readers, scrub, forward))
    finally:
        readers.close()
        gc.unfreeze()  # or the engine's binding complains at the end of what it takes for leaks
    return 0


class Made(NamedTuple):
    """A pipeline and the rules of its sanitiser."""

    pipeline: Pipeline
    rules: tuple[Rule, ...]


def pipeline_of(settings: Settings) -> Made:
    """The pipeline with the tables and keys that these settings name. Raises TableError or StoreError."""
    batch.add_dimensions(settings.dimensions)
    filters.add_dimensions(settings.dimensions)
    rules = load_rules(*_own(settings, "redactions.toml"))
    key = hash_key(settings)
    pipeline = Pipeline(
        load_sources(schemas() / "sources", *_own(settings, "sources")),
        load_taxonomy(schemas() / "taxonomy.toml", *_own(settings, "taxonomy.toml")),
        Sanitiser(rules, personal=settings.personal, key=key if settings.fingerprint_secrets else None),
        key,
        settings.dimensions,
    )
    return Made(pipeline, rules)


def _another(settings: Settings, made: Made) -> Pipeline:
    """A pipeline like the one that reads requests, for another thread. Raises Rejected where its rules are old."""
    other = pipeline_of(settings)
    if other.rules != made.rules:
        raise Rejected("redactions.toml has changed since this collector was started: start it again first", 409)
    return replace(other.pipeline, hash_key=made.pipeline.hash_key)


async def _serve(settings: Settings, made: Made, readers: Readers, scrub: Scrub, forward: Forwarder | None) -> None:
    store = await asyncio.to_thread(partial(Store.open, settings.store, dimensions=settings.dimensions))
    keeper = Keeper(store)
    writer = Writer(store, settings.retention, noted=keeper.noted)
    intake = Intake(readers, writer, settings.queue, forward)
    engine = Engine(
        store,
        RuleBook(settings.rules),
        Measures(store, made.pipeline.sources.failure_only),
        send,
        scrub=lambda text: scrub(text)[0],
        dashboard_url=settings.dashboard_url,
    )
    http = _http_server(_application(settings, store, writer, keeper, intake, engine, made, forward), settings.http)
    grpc = grpc_server(intake, settings, engine.scrub)
    if not grpc.add_insecure_port(str(settings.grpc)):
        raise OSError(f"{settings.grpc} cannot be listened on")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    names = await asyncio.to_thread(most_called, store, telemetry.MOST_SERVICES, telemetry.MOST_TOOLS)
    telemetry.know_calls(*names)
    keeper.start()
    writer.start()
    if forward:
        forward.start()
    await grpc.start()
    serving = asyncio.create_task(http.serve())
    alerting = asyncio.create_task(engine.run())
    log.info("listening", http=str(settings.http), grpc=str(settings.grpc), store=settings.store)
    await asyncio.wait((serving, asyncio.create_task(stop.wait())), return_when=asyncio.FIRST_COMPLETED)

    asked = stop.is_set()
    log.info("stopping")
    await engine.close()
    alerting.cancel()
    http.stop()
    await asyncio.wait((serving, asyncio.create_task(grpc.stop(DRAIN_S))), timeout=DRAIN_S)
    await asyncio.to_thread(intake.close)
    if forward:
        await forward.close(FORWARD_DRAIN_S)
    await asyncio.to_thread(writer.close)
    await asyncio.to_thread(keeper.close)
    await asyncio.to_thread(store.close)
    log.info("stopped")
    if not asked:
        raise OSError(f"{settings.http} is not listened on: the HTTP server ended; is the port taken?")


def _forwarder(settings: Settings, made: Made) -> Forwarder:
    from collector.forward.forward import Copy, Forwarder  # 10 MiB, for who wants copies

    if settings.forward_content == "as-received":
        return Forwarder(settings.forward, settings.forward_headers, settings.forward_queue)
    from collector.forward.sanitised import sanitised

    key = made.pipeline.hash_key if settings.fingerprint_secrets else None
    own = Sanitiser(made.rules, personal=settings.personal, key=key)

    def prepare(copy: Copy) -> bytes:
        return sanitised(copy.body, copy.media_type, copy.signal, own)

    return Forwarder(settings.forward, settings.forward_headers, settings.forward_queue, prepare)


def _shared(sanitiser: Sanitiser) -> Scrub:
    """One sanitiser for many threads: its scanner can serve one at a time."""
    lock = Lock()

    def scrub(text: str) -> tuple[str, tuple[str, ...]]:
        with lock:
            return sanitiser.scrub(text)

    return scrub


def _application(
    settings: Settings,
    store: Store,
    writer: Writer,
    keeper: Keeper,
    intake: Intake,
    engine: Engine,
    made: Made,
    forward: Forwarder | None,
) -> Litestar:
    state = {
        "settings": settings,
        "allowed_hosts": _allowed_hosts(settings),
        "store": store,
        "writer": writer,
        "keeper": keeper,
        "intake": intake,
        "room": Room(settings.queue),
        "alerts": engine,
        "forward": forward,
        "scrub": engine.scrub,
        "applying": Applying(store, partial(_another, settings, made), writer, engine.read_again),
        "failure_only": made.pipeline.sources.failure_only,
        "sources": made.pipeline.sources,
        "taxonomy": made.pipeline.taxonomy,
    }
    return Litestar(
        route_handlers=[
            *ingest_routes(),
            *health_routes(),
            *api_routes(),
            Router(
                "/", route_handlers=[health, *alert_routes(), *trial_routes(), *apply_routes()], guards=[guard_query]
            ),
        ],
        state=State(state),
        exception_handlers=door_errors(exception_handlers()),
        openapi_config=OpenAPIConfig(title="Misstep", version=version("misstep"), render_plugins=[]),
        request_max_body_size=None,  # the doors have their own limit, before and after decompression
        logging_config=None,
    )


def _http_server(application: Litestar, place: Address) -> Server:
    return Server(
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


def _allowed_hosts(settings: Settings) -> frozenset[str]:
    """Names in the Host header that are taken without a token; empty: any."""
    if settings.http.host not in LOOPBACK or settings.query_tokens:
        return frozenset()
    return frozenset((*LOOPBACK, *(name.lower() for name in settings.allowed_hosts)))


def _check_free(place: Address) -> None:
    """A port that another process holds must be said before anything is opened."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.host, place.port))
        except OSError as error:
            raise OSError(f"{place} cannot be listened on ({error.strerror}): is another collector running?") from None


def _own(settings: Settings, name: str) -> list[Path]:
    """The user's table of this name, if there is one; it is laid over ours."""
    path = settings.tables / name if settings.tables else None
    return [path] if path and path.exists() else []


def hash_key(settings: Settings) -> bytes:
    """The key of params_hash: from the settings, else a random one beside the store that only its owner may read."""
    if settings.hash_key:
        return settings.hash_key.encode()[:64]
    path = Path(f"{store_file}.key") if (store_file := path_of(settings.store)) else None
    if path is None:
        return secrets.token_bytes(32)
    make_folder(path)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    found = path.read_bytes()
    if not 16 <= len(found) <= 64:
        raise StoreError(f"{path} is damaged: it must hold 16 to 64 bytes; remove it to start a new key")
    return found
