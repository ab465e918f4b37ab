"""`misstep up`: two processes; when one ends, so does the other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from streamlit.testing.v1 import AppTest

from collector.commands.up import greeting
from collector.setting_values import Address
from collector.settings import load
from dashboard import launch
from dashboard.data import agents
from tests.conftest import APP, EVER, MISSTEP, free_port, wait_until
from tests.test_report import NOW, home, line
from tests.test_show import at_home


@dataclass
class Up:
    """`misstep up` in `folder`, on free ports."""

    folder: Path
    options: tuple[str, ...] = ()
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ("HTTP", "GRPC", "DASHBOARD")})

    def start(self, **environ: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MISSTEP_")}
        environment |= {f"MISSTEP_{name}": f"127.0.0.1:{port}" for name, port in self.ports.items()} | environ
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [MISSTEP, "up", *self.options], cwd=self.folder, env=environment, stdout=log, stderr=log
            )
        wait_until(lambda: "Paste into" in self.logged() or self.process.poll() is not None, self.logged)
        assert self.process.poll() is None, self.logged()

    def children(self) -> dict[str, int]:
        """Process ids by kind."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        found = {}
        for pid in map(int, listed.split()):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            found["dashboard" if b"streamlit" in command else "import" if b"\0import\0" in command else "collector"] = (
                pid
            )
        return found

    def logged(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def log(self) -> Path:
        return self.folder / "up.log"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    (tmp_path / "collector").mkdir()  # neither these nor others there are taken for modules
    for name in ("collector/__init__.py", "secrets.py", "duckdb.py", "streamlit.py"):
        (tmp_path / name).write_text("raise SystemExit('a module of the folder')")
    running = Up(tmp_path)
    running.start()
    yield running
    if running.process.poll() is None:
        running.process.terminate()
        running.process.wait(30)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One that nobody ends, on a machine whose proxy answers nobody."""
    running = Up(tmp_path_factory.mktemp("asked"))
    running.start(http_proxy=f"http://127.0.0.1:{free_port()}")
    yield running
    running.process.terminate()
    running.process.wait(30)


def alive(pid: int) -> bool:
    """Whether there is such a process; a zombie, for which nobody has waited, counts."""
    return Path(f"/proc/{pid}").exists()


def test_both_answer_where_it_says_and_no_proxy_is_asked(asked: Up) -> None:
    said, ports = asked.logged(), asked.ports
    assert f"http://127.0.0.1:{ports['DASHBOARD']}" in said
    assert f"export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{ports['HTTP']}" in said
    assert "Streamlit" not in said  # the addresses are printed once
    assert httpx.get(f"http://127.0.0.1:{ports['HTTP']}/readyz").is_success
    assert httpx.get(f"http://127.0.0.1:{ports['DASHBOARD']}/_stcore/health").is_success
    assert httpx.get(f"http://127.0.0.1:{ports['HTTP']}/api/v1/events", params={"from": EVER}).json()["rows"] == []


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_pages_of_other_sites_cannot_open_the_dashboard(asked: Up) -> None:
    port = asked.ports["DASHBOARD"]
    page, stream = f"http://127.0.0.1:{port}/errors", f"http://127.0.0.1:{port}/_stcore/stream"
    own = f"http://127.0.0.1:{port}"
    for headers, status in (
        ({"Host": f"localhost:{port}"}, 200),
        ({"Host": f"evil.example:{port}"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": own}, 200),
    ):
        assert httpx.get(page, headers=headers).status_code == status
    for headers, status in (
        ({"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": f"http://localhost:{port}"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": own}, 101),
    ):
        with httpx.stream("GET", stream, headers={**HANDSHAKE, **headers}) as answer:
            assert answer.status_code == status
    assert httpx.get(page).headers["Content-Security-Policy"] == "frame-ancestors 'self'"


def test_the_first_page_opens_under_its_name_too(asked: Up) -> None:
    at = f"http://127.0.0.1:{asked.ports['DASHBOARD']}"
    for path, place in (
        ("/overview", "/"),
        ("/overview/", "/"),
        ("/overview?tool=a%26b&from=-7d", "/?tool=a%26b&from=-7d"),
    ):
        answer = httpx.get(at + path, follow_redirects=True)
        assert (answer.status_code, str(answer.url)) == (200, at + place)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.deep), signal.SIGINT])
def test_signal_ends_both(up: Up, number: signal.Signals) -> None:
    children = up.children()
    assert sorted(children) == ["collector", "dashboard"]
    up.process.send_signal(number)
    assert up.process.wait(30) == 0
    assert not any(map(alive, children.values()))


def test_new_calls_of_agents_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent writes while it works is seen within seconds, a call first without its result."""
    ann = home(tmp_path / "ann", range(1, 2))
    at_home(ann, monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    running = Up(tmp_path, ("--watch",))
    running.start()
    try:
        stored = f"http://127.0.0.1:{running.ports['HTTP']}/api/v1/events"

        def outcome(call: str) -> str:
            rows = httpx.get(stored, params={"from": EVER, "operation": "tool"}, timeout=30).json()["rows"]
            return next((row["outcome"] for row in rows if row["call_id"] == call), "")

        wait_until(lambda: outcome("toolu_010") == "error", running.logged)
        [file] = ann.rglob("*.jsonl")
        asked = {"type": "tool_use", "id": "toolu_new", "name": "Bash", "input": {"command": "make"}}
        said = {"type": "tool_result", "tool_use_id": "toolu_new", "content": "Exit code 2", "is_error": True}
        for kind, item, ends in (("assistant", asked, "unknown"), ("user", said, "error")):
            with file.open("a") as written:
                written.write(line(kind, file.stem, NOW, [item]) + "\n")
            wait_until(lambda ends=ends: outcome("toolu_new") == ends, running.logged)  # type: ignore[misc]
        children = running.children()
        assert sorted(children) == ["collector", "dashboard", "import"]
        running.process.terminate()
        assert running.process.wait(30) == 0
        assert not any(map(alive, children.values()))
    finally:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(30)


@pytest.mark.parametrize("name", ["collector", "dashboard"])
def test_end_of_one_is_the_end_of_the_other(up: Up, name: str) -> None:
    children = up.children()
    os.kill(children[name], signal.SIGKILL)
    assert up.process.wait(30) == 1
    assert f"misstep: the {name} ended with exit code -9" in up.logged()
    assert not any(map(alive, children.values()))


def test_addresses_are_ones_that_can_be_opened() -> None:
    assert Address("0.0.0.0", 4318).url == "http://127.0.0.1:4318"
    assert Address("::", 4318).url == "http://[::1]:4318"
    settings = load({}, {"MISSTEP_INGEST_TOKENS": "hunter2"}, Path("no such file"))
    assert "OTEL_EXPORTER_OTLP_HEADERS" in greeting(settings)
    assert "hunter2" not in greeting(settings)
    settings = load({}, {"MISSTEP_OTLP_URL": "https://misstep.example.org"}, Path("no such file"))
    assert "export OTEL_EXPORTER_OTLP_ENDPOINT=https://misstep.example.org" in greeting(settings)
    assert greeting(settings).endswith(" demo")
    settings = load({}, {"MISSTEP_HTTP": "127.0.0.1:9318"}, Path("no such file"))
    assert greeting(settings).endswith(" demo --to http://127.0.0.1:9318")


def test_page_tells_agents_the_address_that_they_reach() -> None:
    inside, outside = "http://collector:4318", "http://127.0.0.1:4318"
    assert agents.address(launch.environment({}, inside, otlp=outside)) == outside
    assert agents.address(launch.environment({}, inside)) == inside
    assert agents.address({}) == outside


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("[auth]\ncookie_secret = 'x'\n", True), ("[other]\n", False), (None, False)],
)
def test_sign_in_is_found_where_streamlit_looks_for_it(tmp_path: Path, text: str | None, wanted: bool) -> None:
    folder = tmp_path / ".streamlit"
    folder.mkdir()
    if text is not None:
        (folder / "secrets.toml").write_text(text)
    assert launch.signs_in([str(tmp_path / "other"), str(tmp_path)]) == wanted
    assert said_to_be_wanted(tmp_path, tmp_path / "other") == str(wanted)


