"""What commands share: their arguments, and the settings and the sanitiser that these give."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from collector.api.reserved import reserved
from collector.settings import Settings, load
from collector.token_store import guarded

if TYPE_CHECKING:
    from collector.sanitise.sanitise import Sanitiser

To = Annotated[
    str | None,
    Parameter(help="URL of the collector to send to; default MISSTEP_COLLECTOR_URL, else that of MISSTEP_HTTP."),
]
STORE = "The store, which no collector may have open; default MISSTEP_STORE, else duckdb:///data/misstep.duckdb."
RULES = "A file of alert rules; default MISSTEP_RULES, else alerts.yaml."
RuleFile = Annotated[Path, Parameter(help="A file of alert rules.")]
Filters = Annotated[str, Parameter(help="Filters of the query API, such as tool=apply_diff or outcome=error.")]
Start = Annotated[
    str,
    Parameter(
        name="--from", allow_leading_hyphen=True, help="Start of the range: RFC 3339, or relative to now, such as -7d."
    ),
]
End = Annotated[
    str, Parameter(name="--to", allow_leading_hyphen=True, help="End of the range, exclusive: written like its start.")
]


def settings_from(**flags: str | None) -> Settings:
    """The settings in force with these flags."""
    return load(flags, os.environ, reserved=reserved, guarded=guarded)


def settings_for_rules(**flags: str | None) -> Settings:
    """The settings; afterwards, rules may name the user's own dimensions."""
    from collector.query.filters import add_dimensions

    settings = settings_from(**flags)
    add_dimensions(settings.dimensions)
    return settings


def sanitiser_from(settings: Settings) -> Sanitiser:
    """The sanitiser that a collector with these settings would use."""
    from collector.hash_key import sanitiser_of
    from collector.sanitise.redactions import load_rules

    return sanitiser_of(settings, load_rules(*settings.own("redactions.toml")))
