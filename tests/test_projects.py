"""Two projects with equal services, traces, calls and request bytes: neither sees or changes anything of the other."""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from nanoarrow import ArrayStream

from collector.access.file import TokenFile
from collector.access.rights import RIGHTS
from collector.cluster.client import Cluster
from collector.cluster.dialect import translated
from collector.cluster.tables import Layout, make
from collector.correlate.changes import Changes
from collector.engine.duckdb.store import Store
from collector.engine.duckdb.stream import write_stream
from collector.projects import only
from collector.query.filters import DIMENSIONS
from dashboard.menu import MENU
from tests.clickhouse import Front
from tests.conftest import HTTP, RunningCollector, wait_until
from tests.doors import logs, spans
from tests.recorded import event
from tests.shown import tables

PROJECTS = ("alpha", "beta")
NOW = time.time_ns() - 60 * 10**9
ARROW = "application/vnd.apache.arrow.stream"
RULES = """rules:
  - {name: failing, measure: errors, by: [project, service], window: 1h, condition: "> 0"}
  - {name: of-beta, measure: errors, where: {project: beta}, window: 1h, condition: "> 0", notify: []}
  - {name: of-all, measure: errors, window: 1h, condition: "> 0"}
"""


def call(number: int, *, failed: bool, said: str = "no such file", tool: str = "read", **more: Any) -> dict[str, Any]:
    """The span of a tool call; `more` are attributes."""
    ended = {"startTimeUnixNano": str(NOW + number * 10**9), "endTimeUnixNano": str(NOW + number * 10**9 + 10**8)}
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": f"call-{number}",
        "gen_ai.conversation.id": "session-1",
        "gen_ai.tool.call.arguments": json.dumps({"path": f"src/{number}.py"}),
        **({"error.type": "FileNotFoundError"} if failed else {}),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    status = {"status": 2, "status_message": said} if failed else {}
    return {"name": f"execute_tool {tool}", "spanId": f"{number + 16:x}", "attributes": attributes, **ended, **status}


EQUAL = spans(*(call(number, failed=number % 3 != 2) for number in range(9)), service="coder")


def own(project: str) -> bytes:
    """Calls of the same session, with texts in every place that only this project has."""
    canary = f"only-{project}"
    return spans(
        *(
            call(20 + number, failed=True, said=f"{canary} cannot be read", tool=f"{canary}-tool",
                 gen_ai__request__model=f"{canary}-model", gen_ai__agent__name=f"{canary}-agent", project=canary,
                 misstep__project="beta")
            for number in range(3 if project == "alpha" else 4)
        ),
        service="coder",
    )  # fmt: skip


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[RunningCollector]:
    """A collector that both have sent to, and somebody without a project too."""
    running = filled(tmp_path_factory.mktemp("projects"), tokens, {})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def tokens_there() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def of_cluster(
    clickhouse: Front, tmp_path_factory: pytest.TempPathFactory, tokens_there: dict[str, str]
) -> Iterator[RunningCollector]:
    """The same with a cluster, which answers."""
    url = clickhouse.database()
    with closing(Cluster(url)) as cluster:
        make(cluster, Layout(), 30 * 86_400)
    running = filled(tmp_path_factory.mktemp("clustered"), tokens_there, {"CLUSTER": url, "HASH_KEY": "k" * 32})
    wait_until(lambda: asked(running, tokens_there["whole"], "/api/v1/breakdown")["exact"])
    yield running
    running.stop()


def filled(folder: Path, tokens: dict[str, str], settings: Mapping[str, str]) -> RunningCollector:
    (folder / "alerts.yaml").write_text(RULES)
    running = RunningCollector(folder, {"ADMIN_TOKENS": "root", "RULES": str(folder / "alerts.yaml"), **settings})
    file = TokenFile(Path(f"{running.store}.tokens"))
    for project in PROJECTS:
        tokens[project] = file.create(project, RIGHTS, project)[1]
    tokens["whole"] = file.create("whole", RIGHTS)[1]
    running.start()
    for project in (*PROJECTS, "whole"):
        for _ in range(2):  # the second adds nothing
            sent(running, tokens[project], "/v1/traces", EQUAL)
        sent(running, tokens[project], "/v1/traces", own(project))
        strange = {"attributes": {"gen_ai.strange": f"only-{project}"}, "body": "x"}
        sent(running, tokens[project], "/v1/logs", logs(strange, service=f"only-{project}-unread", scope="s"))
    asked(running, tokens["whole"], "/api/v1/streaks")
    return running


