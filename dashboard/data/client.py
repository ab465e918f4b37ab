"""The dashboard's only I/O: queries to the collector's API, answered as polars frames.

Answers are cached for twenty times as long as they took, within limits, so that viewers of a page share them and no
repeated query keeps the collector busy for more than a twentieth of the time; those of one page as long as the slowest
of them, so that they are all of one moment. The last answer is also used while the collector does not answer, or not in
time. Every failure becomes a `Problem` with a sentence for people. No Streamlit
here.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import polars as pl

from dashboard.data.moment import STALE_S, Moment, good_for
from dashboard.data.problems import Problem as Problem
from dashboard.data.problems import problem, refused

TIMEOUT_S = 5.0
PATIENT_S = {"lessons": 20.0}  # what reads the calls around thousands of failures, by its address
TRY_S = 25.0  # for trying rules on days of history; the collector gives up after 20 s
YAML = {"Content-Type": "application/yaml"}
CHANGE_S = 90.0  # for test messages; the collector waits 30 s for each answer of a mail server
MOST = "10000"  # rows that a list of the API gives at most, if asked for them
KEPT_ANSWERS = 512
MOMENTS = 256  # pages whose moment is remembered
ROUNDS = 2  # that a page asks again at most, to get answers between which nothing was written
AGAIN_S = 10.0  # until what took too long is asked again; twice as long after each further time
BEGUN = 16  # threads for `begin`
AT_ONCE = 4  # queries that a collector answers at a time; waiting for a turn does not count as taking too long

_TIME = pl.Datetime("ns", "UTC")
_COUNTS = """
calls ok errors cancelled denied unknown rated sessions events mistakes unclassified sessions_of_tool worst_streak
retried recovered lasting not_known_yet recovered_identical recovered_changed identical_retries
declared declared_retryable taxonomy_retryable
length streaks reached_next open limit_times mistake_limit interrupted mistakes_saved at
attempt sequence redactions reported_streak status_code retry_after_ms duration_ms
signals compared equal higher lower ours
a_errors a_calls b_errors b_calls a_part a_whole b_part b_whole growth told_to_wait honoured most_in_a_minute
tool_calls requests with_tokens with_cost until_events until_sessions events_since sessions_since
disagreement found attempts days scope_sessions next_sessions recovered_sessions tokens
asking unread wasted_retries input_tokens output_tokens wasted_input_tokens wasted_output_tokens
"""
_RATES = """
error_rate low high recovery_rate unclassified_rate spread hazard value threshold
p50_ms p95_ms median_attempts median_seconds cost_usd agreement kept
per_100 equal_per_100 equal_low equal_high covered lost_cost_usd
contribution share expected traffic rate difference a a_low a_high b b_low b_high
session_share seconds busy_ms wasted_ms wasted_cost_usd
"""
_FLAGS = """
mistake retryable fatal retryable_declared limit_reached can_recover reports_ok tool_data truncated sampled
agent_stopped said_retryable silenced is_it
"""
_TIMES = """
time received_time first_seen last_seen started ended since fired resolved ignored saved evaluated
newest success failure starts ends unread_since last_received
"""
COUNTS = frozenset(_COUNTS.split())
# Types of the API's columns that are not text: for columns without values, and to tell times from text.
TYPES: Mapping[str, Any] = {
    **dict.fromkeys(COUNTS, pl.Float64),
    **dict.fromkeys(_RATES.split(), pl.Float64),
    **dict.fromkeys(_FLAGS.split(), pl.Boolean),
    **dict.fromkeys(_TIMES.split(), _TIME),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API: its rows, its other fields, and when it was fetched."""

    rows: pl.DataFrame
    rest: Mapping[str, Any]
    fetched: datetime
    tag: str = ""  # its ETag, which stays the same while nothing is written
    late: bool = False  # whether it is an older one, because a newer one took too long

    @property
    def cut(self) -> bool:
        """Whether there are more rows than the query asked for."""
        return bool(self.rest.get("truncated"))

    def pick(self, *columns: str) -> pl.DataFrame:
        """These columns of the rows; columns that the answer lacks are null."""
        return self.having(*columns).select(columns)

    def having(self, *columns: str) -> pl.DataFrame:
        """The rows with these columns, which are null where the answer, maybe of an older collector, lacks them."""
        missing = (pl.lit(None, column_type(name)).alias(name) for name in columns if name not in self.rows.columns)
        return self.rows.with_columns(missing)

    def first(self) -> dict[str, Any]:
        """The first row, or an empty one."""
        return self.rows.row(0, named=True) if self.rows.height else {}


@dataclass(slots=True)
class _Kept:
    """The cached answer to one query; whoever holds the lock is asking it."""

    began: float = -math.inf  # when it was asked last, on the monotonic clock
    asked: float = -math.inf  # when that was answered
    took: float = 0.0
    failed: int = 0  # how often in a row it took too long
    answer: Answer | None = None
    problem: Problem | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def good(self, max_age: float | None, moment: Moment | None) -> bool:
        """Whether the answer need not be asked for again."""
        age = time.monotonic() - self.asked
        if self.failed:
            again: float = AGAIN_S * 2 ** (self.failed - 1)
            return age < min(again, STALE_S)
        if moment is not None:
            return self.began >= moment.began
        longest = good_for(self.took) if max_age is None else max_age
        return age < longest


