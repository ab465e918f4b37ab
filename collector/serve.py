"""Builds store, writer, doors, query API and alerts; starts them in order and stops them in reverse."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

import structlog
from grpc import aio as grpc_aio
from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.openapi.config import OpenAPIConfig
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import ControllerRouterHandler

from collector import telemetry
from collector.access.rights import INGEST, READ
from collector.access.tokens import Tokens
from collector.alerts.engine import Engine
from collector.alerts.rulebook import RuleBook
from collector.alerts.send import send
from collector.alerts.together import ALONE
from collector.alerts.trying.backtest import LookedBack
from collector.api.alert_routes import ALERT_ROUTES
from collector.api.apply import APPLY_ROUTES, Apply
from collector.api.audit_routes import AUDIT_ROUTES
from collector.api.auditing import note_answer
from collector.api.backup import BACKUP_ROUTES, Backups
from collector.api.excerpts import EXCERPT_ROUTES
from collector.api.forget import FORGET_ROUTES, Forget
from collector.api.guard import guard
from collector.api.health import HEALTH_ROUTES, health
from collector.api.mcp_route import ask_mcp
from collector.api.people import PEOPLE_ROUTES
from collector.api.refusals import exception_handlers
from collector.api.routes import api_routes
from collector.api.rule_routes import RULE_ROUTES
from collector.api.runs import Runs
from collector.api.token_routes import TOKEN_ROUTES
from collector.api.trial_routes import TRIAL_ROUTES
from collector.clustered import nothing, older_of, publisher_of, reach_of, reads_of, sharing_of
from collector.columns import add_dimensions
from collector.engine.duckdb.count_loop import Counting
from collector.engine.duckdb.derive_loop import Keeper
from collector.engine.duckdb.maintenance import Upkeep
from collector.engine.duckdb.open import SETTINGS
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.journal.journal import Journal, records_in
from collector.journal.queue import Taker
from collector.journal.waiting import Waiting
from collector.journal.writer import Writer
from collector.measures.all import measure_all
from collector.pipeline import Pipeline
from collector.receive.certificates import Certificates, credentials, renewing
from collector.receive.delivery import Delivery
from collector.receive.entrance import Entrance
from collector.receive.grpc import grpc_server
from collector.receive.http import INGEST_ROUTES, door_errors
from collector.receive.http_server import HttpServer, http_server
from collector.receive.intake import Intake
from collector.receive.on_demand import OnDemand
from collector.receive.room import Room
from collector.receive.workers import Readers
from collector.resident import give_back_code
from collector.settings import LOOPBACK, Settings
from collector.telemetry import Scrub
from collector.token_store import audit_log, token_file

if TYPE_CHECKING:
    from collector.cluster.publish import Publisher
    from collector.cluster.reads import ClusterReads
    from collector.cluster.sharing import Sharing
    from collector.forward.forward import Forwarder
    from collector.forward.langfuse import Langfuse

DRAIN_S = 5  # for requests in progress to finish after SIGTERM
FORWARD_DRAIN_S = 3  # after that, for queued copies to be delivered
LEFT_S = 30  # at start, senders wait this long for what is in the journal; the rest is stored while they send

REST_S = 3.0  # after the start: what it needed, and the first turn of each loop, is not needed any more

log = structlog.get_logger()


async def serve(
    settings: Settings,
    pipeline: Pipeline,
    readers: Readers | OnDemand,
    scrub: Scrub,
    forward: Forwarder | None,
    another: Callable[[], Pipeline],
) -> None:
    """Serves until SIGTERM or SIGINT, over SIGHUP. `another` makes a pipeline like this one, for another thread.

    Raises StoreError or OSError where it cannot start; what had been started by then is stopped.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Elsewhere it asks for the configuration to be read again; a changed rule file is noticed without it.
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, log.info, "SIGHUP changes nothing: rules are read again when their file changes"
    )
    async with AsyncExitStack() as started:
        parts = await _stored(settings, readers, forward, started, tuple(pipeline.sources.failure_only))
        reads = reads_of(settings, parts.store)
        book, named = RuleBook(settings.rules), token_file(settings)
        sharing = await asyncio.to_thread(sharing_of, settings, parts.store, book, named)
        engine = Engine(
            parts.store,
            book,
            partial(measure_all, failure_only=pipeline.sources.failure_only),
            send,
            scrub=lambda text: scrub(text)[0],
            dashboard_url=settings.dashboard_url,
            trace_url=settings.trace_url,
            together=sharing or ALONE,
            reads=reads,
        )
        tokens = Tokens(named, settings)
        application = _application(settings, tokens, parts, engine, reads, sharing, pipeline, forward, another)
        http = http_server(Entrance(Delivery(application)), settings.http)
        grpc = grpc_server(parts.intake, settings, tokens, engine.scrub)
        certificates = certificates_of(settings)
        if certificates:
            http.renew(certificates)
            renewals = asyncio.create_task(renewing(certificates, http.renew))
            started.callback(renewals.cancel)
        if not _listen(grpc, str(settings.grpc), certificates):
            raise OSError(f"{settings.grpc} cannot be listened on")
        await grpc.start()
        serving = asyncio.create_task(http.serve())
        started.push_async_callback(_close_doors, http, serving, grpc)
        if parts.langfuse:
            telling = asyncio.create_task(parts.langfuse.run())
            started.callback(telling.cancel)
        if sharing:
            sharing.join(engine)
            sharing.start()
            started.push_async_callback(asyncio.to_thread, sharing.close)
        forgetting = asyncio.create_task(application.state.audit.keep())
        started.callback(forgetting.cancel)
        alerting = asyncio.create_task(engine.run())
        started.callback(alerting.cancel)
        started.push_async_callback(engine.close)
        rested = asyncio.get_running_loop().call_later(REST_S, give_back_code)
        started.callback(rested.cancel)
        log.info("listening", http=str(settings.http), grpc=str(settings.grpc), store=settings.store)
        await asyncio.wait((serving, asyncio.create_task(stop.wait())), return_when=asyncio.FIRST_COMPLETED)
        asked = stop.is_set()
        log.info("stopping")
    log.info("stopped")
    if not asked:
        raise OSError(
            f"{settings.http} is not listened on: the HTTP server ended; is the port taken?"
        ) from serving.exception()


