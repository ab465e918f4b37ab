"""`misstep lessons …` and `misstep mcp`: what would prevent mistakes, for people and for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from collector.cli.options import Filters, Start, sanitiser_from, settings_from
from collector.errors import Mistaken
from collector.visible import say

lessons_app = App(name="lessons", help="What a sentence, a permission or a setting would prevent, with evidence.")
Id = Annotated[str, Parameter(help="The id of a lesson, as misstep lessons lists it.")]
Folder = Annotated[Path, Parameter(name="--in", help="The project; by default, this folder.")]


@lessons_app.default
def lessons(
    *where: Filters,
    since: Start = "-60d",
    refused: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Also what is snoozed or dismissed, or what a gate refused, and why."
        ),
    ] = False,
) -> int:
    """List the lessons of the last 60 days, and what became of those that were adopted."""
    from collector.commands.client import filters
    from collector.commands.lessons import lessons

    settings = settings_from()
    asked = dict(filters(where)) | {"from": since}
    for line in lessons(settings.collector_url, settings.query_token, every=refused, **asked):
        say(line)
    return 0


@lessons_app.command
def show(lesson: Id, *, folder: Folder = Path()) -> int:
    """Show one lesson with its evidence, the gates that it passed, and the file that it belongs to."""
    from collector.commands.lessons import show

    settings = settings_from()
    for line in show(settings.collector_url, settings.query_token, lesson, folder):
        say(line)
    return 0


@lessons_app.command
def draft(
    lesson: Id,
    *,
    agent: Annotated[str, Parameter(name="--for", help="The agent that reads it, such as claude-code.")] = "",
    folder: Folder = Path(),
    write: Annotated[Path | None, Parameter(help="Write it into this file, between marks of Misstep.")] = None,
    undo: Annotated[
        bool, Parameter(negative="", show_default=False, help="Take it out of the file of --write again.")
    ] = False,
) -> int:
    """Print the change of the instruction file as a diff; with --write FILE, write it and adopt the lesson."""
    from collector.commands import lessons as command

    settings = settings_from()
    if undo and write is None:
        raise Mistaken("--undo needs --write FILE: the file to take it out of")
    lines = (
        command.undo(settings.collector_url, settings.query_token, lesson, write)
        if undo and write
        else command.draft(settings.collector_url, settings.query_token, lesson, agent, folder, write)
    )
    for line in lines:
        say(line)
    return 0


@lessons_app.command
def adopt(
    lesson: Id,
    *,
    folder: Folder = Path(),
    at: Annotated[
        str, Parameter(help="Since when the sentence is there; by default since its line's commit, or the file's time.")
    ] = "",
) -> int:
    """Say that you follow a lesson: from then on its effect is measured."""
    from collector.commands.lessons import adopt

    settings = settings_from()
    for line in adopt(settings.collector_url, settings.query_token, lesson, folder, at):
        say(line)
    return 0


@lessons_app.command
def snooze(
    lesson: Id, *, length: Annotated[str, Parameter(name="--for", help="How long, such as 30d.")] = "30d"
) -> int:
    """Put a lesson off for a while; meanwhile it shows what happens without it."""
    _mark(lesson, {"state": "snoozed", "for": length}, f"Snoozed for {length}.")
    return 0


@lessons_app.command
def dismiss(lesson: Id) -> int:
    """Do not propose a lesson again."""
    _mark(lesson, {"state": "dismissed"}, "Dismissed; misstep lessons reopen takes it back.")
    return 0


@lessons_app.command
def reopen(lesson: Id) -> int:
    """Take back that a lesson is adopted, snoozed or dismissed."""
    _mark(lesson, {"state": "open"}, "It is open again.")
    return 0


def _mark(lesson: str, said: dict[str, str], sentence: str) -> None:
    from collector.commands.lessons import mark

    settings = settings_from()
    mark(settings.collector_url, settings.query_token, lesson, said)
    say(sentence)


def report(
    *what: Annotated[str, Parameter(help="Agents, or exact paths; by default all agents of this machine.")],
    since: Annotated[str | None, Parameter(help="Only sessions since then: 90d, or a date.")] = "90d",
) -> int:
    """Tell what the agents on this machine keep getting wrong, from their files; nothing is stored."""
    import time

    from collector.commands.imports import since_ns
    from collector.commands.report import report

    for line in report(what, since_ns(since, time.time_ns()), settings_from()):
        say(line)
    return 0


def show_call(call: Annotated[str, Parameter(help="The id of a call or of an event.")]) -> int:
    """Show one call, with a masked excerpt of the transcript around it, read from your own file."""
    from collector.commands.show import show

    settings = settings_from()
    for line in show(call, settings, sanitiser_from(settings)):
        say(line)
    return 0


def mcp() -> int:
    """Answer agents on standard input and output by the Model Context Protocol, read-only, from a collector."""
    import asyncio
    from importlib.metadata import version

    from collector.commands.client import bearer

    settings = settings_from()
    try:
        from collector.mcp.server import serve_stdio
    except ModuleNotFoundError:
        raise OSError("what misstep mcp needs is not installed: install misstep[mcp]") from None
    asyncio.run(serve_stdio(settings.collector_url, bearer(settings.query_token), version("misstep")))
    return 0
