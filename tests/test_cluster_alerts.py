"""Of the collectors of a cluster one evaluates the rules, and all have the same rules, alerts, silences and tokens."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collector.access.file import TokenFile, merged, readable
from collector.alerts.changing import change, file_of
from collector.alerts.engine import Engine
from collector.alerts.ledger import Silence
from collector.alerts.notify import Notification
from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import is_valid
from collector.alerts.status import alert_rows, rule_rows
from collector.alerts.together import AWAY
from collector.cluster import lease as leasing
from collector.cluster import sharing as sharings
from collector.cluster.client import Cluster
from collector.cluster.files import SharedFile
from collector.cluster.lease import Lease
from collector.cluster.reads import ClusterReads
from collector.cluster.seal import Seal
from collector.cluster.sharing import Sharing
from collector.cluster.tables import Layout, make
from collector.engine.duckdb.meta import Meta
from collector.engine.duckdb.store import Store
from collector.errors import Rejected, Unavailable
from collector.measures.all import Keeps, Measured
from collector.measures.families import MeasureQuery
from collector.measures.measure import Sample
from collector.times import HOUR, MINUTE, SECOND
from tests.clickhouse import Front
from tests.conftest import HTTP, RunningCollector, misstep, wait_until
from tests.recorded import NOW

ADDRESS = "https://hooks.test/" + "s3cr" * 4
RULES = f"""rules:
  - {{name: many, measure: errors, condition: "> 3"}}
receivers:
  team: {{webhook: "{ADDRESS}", repeat: 4h}}
"""


@pytest.fixture
def place(clickhouse: Front) -> Iterator[str]:
    """The URL of a cluster with its tables."""
    url = clickhouse.database()
    cluster = Cluster(url)
    make(cluster, Layout(), 30 * 86_400)
    yield url
    cluster.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done every few seconds is done at every turn."""
    monkeypatch.setattr(sharings, "SELDOM_S", 0.0)


class Peer:
    """A collector's alerting: its store, its files, and what it sent. `value` is what every rule measures."""

    def __init__(self, folder: Path, place: str, key: str = "k" * 32, rules: str = "") -> None:
        self.folder, self.place, self.key = folder, place, key
        self.store = Store.open("duckdb://:memory:")
        folder.mkdir()
        self.path = folder / "alerts.yaml"
        if rules:
            self.path.write_text(rules)
        self.told: list[Notification] = []
        self.value, self.now_ns, self.ahead_s = 0.0, NOW, 0.0
        self.start()

    def start(self) -> None:
        """Also again, as after a restart."""
        self.cluster, meta = Cluster(self.place), Meta(self.store)
        self.sharing = Sharing(self.cluster, meta.collector(), meta, lambda: time.monotonic() + self.ahead_s)
        self.book, self.tokens = RuleBook(self.path), TokenFile(self.folder / "m.tokens")
        shared, seal = self.sharing.shared, Seal(self.key)
        rules = SharedFile(shared, seal, meta, "rules", self.path, valid=is_valid)
        tokens = SharedFile(shared, seal, meta, "tokens", self.folder / "m.tokens", valid=readable, merged=merged)
        self.book.given, self.tokens.given = rules.given, tokens.given
        self.sharing.files += [rules, tokens]
        self.engine = Engine(
            self.store, self.book, self.measure, self.told.append, scrub=str, clock=lambda: self.now_ns,
            together=self.sharing,
        )  # fmt: skip
        self.sharing.join(self.engine)

    def measure(self, store: Keeps, queries: Sequence[MeasureQuery]) -> Mapping[MeasureQuery, Measured]:
        return {query: Measured([Sample({}, self.value, 100)]) for query in queries}

    def tick(self) -> Peer:
        """Shares, evaluates and sends, a quarter of a minute later."""
        self.sharing.turn()
        self.now_ns += 15 * SECOND
        with suppress(Unavailable):
            self.engine.deliver(self.engine.evaluate(self.now_ns))
        return self

    def alerts(self) -> dict[str, str]:
        return {row["rule"]: row["state"] for row in alert_rows(self.engine, self.now_ns)}

    def messages(self) -> list[tuple[str, str]]:
        return [(each.alerts[0].rule, each.status) for each in self.told]


