"""Reads `alerts.yaml`, again when it changes, and names every mistake at once: line, rule, field, value and remedy.

Three passes, each on what the one before let through: YAML, schemas/rules.schema.json, and what a schema cannot say
(meaning.py). jsonschema is imported only for files of users: it costs 10 MiB, and tests/test_alert_rules.py proves the
file that comes with the program.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from collector.alerts.rule_checks import Place, meaning, nearest, suggestion
from collector.alerts.rules import KINDS, Receiver, RuleFile, receivers_of, rule_of, test_of
from collector.errors import Mistaken
from collector.tables import schemas

MAX_BYTES = 256 << 10
MAX_DEPTH = 20
SHOWN = 80  # characters of a value in a message
MAX_NODES = 20_000  # counting aliases as often as they are used, against YAML's "billion laughs"
MOST_NUMBER = 10**15  # of any number in a rule
MAX_SCALAR = 40  # characters of what is no text, such as a number: YAML multiplies 1:1:1… and 0xff… out
MAX_ITEMS = 100  # of a list in a rule: whether each is there once takes time by their square
MAX_MISTAKES = 100  # that are named
TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map", "merge"))


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake in a rule file. `rule` and `field` are empty where the mistake is in none."""

    line: int
    rule: str
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.rule, f"field {self.field!r}" if self.field else "") if part)
        value = self.value if len(self.value) <= SHOWN else self.value[: SHOWN - 1] + "…"
        value = f"{value}: " if value else ""
        return f"{self.line}: {place + ': ' if place else ''}{value}{self.message}"


class RuleError(Mistaken):
    """A rule file cannot be used; the text has one mistake a line, as `path:line: …`."""

    def __init__(self, path: str, mistakes: Sequence[Mistake]) -> None:
        self.path = path
        self.mistakes = tuple(sorted(set(mistakes)))
        super().__init__("\n".join(f"{path}:{mistake}" for mistake in self.mistakes))


def load_rules(path: Path) -> RuleFile:
    """The rules of a file. Raises RuleError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(
            str(path), [Mistake(1, "", "", "", f"cannot be read: {getattr(error, 'strerror', None) or error}")]
        ) from None
    return parse_rules(text, str(path))


@cache
def default_rules() -> RuleFile:
    """The rules that come with the program, used without an `alerts.yaml`."""
    return _build({}, {}, "rules.default.yaml")


def parse_rules(
    text: str,
    path: str = "alerts.yaml",
    *,
    elsewhere: Sequence[Receiver] = (),
) -> RuleFile:
    """The same from text, whose rules may name receivers from `elsewhere` too. Raises RuleError with every mistake."""
    document = _Document()
    data = document.read(text)
    if document.mistakes:
        raise RuleError(path, document.mistakes)
    document.check_schema(data)
    if isinstance(data, dict) and document.read_whole:
        for at, message in meaning(data, _defaults(), document.bad, {each.name for each in elsewhere}):
            document.add(at, message)
    if document.mistakes:
        raise RuleError(path, document.mistakes)
    return _build(data, document.lines, path, elsewhere)


def is_valid(text: str) -> bool:
    """Whether the text says something, and has no mistakes."""
    try:
        return bool(text.strip()) and bool(parse_rules(text))
    except RuleError:
        return False


def read_values(text: str) -> Any:
    """What the text of a rule file says, unchecked. Raises RuleError where it is no YAML that can be read."""
    document = _Document()
    values = document.read(text)
    if document.mistakes:
        raise RuleError("alerts.yaml", document.mistakes)
    return values


def _build(data: dict[str, Any], lines: dict[Place, int], path: str, elsewhere: Sequence[Receiver] = ()) -> RuleFile:
    own_names = tuple(data.get("receivers", {}))
    receivers = tuple(each for name in own_names for each in receivers_of(name, data["receivers"][name]))
    own = data.get("rules")
    raws = enumerate(_defaults() if own is None else own)
    every = own_names or tuple(dict.fromkeys(each.name for each in elsewhere))
    rules = tuple(rule_of(raw, lines.get(("rules", i), 0), every) for i, raw in raws)
    named = {name for rule in rules for name in rule.notify}
    receivers += tuple(each for each in elsewhere if each.name in named.difference(own_names))
    tests = tuple(test_of(raw, lines.get(("tests", i), 0)) for i, raw in enumerate(data.get("tests", ())))
    return RuleFile(path, rules, receivers, tests)


@cache
def _defaults() -> list[dict[str, Any]]:
    text = schemas().joinpath("rules.default.yaml").read_text(encoding="utf-8")
    rules: list[dict[str, Any]] = yaml.safe_load(text)["rules"]
    return rules


class Loader(yaml.SafeLoader):
    """Stops at once where a text has too many parts or nests too deeply; dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, pattern) for tag, pattern in resolvers if tag in TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._parts = self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._parts += 1
        self._depth += 1
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self._parts > MAX_NODES:
            raise yaml.MarkedYAMLError(problem=f"it has more than {MAX_NODES} parts", problem_mark=mark)
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"it is nested more than {MAX_DEPTH} deep", problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def _unreadable(node: yaml.Node) -> str:
    """Why a part cannot be made a value in a moment; "" if it can."""
    if node.tag not in TAGS:
        return f"has the tag {node.tag.removeprefix('tag:yaml.org,2002:')[:SHOWN]!r}, which rules do not use"
    if node.tag.endswith((":str", ":seq", ":map", ":merge")):
        return ""
    if len(node.value) > MAX_SCALAR:
        return f"is a number of more than {MAX_SCALAR} characters; put it in quotes if it is text"
    try:
        value = yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError, LookupError, OverflowError):
        return "is no number; put it in quotes if it is text"
    finite = not isinstance(value, int | float) or -MOST_NUMBER < value < MOST_NUMBER
    return "" if finite else "is a number that is too large"


