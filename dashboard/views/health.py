"""Health: has anything been lost?"""

from collections.abc import Mapping
from typing import Any

import polars as pl
import streamlit as st

from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, sentences, words
from dashboard.parts.components import Figure

EVENTS = (
    "Calls in the store. Several records can tell of one call, such as its span and its log line, and make one event: "
    "that there are fewer events than stored records is no loss."
)
WHY = ("reason", "error", "kind", "caused_by")  # what tells the cause of an error; the last is of a library's lines
SINCE = "Since the collector was started."


def body(page: Page) -> None:
    """The account of records, which must add up, then the collector's state."""
    said: dict[str, Any] = {}
    with components.part():
        said = page.ask_all("health", max_age=2.0).first()
        dropped = components.as_json(said.get("dropped")) or {}
        (st.markdown if sentences.even(said) else st.error)(sentences.account(said, dropped))
        if why := said.get("not_exported"):
            st.warning(f"Old events are kept, because they could not be exported: {words.plain(why)}.")
        if cluster := components.as_json(said.get("cluster")):
            (st.warning if cluster["problem"] else st.markdown)(_cluster(cluster))
        components.figures(page, _figures(said))
    if not said:
        return
    dropped = components.as_json(said.get("dropped")) or {}
    if said.get("errors") is None:
        components.quiet("What is counted over all projects at once is shown to who may see all of them.")
        _dropped(page, dropped)
    else:
        _of_all(page, said, dropped)
    if tokens := components.as_json(said.get("tokens")):
        with components.part("What tokens used", SINCE):
            _tokens(page, tokens)
    if forward := components.as_json(said.get("forward")):
        with components.part(f"Copies to {words.plain(forward['to'])}", SINCE):
            _counts(page, forward["requests"], "fate", "copies")


def _of_all(page: Page, said: Mapping[str, Any], dropped: Mapping[str, float]) -> None:
    """What is counted over all projects, beside the records that were no event."""
    counts = {name: components.as_json(said.get(name)) or {} for name in ("sources", "redactions", "refused")}
    left, right = components.pair("health")
    with left:
        _dropped(page, dropped)
        with components.part("Events by source", SINCE):
            _counts(page, counts["sources"], "source", "events",
                    lambda row: components.address(page, "live", source=row["source"]))  # fmt: skip
    with right:
        with components.part("Secrets and personal data cut, by rule", SINCE):
            _counts(page, counts["redactions"], "rule", "cuts")
        with components.part("Requests that were not taken, by reason", SINCE):
            _counts(page, counts["refused"], "why", "requests")
    with components.part("Errors of the collector itself", "The last twenty lines of its log that are no mere news."):
        _errors(page, components.as_json(said.get("errors")) or [])


def _dropped(page: Page, dropped: Mapping[str, float]) -> None:
    with components.part("Records that were no event, by reason"):
        told = {f"{why}: {words.DROPPED[why]}" if why in words.DROPPED else why: dropped[why] for why in dropped}
        _counts(page, told, "reason", "records")


def _cluster(told: Mapping[str, Any]) -> str:
    """Whether the cluster has everything, as a sentence."""
    where, waiting = f"The cluster at {words.plain(told['to'])}", told["waiting_rows"]
    if told["problem"]:
        return (
            f"{where} takes nothing: {words.plain(told['problem'])}. {words.count(waiting)} rows wait in the local "
            "store and are published when it is back; nothing is lost while the disk has room."
        )
    has = f"{where} lacks {words.count(waiting)} rows" if waiting else f"{where} has everything"
    if silent := told["silent"]:
        has += f", but {words.plain(', '.join(silent))} fell silent: what is counted may lack something"
    if told["evaluates_here"]:
        return f"{has}; alert rules are evaluated here."
    return f"{has}; alert rules are evaluated by {words.plain(told['evaluates'] or 'nobody yet')}."


