"""Sources: who sends, and what do they not tell us?"""

from typing import Any

import polars as pl
import streamlit as st

from dashboard.data import frames, taxonomy
from dashboard.data.agents import agents
from dashboard.data.filters import NO_VALUE
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, words

SILENT_S = 3600
REPORTS = "A source that reports only failures has no error rate and no recovery."
SENDERS, NAMED = 20, 5  # rows in the table, names in a sentence
NO_TOOL_DATA = "seen, no tool data"
# Whether a sender that can report successes has sent nothing but errors, and enough of them not to be chance.
ONLY_ERRORS = (
    pl.col("reports_ok").fill_null(True) & (pl.col("events") == pl.col("errors"))
    & (pl.col("events") >= words.UNCERTAIN_BELOW)
)  # fmt: skip
# What is lost without each fact, in the order shown.
FACTS = {
    "session": "no streaks, retries or spread; set `session.id`",
    "parameters": "identical retries cannot be told; turn on the agent's tool details",
    "outcome": "in no rate, and neither a success nor a failure in a streak",
    "order": "events of one instant stand in any order, though always in the same one",
    "class": "errors stay UnknownError; set `error.type`",
    "model": "no comparison of models; set `gen_ai.request.model`",
    "retryable": "only Misstep's table says what is retryable",
}


def body(page: Page) -> None:
    """Senders with the facts that they report, then unclassified errors."""
    rows = pl.DataFrame()
    with components.part():
        names = (
            "source", "service", "project", "events", "errors", "unknown", "last_seen", "unclassified_rate",
            "reports_ok", "coverage", "remedies", "untold", "tool_data", "metrics", "sampled", "kept", "sampled_by",
            "unread", "unread_since", "unread_by", "unread_scopes",
        )  # fmt: skip
        rows = page.ask("sources", **components.SENDERS).pick(*names)
        # With a filter, they may have sent what is filtered out.
        whole = not page.filters.conditions and not page.filters.text
        if rows.is_empty():
            components.nothing(page, "senders")
        else:
            rows = rows.with_columns(only_errors=ONLY_ERRORS & whole)
            _table(page, rows)
            _untold(page, rows)
            _gaps(rows)
            _left_open(rows)
            _only_errors(rows)
            _sampled(rows)
            _unread(page, rows)
            _only_metrics(rows)
        if whole:
            _silent(page, rows)
    if rows.is_empty():
        return
    with components.part("Errors without a class", words.HELP["unclassified"]):
        _unclassified(page)


def _silent(page: Page, rows: pl.DataFrame) -> None:
    """Names senders with events before this range, but not in it."""
    who = ("source", "service", "project")
    ever = page.collector.ask("sources", components.SENDERS, max_age=30.0).pick(*who, "last_seen")
    gone = ever.join(rows, on=who, how="anti", nulls_equal=True)
    for source, service, _, seen in gone.iter_rows():
        st.caption(
            f"**{words.plain(service or source)}** sent nothing: last seen {words.age(seen, page.now, page.zone)}."
        )


