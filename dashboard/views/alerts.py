"""Alerts: what is burning, and would this rule have been right?"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import polars as pl
import streamlit as st

from dashboard import menu
from dashboard.access import people
from dashboard.charts import charts, colours
from dashboard.data import client, frames
from dashboard.data.client import Problem
from dashboard.data.filters import parse
from dashboard.menu import TITLES
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, fresh_rows, link_table, rule_forms, sentences, share, words

STATES = {"firing": ":red", "pending": ":orange", "resolved": ":green"}
SILENCES = {"1 h": "1h", "8 h": "8h", "a day": "24h", "a week": "7d", "until resolved": "until resolved"}
LINES = 16  # alerts in the chart of the week
MISTAKES = 10  # mistakes of a rule file that are listed
SHOWN = 50  # alerts and silences, each with its buttons; more of them are one table, or folded
LISTED = 1000  # past firings
# What is shown of a rule: an older collector may not tell all of it.
RULE = (
    "name", "state", "measure", "value_text", "condition", "condition_text", "window_s", "severity", "evaluated",
    "unit",
)  # fmt: skip
SILENT_S = 60  # after this long without an evaluation, the absence of alerts means nothing


def body(page: Page) -> None:
    """Alerts by state, past firings, the rules with their values, the chosen rule over time."""
    rules = pl.DataFrame()
    told: dict[str, Any] = {}
    with components.part():
        rules = page.ask_all("rules", max_age=2.0).having(*RULE)
        answer = page.ask_all("alerts", {"history": "true", "limit": client.MOST})
        told = dict(answer.rest)
        if said := told.get("error"):
            st.error(f"The rules could not be evaluated: {words.plain(str(said), 300)}")
        _mistakes(told)
        _alerts(page, answer.having("state", "silenced", "inhibited_by"), rules)
    if not told:
        return
    with components.part("Fired in the last 7 days"):
        _history(page, client.frame(told.get("history") or ()))
    with components.part("Rules"):
        if rules.is_empty():
            components.quiet("No rule. Write alerts.yaml and start the collector with --rules alerts.yaml.")
            return
        _rules(page, rules)


def receivers_and_silences(page: Page) -> None:
    """Who is told, and what they are not told of."""
    left, right = components.pair("alerts-1")
    with left, components.part("Receivers"):
        answer = page.ask_all("alerts", {"history": "true", "limit": client.MOST})
        receivers = answer.rest.get("receivers")
        if receivers is None:
            components.quiet("All projects share them: they are shown to who may see all of them.")
        else:
            _receivers(page, client.frame(receivers))
            rule_forms.add_receiver(page)
    with right, components.part("Silences"):
        _silences(page)


def chosen(page: Page, names: Sequence[str]) -> str:
    """The rule that the link names, else the first."""
    return next((name for name in names if name == page.filters.state("rule")), names[0])


def _mistakes(told: Mapping[str, Any]) -> None:
    """Shows the mistakes of a rejected rule file; the earlier rules stay in force."""
    mistakes = told.get("mistakes") or ()
    if not mistakes:
        return
    texts = [f"line {one['text']}" if one.get("rule") else str(one["message"]) for one in mistakes[:MISTAKES]]
    said = "".join(f"\n- {words.plain(text, 300)}" for text in texts)
    more = f"\n- and {len(mistakes) - MISTAKES} more" if len(mistakes) > MISTAKES else ""
    st.error(f"The rule file was not taken, the rules of {words.plain(told.get('path'))} stay in force:\n{said}{more}")


def about(labels: str | None) -> str:
    """An alert's labels (JSON text) as words."""
    said = components.as_json(labels)
    return rule_forms.about(said) if isinstance(said, dict) else ""


def _alerts(page: Page, alerts: pl.DataFrame, rules: pl.DataFrame) -> None:
    evaluated: datetime | None = rules["evaluated"].max()  # type: ignore[assignment]
    when = words.age(evaluated, page.now, page.zone)
    if evaluated and not page.collector.since_away() and (page.now - evaluated).total_seconds() > SILENT_S:
        st.error(f"The rules were last evaluated {when}: that no alert shows is no news.")
    loud, quiet = alerts.filter(~frames.quiet()), alerts.filter(frames.quiet())
    states = loud["state"].to_list()
    counts = [f"{colours.ALERT_WORDS[state][0]} {states.count(state)} {state}" for state in STATES if state in states]
    facts = [f"{words.plural(rules.height, 'rule')}, evaluated {when}"]
    none = "" if "firing" in states else "No alert is firing. "
    st.markdown(none + " · ".join(counts + facts))
    _each(page, loud, "loud")
    if quiet.height:
        with st.expander(f"Silenced or held back: {quiet.height}", key="alerts-quiet"):
            _each(page, quiet, "quiet")


