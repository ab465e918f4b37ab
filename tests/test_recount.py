"""What pages say of recorded traffic equals a recount of its events in plain Python, and no part exceeds its whole."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from collector.times import iso_ns
from dashboard.parts import endings, sentences, words
from tests import shown
from tests.conftest import RunningCollector, wait_until
from tests.recorded import Event
from tests.reference import (
    chain_key,
    expected_chains,
    expected_costs,
    expected_end,
    expected_streaks,
    in_order,
    newest_by_service,
    scope_key_of,
    session_of,
)
from tests.test_recordings import FOLDER, exports

# Agents that tell of their calls in different ways: logs, spans, both; with and without sessions, models, arguments.
AGENTS = (
    "claude-code", "codex", "copilot-cli", "gemini-cli-default", "langchain-js", "openai-agents", "opencode",
    "openinference-crewai", "pydantic-ai", "qwen-code", "strands", "vercel-ai",
)  # fmt: skip
LONG_AGO = {"from_": "2020-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z"}
LONG_AGO |= dict.fromkeys(("rows", "tree.rows", "classes.rows", "sessions.rows", "limits.rows"), "200")
HALF_HOUR = 1_800 * 10**9
IDS = ("event_id", "asked_by", "params_hash", "fingerprint")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with recordings of a dozen agents, and one that tells of nothing but failures."""
    running = RunningCollector(tmp_path_factory.mktemp("recorded")).start()
    for agent in AGENTS:
        for signal, body in exports(json.loads((FOLDER / f"{agent}.json").read_text())["records"]):
            assert running.post(f"/v1/{signal}", body).status_code == 200
    assert running.post("/v1/events", json.dumps(failures_only())).is_success
    yield running.kept_up()
    running.stop()


def failures_only() -> list[dict[str, Any]]:
    """Three failures of Roo Code, which logs no successes."""
    at = datetime.now(UTC) - timedelta(hours=3)
    return [
        {"level": "error", "category": "tool_execution", "tool": "apply_diff", "error_type": "DiffApplyError",
         "message": f"failed {second}", "timestamp": round((at.timestamp() + second) * 1000), "task_id": "r",
         "params": {"path": "a"}}
        for second in range(3)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def events(recorded: RunningCollector) -> list[Event]:
    """Every event, as the reference wants them: with times as numbers, and without what is not known."""
    rows = recorded.events()
    for row in rows:
        row["time_ns"], row["received_ns"] = iso_ns(row["time"]), iso_ns(row["received_time"])
        row |= {name: int(row[name]) for name in IDS if row.get(name) is not None}
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.fixture(scope="module")
def silent(recorded: RunningCollector) -> frozenset[str]:
    """The sources that report only failures."""
    rows = recorded.get("/api/v1/sources", **{"from": LONG_AGO["from_"]})["rows"]
    return frozenset(row["source"] for row in rows if row["reports_ok"] is False)


def of(events: Iterable[Event], **values: Any) -> list[Event]:
    """The events that have these values."""
    return [one for one in events if all(one.get(name) == value for name, value in values.items())]


def outcomes(events: Iterable[Event]) -> Counter[str]:
    return Counter(one["outcome"] for one in events)


def rate(events: Iterable[Event], silent: frozenset[str]) -> tuple[float | None, int]:
    """The rate of errors, and the number of calls that it is of."""
    seen = outcomes(one for one in events if one["source"] not in silent)
    rated = seen["ok"] + seen["error"]
    return (seen["error"] / rated if rated else None), rated


def sessions(events: Iterable[Event]) -> set[tuple[Any, ...]]:
    return {session_of(one) for one in events if "session" in one}


def lasting(mine: Iterable[Event], events: list[Event]) -> tuple[int, int, int]:
    """Of the errors in sessions, how many last, of how many that is not known yet, and their number."""
    chains = expected_chains(events)
    repaired = [chains[one["event_id"]][1] for one in mine if one["event_id"] in chains]
    return repaired.count(False), repaired.count(None), len(repaired)


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: str(metric.value) for metric in app.metric}


