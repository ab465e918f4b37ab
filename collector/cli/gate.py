"""`misstep gate`: whether a run of an evaluation is worse than its baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from collector.cli.options import settings_for_rules
from collector.visible import say


def gate(
    *run: Annotated[str, Parameter(help="This run: files or folders, or filters such as service_version=1.3.")],
    baseline: Annotated[
        tuple[str, ...], Parameter(negative="", help="The same of the baseline; may be repeated.")
    ] = (),
    measure: Annotated[
        tuple[str, ...], Parameter(negative="", help="What is compared, as in the compare API; may be repeated.")
    ] = ("mistake_rate",),
    limit: Annotated[
        tuple[str, ...], Parameter(negative="", help="The worst allowed value: mistake_rate=0.1; may be repeated.")
    ] = (),
    task: Annotated[str, Parameter(help="The dimension or attribute that tells the task.")] = "",
    success: Annotated[str, Parameter(help="The attribute that tells whether the task succeeded.")] = "",
    trials: Annotated[
        int, Parameter(help="How often tasks must be tried for a verdict that can fail.", validator=Number(gte=1))
    ] = 2,
    store: Annotated[str | None, Parameter(help="A store that no collector has open, instead of a collector.")] = None,
    to: Annotated[str | None, Parameter(help="URL of the collector; default MISSTEP_COLLECTOR_URL.")] = None,
    junit: Annotated[Path | None, Parameter(help="Also write JUnit XML into this file.")] = None,
    comment: Annotated[Path | None, Parameter(help="Also write a comment for a pull request into this file.")] = None,
) -> int:
    """Compare a run of an evaluation with its baseline; exit 1 if it is worse, 2 if that cannot be told.

    Trials are paired by task. Prints Markdown, such as for the summary of a
    job: docs/gate.md.
    """
    from collector.commands import gate as command
    from collector.gate.verdict import Asked

    settings = settings_for_rules(collector_url=to, **({"store": store} if store else {}))
    command.check_measures(measure)
    limits = command.limits_of(limit, measure)
    names = tuple(dict.fromkeys((*measure, *limits)))
    if not run or not (baseline or limits):
        raise OSError("name this run, and a --baseline or a --limit; docs/gate.md has examples")
    places = command.Places(settings, settings.store if store else "", task, success)
    found = command.gate(run, baseline, Asked(names, limits, trials), places)
    command.write(found, junit_file=junit, comment_file=comment)
    say(command.text(found))
    return found.exit
