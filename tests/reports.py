"""Reports for tests of correlation: builders with sane defaults, and random reports of a few calls.

Their type is Any, as tests give them values that no report may have.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from collector.batch import Batch
from collector.columns import Row
from collector.recognise.identify import key64
from collector.times import SECOND

NOW = 1_800_000_000_000_000_000


def report(**fields: Any) -> Any:
    """A log report of a failed tool call; fields can be replaced, and None removes one."""
    base: Row = {
        "time_ns": NOW, "received_ns": NOW, "source": "x", "source_signal": "log", "service": "s", "operation": "tool",
        "tool": "read", "session": "S", "session_source": "record", "call_id": "c1", "outcome": "error",
        "error_class": "UnknownError", "_rank": 40, "_strength": 40,
    }  # fmt: skip
    return {name: value for name, value in (base | fields).items() if value is not None}


def span(**fields: Any) -> Any:
    """A span's report of the same call: without a session, with the ids of its trace, and successful."""
    return report(
        **{"source_signal": "span", "session": None, "session_source": None, "trace_id": "t1", "span_id": "a1",
           "outcome": "ok", "error_class": None, "_rank": 30, "_strength": 10} | fields
    )  # fmt: skip


def told(number: int, **fields: Any) -> Any:
    """The report of a successful call in a request to a model."""
    ids = {"session": None, "session_source": None, "span_id": None, "call_id": f"c{number}"}
    return span(
        **(ids | {"trace_id": None, "_rank": 3, "_strength": 2, "_twin": ["told", "trace_id", "tool"]} | fields)
    )


def batch(
    *reports: Any,
    sessions: dict[str, str] | None = None,
    named_ns: dict[str, int] | None = None,
    identity: bytes = b"",
) -> Batch:
    """A request of these reports; `sessions` are those that it tells of traces, which began at `named_ns`."""
    name = identity or random.Random(str((reports, sessions, named_ns))).randbytes(16)
    count = len(reports)
    told: list[Any] = [dict(one) for one in reports]
    dropped = Counter({"no_event": 1})
    return Batch(name, NOW, told, sessions or {}, dropped, count + 1, kept=count, named_ns=named_ns or {})


KINDS = st.sampled_from(
    [
        "log", "numbered", "span", "attempt", "its result", "both ids", "child", "told", "told in a trace",
        "prefixed", "below it", "request", "its client",
    ]
)  # fmt: skip
CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3), KINDS), min_size=1, max_size=12)


def made(calls: Sequence[tuple[int, int, int, str]]) -> list[Any]:
    """Reports of a few calls in a few traces of a few sessions, each with other details."""
    reports = []
    for trace, session, call, kind in calls:
        ids = {"trace_id": f"t{trace}", "span_id": f"{trace}{call}"}
        texts = {
            "message": f"{kind} {call}",
            "error_class": ["UnknownError", "FileNotFoundError", "TimeoutError"][call % 3],
        }
        if kind == "log":
            reports.append(report(session=f"S{session}", call_id=f"c{call}", **texts))
        elif kind == "numbered":
            reports.append(report(session="S0", call_id=f"c{call}", attempt=session, **texts))
        elif kind == "span":
            reports.append(span(call_id=f"c{call}", duration_ms=float(call), **ids))
        elif kind in ("attempt", "its result"):  # one second after another
            fails = {"time_ns": NOW + session * SECOND, **(texts | {"outcome": "error"} if session % 2 else {})}
            if kind == "attempt":
                fails |= {"trace_id": f"t{trace}", "span_id": f"r{trace}{session}"}
                reports.append(span(call_id=f"c{call}", duration_ms=1.0, **fails))
            else:
                reports.append(told(call, **(fails | {"trace_id": f"t{trace}", "_strength": 20})))
        elif kind == "both ids":
            reports.append(span(session=f"S{session}", session_source="record", call_id=f"c{call}", _rank=20, **ids))
        elif kind.startswith("told"):
            named = {"session": f"S{session}", "session_source": "record"}
            reports.append(told(call, trace_id=f"t{trace}", **(named if kind == "told" else {})))
        elif kind in ("prefixed", "request"):
            tool, operation = ("x_read", "tool") if kind == "prefixed" else (None, "model")
            whose = {"call_id": None, "span_id": f"o{trace}{call}", "tool": tool, "operation": operation}
            reports.append(span(**(ids | whose), duration_ms=float(session)))
        elif kind in ("below it", "its client"):
            tool, operation = ("read", "tool") if kind == "below it" else (None, "model")
            around = f"o{trace}{call}"
            whose = {"call_id": None, "span_id": f"i{trace}{call}", "tool": tool, "operation": operation, **texts}
            refs = [key64("call of", f"t{trace}", around, tool or operation)]
            reports.append(span(**(ids | whose), outcome="error", parent_span_id=around, _refs=refs))
        else:
            reports.append(span(call_id=None, span_id=f"m{trace}{call}", trace_id=f"t{trace}", mcp_server="m",
                                _refs=[key64("call of", f"t{trace}", f"{trace}{call}", "read")]))  # fmt: skip
    return reports


class Slow:
    """A clock by which everything takes a second, so that the store is seldom asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def pieces(reports: Sequence[Any], sessions: Mapping[str, str], chance: random.Random) -> list[Batch]:
    """Requests of one report each, some of them twice, and of what names the sessions of traces, in any order.

    Two name that of each trace: the agent, and a sub-agent that began later.
    """
    requests = [batch(one) for one in [*reports, *chance.sample(reports, len(reports) // 2)]]
    requests += [batch(sessions={trace: session}, named_ns={trace: NOW}) for trace, session in sessions.items()]
    requests += [batch(sessions={trace: f"sub-agent of {trace}"}, named_ns={trace: NOW + 1}) for trace in sessions]
    chance.shuffle(requests)
    for position, piece in enumerate(requests):  # sent again in different batches, so with different identities
        piece.identity = position.to_bytes(16, "big")
    return requests
