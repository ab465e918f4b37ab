"""What error texts lead to, and the parameters that they name: parts of the Group and the Tool page."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import streamlit as st

from dashboard.data.client import MOST
from dashboard.page import Page
from dashboard.parts import components, link_table, sentences, words

STEPS: Mapping[str, str] = {
    "repaired": "repaired it", "changed": "changed the call and failed again", "repeated": "repeated it, in vain",
    "other_tool": "took another tool or target", "gave_up": "called no tool any more",
    "not_known_yet": "not known yet",
}  # fmt: skip
SPENT = ("median_calls", "median_tokens")
LISTED = 8
MISSING = "MissingParameterError"
HELP = (
    "What followed each error within half an hour, in the same session: a later success of the same tool at the same "
    "target; else the next attempt at it, with the same parameters or with others; else a call of another tool or at "
    "another target; else nothing."
)


def next_steps(page: Page) -> None:
    """What the model did after the errors of this group, what a repair took, and how the text before it did."""
    row = page.ask("texts", limit="1").having(*STEPS, *SPENT, "errors", "error_class", "tool").head(1)
    if row.is_empty():
        components.quiet("Only errors of tools in sessions tell what followed.")
        return
    told = row.row(0, named=True)
    steps = pl.DataFrame({"step": list(STEPS.values()), "errors": [float(told[step] or 0) for step in STEPS]})
    steps = steps.with_columns(share=pl.col("errors") / max(told["errors"] or 0, 1)).filter(pl.col("errors") > 0)
    columns = {
        "step": link_table.text("then the model", 40, by="", fills=True),
        "errors": link_table.number("errors", by=""),
        "share": link_table.share("of all", by=""),
    }
    most = steps.sort("errors", descending=True)["step"][0]
    link_table.table(page, steps, columns, name="steps", caption=f"What followed; most often it {most}.")
    if told["median_calls"] is not None:
        st.markdown(f"Half of the repairs took {words.plural(told['median_calls'], 'call')}{_tokens(told)}.")
    _wording(page, told["error_class"], told["tool"])


def _tokens(told: Mapping[str, Any]) -> str:
    """The end of a sentence about the repairs of an error text."""
    if told["median_tokens"] is None:
        return " or less"
    if not told["median_tokens"]:
        return " or less, and no model request of its own"
    return f" and {words.count(told['median_tokens'])} tokens or less"


def _wording(page: Page, error_class: str | None, tool: str | None) -> None:
    """How often the errors of this text are repaired beside those of the text before or after it."""
    mine = page.filters.only("fingerprint")
    about = {"fingerprint": None, "error_class": error_class or "", "tool": tool or "", "limit": MOST}
    rows = page.ask("texts/wordings", **about)
    columns = ("fingerprint_a", "fingerprint_b", "template_a", "template_b", "verdict", "sentence")
    for row in rows.having(*columns).iter_rows(named=True):
        if mine not in (row["fingerprint_a"], row["fingerprint_b"]):
            continue
        newer = mine == row["fingerprint_b"]
        word, other, text = ("older", "a", row["template_a"]) if newer else ("newer", "b", row["template_b"])
        verdict = sentences.compared(row["verdict"], row["sentence"])
        st.markdown(f"Repaired, older against newer wording, at equal class, tool and models: {verdict}")
        components.row(
            page, "group", f"The {word} wording", words.plain(text, 90), fingerprint=row[f"fingerprint_{other}"]
        )


def texts(page: Page) -> None:
    """The error texts of a tool, those after which models most often do not find a repair first."""
    answer = page.ask("texts", sort="-errors", limit=str(LISTED))
    rows = answer.having("fingerprint", "template", "errors", *STEPS, *SPENT)
    if rows.is_empty():
        components.quiet("No error of it in a session.")
        return
    settled = pl.col("errors") - pl.col("not_known_yet")
    rows = rows.with_columns(
        share=pl.when(settled > 0).then(pl.col("repaired") / settled), vain=pl.col("changed") + pl.col("repeated")
    )
    columns = {
        "template": link_table.text("text", 60, fills=True, by=""),
        "errors": link_table.number("errors"),
        "share": link_table.share("repaired", HELP),
        "vain": link_table.number("tried in vain", "Tried again, with other parameters or the same, and not repaired."),
        "other_tool": link_table.number("other tool"),
        "gave_up": link_table.number("gave up"),
        "median_calls": link_table.number("calls", "Calls until the repair: half of them took as many or fewer."),
        "median_tokens": link_table.number("tokens", "Tokens until the repair: half of them took as many or fewer."),
    }
    link_table.table(
        page, rows, columns, name="texts", usual="-errors", caption="Error texts, and what the model did next.",
        to=lambda row: components.address(page, "group", fingerprint=row["fingerprint"]), cut=answer.cut,
        wide=("other_tool", "median_calls", "median_tokens"),
    )  # fmt: skip


def parameters(page: Page) -> None:
    """The parameters of a tool that are wrong most often, each with a suggestion for its schema."""
    answer = page.ask("parameters", limit=str(LISTED))
    rows = answer.having("parameter", "error_class", "errors", "of", "share", "sample")
    if rows.is_empty():
        components.quiet("No error names a parameter that was missing or wrong.")
        return
    rows = rows.with_columns(
        pl.Series("suggestion", [_suggestion(*row) for row in rows.select("parameter", "error_class").iter_rows()])
    )
    columns = {
        "parameter": link_table.text("parameter", 30),
        "errors": link_table.number("errors"),
        "share": link_table.share("of its wrong calls", by="errors"),
        "suggestion": link_table.text("for the tool's schema", 110, by="", fills=True),
        "sample": link_table.text("such as", 36, by=""),
    }
    link_table.table(
        page, rows, columns, name="parameters", usual="-errors", wide=("sample",),
        caption=f"Parameters that were missing or wrong; most often {rows['parameter'][0]}.",
        to=lambda row: components.address(page, "errors", error_class=row["error_class"],
                                          tool=page.filters.only("tool")),
    )  # fmt: skip


def _suggestion(parameter: str, error_class: str) -> str:
    if error_class == MISSING:
        return f"make {parameter} required, with an example"
    return f"say type and form of {parameter}, with an example"
