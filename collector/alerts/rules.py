"""What an alert rule is: the words of `alerts.yaml` as types, with durations and conditions parsed.

Reading the file and naming its mistakes is in rulefile.py; schemas/rules.schema.json describes the same words for
editors. Durations are nanoseconds throughout.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collector.alerts.addresses import incident_key
from collector.query.filters import duration_ns
from collector.times import HOUR, SECOND, UNITS

_CONDITION = re.compile(
    r"(?P<operator>>=|<=|>|<) *(?P<number>\d+(?:\.\d+)?) *"
    r"(?:(?P<unit>%|ms|s|m|h|d)|x previous (?P<previous>\d+(?:m|h|d|w)))?"
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}

KINDS = ("webhook", "pagerduty", "opsgenie", "alertmanager")  # of receivers, besides what goes by Apprise
SEVERITIES = ("critical", "warning", "info")  # the most urgent first


@dataclass(frozen=True, slots=True)
class Measure:
    """What the values of a measure mean: their unit, and whether they grow with the window."""

    unit: str  # "count", "share", "s" or "ms"
    grows: bool = False
    baseline: bool = True  # can be compared with an earlier period


MEASURES: Mapping[str, Measure] = {
    "errors": Measure("count", grows=True),
    "calls": Measure("count", grows=True),
    "error_rate": Measure("share"),
    "retries": Measure("count", grows=True),
    "sessions": Measure("count", baseline=False),
    "streak": Measure("count", baseline=False),
    "streaks": Measure("count", grows=True),
    "failing_sessions": Measure("share"),
    "recovery_rate": Measure("share"),
    "new_groups": Measure("count", baseline=False),
    "regressed_groups": Measure("count", baseline=False),
    "unclassified_rate": Measure("share"),
    "p95_ms": Measure("ms"),
    "silent": Measure("s", baseline=False),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, or with `number` times what the measure was in the `previous_ns` before it."""

    text: str
    operator: str
    number: float
    previous_ns: int = 0

    @property
    def upward(self) -> bool:
        """Whether larger values hold."""
        return self.operator.startswith(">")

    def limit(self, baseline: float | None = None) -> float | None:
        """The number that values are compared with; None where it needs a baseline and there is none."""
        if not self.previous_ns:
            return self.number
        return None if baseline is None else self.number * baseline

    def holds(self, value: float | None, baseline: float | None = None) -> bool:
        """Whether the condition holds; False if the value or its baseline is missing."""
        limit = self.limit(baseline)
        return value is not None and limit is not None and _COMPARE[self.operator](value, limit)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `where` is in the grammar of the query API's filters; `line` is where the rule stands in its file."""

    name: str
    measure: str
    condition: Condition
    where: Mapping[str, list[str] | str | bool]
    by: tuple[str, ...] = ()
    window_ns: int = HOUR
    lateness_ns: int = 0  # the window ends this long before the evaluation
    recover: Condition | None = None
    min_calls: int = 0
    for_ns: int = 0
    keep_firing_ns: int = 0
    severity: str = "warning"
    labels: Mapping[str, str] | None = None
    summary: str = ""
    description: str = ""
    notify: tuple[str, ...] = ()
    inhibits: tuple[str, ...] = ()  # rules whose alerts are not sent while this one fires
    line: int = 0

    @property
    def scale(self) -> float:
        """What values of the earlier period are multiplied by: counts grow with its length."""
        return self.window_ns / self.condition.previous_ns if MEASURES[self.measure].grows else 1.0

    def recovered(self, value: float, baseline: float | None) -> bool:
        """Whether a firing alert may resolve at this value."""
        if self.recover is not None:
            return self.recover.holds(value, baseline)
        return not self.condition.holds(value, baseline)


