"""What agents keep on disk: each call of the samples once, with session, outcome and class; what is never sent."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collector import zstd
from collector.recognise.examples import wrong_examples
from collector.report import Report
from collector.times import MILLISECOND
from collector.transcripts.find import find, find_in
from collector.transcripts.positions import Positions
from collector.transcripts.read import Count, Readings
from collector.transcripts.repository import repository_of, tidy
from collector.transcripts.tables import load_agents
from tests.doors import pipeline

SAMPLES = Path(__file__).parent / "data" / "transcripts"
AGENTS = load_agents()
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
NOW = 1_795_000_000_000_000_000


def read(home: Path, agent: str, positions: Positions | None = None) -> tuple[list[dict[str, Any]], Count]:
    """What is sent of one agent's files below a folder."""
    readings = Readings(find_in([AGENTS[agent]], home), positions or Positions(None))
    return [one for found in readings.changed() for one in readings.calls(found)], readings.counts[agent]


def received(sent: list[dict[str, Any]]) -> list[Report]:
    """What a collector makes of it."""
    body = b"\n".join(json.dumps(one).encode() for one in sent)
    batch = pipeline().process(body, "application/x-ndjson", "events", NOW)
    assert not batch.dropped
    return batch.reports


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_examples_of_tables(agent: str) -> None:
    assert not list(wrong_examples(AGENTS[agent].source))


@pytest.mark.parametrize("agent", NAMES)
def test_samples(agent: str) -> None:
    sent, count = read(SAMPLES / agent, agent)
    wanted = json.loads((SAMPLES / agent / "expected.json").read_text())
    reports = received(sent)
    assert "canary" not in repr(reports)
    got = [
        (one.get("session"), one.get("call_id"), one.get("tool"), one["outcome"], one.get("error_class"))
        for one in reports
        if one["operation"] == "tool"
    ]
    assert sorted(got, key=str) == sorted((tuple(one.values()) for one in wanted), key=str)
    assert count.calls == len(wanted)
    assert not count.told.unreadable
    assert not count.told.unknown


def test_a_request_has_the_last_of_its_counts() -> None:
    sent, _ = read(SAMPLES / "claude-code", "claude-code")
    [request] = [one for one in sent if one.get("call_id") == "req_01A"]
    assert (request["input_tokens"], request["output_tokens"]) == (210, 48)
    assert sum(one["operation"] == "model" and one["outcome"] == "error" for one in sent) == 3


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def claude(kind: str, content: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "type": kind, "uuid": f"u{second}", "sessionId": "S", "timestamp": f"2026-10-03T08:15:{second:02d}.000Z",
        "cwd": "/home/dev/parcel", "version": "2.1.332", "message": {"role": kind, "content": content}, **more,
    }  # fmt: skip


def use(name: str, tool: str = "Bash", second: int = 0, **params: Any) -> dict[str, Any]:
    return claude("assistant", [{"type": "tool_use", "id": name, "name": tool, "input": params}], second)


def answer(name: str, text: str, second: int = 1, **more: Any) -> dict[str, Any]:
    return claude("user", [{"type": "tool_result", "tool_use_id": name, "content": text, **more}], second)


def test_what_files_prompts_and_outputs_say_is_not_sent(tmp_path: Path) -> None:
    canary = "canary-" + "7f3a"
    here = f"cat > a.py <<'EOF'\n{canary}\nEOF\npython a.py"
    path = lines(
        tmp_path / ".claude/projects/p/S.jsonl",
        claude("user", f"say {canary}"),
        use("toolu_1", "Write", file_path="a.py", content=canary),
        answer("toolu_1", f"<tool_use_error>File has not been read yet.</tool_use_error>\n{canary}", is_error=True),
        use("toolu_2", "Edit", 2, file_path="a.py", old_string=canary, new_string=canary),
        answer("toolu_2", f"String to replace not found in file.\nString: {canary}", 3, is_error=True),
        use("toolu_3", command=here, second=4),
        answer("toolu_3", canary, 5),
        use("toolu_4", "MultiEdit", 6, edits=[{"old_string": canary}]),
    )
    sent, _ = read(path, "claude-code")
    assert len(sent) == 4
    assert [one["call_id"] for one in sent if canary in json.dumps({k: v for k, v in one.items() if k != "text"})] == []
    assert sent[2]["params"]["command"].endswith("\nEOF\npython a.py")
    assert sent[3]["outcome"] == "unknown"  # it has no result yet