def sent(running: RunningCollector, token: str, path: str, body: bytes) -> None:
    assert running.post(path, body, {"authorization": f"Bearer {token}"}).status_code == 200


def answer(
    running: RunningCollector, token: str, path: str, method: str = "GET", accept: str = "", **more: Any
) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} | ({"accept": accept} if accept else {}) | more.pop("headers", {})
    return HTTP.request(method, running.url + path, headers=headers, timeout=120, **more)


def asked(running: RunningCollector, token: str, path: str, **params: str) -> Any:
    found = answer(running, token, path, params=params)
    assert found.status_code == 200, f"{path} {params}: {found.text}"
    return found.json()


def test_counts_of_equal_bytes_are_exact_in_both_and_in_all(two: RunningCollector, tokens: Mapping[str, str]) -> None:
    own_events = {"alpha": 9 + 3, "beta": 9 + 4, "whole": 3 * 9 + 3 + 4 + 4}
    ids: dict[str, set[str]] = {}
    for name, count in own_events.items():
        [row] = asked(two, tokens[name], "/api/v1/breakdown")["rows"]
        assert row["calls"] == count
        rows = asked(two, tokens[name], "/api/v1/events")["rows"]
        ids[name] = {each["event_id"] for each in rows}
        assert len(ids[name]) == count
        assert {each["project"] for each in rows} == ({name} if name in PROJECTS else {None, *PROJECTS})
        assert {each["trace_id"] for each in rows} == {"a".rjust(32, "0")}
        [session] = asked(two, tokens[name], "/api/v1/sessions")["rows"][:1]
        assert session["session"] == "session-1"
        runs = {"alpha": [3, 2, 2, 2], "beta": [4, 2, 2, 2], "whole": [4, 4, 3, *[2] * 9]}

        def lengths(token: str = tokens[name]) -> list[int]:
            streaks = asked(two, token, "/api/v1/streaks", kind="error")["rows"]
            return sorted((each["length"] for each in streaks), reverse=True)

        wait_until(lambda: lengths() == runs[name], lambda: f"no streak goes on in another project's: {lengths()}")  # noqa: B023
    assert ids["alpha"].isdisjoint(ids["beta"])
    assert ids["alpha"] | ids["beta"] < ids["whole"]
    health = {name: asked(two, token, "/api/v1/health") for name, token in tokens.items()}
    assert health["alpha"].keys() == health["whole"].keys()
    assert [health[name]["events"] for name in own_events] == [*own_events.values()]
    assert [health[name]["duplicate"] for name in own_events] == [9, 9, 27]
    assert not any(health[name]["unaccounted"] for name in own_events)
    assert health["alpha"]["errors"] is health["alpha"]["refused"] is None, "not told, which is not none"
    by_project = asked(two, tokens["whole"], "/api/v1/breakdown", by="project")["rows"]
    assert {row["project"]: row["calls"] for row in by_project} == {"alpha": 12, "beta": 13, None: 13}
    senders = asked(two, tokens["whole"], "/api/v1/sources")["rows"]
    told = {row["project"]: (row["service"], row["events"]) for row in senders if row["events"]}
    assert told == {"alpha": ("coder", 12), "beta": ("coder", 13), None: ("coder", 13)}
    of_beta = asked(two, tokens["whole"], "/api/v1/breakdown", project="beta", by="tool")["rows"]
    assert {row["tool"]: row["calls"] for row in of_beta} == {"read": 9, "only-beta-tool": 4}
    assert not asked(two, tokens["alpha"], "/api/v1/breakdown", project="beta", by="tool")["rows"]


FILTERS = {each.name for each in DIMENSIONS}

