"""`misstep connect`: what it puts into the settings of each agent, and that undoing it leaves no trace."""

from __future__ import annotations

import json
import os
import shlex
import socket
import stat
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.commands.connect import connect, undo
from collector.connect.document import Broken
from collector.connect.jsonc import Jsonc
from collector.connect.plan import hook
from tests.conftest import RunningCollector, free_port, misstep

URL = "http://127.0.0.1:4318"
FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
    "qwen-code": ".qwen/settings.json",
    "opencode": ".bashrc",
    "copilot": ".bashrc",
}
OWN = {  # a person's, with comments, an order and a layout of their own
    "claude-code": (
        '{\n\t// mine\n\t"model": "opus", // the best\n\t"env": {\n\t\t"FOO": "1",\n\t},\n'
        '\t"hooks": {"PostToolBatch": []},\n}\n'
    ),
    "codex": '# mine\nmodel = "gpt-5"   # the best\n\n[otel]\nenvironment = "dev" # where\n\n[tui]\ntheme = "dark"\n',
    "gemini-cli": '{"ui": {"theme": "dark"}, "telemetry": {"target": "local"}}',
    "qwen-code": '{\r\n    /* mine */\r\n    "ui": {"theme": "dark"} // last\r\n}\r\n',
    "opencode": "alias ll='ls -l'\nexport EDITOR=vi",
    "copilot": "# mine\n",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "a home"
    place.mkdir()
    return place


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "SHELL": "/bin/bash", "XDG_STATE_HOME": str(home / "state"), **more}


def run(agent: str, home: Path, *wanted: str, url: str = URL, token: str = "", **more: str) -> int:
    return connect(agent, url, token, wanted, environ(home, **more), yes=True)


def back(agent: str, home: Path, **more: str) -> int:
    return undo(agent, environ(home, **more), yes=True)


def own(agent: str, home: Path, text: str | None = None) -> Path:
    path = home / FILES[agent]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((OWN[agent] if text is None else text).encode())
    return path


def values(path: Path) -> Any:
    text = path.read_bytes().decode()
    return tomllib.loads(text) if path.suffix == ".toml" else Jsonc(text).get(()) if path.suffix == ".json" else text


@pytest.mark.parametrize("agent", FILES)
def test_without_a_file_one_is_made_for_its_owner_alone_and_goes_again(agent: str, home: Path) -> None:
    assert run(agent, home) == 0
    path = home / FILES[agent]
    assert URL in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert back(agent, home) == 0
    assert not path.exists()


