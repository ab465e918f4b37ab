"""The pages by name: their groups in the menu, their titles, what each is about."""

from collections.abc import Mapping

MENU: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Now": (("overview", "Overview"), ("live", "Live"), ("alerts", "Alerts")),
    "Why": (("errors", "Errors"), ("tools", "Tools"), ("sessions", "Sessions")),
    "Does it help?": (("retries", "Retries"), ("streaks", "Streaks"), ("compare", "Compare")),
    "System": (("sources", "Sources"), ("health", "Health")),
}
# Reached by links alone.
DETAILS: Mapping[str, str] = {
    "changes": "What changed", "tool": "Tool", "group": "Group", "session": "Session", "streak": "Streak",
}  # fmt: skip
TITLES: Mapping[str, str] = {name: title for group in MENU.values() for name, title in group} | dict(DETAILS)
# What a detail page is about is not carried to other pages as a filter.
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool",), "group": ("fingerprint",), "session": ("session", "service"), "streak": ("session", "service"),
}  # fmt: skip
