"""Streaks: how long do agents keep failing, and where should they stop?"""

import polars as pl
import streamlit as st

from dashboard.charts import attempts
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.data.filters import NO_VALUE
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, sentences, words
from dashboard.parts.session_story import KINDS, SCOPES

LONGEST = 10
LIMITS, USUAL = range(2, 11), 3  # as in Roo Code
BY = ("model", "agent", "tool")


def settings(page: Page) -> dict[str, str]:
    """Scope and kind, from the link; the switches change the link."""
    with st.container(horizontal=True):
        scope = components.switch(page, "scope", "Scope", SCOPES)
        kind = components.switch(page, "kind", "Kind", KINDS)
    return {"scope": scope, "kind": kind}


def body(page: Page) -> None:
    """Lengths, the chance of another, the simulator, agents' own counts, open and longest streaks."""
    with components.part():
        asked = settings(page)
        rows = page.ask("streaks/summary", limit=MOST, **asked).pick(
            "length", "streaks", "reached_next", "hazard", "low", "high", *frames.STATES
        )
        if rows.is_empty():
            components.nothing(page, "streaks")
            return
        left, right = components.pair("streaks-1")
        with left:
            st.subheader("Streaks by length", anchor=False, help=words.HELP["streak"])
            longer = words.count(rows["reached_next"][0])
            text = f"{words.plural(rows['streaks'][0], 'streak')} by length, {longer} of them longer than 1."
            components.chart(attempts.streak_lengths(frames.lengths(rows), page.palette), "lengths", text)
        with right:
            st.subheader("Chance of another", anchor=False, help=words.HELP["hazard"])
            stops = _stops(page, asked["kind"])
            picture = attempts.hazard(rows.filter(pl.col("length") <= 10), page.palette, stops)
            after_one = words.rate(rows["hazard"][0])
            told = "".join(f" {label}." for label in stops["label"])
            components.chart(picture, "hazard", f"The chance of another by length; after one, {after_one}.{told}")
            components.sampled(page)
    components.beside("Limit simulator", _limits, page, asked, help=words.HELP["limit simulator"])
    left, right = components.pair("streaks-2")
    with left:
        components.beside("Open now", _list, page, asked | {"state": "open"}, "No streak of 2 or more is open.")
    with right:
        components.beside("Longest", _list, page, asked, "No streak of 2 or more.")
    title, help = "What the agent counted, what we count", words.HELP["agents' own counts"]
    components.beside(title, _agents, page, asked["kind"], help=help)


def _stops(page: Page, kind: str) -> pl.DataFrame:
    """The limits at which agents said that they stopped, if they gave a number."""
    said = page.ask("streaks/signals", kind=kind, limit=MOST).pick("source", "signal", "reported_streak")
    told = said.filter(pl.col("signal") == "limit").drop_nulls("reported_streak")
    most = told.group_by("source").agg(length=pl.col("reported_streak").mode().min()).sort("source")
    return most.group_by("length").agg(
        label=pl.format("{} stops at {}", pl.col("source").str.join(", "), pl.col("length").first().cast(pl.Int64))
    )


def _limits(page: Page, asked: dict[str, str]) -> None:
    """What each limit would have done. One answer has all limits, so that the slider seldom waits."""
    names = (
        "mistake_limit", "sessions", "interrupted", "rated", "recovered", "not_known_yet", "recovery_rate",
        "mistakes_saved",
    )  # fmt: skip
    rows = page.ask("streaks/limits", limit=MOST, **asked).pick(*names)
    limit = _limit()
    chosen = rows.filter(pl.col("mistake_limit") == limit)
    sessions = rows["sessions"].max() if rows.height else 0
    st.markdown(sentences.limit(limit, chosen.row(0, named=True) if chosen.height else {"sessions": sessions}))  # type: ignore[dict-item]
    open_ = pl.col("not_known_yet").fill_null(0)
    fates = rows.filter(pl.col("mistake_limit").is_between(LIMITS[0], LIMITS[-1])).select(
        "mistake_limit",
        pl.col("recovered").alias("recovered anyway"),
        (pl.col("rated") - pl.col("recovered") - open_).alias("did not recover"),
        open_.alias("not known yet"),
        (pl.col("interrupted") - pl.col("rated")).alias("never known"),
    )
    if fates.is_empty():
        return
    long = fates.unpivot(index="mistake_limit", variable_name="fate", value_name="sessions").with_columns(
        pl.col("mistake_limit").cast(pl.Int64)
    )
    picture = attempts.limits(long, page.palette, limit, small=page.small)
    components.chart(picture, "limits", "Sessions that each limit would have stopped.")
    by = components.switch(page, "by", f"A limit of {limit} by", BY)
    each = page.ask("streaks/limits", by=by, limit=MOST, **asked).pick(by, *names)
    _stopped(page, each.filter(pl.col("mistake_limit") == limit, pl.col("interrupted") > 0), by, limit)


