"""The progress of long commands, on standard error: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from collector.visible import say

LINE_EVERY_S = 5.0


class Advance(Protocol):
    """Reports that `steps` more steps are done."""

    def __call__(self, steps: int = 1) -> None: ...


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Advance]:
    """Shows how many of `total` steps are done (None: unknown) until the block ends."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=total)
            yield lambda steps=1: bar.update(task, advance=steps)
    else:
        yield _lines(title, total)


def _lines(title: str, total: int | None) -> Advance:
    done, said = 0, time.monotonic()

    def advance(steps: int = 1) -> None:
        nonlocal done, said
        done += steps
        if time.monotonic() - said >= LINE_EVERY_S:
            said = time.monotonic()
            say(f"{title}: {done}" + (f" of {total}" if total else ""), file=sys.stderr)

    return advance
