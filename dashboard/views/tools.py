"""Tools: which tool should we fix first?"""

import polars as pl

from dashboard.charts import proportions
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, words

COUNTED = ("calls", "ok", "errors", "cancelled", "denied", "unknown", "rated")
TOP_TOOLS, TOP_CLASSES, LABELS, RATES = 20, 15, 8, 12
FEW_CLASSES = 8  # in a small window


def body(page: Page) -> None:
    """Table, rates with intervals, heat map, MCP servers."""
    rows = pl.DataFrame()
    with components.part("All tools"):
        rows = tools(page)
        if rows.is_empty():
            components.nothing(page, "tool calls")
            return
        _table(page, rows)
        components.reconciled(page, rows.select(pl.col(*COUNTED).sum()).row(0, named=True))
        components.sampled(page)
    if rows.is_empty():
        return
    left, right = components.pair("tools-1")
    with left:
        components.beside("Calls and error rate", _scatter, page, rows, help=words.HELP["error rate"])
    with right:
        components.beside("Error rate", _rates, page, rows, help=words.HELP["error rate"])
    components.beside("Tool × class", _heat, page, rows)
    components.beside("MCP servers", _servers, page)


def tools(page: Page) -> pl.DataFrame:
    """One row per tool, those with certain rates first, worst first."""
    answer = page.ask("breakdown", by="tool", operation="tool", measures="sessions,p50_ms,p95_ms", limit=MOST)
    names = (
        "tool", "calls", "ok", "errors", "cancelled", "denied", "unknown", "rated", "error_rate", "low", "high",
        "sessions", "p50_ms", "p95_ms",
    )  # fmt: skip
    rows = answer.pick(*names).filter(pl.col("tool").is_not_null())
    counts = ("lasting", "not_known_yet")
    lasting = page.ask("retries", by="tool", operation="tool", limit=MOST).pick("tool", *counts)
    rows = rows.join(lasting, on="tool", how="left").with_columns(pl.col(*counts).fill_null(0))
    return link_table.with_rate_words(rows).sort(
        "uncertain", *counts, "errors", descending=[False, True, True, True], nulls_last=True
    )


def _table(page: Page, rows: pl.DataFrame) -> None:
    columns = {
        "tool": link_table.name("tool", 32),
        "calls": link_table.number("calls"),
        "errors": link_table.number("errors"),
        **_rate_columns(page),
        "lasting": link_table.number("lasting", words.HELP["lasting errors"]),
        "not_known_yet": link_table.number("not known yet", words.HELP["lasting errors"]),
        "cancelled": link_table.number("cancelled"),
        "denied": link_table.number("denied"),
        **({"unknown": link_table.number("unknown", words.HELP["unknown"])} if rows["unknown"].sum() else {}),
        "p50": link_table.text("p50", 10, by="p50_ms"),
        "p95": link_table.text("p95", 10, by="p95_ms"),
    }
    times = [pl.Series(name[:3], [words.duration(ms) for ms in rows[name]]) for name in ("p50_ms", "p95_ms")]
    worst = rows.row(0, named=True)
    link_table.table(
        page, rows.with_columns(times), columns,
        caption=f"Tools. First: {worst['tool']}, {words.lasting(*(worst[name] for name in components.LASTING))}.",
        to=lambda row: components.address(page, "tool", tool=row["tool"]),
        wide=("cancelled", "denied", "unknown", "p50", "p95"),
    )  # fmt: skip


def _rate_columns(page: Page) -> dict[str, link_table.Column]:
    """None where only failures match: all rates would be 100 %."""
    return {} if page.filters.of_failures else {"error_rate": link_table.rate(page)}


def _scatter(page: Page, rows: pl.DataFrame) -> None:
    if components.rateless(page):
        return
    turns = page.ask("breakdown", by="tool,attribution", operation="tool", outcome="error", limit=MOST)
    main = (
        turns.pick("tool", "attribution", "errors")
        .drop_nulls()
        .sort("errors", descending=True)
        .unique("tool", maintain_order=True)
    )
    shown = (
        rows.drop_nulls("error_rate")
        .filter(pl.col("errors") > 0, ~pl.col("uncertain"))
        .join(main.select("tool", "attribution"), on="tool")
        .sort("errors", descending=True)
    )
    if shown.is_empty():
        components.quiet("No tool with 20 calls or more has failed.")
        return
    # Labels go to the tools with the highest rates first: those with the most errors are the largest dots anyway.
    highest = shown.sort("error_rate", descending=True)
    labelled = frames.sides(highest, "calls", "error_rate", "high", "tool", LABELS)
    highest = highest.with_columns(label=pl.Series(labelled, dtype=pl.String))
    shown = shown.join(highest.select("tool", "label"), on="tool", maintain_order="left")
    text = f"Most errors: {shown['tool'][0]}, {words.rate_of(shown['error_rate'][0], shown['rated'][0], 'call')}."
    if picked := components.clicked(proportions.scatter(shown, page.palette), f"dots-{components.key_of(page)}", text):
        tool = str(picked["tool"])
        components.link(page, "tool", f"Open {words.plain(tool, 60)} →", tool=tool)
    else:
        components.quiet(
            "Tools with 20 calls or more. Size: sessions. Colour: whose turn most errors are. Click one to open it."
        )