@dataclass(slots=True)
class Collector:
    """The query API at `url`. Thread-safe."""

    url: str
    token: str = field(default="", repr=False)
    alerts_token: str = field(default="", repr=False)
    narrowed: Mapping[str, str] = field(default_factory=dict)  # headers that say for whom it asks
    away_since: datetime | None = None
    _http: httpx.Client = field(init=False, repr=False)
    _kept: OrderedDict[str, _Kept] = field(init=False, repr=False, default_factory=OrderedDict)
    _moments: OrderedDict[Hashable, Moment] = field(init=False, repr=False, default_factory=OrderedDict)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)
    _asking: ThreadPoolExecutor = field(
        init=False, repr=False, default_factory=partial(ThreadPoolExecutor, BEGUN, thread_name_prefix="question")
    )

    _turns: threading.Semaphore = field(init=False, repr=False, default_factory=partial(threading.Semaphore, AT_ONCE))

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= self.narrowed
        self._http = httpx.Client(base_url=f"{self.url.rstrip('/')}/api/v1/", headers=headers, timeout=TIMEOUT_S)

    @property
    def place(self) -> str:
        """Host and port, for sentences."""
        return httpx.URL(self.url).netloc.decode()

    def ask(
        self, path: str, params: Mapping[str, str] | None = None, *, max_age: float | None = None,
        moment: Moment | None = None,
    ) -> Answer:  # fmt: skip
        """The answer to `GET /api/v1/{path}`; an older one while the collector does not answer, or not in time.

        Args:
            max_age: seconds for which a cached answer is good; by default that depends on how long it took.
            moment: of the page that asks; instead of `max_age`, a cached answer is good if it is of this moment.

        Raises:
            Problem: there is no answer, or the query took too long a moment ago.
        """
        key = str(httpx.URL(path, params=dict(sorted((params or {}).items()))))
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)
        with kept.lock:  # several parts of a page may send the same query
            if not kept.good(max_age, moment):
                with self._turns:
                    self._renew(kept, path, params or {})
            if moment is not None:
                moment.noted(key, path, params or {}, kept.took)
            if kept.answer is not None and (kept.failed or not kept.problem):
                return replace(kept.answer, late=bool(kept.failed))
            assert kept.problem is not None
            raise kept.problem

    def begin(
        self, path: str, params: Mapping[str, str], max_age: float | None = None, moment: Moment | None = None
    ) -> Future[Answer]:
        """As `ask`, without waiting for the answer."""
        return self._asking.submit(self.ask, path, params, max_age=max_age, moment=moment)

    def moment(self, page: Hashable) -> Moment:
        """The moment that this page shows: it has lasted since a refresh, or begins now."""
        with self._lock:
            moment = self._moments.setdefault(page, Moment(time.monotonic()))
            self._moments.move_to_end(page)
            while len(self._moments) > MOMENTS:
                self._moments.popitem(last=False)
            return moment

    def refresh(self, page: Hashable, *, ahead: bool) -> None:
        """Begins another moment of this page if it is time to.

        Args:
            ahead: whether to ask first for all that was asked in the last moment, so that the page changes as a whole.
                If something was written between the answers, they are asked for again, a few times at most. Those that
                fail do so again where they are used.
        """
        before = self.moment(page)
        with before.turn:  # of several viewers, one asks
            if self.moment(page) is not before or not before.past(time.monotonic()):
                return
            moment = self._settled(before) if ahead else Moment(time.monotonic())
            with self._lock:
                self._moments[page] = Moment(moment.began, moment.slowest)

    def _settled(self, before: Moment) -> Moment:
        moment, tags = self._together(before)
        for _ in range(ROUNDS):
            again, others = self._together(before)
            if others == tags:
                break
            moment, tags = again, others
        return moment

    def _together(self, before: Moment) -> tuple[Moment, list[str]]:
        """Asks again what was asked in a moment; the new moment, and the tags of the answers."""
        moment = Moment(time.monotonic())
        asking = [self.begin(path, params, moment=moment) for path, params in list(before.asked.values())]
        return moment, ["" if each.exception() else each.result().tag for each in asking]

    def _renew(self, kept: _Kept, path: str, params: Mapping[str, str]) -> None:
        began = kept.began = time.monotonic()
        try:
            kept.answer, kept.problem, kept.failed = self._fetch(path, params, kept.answer), None, 0
        except Problem as why:
            away = why.state == "away"
            kept.problem = None if away and kept.answer else why
            kept.failed = kept.failed + 1 if why.state == "slow" else 0
            if not kept.failed:
                return
        kept.asked = time.monotonic()
        kept.took = kept.asked - began

    def _fetch(self, path: str, params: Mapping[str, str], kept: Answer | None) -> Answer:
        known = {"If-None-Match": kept.tag} if kept and kept.tag else {}
        longest = PATIENT_S.get(path, TIMEOUT_S)
        try:
            response = self._http.get(path, params=dict(params), headers=known, timeout=longest)
        except httpx.TimeoutException:
            raise Problem("slow", f"This took longer than {longest:.0f} s. Narrow the range.") from None
        except httpx.TransportError:
            self.away_since = self.away_since or datetime.now(UTC)
            raise Problem("away", f"Collector at {self.place} does not answer.") from None
        self.away_since = None
        if kept and response.status_code == 304:
            return replace(kept, fetched=datetime.now(UTC))
        if response.is_success:
            return replace(read_answer(response.content, datetime.now(UTC)), tag=response.headers.get("ETag", ""))
        raise problem(response)

    def change(self, method: str, path: str, change: Mapping[str, Any] | None = None) -> Answer:
        """Sends a change to `path`, and drops all cached answers, which may now be wrong.

        Raises:
            Problem: nothing was changed, or it is not known whether something was.
        """
        late = Problem(
            "unanswered", f"No answer within {CHANGE_S:.0f} s: whether it was done is not known. Look again."
        )
        try:
            return self._send(late, method, path, json=dict(change or {}), timeout=CHANGE_S)
        finally:
            with self._lock:
                self._kept.clear()

    def change_rules(self, method: str, path: str, revision: str, change: str | Mapping[str, Any] = "") -> Answer:
        """Sends a change of the rule file, a rule as YAML or a receiver, made from this revision of the file.

        Raises:
            Problem: nothing was changed, or it is not known whether something was.
        """
        late = Problem("unanswered", "No answer: whether it was saved is not known. Look again.")
        right = {"Authorization": f"Bearer {self.alerts_token}"} if self.alerts_token else {}
        body: dict[str, Any] = {"content": change.encode()} if isinstance(change, str) else {"json": dict(change)}
        headers = {"If-Match": f'"{revision}"', **right, **(YAML if isinstance(change, str) else {})}
        try:
            return self._send(late, method, path, refused, headers=headers, timeout=CHANGE_S, **body)
        finally:
            with self._lock:
                self._kept.clear()

    def try_rules(self, path: str, rules: str, params: Mapping[str, str]) -> Answer:
        """The API's answer to a rule file that is being tried out.

        Raises:
            Problem: there is no answer.
        """
        late = Problem("slow", f"Trying it took longer than {TRY_S:.0f} s. A narrower `where` or fewer `by` take less.")
        return self._send(late, "POST", path, content=rules.encode(), headers=YAML, params=dict(params), timeout=TRY_S)

    def _send(
        self, late: Problem, method: str, path: str, why: Callable[[httpx.Response], Problem] | None = None,
        **about: Any,
    ) -> Answer:  # fmt: skip
        try:
            response = self._http.request(method, path, **about)
        except httpx.TimeoutException:
            raise late from None
        except httpx.TransportError:
            raise Problem("away", f"Collector at {self.place} does not answer.") from None
        if not response.is_success:
            raise (why or problem)(response)
        return read_answer(response.content or b"{}", datetime.now(UTC))

    def since_away(self) -> datetime | None:
        """Since when the collector has not answered; None if it answers now."""
        try:
            self.ask("health", max_age=5.0)
        except Problem as why:
            if why.state == "away":
                return self.away_since
        return self.away_since


