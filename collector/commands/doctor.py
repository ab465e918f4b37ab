"""Finds what is wrong with this installation: settings, store, collector, senders, dashboard; each with a remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from collector.api.reserved import reserved
from collector.commands.client import collector
from collector.engine.duckdb.open import path_of
from collector.engine.duckdb.schema import unfit
from collector.errors import StoreError
from collector.journal.dead_letters import Aside
from collector.plural import plural
from collector.settings import Settings, SettingsError, as_in_variable, is_secret, load, without_user
from collector.tables import TableError, load_toml
from collector.token_store import guarded
from dashboard import launch

FREE_BYTES = 1 << 30
SILENT = timedelta(hours=1)
UNCLASSIFIED = 0.2
AFTER_UPDATE = "after an update, stop the collector once and run misstep replay --refused"
NOT_READ = "add a row for them to a table in MISSTEP_TABLES, unless its other records tell the same"
SKEW_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """`state` is ok, warn or fail; a finding that is not ok has a remedy."""

    state: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.state:<4}  {self.what}" + (f"\n      → {self.remedy}" if self.remedy else "")


def examine(environ: Mapping[str, str], file: Path = Path("misstep.toml")) -> Iterator[Check]:
    """All checks that are possible from this machine, in the order in which one part depends on another."""
    try:
        settings = load({}, environ, file, reserved, guarded)
    except (SettingsError, TableError) as error:
        yield Check("fail", f"settings: {error}", "correct them; `misstep settings` lists every setting")
        return
    yield from _settings(settings, environ, file)
    yield from _tables(settings)
    yield from _store(settings)
    yield from asked(settings, partial(_collector, without_user(settings.collector_url)))
    yield from _sign_in()
    yield _dashboard(settings.dashboard.url)


def _settings(settings: Settings, environ: Mapping[str, str], file: Path) -> Iterator[Check]:
    written = load_toml(file) if file.exists() else {}
    for each in fields(settings):
        if getattr(settings, each.name) == each.default:
            continue
        variable = f"MISSTEP_{each.name.upper()}"
        said, origin = (environ[variable], variable) if environ.get(variable) else (written.get(each.name), str(file))
        shown = "***" if is_secret(each.name) else without_user(as_in_variable(said))
        yield Check("ok", f"setting {each.name} = {shown} (from {origin})")
    yield Check("ok", f"settings: the rest are defaults{'' if written else f', there is no {file}'}")
    if settings.rules != Settings().rules and not settings.rules.exists():
        yield Check("warn", f"rules: {settings.rules} is not there, the default rules are in force", "correct the path")


def _tables(settings: Settings) -> Iterator[Check]:
    """The user's own tables, read and tried as at a start of the collector."""
    if settings.tables is None:
        return
    from collector.made import pipeline_of  # compiles all patterns

    try:
        pipeline_of(settings, b"unused")  # otherwise a key would be made beside the store
    except TableError as error:
        for mistake in error.mistakes:
            yield Check("fail", f"tables: {error.path}: {mistake}", "correct it: the collector does not start so")
    else:
        yield Check("ok", f"tables: those in {settings.tables} are sound, and their examples come out as they should")


def _store(settings: Settings) -> Iterator[Check]:
    try:
        path = path_of(settings.store)
    except StoreError as error:
        yield Check("fail", str(error), "correct MISSTEP_STORE")
        return
    if path is None:
        yield Check("warn", "store: in memory", "everything is lost when the collector ends; set MISSTEP_STORE")
        return
    try:
        path.open("r+b").close()
    except FileNotFoundError:
        yield Check("warn", f"store: {path} is not there yet", "start the collector here: misstep up")
        return
    except OSError as error:
        said = f"store: {path} cannot be opened for writing ({error.strerror})"
        yield Check("fail", said, "let the collector's user write to it, or set MISSTEP_STORE to another place")
        return
    if wrong := unfit(path):
        what, _, remedy = wrong.partition(": ")
        yield Check("fail", f"store: {what}", remedy)
        return
    free = shutil.disk_usage(path.parent).free
    used = sum(each.stat().st_size for each in (path, path.with_name(f"{path.name}.wal")) if each.exists())
    size = f"store: {path}, {used / 1e6:.1f} MB, {free / 1e9:.1f} GB free"
    if free < FREE_BYTES:
        yield Check("warn", size, "make room, or keep less with MISSTEP_RETENTION or MISSTEP_RETENTION_SIZE")
    else:
        yield Check("ok", size)
    aside = Aside(path)
    if records := aside.counted().records:
        said = f"store: {plural(records, 'record')} that could not be stored, kept in {aside.path}"
        yield Check("warn", said, f"report it with the collector's log; {AFTER_UPDATE}")


def asked(settings: Settings, examined: Callable[[httpx.Client], Iterator[Check]]) -> Iterator[Check]:
    """The findings of `examined` about the collector; one `fail` where it does not answer or cannot be asked."""
    try:
        with collector(settings.collector_url, settings.query_token) as client:
            yield from examined(client)
    except ConnectionError:
        said = f"collector: nobody answers at {without_user(settings.collector_url)}"
        yield Check("fail", said, "misstep up, or set MISSTEP_COLLECTOR_URL")
    except OSError as error:
        what, _, remedy = str(error).partition("; ")
        yield Check("fail", f"collector: {what}", remedy)


def _collector(address: str, client: httpx.Client) -> Iterator[Check]:
    ready = client.get("/readyz", timeout=10)
    if not ready.is_success:
        yield Check("fail", f"collector: {address} is not ready: {ready.text[:200]}", "its log says why")
        return
    yield Check("ok", f"collector: {address} is ready")
    yield from _skew(ready)
    health, sources = client.get("/api/v1/health"), client.get("/api/v1/sources")
    if refused := refusal(health):
        yield refused
        return
    yield from _health(health.json())
    if refused := refusal(sources):
        yield refused
    else:
        yield from _sources(sources.json()["rows"], health.json()["accepted"], datetime.now(UTC))


