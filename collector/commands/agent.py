"""`misstep doctor --agent`: what has arrived from one agent, what is missing, and the settings that turn it on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import httpx

from collector.commands.doctor import NOT_READ, Check, asked, refusal, sampled, who
from collector.plural import plural
from collector.query.filters import escaped
from collector.settings import Settings, without_user
from collector.switches import NEVER, agents
from collector.tables import schemas

EVER = "1970-01-01"
FACTS = {
    "session": "sessions",
    "parameters": "arguments of calls",
    "order": "sequence numbers, so that calls of one instant stand in any order",
    "class": "class or text of errors",
    "model": "the model",
    "retryable": "whether a retry helps",
}


def examine_agent(settings: Settings, name: str) -> Iterator[Check]:
    """Findings about the source or service of this name; one `fail` if nothing has arrived."""
    yield from asked(settings, partial(_agent, settings, name))


def _agent(settings: Settings, name: str, client: httpx.Client) -> Iterator[Check]:
    answer = client.get("/api/v1/sources", params={"limit": 1000})
    if refused := refusal(answer):
        yield refused
        return
    page = page_of(name)
    wanted = {name, *(_sources(page) if page and page.name == f"{name}.md" else ())}
    rows = [row for row in answer.json()["rows"] if wanted & {row["source"], row["service"]}]
    for row in rows:
        yield from _arrived(client, row, _lines(page or page_of(row["source"]), settings))
    if not rows:
        yield _nothing(name, page, settings)


def _arrived(client: httpx.Client, row: Mapping[str, Any], lines: str) -> Iterator[Check]:
    sender = who(row)
    if not row["tool_data"]:
        yield _no_calls(sender, row, lines)
        return
    where = {name: escaped(row[name] or "") for name in ("source", "service", "project")}
    counts = client.get("/api/v1/breakdown", params={"by": "operation", "from": EVER, **where}).json()["rows"]
    told = ", ".join(f"{each['operation']} {each['calls']:,} ({plural(each['errors'], 'error')})" for each in counts)
    said = f"{sender}: {told}"
    yield sampled(said, row) if row.get("sampled") else Check("ok", f"{said}; last {row['last_seen']}")
    if row["unknown"]:
        said = f"{sender}: it leaves open how {row['unknown']:,} of its {plural(row['events'], 'call')} ended"
        yield Check("warn", said, row["remedies"].get("outcome", "no known setting turns this on"))
    yield from _missing(sender, row)
    yield from _untold(sender, row)


def _no_calls(sender: str, row: Mapping[str, Any], lines: str) -> Check:
    if row["metrics"] is None:
        said = f"{sender}: no calls, but {plural(row['unread'], 'record')} with {row['unread_by']} not read"
        return Check("warn", said, f"{NOT_READ}\n{lines}".rstrip())
    said = f"{sender}: seen, no tool data; metrics {row['metrics']}, last {row['last_seen']}"
    remedy = f"send its logs or traces too, if it has any: metrics do not contain calls\n{lines}"
    return Check("warn", said, remedy.rstrip())


def _missing(sender: str, row: Mapping[str, Any]) -> Iterator[Check]:
    """Facts of calls that the agent never reports, unless `_untold` says them, with their price."""
    missing = {fact: words for fact, words in FACTS.items() if _never(row["coverage"][fact])}
    if not row["reports_ok"]:
        missing["successes"] = "successful calls"
    priced = [switch["setting"] for each in row["untold"] for switch in each["switches"]]
    for fact, words in missing.items():
        switch = row["remedies"].get(fact)
        if not switch:
            yield Check("ok", f"{sender}: it does not report {words}, and no known setting turns this on")
        elif not any(setting in switch for setting in priced):
            yield Check("warn", f"{sender}: it does not report {words}", switch)


def _untold(sender: str, row: Mapping[str, Any]) -> Iterator[Check]:
    """Facts that are missing although a setting would send them; then facts for which no setting is known."""
    for each in row["untold"]:
        ways = "\n        or ".join(map(_choice, each["switches"]))
        yield Check("warn", f"{sender}: it does not tell {each['what']}", f"{ways}\n        see {each['page']}")
    agent = agents().get(row["source"])
    for never in agent.untold if agent else ():
        if not any(switch.arrival for switch in never.switches):
            ways = " or ".join(switch.setting for switch in never.switches)
            known = f"{ways} helps" if ways else "no known setting turns this on"
            yield Check("ok", f"{sender}: it does not tell {never.what}, and {known}")


def _choice(switch: Mapping[str, Any]) -> str:
    how = f"set {switch['setting']}" + (f": {switch['command']}" if switch["command"] else "")
    return how + (f"\n          it costs: {switch['privacy']}" if switch["privacy"] else "")


def _never(share: float | None) -> bool:
    return share is not None and share < NEVER


def _nothing(name: str, page: Traversable | None, settings: Settings) -> Check:
    if page is None:
        known = ", ".join(sorted(each.name.removesuffix(".md") for each in _pages()))
        return Check("fail", f"agent {name}: nothing has arrived, and there is no page on it", f"pages: {known}")
    return Check(
        "fail", f"agent {name}: nothing yet", f"paste these lines, then let it call a tool:\n{_lines(page, settings)}"
    )


def page_of(name: str) -> Traversable | None:
    """The page about an agent: the one of this name, else one that lists it as a source."""
    pages = list(_pages())
    return next(
        (page for page in pages if page.name == f"{name}.md"),
        next((page for page in pages if name in _sources(page)), None),
    )


def _pages() -> Iterator[Traversable]:
    """The pages in docs/agents; a wheel has them beside the tables."""
    packed = schemas() / "agents"
    folder = packed if packed.is_dir() else Path(__file__).parents[2] / "docs/agents"
    return (page for page in folder.iterdir() if page.name.endswith(".md") and page.name != "README.md")


def _sources(page: Traversable) -> list[str]:
    said = re.search(r"^Sources?: (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return re.findall(r"`([^`]+)`", said[1]) if said else []


def _lines(page: Traversable | None, settings: Settings) -> str:
    """What the page says to paste, indented, with the addresses of this collector."""
    if page is None:
        return ""
    text = page.read_text(encoding="utf-8").partition("## Point it at Misstep\n")[2].partition("\n## ")[0]
    plain = "\n".join(line for line in text.strip().splitlines() if not line.startswith("```"))
    here = plain.replace(Settings().collector_url, without_user(settings.collector_url))
    here = here.replace(Settings().grpc.url, settings.grpc.url)
    return re.sub(r"^(?=.)", "        ", here, flags=re.MULTILINE)
