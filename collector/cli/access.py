"""The commands `misstep token …` and `misstep audit`: who may do what, and who did what."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from collector.cli.options import End, Filters, Start, settings_from
from collector.visible import say

token_app = App(
    name="token",
    help="Make, list and revoke tokens: who may send, read, change alerts and administer, for which project.\n\n"
    "With MISSTEP_ADMIN_TOKEN, the collector at MISSTEP_COLLECTOR_URL is asked. Without, the file beside the\n"
    "store is changed, which a running collector notices within a second.",
)

Store = Annotated[
    str | None,
    Parameter(help="The store whose tokens are meant; default MISSTEP_STORE, else duckdb:///data/misstep.duckdb."),
]
Most = Annotated[str, Parameter(help="Most in a minute; beyond it, senders are told to wait. 0: any number.")]


@token_app.command(name="create")
def token_create(
    name: Annotated[str, Parameter(help="Letters, digits, _ . @ and -: what logs and pages call it.")],
    *,
    rights: Annotated[str, Parameter(help="Some of ingest, read, alerts and admin, with commas between.")],
    project: Annotated[str, Parameter(help="What is sent is of this project, and nothing else is seen.")] = "",
    requests: Most = "0",
    bytes: Most = "0",
    events: Most = "0",
    store: Store = None,
) -> int:
    """Make a token and print it, this once, on standard output."""
    from collector.commands.tokens import create

    print(create(settings_from(store=store), name, rights, project, requests=requests, volume=bytes, events=events))
    say("misstep: this is the only time that it is shown", file=sys.stderr)
    return 0


@token_app.command(name="list")
def token_list(*, store: Store = None) -> int:
    """List tokens, revoked ones too; never a token itself."""
    from collector.commands.tokens import listed

    for line in listed(settings_from(store=store)):
        say(line)
    return 0


@token_app.command(name="revoke")
def token_revoke(name: Annotated[str, Parameter(help="Its name.")], *, store: Store = None) -> int:
    """Revoke a token: it is refused from now on."""
    from collector.commands.tokens import revoke

    revoke(settings_from(store=store), name)
    say(f"{name} is revoked")
    return 0


def audit(*where: Filters, since: Start = "-7d", until: End = "now", store: Store = None) -> int:
    """Show the audit log, newest first: who read events, asked SQL, copied the store, or changed something.

    Takes who=NAME and action=read, sql, copy, add, change or remove. With MISSTEP_ADMIN_TOKEN, of the collector at
    MISSTEP_COLLECTOR_URL; without, of the files beside the store.
    """
    from collector.commands.tokens import audited

    for line in audited(settings_from(store=store), where, since, until):
        say(line)
    return 0
