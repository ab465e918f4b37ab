"""Whose call it is: the session around it, and which attempt of a retried one."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from misstep_sdk.mistakes import MistakeTracker


@dataclass(frozen=True)
class Session:
    """A conversation or task in which order matters. `numbers` counts its calls; `subagent` has streaks of its own."""

    id: str
    agent: str | None = None
    subagent: str | None = None
    model: str | None = None
    provider: str | None = None
    tracker: MistakeTracker | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count, compare=False)


_current: ContextVar[Session | None] = ContextVar("misstep_session", default=None)
_attempt: ContextVar[int] = ContextVar("misstep_attempt", default=0)


@contextmanager
def session(
    id: str,
    *,
    agent: str | None = None,
    subagent: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    tracker: MistakeTracker | None = None,
) -> Iterator[Session]:
    """All calls inside belong to this session; `tracker` counts their mistakes."""
    token = _current.set(Session(id, agent, subagent, model, provider, tracker))
    try:
        yield _current.get()  # type: ignore[misc]
    finally:
        _current.reset(token)


def current() -> Session | None:
    """The session of this thread or task."""
    return _current.get()


def attempt() -> int:
    """The number of the attempt that runs, from 1; 0 outside `retry`."""
    return _attempt.get()


@contextmanager
def attempting(number: int) -> Iterator[None]:
    """All calls inside are this attempt."""
    token = _attempt.set(number)
    try:
        yield
    finally:
        _attempt.reset(token)


def refuse_generator(function: Callable[..., Any], done: str) -> None:
    """Raises TypeError for a generator function: what fails among its items cannot be `done`."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__name__} is a generator, which cannot be {done}: do it around what it iterates")