@pytest.fixture
def peers(place: str, at_once: None, tmp_path: Path) -> Iterator[Callable[..., Peer]]:
    made: list[Peer] = []

    def another(**given: Any) -> Peer:
        made.append(Peer(tmp_path / str(len(made)), place, **given))
        return made[-1]

    yield another
    for each in made:
        each.sharing.close()
        each.store.close()


def test_a_term_is_claimed_once_and_never_held_by_two(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by those who pause longer than they may, as a machine does that sleeps."""
    monkeypatch.setattr(leasing, "RENEW_S", 0.1)
    monkeypatch.setattr(leasing, "HOLDS_S", 0.8)
    monkeypatch.setattr(leasing, "TAKEN_OVER_S", 1.8)
    cluster = Cluster(place)
    leases = [Lease(cluster, f"c{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Lease.turn, leases))
    assert [each.held() for each in leases].count(True) <= 1
    [claimed] = cluster.rows("select term, holder from leases_rows final")
    assert claimed["holder"] == leases[0].holder
    chance, until = random.Random(3), time.monotonic() + 60
    holders: set[str] = set()
    paused = dict.fromkeys(range(4), 0.0)
    while time.monotonic() < until and len(holders) < 2:
        time.sleep(0.1)
        for number, each in enumerate(leases):
            if time.monotonic() > paused[number]:
                each.turn()
            held = [other.me for other in leases if other.held()]
            assert len(held) <= 1, held
            holders.update(held)
            if each.held() and chance.random() < 0.3:
                paused[number] = time.monotonic() + 2.2
    assert len(holders) == 2
    [claims] = cluster.rows("select count() as n, max(term) as last from leases_rows final")
    assert claims["n"] == claims["last"]
    cluster.close()


def test_one_evaluates_and_all_show_what_it_found(peers: Callable[..., Peer]) -> None:
    one, other = peers(rules=RULES), peers()
    one.value = 5
    one.tick()
    other.tick()
    assert (one.sharing.evaluates(), other.sharing.evaluates()) == (True, False)
    assert other.path.read_text() == RULES
    assert one.alerts() == other.tick().alerts() == {"many": "firing"}
    assert (one.messages(), other.messages()) == ([("many", "firing")], [])
    rows = [rule_rows(each.engine)[0] for each in (one, other)]
    assert [(row["value"], row["evaluated"]) for row in rows] == [(5.0, rows[0]["evaluated"])] * 2
    one.tick()
    other.tick()
    assert [each.engine.dispatch.health["team"].success_ns > 0 for each in (one, other)] == [True, True]
    samples = [each.engine.ledger.samples("many", 0, NOW + MINUTE, 10) for each in (one, other)]
    assert samples[0] == samples[1] != []

    silence = Silence("s1", "many", (), "ann", "known", NOW, NOW + 100 * MINUTE)
    other.engine.ledger.add_silence(silence)
    one.sharing.turn()
    assert [each.id for each in one.engine.silences] == ["s1"]
    one.engine.ledger.end_silence("s1", NOW)
    other.sharing.turn()
    assert other.engine.silences == []
    assert one.sharing.state() == {
        "evaluates": Meta(one.store).collector(), "evaluates_here": True, "sharing_problem": "", "silent": [],
    }  # fmt: skip
    assert other.sharing.state()["evaluates"] == Meta(one.store).collector()


def test_whoever_takes_over_goes_on_and_who_comes_back_does_not_disturb(
    peers: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = peers(rules=RULES), peers()
    one.value = other.value = 5
    one.tick()
    other.tick()
    assert one.messages() == [("many", "firing")]
    one.ahead_s = leasing.HOLDS_S  # from now on `one` is silent
    with monkeypatch.context() as later:
        later.setattr(leasing, "TAKEN_OVER_S", -1.0)
        other.tick()
    assert other.sharing.evaluates()
    other.tick()
    assert other.alerts() == {"many": "firing"}
    assert other.messages() == []  # it knows what was sent
    one.value = 0
    one.engine.deliver(one.engine.evaluate(one.now_ns + MINUTE))  # it wakes up, and has not heard of it
    one.tick()
    assert (one.sharing.evaluates(), one.alerts()) == (False, {"many": "firing"})
    other.value = 0
    other.tick()
    other.tick()
    assert one.tick().alerts() == other.alerts() == {}
    assert (one.messages(), other.messages()) == ([("many", "firing")], [("many", "resolved")])
    assert (
        len(
            {(row["fired_ns"], row["resolved_ns"]) for each in (one, other) for row in each.engine.ledger.history(0, 9)}
        )
        == 1
    )


def test_a_message_that_was_not_recorded_is_sent_by_who_takes_over(
    peers: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Better twice than never: the one that evaluated died between sending and saying so."""
    one, other = peers(rules=RULES), peers()
    one.value = other.value = 5
    one.sharing.turn()
    other.tick()
    messages = one.engine.evaluate(one.now_ns)
    one.sharing.close()  # which releases the lease
    monkeypatch.setattr(one.engine, "_may_send", lambda message: True)
    with pytest.raises(RuntimeError):  # its connections are closed, so that nothing is recorded
        one.engine.deliver(messages)
    other.tick()
    assert (one.messages(), other.messages()) == ([("many", "firing")], [("many", "firing")])


def test_while_the_cluster_is_away_rules_pause_and_one_alert_says_so(
    peers: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = peers(rules=RULES), peers()
    one.value = 5
    one.tick()
    other.tick()

    def gone(*_: object, **__: object) -> None:
        raise Unavailable("nobody is there", 1)

    with monkeypatch.context() as away:
        for name in ("rows", "insert", "run"):
            away.setattr(Cluster, name, gone)
        for each in (one, other):
            each.tick()
            each.ahead_s = 45
        assert one.tick().alerts() == {"many": "firing"}  # a moment is nothing to wake anybody for
        for each in (one, other):
            each.ahead_s = 70
            each.tick()
        assert one.tick().alerts() == {"many": "firing", AWAY.name: "firing"}
        assert one.messages()[1:] == [(AWAY.name, "firing")]
        one.cluster.close()
        one.start()  # a restart neither repeats nor resolves it
        for _ in range(3):
            one.tick()
        one.ahead_s += 100
        assert one.tick().alerts() == {"many": "firing", AWAY.name: "firing"}
        assert one.messages()[1:] == [(AWAY.name, "firing")]
        assert (other.alerts(), other.messages()) == ({"many": "firing"}, [])
        silence = Silence("s1", "many", (), "ann", "known", NOW, NOW + 100 * MINUTE)
        with pytest.raises(Unavailable, match="cannot change meanwhile"):
            one.engine.ledger.add_silence(silence)
        assert one.engine.ledger.silences(NOW) == []
        with pytest.raises(Unavailable, match="cannot change meanwhile"):
            one.tokens.create("ci", ["read"])
        with pytest.raises(Unavailable, match="cannot change meanwhile"):
            change(one.book, file_of(one.book).revision, lambda text: text + "# more\n")
        assert (one.path.read_text(), one.tokens.held.tokens) == (RULES, ())
    for _ in range(3):
        one.tick()
        other.tick()
    assert AWAY.name not in one.alerts() | other.alerts()
    assert one.messages()[1:] == [(AWAY.name, "firing"), (AWAY.name, "resolved")]
    assert other.messages() == []
    cluster = Cluster(one.place)
    kept = cluster.rows("select * from shared_rows")
    assert AWAY.name not in str(kept)
    cluster.close()


def test_files_are_one_whoever_changes_them(peers: Callable[..., Peer]) -> None:
    """By the API, by hand on any machine, and on two at once; sealed, and refused with another key."""
    one, other = peers(rules=RULES), peers()
    for each in (one, other, one):
        each.sharing.turn()
    more = RULES + "# by hand\n"
    other.path.write_text(more)
    for each in (other, one):
        each.sharing.turn()
    assert one.path.read_text() == more
    other.path.write_text("rules: [nothing like this]")  # nobody else gets what is wrong
    for each in (other, one):
        each.sharing.turn()
    assert one.path.read_text() == more
    other.path.write_text(more)

    change(one.book, file_of(one.book).revision, lambda text: text + "# by the API\n")
    with pytest.raises(Rejected, match="changed since you read it"):  # here nobody has heard of it yet
        change(other.book, file_of(other.book).revision, lambda text: text + "# the other\n")
    assert other.path.read_text() == one.path.read_text() == more + "# by the API\n"

    one.path.write_text(more + "# one\n")
    other.path.write_text(more + "# other\n")
    for each in (one, other):
        each.sharing.turn()
        each.sharing.turn()
    assert one.path.read_text() == other.path.read_text() == more + "# one\n"
    assert (other.folder / "alerts.yaml.own").read_text() == more + "# other\n"

    _, text = one.tokens.create("ci", ["read"])
    other.tokens.create("more", ["read"])  # takes what it has not heard of with it
    one.sharing.turn()
    one.tokens.read_again()
    assert [token.name for token in one.tokens.held.tokens] == ["ci", "more"]
    TokenFile(one.folder / "m.tokens").revoke("ci")  # by the command, on both machines
    TokenFile(other.folder / "m.tokens").create("third", ["read"])
    for each in (one, other, one):
        each.sharing.turn()
        each.tokens.read_again()
    held = [[(token.name, token.revoked_ns > 0) for token in each.tokens.held.tokens] for each in (one, other)]
    assert held == [[("ci", True), ("more", False), ("third", False)]] * 2

    cluster = Cluster(one.place)
    kept = str(cluster.rows("select * from shared_rows"))
    assert not [word for word in (ADDRESS, text, one.tokens.held.key, "many") if word in kept]
    cluster.close()
    stranger = peers(key="x" * 32)
    stranger.sharing.turn()
    assert "another MISSTEP_HASH_KEY" in stranger.sharing.problem()
    assert not stranger.path.exists()
    assert stranger.sharing.evaluates() is False


def test_what_collectors_had_before_they_joined_is_kept(peers: Callable[..., Peer]) -> None:
    one, other = peers(rules=RULES), peers(rules="rules: []\n")
    first, second = (Silence(name, "many", (), "ann", "known", NOW, NOW + 100 * MINUTE) for name in "ab")
    for each, silence in ((one, first), (other, second)):
        each.store.execute("insert into alert_silences values ($id, 'many', '{}', 'ann', 'known', $low, $high)",
                           {"id": silence.id, "low": NOW, "high": NOW + 100 * MINUTE})  # fmt: skip
    TokenFile(other.folder / "m.tokens").create("before", ["read"])
    one.tokens.create("ci", ["read"])
    for each in (one, other, one):
        each.tick()
    assert [sorted(silence.id for silence in each.engine.silences) for each in (one, other)] == [["a", "b"]] * 2
    assert (other.path.read_text(), (other.folder / "alerts.yaml.own").read_text()) == (RULES, "rules: []\n")
    other.tokens.read_again()
    assert [token.name for token in other.tokens.held.tokens] == ["ci"]  # hashed by a key of its own
    assert [token.name for token in TokenFile(other.folder / "m.tokens.own").held.tokens] == ["before"]


def test_a_collector_that_never_comes_back_is_named_and_forgotten(
    place: str, peers: Callable[..., Peer], tmp_path: Path
) -> None:
    cluster, now = Cluster(place), time.time_ns()
    for name, at_ns in (("alive", now + HOUR), ("dead", now - HOUR)):
        row = {"collector": name, "at_ns": at_ns, "published_ns": at_ns, "pending": 3, "version": at_ns, "gone": 0}
        cluster.insert("collectors_rows", [row | {"pending": 3 * (name == "dead")}], name)
    peer, reads, settings = peers(), ClusterReads(cluster), {"CLUSTER": place, "HASH_KEY": "k" * 32}
    peer.sharing.turn()
    assert (peer.sharing.state()["silent"], reads.complete()) == (["dead"], False)
    said = misstep("cluster", "check", cwd=tmp_path, settings=settings).stdout
    assert "run misstep cluster forget dead" in said
    for name, told in (("alive", "stop it first"), ("other", "there are: alive, dead")):
        refused = misstep("cluster", "forget", name, cwd=tmp_path, settings=settings)
        assert (refused.returncode, told in refused.stderr + refused.stdout) == (1, True)
    said = misstep("cluster", "forget", "dead", cwd=tmp_path, settings=settings).stdout
    assert "3 rows that it had not published are missing" in said
    peer.sharing.turn()
    assert (peer.sharing.state()["silent"], reads.complete()) == ([], True)
    cluster.close()


def test_collectors_count_together_and_share_what_people_add(
    place: str, start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    """Real ones: a rule added at one counts what both have, and says so at both; a token of one is known to both."""
    (tmp_path / "mine.yaml").write_text("rules: []\n")
    given = {"CLUSTER": place, "HASH_KEY": "k" * 32}
    one, other = start_collector(**given, RULES=str(tmp_path / "mine.yaml")), start_collector(**given)
    wait_until(lambda: (other.folder / "alerts.yaml").exists())

    def evaluating() -> list[bool]:
        return [each.get("/api/v1/health")["cluster"]["evaluates_here"] for each in (one, other)]

    wait_until(lambda: sum(evaluating()) == 1)
    holder, follower = (one, other) if evaluating()[0] else (other, one)
    name = holder.get("/api/v1/health")["cluster"]["collector"]
    wait_until(lambda: follower.get("/api/v1/health")["cluster"]["evaluates"] == name)
    for number, each in enumerate((one, other)):
        calls = [
            {"service": "shop", "session": f"s{number}", "tool": "edit", "outcome": "error", "call_id": f"c{number}{n}"}
            for n in range(2)
        ]
        assert each.post("/v1/events", json.dumps(calls)).is_success
    rule = "name: both-fail\nmeasure: errors\nwhere: {service: shop}\ncondition: '> 3'\n"
    asked = HTTP.get(f"{follower.url}/api/v1/receivers")
    headers = {"content-type": "application/yaml", "if-match": asked.headers["etag"]}
    assert HTTP.post(f"{follower.url}/api/v1/rules", content=rule, headers=headers).status_code == 201

    def found() -> str:
        asked = ("alerts", "rules", "health")
        return str([[each.logged()[-2000:], *(each.get(f"/api/v1/{path}") for path in asked)] for each in (one, other)])

    def firing(each: RunningCollector) -> list[str]:
        return [row["rule"] for row in each.get("/api/v1/alerts", state="firing")["rows"]]

    wait_until(lambda: all("both-fail" in firing(each) for each in (one, other)), found)

    def told() -> list[tuple[float, str]]:
        rows = follower.get("/api/v1/rules")["rows"]
        return [(row["value"], row["state"]) for row in rows if row["name"] == "both-fail"]

    wait_until(lambda: told() == [(4.0, "firing")], found)
    wait_until(lambda: 'misstep_alerts_firing{rule="both-fail"' in HTTP.get(f"{holder.url}/metrics").text)
    metrics = [HTTP.get(f"{each.url}/metrics").text for each in (holder, follower)]
    assert [f"misstep_alerts_evaluating {float(n)}" in text for n, text in zip((1, 0), metrics, strict=True)] == [
        True
    ] * 2
    assert ['misstep_alerts_firing{rule="both-fail"' in text for text in metrics] == [True, False]

    made = HTTP.post(f"{follower.url}/api/v1/tokens", json={"name": "ci", "rights": ["admin", "read"]}).json()["token"]
    mine = {"authorization": f"Bearer {made}"}
    wait_until(lambda: HTTP.get(f"{holder.url}/api/v1/tokens", headers=mine).is_success)
    holder.stop()
    wait_until(lambda: HTTP.get(f"{follower.url}/api/v1/health", headers=mine).json()["cluster"]["evaluates_here"])