def _each(page: Page, alerts: pl.DataFrame, key: str) -> None:
    """The most urgent alerts one by one, and the others as a table, in which one can be chosen."""
    for row in alerts.head(SHOWN).iter_rows(named=True):
        _alert(page, row)
    more = alerts.slice(SHOWN)
    if more.is_empty():
        return
    st.markdown(f"And {words.count(more.height)} more.")
    listed = more.with_columns(
        pl.Series("about", [about(text) for text in more["labels"]]),
        pl.Series("compared", [_compared(row) for row in more.iter_rows(named=True)]),
    )
    columns = {
        "rule": link_table.name("rule", 28),
        "state": link_table.text("state", 10, tones=page.palette.alert),
        "about": link_table.text("about", 36),
        "compared": link_table.text("value", 24, by=""),
        "since": link_table.when("since", page),
        "summary": link_table.text("summary", fills=True),
    }
    link_table.table(
        page, listed, columns, name=key, caption=f"{words.plural(more.height, 'more alert')}.", to=_address(page),
        wide=("since", "summary"),
    )  # fmt: skip
    names = [f"{row['rule']} · {row['about']}".removesuffix(" · ") for row in listed.iter_rows(named=True)]
    number = st.selectbox(
        "Silence one of them",
        range(more.height),
        index=None,
        format_func=lambda number: words.plain(names[number], 120),
        key=f"alerts-more-{key}",
        placeholder="Choose an alert",
    )
    if number is not None:
        _alert(page, more.row(number, named=True))


def _compared(row: Mapping[str, Any]) -> str:
    """The value of an alert beside what it is compared with."""
    return f"{row.get('value_text') or words.count(row.get('value'))} {row.get('condition_text') or words.NONE}"


def _change(page: Page, method: str, place: str, change: Mapping[str, Any] | None = None) -> str:
    """Sends a change; returns why it failed, empty if it did not."""
    try:
        page.collector.change(method, place, change)
    except Problem as problem:
        return problem.sentence
    return ""


def _evidence(row: Mapping[str, Any], page: Page) -> tuple[str, dict[str, str]] | None:
    """The page with what the alert is about, the one that receivers get, and its parameters."""
    name, _, query = (row.get("evidence") or "").partition("?")
    if name not in TITLES:
        return None
    return name, dict(parse_qsl(query, keep_blank_values=True)) | dict(page.filters.carried().view)


def _address(page: Page) -> link_table.To:
    """Where rows of alerts lead: to their evidence, or to their rule."""

    def to(row: dict[str, Any]) -> str:
        if found := _evidence(row, page):
            return share.address(menu.address(found[0]), parse(found[1]))
        return components.address(page, "alerts", rule=row["rule"])

    return to


def _silence(page: Page, row: Mapping[str, Any]) -> None:
    told = components.as_json(row.get("labels")) or {}
    # As receivers see them: `severity` is the rule's.
    labels = {"event_severity" if name == "severity" else name: value for name, value in told.items()}
    mark = f"{row['rule']}-{row.get('labels')}"
    key, refused = f"silence-{mark}", f"silence-refused-{mark}"

    def silence() -> None:
        length, author, reason = (st.session_state[f"silence-{name}-{mark}"] for name in ("for", "by", "why"))
        wanted = {"rule": row["rule"], "labels": labels, "duration": SILENCES[length or "1 h"],
                  "author": author or people.person().name or "dashboard", "reason": reason}  # fmt: skip
        said = _change(page, "POST", "silences", wanted) if reason.strip() else "A silence needs a reason."
        st.session_state[refused] = said
        st.session_state[key] = bool(said)  # whether it stays open

    with st.popover("Silence", key=key, on_change="rerun"), st.form(f"silence-form-{mark}", border=False):
        st.segmented_control(
            "For", list(SILENCES), default="1 h", key=f"silence-for-{mark}", label_visibility="collapsed"
        )
        who = people.person().name or "not needed"
        st.text_input("Your name", key=f"silence-by-{mark}", placeholder=who)
        st.text_input("Reason", key=f"silence-why-{mark}", placeholder="needed")
        if said := st.session_state.get(refused):
            components.quiet(words.plain(said, 300))
        st.form_submit_button("Silence it", on_click=silence)


