"""The command line: each command calls one function, and imports what it needs when it runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from collector.cli.access import audit, token_app
from collector.cli.cluster import cluster_app
from collector.cli.export import export, sql
from collector.cli.gate import gate
from collector.cli.lessons import lessons_app, mcp, report, show_call
from collector.cli.options import RULES, STORE, To, sanitiser_from, settings_from
from collector.cli.rules import rules_app
from collector.cli.sanitise import sanitise_app
from collector.errors import Mistaken, StoreError, Unavailable
from collector.plural import plural
from collector.settings import SettingsError, check_dashboard, without_proxy
from collector.streams import open_streams
from collector.tables import TableError
from collector.visible import say
from dashboard import launch


def _version() -> str:
    from importlib.metadata import version

    return version("misstep")


app = App(
    name="misstep",
    help="A flight recorder for the mistakes of AI agents.\n\n"
    "Settings are flags, MISSTEP_ variables, or lines of misstep.toml: `misstep settings` lists them all.",
    version=_version,
    help_format="plaintext",
)
app.command(rules_app)
app.command(sanitise_app)
app.command(lessons_app)
app.command(cluster_app)
app.command(mcp)
app.command(report)
app.command(gate)
app.command(export)
app.command(sql)
app.command(token_app)
app.command(audit)
app.command(show_call, name="show")

ADDRESS_SPACE = 5 << 28  # with less, no store can be opened on two cores; with an empty one it uses 1.4 GiB


def main() -> None:
    """Runs the command that the arguments name. Exits with 1 if it finds mistakes, with 2 if it could not run."""
    open_streams()
    os.umask(0o077)  # whatever a command writes has what agents did in it, and is for this user alone
    without_proxy(os.environ)
    for number in (
        signal.SIGTERM,
        getattr(signal, "SIGHUP", signal.SIGTERM),
    ):  # as after Ctrl-C, no part of a file is left behind
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        try:
            app()
        except Mistaken as error:
            say(error)
            sys.exit(1)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (SettingsError, TableError, StoreError, Unavailable, OSError) as error:
        say(f"misstep: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


def _check_address_space() -> None:
    """Raises OSError where the collector could not start: libraries would end it without a word."""
    import resource  # which Windows does not have

    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY and allowed < ADDRESS_SPACE:
        raise OSError(
            f"the address space is limited to {allowed >> 20} MiB (ulimit -v), and the collector needs "
            f"{ADDRESS_SPACE >> 20} MiB, most of which takes no memory: remove the limit, or use one on memory"
        )


@app.command
def up(
    *,
    watch: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Also import what agents keep here and follow it."),
    ] = False,
) -> int:
    """Start the collector and the dashboard; Ctrl-C ends both.

    Settings, such as MISSTEP_HTTP, MISSTEP_DASHBOARD and MISSTEP_STORE, are
    variables or lines of misstep.toml: `misstep settings` lists them all.
    """
    from collector.commands.up import up

    return up(settings_from(), watch=watch)


@app.command
def collector(
    *,
    http: Annotated[
        str | None,
        Parameter(
            help="HOST:PORT for OTLP/HTTP, plain JSON and the query API; default MISSTEP_HTTP, else 127.0.0.1:4318."
        ),
    ] = None,
    grpc: Annotated[
        str | None, Parameter(help="HOST:PORT for OTLP/gRPC; default MISSTEP_GRPC, else 127.0.0.1:4317.")
    ] = None,
    store: Annotated[
        str | None,
        Parameter(help="Where events are stored; default MISSTEP_STORE, else duckdb:///data/misstep.duckdb."),
    ] = None,
    rules: Annotated[str | None, Parameter(help=RULES)] = None,
) -> None:
    """Start the collector: it receives and stores events, answers queries and sends alerts."""
    given = {"http": http, "grpc": grpc, "store": store, "rules": rules}
    settings_from(**given)  # reports mistakes now, under the names of the flags
    _check_address_space()
    flags = {f"MISSTEP_{name.upper()}": value for name, value in given.items() if value is not None}
    # A new process: without the 8 MiB that parsing arguments takes, which this one would hold as long as it runs.
    os.execve(sys.executable, [*launch.PYTHON, "collector.app"], {**os.environ, **flags})


@app.command
def dashboard(
    *,
    collector: Annotated[
        str | None,
        Parameter(help="URL of the collector; default MISSTEP_COLLECTOR_URL, else that of MISSTEP_HTTP."),
    ] = None,
) -> None:
    """Start the dashboard for a collector."""
    from collector.commands.up import environment

    settings = settings_from(collector_url=collector)
    check_dashboard(settings, signs_in=launch.sign_in_works())
    place = settings.dashboard
    say(f"Dashboard  {place.url}")
    arguments = launch.command(place.port, place.host)
    os.execve(arguments[0], arguments, environment(settings, settings.collector_url, settings.query_token))


@app.command
def replay(
    *paths: Annotated[
        Path, Parameter(help="Files, or folders of files: recorded bodies (001-traces.json) or JSON lines.")
    ],
    to: To = None,
    now: Annotated[
        bool, Parameter(negative="", show_default=False, help="Shift all recorded times so that the newest is now.")
    ] = False,
    refused: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Instead, store the requests that the collector accepted but could not store.",
        ),
    ] = False,
    store: Annotated[str | None, Parameter(help=f"Only for --refused. {STORE}")] = None,
) -> int:
    """Send recorded requests to a collector."""
    settings = settings_from(collector_url=to, store=store)
    if refused:
        from collector.commands.refused import store_refused

        stored = store_refused(settings)
        say(stored)
        return 1 if stored.failed else 0
    from collector.commands.replay import replay

    sent = replay(paths, settings.collector_url, token=settings.sending_token, now=now)
    say(sent)
    return 1 if sent.refused else 0


@app.command(name="import")
def import_(
    *wanted: Annotated[str, Parameter(help="Agents, such as claude-code, or files or folders; default: all agents.")],
    since: Annotated[str | None, Parameter(help="Only calls since then: 90d, or 2026-10-01.")] = None,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Only count; nothing is sent or kept.")
    ] = False,
    yes: Annotated[bool, Parameter(negative="", show_default=False, help="Do not ask.")] = False,
    watch: Annotated[bool, Parameter(negative="", show_default=False, help="Then follow new calls.")] = False,
    again: Annotated[
        bool, Parameter(negative="", show_default=False, help="Read files again that were imported before.")
    ] = False,
    to: To = None,
) -> int:
    """Import the sessions that coding agents keep on this machine, each call once.

    Their files are only read. docs/transcripts.md says of which agents, what
    is kept, and how to remove it.
    """
    import time

    from collector.commands.imports import Options, run, since_ns

    options = Options(wanted, since_ns(since, time.time_ns()), dry_run, yes, watch, again)
    return run(options, settings_from(collector_url=to))


@app.command
def forget(
    *, provenance: Annotated[Literal["transcript"], Parameter(help="What to remove: what misstep import brought.")]
) -> int:
    """Remove what was imported from agents' own files, and rewrite the store without it.

    Calls that telemetry told too stay, without repository, branch and file. The
    collector that has the store open does the work if it runs.
    """
    from collector.commands.forget import forget

    done = forget(settings_from())
    say(f"{plural(done['removed'], 'imported event')} removed ({provenance})")
    if done["state"] == "failed":
        say("misstep: it failed; the collector's log says why. What is removed stays removed.", file=sys.stderr)
    return 1 if done["state"] == "failed" else 0


@app.command
def demo(
    *,
    to: To = None,
    sessions: Annotated[
        int, Parameter(help="Number of agent sessions, spread over the last seven days.", validator=Number(gte=1))
    ] = 150,
    seed: Annotated[
        int | None,
        Parameter(help="The same number generates the same traffic; default: from the clock, or 0 with --bulk."),
    ] = None,
    bulk: Annotated[
        int,
        Parameter(
            show_default=False,
            help="Instead, write this many events of the last 30 days directly into the store.",
            validator=Number(gte=0),
        ),
    ] = 0,
    store: Annotated[str | None, Parameter(help=f"Only for --bulk. {STORE}")] = None,
) -> int:
    """Send a week of realistic traffic from a few agents, through the OpenTelemetry SDK."""
    settings = settings_from(collector_url=to, store=store)
    if bulk > 0:
        from collector.commands.bulk import bulk as fill

        say(f"{plural(fill(settings.store, bulk, seed or 0), 'event')} in {settings.store}")
        return 0
    from collector.commands.demo import demo

    say(demo(settings.collector_url, sessions, seed, token=settings.sending_token))
    return 0


@app.command
def settings() -> None:
    """List every setting: its variable, its default, and what it means."""
    from collector.commands.settings import lines

    say("\n".join(lines()).rstrip())


@app.command
def rebuild(*, store: Annotated[str | None, Parameter(help=STORE)] = None) -> int:
    """Recompute streaks, retries and counts, which are stored beside the events."""
    settings = settings_from(store=store)
    from collector.commands.rebuild import rebuild

    say(f"{plural(rebuild(settings.store), 'session')} recomputed in {settings.store}")
    return 0


@app.command
def backup(
    place: Annotated[Path, Parameter(help="Where to write the copy: a new file, or an existing folder.")],
    *,
    store: Annotated[
        str | None,
        Parameter(help="The store to copy; default MISSTEP_STORE, else duckdb:///data/misstep.duckdb."),
    ] = None,
) -> int:
    """Copy the whole store, also while a collector is writing to it. The copy is a store file too."""
    from collector.commands.backup import backup

    say(f"the store is in {backup(settings_from(store=store), place)}")
    return 0


@app.command
def doctor(
    *,
    agent: Annotated[
        str | None, Parameter(help="Only check what has arrived from this agent: a source, or a service name.")
    ] = None,
) -> int:
    """Report what is wrong with this installation, and what to do about it."""
    from collector.commands.agent import examine_agent
    from collector.commands.doctor import examine

    findings = list(examine_agent(settings_from(), agent) if agent else examine(os.environ))
    say("\n".join(map(str, findings)))
    return 1 if any(finding.state == "fail" for finding in findings) else 0


@app.command
def connect(
    agent: Annotated[
        str, Parameter(help="claude-code, codex, gemini-cli, qwen-code, opencode or copilot (its command line).")
    ],
    *,
    url: Annotated[
        str | None, Parameter(help="URL of the collector; default MISSTEP_COLLECTOR_URL, else that of MISSTEP_HTTP.")
    ] = None,
    extra: Annotated[
        tuple[str, ...],
        Parameter(
            name="--with",
            show_default=False,
            negative="",
            help="Settings that cost privacy, such as tool-details; docs/agents has each agent's, and what they cost.",
        ),
    ] = (),
    file: Annotated[Path | None, Parameter(help="The settings file; default the agent's own for this user.")] = None,
    yes: Annotated[
        bool, Parameter(negative="", show_default=False, help="Do not ask. Values that you set stay as they are.")
    ] = False,
    undo: Annotated[
        bool, Parameter(negative="", show_default=False, help="Take out what this command put in, and nothing else.")
    ] = False,
) -> int:
    """Let an agent send its mistakes here: show what changes in its settings, and change it after a yes.

    With ingest tokens (MISSTEP_INGEST_TOKENS) the agent gets the first.
    """
    from collector.commands import connect as command

    settings = settings_from(collector_url=url)
    sanitiser = sanitiser_from(settings)
    token = settings.sending_token

    def clean(line: str) -> str:
        return sanitiser.scrub(line.replace(token, "[redacted:token]") if token else line)[0]

    if undo:
        return command.undo(agent, os.environ, yes=yes, clean=clean)
    return command.connect(agent, settings.collector_url, token, extra, os.environ, file=file, yes=yes, clean=clean)
