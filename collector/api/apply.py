"""Applies the rules in force to stored data, and then copies the database file to remove the old bytes.

Rows are rewritten slice by slice, each in a transaction of its own, so that the work can stop at any time and continue
with the next call. Deleted rows stay in the file until it is copied, so the work is done only after that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.types import ControllerRouterHandler

from collector.access.audit import AuditLog
from collector.access.rights import MAINTAIN, check_json
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.api.rewritten import rewritten
from collector.api.runs import Run
from collector.columns import Row
from collector.engine.duckdb import rewrite
from collector.engine.duckdb.store import Store
from collector.pipeline import Pipeline
from collector.report import as_report, as_row

if TYPE_CHECKING:
    from collector.cluster.reach import Reach

SLICE = 2_000  # rows per transaction; ingest continues in between
PASSES = 5  # reports that arrive meanwhile may be folded with rows not yet processed
KEEPS = {RIGHT: MAINTAIN, WHOLE: True}


class Apply(Run):
    """One run over the store, slice by slice."""

    failure = "stored events could not be sanitised again"

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        renamed: Callable[[], None] = lambda: None,
        audit: AuditLog | None = None,
        reach: Reach | None = None,
    ) -> None:
        """`renamed` is called after names were rewritten, so that cached ones are read again; `reach` is what only a
        cluster has.
        """
        super().__init__()
        self._store, self._renamed, self._audit, self._reach = store, renamed, audit, reach
        # Columns of former dimensions may contain secrets too.
        self._pipeline = replace(pipeline, dimensions=store.dimensions)
        self.done = self.rows = self.changed = 0
        self.redacted: Counter[str] = Counter()

    def told(self) -> dict[str, Any]:
        """Progress, and what was cut."""
        counts = {"done": self.done, "rows": self.rows, "changed": self.changed}
        return {"state": self.state, **counts, "redactions": dict(sorted(self.redacted.items()))}

    def _all(self) -> Iterator[None]:
        if self._reach:
            yield from self._far(self._reach)
        for _ in range(PASSES):
            before = self.changed
            self.done, self.rows = 0, self._store.count("reports") + self._store.count("events")
            yield from self._slices("reports")
            yield from self._slices("events")
            between = self.changed
            yield from self._names()
            if self._audit:
                self.changed += self._audit.again(lambda text: self._text("message", text))
            if self.changed > between:
                self._renamed()
            if self.changed == before:
                break
        else:
            raise RuntimeError(f"rules still cut after {PASSES} passes")
        yield from rewritten(self._store, self._reach)

    def _far(self, reach: Reach) -> Iterator[None]:
        """What only the cluster has: of events, whole sessions come back in which anything is cut."""
        self.rows = reach.count()
        for rows in reach.slices():
            cut = [row for row in rows if self._row(row, Counter()) is not row]
            if cut:
                reach.bring(cut)
                ids = [row["event_id"] for row in cut]
                times = [row["received_ns"] for row in cut]
                here = rewrite.chosen_rows(self._store, ids, min(times) - 1, max(times))
                self._rewrite("events", here, min(times) - 1, max(times))
            self.done += len(rows)
            yield
        self.changed += reach.texts(self._text)

    def _slices(self, table: str) -> Iterator[None]:
        after_ns = -1
        while (until := rewrite.slice_end(self._store, table, after_ns, SLICE)) is not None:
            rows = rewrite.slice_rows(self._store, table, after_ns, until)
            self._rewrite(table, rows, after_ns, until)
            self.done += len(rows)
            after_ns = until
            yield

    def _rewrite(self, table: str, rows: Sequence[Row], after_ns: int, until: int) -> None:
        """Replaces those of these rows, received between the two times, in which anything is cut."""
        new = [self._row(row, self.redacted) for row in rows]
        ids = {row["event_id"] for row, clean in zip(rows, new, strict=True) if clean is not row}
        if ids:
            cut = [row for row in new if row["event_id"] in ids]
            rewrite.rewrite(self._store, table, sorted(ids), cut, after_ns, until)
        self.changed += sum(clean is not row for row, clean in zip(rows, new, strict=True))

    def _row(self, row: Row, redacted: Counter[str]) -> Row:
        if "report" not in row:
            return as_row(self._pipeline.again(as_report(row), redacted))
        report = msgspec.json.decode(row["report"])
        clean = self._pipeline.again(report, redacted)
        return row if clean is report else {**row, "report": msgspec.json.encode(clean).decode()}

    def _names(self) -> Iterator[None]:
        """The texts of all other tables, each once."""
        for table, column in rewrite.text_columns(self._store):
            for text in rewrite.distinct(self._store, table, column):
                clean = self._text(column, text)
                if clean != text:
                    rewrite.replace_text(self._store, table, column, text, clean)
                    self.changed += 1
            yield

    def _text(self, column: str, text: str) -> str:
        """The sanitised text in the form of its table: labels of an alert are a JSON object, a session keeps a hash."""
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, dict):
                clean = self._pipeline.again({"params": value}, self.redacted)
                if clean["params"] is value:
                    return text
                return json.dumps(json.loads(clean["params"]), ensure_ascii=False, sort_keys=True)
        name = column if column in ("session", "service", "source") else "message"
        return str(as_row(self._pipeline.again(as_report({name: text}), self.redacted))[name])


@post(
    "/api/v1/sanitise",
    opt=KEEPS,
    status_code=202,
    sync_to_thread=True,
    summary="Sanitise stored data with the rules in force",
)
def begin(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    """Starts a run, unless one is in progress. `GET` returns its progress."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    return Response(request.app.state.applying.begin().told(), status_code=202)


@get("/api/v1/sanitise", opt=KEEPS, sync_to_thread=False, summary="Progress of sanitising stored data")
def told(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """State (idle, running, done, failed), rows processed, rows changed, redactions by rule."""
    read_none(request.scope["query_string"])
    current = request.app.state.applying.current
    return current.told() if current else {"state": "idle"}


APPLY_ROUTES: list[ControllerRouterHandler] = [begin, told]