@pytest.mark.parametrize(
    ("command", "output", "outcome"),
    [
        ("grep -n rate a.txt", "Exit code 1", "ok"),
        ("cd src && rg TODO", "Exit code 1", "ok"),
        ("diff a b", "Exit code 1\n1c1\n< a\n> b", "ok"),
        ("test -f a", "Exit code 1", "ok"),
        ("grep rate nothing.txt", "Exit code 2\ngrep: nothing.txt: No such file or directory", "error"),
        ("grep rate nothing.txt", "Exit code 1\ngrep: nothing.txt: No such file or directory", "error"),
        ("make | grep -c x", "Exit code 1", "ok"),
        ("grep x a && make", "Exit code 1", "error"),
        ("make test", "Exit code 1", "error"),
    ],
)
def test_nothing_found_is_no_failure(tmp_path: Path, command: str, output: str, outcome: str) -> None:
    path = lines(tmp_path / "S.jsonl", use("toolu_1", command=command), answer("toolu_1", output, is_error=True))
    sent, _ = read(path, "claude-code")
    assert [one["outcome"] for one in sent] == [outcome]


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = lines(tmp_path / ".claude/projects/p/S.jsonl", use("toolu_1", command="ls"), answer("toolu_1", "a"))
    path.write_text(path.read_text() + json.dumps(use("toolu_2", command="make", second=2))[:40])  # half a line
    kept = tmp_path / "imported.json"
    positions = Positions(kept)
    assert [one["call_id"] for one in read(tmp_path, "claude-code", positions)[0]] == ["toolu_1"]
    positions.keep()
    lines(path, use("toolu_1", command="ls"), answer("toolu_1", "a"), use("toolu_2", command="make", second=2))
    positions = Positions(kept)
    assert [one["call_id"] for one in read(tmp_path, "claude-code", positions)[0]] == ["toolu_2"]
    positions.keep()
    with path.open("a") as file:
        file.write(json.dumps(answer("toolu_2", "Exit code 2\nno rule", 3, is_error=True)) + "\n")
    positions = Positions(kept)
    [done] = read(tmp_path, "claude-code", positions)[0]
    assert (done["call_id"], done["outcome"]) == ("toolu_2", "error")
    positions.keep()
    assert read(tmp_path, "claude-code", Positions(kept))[1].unchanged == 1


def test_a_call_whose_result_stands_elsewhere_has_its_outcome(tmp_path: Path) -> None:
    """A session that was ended during a call, and resumed in a file of its own; a message that was written again."""
    begun = [use("toolu_1", command="ls"), answer("toolu_1", "a"), use("toolu_2", command="make", second=2)]
    resumed = [
        {**one, "sessionId": "T"} for one in (*begun, answer("toolu_2", "Exit code 2\nno rule", 9, is_error=True))
    ]
    lines(tmp_path / "claude/projects/p/S.jsonl", *begun)
    lines(tmp_path / "claude/projects/p/T.jsonl", *resumed)
    sent, count = read(tmp_path / "claude", "claude-code")
    reports = [(one["call_id"], one["outcome"]) for one in received(sent)]
    assert reports == [("toolu_1", "ok"), ("toolu_2", "unknown"), ("toolu_2", "error")]
    assert (count.calls, count.repeated, count.outcomes["unknown"]) == (2, 1, 0)
    call = {"id": "glob__call_1", "name": "glob", "args": {}, "status": "executing"}
    done = {**call, "status": "success", "result": [{"functionResponse": {"response": {"output": "a"}}}]}
    messages = [{"type": "gemini", "id": "m", "timestamp": f"2026-10-03T08:15:0{n}Z", "toolCalls": [one]}
                for n, one in enumerate((call, done, done))]  # fmt: skip
    lines(tmp_path / "gemini/tmp/p/chats/session-1.jsonl", {"sessionId": "S", "kind": "main"}, *messages)
    assert [one["outcome"] for one in read(tmp_path / "gemini", "gemini-cli")[0]] == ["ok"]


