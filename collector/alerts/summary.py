"""Summaries and descriptions of alerts: small Jinja templates, checked without being run, rendered in a sandbox.

Jinja is imported when the first template is met: it costs 7 MiB that a collector without firing alerts need not spend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING

from collector.query.filters import NO_VALUE

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

LIMIT = 4000  # characters of a rendered text
VALUES = ("value", "threshold", "calls", "name", "severity")


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

    try:
        tree = _environment().parse(template)
    except TemplateSyntaxError as error:
        return [f"is not a template: {error.message}"]
    except RecursionError:
        return ["is nested too deeply"]
    used = list(tree.find_all(nodes.Name))
    own = {node.name for node in used if node.ctx != "load"}
    unknown = {node.name for node in used} - own - set(names)
    filters = {node.name for node in tree.find_all(nodes.Filter)} - set(_environment().filters)
    return [
        *(f"uses the unknown name {name!r}; it may use {', '.join(names)}" for name in sorted(unknown)),
        *(
            f"uses the unknown filter {name!r}; there are {', '.join(sorted(_environment().filters))}"
            for name in sorted(filters)
        ),
    ]


def render(template: str, values: Mapping[str, object]) -> str:
    """The text, at most LIMIT characters. A template that fails is returned unrendered: any notification is better than
    none.
    """
    if "{" not in template:
        return template[:LIMIT]
    from jinja2 import TemplateError

    try:
        text: str = _environment().from_string(template).render(values)
    except (TemplateError, ArithmeticError, TypeError, ValueError):
        text = template
    return text[:LIMIT]


@cache
def _environment() -> SandboxedEnvironment:
    """Only the filters that sentences need, and no globals: no template can loop or allocate much."""
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(autoescape=False)
    keep = {name: environment.filters[name] for name in ("default", "lower", "round", "title", "truncate", "upper")}
    environment.filters = {**keep, "percent": percent, "number": number, "duration": duration}
    environment.globals = {}
    return environment