def certificates_of(settings: Settings) -> Certificates | None:
    """The pair for TLS, if settings name one. Raises BadCertificate."""
    if settings.tls_cert and settings.tls_key:
        return Certificates(settings.tls_cert, settings.tls_key)
    return None


def _listen(grpc: grpc_aio.Server, place: str, certificates: Certificates | None) -> int:
    """The port, 0 where it cannot be listened on."""
    if certificates:
        return int(grpc.add_secure_port(place, credentials(certificates)))
    return int(grpc.add_insecure_port(place))


class Parts(NamedTuple):
    """What stands behind the doors."""

    store: Store
    journal: Journal
    keeper: Keeper
    writer: Writer
    intake: Intake
    langfuse: Langfuse | None
    publisher: Publisher | None


async def _stored(
    settings: Settings,
    readers: Readers | OnDemand,
    forward: Forwarder | None,
    started: AsyncExitStack,
    failure_only: tuple[str, ...],
) -> Parts:
    """Opens the store, and starts what brings requests into it, from the end of their way to its beginning."""

    def at_the_end(close: Callable[[], None]) -> None:
        started.push_async_callback(asyncio.to_thread, close)

    store = await asyncio.to_thread(store_of, settings)
    at_the_end(store.close)
    add_dimensions(store.dimensions)
    publisher = await asyncio.to_thread(publisher_of, settings, store)
    keeper = Keeper(store, publisher.noted if publisher else nothing)

    def noted() -> None:
        keeper.noted()
        if publisher:
            publisher.noted()

    journal = Journal(store.path, store.check_file)
    upkeep = Upkeep(store, retention_of(settings), noted=noted)
    writer = Writer(store, journal, upkeep, noted, older_of(settings, store))
    taker = Taker(journal, writer)
    left = [Waiting(packed, position, records_in(packed)) for position, packed in journal.left(store.position())]
    accepted = store.accounting().get("accepted", 0) + sum(waiting.records for waiting in left)
    intake = Intake(readers, taker, settings.queue, forward, accepted=accepted)
    store.counted.services, store.counted.silent = settings.metrics_services, failure_only
    telemetry.CALLS.show(store.counted.shown)
    counting = Counting(store, int(settings.metrics_settle * 1e9))
    counting.start()
    at_the_end(counting.close)

    if forward:
        forward.start()
        started.push_async_callback(forward.close, FORWARD_DRAIN_S)
        started.push_async_callback(intake.followed, FORWARD_DRAIN_S)
    started.callback(journal.close)
    if publisher:
        publisher.start()
        at_the_end(publisher.close)
    writer.start()
    at_the_end(writer.close)
    keeper.start()
    at_the_end(keeper.close)  # before the writer, whose upkeep may wait for the end of its turn
    if left:
        log.info("storing what the journal holds", requests=len(left))
        if forward:  # what is in the journal is no copy
            telemetry.FORWARDED.labels("left").inc(len(left))
        writer.put(left)
        await asyncio.to_thread(writer.settle, LEFT_S)
    taker.start()
    at_the_end(taker.close)
    at_the_end(intake.close)
    return Parts(store, journal, keeper, writer, intake, langfuse_of(settings, store), publisher)


