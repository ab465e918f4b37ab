"""The commands `misstep rules …`: check, test and try alert rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from collector.cli.options import RULES, RuleFile, settings_for_rules
from collector.plural import plural
from collector.visible import say

rules_app = App(name="rules", help="Check, test and try alert rules.")


@rules_app.command(name="check")
def rules_check(file: RuleFile) -> int:
    """Report every mistake in a file of alert rules."""
    from collector.alerts.rulefile import load_rules

    settings_for_rules()
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

    The events are those of the collector at MISSTEP_COLLECTOR_URL, by default that of MISSTEP_HTTP.
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

    The events are those of the collector at MISSTEP_COLLECTOR_URL, by default that of MISSTEP_HTTP.
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
    settings = settings_for_rules()
    asked = {"from": f"-{since.removeprefix('-')}", "step": step, **params}
    rows = list(try_rules(file, what, settings.collector_url, settings.query_token, **asked))
    say("\n".join(map(describe, rows)))
    return 0


@rules_app.command(name="test")
def rules_test(file: RuleFile) -> int:
    """Run the tests in a file of alert rules."""
    from collector.alerts.rulefile import load_rules
    from collector.alerts.trying.ruletest import failures

    settings_for_rules()
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

    return notify_test(settings_for_rules(rules=rules).rules, receiver)
