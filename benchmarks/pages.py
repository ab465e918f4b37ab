"""The dashboard's pages over a store of many events, in a real Chromium: first paint, interactions, CPU time.

    python -m benchmarks.pages [--events 1000000] [--store duckdb:////tmp/bench.duckdb] [--range 24h] [--only Tools]

Creates the store if there is none (`misstep demo --bulk`) and starts a collector and a dashboard over it. `first`: from
the request of the page to the first figure, sentence, chart or table; `whole`: until nothing drawn changes any more.
`7d`: from a click on `7d` in the filter bar, `inside`: from a click inside the page, until nothing drawn changes any
more. Medians of three in milliseconds; no answer comes from a cache. CPU time is that of collector and dashboard
together, for opening the page and for `7d`; `others` is the number of cores that other processes kept busy meanwhile.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Locator, Page, TimeoutError, sync_playwright

from benchmarks.load import TICK, cpu, free_port, wait_ready
from collector.commands.bulk import bulk
from collector.engine.duckdb.open import path_of
from dashboard import launch, menu
from dashboard.data.moment import STALE_S

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
TIMES = 3
STILL_MS = 700
FORMS = (",.0f", ",.0f", ".1f", ",.0f", ".1f", ",.0f", ".1f")  # as `_measured` gives them
UNITS = {"h": 3600, "d": 86_400}
# Records when the first part of the answer appeared, when anything changed last, and how often the page's script ran.
# What is inside a canvas is never drawn: it is a table's copy for screen readers, which follows the table after 200 ms.
WATCH = """
const undrawn = ({type, target}) => (type === 'childList' ? target : target.parentElement)?.closest?.('canvas');
const answers = ['stMetric', 'stVegaLiteChart', 'stDataFrame', 'stAlert', 'stText', 'stCode', 'stJson']
  .map(name => `[data-testid=${name}]`).concat('.link-table tr', '.recorder svg',
    '[data-testid=stMain] [data-testid=stPageLink]',
    '[data-testid=stMain] [data-testid=stMarkdown]:not(:has([data-testid=stCaptionContainer]))').join(',');
window.seen = {first: 0, last: 0, runs: 0};
new MutationObserver(changes => {
  const main = document.querySelector('[data-testid=stMain]');
  if (!main || changes.every(undrawn)) return;
  seen.last = performance.now();
  const state = document.querySelector('[data-test-script-state]')?.dataset.testScriptState;
  if (state === 'running' && seen.state !== state) seen.runs++;
  seen.state = state;
  const waits = main.querySelector('[data-testid=stSkeleton]');
  if (!seen.first && !waits && main.querySelector(answers)) seen.first = seen.last;
}).observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
document.addEventListener('click', event => seen.clicked ??= event.timeStamp, true);
"""
STANDS = f"""() => document.querySelector('[data-test-script-state=notRunning]') && seen.first
  && !document.querySelector('[data-testid=stMain] [data-testid=stSkeleton]')
  && performance.now() - seen.last > {STILL_MS}"""

# What a reader clicks inside a page; pages without anything to click are not listed.
INSIDE: dict[str, Callable[[Page], Locator]] = {
    "overview": lambda page: page.get_by_role("button", name="Mistakes only"),
    "live": lambda page: page.get_by_text("Errors only"),
    "errors": lambda page: page.get_by_role("radio", name="Ongoing"),
    "tools": lambda page: page.get_by_role("button", name="Mistakes only"),
    "retries": lambda page: page.get_by_role("button", name="⋯"),
    "sessions": lambda page: page.get_by_role("button", name="Share"),
    "streaks": lambda page: page.get_by_role("radio", name="tool").first,
    "compare": lambda page: page.get_by_role("radio", name="model"),
    "alerts": lambda page: page.get_by_role("button", name="Silence").first,
    "session": lambda page: page.get_by_role("button", name="error →"),
    "streak": lambda page: page.get_by_role("button", name="error →"),
    "tool": lambda page: page.get_by_role("button", name="Share"),
    "group": lambda page: page.get_by_role("button", name="Note"),
}


def main() -> None:
    """Prints one line per page."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=1_000_000)
    arguments.add_argument("--store", default="")
    arguments.add_argument("--range", default="24h")
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    seconds = int(given.range[:-1]) * UNITS[given.range[-1]]
    with tempfile.TemporaryDirectory() as folder:
        url = given.store or f"duckdb:///{folder}/pages.duckdb"
        path = path_of(url)
        assert path is not None
        if not path.exists():
            bulk(url, given.events, 0)
        with running(url, folder) as (asked, shown, processes), sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.add_init_script(WATCH)
            subjects = about(asked)
            opened(page, shown)  # fills the browser's cache, as for a returning visitor
            runs: dict[str, list[list[float]]] = {}
            for turn in range(TIMES):  # STALE_S lie between two of a page, so that `7d` is not answered from a cache
                began = time.monotonic()
                for place, (name, title) in enumerate(menu.TITLES.items()):
                    if given.only not in title:
                        continue
                    start = seconds + 120 * (TIMES * place + turn)
                    url = address(shown, name, f"-{start}s", subjects)
                    runs.setdefault(title, []).append(_measured(page, url, name, processes))
                if turn + 1 < TIMES:
                    time.sleep(max(0.0, STALE_S - (time.monotonic() - began)))
            print("| page | first | whole | CPU, s | `7d` | CPU, s | inside | others |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- |")
            for title, of in runs.items():
                print(_line(title, of))
            chromium.close()