async def _close_doors(http: HttpServer, serving: asyncio.Task[None], grpc: grpc_aio.Server) -> None:
    """Takes no more, and lets what is being taken finish."""
    http.stop()  # type: ignore[no-untyped-call]
    await asyncio.wait((serving, asyncio.create_task(grpc.stop(DRAIN_S))), timeout=DRAIN_S)


def store_of(settings: Settings) -> Store:
    """The store that the settings name, opened. Raises StoreError."""
    limited = {**SETTINGS, "memory_limit": f"{settings.memory}B"}
    return Store.open(settings.store, limited, settings.dimensions)


def langfuse_of(settings: Settings, store: Store) -> Langfuse | None:
    """What sends verdicts to Langfuse, if that is set up."""
    if not settings.langfuse_url:
        return None
    from collector.forward.langfuse import Langfuse  # 10 MiB with its HTTP client

    keys = settings.langfuse_public_key, settings.langfuse_secret_key
    return Langfuse(store, settings.langfuse_url, *keys, int(settings.metrics_settle * 1e9))


def retention_of(settings: Settings) -> Retention:
    """How long events are kept, and where they are exported before they are removed."""
    age_s = settings.local_retention if settings.cluster else settings.retention
    return Retention(int(age_s * 1e9), settings.retention_size, settings.retention_export)


def _application(
    settings: Settings,
    tokens: Tokens,
    parts: Parts,
    engine: Engine,
    reads: Store | ClusterReads,
    sharing: Sharing | None,
    pipeline: Pipeline,
    forward: Forwarder | None,
    another: Callable[[], Pipeline],
) -> Litestar:
    def renamed() -> None:
        engine.read_again()
        parts.store.count_again()

    def applied() -> Callable[[int], Apply]:
        with_rules = another()
        return lambda _: Apply(parts.store, with_rules, renamed, audit, reach())

    def forgotten(until_ns: int) -> Forget:
        return Forget(parts.store, renamed, reach(), until_ns)

    audit = audit_log(settings, engine.scrub)
    reach = reach_of(settings, parts.store, parts.publisher)
    errands = sharing.errands if sharing else None
    state = {
        "settings": settings,
        "tokens": tokens,
        "audit": audit,
        "allowed_hosts": allowed_hosts(settings, with_tokens=tokens.asks(INGEST) and tokens.asks(READ)),
        **parts._asdict(),
        "local": parts.store,
        "store": reads,
        "sharing": sharing,
        "room": Room(settings.queue),
        "alerts": engine,
        "looked_back": LookedBack(),
        "forward": forward,
        "scrub": engine.scrub,
        "backups": Backups(parts.store),
        "applying": Runs("sanitise", applied, parts.writer, errands),
        "forgetting": Runs("forget", lambda: forgotten, parts.writer, errands),
        "failure_only": pipeline.sources.failure_only,
        "sources": pipeline.sources,
        "taxonomy": pipeline.taxonomy,
    }
    application = addressed()
    application.state = State(state)
    return application


def addressed() -> Litestar:
    """Every address, without what answers at it: `state`."""
    return _Application(
        route_handlers=routes(),
        guards=[guard],
        before_send=[note_answer],
        exception_handlers=door_errors(exception_handlers()),
        openapi_config=OpenAPIConfig(title="Misstep", version=version("misstep"), render_plugins=[]),
        request_max_body_size=None,  # the doors have their own limit, before and after decompression
        logging_config=None,
    )


def routes() -> list[ControllerRouterHandler]:
    """Every address of the collector."""
    return [
        *INGEST_ROUTES,
        *HEALTH_ROUTES,
        *api_routes(),
        ask_mcp,
        # A router, because Litestar prepares the first handler of an address again for each further one.
        Router(
            "/",
            route_handlers=[
                health,
                *ALERT_ROUTES,
                *RULE_ROUTES,
                *TRIAL_ROUTES,
                *APPLY_ROUTES,
                *FORGET_ROUTES,
                *EXCERPT_ROUTES,
                *BACKUP_ROUTES,
                *PEOPLE_ROUTES,
                *TOKEN_ROUTES,
                *AUDIT_ROUTES,
            ],
        ),
    ]


class _Application(Litestar):
    """Without the plugins for pydantic and attrs, which Litestar loads wherever these are installed, as with the extra
    for MCP: 8 MiB for models that no address has.
    """

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def allowed_hosts(settings: Settings, *, with_tokens: bool) -> frozenset[str]:
    """Names in the Host header that are taken without a token; empty: any, because beyond loopback others may know this
    machine by any name. `with_tokens`: sending and reading need one.
    """
    if settings.http.host not in LOOPBACK and (with_tokens or not settings.allowed_hosts):
        return frozenset()
    return frozenset((*LOOPBACK, *(name.lower() for name in settings.allowed_hosts)))
