"""The query API in the test process: an application over a store, and events of every kind to query."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from litestar import Litestar
from litestar.datastructures import State
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from collector.access.file import TokenFile
from collector.access.tokens import Tokens
from collector.api.guard import guard
from collector.api.refusals import exception_handlers
from collector.api.routes import api_routes
from collector.classify.classify import load_taxonomy
from collector.engine.duckdb.store import Store
from collector.settings import Settings
from tests.recorded import event, failed

SOURCES = SimpleNamespace(
    sources=(
        SimpleNamespace(id="roo-code", reports_ok=False, coverage={"session": True, "successes": False}),
        SimpleNamespace(id="codex", reports_ok=True, coverage={"parameters": "log_tool_arguments = true in [otel]"}),
    )
)


def events() -> list[dict[str, Any]]:
    return [
        *(failed(40, event_id=number, session="storm", error_class="RateLimitError") for number in range(200, 210)),
        failed(
            9,
            params='{"path": "~/a"}',
            params_hash=7,
            attributes='{"k": [1]}',
            sequence=3,
            target="/a,b",
            reported_streak=1,
        ),
        failed(8, source="roo-code"),
        event(7, outcome="denied", model="m1"),
        event(6, outcome="cancelled"),
        event(5, session="/with//slash and ü/", service="web"),
        event(4, operation="model", tool=None),
        failed(30, session="s3", tool="write"),
        event(29, session="s3", tool="write"),
    ]


def tokens(settings: Settings) -> Tokens:
    """Those of the settings, and no named ones yet."""
    return Tokens(TokenFile(None), settings)


def application(store: Store, **state: Any) -> Litestar:
    known: dict[str, Any] = {
        "store": store,
        "local": store,
        "publisher": None,
        "keeper": SimpleNamespace(settle=lambda seconds: True),
        "writer": SimpleNamespace(settle=lambda: True),
        "settings": Settings(),
        "tokens": tokens(state.get("settings", Settings())),
        "allowed_hosts": frozenset(),
        "sources": SOURCES,
        "taxonomy": load_taxonomy(),
        "failure_only": ("roo-code",),
        "scrub": str,
    }
    return Litestar(
        api_routes(),
        guards=[guard],
        state=State(known | state),
        exception_handlers=exception_handlers(),
        openapi_config=OpenAPIConfig("Misstep", "1", path="/", render_plugins=[JsonRenderPlugin(path="/openapi.json")]),
        logging_config=None,
    )