@dataclass(frozen=True, slots=True, repr=False)
class Receiver:
    """One address to notify. A receiver of the file with several addresses becomes several of these, each with its own
    `key`, so that if one fails, the others do not get everything twice.

    Addresses contain secrets: they are never shown, not even in the repr.
    """

    name: str  # in the file
    key: str  # name, or name/2 for the second address
    address: str  # or the key of a service that has one address
    kind: str = "apprise"  # one of KINDS: who takes the message at `address`
    api_url: str = ""  # the service's address where it is not the usual one
    incident_key: str = ""  # of an address of Apprise: the parameter that is the key of an incident
    group_by: tuple[str, ...] = ("name",)
    group_wait_ns: int = 0
    group_interval_ns: int = 10 * SECOND
    repeat_ns: int = 4 * HOUR

    @property
    def one_each(self) -> bool:
        """Whether every alert has a message of its own, because it is an incident of its own there."""
        return self.kind in ("pagerduty", "opsgenie") or bool(self.incident_key)

    def __repr__(self) -> str:
        return f"Receiver({self.key!r})"


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A line of values for a rule, one evaluation every `interval_ns`, and the states expected after each."""

    name: str
    rule: str
    values: str
    states: str
    interval_ns: int
    calls: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class RuleFile:
    """Everything one file says."""

    path: str
    rules: tuple[Rule, ...]
    receivers: tuple[Receiver, ...]
    tests: tuple[RuleTest, ...] = ()


def parse_condition(text: str, measure: str) -> Condition:
    """The condition in the unit of the measure: "> 30 %" is 0.3 of a share, "> 15m" is 900 s of silence.

    Raises ValueError that says what to write instead.
    """
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise ValueError('write a comparison such as "> 0.3", ">= 3" or "> 2x previous 7d"')
    number, unit, previous = float(match["number"]), match["unit"], match["previous"]
    meaning = MEASURES[measure]
    if match["operator"] == "<" and not number:
        raise ValueError(f"never holds: {measure} is not below 0; write <= 0, or a larger number")
    if previous:
        if not meaning.baseline:
            raise ValueError(f"{measure} cannot be compared with an earlier period; write a number")
        return Condition(text, match["operator"], number, duration_ns("previous", previous))
    if unit:
        number *= _factor(unit, measure)
    if meaning.unit == "share" and number > 1:
        raise ValueError(f"{measure} is a share from 0 to 1; write {number / 100:g} or {number:g} %")
    if meaning.unit == "share" and match["operator"] == ">" and number == 1:
        raise ValueError(f"never holds: {measure} is at most 1; write >= 1, or a smaller number")
    return Condition(text, match["operator"], number)


def _factor(unit: str, measure: str) -> float:
    target = MEASURES[measure].unit
    if unit == "%" and target == "share":
        return 0.01
    if unit in UNITS and target in ("s", "ms"):
        return UNITS[unit] / UNITS[target]
    raise ValueError(f"{measure} has no unit {unit!r}; write a plain number")


def contradicts(condition: Condition, recover: Condition) -> str:
    """What is wrong if a value could fire and recover at once; empty if none could."""
    if condition.upward == recover.upward:
        return f"points the same way as the condition; write it with {'<' if condition.upward else '>'}"
    if condition.previous_ns != recover.previous_ns:
        return "must compare with the same earlier period as the condition"
    gap = condition.number - recover.number if condition.upward else recover.number - condition.number
    if gap < 0 or (gap == 0 and "=" in condition.operator and "=" in recover.operator):
        return f"holds for values that also fulfil {condition.text!r}; choose a number on the other side of it"
    return ""


def rule_of(raw: Mapping[str, Any], line: int, receivers: tuple[str, ...]) -> Rule:
    """A rule from its checked YAML; `receivers` are notified if the rule names none."""

    def duration(field: str, default: str) -> int:
        return duration_ns(field, raw.get(field, default))

    measure = raw["measure"]
    where = {name: _filter(value) for name, value in raw.get("where", {}).items()}
    return Rule(
        name=raw["name"],
        measure=measure,
        condition=parse_condition(raw["condition"], measure),
        where=where,
        by=_by(tuple(raw.get("by", ())), where),
        window_ns=duration("window", "1h"),
        lateness_ns=duration("lateness", "0s"),
        recover=parse_condition(raw["recover"], measure) if "recover" in raw else None,
        min_calls=raw.get("min_calls", 0),
        for_ns=duration("for", "0s"),
        keep_firing_ns=duration("keep_firing_for", "0s"),
        severity=raw.get("severity", "warning"),
        labels=raw.get("labels"),
        summary=raw.get("summary", ""),
        description=raw.get("description", ""),
        notify=tuple(raw.get("notify", receivers)),
        inhibits=tuple(raw.get("inhibits", ())),
        line=line,
    )


def _by(named: tuple[str, ...], where: Mapping[str, list[str] | str | bool]) -> tuple[str, ...]:
    """The dimensions of a rule's labels. `project` is one if the rule is of one: its readers see the alerts by it."""
    project = where.get("project")
    [one, *others] = project if isinstance(project, list) else [project]
    of_one = isinstance(one, str) and not others and one[:1] not in ("", "!")
    return (*named, "project") if of_one and "project" not in named else named


def test_of(raw: Mapping[str, Any], line: int) -> RuleTest:
    """A test from its checked YAML."""
    return RuleTest(
        name=raw["name"],
        rule=raw["rule"],
        values=raw["values"],
        states=raw["states"],
        interval_ns=duration_ns("interval", raw.get("interval", "1m")),
        calls=raw.get("calls", 1_000_000),
        line=line,
    )


def receivers_of(name: str, raw: Mapping[str, Any]) -> tuple[Receiver, ...]:
    """The addresses of one receiver from its checked YAML."""
    [kind] = [kind for kind in (*KINDS, "apprise") if kind in raw]
    addresses = raw[kind] if kind == "apprise" else [raw[kind]]
    return tuple(
        Receiver(
            name=name,
            key=name if i == 1 else f"{name}/{i}",
            address=address,
            kind=kind_of(address) if kind == "apprise" else kind,
            api_url=raw.get("api_url", ""),
            incident_key=incident_key(address) if kind == "apprise" else "",
            group_by=tuple(raw.get("group_by", ("name",))),
            group_wait_ns=duration_ns("group_wait", raw.get("group_wait", "0s")),
            group_interval_ns=duration_ns("group_interval", raw.get("group_interval", "10s")),
            repeat_ns=duration_ns("repeat", raw.get("repeat", "1m" if kind == "alertmanager" else "4h")),
        )
        for i, address in enumerate(addresses, 1)
    )


def kind_of(address: str) -> str:
    """Who takes a message to an address of Apprise: Apprise opens an incident for each message, and closes none."""
    scheme = address.partition("://")[0].lower()
    return scheme if scheme in ("pagerduty", "opsgenie") else "apprise"


def _filter(value: Any) -> list[str] | str | bool:
    if isinstance(value, bool):
        return value
    return [str(item) for item in value] if isinstance(value, list) else str(value)
