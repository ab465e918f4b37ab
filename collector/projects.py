"""Projects: whose an event is, by the token it was sent with. In the hashed keys by which reports are joined, the
project stands where no sender can write, so that nothing of two projects is joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MARK = "\x1e"  # of no trace id, and of no name of a project

NOBODY = MARK  # no token's project

# Of whom this context's questions to the store are: of one project, or None for all.
PROJECT: ContextVar[str | None] = ContextVar("PROJECT", default=None)


@contextmanager
def only(project: str | None) -> Iterator[None]:
    """Questions to the store are of this project while the block lasts; None: of all."""
    before = PROJECT.set(project)
    try:
        yield
    finally:
        PROJECT.reset(before)


def within(project: str | None, kind: str) -> str:
    """The first part of a hashed key of this kind; without a project, the kind alone."""
    return f"{project}{MARK}{kind}" if project else kind


def traced(project: str | None, trace: str) -> str:
    """A trace id of a project, as recognising and correlating know it; one that is that already stays as it is."""
    return f"{trace}{MARK}{project}" if project and trace and MARK not in trace else trace


def untraced(trace: str) -> str:
    """The trace id that the sender knows."""
    return trace.partition(MARK)[0]
