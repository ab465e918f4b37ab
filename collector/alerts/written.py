"""Changes one part of a rule file's text and leaves every other byte: comments, order, quotes, blank lines.

PyYAML says where each node stands; what is put in is written as YAML. Each change is read again and compared with what
was meant: text that cannot be changed this way, such as an alias that two rules share, is refused.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import yaml

from collector.alerts.rulefile import Loader, read_values
from collector.errors import Rejected
from collector.tables import schemas

# The order in which the fields of a rule are written.
FIELDS = (
    "name", "measure", "where", "by", "window", "lateness", "condition", "recover", "min_calls", "for",
    "keep_firing_for", "severity", "labels", "summary", "description", "notify", "inhibits",
)  # fmt: skip
NOT_THIS_WAY = "the file is written in a way that cannot be changed here: change it by hand"
COPIED = "# Copied from Misstep's default rules when the first change was saved here."

Values = Mapping[str, Any]


def with_rule(text: str, rule: Values) -> str:
    """The file with another rule at its end; with the default rules before it if it had no rules of its own."""
    text, rule = with_own_rules(text), _as_read(rule)
    meant = _values(text)
    meant["rules"].append(dict(rule))
    return _as_meant(_appended(text, rule), meant)


def with_changed_rule(text: str, name: str, rule: Values) -> str:
    """The file with the rule of this name replaced: fields that stay the same stay as they are written."""
    text, rule = with_own_rules(text), _as_read(rule)
    meant = _values(text)
    place = _place(meant, name)
    before, meant["rules"][place] = meant["rules"][place], dict(rule)
    if _rule_nodes(text).value[place].flow_style:
        return _as_meant(_replaced(text, _rule_nodes(text).value[place], _flow(_ordered(rule))), meant)
    for field in [field for field in before if field not in rule]:
        text = _without_entry(text, _rule_nodes(text).value[place], field)
    for field, value in _ordered(rule).items():
        if field not in before:
            text = _with_entry(text, _rule_nodes(text).value[place], field, value)
        elif before[field] != value:
            text = _with_value(text, *_entry(_rule_nodes(text).value[place], field), value)
    return _as_meant(text, meant)


def without_rule(text: str, name: str) -> str:
    """The file without the rule of this name. Comments before it stay."""
    text = with_own_rules(text)
    meant = _values(text)
    place = _place(meant, name)
    del meant["rules"][place]
    nodes = _rule_nodes(text)
    if len(nodes.value) == 1:
        return _as_meant(_with_value(text, *_entry(_root(text), "rules"), []), meant)
    item = nodes.value[place]
    if nodes.flow_style:
        after = nodes.value[place + 1 :]
        start = item.start_mark.index if after else nodes.value[place - 1].end_mark.index
        end = after[0].start_mark.index if after else item.end_mark.index
    else:
        dash = text.rfind("-", 0, item.start_mark.index)
        start, end = _line_start(text, dash), _block_end(text, item, _column(text, dash))
    return _as_meant(text[:start] + text[end:], meant)


def with_receiver(text: str, name: str, receiver: Values) -> str:
    """The file with another receiver at the end of its receivers."""
    meant = _values(text)
    own = meant.setdefault("receivers", {})
    own[name] = dict(receiver)
    root = _root(text)
    if root is not None and len(own) > 1:
        return _as_meant(_with_entry(text, _entry(root, "receivers")[1], name, receiver), meant)
    if root is not None and any(key.value == "receivers" for key, _ in root.value):
        return _as_meant(_with_value(text, *_entry(root, "receivers"), own), meant)
    if root is not None and root.flow_style:
        return _as_meant(_with_entry(text, root, "receivers", own), meant)
    return _as_meant(_with_lines(text, len(text), f"\nreceivers:\n  {_flow(name)}: {_flow(receiver)}"), meant)


def without_receiver(text: str, name: str) -> str:
    """The file without the receiver of this name."""
    meant = _values(text)
    own = meant.get("receivers") or {}
    if own.pop(name, None) is None:
        raise Rejected(f"the file has no receiver {name[:40]!r}; it has: {', '.join(own) or 'none'}", 404)
    key, node = _entry(_root(text), "receivers")
    return _as_meant(_without_entry(text, node, name) if own else _with_value(text, key, node, {}), meant)


def with_own_rules(text: str) -> str:
    """The file with the default rules and their comments, if it has no rules of its own."""
    root = _root(text)
    if root is not None and any(key.value == "rules" for key, _ in root.value):
        return text
    default = schemas().joinpath("rules.default.yaml").read_text(encoding="utf-8")
    if root is not None and root.flow_style:
        return _with_entry(text, root, "rules", yaml.safe_load(default)["rules"])
    rules = default[default.index("\nrules:\n") + 1 :]
    gap = "\n" if text else ""
    return _with_lines(text, len(text), f"{gap}{COPIED}\n{rules}")


def rule_of(text: str, name: str) -> Values:
    """What the file says of a rule. Raises Rejected 404."""
    values = _values(text)
    said: Values = values["rules"][_place(values, name)]
    return said


def rule_text(text: str, name: str) -> str:
    """The lines of a rule as they are written, without their indentation."""
    item = _rule_nodes(text).value[_place(_values(text), name)]
    if item.flow_style:
        return text[item.start_mark.index : item.end_mark.index]
    indent = " " * item.start_mark.column
    lines = (indent + text[item.start_mark.index : _end(text, item)]).splitlines()
    return "\n".join(line.removeprefix(indent) for line in lines)


def _values(text: str) -> dict[str, Any]:
    return copy.deepcopy(read_values(text)) if _root(text) is not None else {}


def _as_read(rule: Values) -> Values:
    """The rule as the file will say it: numbers in its `where` are text. Raises RuleError."""
    said: Values = read_values(f"rules: [{_flow(dict(rule))}]")["rules"][0]
    return said


def _as_meant(text: str, meant: Values) -> str:
    """The text, if it says what was meant. Raises Rejected 409."""
    try:
        said = read_values(text)
    except ValueError:
        said = None
    if said != meant:
        raise Rejected(NOT_THIS_WAY, 409)
    return text


def _root(text: str) -> Any:
    """The node of the whole file; None if it says nothing."""
    node = Loader(text).get_single_node()
    if not isinstance(node, yaml.MappingNode | None):
        raise Rejected(NOT_THIS_WAY, 409)
    return node


def _rule_nodes(text: str) -> Any:
    return _entry(_root(text), "rules")[1]


def _place(values: Values, name: str) -> int:
    names = [rule["name"] for rule in values["rules"]]
    if name not in names:
        raise Rejected(f"there is no rule {name[:70]!r}; there are: {', '.join(names) or 'none'}", 404)
    return names.index(name)


def _entry(mapping: Any, name: str) -> tuple[Any, Any]:
    """Key and value of an entry, unless it comes from elsewhere in the file (`<<`)."""
    for key, value in mapping.value:
        if key.value == name:
            return key, value
    raise Rejected(NOT_THIS_WAY, 409)


def _ordered(rule: Values) -> dict[str, Any]:
    return {field: rule[field] for field in (*FIELDS, *rule) if field in rule}


def _appended(text: str, rule: Values) -> str:
    """The text with another item at the end of its rules."""
    key, nodes = _entry(_root(text), "rules")
    lines = [f"{field}: {_flow(value)}" for field, value in _ordered(rule).items()]
    if not nodes.value:
        if _root(text).flow_style:
            return _replaced(text, nodes, f"[{_flow(_ordered(rule))}]")
        text = _replaced(text, nodes, "")
        return _with_lines(text, _line_end(text, key.end_mark.index), "  - " + "\n    ".join(lines))
    last = nodes.value[-1]
    if nodes.flow_style:
        place = last.end_mark.index
        return f"{text[:place]}, {_flow(_ordered(rule))}{text[place:]}"
    dash = text.rfind("-", 0, last.start_mark.index)
    column = _column(text, dash)
    indent = " " * column
    gap = "\n" if _apart(text, nodes) else ""
    whole = f"{gap}{indent}- " + f"\n{indent}  ".join(lines)
    return _with_lines(text, _block_end(text, last, column), whole)


def _apart(text: str, nodes: Any) -> bool:
    """Whether blank lines stand between the items of a list."""
    if len(nodes.value) < 2:
        return False
    one, other = nodes.value[-2:]
    between = text[_end(text, one) : other.start_mark.index]
    return "\n\n" in between.replace("\r", "").replace(" ", "")


def _with_entry(text: str, mapping: Any, name: str, value: Any) -> str:
    """The text with another entry at the end of a mapping that has some."""
    said = f"{_flow(name)}: {_flow(value)}"
    if not mapping.value:
        return _replaced(text, mapping, f"{{{said}}}")
    last = mapping.value[-1][1]
    if mapping.flow_style:
        place = max(last.end_mark.index, mapping.value[-1][0].end_mark.index)
        return f"{text[:place]}, {said}{text[place:]}"
    column = mapping.value[0][0].start_mark.column
    return _with_lines(text, _block_end(text, last, column), " " * column + said)


def _without_entry(text: str, mapping: Any, name: str) -> str:
    """The text without one of several entries of a mapping."""
    place = next((place for place, (key, _) in enumerate(mapping.value) if key.value == name), None)
    if place is None or len(mapping.value) < 2:
        raise Rejected(NOT_THIS_WAY, 409)
    key, value = mapping.value[place]
    after = mapping.value[place + 1 :]
    start = key.start_mark.index
    if mapping.flow_style and not after:
        return text[: mapping.value[place - 1][1].end_mark.index] + text[value.end_mark.index :]
    if mapping.flow_style or text[_line_start(text, start) : start].strip():  # behind the dash of its list
        if not after:
            raise Rejected(NOT_THIS_WAY, 409)
        return text[:start] + text[after[0][0].start_mark.index :]
    return text[: _line_start(text, start)] + text[_block_end(text, value, key.start_mark.column) :]


def _with_value(text: str, key: Any, node: Any, value: Any) -> str:
    """The text with another value of an entry."""
    block = _is_block(node)
    if not block and node.start_mark.index < node.end_mark.index:
        return _replaced(text, node, _flow(value))
    end = _end(text, node) if block else text.index(":", key.end_mark.index) + 1
    return f"{text[: key.end_mark.index]}: {_flow(value)}{text[end:]}"


def _is_block(node: Any) -> bool:
    """Whether a node is written over lines of its own: a block of entries, or text behind | or >."""
    if isinstance(node, yaml.ScalarNode):
        return node.style in ("|", ">")
    return not node.flow_style


def _replaced(text: str, node: Any, said: str) -> str:
    return text[: node.start_mark.index] + said + text[node.end_mark.index :]


def _with_lines(text: str, place: int, lines: str) -> str:
    """The text with lines put in at the beginning of a line, ended as the file's own lines are."""
    ends = "\r\n" if "\r\n" in text else "\n"
    before = ends if place and text[place - 1] != "\n" else ""
    whole = lines.removesuffix("\n").replace("\n", ends)
    return f"{text[:place]}{before}{whole}{ends}{text[place:]}"


def _end(text: str, node: Any) -> int:
    """Where the last character of a node stands, one further: PyYAML ends a block behind the comments after it."""
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    index = int(node.end_mark.index)
    return len(text[:index].rstrip()) if _is_block(node) else index


def _block_end(text: str, node: Any, column: int) -> int:
    """The beginning of the line after a node of a block, and after the deeper comments that follow it at once."""
    place = _line_end(text, _end(text, node))
    while place < len(text):
        line = text[place : _line_end(text, place)]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) <= column:
            break
        place += len(line)
    return place


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """The beginning of the next line, or the end of the text."""
    found = text.find("\n", place)
    return len(text) if found < 0 else found + 1


def _column(text: str, place: int) -> int:
    return place - _line_start(text, place)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines in quotes, on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    lines = any(end in value for end in "\n\r\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if lines else None)


_Dumper.add_representer(str, _text)


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    said: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf
    )
    return said.removesuffix("\n").removesuffix("\n...")