def _alert(page: Page, row: Mapping[str, Any]) -> None:
    with st.container(border=True, horizontal=not page.small, vertical_alignment="center", gap="small"):
        word = f"{STATES.get(row['state'], ':gray')}[{colours.ALERT_WORDS.get(row['state'], row['state'])}]"
        labels = f" · {words.plain(about(row.get('labels')), 120)}" if about(row.get("labels")) else ""
        compared = words.plain(_compared(row)).replace(" ", "\u00a0")  # no line break inside
        title = f"{word} \u2002 **{words.plain(row['rule'])}**{labels} \u2002 {compared}"
        lasts = words.elapsed(row["since"], row.get("resolved") or page.now)
        facts = [f"for {lasts}", words.plain(row.get("severity"))]
        of = words.MEASURED_ON.get(row.get("measure") or "", "call")
        facts += [words.plural(row["calls"], of)] if row.get("calls") else []
        facts += ["new since your last visit"] if fresh_rows.is_fresh(page, row["since"]) else []
        facts += ["silenced"] if row["silenced"] else []
        facts += [f"held back by {words.plain(row['inhibited_by'])}"] if row.get("inhibited_by") else []
        with st.container(gap=None):
            st.markdown(title)
            st.caption(f"{words.plain(row.get('summary'), 300)} \u2002 {' · '.join(facts)}")
        if found := _evidence(row, page):
            st.page_link(f"views/{found[0]}.py", label="Open evidence →", query_params=found[1])
        if row["state"] != "resolved":
            _silence(page, row)


def _history(page: Page, rows: pl.DataFrame) -> None:
    if rows.is_empty():
        components.quiet("None.")
        return
    labels = [components.as_json(text) or {} for text in rows["labels"]]
    shown = rows.with_columns(
        pl.Series("name", frames.told_apart(rows["rule"].to_list(), labels)),
        until=pl.col("resolved").fill_null(pl.lit(page.now)),
        state=pl.when(pl.col("resolved").is_null()).then(pl.lit("firing")).otherwise(pl.lit("resolved")),
    )
    week = page.over(page.now - timedelta(days=7), page.now)
    most = shown.group_by("name").len().sort("len", "name", descending=[True, False])["name"].head(LINES).to_list()
    shown = page.drawn(shown.filter(pl.col("name").is_in(most)), "fired", "until")
    picture = charts.firings(shown, page.palette, week, small=page.small)
    fired = f"{words.plural(rows.height, 'firing')} in 7 days"
    components.chart(picture, "firings", f"{fired}, most of {most[0]}.")
    with st.expander(f"As a list: {rows.height}", key="alert-history"):
        if rows.height > LISTED:
            st.caption(f"The newest {words.count(LISTED)} of them.")
        listed = rows.head(LISTED)
        listed = listed.with_columns(pl.Series("about", [about(text) for text in listed["labels"]]))
        columns = {
            "rule": link_table.name("rule", 28),
            "fired": link_table.when("fired", page),
            "resolved": link_table.when("resolved", page),
            "about": link_table.text("about", 36),
            "severity": link_table.text("severity", 10),
            "summary": link_table.text("summary", fills=True),
        }
        link_table.table(
            page, listed, columns, name="history", usual="-fired", caption=f"{fired}.", to=_address(page),
            wide=("resolved", "severity", "summary"),
        )  # fmt: skip


def _receivers(page: Page, rows: pl.DataFrame) -> None:
    if rows.is_empty():
        components.quiet("None: alerts are shown here and sent to nobody. Name one under `receivers:` in alerts.yaml.")
        return
    for row in rows.iter_rows(named=True):
        good, bad = (words.age(row.get(name), page.now, page.zone) for name in ("success", "failure"))
        why = f", {words.plain(row['error'], 120)}" if row.get("error") else ""
        colour = "red" if row.get("failures") else "gray"
        name = str(row["receiver"])
        with st.container(horizontal=True, vertical_alignment="center"):
            st.container(gap=None).markdown(
                f"**{words.plain(name)}** ({words.plain(row.get('kind'))}) \u2002 "
                f":gray[last success {good}] · :{colour}[last failure {bad}{why}]"
            )
            pressed = st.button("Send test", key=f"test-{name}", type="tertiary")
        if pressed:
            rule_forms.test_receiver(page, name)


