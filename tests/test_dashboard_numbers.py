"""Every figure, table and chart of numbers on every page agrees with the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.data.filters import NO_VALUE
from dashboard.parts import sentences, words
from tests.conftest import RunningCollector, misstep
from tests.shown import table
from tests.traffic import storm, two_versions

Row = Mapping[str, Any]
RANGE = {"from": "-7d"}
# What differs between moments or machines.
MOVING = {"First seen", "Last seen", "Answer p99", "Waiting", "Lag", "Store", "Disk free"}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """The demo's agents, a coder whose version 3.2 breaks its diff tool, a storm, and two classes with retries."""
    folder = tmp_path_factory.mktemp("full")
    running = RunningCollector(folder).start()
    assert misstep("demo", "--to", running.url, "--sessions", "20", "--seed", "6", cwd=folder).returncode == 0
    now = datetime.now(UTC)
    retries = tried_again(now, "ToolTimeoutError", 12) + tried_again(now, "McpConnectionError", 1)
    assert running.post("/v1/events", json.dumps(two_versions(now) + storm(now) + retries)).is_success
    assert rows(running.kept_up(), "retries/storms")
    yield running
    running.stop()


def tried_again(now: datetime, error_class: str, worked: int) -> list[dict[str, str]]:
    """Forty errors of one class, each retried once, this many with success; one session each."""
    calls: list[dict[str, str]] = []
    for number in range(40):
        about = {"service": "retrying", "session": f"{error_class}{number}", "tool": "fetch", "target": "a"}
        first, second = (now - timedelta(hours=3) + timedelta(seconds=10 * number + after) for after in (0, 5))
        error = {"outcome": "error", "error_class": error_class, "message": "timed out"}
        calls.append(about | error | {"time": first.isoformat()})
        calls.append(about | (error if number >= worked else {"outcome": "ok"}) | {"time": second.isoformat()})
    return calls


@pytest.fixture(scope="module")
def silent(shared: RunningCollector) -> RunningCollector:
    """Three retried errors of an agent that reports successes, and two of Roo Code, which does not."""
    now = datetime.now(UTC) - timedelta(hours=2)
    calls: list[dict[str, Any]] = []
    for number in range(3):
        about = {"service": "teller", "session": f"t{number}", "tool": "apply_diff", "target": "a"}
        error = {"outcome": "error", "error_class": "ContentNotFoundError", "message": "not found"}
        calls.append(about | error | {"time": now.isoformat()})
        calls.append(about | {"outcome": "ok", "time": (now + timedelta(seconds=5)).isoformat()})
    for second in range(3):
        at = round((now.timestamp() + 5 * second) * 1000)
        calls.append(
            {"level": "error", "category": "tool_execution", "tool": "apply_diff", "error_type": "DiffApplyError",
             "message": f"failed {second}", "timestamp": at, "task_id": "r", "params": {"path": "a"}}
        )  # fmt: skip
    assert shared.post("/v1/events", json.dumps(calls)).is_success
    return shared.kept_up()


def rows(running: RunningCollector, path: str, **params: Any) -> list[Row]:
    found: list[Row] = running.get(f"/api/v1/{path}", **RANGE | params)["rows"]
    return found


def first(running: RunningCollector, path: str, **params: Any) -> Row:
    return (rows(running, path, **params) or [{}])[0]


def subject(running: RunningCollector, page: str) -> dict[str, str]:
    """The link parameters of a page of one tool or group."""
    if page == "tool":
        return {"tool": "apply_diff"}
    return {"fingerprint": first(running, "groups", sort="-events")["fingerprint"]} if page == "group" else {}


def overview(api: RunningCollector) -> dict[str, str]:
    alerts = api.get("/api/v1/alerts")["rows"]
    return {
        "Error rate": words.rate(first(api, "breakdown")["error_rate"]),
        "Lasting errors": words.count(first(api, "retries")["lasting"]),
        "Sessions hit": words.count(first(api, "breakdown", outcome="error", measures="sessions")["sessions"]),
        "Worst open streak": words.count(first(api, "streaks", state="open", sort="-length").get("length")),
        "Alerts": f"{sum(row['state'] == 'firing' for row in alerts)} firing",
    }


def tool(api: RunningCollector) -> dict[str, str]:
    total = first(api, "breakdown", **subject(api, "tool"), measures="p50_ms")
    retries = first(api, "retries", **subject(api, "tool"))
    return {
        "Error rate": words.rate(total["error_rate"]),
        "Lasting errors": words.count(retries["lasting"]),
        "Recovery": words.rate(retries["recovery_rate"]),
        "Cancelled · denied": f"{words.count(total['cancelled'])} · {words.count(total['denied'])}",
        "Duration, p50": words.duration(total["p50_ms"]),
    }


