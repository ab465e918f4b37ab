"""What the documents mention exists, and what exists is documented."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.api.endpoints import ENDPOINTS
from collector.classify.classify import load_taxonomy
from collector.cli.main import app
from collector.commands import settings
from collector.settings import Settings, load
from collector.tables import load_toml, schemas
from tests import module_list

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONFIGURATION = (ROOT / "docs/configuration.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"].values()
MEANINGS = load_toml(schemas() / "settings.toml")
NO_SETTINGS = {"MISSTEP_EXAMPLES", "MISSTEP_SLOW", "MISSTEP_TIMES", "MISSTEP_TOKEN"}  # of tests, and of other programs
OURS = "misstep-sdk"  # in this repository: no lock has it
SDK = tomllib.loads((ROOT / "sdk/pyproject.toml").read_text())
RUNS = PROJECT["project"]["dependencies"] + [name for extra in EXTRAS for name in extra]
CHECKS = {name for group in PROJECT["dependency-groups"].values() for name in group}


def _generated() -> Any:
    """docs/site/generated.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs/site/generated.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated = _generated()


def package(requirement: str) -> str:
    return re.split(r"[\[<>=~ ]", requirement, maxsplit=1)[0]


def commands() -> set[str]:
    """Every command; those of command groups with both words."""
    found = set()
    for name in app:
        if name.startswith("-"):
            continue
        inner = [each for each in app[name] if not each.startswith("-")]
        found |= {f"misstep {name} {each}" for each in inner}
        if not inner or app[name].default_command:
            found.add(f"misstep {name}")
    return found


def test_every_setting_has_a_meaning_and_no_other() -> None:
    assert list(MEANINGS) == [each.name for each in fields(Settings)]
    assert all(about["text"] and not about["text"].endswith(".") for about in MEANINGS.values())
    printed = "\n".join(settings.lines())
    assert all(f"{name} (MISSTEP_{name.upper()})" in printed for name in MEANINGS)


@pytest.mark.parametrize("name", MEANINGS)
def test_documented_default_is_the_default(name: str) -> None:
    written = MEANINGS[name].get("default", "")
    nowhere = Path("no such file")
    assert load({}, {f"MISSTEP_{name.upper()}": written}, nowhere) == load({}, {}, nowhere)


def test_the_setting_that_a_page_names_exists() -> None:
    known = {f"MISSTEP_{name.upper()}" for name in MEANINGS} | NO_SETTINGS
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert set(re.findall(r"MISSTEP_[A-Z_]*[A-Z](?![A-Z_*])", document.read_text())) <= known, document.name


def test_every_dependency_has_a_reason_and_no_other() -> None:
    assert sorted(generated.reasons()) == sorted({package(each) for each in (*RUNS, *CHECKS)})


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", RUNS),
        ("requirements-dev.lock", RUNS + PROJECT["dependency-groups"]["dev"]),
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
        ("requirements-bootstrap.lock", PROJECT["dependency-groups"]["bootstrap"]),
        ("requirements-node.lock", PROJECT["dependency-groups"]["node"]),
        ("sdk/requirements-adapters.lock", SDK["project"]["dependencies"] + SDK["dependency-groups"]["adapters"]),
        ("requirements-stack.lock", PROJECT["dependency-groups"]["stack"]),
    ],
)
def test_lock_file_has_every_dependency_with_hashes_and_no_address(lock: str, wanted: list[str]) -> None:
    text = (ROOT / lock).read_text()
    locked = re.findall(r"^([a-z0-9._-]+)==\S+(?: ;[^\\\n]+)? \\\n    --hash=sha256:", text, re.MULTILINE)
    assert {package(each) for each in wanted} - {OURS} <= set(locked)
    assert "://" not in text


def test_lock_file_of_the_javascript_tests_has_hashes_and_no_address() -> None:
    _, *packages = json.loads((ROOT / "tests/js/package-lock.json").read_text())["packages"].values()
    assert packages
    assert all("integrity" in each and "resolved" not in each for each in packages)


def test_every_command_says_what_it_does() -> None:
    page = generated.commands()
    for name in commands():
        about = page.partition(f" {name}\n\n```console\n")[2].partition("```\n\n")[2]
        assert re.match(r"[A-Z][^\n]+", about), name


def test_every_command_on_the_page_of_commands_exists() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    named = re.findall(r"`misstep ([a-z]+)(?: ([a-z]+))?", text)
    assert len(named) > 20
    assert [words for words in named if not {f"misstep {words[0]}", f"misstep {' '.join(words)}"} & commands()] == []


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+): ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        named = re.findall(r"`make ([a-z]+)`|^make ([a-z]+)$", document.read_text(), re.MULTILINE)
        assert {one or other for one, other in named} <= targets, document.name


def test_the_list_of_modules_says_of_each_what_it_is() -> None:
    listed = re.findall(r"^- `(.+?\.py)`: (.*)$", module_list.page(), re.MULTILINE)
    assert len(listed) > 200
    assert [name for name, sentence in listed if len(sentence) < 2] == []