def _table(page: Page, rows: pl.DataFrame) -> None:
    seen = [
        f"silent for {words.elapsed(then, page.now)}"
        if then and (page.now - then).total_seconds() > SILENT_S
        else words.age(then, page.now, page.zone)
        for then in rows["last_seen"]
    ]
    shown = rows.with_columns(
        pl.coalesce("service", "source", pl.lit(NO_VALUE)).alias("sender"),
        pl.Series("seen", seen),
        pl.Series("sampling", [_sampling(*row) for row in rows.select("sampled", "kept").iter_rows()], dtype=pl.String),
        *_marks(rows),
        frames.rates(rows, "unclassified", "unclassified_rate", "errors"),
        reports=pl.when(~pl.col("tool_data").fill_null(True))
        .then(pl.lit(NO_TOOL_DATA))
        .when(~pl.col("reports_ok").fill_null(True))
        .then(pl.lit("failures only"))
        .when(pl.col("only_errors"))
        .then(pl.lit("only failed calls"))
        .otherwise(pl.lit("all calls")),
    )
    columns = {
        # Without the column of its source, a sender that names no service would have no name.
        **({"sender": link_table.name("sender", 24)} if page.narrow else {"source": link_table.name("source", 18)}),
        "service": link_table.name("service", 20),
        **({"project": link_table.name("project", 16)} if rows["project"].n_unique() > 1 else {}),
        "events": link_table.number("events"),
        "errors": link_table.number("errors"),
        "seen": link_table.text("last seen", 16, by="last_seen"),
        "unclassified": link_table.text("unclassified", 16, words.HELP["unclassified"], by="unclassified_rate"),
        "reports": link_table.text("reports", 18, REPORTS),
    }
    if any(shown["sampling"]):
        columns["sampling"] = link_table.text("sampled", 10, "How much was kept on the way here.", by="kept")
    columns |= {
        f"tells {fact}": link_table.text(
            fact, 3, f"Whether it tells the {fact}: ✓ nearly always, ~ at times, – never.", by=""
        )
        for fact in FACTS
    }

    def its_errors(row: dict[str, Any]) -> str:
        about = ("source", "service", "project") if "project" in columns else ("source", "service")
        return components.address(page, "errors", **{name: row[name] or "" for name in about})

    link_table.table(
        page, shown, columns, caption=f"{words.plural(rows.height, 'sender')}.", to=its_errors, rows_shown=SENDERS,
        wide=("service", "errors", "unclassified", "reports", "sampling", "tells order", "tells retryable"),
    )  # fmt: skip
    components.quiet("What a sender tells: ✓ nearly always, ~ at times, – never.")


def _marks(rows: pl.DataFrame) -> list[pl.Series]:
    """For each fact a column of marks: how often a sender reports it."""
    shares = [components.as_json(text) or {} for text in rows["coverage"]]
    return [pl.Series(f"tells {fact}", [frames.told(one, fact) for one in shares], dtype=pl.String) for fact in FACTS]


def _sampling(sampled: bool | None, kept: float | None) -> str:
    return (words.share_kept(kept) if kept else "yes") if sampled else ""


def _untold(page: Page, rows: pl.DataFrame) -> None:
    """Names what a sender does not tell although a setting of its agent would, with the price of each."""
    pages = {source: agent for agent in agents().values() for source in agent.sources}
    for source, service, left in rows.select("source", "service", "untold").iter_rows():
        for each in components.as_json(left) or ():
            lines = [
                f"**{words.plain(service or source)}** does not tell {each['what']} (`{each['page']}`). What tells it:"
            ]
            for one in each["switches"]:
                price = f": {one['privacy']}" if one["privacy"] else ""
                command = f". `{one['command']}`" if one["command"] else ""
                lines.append(f"- `{one['setting']}`{price}{command}")
            st.caption("\n".join(lines))
        if components.as_json(left) and source in pages:
            agent = pages[source]
            components.link(page, "overview", f"Checklist of {words.plain(agent.title)} →", setup=agent.page)


def _gaps(rows: pl.DataFrame) -> None:
    missing: dict[str, list[str]] = {}
    names = ("source", "service", "coverage", "remedies", "untold")
    for source, service, told, cures, left in rows.select(names).iter_rows():
        shares, remedies = components.as_json(told) or {}, components.as_json(cures) or {}
        priced = [one["setting"] for each in components.as_json(left) or () for one in each["switches"]]
        said_above = {fact for fact in FACTS if any(setting in remedies.get(fact, "") for setting in priced)}
        for fact in FACTS:
            if fact not in ("outcome", *said_above) and frames.told(shares, fact) == "–":
                cure = f" ({words.plain(remedies[fact])})" if remedies.get(fact) else ""
                missing.setdefault(fact, []).append(f"{words.plain(service or source)}{cure}")
    for fact, who in missing.items():
        named = list(dict.fromkeys(who))
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        st.caption(f"No **{fact}** from {', '.join(named[:NAMED])}{more}: {FACTS[fact]}.")


