"""Making, trying and changing rules on a page: an alert for a group, the editor of a rule, a new receiver."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import streamlit as st

from dashboard.charts import charts
from dashboard.data import client, frames
from dashboard.data.client import Answer, Problem
from dashboard.data.filters import EVER, NO_VALUE
from dashboard.page import Page
from dashboard.parts import components, filter_bar, rule_words, sentences, words

REMEMBERED = timedelta(minutes=2)  # how long the collector caches what it measured in a range
PAGES = "1"  # a week at most, for a suggested threshold
SUGGESTED_WINDOW = "1 h"
# Factor and name of the unit in which people enter a threshold.
UNITS = {"count": (1.0, ""), "share": (100.0, ", %"), "s": (1 / 60, ", min"), "ms": (1.0, ", ms")}


def of_all(page: Page) -> bool:
    """Whether the reader sees all projects, which share rules and receivers; says so where not."""
    seen = components.alerts_answer(page.collector).rest.get("receivers") is not None
    if not seen:
        components.quiet("All projects share rules and receivers: they are changed by who may see all of them.")
    return seen


def alert_me(page: Page) -> None:
    """What watches the group of this page; else a button, and behind it the form for a rule."""
    fingerprint = page.filters.only("fingerprint")
    if not fingerprint:
        return
    with components.part():
        known = page.collector.ask("rules", max_age=10.0)
        rules = list(known.having("where", "name", "state", "condition_text", "window_s").iter_rows(named=True))
        if watching := [rule for rule in rules if rule_words.watches(rule, fingerprint)]:
            _watched(page, watching)
        elif not of_all(page):
            return
        elif page.filters.state("alert"):
            with st.container(border=True, key="alert-me"):
                st.fragment(_form)(page, fingerprint, [str(rule["name"]) for rule in rules])
        else:
            about = "A rule that fires when this error comes more often than usual, tried on the last 7 days."
            st.button("Alert me", key="alert-open", help=about, on_click=_show, args=("me",))


def _show(alert: str) -> None:
    filter_bar.go(filter_bar.from_link().showing(alert=alert))


def _watched(page: Page, rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        fires = f"{rule['condition_text']} within {words.span(rule['window_s'])}"
        said = f"Alert: **{words.plain(rule['name'])}** \u2002 :gray[{words.plain(fires)} · {rule['state']}]"
        components.link(page, "alerts", f"{said} →", rule=str(rule["name"]))


def _form(page: Page, fingerprint: str, taken: list[str]) -> None:
    """The rule for a group: everything that can be chosen on the left, what it would have done on the right."""
    group = page.collector.ask(client.path("groups", fingerprint), {"from": EVER}, max_age=30.0).first()
    told = page.collector.ask("receivers", max_age=10.0)
    names = told.pick("name")["name"].to_list()
    left, right = components.pair("alert-form")
    with left:
        name = st.text_input("Name", rule_words.name_for(group, taken), max_chars=63, key=f"alert-name-{fingerprint}")
        window = st.segmented_control(
            "Errors within", list(rule_words.WINDOWS), default=SUGGESTED_WINDOW, required=True,
            key=f"alert-window-{fingerprint}",
        )  # fmt: skip
        draft = rule_words.for_group(
            group, name=name, window=rule_words.WINDOWS[str(window)], threshold=0, notify=names
        )
        threshold = _threshold(page, draft, f"alert-threshold-{fingerprint}-{window}")
        notify = st.multiselect("Tell", names, default=names, key=f"alert-tell-{fingerprint}-{len(names)}",
                                placeholder="nobody: shown on the Alerts page only")  # fmt: skip
    rule = draft | {"condition": f"> {threshold:g}", "notify": notify}
    with right, components.part():
        _backtest(page, rule_words.as_file(rule))
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button("Save the rule", type="primary", key="alert-save")
        st.button("Cancel", key="alert-cancel", on_click=_show, args=("",))
        add_receiver(page)
    if pressed and _changed(page, "POST", "rules", str(told.rest.get("revision")), rule_words.as_text(rule)):
        filter_bar.go(filter_bar.from_link().showing(alert=""))
        st.rerun()


def _threshold(page: Page, draft: Mapping[str, Any], key: str) -> float:
    """The threshold that somebody chose, at first the one that the group's history suggests."""
    asked = {**week(page), "step": "5m", "pages": PAGES}
    found = page.collector.try_rules("rules/suggest", rule_words.as_file(draft), asked)
    best = (components.as_json(found.first().get("suggested")) or {}) if found.rows.height else {}
    suggested = int(best.get("threshold") or 0)
    number = st.number_input("More than this many errors", 0, 1_000_000_000, suggested, key=key, width=240)
    fires = words.plural(best.get("pages"), "page")
    components.quiet(
        f"Suggested: more than {words.count(suggested)}, which would have been {fires} in the last 7 days."
        if best else "No threshold stands out in the last 7 days."
    )  # fmt: skip
    return float(number)


