"""The colours of both themes, checked for contrast and for colour-blind readers. Colour is never the only sign."""

from collections.abc import Mapping
from dataclasses import dataclass

OUTCOMES = ("ok", "error", "cancelled", "denied", "unknown")
ATTRIBUTIONS = ("model", "tool", "environment", "provider", "user", "agent")
CATEGORIES = ("validation", "content", "execution", "file_operation", "rate_limit", "timeout")
OTHER = "everything else"
ALERT_WORDS: Mapping[str, str] = {"firing": "■ Firing", "pending": "◧ Pending", "resolved": "□ Resolved"}


@dataclass(frozen=True, slots=True)
class Palette:
    """One theme's colours by meaning."""

    outcome: Mapping[str, str]
    attribution: Mapping[str, str]
    category: Mapping[str, str]
    alert: Mapping[str, str]
    ramp: tuple[str, str]
    on_ramp: tuple[str, str, float]  # text on the ramp: up to a share and above it, each with a contrast of 4.5:1
    ink: str
    quiet: str
    line: str
    paper: str


def _named(names: tuple[str, ...], colours: str) -> dict[str, str]:
    return dict(zip(names, colours.split(), strict=True))


_SLOTS = (*CATEGORIES, OTHER)
_ALERTS = ("firing", "pending", "resolved")
# The same in both themes, so that a category is known by its colour: each stands out from white and from black by 3:1,
# and any two differ for colour-blind readers by at least as much as two sets of their own would.
_CATEGORIES = _named(_SLOTS, "#0F9BEB #BE0776 #176AAB #BC8C13 #9102FF #8A5909 #8D9199")

LIGHT = Palette(
    outcome=_named(OUTCOMES, "#5B8DB8 #C2410C #6B7280 #7B3F98 #0A6D6C"),
    attribution=_named(ATTRIBUTIONS, "#0E90D8 #C10900 #0A6D6C #BA885B #7724B6 #2E3360"),
    category=_CATEGORIES,
    alert=_named(_ALERTS, "#A61B1B #8F6600 #0A6D6C"),
    ramp=("#F3F4F6", "#C2410C"), on_ramp=("#000000", "#FFFFFF", 0.85),
    ink="#1F2430", quiet="#5F6673", line="#E1E4E9", paper="#FFFFFF",
)  # fmt: skip
DARK = Palette(
    outcome=_named(OUTCOMES, "#4F7FA8 #FF8A4C #9AA3AF #D9B3EA #41AA8B"),
    attribution=_named(ATTRIBUTIONS, "#5061B3 #9D520C #41AA8B #FFBE1F #B385FF #D5D8F5"),
    category=_CATEGORIES,
    alert=_named(_ALERTS, "#FF8A4C #FFBE1F #41AA8B"),
    ramp=("#22262E", "#FF8A4C"), on_ramp=("#FFFFFF", "#000000", 0.38),
    ink="#E6E8EC", quiet="#9AA3AF", line="#2B303A", paper="#14161A",
)  # fmt: skip


def palette(theme: str | None) -> Palette:
    """The palette of a theme; light if the browser has not reported one."""
    return DARK if theme == "dark" else LIGHT


def slot(category: str | None) -> str:
    """The legend entry of a category: its own, or the one for everything else."""
    return category if category in CATEGORIES else OTHER
