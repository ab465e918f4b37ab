"""Alerts: what is burning, and would this rule have been right?"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl
import streamlit as st

from dashboard import charts, client, colours, components, frames, tables, words
from dashboard.components import Page

STATES = {"firing": ":red", "pending": ":orange", "resolved": ":green"}
SILENT_S = 60  # an engine that has not evaluated for so long says nothing by its silence


def body(page: Page) -> None:
    """Alerts by state, what fired before, the rules with their values, one rule over time."""
    rules = pl.DataFrame()
    with components.part():
        rules = page.collector.ask("rules", max_age=2.0).rows
        answer = page.collector.ask("alerts", {"history": "true"})
        _alerts(page, answer.rows, rules)
        _history(page, client.frame(answer.rest.get("history") or ()))
    with components.part("Rules"):
        if rules.is_empty():
            components.quiet("No rule. Write alerts.yaml and start the collector with --rules alerts.yaml.")
            return
        _rules(page, rules)


def about(labels: str | None) -> str:
    """An alert's labels as words."""
    said = components.as_json(labels)
    return ", ".join(f"{name} {value}" for name, value in said.items()) if isinstance(said, dict) else ""


def _alerts(page: Page, alerts: pl.DataFrame, rules: pl.DataFrame) -> None:
    evaluated: datetime | None = rules["evaluated"].max() if "evaluated" in rules.columns else None  # type: ignore[assignment]
    when = words.age(evaluated, page.now, page.zone)
    if evaluated and (page.now - evaluated).total_seconds() > SILENT_S:
        st.error(f"The rules were last evaluated {when}: that no alert shows is no news.")
    if "state" not in alerts.columns or "firing" not in alerts["state"]:
        st.markdown(f"No alert is firing. {words.plural(rules.height, 'rule')}, evaluated {when}.")
    for row in alerts.iter_rows(named=True):
        _alert(page, row)


def _alert(page: Page, row: Mapping[str, Any]) -> None:
    with st.container(border=True, gap="xsmall"):
        word = f"{STATES.get(row['state'], ':gray')}[{colours.ALERT_WORDS.get(row['state'], row['state'])}]"
        labels = f" · {words.plain(about(row.get('labels')), 120)}" if about(row.get("labels")) else ""
        value = words.plain(row.get("value_text") or words.count(row.get("value")))
        condition = words.plain(row.get("condition"))
        st.markdown(f"{word} \u2002 **{words.plain(row['rule'])}**{labels} \u2002 {value} {condition}")
        facts = [f"since {words.age(row.get('since'), page.now, page.zone)}", words.plain(row.get("severity"))]
        facts += [words.plural(row["calls"], "call")] if row.get("calls") else []
        facts += ["silenced"] if row.get("silenced") in (True, "true") else []
        st.caption(f"{words.plain(row.get('summary'), 300)} \u2002 {' · '.join(facts)}")


def _history(page: Page, rows: pl.DataFrame) -> None:
    if rows.is_empty():
        return
    with st.expander(f"Fired in the last 7 days: {rows.height}", key="alert-history"):
        shown = rows.with_columns(pl.Series("about", [about(text) for text in rows["labels"]]))
        columns = {
            "fired": tables.when("fired", page),
            "resolved": tables.when("resolved", page),
            "rule": tables.text("rule"),
            "about": tables.text("about"),
            "severity": tables.text("severity", "small"),
            "summary": tables.text("summary", "large"),
        }
        tables.table(page, shown, columns, key="history", alt_text=f"{rows.height} firings in 7 days.")


def _rules(page: Page, rules: pl.DataFrame) -> None:
    rows = rules.with_columns(pl.Series("window", [words.span(seconds) for seconds in rules["window_s"]]))
    columns = {
        "name": tables.text("rule"),
        "state": tables.text("state", "small"),
        "measure": tables.text("measure", "small"),
        "value_text": tables.text("value now", "small"),
        "condition": tables.text("fires at", "small"),
        "window": tables.text("window", "small"),
        "severity": tables.text("severity", "small"),
        "evaluated": tables.when("evaluated", page),
    }
    picked = tables.table(page, rows, columns, key="rules", alt_text=f"{rows.height} rules.", select=True)
    rule = picked or rows.row(0, named=True)
    st.markdown(f"**{words.plain(rule['name'])}** over time")
    span = {"from": page.filters.start, **({"to": page.filters.end} if page.filters.end else {})}
    answer = page.collector.ask(client.path("rules", rule["name"], "samples"), span, max_age=10.0)
    samples = answer.pick("time", "value", "labels").with_columns(pl.col("labels").fill_null(""))
    if samples.is_empty():
        components.quiet("No value in this range.")
        return
    held = frames.held(samples, page.span[1])
    picture = charts.value_over_time(page.drawn(held), page.palette, page.axis, rule.get("threshold"))
    components.chart(picture, "samples", f"Value of {rule['name']} over time.")


page = components.open_page("alerts", "Alerts", "What is burning, and would this rule have been right?", bar="range")
components.refreshing(body, page)
