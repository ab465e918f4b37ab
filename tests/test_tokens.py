"""Named tokens: made and revoked beside the store, admitted by what they may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.access import tokens as admitting
from collector.access.file import MOST, PREFIX, TokenFile
from collector.access.meter import Limits, Meter
from collector.access.rights import ADMIN, ALERTS, INGEST, MAINTAIN, READ, RIGHTS, Access
from collector.access.tokens import Tokens
from collector.errors import Rejected, StoreError, Unavailable
from collector.setting_values import Address
from collector.settings import Settings
from tests.conftest import HTTP, RunningCollector, misstep, wait_until
from tests.doors import spans


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def refusal(tokens: Tokens, right: str, **headers: str) -> tuple[int, str]:
    with pytest.raises(Rejected) as refused:
        tokens.admit(headers, right)
    return refused.value.status, str(refused.value)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "misstep.duckdb.tokens")


def test_a_token_may_do_what_it_was_made_for_until_it_is_revoked(file: TokenFile) -> None:
    tokens = Tokens(file, Settings())
    _, text = tokens.create("ci", [INGEST, READ], "shop")
    assert tokens.admit(bearer(text), INGEST) == Access("ci", frozenset((INGEST, READ)), "shop")
    assert refusal(tokens, READ)[0] == 401
    assert refusal(tokens, READ, **bearer(text[:-1] + "_"))[0] == 403
    assert refusal(tokens, ALERTS, **bearer(text)) == (403, admitting.REMEDIES[ALERTS])
    assert refusal(tokens, ADMIN, **bearer(text))[0] == 403

    tokens.revoke("ci")
    for right in RIGHTS:
        assert refusal(tokens, right, **bearer(text))[0] == 403, "revoking the last token opens nothing"
    _, again = tokens.create("ci", [INGEST])
    assert tokens.admit(bearer(again), INGEST).project is None
    assert [(token.name, bool(token.revoked_ns)) for token in tokens.named()] == [("ci", True), ("ci", False)]


def test_what_a_token_used_is_not_told_of_another_project_s_with_its_name(file: TokenFile) -> None:
    tokens = Tokens(file, Settings())
    tokens.create("agents", [INGEST], "shop")
    tokens.revoke("agents")
    _, text = tokens.create("agents", [INGEST], "web")
    tokens.admit(bearer(text), INGEST)
    assert [tokens.used(token)["requests"] for token in tokens.named()] == [0, 1]
    assert tokens.apart
    tokens.revoke("agents")
    assert tokens.apart, "what was sent with them is still there"


def test_a_running_collector_notices_what_is_made_and_revoked_beside_its_store(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert file.path
    tokens = Tokens(TokenFile(file.path), Settings())
    assert tokens.admit({}, ADMIN) == Access("", frozenset((*RIGHTS, MAINTAIN)))
    monkeypatch.setattr(admitting, "AGAIN_S", 0)
    _, text = file.create("agents", [INGEST])
    assert tokens.admit(bearer(text), INGEST).name == "agents"
    assert refusal(tokens, INGEST)[0] == 401
    assert tokens.admit({}, READ).name == "", "nothing was said of reading"
    assert tokens.admit(bearer(text), READ).name == "agents", "who asks is known where nobody need say"

    tokens.create("others", [READ])  # both write the file, each on what the other wrote
    file.revoke("agents")
    assert refusal(tokens, INGEST, **bearer(text))[0] == 403
    assert len(TokenFile(file.path).held.tokens) == 2

    file.path.write_text("{}")
    assert refusal(tokens, INGEST)[0] == 401, "a file that cannot be read opens nothing"
    file.path.unlink()
    assert refusal(tokens, INGEST)[0] == 401
    assert tokens.asks(INGEST)


def test_the_file_holds_no_token_and_is_for_its_owner_alone(file: TokenFile) -> None:
    _, text = file.create("ci", RIGHTS)
    assert file.path
    assert text.startswith(PREFIX)
    assert text[len(PREFIX) :] not in file.path.read_text()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert TokenFile(None).create("ci", RIGHTS)[0].digest != TokenFile(None).create("ci", RIGHTS)[0].digest


@pytest.mark.parametrize(
    ("name", "rights", "project", "said"),
    [
        ("ci", ["ingest", "write"], None, "'write' is no right"),
        ("ci", [], None, "write some of ingest, read, alerts, admin"),
        ("ci", ["maintain"], None, "'maintain' is no right"),
        ("", ["read"], None, "name: '' is no name"),
        ("a b", ["read"], None, "name: 'a b' is no name"),
        ("a\n", ["read"], None, "is no name"),
        ("../x", ["read"], None, "is no name"),
        ("ci", ["read"], "a/b", "project: 'a/b' is no name"),
        ("ci", ["read"], "x" * 64, "is no name"),
        ("taken", ["read"], None, "there is a token 'taken' already"),
    ],
)
def test_what_no_token_can_be(file: TokenFile, name: str, rights: list[str], project: str | None, said: str) -> None:
    file.create("taken", [READ])
    with pytest.raises(Rejected) as refused:
        file.create(name, rights, project)
    assert said in str(refused.value)
    assert len(file.held.tokens) == 1


def test_no_more_than_so_many_are_kept(file: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.access.file.MOST", 2)
    assert MOST > 2
    for name in "ab":
        file.create(name, [READ])
    file.revoke("a")
    with pytest.raises(Rejected, match=r"no more are kept: .* delete revoked ones from .*\.tokens"):
        file.create("c", [READ])
    with pytest.raises(Rejected, match="no token 'a' in force"):
        file.revoke("a")


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"key": "xyz"}', '{"key": "00", "tokens": [{"name": "a"}]}', "[]", '{"key": ""}']
)
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "misstep.duckdb.tokens"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"tokens is damaged: [^\n]*$"):
        TokenFile(path)


@pytest.mark.parametrize(
    ("settings", "open_"),
    [
        ({}, {INGEST, READ, ALERTS, ADMIN, MAINTAIN}),
        ({"ingest_tokens": ("a",)}, {READ, ALERTS, MAINTAIN}),
        ({"query_tokens": ("a",)}, {INGEST}),
        ({"alerts_tokens": ("a",)}, {INGEST, READ, MAINTAIN}),
        ({"admin_tokens": ("a",)}, {INGEST, READ, ALERTS}),
        ({"http": Address("0.0.0.0", 4318), "open": True}, {INGEST, READ, MAINTAIN}),
    ],
)
def test_what_needs_no_token(settings: Any, open_: set[str]) -> None:
    assert Tokens(TokenFile(None), Settings(**settings)).open == open_


def test_one_token_of_two_settings_may_do_both() -> None:
    tokens = Tokens(TokenFile(None), Settings(ingest_tokens=("a", "b"), query_tokens=("b",)))
    assert tokens.admit(bearer("b"), INGEST) == Access("", frozenset((INGEST, READ, MAINTAIN)))
    assert refusal(tokens, READ, **bearer("a")) == (403, "this token is not valid here: it lacks the right 'read'")


def test_a_query_token_maintains_nothing_once_there_are_admins(file: TokenFile) -> None:
    tokens = Tokens(file, Settings(query_tokens=("a",)))
    assert MAINTAIN in tokens.admit(bearer("a"), READ).rights
    _, root = tokens.create("root", [ADMIN])
    assert tokens.admit(bearer("a"), READ).rights == {READ}
    assert refusal(tokens, MAINTAIN, **bearer("a")) == (403, "this token is not valid here: it lacks the right 'admin'")
    assert MAINTAIN in tokens.admit(bearer(root), MAINTAIN).rights


def test_a_collector_refuses_a_token_as_soon_as_it_is_revoked(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(ADMIN_TOKENS="root")
    file = TokenFile(Path(f"{running.store}.tokens"))
    _, text = file.create("agents", [INGEST], "shop")
    sent = spans({"name": "chat"}, service="a")

    def status(headers: dict[str, str]) -> int:
        return running.post("/v1/traces", sent, headers).status_code

    wait_until(lambda: status(bearer(text)) == 200 and status({}) == 401)
    file.revoke("agents")
    wait_until(lambda: status(bearer(text)) == 403)
    assert text[4:] not in running.logged()
    running.restart()
    assert status(bearer(text)) == 403


def test_a_minute_begins_anew_after_what_was_used_up() -> None:
    now = 1000.0
    meter = Meter("ci", Limits(requests=3, bytes=100, events=10), lambda: now)
    for _ in range(3):
        meter.begin()
    with pytest.raises(Unavailable) as refused:
        meter.begin()
    assert (refused.value.status, refused.value.retry_after, refused.value.reason) == (429, 60, "token_limit")
    now += 60
    for kind, most in (("bytes", 100), ("events", 10)):
        meter.begin()
        meter.count(kind, most - 1)
        meter.begin()
        meter.count(kind, 1_000)  # a request is taken whole
        now += 45
        with pytest.raises(Unavailable, match=f"may use {most} {kind} a minute") as refused:
            meter.begin()
        assert refused.value.retry_after == 15
        now += 15
    assert meter.used == {"requests": 7, "bytes": 1099, "events": 1009, "refused": 3}


def test_a_sender_beyond_its_limit_is_told_when_to_come_back(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(ADMIN_TOKENS="root")
    root = bearer("root")

    def made(name: str, limits: dict[str, int], *rights: str) -> dict[str, str]:
        asked = {"name": name, "rights": rights or ["ingest"], "limits": limits}
        answer = HTTP.post(f"{running.url}/api/v1/tokens", json=asked, headers=root)
        assert answer.status_code == 201, answer.text
        return bearer(answer.json()["token"])

    sent = spans({"name": "chat"}, {"name": "chat"}, service="a")
    few, none = made("few", {"events": 3}), made("none", {"bytes": 1})
    assert [running.post("/v1/traces", sent, few).status_code for _ in range(3)] == [200, 200, 429]
    refused = running.post("/v1/traces", sent, few)
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    assert "may use 3 events a minute" in refused.json()["message"]

    with grpc.insecure_channel(running.grpc) as channel:
        call: Any = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        assert call(b"\n\x00", metadata=tuple(none.items())) == b""
        with pytest.raises(grpc.RpcError) as told:
            call(b"\n\x00", metadata=tuple(none.items()))
    error: Any = told.value
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    status = Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    delay = RetryInfo()
    assert status.details[0].Unpack(delay)
    assert 1 <= delay.retry_delay.seconds <= 120

    reader = made("reader", {"requests": 1}, "read")
    health = HTTP.get(f"{running.url}/api/v1/health", headers=reader).json()
    assert HTTP.get(f"{running.url}/api/v1/health", headers=reader).headers["retry-after"]
    used = {row["name"]: (row["requests"], row["events"], row["refused"]) for row in health["tokens"]}
    assert used == {"few": (2, 4, 2), "none": (1, 0, 1), "reader": (1, 0, 0)}
    counted = HTTP.get(f"{running.url}/metrics").text
    assert 'misstep_token_use_total{kind="events",token="few"} 4.0' in counted
    for text in (counted, running.logged(), str(health)):
        assert few["authorization"][12:] not in text


def test_the_commands_make_list_and_revoke_over_the_api_and_beside_the_store(
    start_collector: Callable[..., RunningCollector],
) -> None:
    running = start_collector(ADMIN_TOKENS="root")
    beside = {"STORE": f"duckdb:///{running.store}"}
    over = {"COLLECTOR_URL": running.url, "ADMIN_TOKEN": "root"}

    def ran(*words: str, **settings: str) -> tuple[int, str, str]:
        done = misstep(*words, cwd=running.folder, settings=settings)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    for name, settings in (("near", beside), ("far", over)):
        code, text, said = ran("token", "create", name, "--rights", "ingest,read", "--project", "shop", **settings)
        assert (code, text[:4], len(text)) == (0, PREFIX, 44), said
        wait_until(lambda text=text: running.post("/v1/logs", "{}", bearer(text)).status_code == 200)  # type: ignore[misc]
        for other in (beside, over):
            listed = ran("token", "list", **other)
            assert f"{name}  in force" in listed[1], listed
            assert text[4:] not in ran("token", "list", **other)[1]
        assert ran("token", "revoke", name, **settings)[:2] == (0, f"{name} is revoked")
        wait_until(lambda text=text: running.post("/v1/logs", "{}", bearer(text)).status_code == 403)  # type: ignore[misc]
        code, _, said = ran("token", "revoke", name, **settings)
        assert (code, f"there is no token '{name}' in force" in said) == (2, True)
        assert f"{name}  revoked" in ran("token", "list", **settings)[1]
    log = ran("audit", **over)[1].splitlines()
    assert len(log) == 4
    assert log == ran("audit", **beside)[1].splitlines()[1:], "who reads the log is in it"
    assert "an unnamed token  remove  DELETE /api/v1/tokens/far" in log[0]
    assert "on this machine  add  misstep token near  ingest, read; project shop" in log[-1]
    assert ran("audit", "action=add", **beside)[1].count("\n") == 1
    assert ran("audit", "action=x", "tool=y", **beside)[2] == (
        "misstep: 'tool' is no filter of the audit log; write who=… or action=…"
    )
    refused = ran("token", "list", COLLECTOR_URL=running.url, ADMIN_TOKEN="wrong")
    assert (refused[0], "wrong" in refused[2]) == (2, False)
    assert ran("token", "create", "x", "--rights", "all", **beside)[2].startswith("misstep: rights: 'all' is no right")
    assert "write a number" in ran("token", "create", "x", "--rights", "read", "--bytes", "5x", **beside)[2]
