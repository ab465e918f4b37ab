"""What a test run's fork server has loaded before it forks: command line, collector, its addresses, built-in tables."""

from __future__ import annotations

import atexit
import gc
import threading
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import httpx  # noqa: F401
import polars  # noqa: F401

from collector.classify import classify
from collector.recognise import source_tables
from collector.sanitise import redactions


def _once(load: Callable[..., Any]) -> Callable[..., Any]:
    """`load` with the built-in table made now; with tables of a user it is made when it is asked for, as ever."""
    built_in = load()

    @wraps(load)
    def loaded(*own: Any) -> Any:
        return load(*own) if own else built_in

    return loaded


# Before the modules that import these by name.
for _module, _name in ((source_tables, "load_sources"), (classify, "load_taxonomy"), (redactions, "load_rules")):
    setattr(_module, _name, _once(getattr(_module, _name)))

import anyio._backends._asyncio  # noqa: E402, F401  # as the first request would

import collector.app  # noqa: E402
import collector.cli.main  # noqa: E402
import collector.commands  # noqa: E402
from collector import serve  # noqa: E402
from collector.alerts.rulefile import default_rules  # noqa: E402
from collector.columns import TABLES  # noqa: E402
from collector.engine.duckdb import derive_loop  # noqa: E402
from collector.sanitise.sanitise import Sanitiser  # noqa: E402

# Nothing here depends on how long a loop rests between turns, and tests would sit it out.
derive_loop.EVERY_S, derive_loop.REST = 0.1, 1
serve.Engine = partial(serve.Engine, interval_s=5.0)  # type: ignore[assignment, attr-defined]

for _command in iter_modules(collector.commands.__path__, "collector.commands."):
    import_module(_command.name)
default_rules()
Sanitiser(redactions.load_rules())  # its patterns stay in the cache of `re`

_columns, _addressed, _addresses = len(TABLES["events"]), serve.addressed, serve.addressed()
# The addresses name the columns: with MISSTEP_DIMENSIONS they are made when they are asked for, as ever.
serve.addressed = lambda: _addresses if len(TABLES["events"]) == _columns else _addressed()

assert threading.active_count() == 1, "a fork would lack the other threads"
gc.collect()
gc.freeze()  # forks share these pages as long as nothing marks them
atexit.register(gc.unfreeze)  # else DuckDB's binding reports leaks
