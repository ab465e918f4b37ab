"""What pages say of people's decisions about groups, of marks on the time axis, and of visits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.page import visit
from dashboard.parts.group_marks import told
from dashboard.parts.saved_views import opened
from dashboard.parts.time_marks import _label

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AGO = NOW - timedelta(hours=3)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({}, ""),
        ({"resolved": AGO, "state": "resolved"}, "Resolved 3 h ago; not seen since."),
        ({"resolved": AGO.isoformat(), "state": "regressed"}, "Resolved 3 h ago; seen again since."),
        (
            {"resolved": AGO, "state": "resolved", "resolved_service": "coder", "resolved_version": "2"},
            "Resolved in coder 2 3 h ago; not seen in that version or a later one.",
        ),
        (
            {"resolved": AGO, "state": "regressed", "resolved_version": "2"},
            "Resolved in 2 3 h ago; seen again in that version or a later one.",
        ),
        (
            {"ignored": AGO, "state": "ignored", "until_events": 10, "events_since": 3, "sessions_since": 1},
            "Ignored 3 h ago; since then 3 of 10 events.",
        ),
        (
            {"ignored": AGO, "state": "regressed", "until_events": 10, "events_since": 4, "until_sessions": 2,
             "sessions_since": 2},
            "Ignored 3 h ago; since then 4 of 10 events and 2 of 2 sessions: it is back.",
        ),
    ],
)  # fmt: skip
def test_a_decision_is_said_with_what_happened_since(group: dict[str, Any], said: str) -> None:
    assert told(group, NOW).replace("\u00a0", " ") == said


@pytest.mark.parametrize(
    ("text", "service", "version", "label"),
    [
        ("deploy", "coder", "1.8.0", "deploy coder 1.8.0"),
        ("coder 1.8.0 is out", "coder", "1.8.0", "coder 1.8.0 is out"),
        ("an outage", None, None, "an outage"),
        ("two\nlines", None, "2", "two lines 2"),
    ],
)
def test_a_mark_is_called_by_what_it_says_once(text: str, service: str | None, version: str | None, label: str) -> None:
    assert _label({"text": text, "service": service, "version": version}) == label


@pytest.mark.parametrize("cookie", ["", "x", "-1", "1e9", "9" * 15, "١٢٣", "1795772920453; x=y"])
def test_a_cookie_that_is_no_time_is_none(cookie: str) -> None:
    assert visit(cookie) is None
    assert visit("1795772920453") == datetime(2026, 11, 27, 9, 48, 40, 453000, tzinfo=UTC)


def test_a_view_leads_to_what_is_understood_of_its_query() -> None:
    assert opened("from=-7d&tool=a&evil=<script>&to=x") == {"from": "-7d", "tool": "a"}
    assert opened("\x00&&==&%zz") == {}