# How each address is asked that takes a body; `{project}` is who asks.
YAML = {"content-type": "application/yaml"}
BODIES: Mapping[str, tuple[Any, Mapping[str, str]]] = {
    "POST /api/v1/sql": ({"sql": "select * from events"}, {}),
    "POST /api/v1/rules/check": (RULES, YAML),
    "POST /api/v1/rules/backtest": (RULES.replace("beta", "{project}"), YAML),
    "POST /api/v1/rules/suggest": (RULES.replace("beta", "{project}"), YAML),
    "POST /api/v1/marks": ({"text": "only-{project} deploy"}, {}),
    "POST /api/v1/views": ({"name": "only-{project} view", "page": "errors", "query": "tool=only-{project}"}, {}),
    "POST /api/v1/silences": ({"rule": "failing", "duration": "1h", "author": "only-{project}", "reason": "r"}, {}),
    "POST /api/v1/tokens": ({"name": "only-{project}-token", "rights": ["read"]}, {}),
    "PATCH /api/v1/lessons/{id}": ({"state": "dismissed"}, {}),
    "PATCH /api/v1/groups/{fingerprint}": ({"note": "only-{project} note"}, {}),
}
# Of all projects: a token of one is refused, whatever its rights.
WHOLE = {
    *(f"{verb} /api/v1/{path}" for verb in ("GET", "POST") for path in ("backup", "forget", "sanitise")),
    "GET /api/v1/backup/file", "GET /api/v1/receivers", "POST /api/v1/receivers", "DELETE /api/v1/receivers/{name}",
    "POST /api/v1/receivers/{name}/test", "POST /api/v1/rules", "GET /api/v1/rules/{name}", "PUT /api/v1/rules/{name}",
    "DELETE /api/v1/rules/{name}",
}  # fmt: skip
# Removing needs the id of something that is one's own: tested below.
REMOVING = {
    "DELETE /api/v1/marks/{mark_id}",
    "DELETE /api/v1/silences/{id}",
    "DELETE /api/v1/views/{view_id}",
    "DELETE /api/v1/tokens/{name}",
}
# Without words of any store, or not of reading.
OTHERS = {"GET /healthz", "GET /readyz", "GET /metrics", "POST /v1/events", "GET /api/v1/classes"}


def operations(running: RunningCollector) -> dict[str, Mapping[str, Any]]:
    paths = HTTP.get(running.url + "/openapi.json").json()["paths"]
    return {f"{verb.upper()} {path}": described for path, verbs in paths.items() for verb, described in verbs.items()}


def test_nothing_of_another_project_is_in_any_answer(two: RunningCollector, tokens: Mapping[str, str]) -> None:
    """Every address that is described, in both forms, with each parameter of its own and some that all take; a new one
    that takes a body, or is of all projects, is to be listed above.
    """
    assert swept(two, tokens, operations(two)) > 200