def _too_long(node: yaml.Node, at: Place) -> str:
    too_long = isinstance(node, yaml.SequenceNode) and len(at) > 1 and len(node.value) > MAX_ITEMS
    return f"has more than {MAX_ITEMS} items" if too_long else ""


class _Document:
    """One YAML text, the line of each of its parts, and the mistakes found so far."""

    def __init__(self) -> None:
        self.lines: dict[Place, int] = {}
        self.mistakes: list[Mistake] = []
        # What the schema refused of rules, receivers and tests: "" for the whole, else fields. Only the rest is checked
        # for its meaning.
        self.bad: defaultdict[Place, set[str]] = defaultdict(set)
        self.read_whole = True  # whether `bad` has everything that the schema refuses
        self._data: Any = None
        self._nodes = 0

    def read(self, text: str) -> Any:
        if len(text) > MAX_BYTES:
            self.add((), f"is larger than {MAX_BYTES >> 10} KiB; rules are at most that")
            return None
        try:
            loader = Loader(text)
            node = loader.get_single_node()
            if node is None:
                self.add((), "is empty; write rules: followed by a list")
            elif not self._index(node, ()):
                self._data = loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            self.mistakes.append(Mistake(line, "", "", "", f"is not YAML: {error.problem}"))
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            self.add((), f"is not YAML that can be read: {type(error).__name__}")
        return self._data

    def _index(self, node: yaml.Node, at: Place) -> bool:
        """Notes the lines of a node and all below it; True if something in it must not be constructed."""
        self._nodes += 1
        if self._is_too_much(at):
            return True
        self.lines.setdefault(at, node.start_mark.line + 1)
        if why := _unreadable(node) or _too_long(node, at):
            self.add(at, why, shown=False)
            return True
        if isinstance(node, yaml.SequenceNode):
            refused = [self._index(item, (*at, index)) for index, item in enumerate(node.value)]
            return any(refused)
        if isinstance(node, yaml.MappingNode):
            return self._index_entries(node, at)
        if at[2:3] == ("where",) and node.tag == "tag:yaml.org,2002:int":
            node.tag = "tag:yaml.org,2002:str"  # stays as it is written: YAML reads 010 as 8, and 1:30 as 90
        return False

    def _is_too_much(self, at: Place) -> bool:
        """Whether the document has too many parts, or this one is too deep."""
        if self._nodes == MAX_NODES + 1:
            self.add((), f"has more than {MAX_NODES} parts; use fewer aliases")
        if self._nodes > MAX_NODES:
            return True
        if len(at) > MAX_DEPTH:
            self.add((), f"is nested more than {MAX_DEPTH} deep")
        return len(at) > MAX_DEPTH

    def _index_entries(self, node: yaml.MappingNode, at: Place) -> bool:
        refused = False
        seen: Counter[str] = Counter()
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if key.tag not in KEY_TAGS:
                shown = "" if at[:1] == ("receivers",) and len(at) > 1 else _shown(name)
                self.mistakes.append(Mistake(line, "", "", shown, "a key must be text; put it in quotes"))
                refused = True
                continue
            seen[name] += 1
            if seen[name] == 2:
                self.mistakes.append(Mistake(line, "", name, "", "is written twice; keep one"))
            self.lines[(*at, name)] = line
            refused |= self._index(value, (*at, name))
        return refused

    def check_schema(self, data: Any) -> None:
        from jsonschema import Draft202012Validator

        errors = list(islice(Draft202012Validator(_schema()).iter_errors(data), MAX_MISTAKES))
        self.read_whole = len(errors) < MAX_MISTAKES
        for error in errors:
            at: Place = tuple(error.absolute_path)
            if len(at) < 3:
                self.bad[at[:2]] |= _wrong(error)
            else:
                self.bad[at[:2]].add(str(at[2]))
            if error.validator == "additionalProperties" and isinstance(error.instance, dict):
                known = list(error.schema["properties"])
                for name in error.instance.keys() - set(known):
                    self.add((*at, name), f"is not known here{suggestion(name, known)}", shown=False)
            elif error.validator == "required" and "errorMessage" not in error.schema:
                for name in [name for name in error.validator_value if name not in error.instance]:
                    self.add((*at, name), "is missing", shown=False)
            else:
                self.add(at, _remedy(error))

    def add(self, at: Place, message: str, *, shown: bool = True) -> None:
        """Adds a mistake at a place of the document, on the nearest known line."""
        near = at
        while near and near not in self.lines:
            near = near[:-1]
        value = self._at(at) if shown and len(at) > 2 else None
        owner, rest = self._owner(at)
        field = ".".join(str(part + 1) if isinstance(part, int) else part for part in rest)
        is_address = at[:1] == ("receivers",) and at[2:3] and at[2] in ("apprise", "api_url", *KINDS)
        text = _scheme(value) if is_address else _shown(value)
        self.mistakes.append(Mistake(self.lines.get(near, 1), owner, field, text, message))

    def _owner(self, at: Place) -> tuple[str, Place]:
        if len(at) > 1 and at[0] == "receivers":
            return f"receiver {at[1]!r}", at[2:]
        if len(at) > 1 and at[0] in ("rules", "tests") and isinstance(at[1], int):
            raw, what = self._at(at[:2]), str(at[0]).removesuffix("s")
            name = raw.get("name") if isinstance(raw, dict) else None
            return f"{what} {name!r}" if isinstance(name, str) else f"{what} {at[1] + 1}", at[2:]
        return "", at

    def _at(self, at: Place) -> Any:
        here = self._data
        for part in at:
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                return None
        return here


