"""Alerts over time: lines of values, and the state after each; then who is sent what."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from collector.alerts.rules import Receiver, Rule, parse_condition
from collector.alerts.state import Alert, Notified, Reason, State, due, step
from collector.measures.measure import Sample
from collector.times import SECOND

MINUTE = 60 * SECOND
START = 1_760_000_000 * SECOND

# Values come once a minute: "5" is a value of 100 calls, "5/3" one of 3 calls, "5x4" four in a row, "5~2" one with a
# baseline, "-" no sample, "?" a sample without a value, "(10m)" ten minutes without an evaluation. States: P pending,
# F firing, R resolved and not yet sent, "." none.
TIMELINES: list[tuple[str, dict[str, Any], str, str]] = [
    ("fires at once without for", {}, "1 3 4 4 3", "..FFR"),
    ("counts from the first evaluation at which it holds", {"for_ns": 2 * MINUTE}, "4 4 4 4", "PPFF"),
    ("one value below starts for again", {"for_ns": 2 * MINUTE}, "4 4 1 4 4 4", "PP.PPF"),
    ("a missing sample starts for again", {"for_ns": 2 * MINUTE}, "4 4 - 4 4 4", "PP.PPF"),
    ("a sample without a value does not hold", {"for_ns": 2 * MINUTE}, "4 4 ? 4", "PP.P"),
    ("resolves when nothing is left in the window", {}, "4 -", "FR"),
    ("resolves when nothing can be said", {}, "4 ?", "FR"),
    ("stays resolved until somebody forgets it", {}, "4 1x3 -x2", "FRRRRR"),
    ("fires again after it resolved", {}, "4 1 4 1", "FRFR"),
    ("is pending again after it resolved", {"for_ns": 2 * MINUTE}, "4x3 1 4 4 4", "PPFRPPF"),
    ("is resolved again if it was only pending", {"for_ns": 2 * MINUTE}, "4x3 1 4 1", "PPFRPR"),
    ("hysteresis: resolves only below recover", {"recover": "< 2"}, "4 3 2 3 2 1 3 4", "FFFFFRRF"),
    ("hysteresis downwards", {"condition": "< 2", "recover": "> 4"}, "3 1 3 4 5 3 1", ".FFFRRF"),
    ("keeps firing for a while after it last held", {"keep_firing_ns": 3 * MINUTE}, "4 1 1 1 1", "FFFRR"),
    ("flapping is one firing", {"keep_firing_ns": 3 * MINUTE}, "4 1 4 1 1 4 1 1 1", "FFFFFFFFR"),
    ("keeps firing without samples too", {"keep_firing_ns": 2 * MINUTE}, "4 - -", "FFR"),
    ("flapping without damping is many", {}, "4 1 4 1 4 1", "FRFRFR"),
    ("too few calls never fire", {"min_calls": 20}, "4/19x3 4/20", "...F"),
    ("too few calls do not keep it pending", {"min_calls": 20, "for_ns": 2 * MINUTE}, "4 4/3 4 4 4", "P.PPF"),
    (
        "too few calls that look well do not resolve it",
        {"min_calls": 20, "window_ns": 9 * MINUTE},
        "4 1/3x3 4",
        "FFFFF",
    ),
    ("but do a window after it last looked bad", {"min_calls": 20, "window_ns": 3 * MINUTE}, "4 1/3x3", "FFFR"),
    (
        "too few calls that look bad keep it",
        {"min_calls": 20, "window_ns": 3 * MINUTE},
        "4 9/3x9 1/3x3",
        "FFFFFFFFFFFFR",
    ),
    ("enough calls that look well resolve it", {"min_calls": 20}, "4 1/20", "FR"),
    ("no calls at all resolve it", {"min_calls": 20}, "4 4/3 -", "FFR"),
    ("a short stop does not disturb for", {"for_ns": 10 * MINUTE}, "4 (3m) 4x7", "PPPPPPPF"),
    ("a long stop starts for again", {"for_ns": 3 * MINUTE}, "4 4 (60m) 4x4", "PPPPPF"),
    ("a stop shorter than for is bridged", {"for_ns": 60 * MINUTE}, "4 (58m) 4 4", "PPF"),
    ("a firing alert outlasts a long stop", {"for_ns": 3 * MINUTE}, "4x4 (600m) 4 1", "PPPFFR"),
    ("baseline: compares with what was", {"condition": "> 2x previous 1d"}, "3~1 2~1 5~3 5~ 7~3", "FRRRF"),
    ("a clock that is set back starts for again", {"for_ns": 2 * MINUTE}, "4 (-9m) 4 4 4", "PPPF"),
]


def rule_of(condition: str = "> 3", recover: str | None = None, **fields: Any) -> Rule:
    parsed = parse_condition(condition, "errors")
    back = parse_condition(recover, "errors") if recover else None
    return replace(Rule("r", "errors", parsed, {}, by=("tool",)), recover=back, **fields)


def samples(line: str) -> list[tuple[int, Sample | None]]:
    """(minutes since the previous one, sample) for each value of a line."""
    found: list[tuple[int, Sample | None]] = []
    gap = 0
    for word in line.split():
        if match := re.fullmatch(r"\((-?\d+)m\)", word):
            gap = int(match[1])
            continue
        text, _, times = word.partition("x")
        for _ in range(int(times or 1)):
            found.append((1 + gap, _sample(text)))
            gap = 0
    return found


def _sample(text: str) -> Sample | None:
    if text == "-":
        return None
    number, tilde, baseline = text.partition("~")
    value, _, calls = number.partition("/")
    return Sample(
        {"tool": "x"},
        None if value == "?" else float(value),
        int(calls or 100),
        float(baseline) if tilde and baseline else None,
    )


def letter(alert: Alert | None) -> str:
    if alert is None:
        return "."
    return {State.PENDING: "P", State.FIRING: "F", State.INACTIVE: "R"}[alert.state]


@pytest.mark.parametrize(
    ("fields", "values", "states"), [case[1:] for case in TIMELINES], ids=[case[0] for case in TIMELINES]
)
def test_timeline(fields: dict[str, Any], values: str, states: str) -> None:
    rule = rule_of(**fields)
    alert: Alert | None = None
    now_ns = START
    seen = ""
    for minutes, sample in samples(values):
        now_ns += minutes * MINUTE
        alert = step(alert, rule, sample, now_ns)
        seen += letter(alert)
    assert seen == states


def test_the_times_of_a_firing() -> None:
    rule = rule_of(for_ns=MINUTE, keep_firing_ns=2 * MINUTE)
    alert = None
    history = []
    for i, value in enumerate((4, 5, 6, 1, 2)):
        alert = step(alert, rule, Sample({"tool": "x"}, value, 10 + i), START + i * MINUTE)
        history.append(alert)
    pending, firing, *_, last = history
    assert pending == Alert("r", (("tool", "x"),), State.PENDING, 4, 10, 3, START, START)
    severity = (("severity", "warning"),)
    since = START, START + MINUTE, START + MINUTE
    assert firing == Alert("r", (("tool", "x"),), State.FIRING, 5, 11, 3, *since, rule_labels=severity)
    assert last == Alert(
        "r",
        (("tool", "x"),),
        State.INACTIVE,
        value=6,
        calls=12,
        threshold=3,
        since_ns=START,
        last_seen_ns=START + 2 * MINUTE,
        fired_ns=START + MINUTE,
        resolved_ns=START + 4 * MINUTE,
        rule_labels=severity,
    )


NOW = START + 1000 * MINUTE
RECEIVER = Receiver("team", "team", "json://", group_wait_ns=2 * MINUTE, repeat_ns=60 * MINUTE)


def alert_of(state: State, fired: int, resolved: int = 0) -> Alert:
    """Times in minutes before NOW."""
    resolved_ns = NOW - resolved * MINUTE if resolved else 0
    return Alert("r", (), state, 1, 1, 1, START, NOW, NOW - fired * MINUTE if fired else 0, resolved_ns)


def sent_of(fired: int, sent: int, resolved: bool = False) -> Notified:
    return Notified(NOW - fired * MINUTE, resolved, NOW - sent * MINUTE)


@pytest.mark.parametrize(
    ("alert", "last", "reason"),
    [
        pytest.param(alert_of(State.PENDING, 0), None, None, id="pending is nobody's business"),
        pytest.param(alert_of(State.FIRING, 1), None, None, id="waits for others of its group"),
        pytest.param(alert_of(State.FIRING, 2), None, Reason.FIRST, id="has waited"),
        pytest.param(alert_of(State.FIRING, 30), sent_of(30, 28), None, id="the receiver knows"),
        pytest.param(alert_of(State.FIRING, 90), sent_of(90, 59), None, id="not yet time to repeat"),
        pytest.param(alert_of(State.FIRING, 90), sent_of(90, 60), Reason.REPEAT, id="time to repeat"),
        pytest.param(
            alert_of(State.FIRING, 5), sent_of(90, 6, True), Reason.NEW, id="fires again after its resolution was told"
        ),
        pytest.param(
            alert_of(State.FIRING, 5), sent_of(90, 30), Reason.NEW, id="fires again, the resolution was never told"
        ),
        pytest.param(alert_of(State.FIRING, 1), sent_of(90, 30), None, id="fires again and waits for its group"),
        pytest.param(alert_of(State.INACTIVE, 90, 1), sent_of(90, 80), Reason.RESOLVED, id="resolved"),
        pytest.param(alert_of(State.INACTIVE, 90, 1), sent_of(90, 0, True), None, id="resolution was told"),
        pytest.param(alert_of(State.INACTIVE, 90, 89), None, None, id="resolved before anybody heard of it"),
        pytest.param(
            alert_of(State.INACTIVE, 90, 1),
            sent_of(200, 150, True),
            None,
            id="resolved; only the firing before was told",
        ),
        pytest.param(
            alert_of(State.INACTIVE, 90, 1),
            sent_of(200, 150),
            Reason.RESOLVED,
            id="the end of the firing before is due",
        ),
        pytest.param(alert_of(State.FIRING, -5), None, Reason.FIRST, id="fired later than now: the clock was set back"),
        pytest.param(
            alert_of(State.PENDING, 90, 1), sent_of(90, 80), Reason.RESOLVED, id="resolved and already pending again"
        ),
        pytest.param(alert_of(State.PENDING, 90, 1), sent_of(90, 80, True), None, id="pending again, resolution told"),
    ],
)
def test_who_is_due(alert: Alert, last: Notified | None, reason: Reason | None) -> None:
    assert due(alert, last, RECEIVER, NOW) == reason


def test_a_rule_is_as_urgent_as_its_most_urgent_alert() -> None:
    assert max([State.PENDING, State.FIRING, State.INACTIVE]) is State.FIRING
