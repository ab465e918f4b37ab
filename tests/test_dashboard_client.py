"""The dashboard's queries: one for many readers, expensive ones seldom, and older answers while nobody answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from dashboard.data import client
from dashboard.data.client import Collector, Problem


@dataclass
class Api:
    """An API that counts its queries, and may be busy; `now` is its clock, on which an answer `takes` time."""

    now: float = 100.0
    takes: float = 0.0
    status: int = 200
    error: dict[str, str] = field(default_factory=lambda: {"message": "too much"})
    asked: list[str] = field(default_factory=list)
    version: int = 0  # what the answers' tags say
    url: str = ""
    before: Callable[[], object] = lambda: None  # answers wait for this
    open: int = 0  # queries that are being answered
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def monotonic(self) -> float:
        """The clock; never the same time twice."""
        self.now += 1e-6
        return self.now

    def serve(self) -> ThreadingHTTPServer:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def do_GET(self) -> None:
                api.asked.append(self.path)
                api.now += api.takes
                with api.lock:
                    api.open += 1
                    api.most = max(api.most, api.open)
                api.before()
                with api.lock:
                    api.open -= 1
                row = {"calls": len(api.asked), "events": api.version}
                body = json.dumps({"rows": [row], "error": api.error}).encode()
                self.send_response(api.status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", f'"{api.version}"')
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    one = Api()
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=one.monotonic))
    server = one.serve()
    yield one
    server.shutdown()
    server.server_close()


def calls(collector: Collector, max_age: float | None = None) -> float:
    return float(collector.ask("breakdown", {"by": "tool"}, max_age=max_age).first()["calls"])


def test_readers_of_one_page_ask_once(api: Api) -> None:
    collector = Collector(api.url)
    with ThreadPoolExecutor(5) as readers:
        assert list(readers.map(lambda _: calls(collector), range(5))) == [1] * 5
    assert api.asked == ["/api/v1/breakdown?by=tool"]


def test_no_more_is_asked_at_once_than_is_answered_at_once(api: Api) -> None:
    collector, several = Collector(api.url), threading.Barrier(client.AT_ONCE, timeout=60)

    def wait() -> None:
        several.wait()  # for as many queries as may run at once
        time.sleep(0.05)  # and for any more

    api.before = wait
    asking = [collector.begin("breakdown", {"limit": str(n)}) for n in range(1, 3 * client.AT_ONCE + 1)]
    assert all(one.result().rows.height for one in asking)
    assert api.most == client.AT_ONCE


def test_who_asks_what_is_being_asked_waits_for_that_answer(api: Api) -> None:
    collector = Collector(api.url)
    asking = collector.begin("breakdown", {"by": "tool"})
    assert calls(collector) == 1
    assert asking.result().first()["calls"] == 1
    assert len(api.asked) == 1


@pytest.mark.parametrize(("takes", "kept"), [(0.01, 2.0), (0.5, 10.0), (9.0, 60.0)])
def test_an_answer_is_kept_for_as_long_as_it_was_dear(api: Api, takes: float, kept: float) -> None:
    api.takes = takes
    collector = Collector(api.url)
    assert calls(collector) == 1
    api.now += kept - 0.002
    assert calls(collector) == 1
    assert calls(collector, max_age=kept) == 1
    api.now += 0.004
    assert calls(collector) == 2


def test_what_took_too_long_is_not_asked_again_at_once(api: Api) -> None:
    api.takes, api.status = 0.5, 503
    collector = Collector(api.url)
    for _ in range(3):
        with pytest.raises(Problem, match="too much"):
            calls(collector)
    assert len(api.asked) == 1
    api.now, api.status = api.now + 10, 200
    assert calls(collector) == 2


def test_while_a_newer_answer_takes_too_long_the_last_one_is_given_as_an_old_one(api: Api) -> None:
    collector = Collector(api.url)
    assert calls(collector) == 1
    api.status = 503
    for wait, asked in ((60.0, 2), (9.9, 2), (0.2, 3), (19.8, 3), (0.3, 4), (39.8, 4), (0.3, 5), (59.8, 5)):
        api.now += wait
        answer = collector.ask("breakdown", {"by": "tool"})
        assert (answer.first()["calls"], answer.late, len(api.asked)) == (1, True, asked)
    api.status, api.now = 200, api.now + 0.3
    answer = collector.ask("breakdown", {"by": "tool"})
    assert (answer.first()["calls"], answer.late) == (6, False)


@pytest.mark.parametrize(
    ("status", "error", "state"),
    [
        (404, {"message": "Not Found"}, "older"),
        (404, {"message": "there is no group with fingerprint 7"}, "missing"),
        (400, {"message": "there is no parameter 'previous' here", "parameter": "previous", "value": "true"}, "older"),
        (400, {"message": "measures takes calls", "parameter": "measures", "value": "p99_ms"}, "older"),
        (400, {"message": "outcome is one of …", "parameter": "outcome", "value": "bad"}, "refused"),
    ],
)
def test_what_only_a_newer_collector_knows_is_told_from_what_the_reader_asked(
    api: Api, status: int, error: dict[str, str], state: str
) -> None:
    api.status, api.error = status, error
    with pytest.raises(Problem) as caught:
        calls(Collector(api.url))
    assert caught.value.state == state


def test_the_last_answer_is_good_while_nobody_answers(api: Api) -> None:
    collector = Collector(api.url)
    assert calls(collector) == 1
    away = Collector("http://127.0.0.1:9")
    collector._http = away._http
    assert calls(collector, max_age=0.0) == 1
    assert collector.away_since is not None
    with pytest.raises(Problem, match="does not answer"):
        collector.ask("retries")


def test_a_change_has_more_time_than_a_question(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT_S", 0.1)
    api.before = lambda: time.sleep(0.4)
    collector = Collector(api.url)
    assert collector.change("POST", "receivers/team/test").first()["calls"] == 1
    with pytest.raises(Problem, match="Narrow the range"):
        calls(collector)


def test_a_change_without_an_answer_may_have_been_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(api.url)
    assert calls(collector) == 1
    monkeypatch.setattr(client, "CHANGE_S", 0.1)
    api.before = lambda: time.sleep(0.4)
    with pytest.raises(Problem, match="whether it was done is not known") as caught:
        collector.change("POST", "silences")
    assert caught.value.state == "unanswered"
    api.before = lambda: None
    assert calls(collector) == 3  # earlier answers are forgotten


PAGE = "overview"


def shown(collector: Collector, *paths: str) -> list[float]:
    """The versions of the store that the parts of a page show."""
    moment = collector.moment(PAGE)
    return [collector.ask(path, moment=moment).first()["events"] for path in paths]


def test_the_parts_of_a_page_are_of_one_moment_even_if_something_is_written_while_it_refreshes(api: Api) -> None:
    collector, parts = Collector(api.url), ("breakdown", "retries", "sessions")
    assert shown(collector, *parts) == [0, 0, 0]
    api.version, api.now = 1, api.now + 1.9
    assert shown(collector, *parts) == [0, 0, 0]
    collector.refresh(PAGE, ahead=True)  # too soon
    assert shown(collector, *parts) == [0, 0, 0]
    api.now += 0.2
    writes = iter([2, 3])

    def write() -> None:
        api.version = next(writes, 3)

    api.before = write
    collector.refresh(PAGE, ahead=True)
    asked = len(api.asked)
    assert shown(collector, *parts) == [3, 3, 3]
    assert len(api.asked) == asked


def test_a_page_lasts_as_long_as_its_slowest_part(api: Api) -> None:
    collector = Collector(api.url)
    api.takes = 0.5
    shown(collector, "retries")
    api.takes, api.now = 0.0, api.now + 9
    shown(collector, "breakdown")
    collector.refresh(PAGE, ahead=True)
    assert len(api.asked) == 2
    api.now += 1
    collector.refresh(PAGE, ahead=True)
    assert len(api.asked) > 2


def test_what_was_asked_for_another_page_is_good_only_if_it_is_of_this_moment(api: Api) -> None:
    collector = Collector(api.url)
    calls(collector)
    api.version = 1
    assert shown(collector, "breakdown") == [1]


def test_a_page_that_opens_shows_what_comes_first(api: Api) -> None:
    collector = Collector(api.url)
    shown(collector, "breakdown", "retries")
    api.now, api.version = api.now + 60, 1
    collector.refresh(PAGE, ahead=False)
    assert len(api.asked) == 2
    assert shown(collector, "retries") == [1]


def test_of_a_page_that_cannot_refresh_the_last_answers_are_shown(api: Api) -> None:
    collector = Collector(api.url)
    assert shown(collector, "breakdown") == [0]
    api.now, api.status, api.version = api.now + 60, 503, 1
    collector.refresh(PAGE, ahead=True)
    assert shown(collector, "breakdown") == [0]
