"""How long it takes from the answer to a request until its events are visible, on an otherwise idle collector.

    python -m benchmarks.visible [--rounds 20]

Each round posts three mistakes of a new session. `API`: until `/api/v1/events` has them; `Live`: until the page in a
real Chromium counts them; `alert`: until the default rule `mistakes-in-a-row` fires for the session. Seconds.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

import httpx
from playwright.sync_api import sync_playwright

from benchmarks.pages import FLAGS, running

POLL_S = 0.01
LONGEST_S = 60


def main() -> None:
    """Prints a line for each place at which events become visible."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=20)
    rounds = arguments.parse_args().rounds
    took: dict[str, list[float]] = {"API": [], "Live": [], "alert": []}
    random = Random(7)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(f"duckdb:////{folder}/visible.duckdb", folder) as (asked, shown, _),
        httpx.Client(base_url=asked, timeout=30) as client,
        sync_playwright() as browsers,
    ):
        chromium = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{shown}/live")
        for number in range(rounds):
            time.sleep(random.uniform(0, 5))  # so that rounds do not keep step with evaluations and refreshes
            session, count = f"s{number}", 3 * (number + 1)
            mistake = {"service": "visible", "session": session, "tool": "edit", "error_class": "ContentNotFoundError"}
            client.post(
                "/v1/events", json=[mistake | {"call_id": f"{session}.{n}"} for n in range(3)]
            ).raise_for_status()
            since = time.monotonic()
            took["API"].append(_until(lambda: len(_rows(client, "events", session=session)) == 3, since))  # noqa: B023
            page.get_by_text(f"{count} events, the newest").wait_for(timeout=LONGEST_S * 1000)
            took["Live"].append(time.monotonic() - since)
            took["alert"].append(_until(lambda: _fires(client, session), since))  # noqa: B023
        chromium.close()
    for place, seconds in took.items():
        print(f"{place:6} median {median(seconds):6.2f}, at most {max(seconds):6.2f} s")


def _until(seen: Callable[[], bool], since: float) -> float:
    while not seen():
        if time.monotonic() - since > LONGEST_S:
            raise SystemExit(f"nothing was seen for {LONGEST_S} s")
        time.sleep(POLL_S)
    return time.monotonic() - since


def _fires(client: httpx.Client, session: str) -> bool:
    firing = _rows(client, "alerts", state="firing", limit="10000")
    return any(row["rule"] == "mistakes-in-a-row" and session in row["labels"].values() for row in firing)


def _rows(client: httpx.Client, path: str, **asked: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"/api/v1/{path}", params=asked).raise_for_status().json()["rows"]
    return rows


if __name__ == "__main__":
    main()