@pytest.mark.parametrize("agent", FILES)
def test_what_a_person_wrote_stays_and_undoing_gives_back_every_byte(agent: str, home: Path) -> None:
    path = own(agent, home)
    path.chmod(0o640)
    assert run(agent, home) == 0
    once = path.read_bytes()
    for line in OWN[agent].splitlines():
        for comment in ("// mine", "// the best", "# mine", "# the best", "# where", "/* mine */", "// last"):
            assert comment not in line or comment in once.decode()
    assert run(agent, home) == 0
    assert path.read_bytes() == once, "a second time changes nothing"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert back(agent, home) == 0
    assert path.read_text().rstrip("\n") == OWN[agent].replace("\r\n", "\n").rstrip("\n")
    assert path.read_bytes().count(b"\r\n") == OWN[agent].count("\r\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


SENT = {
    "claude-code": lambda told: told["env"]["CLAUDE_CODE_ENABLE_TELEMETRY"] == "1" and told["env"]["FOO"] == "1",
    "codex": lambda told: told["otel"] == {
        "environment": "dev", "exporter": {"otlp-http": {"endpoint": f"{URL}/v1/logs", "protocol": "json"}}},
    "gemini-cli": lambda told: told["telemetry"] == {
        "target": "local", "enabled": True, "otlpProtocol": "http", "otlpEndpoint": URL, "logPrompts": False},
    "qwen-code": lambda told: told["telemetry"]["logPrompts"] is False and told["ui"] == {"theme": "dark"},
    "opencode": lambda told: f"env OTEL_EXPORTER_OTLP_ENDPOINT={URL} opencode" in told,
    "copilot": lambda told: f"env COPILOT_OTEL_ENABLED=true OTEL_EXPORTER_OTLP_ENDPOINT={URL} copilot" in told,
}  # fmt: skip


@pytest.mark.parametrize(("agent", "right"), SENT.items())
def test_the_settings_are_those_that_the_agent_reads(agent: str, right: Callable[[Any], bool], home: Path) -> None:
    path = own(agent, home)
    run(agent, home)
    assert right(values(path))


COSTLY = [
    "OTEL_LOG_RAW_API_BODIES",
    "OTEL_LOG_TOOL_DETAILS",
    "OTEL_LOG_USER_PROMPTS",
    "CAPTURE",
    "log_user_prompt = true",
]


@pytest.mark.parametrize("agent", FILES)
def test_what_costs_privacy_comes_by_name_only_with_its_price(
    agent: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(agent, home)
    assert not [word for word in COSTLY if word in (home / FILES[agent]).read_text()]
    assert not (home / ".config/opencode/opencode.json").exists()
    named = {"claude-code": "raw-bodies", "gemini-cli": "prompts", "opencode": "ai-sdk", "copilot": "message-content"}
    if agent in named:
        capsys.readouterr()
        assert run(agent, home, named[agent]) == 0
        assert f"{named[agent]} (" in capsys.readouterr().out
    with pytest.raises(OSError, match=r"--with everything: .* there are: "):
        run(agent, home, "everything")


def test_places_follow_the_agents_own_variables(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "else where"
    at = {
        "claude-code": ("CLAUDE_CONFIG_DIR", "settings.json"),
        "codex": ("CODEX_HOME", "config.toml"),
        "gemini-cli": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
        "qwen-code": ("QWEN_HOME", "settings.json"),
    }
    for agent, (variable, name) in at.items():
        run(agent, home, **{variable: str(other / agent)})
        assert URL in (other / agent / name).read_text()
        assert not (home / FILES[agent]).exists()
    run("opencode", home, "ai-sdk", XDG_CONFIG_HOME=str(other), SHELL="/usr/bin/fish")
    assert json.loads((other / "opencode/opencode.json").read_text()) == {"experimental": {"openTelemetry": True}}
    assert "opencode $argv" in (other / "fish/config.fish").read_text()


def test_a_jsonc_file_is_taken_where_there_is_one(home: Path) -> None:
    path = home / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text("{} // mine\n")
    run("opencode", home, "ai-sdk")
    assert values(path.rename(path.with_suffix(".json"))) == {"experimental": {"openTelemetry": True}}


def test_a_value_that_a_person_set_stays_unless_they_say_yes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own("gemini-cli", home, '{"telemetry": {"otlpEndpoint": "http://other:4317"}}')
    assert run("gemini-cli", home) == 1
    assert values(path)["telemetry"]["otlpEndpoint"] == "http://other:4317"
    assert "'http://other:4317' was set before, so it stays" in capsys.readouterr().err

    answers = iter(["y", "n"])  # replace it, but write nothing
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    text = path.read_text()
    assert connect("gemini-cli", URL, "", (), environ(home)) == 1
    assert path.read_text() == text

    answers = iter(["y", "yes"])
    assert connect("gemini-cli", URL, "", (), environ(home)) == 0
    assert values(path)["telemetry"]["otlpEndpoint"] == URL
    back("gemini-cli", home)
    assert values(path) == {"telemetry": {"otlpEndpoint": "http://other:4317"}}


def test_undoing_leaves_what_was_changed_or_added_since(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own("claude-code", home, "{}\n")
    run("claude-code", home)
    text = path.read_text().replace('"OTEL_METRICS_EXPORTER": "otlp"', '"OTEL_METRICS_EXPORTER": "none"')
    path.write_text(text.replace('"env": {', '"model": "opus",\n  "env": {\n    "MINE": "1",'))
    back("claude-code", home)
    assert values(path) == {"model": "opus", "env": {"MINE": "1", "OTEL_METRICS_EXPORTER": "none"}}
    assert "env.OTEL_METRICS_EXPORTER: was changed since, so it stays as it is" in capsys.readouterr().err
    back("claude-code", home)
    assert "has put nothing in" in capsys.readouterr().out

    profile = own("copilot", home)
    run("copilot", home)
    profile.write_text(profile.read_text().replace("true", "false"))
    changed = profile.read_text()
    back("copilot", home)
    assert profile.read_text() == changed


def test_another_collector_takes_the_place_of_the_first(home: Path) -> None:
    path = own("claude-code", home)
    run("claude-code", home)
    assert run("claude-code", home, url="http://10.0.0.7:4318/") == 0
    assert URL not in path.read_text()
    assert len(values(path)["hooks"]["PostToolBatch"]) == 1
    back("claude-code", home)
    assert path.read_text() == OWN["claude-code"]


BROKEN = [
    ("claude-code", '{\n  "env": {\n    "A": "1"\n    "B": "2"\n  }\n}', "line 4: a comma or } is missing"),
    ("claude-code", '{"env": "none"}', "line 1: env is not a map"),
    ("claude-code", '{"hooks": {"PostToolBatch": {}}}', "line 1: hooks.PostToolBatch is not a list"),
    ("gemini-cli", '[]', "line 1: it is not a map"),
    ("gemini-cli", '{"a": 1}\n}', "line 2: there is more behind the end"),
    ("qwen-code", '{"a": tru}', "line 1: tru is not JSON"),
    ("qwen-code", '{"a": ' + "[" * 5000, "nested more than 100 deep"),
    ("qwen-code", '{\n/* never ends', "line 2: a key in quotes"),
    ("codex", 'model = "x"\n[otel\n', "line 2: "),
    ("codex", 'otel = "none"\n', "otel is not a table"),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "text", "said"), BROKEN)
def test_a_broken_file_is_refused_by_name_and_line(agent: str, text: str, said: str, home: Path) -> None:
    path = own(agent, home, text)
    with pytest.raises(OSError, match="nothing was written") as refused:
        run(agent, home)
    assert str(path) in str(refused.value)
    assert said in str(refused.value)
    assert "correct it, then run it again; nothing was written" in str(refused.value)
    assert path.read_text() == text


def test_a_link_stays_a_link_and_other_bytes_are_refused(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}\n")
    path = home / FILES["claude-code"]
    path.parent.mkdir()
    path.symlink_to(real)
    run("claude-code", home)
    assert path.is_symlink()
    assert URL in real.read_text()
    real.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(OSError, match=r"is not UTF-8 \(byte 7\)"):
        run("claude-code", home)


def test_a_token_goes_where_the_agent_reads_it_and_is_never_shown(home: Path, tmp_path: Path) -> None:
    token = "tok" + "en-of-mine-" * 2
    settings = {"INGEST_TOKENS": token}
    place = {"HOME": str(home), "SHELL": "/bin/bash", "XDG_STATE_HOME": str(home / "state")}
    for agent in FILES:
        done = misstep("connect", agent, "--yes", cwd=tmp_path, settings=settings, environ=place)
        assert done.returncode == 0, done.stderr
        assert token not in done.stdout + done.stderr
    assert values(home / FILES["claude-code"])["env"]["OTEL_EXPORTER_OTLP_HEADERS"] == f"Authorization=Bearer%20{token}"
    exporter = values(home / FILES["codex"])["otel"]["exporter"]["otlp-http"]
    assert exporter["headers"] == {"Authorization": f"Bearer {token}"}
    for command in ("gemini", "qwen", "opencode", "copilot"):
        assert f"function {command} {{\n  env " in (home / ".bashrc").read_text()
    for agent in FILES:
        assert misstep("connect", agent, "--undo", "--yes", cwd=tmp_path, environ=place).returncode == 0
    assert json.loads((home / "state/misstep/connected.json").read_text()) == {}
    assert not [file for file in FILES.values() if (home / file).exists()]


def test_the_function_in_a_profile_starts_the_agent_with_its_variables(home: Path) -> None:
    run("copilot", home)
    program = home / "copilot"
    program.write_text('#!/bin/sh\necho "$OTEL_EXPORTER_OTLP_ENDPOINT $1"\n')
    program.chmod(0o755)
    script = f'. "{home}/.bashrc"; copilot "two words"; echo "[$OTEL_EXPORTER_OTLP_ENDPOINT]"'
    done = subprocess.run(
        ["bash", "-c", script], env={"PATH": f"{home}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{URL} two words\n[]\n"


def fired(command: str) -> tuple[float, subprocess.CompletedProcess[bytes]]:
    """How long a hook took, and how it ended."""
    begun = time.monotonic()
    done = subprocess.run(["sh", "-c", command], input=b"x" * 100_000, capture_output=True, check=False)
    return time.monotonic() - begun, done


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port whose queue is full: nobody refuses, nobody answers."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_hook_ends_at_once_and_in_silence_where_nobody_listens(silent_port: int) -> None:
    start = min(fired("curl -q --version > /dev/null")[0] for _ in range(5))  # which a busy machine makes long
    for url in (f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{silent_port}"):
        tries = [fired(hook(url)) for _ in range(5)]
        assert all((done.returncode, done.stdout, done.stderr) == (0, b"", b"") for _, done in tries)
        assert min(seconds for seconds, _ in tries) - start < 0.08


def test_a_hook_without_curl_is_silent_too() -> None:
    _, done = fired(hook(URL).replace("curl", "/no/such/curl", 1))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_installed_hook_brings_refused_calls(collector: RunningCollector, home: Path) -> None:
    run("claude-code", home, url=collector.url)
    command = values(home / FILES["claude-code"])["hooks"]["PostToolBatch"][0]["hooks"][0]["command"]
    told = {
        "tool_name": "Edit", "tool_input": {"file_path": "a.py"}, "tool_use_id": "toolu_2",
        "tool_response": "<tool_use_error>String to replace not found in file.</tool_use_error>",
    }  # fmt: skip
    batch = {"hook_event_name": "PostToolBatch", "session_id": "s", "tool_calls": [told]}
    subprocess.run(["sh", "-c", command], input=json.dumps(batch).encode(), check=True)
    assert [(event["tool"], event["error_class"]) for event in collector.events()] == [("Edit", "ContentNotFoundError")]
    assert shlex.split(command)[-2:] == ["||", "true"]


LAYOUTS = [
    "", "{}", "{}\n", '{"a": 1}',
    '{ "a": 1, "env": {"Y": "1"} }\n', '{\n  "a": 1, // one\n  "b": [1] // two\n  // end\n}\n',
    '{\n\t"env": {\n\t\t"X": "y",\n\t},\n}\n', '\ufeff{"env": {"b": {}}}', '{"env": {"b": 1, "b": 2}}',
    '{\n  "a": "//", "c": "/*" /* } */,\n  "d": "\\"}"\n}', "// only this\n{}",
]  # fmt: skip


@pytest.mark.parametrize("text", LAYOUTS)
def test_json_with_comments_is_edited_where_asked_and_nowhere_else(text: str) -> None:
    document = Jsonc(text)
    start = document.text
    document.put(("env", "Z"), {"deep": [1, "two"]})
    document.put(("new",), True)
    document.append(("list", "in"), {"x": 1})
    document.append(("list", "in"), {"x": 2})
    document = Jsonc(document.text)
    assert document.get(("env", "Z")) == {"deep": [1, "two"]}
    assert document.get(("list", "in")) == [{"x": 1}, {"x": 2}]
    document.discard(("list", "in"), {"x": 1})
    document.discard(("list", "in"), {"x": 2})
    document.remove(("list",))
    document.remove(("new",))
    document.remove(("env", "Z"))
    if '"env"' not in start:
        document.remove(("env",))
    assert document.text == start


def test_a_value_is_replaced_in_its_place() -> None:
    document = Jsonc('{\n  "a": {"b": 1}, // one\n  "c": 2\n}\n')
    document.put(("a", "b"), [3])
    assert document.text == '{\n  "a": {"b": [\n    3\n  ]}, // one\n  "c": 2\n}\n'
    with pytest.raises(Broken, match=r"c is not a map"):
        document.put(("c", "d"), 1)
