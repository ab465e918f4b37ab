"""`misstep sanitise filter` and `check`: what the rules make of lines, and where they would cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from collector.sanitise.sanitise import LIMIT, Sanitiser


class Cut(NamedTuple):
    """A place that would be cut: its beginning, rule and length, never its text."""

    line: int
    column: int
    rule: str
    title: str
    length: int


def filter_lines(lines: Iterable[str], sanitiser: Sanitiser) -> Iterator[str]:
    """Each line's JSON value sanitised, as JSON; a line that is not JSON is sanitised as text."""
    for line in lines:
        line = line.rstrip("\r\n")
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            yield sanitiser.scrub(line)[0]
            continue
        clean, _ = sanitiser.scrub_value(value)
        yield msgspec.json.encode(clean).decode()


def check_lines(lines: Iterable[str], sanitiser: Sanitiser) -> Iterator[Cut]:
    """What would be cut from a text of many lines, in order; a secret may span several of them."""
    number = 1
    for block in _blocks(lines):
        for span in sanitiser.spans(block):
            before = block[: span.start]
            line = number + before.count("\n")
            column = span.start - (before.rfind("\n") + 1) + 1
            yield Cut(line, column, span.rule.id, span.rule.title, span.end - span.start)
        number += block.count("\n")


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    """The lines, in blocks that are searched as one text."""
    block: list[str] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= LIMIT:
            yield "".join(block)
            block, size = [], 0
    yield "".join(block)
