"""What a test run's fork server has loaded before it forks: the command line, the collector and the built-in tables."""

from __future__ import annotations

import atexit
import gc
import threading
from collections.abc import Callable
from functools import wraps
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
import collector.cli  # noqa: E402
import collector.serve  # noqa: E402, F401

assert threading.active_count() == 1, "a fork would lack the other threads"
gc.collect()
gc.freeze()  # forks share these pages as long as nothing marks them
atexit.register(gc.unfreeze)  # else DuckDB's binding reports leaks