def _limit() -> int:
    """The slider; its value is kept in the link."""
    bound = components.in_link("limit", "limit", LIMITS, USUAL)
    return int(st.slider("Stop after n in a row", LIMITS[0], LIMITS[-1], width=420, **bound))


def _stopped(page: Page, rows: pl.DataFrame, by: str, limit: int) -> None:
    """The sessions that one limit would have stopped, by model, agent or tool."""
    if rows.is_empty():
        components.quiet("No session would have been stopped.")
        return
    mine = rows.sort("interrupted", descending=True)
    columns = {
        by: link_table.name(by, 30),
        "sessions": link_table.number(
            "sessions", f"Only where one would have been stopped. A session with more than one {by} stands in each row."
        ),
        "interrupted": link_table.number("stopped"),
        "again": link_table.text("recovered" if page.small else "recovered by themselves", 20, by="recovery_rate"),
        "not_known_yet": link_table.number("not known yet", "Sessions in which such a streak is still open."),
        "mistakes_saved": link_table.number("failed calls saved"),
    }
    shown = mine.with_columns(frames.rates(mine, "again", "recovery_rate", "rated"), pl.col(by).fill_null(NO_VALUE))
    link_table.table(
        page, shown, columns, name="limits", usual="-interrupted", caption=f"A limit of {limit} by {by}.",
        to=lambda row: components.address(page, "streaks", **{by: "" if row[by] == NO_VALUE else row[by]}),
        wide=("sessions",), rows_shown=12,
    )  # fmt: skip


def _agents(page: Page, kind: str) -> None:
    """Agents' own streak signals compared with our counts, and why they differ."""
    names = ("source", "signal", "signals", "compared", "equal", "higher", "lower", "agreement", "whys")
    rows = page.ask("streaks/agreement", kind=kind, limit=MOST).pick(*names)
    if rows.is_empty():
        components.quiet("No agent in this range says anything of its own streaks.")
        return
    st.markdown(sentences.agreement(components.total(rows, "compared"), components.total(rows, "equal")))
    shown = rows.with_columns(
        pl.col("signal").replace(words.SIGNALS),
        frames.rates(rows, "same", "agreement", "compared").replace("no rate", words.NONE),
    )
    columns = {
        "source": link_table.name("agent", 20),
        "signal": link_table.text("it says", 24),
        "signals": link_table.number("times"),
        "same": link_table.text("the same number", 20, by="agreement"),
        "higher": link_table.number("it counts more"),
        "lower": link_table.number("it counts less"),
    }
    link_table.table(
        page, shown, columns, name="agreement", caption=f"{words.plural(rows.height, 'kind')} of signals of agents.",
        to=lambda row: components.address(page, "streaks", source=row["source"]), wide=("higher", "lower"),
    )  # fmt: skip
    for source, signal, whys in rows.select("source", "signal", "whys").iter_rows():
        for why in whys if isinstance(whys, list) else ():
            if why in words.WHY:
                components.quiet(f"**{words.plain(source)}**, {words.SIGNALS.get(signal, signal)}: {words.WHY[why]}.")
    _signals(page, kind)


def _signals(page: Page, kind: str) -> None:
    rows = page.ask("streaks/signals", kind=kind, limit=MOST).rows
    differing = rows.filter(pl.col("reported_streak").is_null() | (pl.col("reported_streak") != pl.col("ours")))
    for row in differing.head(LONGEST).iter_rows(named=True):
        said = row["reported_streak"]
        counted = f"the agent counted {words.count(said)}" if said is not None else "no number"
        facts = (
            f"{words.plain(row['source'])} · {words.SIGNALS.get(row['signal'], row['signal'])}"
            f" · {counted}, we {words.count(row['ours'])} · {words.age(row['time'], page.now, page.zone)}"
        )
        components.row(
            page, "session", row["session"] or "", facts, limit=components.FULL_WIDTH, **components.session_of(row)
        )


def _list(page: Page, asked: dict[str, str], none: str) -> None:
    answer = page.ask("streaks", sort="-length", min_length="2", limit=str(LONGEST), **asked)
    rows = answer.rows
    for row in rows.iter_rows(named=True):
        where = f" · {words.plain(row['tool'], 24)}" if row.get("tool") and asked["scope"] != "session" else ""
        since = words.age(row["started"], page.now, page.zone)
        stopped = " · the agent stopped" if row.get("agent_stopped") else ""
        facts = f"{words.count(row['length'])} in a row{where} · {row['state']}{stopped} · {since}"
        started = row["started"].isoformat()
        about = {"started": started, "scope": asked["scope"], "kind": asked["kind"]} | components.session_of(row)
        components.row(page, "streak", row["session"], facts, limit=components.HALF_WIDTH, **about)
    if rows.is_empty():
        components.quiet(none)
    elif answer.cut:
        components.quiet(f"The {LONGEST} longest.")


page = open_page(
    "streaks", "Streaks", "How long do agents keep failing, and where should they stop?",
    view={"scope": SCOPES, "kind": KINDS, "limit": [*map(str, LIMITS)], "by": BY}, tables=("limits", "agreement"),
)  # fmt: skip
refreshing(body, page)