def path(*parts: str) -> str:
    """A path of the API; its parts may be any text."""
    return "/".join(quote(part, safe="") for part in parts)


def read_answer(body: bytes, fetched: datetime) -> Answer:
    """An answer's JSON as a frame: its `rows` if it has any, otherwise the object as a single row."""
    data: dict[str, Any] = msgspec.json.decode(body)
    rows = data.pop("rows", None)
    return Answer(frame([data] if rows is None else rows), data, fetched)


def frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of the API as a frame: times as UTC timestamps, numbers as floats, objects as JSON text, ids as text."""
    columns: dict[str, list[Any]] = {}
    rows = list(rows)
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = [row.get(name) for row in rows]
    return pl.DataFrame([_column(name, values) for name, values in columns.items()])


def column_type(name: str) -> Any:
    """The type of an API column; `previous_…` columns have the type of the column that they belong to."""
    return TYPES.get(name.removeprefix("previous_"), pl.String)


def _column(name: str, values: list[Any]) -> pl.Series:
    """A column of the type of its values; `TYPES` decides if all are missing, and which texts are times."""
    sample = next((value for value in values if value is not None), None)
    match sample:
        case None:
            return pl.Series(name, values, dtype=column_type(name))
        case bool():
            return pl.Series(name, values, dtype=pl.Boolean)
        case int() | float():
            return pl.Series(name, values, dtype=pl.Float64, strict=False)
        case str() if column_type(name) == _TIME:
            return pl.Series(name, values, dtype=pl.String).str.to_datetime(time_unit="ns", time_zone="UTC")
        case list() if not any(isinstance(item, (dict, list)) for value in values for item in value or ()):
            return pl.Series(name, values, strict=False)
    return pl.Series(name, [_text(value) for value in values], dtype=pl.String)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
