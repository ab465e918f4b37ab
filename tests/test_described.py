"""Requests made up from `/openapi.json`: what the description says holds, and no question is ever our fault."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from collector.query.endpoints import ENDPOINTS
from collector.store.store import Store
from tests.recorded import holding
from tests.test_api import application, events

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
MADE_UP = settings(
    max_examples=15,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def test_what_is_described_is_what_is_answered() -> None:
    store = Store.open("duckdb://:memory:")
    holding(store, events())
    schema = schemathesis.openapi.from_asgi("/openapi.json", application(store))
    answered: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]

        @MADE_UP
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            answer = case.call_and_validate(checks=CHECKS)
            answered.setdefault(f"{case.method} {case.path}", set()).add(answer.status_code)

        ask()
    store.close()
    assert len(answered) == len(ENDPOINTS) + 2  # and the two that take a body
    assert {200, 400} <= set().union(*answered.values())
