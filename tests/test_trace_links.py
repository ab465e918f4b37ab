"""Links to a trace viewer: the same on pages as in the API, every value percent-encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from collector.alerts.incidents import calls
from collector.alerts.notify import annotations_of, describe, text
from collector.settings import load
from collector.trace_links import trace_link
from dashboard.parts import card
from tests.conftest import RunningCollector
from tests.doors import spans
from tests.test_incidents import receiver
from tests.test_notify import ALERT, RULE, notification

TRACE = "77984df01e593db5257cdd1aaaec1094"
KNOWN = {"trace_id": TRACE, "span_id": "b7ad6b7169203331", "session": "a/b c?&#\u00e9", "service": "x"}


@pytest.mark.parametrize(
    ("template", "known", "link"),
    [
        ("https://t/{trace_id}", KNOWN, f"https://t/{TRACE}"),
        ("https://t/{trace_id}/{span_id}?t={trace_id}", KNOWN, f"https://t/{TRACE}/b7ad6b7169203331?t={TRACE}"),
        ("https://t/sessions/{session}", KNOWN, "https://t/sessions/a%2Fb%20c%3F%26%23%C3%A9"),
        ("https://t/{session}", {"session": "{trace_id}", "trace_id": "x"}, "https://t/%7Btrace_id%7D"),
        ('https://g/explore?left={"q":"{trace_id}","r":{"from":1}}', KNOWN,
         f'https://g/explore?left={{"q":"{TRACE}","r":{{"from":1}}}}'),
        ("https://t/{trace_id}?span={span_id}", KNOWN | {"span_id": None}, ""),
        ("https://t/{trace_id}", {}, ""),
        ("https://t/{trace_id}", {"trace_id": ""}, ""),
        ("https://t/", KNOWN, ""),
        ("", KNOWN, ""),
    ],
)  # fmt: skip
def test_places_are_filled_if_all_are_known(template: str, known: Mapping[str, Any], link: str) -> None:
    assert trace_link(template, known) == card.trace_link(template, known) == link
    if link:
        assert load({"trace_url": template}, {}).trace_url == template


def test_messages_link_to_the_trace_that_their_labels_name() -> None:
    session = replace(ALERT, labels=(("session", "s/1"),))
    item = describe(RULE, session, scrub=str, trace_url="https://t/{session}")
    assert item.trace == "https://t/s%2F1"
    assert annotations_of(item)["trace"] == item.trace
    one = replace(notification(session, receiver=receiver("pagerduty", "http://h/hook")), items=(item,))
    assert text(one)[1].endswith(item.trace)
    [call] = calls(one, 0)
    assert call.body["links"] == [{"href": item.trace, "text": "Trace"}]
    assert describe(RULE, ALERT, scrub=str, trace_url="https://t/{session}").trace == ""


def test_the_api_links_an_event_to_its_trace(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(TRACE_URL="https://t/{trace_id}?span={span_id}")
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x"}
    assert collector.post("/v1/traces", spans({"name": "execute_tool x", "attributes": told})).status_code == 200
    [row] = collector.events()
    one = collector.get(f"/api/v1/events/{row['event_id']}")
    assert one["trace_url"] == f"https://t/{row['trace_id']}?span={row['span_id']}"
