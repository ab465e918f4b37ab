"""`misstep gate`: asks for the trials of both sides, where they are, and writes the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from collector.api.endpoints import ENDPOINTS
from collector.api.parameters import MOST_ROWS, read
from collector.commands import report
from collector.commands.client import check, collector, filters
from collector.commands.imports import looking
from collector.engine import Reads
from collector.engine.duckdb.open import existing
from collector.engine.duckdb.store import Store
from collector.gate.junit import junit
from collector.gate.markdown import comment, markdown
from collector.gate.trials import MEASURES, SUCCESS, Trial, trials_of
from collector.gate.verdict import Asked, Gate, judged
from collector.query.filters import BadParameter
from collector.recognise.source_tables import load_sources
from collector.settings import Settings
from collector.transcripts.find import Found
from collector.transcripts.positions import Positions
from collector.transcripts.read import Readings
from collector.transcripts.tables import load_agents
from collector.transcripts.trial import beside

TRIALS = next(one for one in ENDPOINTS if one.path == "/trials")
EVER = {"from": "1970-01-01"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where trials are, if not in files: the store at `store`, else the collector of the settings."""

    settings: Settings
    store: str = ""
    task: str = ""
    success: str = ""


class Side(NamedTuple):
    """What one side was named by: files and folders, and filters of the query API."""

    paths: tuple[str, ...]
    where: dict[str, str]


def gate(current: Sequence[str], baseline: Sequence[str], asked: Asked, places: Places) -> Gate:
    """The verdict. Raises OSError where trials cannot be read."""
    with ExitStack() as stack:
        ask = Questions(asked, places, stack)
        now = ask.trials(side_of(current))
        return judged(ask.trials(side_of(baseline)) if baseline else None, now, asked)


def side_of(words: Sequence[str]) -> Side:
    """Words that are `name=value` and no path are filters."""
    where = [word for word in words if "=" in word and not Path(word).exists()]
    return Side(tuple(word for word in words if word not in where), dict(filters(where)))


def limits_of(words: Sequence[str], measures: Sequence[str]) -> dict[str, float]:
    """Limits as `measure=value`, or a value alone for the first measure. Raises OSError."""
    found = {}
    for word in words:
        name, _, value = word.rpartition("=")
        name = name or measures[0]
        check_measures([name])
        try:
            number = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            raise OSError(
                f"--limit {word}: {value!r} is no number; write mistake_rate=0.1 or mistake_rate=10%"
            ) from None
        if not math.isfinite(number):  # nothing is above infinity, nor above what is no number
            raise OSError(f"--limit {word}: {value!r} is no limit; write mistake_rate=0.1 or mistake_rate=10%")
        found[name] = number
    return found


def check_measures(names: Sequence[str]) -> None:
    """Raises OSError for a name that is no measure."""
    if unknown := next((name for name in names if name not in MEASURES), ""):
        raise OSError(f"{unknown!r} is no measure; measures are {', '.join(MEASURES)}")


class Questions:
    """Trials by the query API's `/trials`: of a collector, of a store, or of files that are read into memory."""

    def __init__(self, asked: Asked, places: Places, stack: ExitStack) -> None:
        self._places = places
        self._stack = stack
        counted = [name for name in asked.measures if name != SUCCESS] or ["mistake_rate"]
        named = {"task_from": places.task, "success_from": places.success}
        self._options = {"measure": ",".join(counted), **{name: word for name, word in named.items() if word}}
        self._store: Store | None = None

    def trials(self, side: Side) -> list[Trial]:
        """The trials of one side. Raises OSError."""
        params = {**self._options, **side.where}
        if side.paths:
            history = report.read(self._readings(side.paths), self._places.settings)
            with closing(history.store):
                rows = _asked(history.store, EVER | params, history.selection.failure_only)
        elif self._places.store:
            rows = _asked(self._opened(), params, self._failure_only())
        else:
            settings = self._places.settings
            with collector(settings.collector_url, settings.query_token) as client:
                answer = client.get(f"/api/v1{TRIALS.path}", params=params)
                check(answer)
                told = answer.json()
                rows = told["rows"] + ([{}] if told["truncated"] else [])
        if len(rows) > MOST_ROWS:
            raise OSError(
                f"these are more than {MOST_ROWS:,} trials and measures: choose fewer by filters, such as from=-1d"
            )
        return trials_of(rows)

    def _opened(self) -> Store:
        if self._store is None:
            existing(self._places.store)
            opened = Store.open(self._places.store, dimensions=self._places.settings.dimensions)
            self._store = self._stack.enter_context(closing(opened))
        return self._store

    def _failure_only(self) -> tuple[str, ...]:
        return tuple(load_sources(*self._places.settings.own("sources")).failure_only)

    def _readings(self, paths: Sequence[str]) -> Readings:
        tables = self._places.settings.tables
        files = looking(paths, load_agents(*([tables] if tables else [])))()
        return Evaluation(files, Positions(None)).below([Path(path) for path in paths])


class Evaluation(Readings):
    """Transcripts of an evaluation: each call gets the task of its trial, unless it names one itself."""

    roots: Sequence[Path] = ()

    def below(self, roots: Sequence[Path]) -> Evaluation:
        """The same, with the folders that were named."""
        self.roots = roots
        return self

    def calls(self, found: Found) -> Iterator[dict[str, Any]]:
        """As of any transcript, with `task` and `task.success` among the attributes."""
        root = next((one for one in self.roots if found.path.is_relative_to(one)), found.path.parent)
        told = beside(found.path, root)
        for one in super().calls(found):
            one["more"] = {**told, **one["more"]}
            yield one


def _asked(store: Reads, params: Mapping[str, str], failure_only: Sequence[str]) -> list[dict[str, Any]]:
    query = urlencode(params, encoding="utf-8").encode("ascii")
    try:
        parsed = read(query, TRIALS.takes, {}, time.time_ns(), since=TRIALS.since, failure_only=failure_only)
    except BadParameter as error:
        raise OSError(f"{error.parameter}={error.value}: {error.message}") from None
    return TRIALS.ask(parsed.selection, parsed.options).rows(store)


def write(found: Gate, *, junit_file: Path | None, comment_file: Path | None) -> None:
    """Writes the files that were asked for."""
    if junit_file:
        junit_file.write_bytes(junit(found))
    if comment_file:
        comment_file.write_text(comment(found), encoding="utf-8")


def text(found: Gate) -> str:
    """What is printed: Markdown, for people and for the summary of a job."""
    return markdown(found).rstrip("\n")
