"""Rows for CSV files that people open in spreadsheets, which run a cell that begins like a formula."""

import polars as pl
import polars.selectors as cs

# Some spreadsheets skip white space, quotes and unseen characters before a sign, and take the full-width signs too.
FORMULA = r"""^(?:[\t\r\n]|[\s\p{C}\p{Z}"'`]*[=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"""
NUMBER = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def inert(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with an apostrophe before each text, and name of a column, that would be a formula; numbers stay."""
    texts = cs.string(include_categorical=True) | cs.enum()
    names = pl.DataFrame({"name": rows.columns}, {"name": pl.String}).select(_inert(pl.col("name")))["name"]
    return rows.with_columns(_inert(texts.cast(pl.String))).rename(dict(zip(rows.columns, names, strict=True)))


def _inert(text: pl.Expr) -> pl.Expr:
    runs = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    return pl.when(runs).then(pl.lit("'") + text).otherwise(text).name.keep()
