"""Finds secrets in tables with a header line: CSV, TSV and the like, in files or inside JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collector.sanitise.keyed import Span
from collector.sanitise.keys import Keys
from collector.sanitise.plausible import keyed_secret

_BEFORE, _AFTER = 400, 600  # bytes of the header line around a telling word
_MOST_ROWS = 500
_BREAK = r"(?:\r?\n|(?:\\{1,15}r)?\\{1,15}n)"
_SIGNS = (",", ";", r"\|", r"\t", r"\\{1,15}t")
_NAME = r"[A-Za-z_][\w.-]{0,40}(?:\ [\w.-]{1,40}){0,3}"  # spaces only inside names: in a sentence they follow a comma
_SIGN = "|".join(_SIGNS)
_REST = re.compile(rf"[\w.-]{{0,40}}(?:\ [\w.-]{{1,40}}){{0,3}}(?:(?P<sign>{_SIGN})[A-Za-z_]|{_BREAK})".encode())
_SIGN_BEFORE = re.compile(rf"(?P<sign>{_SIGN})[\w.\ -]{{0,80}}\Z".encode())
_LAST_LINE = re.compile(rf"(?:\A|{_BREAK}|[\"'`])(?P<line>(?:(?!{_BREAK})[^\r\n\"'`])*){_BREAK}\Z".encode())


class _Form:
    """Patterns for tables with one kind of separator."""

    def __init__(self, sign: str) -> None:
        self.sign = re.compile(sign.encode())
        self.names = re.compile(
            rf"(?:\A|(?<=[\n\"'`])|(?<=\\n))(?P<names>{_NAME}(?:{sign}{_NAME}){{1,24}}){_BREAK}".encode()
        )
        self.cell = re.compile(
            rf"""(?P<depth>\\{{0,15}})\"(?P<quoted>[^\"\\\r\n]*)(?P=depth)\"|(?P<bare>(?:(?!{sign}|{_BREAK})[^\"\r\n])*)""".encode()
        )
        self.end = re.compile(_BREAK.encode())


_FORMS = [_Form(sign) for sign in _SIGNS]


def column(text: bytes, hit: int, keys: Keys) -> Iterator[Span]:
    """The secrets in the column whose name contains the telling word that ends at `hit`, if there is one."""
    rest = _REST.match(text, hit, hit + _AFTER)
    before = max(0, hit - _BEFORE)
    told = rest if rest is None or rest["sign"] else _SIGN_BEFORE.search(text, before, hit)
    if told is None:
        return
    form = next(form for form in _FORMS if form.sign.fullmatch(told["sign"]))
    for head in form.names.finditer(text, before, hit + _AFTER):
        if head.start() < hit <= head.end("names"):
            yield from _below(text, head, hit, form, keys)


def _below(text: bytes, head: re.Match[bytes], hit: int, form: _Form, keys: Keys) -> Iterator[Span]:
    above = _LAST_LINE.search(text, max(0, head.start() - _BEFORE), head.start())
    if above and form.sign.search(above["line"]):
        return  # the line before has columns too, so this is a row, not the header
    names = form.sign.split(head["names"])
    place = len(form.sign.findall(text, head.start(), hit))
    rule = keys.telling(names[place].decode().replace(" ", "_"))
    if rule is None or rule.value:
        return
    check, at = rule.proof, head.end()
    for _ in range(_MOST_ROWS):
        cells, at = _row(text, at, form)
        if len(cells) != len(names):
            return
        start, end = cells[place]
        if keyed_secret(text[start:end], check, True):
            yield Span(start, end, rule)
        if not (following := form.end.match(text, at)):
            return
        at = following.end()


def _row(text: bytes, at: int, form: _Form) -> tuple[list[tuple[int, int]], int]:
    """The spans of the cells of a row, and where the row ends."""
    cells = []
    while cell := form.cell.match(text, at):
        cells.append(cell.span("bare" if cell["quoted"] is None else "quoted"))
        sign = form.sign.match(text, cell.end())
        if sign is None:
            return cells, cell.end()
        at = sign.end()
    return cells, at
