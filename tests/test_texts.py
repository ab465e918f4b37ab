"""Error texts: what followed each, old wordings beside new ones, and the parameters that they name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from collector.query.wrong_parameters import bound, named
from collector.tables import load_toml, schemas
from tests.conftest import RunningCollector

ROWS = load_toml(schemas().joinpath("parameters.toml"))["named"]


@pytest.mark.parametrize(("text", "name"), [pair for row in ROWS for pair in row["examples"].items()])
def test_a_text_names_its_parameter(text: str, name: str) -> None:
    assert parameter(text) == name


@pytest.mark.parametrize("text", [each for row in ROWS for each in row.get("counter_examples", ())])
def test_a_text_without_a_parameter_names_none(text: str) -> None:
    assert parameter(text) is None


def parameter(text: str) -> Any:
    with duckdb.connect() as engine:
        return engine.execute(f"select {named()} from (select $m as message)", {**bound(), "m": text}).fetchall()[0][0]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """Sessions of two models in which one tool's text changed, and with it what the models do next."""
    running = RunningCollector(tmp_path_factory.mktemp("texts")).start()
    start = datetime.now(UTC) - timedelta(days=2)
    calls: list[dict[str, Any]] = []

    def session(number: int, model: str, text: str, *then: tuple[str, str, str]) -> None:
        begun = start + timedelta(minutes=10 * number)
        steps = [("edit", "error", "a"), *then]
        for place, (tool, outcome, param) in enumerate(steps):
            at = begun + timedelta(seconds=10 * place)
            if place:
                calls.append({
                    "operation": "model", "outcome": "ok", "model": model, "input_tokens": 100, "output_tokens": 20,
                    "session": f"s{number}", "service": "coder", "time": (at - timedelta(seconds=5)).isoformat(),
                })  # fmt: skip
            said = {"message": text, "error_type": "DiffApplyError"} if outcome == "error" else {}
            calls.append({
                "tool": tool, "outcome": outcome, "params": {"path": "f", "x": param}, "session": f"s{number}",
                "service": "coder", "model": model, "time": at.isoformat(), "call_id": f"c{number}-{place}", **said,
            })  # fmt: skip

    old, new = "diff does not apply", "the diff was made for another file: read it again, then send a smaller one"
    follows = {
        "repaired": [("edit", "error", "b"), ("edit", "ok", "c")], "repeated": [("edit", "error", "a")],
        "changed": [("edit", "error", "b")], "other_tool": [("ls", "ok", "a")], "gave_up": [],
    }  # fmt: skip
    number = 0
    for model in ("m1", "m2"):
        for text, steps in ((old, [*follows] * 8), (new, ["repaired"] * 40)):
            for step in steps:
                session(number, model, text, *follows[step])
                number += 1
    calls.append({"tool": "edit", "outcome": "error", "category": "validation", "error_type": "MissingParameterError",
                  "message": "Missing required parameter: path", "session": "p", "service": "coder",
                  "time": start.isoformat(), "params": {}})  # fmt: skip
    assert running.post("/v1/events", json.dumps(calls)).is_success
    yield running.kept_up()
    running.stop()


def test_what_the_model_did_after_each_text(told: RunningCollector) -> None:
    rows = {row["template"]: row for row in told.get("/api/v1/texts", **{"from": "-30d", "tool": "edit"})["rows"]}
    old = next(row for text, row in rows.items() if text and text.startswith("diff does not"))
    # Every error counts, the second ones too: of a repaired run both, of a repeated or changed one the last was left.
    last = {"repaired": 32, "repeated": 16, "changed": 16, "other_tool": 16, "gave_up": 48, "not_known_yet": 0}
    assert {name: old[name] for name in last} == last
    assert old["errors"] == sum(last.values())
    assert (old["median_calls"], old["median_tokens"], old["tokens_told"]) == (1.5, 180, 32)
    by_model = told.get("/api/v1/texts", **{"from": "-30d", "tool": "edit", "by": "model"})["rows"]
    assert Counter({row["model"]: row["errors"] for row in by_model if row["fingerprint"] == old["fingerprint"]}) == {
        "m1": 64, "m2": 64,
    }  # fmt: skip


def test_a_new_wording_beside_the_old_one(told: RunningCollector) -> None:
    [row] = told.get("/api/v1/texts/wordings", **{"from": "-30d", "error_class": "DiffApplyFailedError"})["rows"]
    assert row["template_a"].startswith("diff does not")
    assert (row["a"], row["b"], row["verdict"], row["models"]) == (0.25, 1.0, "better", ["m1", "m2"])
    assert row["a_errors"] == 128


def test_the_parameters_that_are_wrong(told: RunningCollector) -> None:
    [row] = told.get("/api/v1/parameters", **{"from": "-30d"})["rows"]
    assert (row["tool"], row["parameter"], row["errors"], row["of"], row["share"]) == ("edit", "path", 1, 1, 1.0)
    assert row["sample"] == "Missing required parameter: path"