def _rates(page: Page, rows: pl.DataFrame) -> None:
    if components.rateless(page):
        return
    failed = rows.drop_nulls("error_rate").filter(pl.col("error_rate") > 0)
    shown = failed.sort("low", "error_rate", descending=True).head(RATES)
    if rows["error_rate"].is_null().all():
        components.quiet("Only failures are reported: no tool has a rate.")
        return
    if shown.is_empty():
        components.quiet("No tool failed.")
        return
    picture = proportions.dots(
        shown.with_columns(label=pl.col("rate")), page.palette, "tool", "error_rate", small=page.small
    )
    worst = f"highest, as far as it is certain: {shown['tool'][0]}, {shown['rate'][0]} calls"
    about = f"Error rates of {words.plural(shown.height, 'tool')} with 95 % intervals; {worst}."
    components.chart(picture, "tool-rates", about)
    order = "highest rate first, as far as it is certain (the left end of the line)"
    if failed.height > RATES:
        components.quiet(f"The first {RATES} of {words.plural(failed.height, 'tool')} that failed, {order}.")
    else:
        components.quiet(f"Every tool that failed, {order}.")
    components.sampled(page)


def _heat(page: Page, rows: pl.DataFrame) -> None:
    top = rows["tool"].head(TOP_TOOLS).to_list()
    if failures := page.filters.of_failures:  # shares are of all calls, not only of those that failed
        whole = page.ask("breakdown", by="tool", operation="tool", limit=MOST, **dict.fromkeys(failures))
        rows = rows.drop("calls").join(whole.pick("tool", "calls"), on="tool", maintain_order="left")
    pairs = page.ask("breakdown", by="tool,error_class,category", operation="tool", outcome="error", limit=MOST)
    cells = (
        pairs.pick("tool", "error_class", "category", "errors")
        .drop_nulls()
        .join(rows.select("tool", "calls"), on="tool")
    )
    totals = cells.group_by("category", "error_class").agg(pl.col("errors").sum()).sort("errors", descending=True)
    classes = (
        totals.head(FEW_CLASSES if page.small else TOP_CLASSES).sort("category", "error_class")["error_class"].to_list()
    )
    shown = cells.filter(pl.col("tool").is_in(top) & pl.col("error_class").is_in(classes))
    if shown.is_empty():
        components.quiet("No tool failed.")
        return
    shown = shown.with_columns(share=pl.col("errors") / pl.col("calls"))
    text = f"Errors by class ÷ calls, for {len(top)} tools and {len(classes)} classes."
    key = f"heat-{components.key_of(page)}"
    heat_map = proportions.heat_map(shown, page.palette, top, classes, small=page.small)
    if picked := components.clicked(heat_map, key, text):
        tool, name = str(picked["tool"]), str(picked["error_class"])
        components.link(
            page, "errors", f"{words.plain(name)} of {words.plain(tool, 60)} →", tool=tool, error_class=name
        )
    else:
        few = " No colour: a tool with fewer than 20 calls." if (shown["calls"] < words.UNCERTAIN_BELOW).any() else ""
        components.quiet(f"Colour: errors of the class ÷ calls of the tool.{few} Click a cell for its errors.")
    left = [f"the first {len(top)} of {words.plural(rows.height, 'tool')}"] if rows.height > len(top) else []
    if totals.height > len(classes):
        left.append(f"the {len(classes)} most frequent of {words.count(totals.height)} classes")
    if left:
        components.quiet(f"Shown: {' and '.join(left)}.")


def _servers(page: Page) -> None:
    asked = {"operation": "tool", "mcp_server": "!", "limit": MOST}
    asking = page.later("breakdown", by="mcp_server,tool", **asked)
    answer = page.ask("breakdown", by="mcp_server", sort="-errors", **asked)
    rows = answer.pick("mcp_server", "calls", "errors", "error_rate", "rated").drop_nulls("mcp_server")
    tools = asking().pick("mcp_server", "tool").group_by("mcp_server").agg(tools=pl.col("tool").n_unique())
    if rows.is_empty():
        components.quiet("No call went to an MCP server.")
        return
    columns = {
        "mcp_server": link_table.name("server", 40),
        "tools": link_table.number("tools"),
        "calls": link_table.number("calls"),
        "errors": link_table.number("errors"),
        **_rate_columns(page),
    }
    shown = link_table.with_rate_words(rows.join(tools, on="mcp_server", how="left", maintain_order="left"))
    link_table.table(
        page, shown, columns, name="servers", usual="-errors", caption="MCP servers.",
        to=lambda row: components.address(page, "tools", mcp_server=row["mcp_server"]),
    )  # fmt: skip


page = open_page("tools", "Tools", "Which tool should we fix first?", tables=("", "servers"))
refreshing(body, page)
