"""The command line: each command calls one function, and imports what it needs when it runs."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from collector.api.reserved import reserved
from collector.errors import Mistaken, StoreError, Unavailable
from collector.plural import plural
from collector.settings import Settings, SettingsError, check_dashboard, load, without_proxy
from collector.streams import in_utf8, open_streams
from collector.tables import TableError
from collector.visible import say
from dashboard import launch

if TYPE_CHECKING:
    from collector.sanitise.sanitise import Sanitiser


def _version() -> str:
    from importlib.metadata import version

    return version("misstep")


app = App(
    name="misstep",
    help="A flight recorder for the mistakes of AI agents.\n\n"
    "Settings are flags, MISSTEP_ variables, or lines of misstep.toml: docs/configuration.md has them all.",
    version=_version,
    help_format="plaintext",
)
rules_app = App(name="rules", help="Check, test and try alert rules.")
sanitise_app = App(name="sanitise", help="Check and apply the rules that remove secrets.")
app.command(rules_app)
app.command(sanitise_app)

To = Annotated[
    str | None,
    Parameter(help="URL of the collector to send to; default MISSTEP_COLLECTOR_URL, else http://127.0.0.1:4318."),
]
STORE = "The store, which no collector may have open; default MISSTEP_STORE, else duckdb:///data/misstep.duckdb."
RULES = "A file of alert rules; default MISSTEP_RULES, else alerts.yaml."
RuleFile = Annotated[Path, Parameter(help="A file of alert rules.")]
Filters = Annotated[str, Parameter(help="Filters of the query API, such as tool=apply_diff or outcome=error.")]
Start = Annotated[
    str,
    Parameter(
        name="--from", allow_leading_hyphen=True, help="Start of the range: RFC 3339, or relative to now, such as -7d."
    ),
]
End = Annotated[
    str, Parameter(name="--to", allow_leading_hyphen=True, help="End of the range, exclusive: written like its start.")
]

ADDRESS_SPACE = 5 << 28  # with less, no store can be opened on two cores; with an empty one it uses 1.4 GiB


def main() -> None:
    """Runs the command that the arguments name. Exits with 1 if it finds mistakes, with 2 if it could not run."""
    open_streams()
    os.umask(0o077)  # whatever a command writes has what agents did in it, and is for this user alone
    without_proxy(os.environ)
    for number in (signal.SIGTERM, signal.SIGHUP):  # as after Ctrl-C, no part of a file is left behind
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


def _settings(**flags: str | None) -> Settings:
    return load(flags, os.environ, reserved=reserved)


def _settings_for_rules(**flags: str | None) -> Settings:
    """The settings; afterwards, rules may name the user's own dimensions."""
    from collector.query.filters import add_dimensions

    settings = _settings(**flags)
    add_dimensions(settings.dimensions)
    return settings


