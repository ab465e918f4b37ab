"""Work over the whole store of which one run is in progress at a time, done by the writer between requests: forgetting,
sanitising again. In a cluster, all collectors do what one is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import structlog

from collector.journal.writer import Writer
from collector.times import MAX_NS

if TYPE_CHECKING:
    from collector.cluster.errands import Errands

log = structlog.get_logger()


class Run:
    """One run. `step` does a part and returns whether there is more; not thread-safe."""

    failure: ClassVar[str]  # what is logged of one that failed

    def __init__(self) -> None:
        self.state = "running"  # done, failed
        self.ended: Callable[[], None] = lambda: None  # called when all is done
        self._work = self._whole()

    def step(self) -> bool:
        """Does the next part. What a run that fails has done stays, and the next one goes on from there."""
        try:
            next(self._work)
        except StopIteration:
            self.state = "done"
        except Exception as error:
            log.error(self.failure, kind=type(error).__name__, error=str(error)[:500])
            self.state = "failed"
        return self.state == "running"

    def told(self) -> dict[str, Any]:
        """Progress."""
        raise NotImplementedError

    def _all(self) -> Iterator[None]:
        raise NotImplementedError

    def _whole(self) -> Iterator[None]:
        yield from self._all()
        self.ended()


Kind = TypeVar("Kind", bound=Run)


class Runs(Generic[Kind]):
    """The runs of one kind in a collector."""

    def __init__(
        self, name: str, prepared: Callable[[], Callable[[int], Kind]], writer: Writer, errands: Errands | None = None
    ) -> None:
        """`prepared` raises Rejected where there can be no run; what it returns makes one, of what was there until a
        time. `name` is that of the errand among the collectors of a cluster.
        """
        self._name, self._prepared, self._writer, self._errands = name, prepared, writer, errands
        self.current: Kind | None = None
        self._lock = threading.Lock()
        if errands:
            errands.join(name, self)

    @property
    def busy(self) -> bool:
        """Whether one is in progress."""
        return self.current is not None and self.current.state == "running"

    def begin(self) -> Kind:
        """The run in progress, or a new one, in a cluster of all its collectors. Raises Rejected, Unavailable."""
        with self._lock:
            if self.current is None or not self.busy:
                made = self._prepared()
                self.current = self._begun(made, self._errands.ask(self._name) if self._errands else MAX_NS)
            return self.current

    def run(self, at_ns: int) -> None:
        """Begins a run that was asked of another collector, unless one is in progress. Raises Rejected."""
        with self._lock:
            if not self.busy:
                self.current = self._begun(self._prepared(), at_ns)

    def _begun(self, made: Callable[[int], Kind], at_ns: int) -> Kind:
        run = made(at_ns)
        if errands := self._errands:
            run.ended = lambda: errands.done(self._name, at_ns)
        self._writer.between(run.step)
        return run
