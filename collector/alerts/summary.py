"""Summaries and descriptions of alerts: small Jinja templates, checked without being run, rendered in a sandbox.

Jinja is imported when the first template is met: it costs 7 MiB that a collector without firing alerts need not spend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from collector.query.filters import NO_VALUE

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

LIMIT = 4000  # characters of a rendered text
MOST_DIGITS = 15  # of a rounded number
NUMBERS = ("value", "threshold", "calls")
VALUES = ("value", "threshold", "calls", "name", "severity")

# The parts that a template may have: with them, its text is at most as long as itself and the values that it names.
BOUNDED = frozenset(
    (
        "Template", "Output", "TemplateData", "Name", "Const", "Filter", "If", "CondExpr", "Compare", "Operand", "And",
        "Or", "Not", "Add", "Concat", "Test", "List", "Tuple", "Slice", "Getitem", "Keyword",
    )
)  # fmt: skip
PARTS = {
    "For": "a loop", "Call": "a call", "Mul": "a product with a text", "Mod": "the operator %", "Pow": "a power",
    "Assign": "set", "AssignBlock": "set", "Macro": "a macro", "Getattr": "an attribute",
}  # fmt: skip
ALLOWED = "a template has names, filters, conditions and sums"


class _Nothing(str):
    """The empty text, which is printed as people read it in the dashboard."""

    __slots__ = ()

    def __str__(self) -> str:
        return NO_VALUE


NOTHING = _Nothing()  # the empty value of a label


def percent(share: float) -> str:
    """0.344 as "34 %"; below ten with one decimal."""
    number = share * 100
    return f"{number:.1f} %" if 0 < abs(number) < 10 else f"{number:.0f} %"


def number(value: float) -> str:
    """12345.678 as "12,345.68", 3.0 as "3"."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def duration(seconds: float) -> str:
    """5400 as "1 h 30 min"; the two largest units."""
    rest = round(seconds)
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts[:2]) or "0 s"


def mistakes(template: str, names: Collection[str]) -> list[str]:
    """What is wrong with a template that may use `names`; it is parsed, never run, so it may come from anybody."""
    from jinja2 import TemplateSyntaxError, nodes

    if len(template) > LIMIT:
        return [f"is longer than {LIMIT} characters"]
    try:
        tree = _environment().parse(template)
        every = list(tree.find_all(nodes.Node))
        unbounded = {PARTS.get(type(node).__name__, type(node).__name__) for node in every if not _is_bounded(node)}
        filters = {node.name for node in every if isinstance(node, nodes.Filter)} - set(_environment().filters)
        if not unbounded and not filters:
            _environment().compile(tree)  # which computes what is constant
    except TemplateSyntaxError as error:
        return [f"is not a template: {error.message}"]
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError):
        return ["is nested too deeply, or has a number that is too large"]
    used = {node.name for node in every if isinstance(node, nodes.Name)}
    return [
        *(f"uses {part}, whose text could grow without end; {ALLOWED}" for part in sorted(unbounded)),
        *(f"uses the unknown name {name!r}; it may use {', '.join(names)}" for name in sorted(used - set(names))),
        *map(_unknown_filter, sorted(filters)),
    ]


def _unknown_filter(name: str) -> str:
    return f"uses the unknown filter {name!r}; there are {', '.join(sorted(_environment().filters))}"


def _is_bounded(node: nodes.Node) -> bool:
    """Whether a part of a template makes at most what its operands and its own text come to."""
    kind = type(node).__name__
    if kind in ("Mul", "Div", "FloorDiv", "Sub", "Neg", "Pos"):  # a text times a number is as long as the number says
        return _is_number(node)
    return kind in BOUNDED


def _is_number(node: Any) -> bool:
    match type(node).__name__:
        case "Const":
            return isinstance(node.value, int | float)
        case "Name":
            return node.name in NUMBERS
        case "Mul" | "Div" | "FloorDiv" | "Sub" | "Add":
            return _is_number(node.left) and _is_number(node.right)
        case "Neg" | "Pos":
            return _is_number(node.node)
        case "Filter":
            return node.name == "round" and _is_number(node.node)
    return False


def render(template: str, values: Mapping[str, object]) -> str:
    """The text, at most LIMIT characters. A template that fails is returned unrendered: any notification is better than
    none.
    """
    if "{" not in template:
        return template[:LIMIT]
    from jinja2 import TemplateError

    try:
        bounded = not mistakes(template, values.keys())
        text: str = _environment().from_string(template).render(values) if bounded else template
    except (TemplateError, ArithmeticError, TypeError, ValueError):
        text = template
    return text[:LIMIT]


def rounded(number: float, precision: int = 0) -> float:
    """The number with so many digits behind the point."""
    return round(float(number), max(-MOST_DIGITS, min(int(precision), MOST_DIGITS)))


@cache
def _environment() -> SandboxedEnvironment:
    """Only the filters that sentences need, and no globals."""
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(autoescape=False, optimized=False)  # which would compute while it parses
    keep = {name: environment.filters[name] for name in ("default", "lower", "title", "truncate", "upper")}
    environment.filters = {**keep, "round": rounded, "percent": percent, "number": number, "duration": duration}
    environment.globals = {}
    return environment