def refusal(answer: httpx.Response) -> Check | None:
    """What is wrong if the collector refuses a query."""
    if answer.status_code in (401, 403):
        return Check("fail", "collector: it wants a query token", "set MISSTEP_QUERY_TOKEN")
    if not answer.is_success:
        said = f"collector: it answers {answer.status_code}: {answer.text[:200]}"
        return Check("fail", said, "its log says why")
    return None


def _skew(answer: httpx.Response) -> Iterator[Check]:
    if "date" in answer.headers:
        theirs = parsedate_to_datetime(answer.headers["date"])
        seconds = abs((datetime.now(UTC) - theirs).total_seconds())
        if seconds > SKEW_S:
            yield Check("warn", f"clock: the collector's differs by {seconds:.0f} s", "synchronise both clocks (NTP)")
        else:
            yield Check("ok", "clock: the collector's agrees with this machine's")


def _health(health: Mapping[str, Any]) -> Iterator[Check]:
    failures = {part: int(count) for part, count in (health.get("failures") or {}).items() if count}
    counted = f"collector: {plural(health['accepted'], 'record')} accepted, {health['stored']:,} stored"
    if wrong := health.get("unaccounted"):
        yield Check("fail", f"{counted}; {wrong:,} not accounted for", "report it with the collector's log")
    elif aside := (health.get("aside") or {}).get("records"):
        remedy = f"report it with the collector's log; {AFTER_UPDATE}"
        yield Check("warn", f"{counted}; {aside:,} could not be stored, kept aside", remedy)
    elif failures:
        shown = ", ".join(f"{part} {count}" for part, count in failures.items())
        yield Check("warn", f"{counted}; failures: {shown}", "the collector's log says why")
    else:
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in health["dropped"].items()) or "none"
        yield Check("ok", f"{counted}, {health['duplicate']:,} duplicate, dropped: {dropped}")
    if why := health.get("not_exported"):
        failed, _, remedy = why.partition(": ")
        yield Check("warn", f"retention: nothing old is removed, {failed}", remedy)
    if (cluster := health.get("cluster")) and cluster["problem"]:
        waiting = f"cluster: {cluster['waiting_rows']:,} rows wait in the store"
        yield Check("warn", f"{waiting}, {cluster['problem']}", "misstep cluster check says more")
    for name in cluster["silent"] if cluster else ():
        told = f"cluster: the collector {name} is silent, and no answer is exact until it is back"
        yield Check("warn", told, f"start it; if it never comes back, run misstep cluster forget {name}")


def _sources(rows: list[dict[str, Any]], accepted: int, now: datetime) -> Iterator[Check]:
    if not rows and accepted:
        said = f"sources: {plural(accepted, 'record')} arrived, and no table knows a call in them"
        yield Check("warn", said, "let the agent call a tool; docs/add-an-agent.md shows how to add an agent")
        return
    if not rows:
        remedy = "point an agent at it: OTEL_EXPORTER_OTLP_ENDPOINT; or try misstep demo"
        yield Check("warn", "sources: nothing has been received yet", remedy)
        return
    for row in rows:
        if unread := row.get("unread"):
            said = f"source {who(row)}: {plural(unread, 'record')} with {row['unread_by']} not read"
            yield Check("warn", said, NOT_READ)
        if not row["tool_data"] and not unread:
            said = f"source {who(row)}: seen, no tool data"
            yield Check("warn", said, f"misstep doctor --agent {row['source'] or row['service']}")
        if not row["tool_data"]:
            continue
        share = row.get("unclassified_rate") or 0
        counted = plural(row["events"], "event")
        said = f"source {who(row)}: {counted}, last {row['last_seen']}"
        if row.get("sampled"):
            yield sampled(said, row)
        elif share > UNCLASSIFIED:
            remedy = "add aliases or patterns for them to a taxonomy.toml in MISSTEP_TABLES"
            yield Check("warn", f"{said}, {share:.0%} of its errors have no class", remedy)
        else:
            yield Check("ok", said)
    newest = max(datetime.fromisoformat(row["last_seen"]) for row in rows)
    if now - newest > SILENT:
        remedy = "is an agent running, and does its exporter point here? Its own log names export failures"
        yield Check("warn", f"sources: nothing received since {newest:%Y-%m-%d %H:%M} UTC", remedy)


def who(row: Mapping[str, Any]) -> str:
    """A sender in words."""
    return f"{row['source'] or 'no known source'} from {row['service'] or 'a service without a name'}"


def sampled(said: str, row: Mapping[str, Any]) -> Check:
    """What to do about a sender that is sampled."""
    share = f"about {row['kept']:.0%} of its records arrive" if row["kept"] else "only a part of its records arrives"
    remedy = "keep everything from this agent: OTEL_TRACES_SAMPLER=always_on, no sampling processor on the way here"
    return Check("warn", f"{said}; sampled upstream, {share} ({row['sampled_by']})", remedy)


def _sign_in() -> Iterator[Check]:
    try:
        if launch.sign_in_works():
            yield Check("ok", "sign-in: the dashboard has people sign in")
    except OSError as error:
        yield Check("fail", f"sign-in: {error}", "correct it: the dashboard does not start so")


def _dashboard(address: str) -> Check:
    try:
        if httpx.get(f"{address}/_stcore/health", timeout=5).is_success:
            return Check("ok", f"dashboard: {address} answers")
    except httpx.TransportError:
        pass
    return Check("warn", f"dashboard: nobody answers at {address}", "misstep up, or misstep dashboard")
