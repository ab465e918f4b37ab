"""Edits JSON that may have comments and trailing commas, changing nothing but what is asked for."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from collector.connect.document import MISSING, Broken

DEEPEST = 100
SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
TEXT = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
PLAIN = re.compile(r"[-+.\w]+")
# What may follow the last entry on its line.
REST = re.compile(r"[ \t]*+(,?)[ \t]*+(?://[^\n]*?|/\*[^\n]*?\*/[ \t]*)?(?=\r?\n)")
COMMA, LINE_END = re.compile(r"[ \t]*,"), re.compile(r"[ \t]*\r?\n")
INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(slots=True)
class Node:
    """A value and its position in the text. `entries` are those of a map (by key) or of a list (by number)."""

    start: int
    end: int
    value: Any
    entries: list[tuple[str | int, int, Node]] = field(default_factory=list)  # key, where the entry begins, value

    def entry(self, key: str | int) -> Node | None:
        """The last entry of this key, which is the one that counts."""
        return next((node for name, _, node in reversed(self.entries) if name == key), None)


class Jsonc:
    """A document of JSON with comments; an empty file is an empty map. Raises Broken if it is anything else."""

    def __init__(self, text: str) -> None:
        self.text = text if SPACE.sub("", text) else text + "{}\n"
        self._root = _Parser(self.text).whole()
        if not isinstance(self._root.value, dict):
            raise Broken("it is not a map: it must begin with {", 1)
        indented = INDENTED.search(text)
        self._unit = indented[1] if indented else "  "
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def get(self, path: tuple[str, ...]) -> Any:
        """The value at a path; MISSING if there is none."""
        node: Node | None = self._root
        for key in path:
            node = node.entry(key) if node and isinstance(node.value, dict) else None
        return node.value if node else MISSING

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Sets the value at a path, with the maps around it. Raises Broken if something else is in the way."""
        around, left = self._nearest(path)
        if left:
            for key in reversed(left[1:]):
                value = {key: value}
            self._insert(around, value, left[0])
        else:
            depth = self._indent(around.start)
            self._edit(around.start, around.end, self._dumped(value, depth))

    def remove(self, path: tuple[str, ...]) -> None:
        """Takes out the value at a path."""
        around, left = self._nearest(path[:-1])
        if left or around.entry(path[-1]) is None:
            return
        number = max(n for n, (key, _, _) in enumerate(around.entries) if key == path[-1])
        self._cut(around, number)

    def append(self, path: tuple[str, ...], item: Any) -> None:
        """Adds an item to the list at a path, which is made if there is none."""
        present = self.get(path)
        if present is MISSING:
            self.put(path, [item])
        elif not isinstance(present, list):
            raise Broken(f"{'.'.join(path)} is not a list", self._line(self._nearest(path)[0].start))
        else:
            self._insert(self._nearest(path)[0], item)

    def discard(self, path: tuple[str, ...], item: Any) -> None:
        """Takes one such item out of the list at a path."""
        present = self.get(path)
        if not isinstance(present, list) or item not in present:
            return
        self._cut(self._nearest(path)[0], present.index(item))

    def _nearest(self, path: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        """The innermost value on the way along a path, and the keys that are left."""
        node = self._root
        for number, key in enumerate(path):
            if not isinstance(node.value, dict):
                raise Broken(f"{'.'.join(path[:number])} is not a map", self._line(node.start))
            inner = node.entry(key)
            if inner is None:
                return node, path[number:]
            node = inner
        return node, ()

    def _insert(self, around: Node, value: Any, key: str | None = None) -> None:
        """Adds an entry behind the last one, laid out like that one."""
        name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
        outer = self._indent(around.start)
        if not around.entries:
            depth = outer + self._unit
            inner = self.text[around.start + 1 : around.end - 1].rstrip()
            body = f"{inner}{self._newline}{depth}{name}{self._dumped(value, depth)}{self._newline}{outer}"
            self._edit(around.start + 1, around.end - 1, body)
            return
        _, begin, last = around.entries[-1]
        rest = REST.match(self.text, last.end)
        if rest is None or self.text[:begin].rpartition("\n")[2].strip():
            self._edit(last.end, last.end, f", {name}{json.dumps(value, ensure_ascii=False)}")
            return
        depth = self._indent(begin)
        added = f"{self._newline}{depth}{name}{self._dumped(value, depth)}{rest[1]}"
        between = self.text[last.end : rest.end()] if rest[1] else "," + self.text[last.end : rest.end()]
        self._edit(last.end, rest.end(), between + added)

    def _cut(self, around: Node, number: int) -> None:
        """Takes out an entry, with the comma that it needed."""
        _, begin, node = around.entries[number]
        comma = COMMA.match(self.text, node.end)
        end = comma.end() if comma else node.end
        line = self.text.rfind("\n", 0, begin) + 1
        whole = LINE_END.match(self.text, end) if not self.text[line:begin].strip() else None
        start = line if whole else begin
        stop = whole.end() if whole else end
        if not comma and number:
            previous = around.entries[number - 1][2].end
            between = self.text[previous:start]
            bare = between.replace(",", "", 1) if whole or between.strip() != "," else ""
            self._edit(previous, stop, bare)
        elif not (self.text[around.start + 1 : begin] + self.text[end : around.end - 1]).strip():
            self._edit(around.start + 1, around.end - 1, "")
        else:
            self._edit(start, stop, "")

    def _edit(self, start: int, end: int, new: str) -> None:
        self.text = self.text[:start] + new + self.text[end:]
        self._root = _Parser(self.text).whole()

    def _dumped(self, value: Any, depth: str) -> str:
        text = json.dumps(value, indent=self._unit, ensure_ascii=False)
        return text.replace("\n", self._newline + depth)

    def _indent(self, place: int) -> str:
        """The white space with which the line at this position begins."""
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip())].lstrip("\ufeff")

    def _line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1