def _check_address_space() -> None:
    """Raises OSError where the collector could not start: libraries would end it without a word."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY and allowed < ADDRESS_SPACE:
        raise OSError(
            f"the address space is limited to {allowed >> 20} MiB (ulimit -v), and the collector needs "
            f"{ADDRESS_SPACE >> 20} MiB, most of which takes no memory: remove the limit, or use one on memory"
        )


@app.command
def up() -> int:
    """Start the collector and the dashboard; Ctrl-C ends both.

    Settings, such as MISSTEP_HTTP, MISSTEP_DASHBOARD and MISSTEP_STORE, are
    variables or lines of misstep.toml: docs/configuration.md has them all.
    """
    from collector.commands.up import up

    return up(_settings())


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
    _settings(**given)  # reports mistakes now, under the names of the flags
    _check_address_space()
    flags = {f"MISSTEP_{name.upper()}": value for name, value in given.items() if value is not None}
    # A new process: without the 8 MiB that parsing arguments takes, which this one would hold as long as it runs.
    os.execve(sys.executable, [*launch.PYTHON, "collector.app"], {**os.environ, **flags})


@app.command
def dashboard(
    *,
    collector: Annotated[
        str | None,
        Parameter(help="URL of the collector; default MISSTEP_COLLECTOR_URL, else http://127.0.0.1:4318."),
    ] = None,
) -> None:
    """Start the dashboard for a collector."""
    from collector.commands.up import environment

    settings = _settings(collector_url=collector)
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
    settings = _settings(collector_url=to, store=store)
    if refused:
        from collector.commands.refused import store_refused

        stored = store_refused(settings)
        say(stored)
        return 1 if stored.failed else 0
    from collector.commands.replay import replay

    sent = replay(paths, settings.collector_url, token=next(iter(settings.ingest_tokens), ""), now=now)
    say(sent)
    return 1 if sent.refused else 0


@app.command
def demo(
    *,
    to: To = None,
    sessions: Annotated[
        int, Parameter(help="Number of agent sessions, spread over the last 24 hours.", validator=Number(gte=1))
    ] = 60,
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
    """Send a day of realistic traffic from a few agents, through the OpenTelemetry SDK."""
    settings = _settings(collector_url=to, store=store)
    if bulk > 0:
        from collector.commands.bulk import bulk as fill

        say(f"{plural(fill(settings.store, bulk, seed or 0), 'event')} in {settings.store}")
        return 0
    from collector.commands.demo import demo

    say(demo(settings.collector_url, sessions, seed, token=next(iter(settings.ingest_tokens), "")))
    return 0


@app.command
def rebuild(*, store: Annotated[str | None, Parameter(help=STORE)] = None) -> int:
    """Recompute streaks, retries and counts, which are stored beside the events."""
    settings = _settings(store=store)
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

    say(f"the store is in {backup(_settings(store=store), place)}")
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

    findings = list(examine_agent(_settings(), agent) if agent else examine(os.environ))
    say("\n".join(map(str, findings)))
    return 1 if any(finding.state == "fail" for finding in findings) else 0


@app.command
def connect(
    agent: Annotated[
        str, Parameter(help="claude-code, codex, gemini-cli, qwen-code, opencode or copilot (its command line).")
    ],
    *,
    url: Annotated[
        str | None, Parameter(help="URL of the collector; default MISSTEP_COLLECTOR_URL, else http://127.0.0.1:4318.")
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

    settings = _settings(collector_url=url)
    sanitiser = _sanitiser(settings)
    token = next(iter(settings.ingest_tokens), "")

    def clean(line: str) -> str:
        return sanitiser.scrub(line.replace(token, "[redacted:token]") if token else line)[0]

    if undo:
        return command.undo(agent, os.environ, yes=yes, clean=clean)
    return command.connect(agent, settings.collector_url, token, extra, os.environ, file=file, yes=yes, clean=clean)


@app.command
def export(
    *where: Filters,
    format: Annotated[Literal["parquet", "csv", "jsonl"], Parameter(help="Format of the file.")],
    output: Annotated[Path | None, Parameter(help="The file; default events.parquet, .csv or .jsonl.")] = None,
    since: Start = "-30d",
    until: End = "now",
) -> int:
    """Write the events of a range to a file.

    They come from the collector at MISSTEP_COLLECTOR_URL, by default http://127.0.0.1:4318.
    """
    settings = _settings()
    from collector.commands.export import export

    path = output or Path(f"events.{format}")
    rows = export(settings.collector_url, path, format, [*where, f"from={since}", f"to={until}"], settings.query_token)
    out = sys.stdout if path.is_file() else sys.stderr  # such as /dev/stdout
    say(f"{plural(rows, 'event')} in {path}", file=out)
    return 0


@app.command
def sql(
    statement: Annotated[str, Parameter(help="One SELECT over the table events.")],
    *where: Filters,
    since: Start = "-24h",
    until: End = "now",
    limit: Annotated[int, Parameter(help="Most rows to return, 1 to 10,000.")] = 100,
    format: Annotated[Literal["table", "csv", "jsonl"], Parameter(help="Format of the rows.")] = "table",
) -> int:
    """Run a read-only SQL statement over the events of a range.

    It is answered by the collector at MISSTEP_COLLECTOR_URL, by default http://127.0.0.1:4318.
    """
    settings = _settings()
    from collector.commands.sql import sql

    if format != "table":  # for programs
        in_utf8()
    asked = [*where, f"from={since}", f"to={until}", f"limit={limit}"]
    found = sql(settings.collector_url, statement, asked, format, settings.query_token)
    shows = say if format == "table" or sys.stdout.isatty() else print
    shows(found)
    return 0


@rules_app.command(name="check")
def rules_check(file: RuleFile) -> int:
    """Report every mistake in a file of alert rules."""
    from collector.alerts.rulefile import load_rules

    _settings_for_rules()
    found = load_rules(file)
    counted = f"{plural(len(found.rules), 'rule')}, {plural(len(found.receivers), 'receiver')}"
    say(f"{file}: {counted}, no mistakes")
    return 0


Since = Annotated[
    str, Parameter(allow_leading_hyphen=True, help="How far to go back in the stored events, such as 12h or 7d.")
]
Step = Annotated[str, Parameter(help="Time between two evaluations, such as 15s or 1m.")]


@rules_app.command(name="backtest")
def rules_backtest(file: RuleFile, *, since: Since = "7d", step: Step = "1m") -> int:
    """Show when rules would have fired on stored events, and how often they would have paged.

    The events are those of the collector at MISSTEP_COLLECTOR_URL, by default http://127.0.0.1:4318.
    """
    from collector.commands.rules import backtested

    return _try_rules(file, "backtest", backtested, since, step)


@rules_app.command(name="suggest")
def rules_suggest(
    file: RuleFile,
    *,
    pages: Annotated[str, Parameter(help="Most pages that each rule may have sent per week.")] = "1",
    since: Since = "7d",
    step: Step = "1m",
) -> int:
    """Suggest the most sensitive threshold of each rule that would not have paged too often.

    The events are those of the collector at MISSTEP_COLLECTOR_URL, by default http://127.0.0.1:4318.
    """
    from collector.commands.rules import suggested

    return _try_rules(file, "suggest", suggested, since, step, pages=pages)


def _try_rules(
    file: Path, what: str, describe: Callable[[dict[str, Any]], str], since: str, step: str, **params: str
) -> int:
    from collector.commands.rules import try_rules
    from collector.query.filters import BadParameter, duration_ns

    for name, length in (("--since", since.removeprefix("-")), ("--step", step)):
        try:
            duration_ns(name, length)
        except BadParameter as error:
            raise OSError(f"{name} = {length!r}: {error}") from None
    settings = _settings_for_rules()
    asked = {"from": f"-{since.removeprefix('-')}", "step": step, **params}
    rows = list(try_rules(file, what, settings.collector_url, settings.query_token, **asked))
    say("\n".join(map(describe, rows)))
    return 0


@rules_app.command(name="test")
def rules_test(file: RuleFile) -> int:
    """Run the tests in a file of alert rules."""
    from collector.alerts.rulefile import load_rules
    from collector.alerts.trying.ruletest import failures

    _settings_for_rules()
    found = load_rules(file)
    failed = list(failures(found))
    say("\n".join([*failed, f"{file}: {plural(len(found.tests), 'test')}, {len(failed)} failed"]))
    return 1 if failed else 0


@rules_app.command(name="notify-test")
def rules_notify_test(
    receiver: Annotated[str, Parameter(help="Name of the receiver in the rule file.")],
    *,
    rules: Annotated[str | None, Parameter(help=RULES)] = None,
) -> int:
    """Send a test message to a receiver that the rule file defines."""
    from collector.commands.rules import notify_test

    return notify_test(_settings_for_rules(rules=rules).rules, receiver)


@sanitise_app.command(name="filter")
def sanitise_filter() -> int:
    """Read JSON values from standard input, one per line; write them without secrets, in the same order."""
    from collector.commands.sanitise import filter_lines

    in_utf8()
    for line in filter_lines(sys.stdin, _sanitiser(_settings())):
        print(line, flush=True)
    return 0


@sanitise_app.command(name="check")
def sanitise_check(file: Annotated[Path, Parameter(help="A text file.")]) -> int:
    """Report what would be removed from a file and by which rule, without printing it."""
    from collector.commands.sanitise import check_lines

    with file.open(encoding="utf-8", errors="replace") as lines:
        found = list(check_lines(lines, _sanitiser(_settings())))
    for cut in found:
        say(f"{file}:{cut.line}:{cut.column}: {cut.rule}: {cut.title}, {plural(cut.length, 'character')}")
    say(f"{file}: {plural(len(found), 'place')} would be cut" if found else f"{file}: nothing would be cut")
    return 1 if found else 0


@sanitise_app.command(name="fingerprint")
def sanitise_fingerprint() -> int:
    """Read a secret from standard input; print the hash in its redaction marks, by which stored events are found."""
    from collector.hash_key import hash_key, key_file
    from collector.sanitise.sanitise import fingerprint

    settings = _settings()
    key = key_file(settings)
    if not settings.hash_key and not (key and key.exists()):
        raise OSError(f"there is no key at {key}, by which marks were made: name their store with MISSTEP_STORE")
    secret = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not secret:
        raise OSError("no secret came from standard input")
    say(fingerprint(hash_key(settings), secret))
    return 0


@sanitise_app.command(name="apply")
def sanitise_apply() -> int:
    """Apply the present rules to everything that is stored, and rewrite the store without what they remove.

    The store is MISSTEP_STORE, by default duckdb:///data/misstep.duckdb. The
    collector that has it open, at MISSTEP_COLLECTOR_URL, does the work if it runs.
    """
    from collector.commands.apply import apply

    done = apply(_settings())
    for rule, count in done.get("redactions", {}).items():
        say(f"{rule}: {count}")
    say(f"{plural(done['changed'], 'row')} changed")
    if done["state"] == "failed":
        say("misstep: it failed; the collector's log says why. The changes so far are kept.", file=sys.stderr)
    return 1 if done["state"] == "failed" else 0


def _sanitiser(settings: Settings) -> Sanitiser:
    """The sanitiser that a collector with these settings would use."""
    from collector.hash_key import sanitiser_of
    from collector.sanitise.redactions import load_rules

    return sanitiser_of(settings, load_rules(*settings.own("redactions.toml")))