def _left_open(rows: pl.DataFrame) -> None:
    """Names senders with calls whose outcome is unknown, and what would report it."""
    wanted = rows.filter(pl.col("unknown") > 0).select("source", "service", "events", "unknown", "remedies")
    for source, service, events, unknown, cures in wanted.iter_rows():
        cure = (components.as_json(cures) or {}).get("outcome")
        st.caption(
            f"**{words.plain(service or source)}**: nothing tells how {words.count(unknown)} of "
            f"{words.plural(events, 'event')} ended: {FACTS['outcome']}."
            f"{f' What would tell: {words.plain(cure)}.' if cure else ''}"
        )


def _only_errors(rows: pl.DataFrame) -> None:
    """Names senders that could report successes, and have not."""
    for source, service, events, cures in (
        rows.filter("only_errors").select("source", "service", "events", "remedies").iter_rows()
    ):
        cure = (components.as_json(cures) or {}).get("successes") or "send the calls that ended well too"
        st.caption(
            f"**{words.plain(service or source)}**: all {words.count(events)} calls failed. If it reports only "
            f"those that fail, its rates and lasting errors are wrong: {words.plain(cure)}."
        )


def _sampled(rows: pl.DataFrame) -> None:
    """Names senders whose records are sampled upstream, with the evidence."""
    marked = rows.filter(pl.col("sampled").fill_null(False)).select("source", "service", "kept", "sampled_by")
    for source, service, kept, by in marked.iter_rows():
        st.caption(
            f"**{words.plain(service or source)}**: {words.sampled(kept)} (told by {words.plain(by, 80)}). "
            "Take its sampler out for true counts, streaks and retries.",
            help=words.HELP["sampled"],
        )


def _unread(page: Page, rows: pl.DataFrame) -> None:
    """Names senders of records that speak a convention and are read by no table, and what to do about it."""
    names = ("source", "service", "unread", "unread_since", "unread_by", "unread_scopes")
    for source, service, unread, since, signs, scopes in rows.filter(pl.col("unread") > 0).select(names).iter_rows():
        where = f" in {words.plain(scopes, 80)}" if scopes else ""
        st.caption(
            f"**{words.plain(service or source or NO_VALUE)}**: {words.plural(unread, 'record')} "
            f"({words.plain(signs, 80)}{where}; first {words.age(since, page.now, page.zone)}) may tell of calls, but "
            "no table of sources reads them: such calls are missing unless its other records tell them. "
            "A row in a table of your own reads them (`schemas/sources/README.md`, `MISSTEP_TABLES`)."
        )


def _only_metrics(rows: pl.DataFrame) -> None:
    """Names senders of metrics alone: they report no single calls, which does not mean no errors."""
    for source, service, metrics in (
        rows.filter(~pl.col("tool_data") & pl.col("metrics").is_not_null())
        .select("source", "service", "metrics")
        .rows()
    ):
        st.caption(
            f"**{words.plain(service or source)}**: {NO_TOOL_DATA}. "
            f"It sends only metrics ({words.plain(metrics, 80)}); logs or traces, if it has any, tell of its calls."
        )


def _unclassified(page: Page) -> None:
    answer = page.ask("groups", error_class="UnknownError", sort="-events", limit="8")
    rows = answer.pick("fingerprint", "tool", "template", "events", "operation", "sample")
    for fingerprint, tool, template, events, operation, sample in rows.iter_rows():
        facts = f"{words.plural(events, 'event')}{' · ' + words.plain(tool, 30) if tool else ''}"
        components.row(page, "group", template or "no message", facts, fingerprint=fingerprint)
        row = taxonomy.message_row(operation, template, sample)
        if row is None:
            newest = page.ask("events", fingerprint=fingerprint, limit="1").first()
            row = taxonomy.alias_row(operation, newest.get("reported_class"))
        if row:
            with st.expander("Sample, and a row for a taxonomy.toml of your own"):
                st.text(sample or "The agent tells no message.")
                st.code(row, language=None, wrap_lines=True)
    if answer.cut:
        components.link(page, "errors", "All errors without a class →", error_class="UnknownError", sort="-events")
    if rows.is_empty():
        components.quiet("Every error has a class.")
    else:
        components.quiet(
            "Rows go into `taxonomy.toml` in the folder that `MISSTEP_TABLES` names; the collector reads it at start."
        )


page = open_page("sources", "Sources", "Who sends, and what do they not tell us?", tables=("",))
refreshing(body, page)