@contextmanager
def running(store: str, folder: str) -> Iterator[tuple[str, str, list[subprocess.Popen[bytes]]]]:
    """A collector and a dashboard over the store: their addresses and processes."""
    http, grpc, port = free_port(), free_port(), free_port()
    asked, shown = f"http://127.0.0.1:{http}", f"http://127.0.0.1:{port}"
    settings = {"STORE": store, "HTTP": f"127.0.0.1:{http}", "GRPC": f"127.0.0.1:{grpc}", "RETENTION": "3650d"}
    environment = {**os.environ, **{f"MISSTEP_{name}": value for name, value in settings.items()}}
    command = (sys.executable, "-m", "collector", "collector")
    processes = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)]
    try:
        wait_ready(http, processes[0])
        environment = launch.environment(environment, asked)
        processes.append(subprocess.Popen(launch.command(port), env=environment, stdout=subprocess.DEVNULL))
        for _ in range(600):
            with suppress(httpx.TransportError):
                if httpx.get(f"{shown}/_stcore/health").is_success:
                    break
            time.sleep(0.1)
        yield asked, shown, processes
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)


def about(asked: str) -> dict[str, dict[str, str]]:
    """The query parameters of the pages of one tool, group, session and streak."""
    with httpx.Client(base_url=f"{asked}/api/v1/", timeout=30) as api:
        tool, group, streak = (
            api.get(place, params={"limit": "1", **params}).raise_for_status().json()["rows"][0]
            for place, params in (
                ("breakdown", {"by": "tool", "operation": "tool"}),
                ("groups", {"sort": "-events"}),
                ("streaks", {"sort": "-length"}),
            )
        )
    session = {"session": streak["session"], "service": streak["service"]}
    return {
        "tool": {"tool": tool["tool"]},
        "group": {"fingerprint": group["fingerprint"]},
        "session": session,
        "streak": session | {"started": streak["started"]},
    }


def address(shown: str, name: str, since: str, subjects: Mapping[str, Mapping[str, str]]) -> str:
    """The address of a page, over a range until now and without refreshes; `subjects` as from `about`."""
    query = {"from": since, "refresh": "0", **subjects.get(name, {})}
    return f"{shown}/{name if name != 'overview' else ''}?{urlencode(query)}"


def _measured(page: Page, url: str, name: str, processes: Sequence[subprocess.Popen[bytes]]) -> list[float]:
    """`first`, `whole` in ms, CPU in s, `7d` in ms, CPU in s, `inside` in ms (NaN: nothing to click), `others`."""
    used, busy, ours, began = sum(map(cpu, processes)), _busy(), _ours(), time.monotonic()
    first, whole = opened(page, url)
    taken = sum(map(cpu, processes)) - used
    others = (_busy() - busy - (_ours() - ours)) / (time.monotonic() - began)
    inside = _clicked(page, INSIDE[name](page)) if name in INSIDE else float("nan")
    page.keyboard.press("Escape")  # a menu that it opened
    used = sum(map(cpu, processes))
    wider = _clicked(page, page.get_by_role("radio", name="7d"))
    return [first, whole, taken, wider, sum(map(cpu, processes)) - used, inside, max(others, 0)]


def opened(page: Page, url: str) -> tuple[float, float]:
    """`first` and `whole` in ms, once nothing on the page changes any more; needs `WATCH` among its scripts."""
    page.goto(url, wait_until="commit")
    still(page)
    return page.evaluate("seen.first"), page.evaluate("seen.last")


def _clicked(page: Page, target: Locator) -> float:
    """Milliseconds from a click, by the browser's clock, until nothing on the page changes any more; NaN if there is no
    target.
    """
    if not target.count():
        return float("nan")
    page.evaluate("[seen.clicked, seen.before] = [null, seen.runs]")
    target.click()
    with suppress(TimeoutError):  # a click that only the browser handles runs no script
        page.wait_for_function("seen.runs > seen.before", timeout=5_000, polling=20)
    still(page)
    return float(page.evaluate("seen.last - seen.clicked"))


def still(page: Page) -> None:
    """Returns when nothing on the page changes any more."""
    page.wait_for_function(STANDS, timeout=60_000, polling=50)


def _busy() -> float:
    """Seconds of CPU that the whole machine has used."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:8]]
    return (sum(fields) - fields[3] - fields[4]) / TICK


def _ours(pid: int | str = "self") -> float:
    """Seconds of CPU of this process and its descendants: Chromium, collector, dashboard."""
    with suppress(OSError):  # it has just ended
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        return (int(fields[11]) + int(fields[12])) / TICK + sum(map(_ours, children))
    return 0.0


def _line(title: str, runs: Sequence[Sequence[float]]) -> str:
    medians = [median(column) for column in zip(*runs, strict=True)]
    cells = ("" if value != value else f"{value:{form}}" for value, form in zip(medians, FORMS, strict=True))
    return f"| {title} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