def test_broken_lines_and_unknown_kinds_are_counted(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "S.jsonl", use("toolu_1", command="ls"), answer("toolu_1", "a"), {"type": "novelty"}, {"type": "tag"}
    )
    path.write_bytes(path.read_bytes() + b"\0\0\0{broken\n[1]\n" + json.dumps(use("toolu_2")).encode() + b"\0\0")
    sent, count = read(path, "claude-code")
    assert [one["call_id"] for one in sent] == ["toolu_1", "toolu_2"]
    assert count.told.unreadable == 2
    assert count.told.broken == {"2.1.332": 2}
    assert count.told.unknown == {("2.1.332", "novelty"): 1}


def stores() -> Iterator[tuple[str, dict[str, str], str]]:
    yield "claude-code", {}, ".claude/projects/p/a.jsonl"
    yield "claude-code", {"CLAUDE_CONFIG_DIR": "{home}/one, {home}/two"}, "two/projects/p/a/subagents/b.jsonl"
    yield "claude-code", {"XDG_CONFIG_HOME": "{home}/conf"}, "conf/claude/projects/p/a.jsonl"
    yield "codex", {}, ".codex/sessions/2026/10/03/rollout-1.jsonl"
    yield "codex", {"CODEX_HOME": "{home}/c"}, "c/archived_sessions/rollout-1.jsonl.zst"


@pytest.mark.parametrize(("agent", "environ", "file"), list(stores()))
def test_stores_are_found_where_agents_put_them(tmp_path: Path, agent: str, environ: dict[str, str], file: str) -> None:
    path = lines(tmp_path / file, {})
    moved = {name: value.format(home=tmp_path) for name, value in environ.items()}
    assert [one.path for one in find([AGENTS[agent]], moved, tmp_path)] == [path]


def test_a_database_that_its_agent_writes_to_is_read_on(tmp_path: Path) -> None:
    """New rows stand in the log beside it, and the file itself is as it was; it is neither written nor locked."""
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    shutil.copy(SAMPLES / "opencode/opencode.db", path)
    positions = Positions(None)
    with closing(sqlite3.connect(path)) as agent:
        agent.execute("pragma journal_mode = wal")
        before = len(read(tmp_path, "opencode", positions)[0])
        assert read(tmp_path, "opencode", positions)[1].unchanged == 1
        unchanged = path.read_bytes()
        agent.execute("update part set data = replace(data, 'call_o1', 'call_new') where data like '%call_o1%'")
        agent.commit()
        assert path.read_bytes() == unchanged
        sent, _ = read(tmp_path, "opencode", positions)
        assert len(sent) == before
        assert "call_new" in [one.get("call_id") for one in sent]
        agent.execute("delete from part where data like '%call_new%'")  # nothing holds it
        agent.commit()


@pytest.mark.parametrize(
    "listed", ['{"projects": 7}', "{broken", '[["projects"]]', '{"projects": [{"data_dir": "here"}, 3]}']
)
def test_the_projects_of_crush_are_found_by_its_own_list(tmp_path: Path, listed: str) -> None:
    shutil.copytree(SAMPLES / "crush", tmp_path / "work/parcel/.crush")
    names = tmp_path / ".local/share/crush/projects.json"
    names.parent.mkdir(parents=True)
    folders = [{"path": "/gone", "data_dir": "/gone/.crush"}, {"data_dir": str(tmp_path / "work/parcel/.crush")}]
    names.write_text(json.dumps({"projects": folders}))
    [found] = find([AGENTS["crush"]], {}, tmp_path)
    sent = list(Readings([found], Positions(None)).calls(found))
    assert {one["repository"] for one in sent} == {tidy(str(tmp_path / "work/parcel"))}
    names.write_text(listed)
    assert find([AGENTS["crush"]], {}, tmp_path) == []


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/home/dev/parcel", "~/parcel"),
        ("/Users/dev/parcel", "~/parcel"),
        ("C:\\Users\\dev\\parcel", "~/parcel"),
        ("c:/Users/dev/parcel", "~/parcel"),
        ("\\\\wsl$\\Ubuntu\\home\\dev\\parcel", "~/parcel"),
        ("/srv/parcel/", "/srv/parcel"),
        ("D:\\work\\parcel", "d:/work/parcel"),
    ],
)
def test_a_project_is_written_in_one_way(path: str, wanted: str) -> None:
    assert tidy(path) == wanted