def said_to_be_wanted(folder: Path, home: Path, **environ: str) -> str:
    """Whether a dashboard that is started in the folder has people sign in."""
    asked = [sys.executable, "-c", "from dashboard.access import sign_in; print(sign_in.wanted())"]
    elsewhere = {**os.environ, "HOME": str(home), **environ}
    done = subprocess.run(asked, cwd=folder, env=elsewhere, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


@pytest.mark.parametrize(("name", "content"), [
    ("dashboard", b"[auth\n"), ("up", b"[auth]\nname = '\xfc'\n"), ("dashboard", None),
    *(pytest.param(*case, marks=pytest.mark.deep)
      for case in (("up", b"[auth\n"), ("dashboard", b"[auth]\nname = '\xfc'\n"), ("up", None))),
])  # fmt: skip
def test_secrets_that_cannot_be_read_are_no_secrets_without_sign_in(
    tmp_path: Path, content: bytes | None, name: str
) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    for folder in (here, home):
        (folder / ".streamlit").mkdir(parents=True)
    (home / ".streamlit/secrets.toml").write_text("[auth]\ncookie_secret = 'x'\n")
    broken = here / ".streamlit/secrets.toml"
    if content is None:
        broken.mkdir()
    else:
        broken.write_bytes(content)
    settings = {f"MISSTEP_{each}": f"127.0.0.1:{free_port()}" for each in ("HTTP", "GRPC", "DASHBOARD")}
    environ = {**os.environ, "HOME": str(home), **settings}
    done = subprocess.run([MISSTEP, name], cwd=here, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "misstep: .streamlit/secrets.toml cannot be read, so whether people sign in is not known: " in done.stderr
    assert said_to_be_wanted(here, home / "none") == "True"


def test_sign_in_that_was_on_at_the_start_stays_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert launch.SIGN_IN not in launch.environment({})
    secrets = tmp_path / ".streamlit/secrets.toml"
    secrets.parent.mkdir()
    secrets.write_text("[auth]\n")
    told = launch.environment({})[launch.SIGN_IN]
    secrets.unlink()
    assert said_to_be_wanted(tmp_path, tmp_path, **{launch.SIGN_IN: told}) == "True"


SHARED = "[auth]\nredirect_uri = 'http://x/oauth2callback'\ncookie_secret = 'c'\n"
OWN = "client_id = 'i'\nclient_secret = 's'\nserver_metadata_url = 'http://p'\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SHARED + OWN, ["Sign in"]),
        (SHARED + OWN + "[auth.client_kwargs]\nprompt = 'login'\n", ["Sign in"]),
        (f"{SHARED}[auth.corp]\n{OWN}", ["Sign in with corp"]),
        (f"{SHARED}{OWN}[auth.corp]\n{OWN}", ["Sign in", "Sign in with corp"]),
        ("[auth]\n" + OWN, "[auth] of .streamlit/secrets.toml lacks redirect_uri, cookie_secret"),
        (SHARED, "[auth] of .streamlit/secrets.toml lacks client_id, client_secret, server_metadata_url"),
        (
            f"{SHARED}[auth.corp]\nclient_id = 'i'\n",
            "[auth.corp] of .streamlit/secrets.toml lacks client_secret, server",
        ),
        (f"{SHARED}[auth.my_corp]\n{OWN}", "no provider with a _ in its name, such as 'my_corp'"),
    ],
)
def test_sign_in_that_cannot_work_is_refused_at_the_start(tmp_path: Path, text: str, said: str | list[str]) -> None:
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit/secrets.toml").write_text(text)
    if isinstance(said, str):
        with pytest.raises(OSError, match=re.escape(said)):
            launch.sign_in_works([str(tmp_path)])
        return
    assert launch.sign_in_works([str(tmp_path)])
    app = AppTest.from_file(APP, default_timeout=60)
    app.secrets = tomllib.loads(text)
    app.run()
    assert [each.label for each in app.button] == said


def test_sign_in_needs_authlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "find_spec", {}.get)
    assert not launch.sign_in_works([str(tmp_path)])
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit/secrets.toml").write_text(SHARED + OWN)
    with pytest.raises(OSError, match="install Authlib"):
        launch.sign_in_works([str(tmp_path)])
