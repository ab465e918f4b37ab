"""No pattern over outside text takes more than in proportion to its length, whatever somebody repeats in it."""

from __future__ import annotations

import ast
import importlib
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from re import _constants, _parser
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
METHODS = ("fullmatch", "match", "search", "finditer", "findall", "sub", "subn", "split")
SHORT, LONG = 1_000, 4_000
LINEAR = 9  # times as long for four times the text; a pattern that tries every start anew needs sixteen times
UNNOTICED_S = 0.008

# What is short: why its text is never long.
SHORT_TEXTS = {
    "collector/classify/classify.py:NAMES": "one word of at most twice NAME_CHARS",
    "collector/sanitise/personal.py:_URL_BEFORE": "the 96 bytes before an address",
    "collector/sanitise/personal.py:_WSL": "the 160 bytes before a folder",
    "collector/sanitise/prefilter.py:_CLASS_OR_BLANK": "a pattern of a table, while it is loaded",
    "collector/sanitise/redactions.py:_ONE_OF_BYTES": "a pattern of a table, while it is loaded",
    "collector/sanitise/walk.py:_LAST_WORD": "the last 40 characters of a key",
}

Pattern = re.Pattern[Any]


def patterns() -> dict[str, Pattern]:
    """Those that are made while their module is loaded, by file and name."""
    found = {}
    for path in (*(ROOT / "collector").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name == "__main__.py" or ("re.compile" not in text and "_pattern(" not in text):
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and name in text:
                found[f"{path.relative_to(ROOT)}:{name}"] = value
    return found


def methods() -> dict[str, set[str]]:
    """How patterns of a name are called, anywhere; a name that is only passed on may be called in every way."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in (*(ROOT / "collector").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                found[ast.unparse(node.value).rpartition(".")[2]].add(node.attr)
    return found


def literals(parsed: Any) -> Iterator[str]:
    """A text for every run of literals in a pattern, and a character for every set."""
    run = ""
    for operator, argument in parsed:
        if operator is _constants.LITERAL:
            run += chr(argument)
            continue
        yield run
        run = ""
        if operator is _constants.IN:
            yield from map(_one_of, argument[:3])
        elif operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            yield from literals(argument[2])
        elif operator is _constants.SUBPATTERN:
            yield from literals(argument[3])
        elif operator is _constants.ATOMIC_GROUP:
            yield from literals(argument)
        elif operator is _constants.BRANCH:
            for branch in argument[1]:
                yield from literals(branch)
        elif operator in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from literals(argument[1])
    yield run


def _one_of(part: tuple[Any, Any]) -> str:
    operator, argument = part
    if operator is _constants.CATEGORY:
        return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}.get(str(argument), "a")
    return chr(argument[0] if operator is _constants.RANGE else argument) if operator is not _constants.NEGATE else "^"


def hostile(pattern: Pattern) -> list[str]:
    """What is repeated: the pattern's own parts, the shortest of them in pairs, and all of them together."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    parts = sorted({part for part in literals(_parser.parse(source, flags)) if part} | {"a"}, key=len)
    return [*parts[:12], "".join(parts)[:80], *("".join(pair) for pair in product(parts[:4], repeat=2))]


def took(pattern: Pattern, method: str, repeated: str, length: int) -> float:
    """CPU seconds over a text that ends unlike it began."""
    text: Any = (repeated * (length // len(repeated) + 1))[:length] + "\0"
    text = text.encode("utf-8", "ignore") if isinstance(pattern.pattern, bytes) else text
    call = getattr(pattern, method)
    begin = time.process_time()
    if method in ("sub", "subn"):
        call(b"" if isinstance(text, bytes) else "", text)
    elif method == "finditer":
        for _ in call(text):
            pass
    else:
        call(text)
    return time.process_time() - begin


def grows(pattern: Pattern, method: str) -> Iterator[tuple[str, float]]:
    """The repeated texts over which it takes more than in proportion, and how long."""
    for repeated in hostile(pattern):
        long = took(pattern, method, repeated, LONG)
        short = math.inf
        for _ in range(3):  # the machine may be busy: the shortest counts
            if long <= UNNOTICED_S or long <= LINEAR * short < math.inf:
                break
            long = min(long, *(took(pattern, method, repeated, LONG) for _ in range(2)))
            short = min(short, *(took(pattern, method, repeated, SHORT) for _ in range(2)))
        if long > max(UNNOTICED_S, LINEAR * short):
            yield repeated, long


ALL = patterns()
CALLED = methods()


@pytest.mark.parametrize("name", sorted(ALL.keys() - SHORT_TEXTS))
def test_a_pattern_takes_time_in_proportion_to_the_text(name: str) -> None:
    called = CALLED[name.partition(":")[2]] or {"search"}
    slow = [(method, *found) for method in sorted(called) for found in islice(grows(ALL[name], method), 1)]
    assert not slow


def test_an_exception_is_a_pattern() -> None:
    assert SHORT_TEXTS.keys() <= ALL.keys()


def test_a_pattern_that_tries_every_start_anew_is_found() -> None:
    assert list(grows(re.compile(r"\{+[^{}]*\}+"), "search"))
    assert not list(grows(re.compile(r"\w{1,20}:"), "search"))