def test_a_worktree_is_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / "main/.git/worktrees/w").mkdir(parents=True)
    (tmp_path / "w/src").mkdir(parents=True)
    (tmp_path / "w/.git").write_text(f"gitdir: {tmp_path}/main/.git/worktrees/w\n")
    assert repository_of(str(tmp_path / "w/src")) == tidy(str(tmp_path / "main"))


@pytest.mark.parametrize(
    ("agent", "file", "beside", "holds"),
    [
        ("gemini-cli", "tmp/p/chats/session-2026-10-03T10-00-0f3a9b1c.jsonl", "tmp/p/.project_root", "/home/dev/x\n"),
        ("gemini-cli", "tmp/p/chats/0f3a/agent-77aa.jsonl", "tmp/p/.project_root", "/home/dev/x"),
        ("roo-code", "tasks/t1/api_conversation_history.json", "tasks/t1/history_item.json",
         '{"task": "canary", "workspace": "/home/dev/x"}'),
        ("roo-code", "tasks/t1/api_conversation_history.json", "tasks/t1/history_item.json", "{broken"),
    ],
)  # fmt: skip
def test_a_file_beside_tells_the_repository(tmp_path: Path, agent: str, file: str, beside: str, holds: str) -> None:
    for name, text in ((file, (SAMPLES / agent).rglob("*")), (beside, None)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        source = next(
            (one for one in text or () if one.name.startswith(Path(file).name[:3]) and one.suffix == Path(file).suffix),
            None,
        )
        (tmp_path / name).write_text(source.read_text() if source else holds)
    sent, _ = read(tmp_path / file, agent)
    assert {one.get("repository") for one in sent} == {None if "broken" in holds else "~/x"}
    assert "canary" not in json.dumps(sent)


def test_a_call_without_a_plausible_time_was_before_its_file_changed_last(tmp_path: Path) -> None:
    records = [{**use(f"toolu_{place}"), "timestamp": when} for place, when in enumerate(("2099-01-01T00:00:00Z", ""))]
    path = lines(tmp_path / "S.jsonl", *records)
    sent, _ = read(path, "claude-code")
    assert [(one["time"], one["more"]["time.exact"]) for one in sent] == [
        (path.stat().st_mtime_ns + place * MILLISECOND, False) for place in range(2)
    ]


@pytest.mark.parametrize(
    "broken", [b"", b"no database", b"\xff" * 5000, b'{"a":' * 5000, b"SQLite format 3\0" + b"\0" * 84]
)
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_a_broken_file_costs_no_other(tmp_path: Path, agent: str, broken: bytes) -> None:
    for store in AGENTS[agent].stores:
        path = tmp_path / store.files[0].replace("**", "a").replace("*", "x")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(broken)
    readings = Readings(find_in([AGENTS[agent]], tmp_path), Positions(None))
    assert [one for found in readings.changed() for one in readings.calls(found)] == []


@pytest.mark.parametrize("agent", NAMES)
def test_what_editors_and_crashes_add_around_a_text_changes_nothing(tmp_path: Path, agent: str) -> None:
    """A mark of the byte order in front, ends of lines as on Windows, and bytes that are 0 behind."""
    folder = tmp_path / agent
    shutil.copytree(SAMPLES / agent, folder)
    wanted = [(one["outcome"], one.get("call_id")) for one in read(folder, agent)[0]]
    for path in folder.rglob("*"):
        if path.suffix in (".jsonl", ".json", ".traj", ".md") and path.name != "expected.json":
            text = path.read_bytes().replace(b"\n", b"\r\n")
            path.write_bytes(b"\xef\xbb\xbf" + text + b"\0" * 500)
    sent, count = read(folder, agent)
    assert sorted(((one["outcome"], one.get("call_id")) for one in sent), key=str) == sorted(wanted, key=str)
    assert not count.told.unreadable


MARKED = "- Use `uv run pytest`. <!-- misstep:lesson 7f3a92c1 -->"


def loaded(agent: str, *records: dict[str, Any], folder: Path) -> list[Any]:
    sent, _ = read(lines(folder / ("rollout-S.jsonl" if agent == "codex" else "S.jsonl"), *records), agent)
    return [one["more"].get("lessons.loaded") for one in sent]


def test_which_lessons_were_among_the_instructions_is_kept_and_nothing_else_of_them(tmp_path: Path) -> None:
    def attachment(**what: Any) -> dict[str, Any]:
        return {"type": "attachment", "sessionId": "S", "attachment": what}

    call = [use("toolu_1", command="ls"), answer("toolu_1", "a")]
    whole = attachment(type="instructions", files=[{"path": "/w/CLAUDE.md", "content": f"# Rules\n{MARKED}\n"}])
    nested = attachment(
        type="nested_memory", path="/w/web/CLAUDE.md", content={"content": "- x <!-- misstep:lesson 00c0ffee -->"}
    )
    bare = attachment(type="instructions", files=[{"path": "/w/CLAUDE.md", "content": "canary"}])
    assert loaded("claude-code", whole, *call, folder=tmp_path) == ["7f3a92c1"]
    assert loaded("claude-code", whole, nested, *call, folder=tmp_path) == ["00c0ffee 7f3a92c1"]
    assert loaded("claude-code", bare, *call, folder=tmp_path) == [""]
    assert loaded("claude-code", *call, folder=tmp_path) == [None]
    sent, _ = read(lines(tmp_path / "S.jsonl", bare, *call), "claude-code")
    assert "canary" not in json.dumps(sent)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "world_state", "payload": {"state": {"agents_md": {"directory": "/w", "text": MARKED}}}},
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"text": f"# AGENTS.md instructions for /w\n{MARKED}"}],
            },
        },
    ],
)
def test_codex_tells_its_instructions_in_two_places(tmp_path: Path, record: dict[str, Any]) -> None:
    call = {
        "type": "response_item",
        "payload": {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": "{}"},
    }
    done = {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c1", "output": "fine"}}
    assert loaded("codex", record, call, done, folder=tmp_path) == ["7f3a92c1"]
    said = {
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"text": f"see {MARKED}"}]},
    }
    assert loaded("codex", said, call, done, folder=tmp_path) == [None]


