"""`misstep import`: shows the sessions that agents keep on this machine, asks, and sends each call once."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import httpx
import msgspec
import stamina

from collector.commands.client import bearer, said
from collector.commands.progress import progress
from collector.commands.replay import ATTEMPTS, PATIENCE_S, wait_s
from collector.engine.duckdb.open import file_id, path_of
from collector.plural import plural
from collector.settings import Settings, without_user
from collector.times import iso_ns, length_ns, rfc3339
from collector.transcripts.find import Found, find, find_in
from collector.transcripts.kinds import by_content
from collector.transcripts.positions import Positions, place_for
from collector.transcripts.read import Count, Readings
from collector.transcripts.tables import Agent, load_agents
from collector.visible import say

LOT_CALLS, LOT_BYTES = 1_000, 2 << 20
WAITING_LOTS = 3  # between reading and sending
COUNTED_FIRST = 64 << 20  # of so many bytes, calls are counted before anybody is asked
WATCH_S, LOOK_AGAIN = 3.0, 10  # between looks at known files; every so many looks, new ones are searched for
START_S, END_S = 180.0, 30.0
# Of a collector that is started for an import, which answers no queries: what its engine may use, and no process that
# reads beside it, as this one does.
ENGINE_BYTES, WORKERS = 100_000_000, 0
TITLE = "What agents keep on this machine"
OF_NO_AGENT = "of no agent that has a table: read by this form, outcomes by what results say"
FIRST_RUN = (
    "Read: the sessions above, from the files that the agents keep; these are never changed, and no account is opened.",
    "Kept: of each call its time, session, tool, outcome, class, a short masked message, masked arguments, model,"
    " tokens and folder; no prompts, outputs or contents of files.",
    "Where: in {place}. To remove it: misstep forget --provenance transcript",
)


@dataclass(slots=True)
class Options:
    """The options of one import."""

    wanted: Sequence[str]
    since_ns: int = 0
    dry_run: bool = False
    yes: bool = False
    watch: bool = False
    again: bool = False


def run(options: Options, settings: Settings) -> int:
    """Imports; returns 0, or 1 if a file could not be read. Raises OSError if nothing can be sent."""
    agents = load_agents(*([settings.tables] if settings.tables else []))
    look = looking(options.wanted, agents)
    files = look()
    if not files and not options.watch:
        say(nothing_found(options.wanted, agents))
        return 0
    if options.dry_run:
        readings = read_all(Readings(files, Positions(None), options.since_ns), lambda lot: None)
        _show(readings, agents)
        return 1 if any(count.failed for count in readings.counts.values()) else 0
    here = Here(settings)
    positions = Positions(here.positions(), again=options.again)
    readings = Readings(files, positions, options.since_ns)
    if not readings.changed():
        say(f"Nothing new in {plural(len(files), 'file')}.")
        if not options.watch:
            return 0
    elif not options.yes:
        _ask(Readings(files, positions, options.since_ns), agents, here.place)
    with here.collector() as client:
        if readings.changed():
            positions.move(here.positions())  # a store that was made only now
            _imported(readings, client)
            positions.keep()
            _show(readings, agents)
            _tell(readings)
        if options.watch:
            _watch(look, positions, options.since_ns, client)
    return 1 if any(count.failed for count in readings.counts.values()) else 0


def looking(wanted: Sequence[str], agents: dict[str, Agent]) -> Callable[[], list[Found]]:
    """A search for the files of what was named: agents, or exact paths; without any, of all agents."""
    chosen = [one for one in agents.values() if one.id in wanted or one.telemetry in wanted]
    paths = [Path(one) for one in _paths(wanted, agents)]
    for path in paths:
        if not path.exists():
            near = get_close_matches(str(path), agents, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; agents are {', '.join(sorted(agents))}"
            raise FileNotFoundError(f"{path} is neither an agent nor a file or folder{hint}")
    chosen = chosen or list(agents.values())

    def look() -> list[Found]:
        if not paths:
            return find(chosen, os.environ, Path.home())
        return by_content(one for path in paths for one in find_in(chosen, path))

    return look


def _paths(wanted: Sequence[str], agents: dict[str, Agent]) -> list[str]:
    """What is no agent, by its table's name or that of its telemetry's, which several tables share."""
    return [one for one in wanted if one not in agents and all(one != agent.telemetry for agent in agents.values())]


def nothing_found(wanted: Sequence[str], agents: dict[str, Agent]) -> str:
    """What is said where no session was found."""
    if paths := _paths(wanted, agents):
        forms = ", ".join(one.title for one in agents.values() if one.any_agent)
        return f"No calls in a form that is known were found in {', '.join(paths)}; forms of unknown agents: {forms}"
    named = ", ".join(sorted(name for name, one in agents.items() if not one.any_agent))
    return f"No sessions of agents were found on this machine. Name a folder or a file, or an agent: {named}"


def read_all(readings: Readings, send: Callable[[list[dict[str, Any]]], None]) -> Readings:
    """Reads all files that changed, and gives their calls in lots."""
    lot: list[dict[str, Any]] = []
    changed = readings.changed()
    with progress("import", len(changed)) as advance:
        for found in changed:
            for one in readings.calls(found):
                lot.append(one)
                if len(lot) >= LOT_CALLS:
                    send(lot)
                    lot = []
            advance()
    if lot:
        send(lot)
    return readings


def _imported(readings: Readings, client: httpx.Client) -> None:
    """Reads and sends at the same time."""
    waiting: queue.Queue[list[bytes] | None] = queue.Queue(WAITING_LOTS)
    failed: list[BaseException] = []

    def send() -> None:
        while (lot := waiting.get()) is not None:
            if not failed:
                try:
                    _post(client, lot)
                except Exception as error:
                    failed.append(error)

    sender = threading.Thread(target=send, name="import", daemon=True)
    sender.start()

    def put(lot: list[dict[str, Any]]) -> None:
        if failed:
            raise failed[0]
        waiting.put(_encoded(lot))  # which takes a fifth of the memory

    try:
        read_all(readings, put)
    finally:
        waiting.put(None)
        sender.join()
    if failed:
        raise failed[0]


def _encoded(lot: Iterable[dict[str, Any]]) -> list[bytes]:
    return [*map(msgspec.json.encode, lot)]


def _post(client: httpx.Client, lot: list[bytes]) -> None:
    body = b"\n".join(lot)
    if len(body) > LOT_BYTES and len(lot) > 1:
        _post(client, lot[: len(lot) // 2])
        _post(client, lot[len(lot) // 2 :])
        return
    stamina.instrumentation.set_on_retry_hooks(())
    try:
        for attempt in stamina.retry_context(on=wait_s, attempts=ATTEMPTS, timeout=PATIENCE_S):
            with attempt:
                answer = client.post("/v1/events", content=body, headers={"content-type": "application/x-ndjson"})
                answer.raise_for_status()
    except httpx.HTTPStatusError as error:
        raise OSError(f"the collector answered {error.response.status_code}: {said(error.response)}") from None
    except httpx.TransportError as error:
        raise ConnectionError(f"the collector does not answer any more: {error}") from None


def _ask(readings: Readings, agents: dict[str, Agent], place: str) -> None:
    """Shows what there is and asks. Raises OSError if nobody can answer, or the answer is no."""
    changed = readings.changed()
    if sum(found.size for found in changed) <= COUNTED_FIRST:
        for found in changed:
            for _ in readings.calls(found):
                pass
    _show(readings, agents)
    say()
    for line in FIRST_RUN:
        say(line.format(place=place))
    if not sys.stdin.isatty():
        raise OSError("nobody can be asked here: to import, add --yes; to only count, --dry-run")
    if input("Import? [y/N] ").strip().lower() not in ("y", "yes"):
        raise OSError("nothing was imported")


def _show(readings: Readings, agents: dict[str, Agent]) -> None:
    """One line for each agent."""
    say(TITLE)
    for name, count in sorted(readings.counts.items(), key=lambda item: -item[1].calls):
        say(f"  {agents[name].title:<28} {_line(count, agents[name])}")


def _line(count: Count, agent: Agent) -> str:
    parts = [f"{plural(count.files, 'file')}, {count.bytes / 1e6:,.1f} MB"]
    if count.unchanged:
        parts.append(f"{count.unchanged:,} unchanged")
    if count.calls or count.requests:
        failed = count.outcomes["error"]
        parts += [plural(len(count.sessions), "session"), f"{plural(count.calls, 'call')}, {failed:,} failed"]
        parts.append(f"{rfc3339(count.oldest_ns)[:10]} to {rfc3339(count.newest_ns)[:10]}")
    if agent.keeps_days:
        parts.append(f"the agent removes them after {agent.keeps_days} days")
    if agent.any_agent:
        parts.append(OF_NO_AGENT)
    return "; ".join(parts)


def _tell(readings: Readings) -> None:
    """What was left out, and why."""
    for name, count in sorted(readings.counts.items()):
        told = count.told
        if count.repeated or told.repeated:
            say(f"  {name}: {count.repeated + told.repeated:,} repeated by resumed, forked or sub-agent sessions")
        if open_calls := count.outcomes["unknown"]:
            say(f"  {name}: {plural(open_calls, 'call')} without a result yet")
        for version, lines in told.broken.most_common(5):
            say(f"  {name} {version or 'of an unknown version'}: {plural(lines, 'line')} could not be read")
        if count.failed:
            say(f"  {name}: {plural(count.failed, 'file')} could not be read")
        for (version, kind), records in told.unknown.most_common(5):
            say(
                f"  {name} {version or 'of an unknown version'}: {plural(records, 'record')} of an unknown kind, {kind}"
            )


def _watch(look: Callable[[], list[Found]], positions: Positions, since_ns: int, client: httpx.Client) -> None:
    """Follows new calls until Ctrl-C."""
    say("Watching for new calls; Ctrl-C ends it.")
    turn, files = 0, look()
    while True:
        time.sleep(WATCH_S)
        turn += 1
        if turn % LOOK_AGAIN == 0:
            files = look()
        files = [now for one in files if (now := one.now()) is not None]
        readings = Readings(files, positions, since_ns)
        if readings.changed():
            for found in readings.changed():
                if lot := _encoded(readings.calls(found)):
                    _post(client, lot)
            positions.keep()


class Here:
    """The collector to import to: one that runs, or one that is started for this import and ended with it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = settings.collector_url
        self._client = httpx.Client(
            base_url=self._url,
            headers=bearer(settings.sending_token),
            timeout=60,
            trust_env=False,
        )

    @property
    def place(self) -> str:
        """The store's file, or the address of its collector."""
        return self._store()[0]

    def positions(self) -> Path | None:
        """The file that remembers what was imported into this store; None for a store that is not there yet."""
        store = self._store()[1]
        return place_for(store, os.environ, Path.home()) if store else None

    @contextmanager
    def collector(self) -> Iterator[httpx.Client]:
        """Raises OSError if none runs and none can be started."""
        started = None if self._answers() else self._start()
        try:
            yield self._client
        finally:
            self._client.close()
            if started is not None:
                started.terminate()
                started.wait(END_S)

    def _start(self) -> subprocess.Popen[bytes]:
        where = without_user(self._url)
        if self._url != self._settings.http.url:
            raise ConnectionError(f"no collector answers at {where}: start one there with misstep up")
        memory = f"{min(self._settings.memory, ENGINE_BYTES)}B"
        environ = os.environ | {"MISSTEP_MEMORY": memory, "MISSTEP_WORKERS": str(WORKERS)}
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "collector", "collector"], stderr=subprocess.DEVNULL, env=environ
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if started.poll() is not None or time.monotonic() > deadline:
                started.terminate()
                raise ConnectionError(f"no collector could be started at {where}: misstep collector says why")
            time.sleep(0.1)
        return started

    def _answers(self) -> bool:
        try:
            return self._client.get("/readyz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False

    def _store(self) -> tuple[str, str]:
        """What the store is called, and its id; "" for one that is not there yet."""
        if self._answers():
            token = self._settings.query_token or next(iter(self._settings.query_tokens), "")
            answer = self._client.get("/api/v1/health", headers=bearer(token))
            store = answer.json().get("store", {}) if answer.is_success else {}
            url = without_user(self._url)
            return str(store.get("path") or url), str(store.get("id") or url)
        path = path_of(self._settings.store)
        return str(path or self._settings.store), file_id(path) if path and path.exists() else ""


def since_ns(text: str | None, now_ns: int) -> int:
    """The time of `90d`, or of a date; 0 without one. Raises OSError for anything else."""
    if not text:
        return 0
    try:
        return now_ns - length_ns(text)
    except ValueError:
        pass
    try:
        return iso_ns(text)
    except ValueError:
        raise OSError(f"--since {text!r} is neither a duration, such as 90d, nor a date, such as 2026-10-01") from None