def _remedy(error: Any) -> str:
    """What to write instead, from the schema's own words where it has some."""
    if "errorMessage" in error.schema:
        return str(error.schema["errorMessage"])
    if error.validator == "enum":
        values = [str(value) for value in error.validator_value]
        return f"is none of {', '.join(values)}{nearest(str(error.instance), values)}"
    if error.validator == "type":
        words = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number"}
        return f"must be {words.get(error.validator_value, error.validator_value)}"
    words = {
        "maxLength": "is longer than {} characters",
        "maxItems": "has more than {} items",
        "minItems": "needs at least {} item",
        "uniqueItems": "names something twice",
        "minimum": "must be at least {}",
    }
    return words.get(error.validator, f"does not fit {error.validator} {{}}").format(error.validator_value)


def _wrong(error: Any) -> set[str]:
    """The unknown or missing fields of a rule or receiver; "" if it is not even a mapping."""
    if not isinstance(error.instance, dict) or error.validator not in ("additionalProperties", "required"):
        return {""}
    if error.validator == "required":
        return {str(name) for name in error.validator_value if name not in error.instance}
    return error.instance.keys() - set(error.schema["properties"])


def _scheme(value: Any) -> str:
    """Of a receiver's address only the scheme, if it has one: secrets may be in all the rest."""
    found = re.match("[a-z]+://", value) if isinstance(value, str) else None
    return f'"{found[0]}…"' if found else ""


def _shown(value: Any) -> str:
    """A value for a message: of addresses only the scheme, because secrets are in what follows."""
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return re.sub(r'://[^\s"]*', "://…", text)


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schemas().joinpath("rules.schema.json").read_text("utf-8"))
    return schema