def archived(path: Path, compression: int, members: dict[str, bytes]) -> Path:
    """A zip archive; with compression 93, one whose members are compressed with zstd, as Python 3.14 writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if compression != 93:
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path
    heads, body = b"", b""
    for name, content in members.items():
        packed = zstd.compress(content)
        sizes = struct.pack("<HHHHIII", 0, 93, 0, 0, zlib.crc32(content), len(packed), len(content))
        heads += (
            b"PK\x01\x02"
            + struct.pack("<HH", 63, 63)
            + sizes
            + struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, len(body))
        )
        heads += name.encode()
        body += (
            b"PK\x03\x04" + struct.pack("<H", 63) + sizes + struct.pack("<HH", len(name), 0) + name.encode() + packed
        )
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(heads), len(body), 0)
    path.write_bytes(body + heads + b"PK\x05\x06" + end)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93])
def test_an_archive_of_an_evaluation_is_read_as_its_document(tmp_path: Path, compression: int) -> None:
    [document] = [json.loads(path.read_text()) for path in (SAMPLES / "inspect").glob("2026*.json")]
    samples = {f"samples/{one['id']}_epoch_1.json": json.dumps(one).encode() for one in document["samples"]}
    path = archived(
        tmp_path / "x.eval", compression, {"header.json": b"{}", **samples, "samples/2_epoch_1.json": b"{broken"}
    )
    sent, count = read(path, "inspect")
    whole, _ = read(SAMPLES / "inspect", "inspect")
    told = ("operation", "session", "call_id", "outcome")
    assert [[one.get(name) for name in told] for one in sent] == [[one.get(name) for name in told] for one in whole]
    assert (len(sent), count.told.unreadable) == (3, 1)
    path.write_bytes(path.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\x00"))
    assert len(read(path, "inspect")[0]) == (0 if compression == 93 else 3)


def test_calls_to_which_a_file_gives_one_time_keep_its_order(tmp_path: Path) -> None:
    states = [{"toolCallId": f"c{n}", "status": "done", "toolCall": {"function": {"name": "Read"}}} for n in range(3)]
    history = [{"message": {"role": "assistant"}, "toolCallStates": some} for some in (states[:2], states[2:])]
    path = tmp_path / ".continue/sessions/S.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"sessionId": "S", "history": history}))
    sent, _ = read(tmp_path, "continue")
    began = sent[0]["time"]
    assert [one["call_id"] for one in sent] == ["c0", "c1", "c2"]
    assert [one["time"] - began for one in sent] == [0, MILLISECOND, 2 * MILLISECOND]
    assert [one["more"].get("time.exact") for one in sent] == [None, False, False]