def _changed(page: Page, method: str, place: str, revision: str, change: str | Mapping[str, Any] = "") -> bool:
    """Sends a change of the rule file, and says why if it was refused."""
    try:
        page.collector.change_rules(method, place, revision, change)
    except Problem as problem:
        st.error(f"Not saved. {words.plain(problem.sentence, 600)}")
        return False
    return True


def _backtest(page: Page, text: str, **more: str) -> None:
    """What the rules of a file would have done in the last 7 days, drawn over what they measure."""
    answer = page.collector.try_rules("rules/backtest", text, {**week(page), "step": "5m", **more})
    if mistakes(answer):
        return
    for told in answer.rows.iter_rows(named=True):
        firings = components.as_json(told.get("firings")) or []
        when = [words.clock(at, page.zone, now=page.now) for at in rule_words.moments(firings)]
        st.markdown(rule_words.fired(told, firings, when))
        if more.get("threshold"):
            recover = f'\nrecover: "{told["recover"]}"' if told.get("recover") else ""
            st.code(f'condition: "{told["condition"]}"{recover}', language=None)
        _drawn(page, told, firings)


def mistakes(answer: Answer) -> bool:
    """Shows the mistakes of a rule that was tried; whether there are any."""
    for mistake in answer.rest.get("mistakes") or ():
        components.quiet(words.plain(str(mistake.get("message") or mistake.get("text")), 300))
    return bool(answer.rest.get("mistakes"))


def week(page: Page) -> dict[str, str]:
    """The last 7 days, kept the same for a while, so that another threshold needs no new query of the store."""
    until: datetime | None = st.session_state.get("try-until")
    if until is None or page.now - until > REMEMBERED:
        until = st.session_state["try-until"] = page.now
    return {"from": (until - timedelta(days=7)).isoformat(), "to": until.isoformat()}


def about(labels: Mapping[str, Any]) -> str:
    """Labels as words."""
    return ", ".join(f"{name} {value or NO_VALUE}" for name, value in labels.items())


def told_apart(labels: Sequence[Mapping[str, Any]]) -> list[str]:
    """The label sets of one rule as words, of each what tells it from the others."""
    said = [name.strip() for name in frames.told_apart([""] * len(labels), labels)]
    return said if len(set(said)) == len(said) and all(said) else [about(each) for each in labels]


def _drawn(page: Page, told: Mapping[str, Any], firings: list[dict[str, Any]]) -> None:
    series = components.as_json(told.get("series")) or []
    names = told_apart([line["labels"] for line in series])
    points = [
        {"time": point["time"], "value": point["value"], "labels": name}
        for name, line in zip(names, series, strict=True) for point in line["points"]
    ]  # fmt: skip
    if not points:
        components.quiet("It would have had no value in these 7 days.")
        return
    samples = frames.held(client.frame(points).with_columns(pl.col("value").cast(pl.Float64)).sort("time"), page.now)
    span = page.over(page.now - timedelta(days=7), page.now)
    spans = [{"time": one["fired"], "until": one.get("resolved") or page.now.isoformat()} for one in firings]
    fired = pl.DataFrame({"start": [], "end": []}, schema={"start": pl.Datetime, "end": pl.Datetime})
    if spans:
        both = {"start": "time", "end": "until"}
        fired = pl.DataFrame({as_: [datetime.fromisoformat(one[name]) for one in spans] for as_, name in both.items()})
        fired = page.drawn(fired, "start", "end")
    picture = charts.value_over_time(
        page.drawn(samples),
        page.palette,
        span,
        told.get("threshold"),
        told["unit"],
        fired=fired,
        narrow=page.narrow,
        small=page.small,
    )
    said = f"Value of {told['name']} over 7 days; it would have fired {words.plural(told.get('fired'), 'time')}."
    components.chart(picture, f"tried-{told['name']}", said)