def group(api: RunningCollector) -> dict[str, str]:
    about = first(api, "groups", sort="-events")
    return {
        "Events": words.count(about["events"]),
        "Sessions": words.count(about["sessions"]),
        "Spread": words.rate(about["spread"]),
    }


def retries(api: RunningCollector) -> dict[str, str]:
    total, cost = first(api, "retries"), first(api, "costs")
    told = [cost[name] for name in ("input_tokens", "output_tokens") if cost[name] is not None]
    return {
        "Errors": words.count(total["errors"]),
        "Tried again": words.count(total["retried"]),
        "Recovery": words.rate(total["recovery_rate"]),
        "Lasting errors": words.count(total["lasting"]),
        "Identical retries": words.count(total["identical_retries"]),
        "Calls spent": words.count(cost["calls"]),
        "Time in streaks": words.duration(cost["seconds"] * 1000),
        "Tokens spent": words.count(sum(told)) if told else words.NONE,
        "Money spent": words.dollars(cost["cost_usd"]),
        "Retries in vain": words.count(cost["wasted_retries"]),
    }


def health(api: RunningCollector) -> dict[str, str]:
    return {"Events": words.count(first(api, "breakdown", **{"from": "-3650d"})["calls"])}


@pytest.mark.parametrize("said", [overview, tool, group, retries, health], ids=lambda said: said.__name__)
def test_every_figure_is_the_apis(
    full: RunningCollector, open_app: Callable[..., AppTest], said: Callable[[RunningCollector], dict[str, str]]
) -> None:
    page = said.__name__
    app = open_app(full.url, page, from_="-7d", **subject(full, page))
    shown = {metric.label: str(metric.value) for metric in app.metric if metric.label not in MOVING}
    assert shown == said(full)


# Page, columns that identify its table, and the address of the API with the same columns.
TABLES: list[tuple[str, tuple[str, ...], str, dict[str, Any]]] = [
    ("sessions", ("session", "calls", "errors", "worst_streak"), "sessions", {"limit": 500}),
    ("live", ("outcome", "error_class", "message"), "events", {"limit": 200}),
    ("sources", ("source", "service", "events", "errors"), "sources", {"limit": 500}),
    ("retries", ("error_class", "errors", "retried", "lasting", "identical_retries", "disagreement"), "retries",
     {"by": "error_class", "limit": 200}),
    ("retries", ("error_class", "sessions", "calls", "most_in_a_minute"), "retries/storms", {}),
    ("streaks", ("model", "sessions", "interrupted", "mistakes_saved"), "streaks/limits",
     {"by": "model", "scope": "session", "kind": "mistake"}),
    ("tool", ("error_class", "errors"), "breakdown",
     {"by": "error_class", "outcome": "error", "tool": "apply_diff"}),
    ("compare", ("error_class", "a_part", "b_part"), "compare",
     {"measure": "errors_per_1000", "by": "error_class", "dimension": "service_version", "a": "3.1", "b": "3.2"}),
]  # fmt: skip


@pytest.mark.parametrize(("page", "columns", "path", "params"), TABLES, ids=lambda value: str(value)[:30])
def test_the_numbers_of_every_table_are_the_apis(
    full: RunningCollector,
    open_app: Callable[..., AppTest],
    page: str,
    columns: tuple[str, ...],
    path: str,
    params: dict[str, Any],
) -> None:
    many = dict.fromkeys(("rows", "classes.rows", "limits.rows", "storms.rows"), "200")
    app = open_app(full.url, page, from_="-7d", **many, **subject(full, page))
    told = rows(full, path, **params)
    if path == "streaks/limits":
        told = [row for row in told if row["mistake_limit"] == 3 and row["interrupted"]]
    shown = [tuple(row[name] for name in columns) for row in table(app, *columns).rows]
    expected = [tuple(row[name] for name in columns) for row in told]
    if page == "live":
        expected = [(*row[:-1], row[-1] and " ".join(row[-1].split())) for row in expected]  # on one line
    if page == "streaks":
        expected = [(NO_VALUE if row[0] is None else row[0], *row[1:]) for row in expected]
    assert shown
    assert same(shown) == same(expected)