def _figures(said: Mapping[str, Any]) -> list[Figure]:
    store = components.as_json(said.get("store")) or {}
    queue = components.as_json(said.get("queue")) or {}
    return [
        Figure("Events", words.count(said.get("events")), EVENTS, note="several records can tell of one call"),
        Figure(
            "Answer p99",
            words.duration(said.get("answer_p99_ms")),
            "99 of 100 requests were answered faster than this.",
        ),
        Figure(
            "Waiting",
            words.count(queue.get("requests")),
            f"Requests for the store; for an answer {words.size(queue.get('bytes', 0.0))}.",
        ),
        Figure(
            "Lag",
            words.duration(_ms(said.get("lag_seconds"))),
            "From the time of the event last received to its receipt.",
        ),
        Figure("Store", words.size(_size(store)), "Size of the database file and of its log."),
        Figure("Disk free", words.size(store.get("disk_free_bytes"))),
    ]


def _tokens(page: Page, tokens: list[dict[str, Any]]) -> None:
    rows = pl.DataFrame(
        [
            {
                "token": token["name"],
                "project": token["project"] or "all",
                "rights": ", ".join(token["rights"]),
                "requests": float(token["requests"]),
                "size": words.size(token["bytes"]),
                "events": float(token["events"]),
                "refused": float(token["refused"]),
                "limits a minute": _limits(token["limits"]),
            }
            for token in tokens
        ]
    ).sort("requests", descending=True)
    counts = ("requests", "events", "refused")
    columns = {name: (link_table.number if name in counts else link_table.text)(name) for name in rows.columns}
    link_table.table(page, rows, columns, name="tokens", caption=f"{rows['token'][0]} asked most.")


def _limits(most: Mapping[str, int]) -> str:
    return ", ".join(f"{words.count(number)} {kind}" for kind, number in most.items() if number) or "none"


def _size(store: dict[str, Any]) -> float | None:
    known = [store[name] for name in ("bytes", "log_bytes") if store.get(name) is not None]
    return sum(known) if known else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else max(0.0, seconds) * 1000


def _errors(page: Page, errors: list[dict[str, Any]]) -> None:
    if not errors:
        components.quiet("None.")
        return
    rows = pl.DataFrame(
        [
            {
                "time": components.moment(str(error["timestamp"])) if error.get("timestamp") else None,
                "what": str(error.get("event", "")),
                "why": str(next((error[name] for name in WHY if error.get(name)), "")),
                "what to do": str(error.get("remedy", "")),
            }
            for error in reversed(errors)
        ],
        schema_overrides={"time": pl.Datetime("us", "UTC")},
    )
    told = [name for name in rows.columns[1:] if any(rows[name])]
    columns = {"time": link_table.when("time", page)}
    columns |= {name: link_table.text(name, fills=name == told[-1]) for name in told}
    link_table.table(page, rows, columns, name="errors", caption=f"The last error: {rows['what'][0]}.")


def _counts(page: Page, counts: Mapping[str, float], name: str, unit: str, to: link_table.To | None = None) -> None:
    if not counts:
        components.quiet("None.")
        return
    rows = pl.DataFrame({name: list(counts), unit: [float(number) for number in counts.values()]}).sort(
        unit, descending=True
    )
    columns = {name: link_table.text(name, fills=True), unit: link_table.number(unit)}
    link_table.table(
        page, rows, columns, name=name, usual=f"-{unit}", caption=f"Most by {name}: {rows[name][0]}.", to=to,
        rows_shown=12,
    )  # fmt: skip


TABLES = ("errors", "reason", "source", "rule", "why", "fate")
page = open_page("health", "Health", "Has anything been lost?", bar="none", tables=TABLES)
with components.part():
    about = page.collector.ask("health", max_age=5.0).first()
    version, schema = words.plain(str(about.get("version") or "?")), words.count(about.get("schema_version"))
    st.caption(f"Collector {version} at {page.collector.place}, schema {schema}.")
refreshing(body, page)