def captions(app: AppTest) -> list[str]:
    return [each.value for each in app.caption]


def links(app: AppTest) -> list[str]:
    return [link.proto.label for link in app.get("page_link")]


def table(app: AppTest, *columns: str) -> list[dict[str, Any]]:
    """The rows of the one table that has these columns; cells that are not there are None."""
    return [{name: row[name] for name in columns} for row in shown.table(app, *columns).rows]


def test_overview(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    app = open_app(recorded.url, **LONG_AGO)
    share, rated = rate(events, silent)
    errors = of(events, outcome="error")
    assert metrics(app)["Error rate"] == words.rough(share, rated)
    assert f"of {words.plural(rated, 'call')} →" in links(app)
    assert metrics(app)["Sessions hit"] == words.count(len(sessions(errors)))
    assert f"of {words.plural(len(sessions(events)), 'session')} →" in links(app)
    certain, open_, of_all = lasting(events, events)
    assert metrics(app)["Lasting errors"] == words.count(certain)
    assert f"of {words.plural(of_all, 'error')} →" in links(app) or f"of {of_all} errors with a session →" in links(app)
    assert any(f"{open_} not known yet" in said for said in captions(app))
    seen = outcomes(events)
    left_out = [f"{seen[outcome]} {outcome}" for outcome in ("cancelled", "denied") if seen[outcome]]
    left_out += [f"{seen['unknown']} with an unknown outcome"] if seen["unknown"] else []
    [line] = [said for said in captions(app) if said.startswith("Rates are of")]
    assert line.startswith(f"Rates are of {words.count(rated)} of the {words.plural(len(events), 'call')}, without ")
    assert all(part in line for part in left_out)
    assert "3 errors of roo\\-code, which tells only of failures" in line
    assert f"**{words.rate_of(share, rated)}** calls failed" in " ".join(each.value for each in app.markdown)


def test_fix_first(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    app = open_app(recorded.url, **LONG_AGO)
    tools = {one["tool"] for one in of(events, operation="tool", outcome="error") if "tool" in one}
    listed = [tool for tool in tools if any(f"**{words.plain(tool)}**" in label for label in links(app))]
    assert listed
    for tool in listed:
        mine = of(events, operation="tool", tool=tool)
        share, rated = rate(mine, silent)
        [label] = [each for each in links(app) if f"**{words.plain(tool)}**" in each and "lasting" in each]
        assert words.lasting(*lasting(mine, events), short=True) in label
        assert f"{words.rate_of(share, rated)} failed" in label


def test_tools(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    app = open_app(recorded.url, "tools", **LONG_AGO)
    rows = table(app, "tool", "calls", "errors", "error_rate", "cancelled", "denied")
    assert {row["tool"] for row in rows} == {one["tool"] for one in of(events, operation="tool") if "tool" in one}
    for row in rows:
        mine = of(events, operation="tool", tool=row["tool"])
        seen = outcomes(mine)
        assert row == {
            "tool": row["tool"], "calls": len(mine), "errors": seen["error"], "cancelled": seen["cancelled"],
            "denied": seen["denied"], "error_rate": words.rate_of(*rate(mine, silent)),
        }  # fmt: skip


def test_tool(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    [(tool, _)] = Counter(one["tool"] for one in of(events, operation="tool", outcome="error")).most_common(1)
    app = open_app(recorded.url, "tool", tool=tool, **LONG_AGO)
    mine = of(events, tool=tool)
    seen = outcomes(mine)
    assert metrics(app)["Error rate"] == words.rough(*rate(mine, silent))
    assert metrics(app)["Cancelled · denied"] == f"{seen['cancelled']} · {seen['denied']}"
    classes = Counter(one["error_class"] for one in of(mine, outcome="error"))
    assert {row["error_class"]: row["errors"] for row in table(app, "error_class", "errors")} == classes
    streaks = expected_streaks(events, "tool", "mistake", 3)
    lengths = sorted((one["length"] for one in streaks if one["tools"] == [tool] and one["length"] > 1), reverse=True)
    shown = [int(found[1]) for label in links(app) if (found := re.search(r"(\d+) in a row", label))]
    assert shown
    assert shown == lengths[: len(shown)]


def test_errors(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    app = open_app(recorded.url, "errors", **LONG_AGO)
    named = ("error_class", "template", "tool")
    told = [one for one in events if "fingerprint" in one]
    groups = Counter(tuple(map(one.get, named)) for one in told)
    rows = table(app, *named, "events", "sessions")
    shown = [tuple(map(row.get, named)) for row in rows]
    counted: Counter[tuple[Any, ...]] = Counter()
    for key, row in zip(shown, rows, strict=True):
        counted[key] += int(row["events"])
    assert counted == groups
    for row in (row for key, row in zip(shown, rows, strict=True) if shown.count(key) == 1):
        mine = [one for one in told if [*map(one.get, named)] == [*map(row.get, named)]]
        assert row["sessions"] == len(sessions(mine))
    tree = {row["name"].strip(): row["errors"] for row in table(app, "name", "errors", "share")}
    for level in ("domain", "category", "error_class"):
        for name, number in Counter(one[level] for one in of(events, outcome="error") if level in one).items():
            assert tree[name] == number or level != "error_class"


def test_sessions(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    rows = table(
        open_app(recorded.url, "sessions", **LONG_AGO),
        "session", "service", "calls", "errors", "worst_streak", "lasting", "not_known_yet", "state",
    )  # fmt: skip
    newest = newest_by_service(events)
    by_session: dict[Any, list[Event]] = {}
    for one in events:
        if "session" in one:
            by_session.setdefault((one.get("service"), one["session"]), []).append(one)
    assert {(row["service"], row["session"]) for row in rows} == by_session.keys()
    for row in rows:
        mine = by_session[row["service"], row["session"]]
        streaks = expected_streaks(mine, "session", "mistake", 3)
        assert row["calls"] == len(mine)
        assert row["errors"] == len(of(mine, outcome="error"))
        assert row["worst_streak"] == max((streak["length"] for streak in streaks), default=0)
        assert (row["lasting"], row["not_known_yet"]) == lasting(mine, events)[:2]
        end = expected_end(mine, newest[row["service"]], time.time_ns(), silent)
        assert row["state"] in ({one.get("error_class") for one in mine} if end == "error" else {endings.STATES[end]})


def test_session(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    """The session with most calls of each agent."""
    by_session: dict[Any, list[Event]] = {}
    for one in sorted(events, key=lambda one: one["time_ns"]):
        if "session" in one:
            by_session.setdefault((one["source"], one.get("service"), one["session"]), []).append(one)
    largest = {source: mine for (source, *_), mine in sorted(by_session.items(), key=lambda pair: len(pair[1]))}
    for mine in [largest["claude-code"], largest["codex"], largest["roo-code"]]:
        app = open_app(recorded.url, "session", session=mine[0]["session"])
        streaks = [one for one in expected_streaks(mine, "session", "mistake", 3) if one["length"] >= 2]
        told = {
            name: [one[name] for one in mine if name in one] for name in ("input_tokens", "output_tokens", "cost_usd")
        }
        tokens, money = [*told["input_tokens"], *told["output_tokens"]], told["cost_usd"]
        figures = metrics(app)
        assert figures["Calls"] == words.count(len(mine)) == str(len(shown.recorder(app)["marks"]))
        assert figures["Errors"] == words.count(len(of(mine, outcome="error")))
        assert figures["Streaks"] == words.count(len(streaks)) == str(len(shown.recorder(app)["brackets"]))
        assert figures["Tokens"] == words.count(sum(tokens) if tokens else None)
        assert figures["Money"] == words.plain(words.dollars(sum(money) if money else None))


def test_streaks(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    """What a limit would have done, for each limit of the slider that stops a session."""
    found = expected_streaks(events, "session", "mistake", 3)
    by_id = {one["event_id"]: one for one in events}
    whose = [session_of(by_id[one["first_event_id"]]) for one in found]
    untold = {session_of(one) for one in events if "session" in one and one["source"] in silent}
    in_tools = sessions(of(events, operation="tool"))
    longest = max(one["length"] for one in found)
    assert longest > 2
    for limit in range(2, min(longest, 10) + 1):
        reached = [(key, one) for key, one in zip(whose, found, strict=True) if one["length"] >= limit]
        fates = {key: {one["state"] for other, one in reached if other == key} for key, _ in reached}
        rated = [states for key, states in fates.items() if key not in untold]
        recovered = rated.count({"recovered"})
        facts = {
            "sessions": len(in_tools), "interrupted": len(fates), "rated": len(rated), "recovered": recovered,
            "recovery_rate": recovered / len(rated) if rated else None,
            "not_known_yet": sum("open" in states and "ended" not in states for states in rated),
            "mistakes_saved": sum(one["length"] - limit for _, one in reached),
        }  # fmt: skip
        app = open_app(recorded.url, "streaks", limit=str(limit), **LONG_AGO)
        assert sentences.limit(limit, facts) in [each.value for each in app.markdown]


def test_streak(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    """The page of a session's longest streak: how many in a row, and which calls they are."""
    by_id = {one["event_id"]: one for one in events}
    longest = max(expected_streaks(events, "session", "mistake", 3), key=lambda each: each["length"])
    first = by_id[longest["first_event_id"]]
    link = {name: first[name] for name in ("session", "service") if name in first}
    app = open_app(recorded.url, "streak", started=first["time"], **link)
    assert f"{longest['length']} in a row" in [each.value for each in app.subheader]


@pytest.mark.parametrize(("by", "column"), [("model", "model"), ("agent", "agent"), ("provider", "provider")])
def test_models(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest], by: str,
    column: str,
) -> None:  # fmt: skip
    """The page's own table: calls of tools that ended well or not, what was not repaired, and streaks."""
    app = open_app(recorded.url, "models", by=by, **LONG_AGO)
    chains, streaks = expected_chains(events), of_streaks(events, (column,))
    tools = of(events, operation="tool")
    rated = [one for one in tools if one["outcome"] in ("ok", "error") and one["source"] not in silent]
    told = {row["name"]: row for row in table(app, "name", "calls", "lasting", "not_known_yet", "streaks")}
    assert len(told) == len({one.get(column) for one in rated})
    for value in {one[column] for one in rated if column in one}:
        fates = [chains[one["event_id"]][1] for one in of(tools, **{column: value}) if one["event_id"] in chains]
        assert told[value] == {
            "name": value, "calls": len(of(rated, **{column: value})), "lasting": fates.count(False),
            "not_known_yet": fates.count(None), "streaks": len(streaks[(value,)]),
        }  # fmt: skip


def test_retries(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    app = open_app(recorded.url, "retries", **LONG_AGO)
    chains = expected_chains(events)
    assert metrics(app)["Errors"] == words.count(len(chains))
    assert metrics(app)["Tried again"] == words.count(sum(retried for retried, *_ in chains.values()))
    by_id = {one["event_id"]: one for one in events}
    rated = {number: chain for number, chain in chains.items() if chain[0] and by_id[number]["source"] not in silent}
    assert metrics(app)["Lasting errors"] == words.count(lasting(events, events)[0])
    recovered = sum(chain[1] is True for chain in rated.values())
    assert metrics(app)["Recovery"] == words.rough(recovered / len(rated) if rated else None, len(rated))
    assert metrics(app)["Identical retries"] == words.count(sum(chain[2] for chain in chains.values()))


def test_costs(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    """Services of which no event tells tokens, or money, are named, and only they."""
    [told] = expected_costs(events).values()
    [answer] = recorded.get("/api/v1/costs", **{"from": LONG_AGO["from_"]})["rows"]
    sums = {name: pytest.approx(value) if isinstance(value, float) else value for name, value in told.items()}
    assert answer == sums
    assert told["asking"]
    assert told["input_tokens"]
    assert "claude-code" not in told["money_not_told_by"]
    by_service = recorded.get("/api/v1/costs", **{"from": LONG_AGO["from_"], "by": "service"})["rows"]
    assert {row["service"]: row["input_tokens"] for row in by_service} == {
        service: row["input_tokens"] for service, row in expected_costs(events, "service").items()
    }
    app = open_app(recorded.url, "retries", **LONG_AGO)
    assert metrics(app)["Calls spent"] == words.count(told["calls"])
    assert metrics(app)["Tokens spent"] == words.count(told["input_tokens"] + told["output_tokens"])
    assert metrics(app)["Money spent"] == words.dollars(told["cost_usd"])
    [tokens, money] = [said for said in captions(app) if said.startswith("not told by: ")]
    assert tokens == sentences.not_told(told["tokens_not_told_by"])
    assert money == sentences.not_told(told["money_not_told_by"])


def test_compare(
    recorded: RunningCollector, events: list[Event], silent: frozenset[str], open_app: Callable[..., AppTest]
) -> None:
    """The two services with the most calls, each measure's parts and wholes, and the classes of both."""
    calls = Counter(one["service"] for one in events if "service" in one)
    (a, _), (b, _) = sorted(calls.most_common(), key=lambda each: -each[1])[:2]
    app = open_app(recorded.url, "compare", by="service", a=a, b=b, **LONG_AGO)
    sides = {"dimension": "service", "a": a, "b": b, "from": LONG_AGO["from_"], "to": LONG_AGO["to"]}
    rows = recorded.get("/api/v1/compare", measure="error_rate,lasting_rate,mistakes_per_session", **sides)["rows"]
    said = {row["measure"]: row for row in rows}
    for side, service in (("a", a), ("b", b)):
        mine = of(events, service=service)
        share, rated = rate(mine, silent)
        errors = sum(one["outcome"] == "error" for one in mine if one["source"] not in silent)
        assert (said["error_rate"][f"{side}_part"], said["error_rate"][f"{side}_whole"]) == (errors, rated)
        assert said["error_rate"][side] == pytest.approx(share)
        last, unknown, all_errors = lasting([one for one in mine if one["outcome"] == "error"], events)
        assert said["lasting_rate"][f"{side}_part"] == last
        assert said["lasting_rate"][f"{side}_whole"] == all_errors - unknown
        assert said["mistakes_per_session"][f"{side}_whole"] == len(sessions(mine))
    spoken = [each.value for each in app.markdown]
    for measure, label in (("error_rate", "Error rate"), ("mistakes_per_session", "Mistakes per session")):
        row = said[measure]
        assert f"{label}: {sentences.compared(row['verdict'], row['sentence'])}" in spoken
    classes = {
        row["error_class"]: (int(row["a_part"] or 0), int(row["b_part"] or 0))
        for row in table(app, "error_class", "a_part", "b_part")
    }
    counts = {
        side: Counter(
            one["error_class"] for one in of(events, service=side, outcome="error") if one["source"] not in silent
        )
        for side in (a, b)
    }
    assert classes == {name: (counts[a][name], counts[b][name]) for name in counts[a].keys() | counts[b].keys()}


def of_streaks(events: list[Event], keys: tuple[str, ...]) -> dict[Any, list[int]]:
    """For each value of the first mistake, how many calls the session made in each of its streaks."""
    found: dict[Any, list[int]] = defaultdict(list)
    by_id, ordered = {one["event_id"]: one for one in events}, in_order(events)
    for streak in expected_streaks(events, "session", "mistake", 3):
        first, last = by_id[streak["first_event_id"]], by_id[streak["last_event_id"]]
        lane = [one for one in ordered if scope_key_of(one) == scope_key_of(first)]
        end = lane.index(last)
        if streak["state"] == "recovered":
            end = next(n for n in range(end, len(lane)) if (lane[n]["operation"], lane[n]["outcome"]) == ("tool", "ok"))
        found[tuple(first.get(key) for key in keys)].append(end + 1 - lane.index(first))
    return found


@pytest.mark.parametrize("by", ["model", "agent", "provider", "service_version"])
def test_ranking(recorded: RunningCollector, events: list[Event], silent: frozenset[str], by: str) -> None:
    """Mistakes in a hundred calls of tools, at the tools of each and at those of all, and what they cost."""
    keys = ("service", by) if by == "service_version" else (by,)
    rows = recorded.get("/api/v1/ranking", **{"from": LONG_AGO["from_"], "by": by})["rows"]
    rated = [
        one for one in of(events, operation="tool") if one["outcome"] in ("ok", "error") and one["source"] not in silent
    ]  # fmt: skip
    every = Counter(one.get("tool") for one in rated)
    chains, streaks = expected_chains(events), of_streaks(events, keys)
    costs = {} if len(keys) > 1 else expected_costs(events, by)
    told = {tuple(row[key] for key in keys): row for row in rows}
    assert told.keys() == {tuple(one.get(key) for key in keys) for one in rated}
    for key, row in told.items():
        mine = [one for one in rated if tuple(one.get(name) for name in keys) == key]
        missed = [one for one in mine if one["outcome"] == "error" and one.get("mistake")]
        assert (row["calls"], row["mistakes"]) == (len(mine), len(missed))
        assert row["per_100"] == pytest.approx(100 * len(missed) / len(mine))
        assert row["low"] <= row["per_100"] + 1e-9
        assert row["high"] >= row["per_100"] - 1e-9
        calls, wrong = (Counter(one.get("tool") for one in some) for some in (mine, missed))
        whole = sum(every[tool] for tool in calls)
        equal = sum(every[tool] / whole * wrong[tool] / calls[tool] for tool in calls)
        assert row["equal_per_100"] == pytest.approx(100 * equal)
        assert row["covered"] == pytest.approx(whole / every.total())
        assert row["equal_low"] <= row["equal_per_100"] + 1e-9 <= row["equal_high"] + 2e-9
        fates = [
            chains[one["event_id"]][1] for one in of(events, operation="tool")
            if one["event_id"] in chains and tuple(one.get(name) for name in keys) == key
        ]  # fmt: skip
        assert (row["errors"], row["lasting"], row["not_known_yet"]) == (
            len(fates), fates.count(False), fates.count(None),
        )  # fmt: skip
        assert row["streaks"] == len(streaks[key])
        if cost := costs.get(key[0]):
            lost = {name: row[f"lost_{name}"] for name in ("calls", "input_tokens", "output_tokens", "cost_usd")}
            assert lost == {name: pytest.approx(cost[name]) if cost[name] else cost[name] for name in lost}
    order = [(row["calls"] < 20, -row["per_100"]) for row in rows]
    assert order == sorted(order)


def test_texts(recorded: RunningCollector, events: list[Event]) -> None:
    """What followed each error of a tool, and the tokens that its session told of until a repair."""
    rows = recorded.get("/api/v1/texts", **{"from": LONG_AGO["from_"], "limit": 10_000})["rows"]
    chains, ordered = expected_chains(events), in_order(events)
    lanes: dict[Any, list[Event]] = {}
    for one in ordered:
        if one.get("session") is not None:
            lanes.setdefault((*session_of(one), one.get("subagent")), []).append(one)
    found: dict[int, Counter[str]] = {}
    tokens: dict[int, list[int]] = {}
    for key, lane in lanes.items():
        assert key
        for place, one in enumerate(lane):
            if one["outcome"] != "error" or one.get("operation") != "tool" or "fingerprint" not in one:
                continue
            retried, recovered, identical, *_ = chains[one["event_id"]]
            later = [
                other for other in of(lane, operation="tool") if 0 < other["time_ns"] - one["time_ns"] <= HALF_HOUR
            ]
            step = "other_tool" if later else "gave_up"
            step = ("repeated" if identical else "changed") if retried else step
            step = {True: "repaired", None: "not_known_yet", False: step}[recovered]
            found.setdefault(one["fingerprint"], Counter())[step] += 1
            if recovered:
                good = next(other for other in lane[place + 1 :]
                            if other["outcome"] == "ok" and chain_key(other) == chain_key(one))  # fmt: skip
                told = [other for other in lane if "input_tokens" in other or "output_tokens" in other]
                if any(other["time_ns"] <= good["time_ns"] for other in told):
                    tokens.setdefault(one["fingerprint"], []).append(sum(
                        other.get("input_tokens", 0) + other.get("output_tokens", 0)
                        for other in told if one["time_ns"] < other["time_ns"] <= good["time_ns"]
                    ))  # fmt: skip
    steps = ("repaired", "changed", "repeated", "other_tool", "gave_up", "not_known_yet")
    assert {int(row["fingerprint"]): Counter({step: row[step] for step in steps if row[step]}) for row in rows} == found
    assert all(row["errors"] == sum(row[step] for step in steps) for row in rows)
    assert {int(row["fingerprint"]): row["median_tokens"] for row in rows if row["tokens_told"]} == {
        fingerprint: median(many) for fingerprint, many in tokens.items()
    }  # fmt: skip
    assert tokens
    assert len({step for counts in found.values() for step in counts}) > 3


def test_sources(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    rows = table(open_app(recorded.url, "sources", **LONG_AGO), "source", "service", "events", "errors")
    told = {(row["source"], row["service"]): (row["events"], row["errors"]) for row in rows}
    senders = [(one["source"], one.get("service")) for one in events]
    for key in {*senders}:
        mine = [one for one, sender in zip(events, senders, strict=True) if sender == key]
        assert told.pop(key) == (len(mine), len(of(mine, outcome="error")))
    assert told == {}


def test_live(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    rows = table(open_app(recorded.url, "live", **LONG_AGO), "outcome", "error_class", "message")
    newest = sorted(events, key=lambda one: one["time_ns"])[-len(rows) :]
    assert Counter(row["outcome"] for row in rows) == outcomes(newest)
    assert Counter(row["error_class"] for row in rows) == Counter(one.get("error_class") for one in newest)


def test_group(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    [(fingerprint, number)] = Counter(one["fingerprint"] for one in of(events, outcome="error")).most_common(1)
    mine = of(events, fingerprint=fingerprint)
    told = metrics(open_app(recorded.url, "group", fingerprint=str(fingerprint), **LONG_AGO))
    assert told["Events"] == words.count(number)
    assert told["Sessions"] == words.count(len(sessions(mine)))
    using = sessions(of(events, operation="tool", tool=mine[0].get("tool")))
    assert told["Spread"] == words.rough(len(sessions(mine)) / len(using), len(using))


def test_health(recorded: RunningCollector, events: list[Event], open_app: Callable[..., AppTest]) -> None:
    app = open_app(recorded.url, "health")
    assert metrics(app)["Events"] == words.count(len(events))
    [said] = [each.value for each in app.markdown if "nothing has been lost" in each.value]
    left, right = said.replace(",", "").split("=")
    assert sum(map(int, re.findall(r"\d+", right))) == int(re.findall(r"\d+", left)[0])


MEASURED = """
rules:
  - {name: failing, measure: errors, by: [service], where: {tool: [edit, grep]}, window: 1h, condition: "> 1000"}
  - {name: bad-rate, measure: error_rate, by: [tool], window: 1h, condition: "> 0.99", min_calls: 1}
  - {name: in-a-row, measure: streak, by: [service, session], window: 1h, condition: ">= 100"}
  - {name: broken, measure: failing_sessions, by: [tool], window: 1h, condition: "> 0.99", min_calls: 1}
"""


def test_alerts(
    start_collector: Callable[..., RunningCollector], open_app: Callable[..., AppTest], tmp_path: Path
) -> None:
    """What each rule measures now, over 300 random calls of the last minutes."""
    (rules := tmp_path / "alerts.yaml").write_text(MEASURED)
    running = start_collector(RULES=str(rules))
    random, start = Random(7), datetime.now(UTC) - timedelta(minutes=6)
    calls = [
        {"time": (start + timedelta(seconds=number)).isoformat(), "service": random.choice("ab"),
         "session": f"s{random.randrange(12)}", "tool": random.choice(["edit", "grep", "bash"]), "call_id": str(number)}
        | random.choice([{"outcome": "ok"}, {"outcome": "error", "error_class": "InvalidParameterError"}])
        for number in range(300)
    ]  # fmt: skip
    assert running.post("/v1/events", json.dumps(calls)).is_success
    running.kept_up()

    def share(mine: list[dict[str, Any]]) -> float:
        failed = [one for one in mine if one["outcome"] == "error"]
        return len(failed) / len(mine)

    def grouped(*names: str) -> list[list[dict[str, Any]]]:
        found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for one in calls:
            found[tuple(one[name] for name in names)].append(one)
        return list(found.values())

    errors = Counter(one["service"] for one in calls if one["outcome"] == "error" and one["tool"] != "bash")
    still_open = [
        len(list(takewhile(lambda one: one["outcome"] == "error", reversed(lane))))
        for lane in grouped("service", "session")
    ]
    broken = max(
        sum(share(mine) > 0.5 for mine in grouped("tool", "service", "session") if mine[0]["tool"] == tool)
        / sum(mine[0]["tool"] == tool for mine in grouped("tool", "service", "session"))
        for tool in ("edit", "grep", "bash")
    )
    rate = max(share(mine) for mine in grouped("tool"))
    expected = {"failing": f"{max(errors.values())}", "in-a-row": f"{max(still_open)}"}
    expected |= {"bad-rate": f"{rate * 100:.0f} %", "broken": f"{broken * 100:.0f} %"}

    wait_until(lambda: all(row["value"] for row in running.get("/api/v1/rules")["rows"]))
    rows = table(open_app(running.url, "alerts"), "name", "value_text")
    assert {row["name"]: row["value_text"].split(" of ")[0].replace("\u00a0", " ") for row in rows} == expected


PAGES = ("overview", "tools", "errors", "sessions", "retries", "streaks", "compare", "sources", "live", "health")
SHARE = re.compile(r"(?<![\d,.])([\d,]+) of (?:the )?([\d,]+)(?![\d,.]| ?%)")


@pytest.mark.parametrize("page", PAGES)
def test_no_part_is_larger_than_its_whole(
    recorded: RunningCollector, open_app: Callable[..., AppTest], page: str
) -> None:
    app = open_app(recorded.url, page, **LONG_AGO)
    assert not app.exception
    assert not [said for said in captions(app) if "failed (id" in said]
    texts = [*captions(app), *links(app), *(each.value for each in app.markdown)]
    found = [one for text in texts for one in SHARE.finditer(text)]
    larger = [one[0] for one in found if number(one[1]) > number(one[2])]
    assert larger == []


def number(text: str) -> int:
    return int(text.replace(",", ""))
