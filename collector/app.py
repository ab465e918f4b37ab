"""The collector process: makes what parses requests, then loads and serves everything else."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from collector.api.reserved import reserved
from collector.errors import Rejected, StoreError
from collector.hash_key import sanitiser_of
from collector.made import Made, pipeline_of
from collector.pipeline import Pipeline
from collector.receive.certificates import check as check_pair
from collector.receive.on_demand import OnDemand
from collector.receive.workers import Readers, chosen
from collector.sanitise.redactions import Rule
from collector.sanitise.sanitise import Sanitiser
from collector.setting_values import Address
from collector.settings import Settings, SettingsError, load
from collector.streams import open_streams
from collector.tables import TableError
from collector.telemetry import Scrub, configure_logging
from collector.token_store import guarded
from collector.visible import say

if TYPE_CHECKING:
    from collector.batch import Body
    from collector.forward.forward import Forwarder


def main() -> int:
    """Runs a collector with the settings of the environment. Returns 2 if it cannot start, and says why."""
    open_streams()
    _open_many()
    try:
        return run(load({}, os.environ, reserved=reserved, guarded=guarded))
    except (SettingsError, TableError, StoreError, OSError) as error:
        say(f"misstep: {error}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "start new thread" not in str(error):
            raise
        say(
            f"misstep: memory or threads ran out ({error}): see `ulimit -v`, `ulimit -u` and the container's limits",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return 130


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Raises StoreError, TableError or OSError if it cannot start."""
    os.umask(0o077)  # store, journal, key, backups and exports are for this user alone
    for place in (settings.http, settings.grpc):
        _check_free(place)
    if settings.tls_cert and settings.tls_key:
        check_pair(settings.tls_cert, settings.tls_key)
    made = pipeline_of(settings)
    scrub = _begin(settings, made.rules)
    another = partial(_another, settings, made.rules, made.pipeline.hash_key)
    in_new_process = partial(_in_new_process, settings, made.rules, made.pipeline.hash_key)
    readers = _readers(settings.workers, made.pipeline, in_new_process)
    try:
        import uvloop

        from collector.serve import serve

        gc.freeze()
        forward = _forwarder(settings, made) if settings.forward else None
        uvloop.run(serve(settings, made.pipeline, readers, scrub, forward, another))
    finally:
        readers.close()
        gc.unfreeze()  # else DuckDB's binding reports leaks at exit
    return 0


def _readers(workers: int | None, pipeline: Pipeline, another: Callable[[], Pipeline]) -> Readers | OnDemand:
    """So many processes, or those that are needed. Made before there are threads, and before anything is loaded that
    processes that parse do not need: forks have it too.
    """
    if workers:
        return Readers(pipeline, workers, another)
    return OnDemand(pipeline, chosen() if workers is None else 0, another)


def _begin(settings: Settings, rules: tuple[Rule, ...]) -> Scrub:
    """Configures logging and garbage collection; returns the sanitiser of log lines, for many threads."""
    scrub = _shared(Sanitiser(rules, personal=settings.personal))
    configure_logging(scrub, json_lines={"auto": None, "json": True, "text": False}[settings.log])
    gc.collect()
    with suppress(AttributeError):  # only glibc has it; forks would keep a copy of each page that is free by now
        ctypes.CDLL(None).malloc_trim(0)
    gc.freeze()  # keeps the tables in pages that forks share
    gc.set_threshold(50_000, 20, 50)  # requests make no cycles; by default, this took a tenth of the time
    return scrub


def _another(settings: Settings, rules: tuple[Rule, ...], key: bytes) -> Pipeline:
    """A pipeline like the one for requests, for another thread. Raises Rejected if redactions.toml has changed."""
    other = pipeline_of(settings, key)
    if other.rules != rules:
        raise Rejected("redactions.toml has changed since this collector was started: start it again first", 409)
    return other.pipeline


def _in_new_process(settings: Settings, rules: tuple[Rule, ...], key: bytes) -> Pipeline:
    """As `_another`, for a new process."""
    pipeline = _another(settings, rules, key)
    _begin(settings, rules)
    return pipeline


def _forwarder(settings: Settings, made: Made) -> Forwarder:
    from collector.forward.forward import Forwarder  # 10 MiB, only needed with MISSTEP_FORWARD
    from collector.forward.raw import without_raw
    from collector.forward.sanitised import sanitised

    clean = settings.forward_content == "sanitised"
    own = sanitiser_of(settings, made.rules, made.pipeline.hash_key) if clean else None

    def prepare(copy: Body) -> bytes:
        content, media_type, signal, _ = copy
        if not settings.forward_raw:
            content = without_raw(content, media_type, signal)
        return sanitised(content, media_type, signal, own) if own else content

    return Forwarder(settings.forward, settings.forward_headers, settings.forward_queue, prepare)


def _shared(sanitiser: Sanitiser) -> Scrub:
    """One sanitiser for many threads: its scanner is not thread-safe."""
    lock = Lock()

    def scrub(text: str) -> tuple[str, tuple[str, ...]]:
        with lock:
            return sanitiser.scrub(text)

    return scrub


def _open_many() -> None:
    """Lets this process open as many files and connections as it may: by default often 1,024, a quarter of what the
    HTTP server takes.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems do not grant what they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _check_free(place: Address) -> None:
    """Fails early if another process has a port, before anything is opened."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.host, place.port))
        except OSError as error:
            raise OSError(f"{place} cannot be listened on ({error.strerror}): is another collector running?") from None


if __name__ == "__main__":
    sys.exit(main())