def _silences(page: Page) -> None:
    def end(place: str) -> None:
        st.session_state["end-refused"] = _change(page, "DELETE", place)

    if refused := st.session_state.pop("end-refused", ""):
        components.quiet(words.plain(refused, 300))
    rows = page.ask_all("silences", {"limit": client.MOST}).rows
    if rows.is_empty():
        components.quiet("None.")
        return

    def show(silences: pl.DataFrame) -> None:
        for row in silences.iter_rows(named=True):
            _silenced(page, row, end)

    show(rows.head(SHOWN))
    if (more := rows.slice(SHOWN)).height:
        with st.expander(f"And {words.count(more.height)} more", key="silences-more"):
            show(more)


def _silenced(page: Page, row: Mapping[str, Any], end: Callable[[str], None]) -> None:
    """One silence, with a button that ends it."""
    labels = f" · {words.plain(about(row.get('labels')), 80)}" if about(row.get("labels")) else ""
    until = words.clock(row["ends"], page.zone, now=page.now) if row.get("ends") else "resolved"
    with st.container(horizontal=True, vertical_alignment="center"):
        said = f"{words.plain(row.get('reason'), 120)}, {words.plain(row.get('author'), 40)}"
        st.container(gap=None).markdown(
            f"**{words.plain(row.get('rule') or 'every rule')}**{labels} \u2002 :gray[until {until} · {said}]"
        )
        place = client.path("silences", str(row["id"]))
        st.button("End", key=f"end-{row['id']}", type="tertiary", on_click=end, args=(place,))


def _rules(page: Page, rules: pl.DataFrame) -> None:
    rows = rules.with_columns(
        pl.Series("window", [words.span(seconds) for seconds in rules["window_s"]]),
        pl.Series("value_text", [sentences.rule_value(row) for row in rules.iter_rows(named=True)], dtype=pl.String),
        pl.Series("condition_text", [sentences.fires_at(row) for row in rules.iter_rows(named=True)], dtype=pl.String),
    )
    columns = {
        "name": link_table.name("rule", 32),
        "state": link_table.text("state", 10, tones=page.palette.alert),
        "measure": link_table.text("measure", 20),
        "value_text": link_table.text("value now", 20, by=""),
        "condition_text": link_table.text("fires at", 36, by=""),
        "window": link_table.text("window", 10, by="window_s"),
        "severity": link_table.text("severity", 10),
    }
    for said in sentences.failed_rules(rules):
        st.error(said)
    link_table.table(
        page, rows, columns, name="rules", caption=f"{words.plural(rows.height, 'rule')}; select one to see it below.",
        to=lambda row: components.address(page, "alerts", rule=row["name"]), wide=("measure", "window", "severity"),
    )  # fmt: skip
    name = chosen(page, rows["name"].to_list())
    rule = rows.filter(pl.col("name") == name).row(0, named=True)
    st.markdown(f"**{words.plain(name)}** over time")
    span = {"from": page.filters.start, **({"to": page.filters.end} if page.filters.end else {})}
    answer = page.ask_all(client.path("rules", name, "samples"), span, max_age=10.0)
    samples = answer.pick("time", "value", "labels")
    if samples.is_empty():
        components.quiet("No value in this range.")
        return
    texts = samples["labels"].unique().sort().to_list()
    said_of = dict(zip(texts, rule_forms.told_apart([components.as_json(text) or {} for text in texts]), strict=True))
    held = frames.held(samples, page.span[1]).with_columns(
        pl.col("labels").replace_strict(said_of, return_dtype=pl.String)
    )
    picture = charts.value_over_time(
        page.drawn(held),
        page.palette,
        page.axis,
        rule.get("threshold"),
        rule["unit"] or "",
        narrow=page.narrow,
        small=page.small,
    )
    components.chart(picture, "samples", f"Value of {name} over time, a line for each of its alerts.")


page = open_page(
    "alerts", "Alerts", "What is burning, and would this rule have been right?", bar="range",
    view={"rule": None}, tables=("loud", "quiet", "history", "rules"),
)  # fmt: skip
refreshing(body, page)
with components.part("Would this rule have been right?"):
    known = page.collector.ask("rules", max_age=10.0).rows
    if known.height and rule_forms.of_all(page):
        name = chosen(page, known["name"].to_list())
        asked = bool(page.filters.state("rule"))
        if st.toggle(f"Try {name} on the last 7 days, and change it", asked, key=f"try-rule-{name}"):
            rule = known.filter(pl.col("name") == name).row(0, named=True)
            relative = "previous" in str(rule.get("condition"))
            st.fragment(rule_forms.editor)(page, name, str(rule.get("unit")), relative=relative)
st.fragment(receivers_and_silences, run_every=page.every)(page)
