"""The pages by name: their groups in the menu, their titles, and the subjects of detail pages."""

from collections.abc import Mapping

MENU: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Now": (("overview", "Overview"), ("live", "Live"), ("alerts", "Alerts")),
    "Why": (("errors", "Errors"), ("tools", "Tools"), ("models", "Models"), ("sessions", "Sessions")),
    "Does it help?": (("retries", "Retries"), ("streaks", "Streaks"), ("compare", "Compare"), ("lessons", "Lessons")),
    "System": (("sources", "Sources"), ("health", "Health")),
}
# Reached only by links.
DETAILS: Mapping[str, str] = {
    "changes": "What changed", "tool": "Tool", "group": "Group", "session": "Session", "streak": "Streak",
}  # fmt: skip
TITLES: Mapping[str, str] = {name: title for group in MENU.values() for name, title in group} | dict(DETAILS)
FIRST = "overview"
# Links to other pages do not carry the subject of a detail page as a filter.
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool",), "group": ("fingerprint",), "session": ("session", "service", "project"),
    "streak": ("session", "service", "project"),
}  # fmt: skip


def address(name: str) -> str:
    """Where a page is, relative to the dashboard's own address."""
    return "./" if name == FIRST else f"./{name}"
