"""What was there before the range of a page: versions and their first calls, and whether the period before is kept."""

from collections.abc import Callable
from datetime import datetime

import polars as pl

from dashboard.data import client, frames
from dashboard.page import Page

VERSION = "service,service_version"
# Without filters, so that it is counted from hours and one answer serves all pages.
EVER = {"from": "1970-01-01"}
VERSIONS_EVER = {**EVER, "by": VERSION, "sort": "-first_seen", "limit": client.MOST}
LOST = 0.1  # share of the period before that may be missing
EVER_S = 60.0  # versions that began since are known from the range


def versions(page: Page) -> Callable[[], pl.DataFrame]:
    """Starts to ask for the versions of this page's events, and returns a function that waits for them: service,
    service_version, calls, and their first calls ever (see `frames.since_ever`).
    """
    asking = page.later("breakdown", by=VERSION, limit=client.MOST)
    always = page.later_all("breakdown", VERSIONS_EVER, EVER_S)
    columns = ("service", "service_version", "first_seen")
    return lambda: frames.since_ever(asking().pick(*columns, "calls"), always().pick(*columns))


def all_versions(page: Page) -> Callable[[], pl.DataFrame]:
    """The same with the versions that made no call in the range but one before it, of services that made one in it;
    `calls` of those is 0.
    """
    asking = page.later("breakdown", by=VERSION, limit=client.MOST)
    always = page.later_all("breakdown", VERSIONS_EVER, EVER_S)
    columns = ("service", "service_version", "first_seen", "last_seen")

    def answered() -> pl.DataFrame:
        here, ever = asking().pick(*columns, "calls"), always().pick(*columns)
        own = ever.join(here, on="service", how="semi", nulls_equal=True)
        gone = own.join(here, on=["service", "service_version"], how="anti", nulls_equal=True)
        gone = gone.filter(pl.col("first_seen") < page.filters.span(page.now)[1])
        rows = pl.concat([here, gone.with_columns(calls=pl.lit(0).cast(here.schema["calls"]))], how="vertical_relaxed")
        return frames.since_ever(rows, ever)

    return answered


def kept_before(page: Page) -> Callable[[], bool]:
    """Starts to ask, and returns a function that waits for the answer, whether the period before is kept: without its
    oldest events, which may have been removed, everything would be more than before.
    """
    asking, (start, _) = page.later_all("breakdown", EVER, EVER_S), page.filters.span(page.now)

    def answered() -> bool:
        oldest: datetime | None = asking().pick("first_seen")["first_seen"].min()  # type: ignore[assignment]
        return oldest is None or oldest - (start - page.length) <= LOST * page.length

    return answered
