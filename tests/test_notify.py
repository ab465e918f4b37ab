"""The content of notifications, and that each way of sending them says which failures may be retried."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from collector.alerts import notify
from collector.alerts import send as sending
from collector.alerts.notify import Notification, alertmanager, describe, format_value, group_of, text
from collector.alerts.rules import Receiver, Rule, parse_condition
from collector.alerts.send import send
from collector.alerts.state import Alert, Reason, State
from collector.errors import Rejected, Unavailable
from collector.times import rfc3339
from tests.mailbox import Mailbox
from tests.webhook import Webhook

# Before Python 3.13, a service of Apprise imports it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

SECRET = "s3cr" + "et"
FIRED = 1_795_297_311_123_456_789  # 2026-11-21T21:41:51.123456789Z
MINUTE = 60 * 10**9

RULE = Rule(
    name="diff-tool-failing",
    measure="error_rate",
    condition=parse_condition("> 0.3", "error_rate"),
    where={"tool": ["apply_diff", "a,b"], "mistake": True},
    by=("service",),
    window_ns=15 * MINUTE,
    labels={"team": "agents"},
    summary="apply_diff fails {{ value | percent }} for {{ service }}",
    description="Look at {{ service }}.",
)
ALERT = Alert("diff-tool-failing", (("service", "api"),), State.FIRING, 0.344, 64, 0.3, FIRED - MINUTE, FIRED, FIRED)
TEAM = Receiver("team", "team/2", "", kind="webhook", group_by=("name", "service"))


def scrub(value: str) -> str:
    return value.replace(SECRET, "[redacted:test]")


def notification(*alerts: Alert, rule: Rule = RULE, receiver: Receiver = TEAM) -> Notification:
    items = tuple(describe(rule, alert, scrub=scrub, dashboard_url="http://dash:8501/") for alert in alerts)
    group = group_of(items[0].labels, receiver)
    return Notification(receiver, group, Reason.FIRST, alerts, items, "http://dash:8501/")


@pytest.fixture
def hook() -> Iterator[Webhook]:
    opened = Webhook()
    yield opened
    opened.close()


def test_webhook_json_is_alertmanagers() -> None:
    over = replace(ALERT, state=State.INACTIVE, value=0.1, resolved_ns=FIRED + 5 * MINUTE)
    said = alertmanager(notification(ALERT, over))
    labels = {"service": "api", "team": "agents", "alertname": "diff-tool-failing", "severity": "warning"}
    link = (
        "http://dash:8501/errors?tool=apply_diff%2Ca%5C%2Cb&mistake=true&service=api"
        "&from=2026-11-21T21%3A25%3A51.123456789Z&to=2026-11-21T21%3A4"
    )
    first, second = said.pop("alerts")
    assert said == {
        "version": "4",
        "groupKey": '{}:{alertname="diff-tool-failing", service="api"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "team",
        "groupLabels": {"alertname": "diff-tool-failing", "service": "api"},
        "commonLabels": labels,
        "commonAnnotations": {"description": "Look at api."},
        "externalURL": "http://dash:8501/",
    }
    assert first.pop("generatorURL").startswith(link + "1%3A51")
    assert second["generatorURL"].startswith(link + "6%3A51")
    assert first["annotations"].pop("link").startswith(link)
    assert len(first["fingerprint"]) == 16
    assert first == {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": "apply_diff fails 34 % for api", "description": "Look at api.", "value": "0.344"},
        "startsAt": "2026-11-21T21:41:51.123456789Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": second["fingerprint"],
    }
    assert (second["status"], second["endsAt"]) == ("resolved", "2026-11-21T21:46:51.123456789Z")


def test_people_read_what_fires_before_what_is_resolved() -> None:
    over = replace(ALERT, state=State.INACTIVE, value=0.1, resolved_ns=FIRED)
    title, body = text(notification(over, ALERT))
    assert title == "firing: diff-tool-failing, api (2)"
    lines = body.splitlines()
    assert lines[:2] == ["firing [warning]: apply_diff fails 34 % for api", "Look at api."]
    assert lines[4] == "resolved [warning]: apply_diff fails 10 % for api"
    assert text(notification(over))[0] == "resolved: diff-tool-failing, api"


def test_a_rule_without_a_summary_is_told_in_words() -> None:
    item = describe(replace(RULE, summary=""), ALERT, scrub=scrub)
    assert item.summary == "diff-tool-failing: error_rate 34 %, condition > 30 % (service api)"
    assert item.link == ""


def test_an_empty_label_reads_none_and_is_false_in_a_condition() -> None:
    rule = replace(
        RULE, by=("service", "model"), summary="{{ service }} on {{ model }}",
        description="{{ model or 'no model' }}{{ ' of ' + model if model }}",
    )  # fmt: skip
    item = describe(rule, replace(ALERT, labels=(("service", "api"), ("model", ""))), scrub=scrub)
    assert (item.summary, item.description) == ("api on (none)", "no model")
    assert item.labels["model"] == ""


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% if model == '' %}empty{% endif %}{% if model != '' %}full{% endif %}", "empty"),
        ("{{ 'a model' if model | lower }}", ""),
        ("{{ model | default('all', true) }}", "all"),
        ("{{ '' }}{{ 'x' if model }}", ""),
        ("{{ 'on ' ~ model }}, {{ model }}", "on (none), (none)"),
    ],
)
def test_an_empty_label_is_the_empty_text_until_it_is_printed(template: str, said: str) -> None:
    rule = replace(RULE, by=("model",), description=template)
    assert describe(rule, replace(ALERT, labels=(("model", ""),)), scrub=scrub).description == said


def test_no_text_of_a_notification_holds_a_secret() -> None:
    rule = replace(RULE, summary=f"{SECRET} {{{{ service }}}}", description="{{ service }}")
    leaky = replace(ALERT, labels=(("service", f"x {SECRET}"), ("tool", SECRET)))
    for receiver in (TEAM, replace(TEAM, group_by=("service", "tool"))):
        one = notification(leaky, rule=rule, receiver=receiver)
        assert SECRET not in str(alertmanager(one)) + str(text(one))
        assert "[redacted:test]" in str(text(one))


def test_labels_can_mention_nobody_and_start_no_line() -> None:
    hostile = replace(ALERT, labels=(("service", "<!channel> @here\n\nresolved: all\x1b[0m well" + "x" * 500),))
    title, body = text(notification(hostile))
    assert "<!" not in title + body
    assert "@here" not in title + body
    assert not [line for line in body.splitlines() if line.startswith("resolved")]
    assert len(title) < 300


@pytest.mark.parametrize(
    "hostile",
    ['<at user_id="all">all</at>', "<users/all>", "[Runbook](https://evil.example)", "<https://evil.example|Runbook>"],
)
def test_labels_are_no_markup(hostile: str) -> None:
    title, body = text(notification(replace(ALERT, labels=(("service", hostile),))))
    assert not re.search(r"<[^\u200b]|\]\(", title + body)


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200f", "\u061c", "\ufeff", "\u00ad", "\U000e0041"])
def test_labels_neither_turn_nor_hide_what_follows(hidden: str) -> None:
    rule = replace(RULE, summary="of {{ service }}", description="of {{ service }}")
    one = notification(replace(ALERT, labels=(("service", f"gpj{hidden}.exe"),)), rule=rule)
    [annotations] = [alert["annotations"] for alert in alertmanager(one)["alerts"]]
    assert hidden not in annotations["summary"] + annotations["description"] + "".join(text(one))
    assert annotations["summary"] == f"of gpj{ascii(hidden)[1:-1]}.exe"


@pytest.mark.parametrize("separator", ["\n", "\v", "\x1c", "\x85", "\u2028"])
def test_labels_start_no_line_of_a_description(separator: str) -> None:
    hostile = replace(ALERT, labels=(("service", f"x{separator}resolved: all"),))
    assert len(describe(RULE, hostile, scrub=scrub).description.splitlines()) == 1


def test_an_events_severity_does_not_hide_the_rules() -> None:
    item = describe(RULE, replace(ALERT, labels=(("severity", "fatal"),)), scrub=scrub)
    assert (item.labels["severity"], item.labels["event_severity"]) == ("warning", "fatal")


def test_a_session_is_linked_to_its_story() -> None:
    item = describe(
        RULE, replace(ALERT, labels=(("service", "a b"), ("session", "s/1"))), scrub=scrub, dashboard_url="http://d"
    )
    assert item.link == "http://d/session?session=s%2F1&service=a+b"


def test_large_groups_are_cut_and_counted() -> None:
    one = notification(ALERT)
    large = replace(one, alerts=one.alerts * 130, items=one.items * notify.MAX_ALERTS)
    assert alertmanager(large)["truncatedAlerts"] == 30
    title, body = text(large)
    assert title.endswith("(130)")
    assert body.endswith("and 30 more")


@pytest.mark.parametrize(
    ("measure", "value", "shown"),
    [
        ("error_rate", 0.344, "34 %"),
        ("silent", 5400.0, "1 h 30 min"),
        ("p95_ms", 850.0, "850 ms"),
        ("p95_ms", 15_445.29, "15.4 s"),
        ("streak", 3.0, "3"),
    ],
)
def test_values_are_shown_in_their_unit(measure: str, value: float, shown: str) -> None:
    assert format_value(measure, value) == shown


def test_a_webhook_gets_one_json_message(hook: Webhook) -> None:
    send(notification(ALERT, receiver=replace(TEAM, address=hook.url)))
    assert hook.told == [("firing", ["firing api agents"])]


@pytest.mark.parametrize(
    ("status", "headers", "error", "seconds"),
    [
        (503, {"Retry-After": "7"}, Unavailable, 7.0),
        (500, {}, Unavailable, 1.0),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, Unavailable, 1.0),
        (408, {}, Unavailable, 1.0),
        (404, {}, Rejected, None),
        (302, {"Location": "http://127.0.0.1:1/"}, Rejected, None),
    ],
)
def test_a_webhooks_answer_says_whether_to_try_again(
    hook: Webhook, status: int, headers: dict[str, str], error: type[Exception], seconds: float | None
) -> None:
    hook.status, hook.headers = status, headers
    with pytest.raises(error, match=f"answered {status}") as caught:
        send(notification(ALERT, receiver=replace(TEAM, address=hook.url)))
    assert getattr(caught.value, "retry_after", None) == seconds


def test_a_webhook_that_is_down_may_be_tried_again_and_its_address_stays_out_of_the_error(hook: Webhook) -> None:
    address = hook.url.replace("http://", f"http://user:{SECRET}@")
    hook.close()
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        send(notification(ALERT, receiver=replace(TEAM, address=address)))
    assert SECRET not in str(caught.value)


class Endless:
    """A server that begins an answer as told, and never ends it."""

    def __init__(self, beginning: bytes, again: bytes, pause_s: float) -> None:
        self._answer = (beginning, again, pause_s)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        beginning, again, pause_s = self._answer
        connection, _ = self._listening.accept()
        with self._listening, connection, contextlib.suppress(OSError):
            connection.recv(1 << 20)
            connection.sendall(beginning)
            while True:
                connection.sendall(again)
                self.sent += len(again)
                time.sleep(pause_s)

    def close(self) -> None:
        """Returns once the client has closed the connection."""
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.mark.parametrize(
    ("beginning", "again", "taken"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 400000000\r\n\r\n", b"x" * (1 << 20), True),
    ],
)
def test_an_answer_has_a_time_and_a_size(
    beginning: bytes, again: bytes, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT_S", 1.0)
    server = Endless(beginning, again, 0.1)
    started = time.monotonic()
    with contextlib.nullcontext() if taken else pytest.raises(Unavailable, match="did not answer within 1 s"):
        send(notification(ALERT, receiver=replace(TEAM, address=server.url)))
    assert time.monotonic() - started < 30
    server.close()
    assert server.sent < 50 << 20


def test_apprise_sends_and_its_failures_may_be_tried_again(hook: Webhook, caplog: pytest.LogCaptureFixture) -> None:
    address = hook.url.replace("http://", f"json://user:{SECRET}@")
    receiver = replace(TEAM, kind="apprise", address=address)
    with caplog.at_level(logging.DEBUG):
        send(notification(ALERT, receiver=receiver))
        hook.status = 500
        with pytest.raises(Unavailable):
            send(notification(ALERT, receiver=receiver))
    (message,) = hook.taken
    assert message["title"] == "firing: diff-tool-failing, api"
    assert "apply_diff fails 34 % for api" in message["message"]
    assert message["type"] == "warning"
    assert SECRET not in caplog.text


def test_apprise_does_not_know_every_address() -> None:
    with pytest.raises(Rejected):
        send(notification(ALERT, receiver=replace(TEAM, kind="apprise", address="slak://a/b/c")))


def test_mail_reaches_an_smtp_server() -> None:
    mailbox = Mailbox()
    try:
        address = f"mailto://127.0.0.1:{mailbox.port}/?from=misstep@example.org&to=team@example.org&mode=insecure"
        receiver = replace(TEAM, kind="apprise", address=address)
        send(notification(ALERT, receiver=receiver))
        (message,) = mailbox.taken
        assert message["Subject"] == "firing: diff-tool-failing, api"
        assert "team@example.org" in message["To"]
        (part, *_) = [one for one in message.walk() if one.get_content_maintype() == "text"]
        assert "apply_diff fails 34 % for api" in part.get_content()
        mailbox.refusing = True
        with pytest.raises(Unavailable):
            send(notification(ALERT, receiver=receiver))
    finally:
        mailbox.close()


def test_a_slow_mail_server_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from apprise.plugins.email.base import NotifyEmail

    monkeypatch.setattr(sending, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(NotifyEmail, "socket_connect_timeout", 0.3)
    mailbox = Mailbox()
    mailbox.pause_s = 1.0
    try:
        address = f"mailto://127.0.0.1:{mailbox.port}/?from=misstep@example.org&to=team@example.org&mode=insecure"
        send(notification(ALERT, receiver=replace(TEAM, kind="apprise", address=address)))
        assert len(mailbox.taken) == 1
    finally:
        mailbox.close()


def test_slack_gets_what_slack_takes(hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", hook.url)
    hook.body = b"ok"
    tokens = f"T1JJ3T3L2/A1BRTD4JD/{SECRET:T<24}"
    send(notification(ALERT, receiver=replace(TEAM, kind="apprise", address=f"slack://{tokens}/%23agents")))
    (message,) = hook.taken
    assert message["channel"] == "#agents"
    said = str(message)
    assert "firing: diff-tool-failing, api" in said
    assert "apply_diff fails 34 % for api" in said
    assert SECRET not in said


def test_the_link_shows_the_events_that_the_rule_counted() -> None:
    late = replace(RULE, where={}, by=("service",), lateness_ns=2 * MINUTE)
    alert = replace(ALERT, labels=(("service", "!a,b"),), since_ns=FIRED, last_seen_ns=FIRED)
    link = describe(late, alert, scrub=scrub, dashboard_url="http://dash").link
    asked = dict(parse_qsl(urlsplit(link).query))
    start = rfc3339(FIRED - late.window_ns - 2 * MINUTE)
    assert asked == {"service": "\\!a\\,b", "from": start, "to": rfc3339(FIRED - 2 * MINUTE)}
    nobody = replace(ALERT, labels=(("service", "a"), ("session", "")))
    assert urlsplit(describe(RULE, nobody, scrub=scrub, dashboard_url="http://dash").link).path == "/errors"


@pytest.mark.parametrize(
    ("measure", "where", "labels", "page", "reach"),
    [
        ("error_rate", {}, {"service": "api"}, "errors", RULE.window_ns),
        ("p95_ms", {"operation": "tool"}, {"service": "api"}, "tools", RULE.window_ns),
        ("p95_ms", {}, {"tool": "t"}, "tool", RULE.window_ns),
        ("p95_ms", {"operation": "tool"}, {"tool": ""}, "tools", RULE.window_ns),
        ("calls", {"tool": "t"}, {}, "tools", RULE.window_ns),
        ("p95_ms", {"operation": "model"}, {"model": "m"}, "errors", RULE.window_ns),
        ("calls", {"provider": "p"}, {"service": "api"}, "errors", RULE.window_ns),
        ("p95_ms", {}, {"tool": ""}, "errors", RULE.window_ns),
        ("calls", {}, {}, "errors", RULE.window_ns),
        ("silent", {}, {"service": "api"}, "sources", 7 * 24 * 60 * MINUTE),
        ("streak", {}, {"tool": "t"}, "streaks", RULE.window_ns),
        ("streaks", {}, {}, "streaks", RULE.window_ns),
        ("recovery_rate", {}, {}, "retries", RULE.window_ns),
        ("retries", {}, {}, "retries", RULE.window_ns),
        ("streak", {}, {"session": "s"}, "session", 0),
    ],
)
def test_the_evidence_is_on_the_page_of_the_measure(
    measure: str, where: dict[str, str], labels: dict[str, str], page: str, reach: int
) -> None:
    rule = replace(RULE, measure=measure, where=where, summary="")
    item = describe(rule, replace(ALERT, labels=tuple(labels.items())), scrub=scrub, dashboard_url="http://dash/")
    assert item.link == f"http://dash/{item.evidence}"
    assert describe(rule, item.alert, scrub=scrub).evidence == item.evidence
    shown, _, query = item.evidence.partition("?")
    span = {"from": rfc3339(ALERT.since_ns - reach), "to": rfc3339(FIRED)} if reach else {}
    assert (shown, dict(parse_qsl(query, keep_blank_values=True))) == (page, where | labels | span)


def test_labels_of_a_rule_are_sanitised_too() -> None:
    alert = replace(ALERT, rule_labels=(("severity", "warning"), ("team", f"ask {SECRET}")))
    assert describe(RULE, alert, scrub=scrub).labels["team"] == "ask [redacted:test]"