def same(cells: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows in a fixed order, as text, with whole numbers written like fractions."""
    return sorted(
        tuple(str(float(cell)) if isinstance(cell, int | float) else str(cell) for cell in row) for row in cells
    )


def drawn(app: AppTest, alt: str) -> pl.DataFrame:
    """The largest data set of the chart whose sentence begins with this."""
    [chart] = [each.proto for each in app.get("vega_lite_chart") if each.proto.alt.startswith(alt)]
    return max((pl.read_ipc_stream(part.data.data) for part in chart.datasets), key=lambda frame: frame.height)


@pytest.mark.parametrize("page", ["overview", "errors", "group"])
def test_the_bars_over_time_are_all_errors(full: RunningCollector, open_app: Callable[..., AppTest], page: str) -> None:
    about = subject(full, page)
    app = open_app(full.url, page, from_="-7d", **about)
    errors = first(full, "breakdown", **about)["errors"]
    named = "Errors of this group over time" if page == "group" else f"{words.plural(errors, 'error')} over time"
    assert drawn(app, named)["errors"].sum() == errors


def test_the_lines_of_lists_are_the_apis(full: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    labels = [link.proto.label for link in open_app(full.url, from_="-7d").get("page_link")]
    rates = {row["tool"]: row for row in rows(full, "breakdown", by="tool", operation="tool")}
    for row in rows(full, "retries", by="tool", operation="tool", sort="-lasting,-not_known_yet,-errors", limit=6):
        rate = words.rate_of(rates[row["tool"]]["error_rate"], rates[row["tool"]]["rated"])
        lasting = row["lasting"], row["not_known_yet"], row["errors"]
        facts = f"{words.lasting(*lasting, short=True)} · {rate} failed"
        assert f"**{words.plain(row['tool'])}** \u2002 :gray[{facts}]" in labels
    groups = [row for row in rows(full, "groups", limit=500) if row["state"] in {"new", "regressed"}]
    for row in sorted(groups, key=lambda row: -row["events"])[:1]:
        name, many = words.plain(row["error_class"]), words.plural(row["events"], "event")
        assert any(f"**{name}**" in label and many in label for label in labels)


def test_every_verdict_of_compare_is_the_apis(full: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    said = [each.value for each in open_app(full.url, "compare", from_="-7d", service="coder").markdown]
    asked = {"measure": "error_rate,mistakes_per_session,lasting_rate,recovery_rate,streak_rate,p95_ms"}
    sides = {"dimension": "service_version", "a": "3.1", "b": "3.2", "service": "coder"}
    found = rows(full, "compare", **asked, **sides)
    assert len(found) == 6
    for row in found:
        told = any(line.endswith(sentences.compared(row["verdict"], row["sentence"])) for line in said)
        assert told == bool(row["a_whole"] or row["b_whole"]), row


def test_every_finding_of_retries_is_the_apis(full: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(full.url, "retries", from_="-7d")
    shown_table = table(app, "finding")
    told = {row["error_class"]: words.RETRIED[row["verdict"]] for row in rows(full, "retries", by="error_class")}
    shown = dict(zip(shown_table["error_class"], shown_table["finding"], strict=True))
    assert shown == told
    assert shown["ToolTimeoutError"] == "unclear"  # 30 % of 40: its interval begins below 20 %
    assert shown["McpConnectionError"] == "✕ says retry, seldom works"


def test_the_small_bars_are_of_the_error_rate(full: RunningCollector, open_app: Callable[..., AppTest]) -> None:
    app = open_app(full.url, from_="-7d")
    charts = [each.proto for each in app.get("vega_lite_chart") if "equal parts of the range" in each.proto.alt]
    [trend] = charts  # the total of errors is another number
    assert trend.alt.startswith("Error rate in ")
    drawn = pl.read_ipc_stream(trend.datasets[0].data.data)["value"].to_list()
    bars = [bar for bar in drawn if bar]
    told = [row["error_rate"] for row in rows(full, "timeseries", bucket="12h")]  # 7 days in at most 24
    assert bars == pytest.approx([rate for rate in told if rate])


@pytest.mark.parametrize(("page", "about"), [("retries", {}), ("tool", {"tool": "apply_diff"})])
def test_a_recovery_names_the_errors_that_it_is_a_rate_of(
    silent: RunningCollector, open_app: Callable[..., AppTest], page: str, about: dict[str, str]
) -> None:
    total = first(silent, "retries", **about)
    assert (total["retried"], total["rated"]) == (5, 3)
    app = open_app(silent.url, page, from_="-7d", **about)
    assert "of 3 tried again" in [each.value for each in app.caption]