def editor(page: Page, name: str, unit: str, *, relative: bool) -> None:
    """A rule as its file says it: tried on the last 7 days, changed, removed.

    `unit` is that of its measure, `relative` whether it compares with an earlier period.
    """
    told = page.collector.ask(client.path("rules", name), max_age=2.0)
    rule = told.first()
    revision = str(rule.get("revision"))
    left, right = components.pair("editor")
    with left:
        text = st.text_area("Rule, as YAML", rule.get("text") or "", height=300, key=f"yaml-{name}-{revision}")
        other = rule_words.name_in(text) not in ("", name)
        _editor_buttons(page, name, revision, text, other=other)
        if rule.get("own") is False:
            components.quiet("One of the default rules: the first change copies them into the rule file.")
    with right, components.part():
        file = sentences.alone(rule_words.file_of(text))
        factor, said = (1.0, ", ×") if relative else UNITS.get(unit, (1.0, ""))
        threshold = st.number_input(
            f"Another threshold{said}", value=None, min_value=0.0, format="%g", placeholder="as written",
            key=f"try-threshold-{name}", width=220,
        )  # fmt: skip
        _backtest(page, file, **({} if threshold is None else {"threshold": f"{threshold / factor:.10g}"}))


def _editor_buttons(page: Page, name: str, revision: str, text: str, *, other: bool) -> None:
    with st.container(horizontal=True):
        save = st.button("Save as a new rule" if other else "Save", type="primary", key=f"rule-save-{name}")
        with st.popover("Remove", key=f"rule-remove-{name}"):
            st.markdown(f"Remove **{words.plain(name)}** from the rule file? Its alerts resolve.")
            remove = st.button("Remove it", key=f"rule-removed-{name}")
    place = client.path("rules", name)
    if save and _changed(page, *(("POST", "rules") if other else ("PUT", place)), revision, text):
        st.session_state["rule-said"] = "Saved; it is in force."
        st.rerun()
    if remove and _changed(page, "DELETE", place, revision):
        st.session_state["rule-said"] = f"Removed {words.plain(name)}."
        filter_bar.go(filter_bar.from_link().showing(rule=""))
        st.rerun()
    if said := st.session_state.pop("rule-said", ""):
        components.quiet(said)


def add_receiver(page: Page) -> None:
    """A button, and behind it the form for a new receiver."""
    with st.popover("Add a receiver", key="receiver-new"):
        told = page.collector.ask("receivers", max_age=10.0)
        kinds = {kind["service"]: kind for kind in told.rest.get("kinds") or ()}
        service = st.selectbox("Service", list(kinds), key="receiver-service")
        with st.form("receiver-form", border=False, clear_on_submit=False):
            name = st.text_input("Name", key="receiver-name", placeholder="team")
            address = st.text_input(
                "Address", type="password", key=f"receiver-address-{service}", autocomplete="off",
                placeholder=str((kinds.get(str(service)) or {}).get("example", "")),
                help="It is written into the rule file, and neither shown nor logged.",
            )  # fmt: skip
            pressed = st.form_submit_button("Add it")
        wanted = {"name": name.strip(), "address": address.strip()}
        if pressed and _changed(page, "POST", "receivers", str(told.rest.get("revision")), wanted):
            st.session_state["receiver-added"] = wanted["name"]
            st.rerun()
        if (added := str(st.session_state.get("receiver-added"))) in told.pick("name")["name"].to_list():
            components.quiet(f"Added {words.plain(added)}.")
            if st.button("Send a test to it", key="receiver-test"):
                test_receiver(page, added)


def test_receiver(page: Page, receiver: str) -> None:
    """Sends a test message, and says for each of the receiver's addresses what came of it."""
    try:
        sent = page.collector.change("POST", client.path("receivers", receiver, "test")).pick("sent", "error")
    except Problem as problem:
        components.quiet(words.plain(problem.sentence, 300))
        return
    for arrived, error in sent.iter_rows():
        components.quiet("Sent." if arrived else f"Not sent: {words.plain(error, 200)}")