def test_nor_in_some_answers_of_a_cluster(of_cluster: RunningCollector, tokens_there: Mapping[str, str]) -> None:
    described = operations(of_cluster)
    some = [*list(described)[:: len(described) // 6], *(name for name in described if not name.startswith("GET "))]
    assert swept(of_cluster, tokens_there, {name: described[name] for name in some}) > 20


@pytest.mark.deep
@pytest.mark.timeout(3_000)
def test_nor_in_any_of_a_cluster(of_cluster: RunningCollector, tokens_there: Mapping[str, str]) -> None:
    """And what else these tests say of projects holds there."""
    assert swept(of_cluster, tokens_there, operations(of_cluster)) > 200
    test_counts_of_equal_bytes_are_exact_in_both_and_in_all(of_cluster, tokens_there)
    test_what_is_of_all_projects_is_refused(of_cluster, tokens_there)
    test_what_people_add_is_of_their_project(of_cluster, tokens_there)
    test_alerts_are_of_the_project_that_their_rule_names(of_cluster, tokens_there)
    test_an_answer_that_one_project_has_is_not_taken_for_anothers(of_cluster, tokens_there)
    test_nothing_that_a_reader_sends_leads_out_of_the_project(of_cluster, tokens_there)


def swept(two: RunningCollector, tokens: Mapping[str, str], described: Mapping[str, Mapping[str, Any]]) -> int:
    """Asks these addresses as each project, and looks for words of others; how many answers there were."""
    for operation in ("POST /api/v1/marks", "POST /api/v1/views"):  # so that there is something to find
        for project in (*PROJECTS, "whole"):
            assert changed(two, tokens[project], operation, project).status_code == 201
    ids = {name: asked(two, tokens[name], "/api/v1/events")["rows"] for name in PROJECTS}
    others: dict[str, list[str]] = {
        name: [each["event_id"] for each in ids[other]] + [f"only-{other}", "only-whole"]
        for name, other in zip(PROJECTS, reversed(PROJECTS), strict=True)
    }
    asks = 0
    for operation, about in described.items():
        verb, path = operation.split()
        if operation in {*WHOLE, *REMOVING, *OTHERS}:
            continue
        for project in PROJECTS:
            newest = next(each for each in ids[project] if each["fingerprint"])
            place = path.format(
                dimension="tool", event_id=newest["event_id"], fingerprint=newest["fingerprint"], session="session-1",
                name="failing", id="none",
            )  # fmt: skip
            told = answers(two, tokens[project], operation, verb, place, about, project)
            found = [each.content for each in told if each.status_code != 400]  # which repeats what was asked
            for content in found:
                for word in others[project]:
                    assert word.encode() not in content, f"{operation} tells {project}: {content[:2000]!r}"
            asks += len(found)
    return asks


def answers(
    two: RunningCollector, token: str, operation: str, verb: str, place: str, about: Mapping[str, Any], project: str
) -> Iterator[httpx.Response]:
    """The answers to an address: plain, as Arrow, and with each of its parameters."""
    if verb != "GET":
        found = changed(two, token, operation, project, place)
        assert found.status_code < 300 or found.status_code == 404, f"{operation}: {found.text}"
        yield found
        return
    needed = {each["name"]: each.get("example", "x") for each in about.get("parameters", ()) if each.get("required")}
    plain = {name: str(word) for name, word in needed.items() if f"{{{name}}}" not in operation}
    for accept in ("", ARROW):
        yield answer(two, token, place, accept=accept, params=plain)
    if project != "alpha":  # once is enough
        return
    taken = {each["name"]: each for each in about.get("parameters", ()) if each["in"] == "query"}
    shared = [name for name in taken if name in FILTERS]
    params = {name: str(each.get("example", "")) for name, each in taken.items() if name not in FILTERS}
    if shared:  # of the filters that all take, another one each
        params |= {"project": "beta,", shared[zlib.crc32(operation.encode()) % len(shared)]: "!nothing"}
    for name, word in params.items():
        if word:
            yield answer(two, token, place, params=plain | {name: word})


def changed(two: RunningCollector, token: str, operation: str, project: str, place: str = "") -> httpx.Response:
    verb, path = operation.split()
    body, headers = BODIES[operation]
    text = (body if isinstance(body, str) else json.dumps(body)).replace("{project}", project)
    kind = {"content-type": "application/json"} | dict(headers)
    return answer(two, token, place or path, verb, content=text, headers=kind)


def test_what_is_of_all_projects_is_refused(two: RunningCollector, tokens: Mapping[str, str]) -> None:
    described = operations(two)
    for operation in WHOLE:
        assert operation in described
        verb, path = operation.split()
        kind = {"content-type": "application/json", "if-match": "x"}
        found = answer(two, tokens["alpha"], path.format(name="failing"), verb, headers=kind, content="{}")
        assert found.status_code == 403, f"{operation}: {found.text}"


def test_what_people_add_is_of_their_project(two: RunningCollector, tokens: Mapping[str, str]) -> None:
    """Equal marks, views and silences are one each; another's can be neither seen nor removed, nor can its groups be
    marked.
    """
    wait_until(lambda: asked(two, tokens["alpha"], "/api/v1/rules")["rows"][0]["calls"])
    ids: dict[str, list[str]] = {}
    for project in PROJECTS:
        said = {"duration": "1h", "author": "ann", "reason": "known", "rule": "failing"}
        made = [("marks", "mark_id", {"text": "deploy", "time": "2026-11-01T00:00:00Z"}),
                ("views", "view_id", {"name": "v", "page": "errors"}), ("silences", "id", said)]  # fmt: skip
        ids[project] = []
        for path, key, body in made:
            found = answer(two, tokens[project], f"/api/v1/{path}", "POST", json=body)
            assert found.status_code == 201, found.text
            ids[project].append(f"/api/v1/{path}/{found.json()[key]}")
        newest = next(each for each in asked(two, tokens[project], "/api/v1/events")["rows"] if each["fingerprint"])
        ids[project].append(f"/api/v1/groups/{newest['fingerprint']}")
    assert set(ids["alpha"]).isdisjoint(ids["beta"])
    for place in ids["alpha"][:3]:
        assert answer(two, tokens["beta"], place, "DELETE").status_code == 404
        assert answer(two, tokens["alpha"], place, "DELETE").status_code == 204
    for place in ids["beta"][:3]:
        assert answer(two, tokens["beta"], place, "DELETE").status_code == 204
    group = ids["alpha"][3]
    assert answer(two, tokens["beta"], group, "PATCH", json={"state": "resolved"}).status_code == 404
    assert answer(two, tokens["beta"], group).status_code == 404
    assert answer(two, tokens["alpha"], group, "PATCH", json={"state": "resolved"}).json()["state"] == "resolved"


def test_alerts_are_of_the_project_that_their_rule_names(two: RunningCollector, tokens: Mapping[str, str]) -> None:
    wait_until(lambda: asked(two, tokens["beta"], "/api/v1/rules")["rows"][0]["calls"])
    rules = {"alpha": ["failing"], "beta": ["failing", "of-beta"], "whole": ["failing", "of-beta", "of-all"]}
    values = {"alpha": 6 + 3, "beta": 6 + 4}
    for name, seen in rules.items():
        assert [each["name"] for each in asked(two, tokens[name], "/api/v1/rules")["rows"]] == seen
        alerts = asked(two, tokens[name], "/api/v1/alerts", history="true")
        if name in values:
            assert {each["value"] for each in alerts["rows"]} == {values[name]}
            assert {each["labels"]["project"] for each in (*alerts["rows"], *alerts["history"])} == {name}
            points = asked(two, tokens[name], "/api/v1/rules/failing/samples")["rows"]
            assert {each["labels"]["project"] for each in points} == {name}


def test_an_answer_that_one_project_has_is_not_taken_for_anothers(
    two: RunningCollector, tokens: Mapping[str, str]
) -> None:
    params = {"from": "2026-01-01", "to": "2026-01-02"}
    tags = {
        name: answer(two, token, "/api/v1/breakdown", params=params).headers["etag"] for name, token in tokens.items()
    }
    assert len(set(tags.values())) == len(tokens)

    def repeated() -> bool:  # unless something was written meanwhile
        tag = answer(two, tokens["beta"], "/api/v1/breakdown", params=params).headers["etag"]
        again = {"if-none-match": tag}
        assert answer(two, tokens["alpha"], "/api/v1/breakdown", params=params, headers=again).status_code == 200
        return answer(two, tokens["beta"], "/api/v1/breakdown", params=params, headers=again).status_code == 304

    wait_until(repeated)


def test_nothing_that_a_reader_sends_leads_out_of_the_project(two: RunningCollector, tokens: Mapping[str, str]) -> None:
    """Neither an attribute nor a filter leads out of one's own, nor a header of another's."""
    for dimension in DIMENSIONS:
        rows = asked(two, tokens["alpha"], "/api/v1/breakdown", by=dimension.name, limit="1000")["rows"]
        assert sum(row["calls"] for row in rows) == 12, dimension.name
    for name, word in (("x-misstep-project", "beta"), ("x-misstep-rights", "maintain")):
        found = answer(two, tokens["alpha"], "/api/v1/breakdown", headers={name: word})
        assert (found.status_code, "only-beta" in found.text) == (403, False)


def test_what_stands_where_an_arrow_value_is_null_is_nothing() -> None:
    """The engine leaves there what was in memory before, which may be of anybody."""
    cursor = duckdb.connect()
    cursor.execute(
        """create table t as
        select range as i, 'only-beta cannot be read, number ' || range as text, null::bigint as nothing,
          case when range % 3 = 0 then range end as part, range % 2 = 0 or null as flag, [null, range] as listed,
          case when range > 2 then {'x': null::double} end as struct from range(5000)"""
    )
    for rows in range(5, 45):
        cursor.execute("select string_agg(text), any_value(text || 'only-beta') from t").fetchall()
        out = io.BytesIO()
        asked = f"select i, nothing, part, flag, listed, struct from t limit {rows}"
        write_stream(cursor.query(asked), out)
        assert b"only" not in out.getvalue()
        with ArrayStream.from_readable(io.BytesIO(out.getvalue())) as stream:
            read = stream.read_all()
        assert [tuple(row.values()) for row in read.to_pylist()] == cursor.execute(asked).fetchall()


def test_pages_with_a_token_of_one_project(
    two: RunningCollector, tokens: Mapping[str, str], open_app: Callable[..., Any]
) -> None:
    """Every page is complete and tells nothing of the other; what is not told to one project is not shown as none."""
    failed = next(each for each in asked(two, tokens["alpha"], "/api/v1/events")["rows"] if each["fingerprint"])
    links = {"group": {"fingerprint": failed["fingerprint"]}, "session": {"session": "session-1"}}
    for page in (*(name for pages in MENU.values() for name, _ in pages), *links):
        app = open_app(two.url, page, token=tokens["alpha"], **links.get(page, {}))
        assert not app.exception, page
        captions = [each.value for each in app.caption]
        assert not [said for said in captions if "failed (id" in said], page
        shown = str([app.main, app.sidebar]) + str([table.data for table in tables(app)])
        assert "beta" not in shown, page
        assert "sent to nobody" not in shown, page
        if page == "health":
            assert any("counted over all projects" in said for said in captions)
            assert "Errors of the collector itself" not in shown
    told = "All projects share rules and receivers: they are changed by who may see all of them."
    for page, state in (
        ("group", {"fingerprint": failed["fingerprint"], "alert": "me"}),
        ("alerts", {"rule": "failing"}),
    ):
        for whose in ("alpha", "whole"):
            app = open_app(two.url, page, token=tokens[whose], **state)
            captions = [each.value for each in app.caption]
            assert (told in captions) == (whose == "alpha"), (page, whose)
            assert not [said for said in captions if "failed (id" in said], (page, whose)
            changes = {each.label for each in app.button} & {"Alert me", "Save the rule", "Save", "Remove it"}
            assert bool(changes - {"Save"}) == (whose == "whole"), (page, whose)
    for whose in ("alpha", "whole"):
        app = open_app(two.url, "errors", token=tokens[whose])
        app.session_state["open-more"] = True
        [by] = [each for each in app.run().selectbox if each.label == "Filter by"]
        assert ("project" in by.options) == (whose == "whole"), "one project is no choice"
    app = open_app(two.url, "group", token=tokens["whole"], fingerprint=failed["fingerprint"])
    [sessions] = [table for table in tables(app) if "strip" in table.columns]
    assert len(sessions.rows) == 1, "another project's session of this name is not one of the group's"
    app = open_app(two.url, "sessions", token=tokens["whole"])
    places = [place for table in tables(app) for place in table.links]
    assert {project: any(f"project={project}" in place for place in places) for project in PROJECTS} == dict.fromkeys(
        PROJECTS, True
    ), "sessions of one name are told apart"


def test_views_of_projects_that_nobody_asks_for_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header can name any project, also one that there never was."""
    monkeypatch.setattr("collector.engine.duckdb.only.MOST", 3)

    def names() -> set[str]:
        asked = "select database_name as n from duckdb_databases() where starts_with(database_name, 'only_')"
        with only(None):
            return {bytes.fromhex(row["n"].removeprefix("only_")).decode() for row in store.rows(asked)}

    store.write(Changes(1, events=[event(1, event_id=n, project=f"p{n}") for n in range(9)]))
    with only("p0"), store._cursor(30) as kept:
        for number in range(1, 9):
            with only(f"p{number}"):
                assert store.rows("select project from events") == [{"project": f"p{number}"}]
        assert names() == {"p0", "p6", "p7", "p8"}
        assert kept.execute("select project from events").fetchall() == [("p0",)], "it is in use"
    with only("p5"):
        assert store.rows("select project from events") == [{"project": "p5"}]
    assert names() == {"p5", "p6", "p7", "p8"}, "the longest unused went"


def test_a_statement_of_one_project_reads_nothing_else_of_a_cluster() -> None:
    asked = "with page as (from events select event_id) select * from page join kept_chains as k using (event_id), meta"
    told = translated(asked, (), "al'pha").sql
    assert "(SELECT * FROM events WHERE project = 'al''pha') AS events" in told
    assert "(SELECT * FROM kept_chains WHERE project = 'al''pha') AS k" in told
    assert "(SELECT * FROM meta WHERE FALSE) AS meta" in told
    assert "FROM page JOIN" in told
