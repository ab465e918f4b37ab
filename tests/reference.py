"""Streaks and retry chains by their rules, in plain and slow Python, and random sessions to compare the SQL on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.recorded import DAY, HOUR, MINUTE, NOW, SILENT, Event, event
from tests.search import searching

# The rules, implemented literally
# ---------------------------------------------------------------------------


def in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one["time_ns"], one.get("sequence", 2**63), one["event_id"]))


def session_of(one: Event) -> tuple[Any, ...]:
    return one.get("service"), one["session"]


def scope_key(one: Event, scope: str) -> tuple[Any, ...] | None:
    key = (*session_of(one), one.get("subagent"))
    for name in {"session": (), "tool": ("tool",), "target": ("tool", "target")}[scope]:
        if one.get(name) is None:
            return None
        key += (one[name],)
    return key


def counts(one: Event, kind: str) -> bool:
    if kind == "denied":
        return bool(one["outcome"] == "denied")
    return bool(one["outcome"] == "error" and (kind == "error" or one.get("mistake")))


def newest_by_service(events: Iterable[Event]) -> dict[Any, int]:
    newest: dict[Any, int] = {}
    for one in events:
        newest[one.get("service")] = max(newest.get(one.get("service"), 0), one["time_ns"])
    return newest


def expected_streaks(
    events: Sequence[Event], scope: str, kind: str, limit: int, clock_ns: int = 0
) -> list[dict[str, Any]]:
    """Goes through every session event by event, with one open run per scope key.

    What is open ends, too, once the clock is an hour after the last record of the session that was received.
    """
    newest, found = newest_by_service(events), []
    by_session: dict[Any, list[Event]] = defaultdict(list)
    for one in in_order(events):
        if one.get("session") is not None:
            by_session[session_of(one)].append(one)
    for members in by_session.values():
        running: dict[Any, list[Event]] = {}
        resets: dict[Any, int] = {}
        last = None
        for one in members:
            if last is not None and one["time_ns"] - last > HOUR:
                found += [described(run, "ended", limit, scope) for run in running.values()]
                running = {}
            last = one["time_ns"]
            agent = (*session_of(one), one.get("subagent"))
            if one.get("error_class") == "ConsecutiveMistakeError":
                resets[agent] = resets.get(agent, 0) + 1
            key = scope_key(one, scope)
            if one["operation"] != "tool" or key is None:
                continue
            if one["outcome"] == "ok" and key in running:
                found.append(described(running.pop(key), "recovered", limit, scope))
            elif counts(one, kind):
                running.setdefault(key, []).append(one | {"resets": resets.get(agent, 0)})
        assert last is not None
        for run in running.values():
            heard = max(one["received_ns"] for one in members[members.index(first_of(run, members)) :])
            ended = newest[members[0].get("service")] - last > HOUR or clock_ns - heard > HOUR
            found.append(described(run, "ended" if ended else "open", limit, scope))
    return sorted(found, key=lambda one: one["last_event_id"])


def first_of(run: list[Event], members: list[Event]) -> Event:
    return next(one for one in members if one["event_id"] == run[0]["event_id"])


def described(run: list[Event], state: str, limit: int, scope: str) -> dict[str, Any]:
    """One streak; the limit can be reached again after the agent asked its user, or its own count fell."""
    since, times, before, count = 0, 0, None, None
    for one in run:
        told = one.get("reported_streak")
        fell = scope == "session" and told is not None and count is not None and told < count
        count = count if told is None else told
        asked = before is not None and one["resets"] > before["resets"]
        since = 1 if asked or fell else since + 1
        times += since == limit
        before = one
    return {
        "first_event_id": run[0]["event_id"],
        "last_event_id": run[-1]["event_id"],
        "length": len(run),
        "started": run[0]["time_ns"],
        "ended": run[-1]["time_ns"],
        "state": state,
        "limit_times": times,
        "limit_reached": times > 0,
        "classes": sorted({one["error_class"] for one in run if one.get("error_class")}),
        "tools": sorted({one["tool"] for one in run if one.get("tool")}),
    }


def expected_chains(events: Sequence[Event], clock_ns: int = 0) -> dict[int, tuple[Any, ...]]:
    """For each error with a session: retried, recovered, identical retry, identical and changed recovery, attempts.

    Nothing is expected any more, too, once the clock is an hour after the last record of the session in the half hour.
    """
    newest, found = newest_by_service(events), {}
    by_session: dict[Any, list[Event]] = defaultdict(list)
    placed = [one for one in in_order(events) if one.get("session") is not None]
    for one in placed:
        by_session[session_of(one)].append(one)
    for one in placed:
        if one["outcome"] != "error":
            continue
        members = by_session[session_of(one)]
        chain = [
            other
            for other in members[members.index(one) + 1 :]
            if other["time_ns"] - one["time_ns"] <= 30 * MINUTE and chain_key(other) == chain_key(one)
        ]
        ok = next((number for number, other in enumerate(chain) if other["outcome"] == "ok"), None)
        heard = max(other["received_ns"] for other in members if 0 <= other["time_ns"] - one["time_ns"] <= 30 * MINUTE)
        closed = newest[one.get("service")] - one["time_ns"] > 30 * MINUTE or clock_ns - heard > HOUR
        recovered = None if one["source"] in SILENT else True if ok is not None else False if closed else None
        same = [equal(one, other) for other in chain]
        found[one["event_id"]] = (
            bool(chain),
            recovered,
            bool(chain) and same[0] is True,
            bool(recovered) and ok is not None and same[ok] is True,
            bool(recovered) and ok is not None and same[ok] is False,
            ok + 1 if recovered and ok is not None else None,
        )
    return found


def expected_costs(events: Sequence[Event], by: str = "") -> dict[Any, dict[str, Any]]:
    """What failing cost, by a dimension of the first mistake, the failed call, or the retried error.

    Every request is counted once: where it lies within a streak, else for the first failed call that it asked for.
    """
    by_id, ordered = {one["event_id"]: one for one in events}, in_order(events)
    counted: dict[str, set[int]] = {"in streaks": set(), "asking": set(), "again": set()}
    rows: dict[Any, dict[str, Any]] = defaultdict(
        lambda: dict.fromkeys(("streaks", "mistakes", "asking", "seconds"), 0)
    )

    def row_of(one: Event) -> dict[str, Any]:
        row = rows[one.get(by)]
        for name in ("spent", "again", "retries", "senders"):
            row.setdefault(name, [])
        row["senders"].append(sender(one))
        return row

    def once(number: int, where: str) -> list[Event]:
        new = number in by_id and number not in counted[where]
        counted[where].add(number)
        return [by_id[number]] if new else []

    for streak in expected_streaks(events, "session", "mistake", 3):
        first, last = by_id[streak["first_event_id"]], by_id[streak["last_event_id"]]
        mine = [one for one in ordered if scope_key_of(one) == scope_key_of(first)]
        end = mine.index(last)
        if streak["state"] == "recovered":
            end = next(n for n in range(end, len(mine)) if (mine[n]["operation"], mine[n]["outcome"]) == ("tool", "ok"))
        inside = mine[mine.index(first) : end + 1]
        counted["in streaks"] |= {one["event_id"] for one in inside}
        row = row_of(first)
        row["streaks"] += 1
        row["mistakes"] += streak["length"]
        row["seconds"] += (inside[-1]["time_ns"] - first["time_ns"]) / 1e9
        row["spent"] += inside
    for number, (retried, recovered, *_) in sorted(
        expected_chains(events).items(), key=lambda item: (by_id[item[0]]["time_ns"], item[0])
    ):
        error, wasted = by_id[number], retried and recovered is False
        if error["operation"] == "tool" or wasted:
            row = row_of(error)
        if error["operation"] == "tool" and "asked_by" in error and error["asked_by"] not in counted["in streaks"]:
            asking = once(error["asked_by"], "asking")
            row["asking"] += len(asking)
            row["spent"] += asking
        if wasted:
            following = next(one for one in ordered[ordered.index(error) + 1 :] if chain_key(one) == chain_key(error))
            row["retries"].append(following)
            row["again"] += once(following.get("asked_by") or following["event_id"], "again")
    return {key: summed(row, events) for key, row in rows.items()}


def summed(row: dict[str, Any], events: Sequence[Event]) -> dict[str, Any]:
    """The columns of costs; of what no event tells, null, with those who never tell it."""

    def total(some: Iterable[Event], name: str) -> Any:
        told = [one[name] for one in some if name in one]
        return sum(told) if told else None

    def told(some: Iterable[Event]) -> int:
        return sum("input_tokens" in one or "output_tokens" in one for one in some)

    def untold(*names: str) -> list[str]:
        return sorted({*row["senders"]} - {sender(one) for one in events if any(name in one for name in names)})

    spent, again = row.pop("spent"), row.pop("again")
    row["seconds"] = row["seconds"] if row["streaks"] else None
    row |= {name: total(spent, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
    row |= {f"wasted_{name}": total(again, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
    row |= {"calls": len(spent), "told": told(spent), "busy_ms": total(spent, "duration_ms")}
    row |= {"wasted_told": told(again), "wasted_ms": total(row["retries"], "duration_ms")}
    row |= {"tokens_not_told_by": untold("input_tokens", "output_tokens"), "money_not_told_by": untold("cost_usd")}
    del row["senders"]
    return row | {"wasted_retries": len(row.pop("retries"))}


def sender(one: Event) -> str:
    """The service, or the source where no service is named."""
    return str(one.get("service") or one["source"])


def expected_end(mine: Sequence[Event], newest_ns: int, clock_ns: int, silent: Iterable[str] = SILENT) -> str:
    """How a session ended, from its events: `open`, or the outcome of the event that decides.

    `newest_ns`: time of its service's newest event; `silent`: sources that tell only of failures.
    """
    heard, ended = max(one["received_ns"] for one in mine), max(one["time_ns"] for one in mine)
    if newest_ns - ended <= HOUR and clock_ns - heard <= HOUR:
        return "open"
    lasts = {one["operation"]: one for one in in_order(mine)}
    telling = [one for one in lasts.values() if one["operation"] == "tool" or one["outcome"] not in ("ok", "unknown")]
    last = in_order(telling or lasts.values())[-1]
    return "unknown" if last["source"] in silent else str(last["outcome"])


def scope_key_of(one: Event) -> tuple[Any, ...]:
    return one.get("service"), one.get("session"), one.get("subagent")


def chain_key(one: Event) -> tuple[Any, ...]:
    return tuple(one.get(name) for name in ("service", "session", "subagent", "operation", "tool", "target"))


def equal(one: Event, other: Event) -> bool | None:
    hashes = one.get("params_hash"), other.get("params_hash")
    return None if None in hashes else hashes[0] == hashes[1]


# Random sessions
# ----------------------------------------------------------------------------------------------------------

MOST_EVENTS = 25  # of one example of `recorded_sessions`
BESIDE = 12  # on average half of them
STEPS = st.sampled_from([0, 0, 1, MINUTE, 10 * MINUTE, 30 * MINUTE, 30 * MINUTE + 1, HOUR, HOUR + 1, 3 * HOUR])
FIELDS = {
    "outcome": st.sampled_from(["ok", "error", "error", "error", "cancelled", "denied", "unknown"]),
    "mistake": st.sampled_from([True, True, True, False, None]),
    "operation": st.sampled_from(["tool", "tool", "tool", "tool", "model", "agent"]),
    "session": st.sampled_from(["s1", "s1", "s1", "s2", None]),
    "subagent": st.sampled_from([None, None, None, "helper"]),
    "service": st.sampled_from(["api", "api", "web", None]),
    "tool": st.sampled_from(["read", "read", "write", None]),
    "target": st.sampled_from(["/a", "/a", "/b", None]),
    "source": st.sampled_from(["codex", "codex", "roo-code"]),
    "sequence": st.sampled_from([None, None, 1, 2]),
    "params_hash": st.sampled_from([None, 7, 7, 8]),
    "reported_streak": st.sampled_from([None, 1, 2, 3]),
    "error_class": st.sampled_from(["FileNotFoundError", "TimeoutError", "ConsecutiveMistakeError"]),
    "model": st.sampled_from(["m1", "m2", None]),
}
USUAL = {"mistake": True, "tool": "read", "target": "/a", "params_hash": 7, "error_class": "FileNotFoundError"}


@st.composite
def recorded_sessions(draw: st.DrawFn) -> list[Event]:
    """Up to 25 events, zero time, minutes or hours apart, in a random order of arrival.

    Only some fields vary in one example: if all did, hardly any two events would share a scope.
    """
    at, events = NOW - 10 * DAY, []
    varied = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=5)) | {"outcome"}
    for number in range(draw(st.integers(1, MOST_EVENTS))):
        at += draw(STEPS)
        fields = USUAL | {name: draw(FIELDS[name]) for name in sorted(varied)}
        if fields["outcome"] != "error":
            fields |= {"mistake": None, "error_class": None}
        received = at + draw(st.sampled_from([0, 0, 0, MINUTE, HOUR]))
        events.append(event(number, time_ns=at, received_ns=received, **fields))
    return list(draw(st.permutations(events)))


def apart(events: Iterable[Event], number: int) -> list[Event]:
    """The same events in sessions and services of their own, so that others, stored beside them, change nothing of
    them. Only the first may be without a service, which is one, too.
    """

    def own(one: Event, name: str) -> dict[str, str]:
        nameless = number == 0 or name == "session"
        return {name: f"{one.get(name)}-{number}"} if one.get(name) is not None or not nameless else {}

    return [
        one | own(one, "service") | own(one, "session") | {"event_id": one["event_id"] + MOST_EVENTS * number}
        for one in events
    ]


@st.composite
def many_sessions(draw: st.DrawFn) -> list[Event]:
    """Several of `recorded_sessions` beside each other: one statement costs as much for all as for one."""
    drawn = draw(st.lists(recorded_sessions(), min_size=1, max_size=BESIDE))
    return [one for number, events in enumerate(drawn) for one in apart(events, number)]


CHECKED = searching(0.16)  # each example holds several