class _Parser:
    """Reads a text once, from the start."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [found.end() for found in re.finditer("\n", text)]

    def whole(self) -> Node:
        node = self._value(self._skip(0), 0)
        if (end := self._skip(node.end)) < len(self._text):
            raise self._broken("there is more behind the end", end)
        return node

    def _value(self, at: int, depth: int) -> Node:
        opening = self._text[at : at + 1]
        if depth > DEEPEST:
            raise self._broken(f"it is nested more than {DEEPEST} deep", at)
        if opening in ("{", "["):
            return self._container(at, "}" if opening == "{" else "]", depth)
        found = TEXT.match(self._text, at) or PLAIN.match(self._text, at)
        if not found:
            raise self._broken(f"a value is missing before {opening!r}" if opening else "it ends too early", at)
        try:
            return Node(at, found.end(), json.loads(found[0]))
        except ValueError:
            raise self._broken(f"{found[0][:40]} is not JSON", at) from None

    def _container(self, at: int, closing: str, depth: int) -> Node:
        node = Node(at, at, {} if closing == "}" else [])
        place = self._skip(at + 1)
        while self._text[place : place + 1] != closing:
            if node.entries:
                if self._text[place : place + 1] != ",":
                    raise self._broken(f"a comma or {closing} is missing", place)
                place = self._skip(place + 1)
                if self._text[place : place + 1] == closing:
                    break
            place = self._skip(self._entry(node, place, depth))
        node.end = place + 1
        return node

    def _entry(self, node: Node, begin: int, depth: int) -> int:
        """Reads one entry of a map or list into it, and returns where it ends."""
        place, key = begin, len(node.entries)
        if isinstance(node.value, dict):
            found = TEXT.match(self._text, place)
            colon = self._skip(found.end()) if found else place
            if not found or self._text[colon : colon + 1] != ":":
                raise self._broken("a key in quotes, and a colon, are missing", place)
            try:
                key, place = json.loads(found[0]), self._skip(colon + 1)
            except ValueError:
                raise self._broken(f"{found[0][:40]} is not JSON", begin) from None
        inner = self._value(place, depth + 1)
        node.entries.append((key, begin, inner))
        if isinstance(node.value, dict):
            node.value[key] = inner.value
        else:
            node.value.append(inner.value)
        return inner.end

    def _skip(self, at: int) -> int:
        found = SPACE.match(self._text, at)
        return found.end() if found else at

    def _broken(self, why: str, at: int) -> Broken:
        return Broken(why, bisect_right(self._lines, at) + 1)
