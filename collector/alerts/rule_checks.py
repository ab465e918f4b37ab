"""What rules.schema.json cannot say of a rule file: names that must exist, numbers that must fit their measure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from collector.alerts import summary
from collector.alerts.rules import contradicts, parse_condition
from collector.alerts.trying import ruletest
from collector.query.filters import BY_NAME, BadParameter, duration_ns, terms_of_rule

Place = tuple[str | int, ...]

LONGEST_NAME = 100  # that is compared with the known ones


def meaning(
    data: dict[str, Any],
    defaults: Sequence[dict[str, Any]],
    bad: Mapping[Place, Collection[str]],
    elsewhere: Collection[str],
) -> Iterator[tuple[Place, str]]:
    """Each field without a meaning, and what to write instead. `bad` are the fields that the schema refused, "" for
    all of a rule or receiver; `defaults` are the rules of a file without rules, `elsewhere` receivers that it may
    name besides its own.
    """
    if not isinstance(data.get("rules", []), list):
        return
    found = data.get("receivers")
    receivers: dict[str, Any] = found if isinstance(found, dict) else {}
    rules = [
        _sound(raw, bad.get(("rules", i), ())) if isinstance(raw, dict) else {}
        for i, raw in enumerate(data.get("rules", []))
    ]
    yield from _rules_meaning(rules, (*receivers, *elsewhere))
    yield from _tests_meaning(data, defaults, bad)
    labels = {"name", "severity", *BY_NAME}.union(*(raw.get("labels", ()) for raw in rules))
    for name, raw in receivers.items():
        wrong = bad.get(("receivers", name), ())
        if "" in wrong:
            continue
        for field, message in _receiver_meaning(_sound(raw, wrong), labels):
            yield ("receivers", name, *field), message


def _rules_meaning(rules: Sequence[dict[str, Any]], receivers: Collection[str]) -> Iterator[tuple[Place, str]]:
    graph = {raw["name"]: raw.get("inhibits", ()) for raw in rules if "name" in raw}
    names: set[str] = set()
    for i, raw in enumerate(rules):
        at: Place = ("rules", i)
        if raw.get("name") in names:
            yield (*at, "name"), "is the name of an earlier rule; choose another"
        names |= {raw["name"]} if "name" in raw else set()
        for field, message in (*_inhibits_meaning(raw, graph), *_rule_meaning(raw, receivers)):
            yield at + field, message


def _sound(raw: dict[str, Any], wrong: Collection[str]) -> dict[str, Any]:
    """What the schema accepts of a rule or receiver, without what rests on the rest."""
    rests = {"measure": ("condition", "recover"), "by": ("summary", "description")}
    without = {*wrong, *(field for name in wrong for field in rests.get(name, ()))}
    return {name: value for name, value in raw.items() if name not in without}


def _inhibits_meaning(raw: dict[str, Any], graph: Mapping[str, Collection[str]]) -> Iterator[tuple[Place, str]]:
    """`graph` has for each rule those that it inhibits: no rule may hold back itself, or nobody would be notified."""
    for i, name in enumerate(raw.get("inhibits", ())):
        if name not in graph:
            yield ("inhibits", i), f"is no rule of this file{suggestion(name, graph)}"
            continue
        reached, ahead = set(), [name]
        while ahead:
            reached.add(one := ahead.pop())
            ahead += [other for other in graph.get(one, ()) if other not in reached]
        if raw.get("name") in reached:
            yield ("inhibits", i), "would hold back this rule itself, and nobody would be told; name only consequences"


def _tests_meaning(
    data: dict[str, Any], defaults: Sequence[dict[str, Any]], bad: Collection[Place]
) -> Iterator[tuple[Place, str]]:
    tests = data.get("tests", [])
    own = data.get("rules", defaults)
    names = [raw["name"] for raw in own if isinstance(raw, dict) and isinstance(raw.get("name"), str)]
    for i, raw in enumerate(tests if isinstance(tests, list) else ()):
        if ("tests", i) not in bad:
            yield from ((("tests", i, field), message) for field, message in ruletest.mistakes(raw, names))


def _rule_meaning(raw: dict[str, Any], receivers: Collection[str]) -> Iterator[tuple[Place, str]]:
    yield from _unknown(raw, "by", BY_NAME, "is no dimension")
    for name, value in raw.get("where", {}).items():
        if reason := _bad_filter(name, value):
            yield ("where", name), reason
    if not duration_ns("window", raw.get("window", "1h")):
        yield ("window",), "must be longer than nothing"
    yield from _conditions_meaning(raw)
    yield from _unknown(raw, "notify", receivers, "is no receiver of this file")
    yield from _labels_meaning(raw)
    for field in ("summary", "description"):
        for message in summary.mistakes(raw.get(field, ""), (*raw.get("by", ()), *summary.VALUES)):
            yield (field,), message


def _unknown(raw: dict[str, Any], field: str, known: Collection[str], wrong: str) -> Iterator[tuple[Place, str]]:
    """The names in a list that nothing has."""
    for i, name in enumerate(raw.get(field, ())):
        if name not in known:
            yield (field, i), f"{wrong}{suggestion(name, known)}"


def _conditions_meaning(raw: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    if "measure" not in raw:
        return
    conditions = {}
    for field in ("condition", "recover"):
        if field not in raw:
            continue
        try:
            conditions[field] = parse_condition(raw[field], raw["measure"])
        except ValueError as error:
            yield (field,), str(error)
    if len(conditions) == 2 and (reason := contradicts(conditions["condition"], conditions["recover"])):
        yield ("recover",), reason


def _labels_meaning(raw: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    telling = {*raw.get("by", ())}
    if "severity" in telling:
        telling.add("event_severity")  # what messages call it: their own severity is the rule's
    for name in raw.get("labels", ()):
        if name in ("alertname", "severity"):
            yield ("labels", name), "is set by Misstep; choose another name"
        elif name in telling:
            yield ("labels", name), "is what tells the alerts of this rule apart (by); choose another name"


def _bad_filter(name: str, value: Any) -> str:
    """Why the query API would refuse this filter; empty where it would not."""
    if name not in BY_NAME:
        return f"is no dimension{suggestion(name, BY_NAME)}"
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, bool) and BY_NAME[name].type != "flag":
            return "is text that YAML reads as true or false; put it in quotes"
    try:
        terms_of_rule({name: value})
    except BadParameter as error:
        return error.message
    return ""


def _receiver_meaning(raw: dict[str, Any], labels: Collection[str]) -> Iterator[tuple[Place, str]]:
    yield from _unknown(raw, "group_by", labels, "is no label of any rule")
    for field in ("webhook", "alertmanager", "api_url"):
        if field in raw and not _reachable(raw[field]):
            yield (field,), "names no host and port that can be reached; write http://host:port/path"
    if not raw.get("apprise"):
        return
    from apprise import Apprise  # 35 MiB with its services, for who sends through it

    for i, address in enumerate(raw["apprise"]):
        if Apprise.instantiate(address, suppress_exceptions=True) is None:
            yield ("apprise", i), "is no address that Apprise knows; see https://github.com/caronc/apprise/wiki"
        elif sum(map(len, Apprise(address))) > 1:  # Apprise does not say which of them took the message
            yield (
                ("apprise", i),
                "names several recipients: if one failed, all would be told again; write one address each",
            )


def _reachable(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that was probably meant, as the end of a message; "" if none is near."""
    near = difflib.get_close_matches(name, known, n=1) if len(name) <= LONGEST_NAME else []
    return f"; did you mean {near[0]!r}?" if near else ""


def suggestion(name: str, known: Collection[str]) -> str:
    """What to write instead of an unknown name, as the end of a message."""
    return nearest(name, known) or (f"; known are {', '.join(known)}" if known else "")