def test_every_file_of_the_tables_is_in_the_architecture() -> None:
    section = (ROOT / "docs/architecture.md").read_text().partition("## The tables")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.+?`) \| ", section, re.MULTILINE)
    named = [name.rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted(named) == sorted(path.name for path in (ROOT / "schemas").iterdir())


def test_pages_made_of_descriptions_leave_nothing_out() -> None:
    classes, of_settings = generated.classes(), generated.settings()
    assert all(f"| `{name}` | {row.attribution}" in classes for name, row in load_taxonomy().classes.items())
    assert all(f"## MISSTEP_{name.upper()}\n" in of_settings for name in MEANINGS)
    addresses = generated.addresses()
    for endpoint in ENDPOINTS:
        _, _, about = addresses.partition(f"\n## GET /api/v1{re.sub(r':[a-z]+}', '}', endpoint.path)}\n")
        section = about.partition("\n## ")[0]
        assert all(f"| `{parameter.name}` |" in section for parameter in endpoint.takes), endpoint.path
        assert "| column | meaning |" in section
        assert ("[filters](api.md#filters)" in section) is endpoint.filters


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        assert "://" in link or (path.parent / link).exists(), link


def curl_example() -> list[str]:
    """The arguments of the README's curl command, as a shell would pass them."""
    found = re.search(r"^curl .*?'$", README, re.MULTILINE | re.DOTALL)
    assert found
    script = found[0].replace("curl ", "printf '%s\\0' ", 1)
    printed = subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True).stdout
    return printed.split("\0")[:-1]


def test_curl_example_of_the_readme_becomes_an_event_without_its_password(collector: Any) -> None:
    arguments = curl_example()
    assert "http://127.0.0.1:4318/v1/events" in arguments
    answer = collector.post("/v1/events", arguments[arguments.index("-d") + 1])
    assert answer.status_code == 200, answer.text
    [event] = collector.events()
    assert (event["source"], event["tool"], event["error_class"]) == ("event", "read_file", "FileNotFoundError")
    assert (event["attribution"], event["recovery"]) == ("model", "fix_and_retry")
    assert event["params"]["path"] == "notes.txt"
    assert event["redactions"] == 1
    assert "hunter2" not in json.dumps(event)
    assert b"hunter2" not in collector.store.read_bytes()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 100


def test_containers_are_published_on_loopback_only() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service["ports"]]
    assert sorted(services) == ["collector", "dashboard"]
    assert [port.rpartition(":")[2] for port in ports] == ["4318", "4317", "8501"]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_containers_may_do_nothing_but_write_their_data() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["tmpfs"] == ["/tmp"]
        assert service["user"] == "10001"
        assert service["pids_limit"] == 512
        assert not {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc"} & service.keys()
    assert "healthcheck" in services["dashboard"]
    assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()


def test_an_image_is_built_from_one_base_and_locked_packages_alone() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    [base] = re.findall(r"^ARG PYTHON=(\S+)$", dockerfile, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON}"}
    newest, _, digest = base.partition("@sha256:")
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert f"--build-arg PYTHON={newest} " in CONFIGURATION
    for line in re.findall(r"pip (?:install|wheel) [^&\n]+", dockerfile):
        locked = re.search(r"--require-hashes -r (\S+)", line)
        local = "--no-deps" in line and ("--no-build-isolation" in line or "--no-index" in line)
        assert local or (locked and (ROOT / locked[1]).exists()), line
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]


def test_test_command_of_the_readme_is_what_integration_runs() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    runs = (ROOT / ".ci/run").read_text()
    assert any(shlex.split(block) == ["make", "test"] for block in blocks)
    assert "exec make test" in runs


def test_the_readme_of_the_first_release_lies_ready(tmp_path: Path) -> None:
    """docs/first-release.patch fits today's README, and puts what needs no checkout first."""
    shutil.copy(ROOT / "README.md", tmp_path)
    patched = subprocess.run(
        ["git", "apply", ROOT / "docs/first-release.patch"], cwd=tmp_path, capture_output=True, check=False
    )
    assert patched.returncode == 0, patched.stderr
    commands = re.findall(r"^```sh\n(.*?)^```", (tmp_path / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [command.strip() for command in commands[:2]] == [
        "uvx misstep report", "pipx install 'misstep[dashboard]'\nmisstep up",
    ]  # fmt: skip


def test_a_release_starts_from_a_tag_alone() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}  # YAML reads the key `on` as true
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None, "publish": "build", "image": "publish",
    }  # fmt: skip
    assert jobs["publish"]["environment"] == "pypi", "whose maintainers let it through"
    assert {right for job in jobs.values() for right, how in job["permissions"].items() if how == "write"} == {
        "id-token", "attestations", "packages",
    }  # fmt: skip
    steps = [step for job in jobs.values() for step in job["steps"]]
    for used in [step["uses"] for step in steps if "uses" in step]:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used), f"{used}: a tag may be moved"
    assert not any("${{" in step.get("run", "") for step in steps), "what GitHub fills in is run by the shell"
    assert "password" not in str(jobs["publish"])
    assert PROJECT["project"]["version"] == SDK["project"]["version"]
