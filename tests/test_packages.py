"""The wheels of both packages hold what they need, and the base one starts in an empty environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import free_port, wait_until

ROOT = Path(__file__).parents[1]
FOLDERS = ("collector", "dashboard", "schemas", "docs/agents", "sdk")
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
FILES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Both wheels, built from a copy of what belongs to them."""
    source = tmp_path_factory.mktemp("source")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.lock"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    for package in (source, source / "sdk"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", source / "dist"],
            cwd=package,
            check=True,
            capture_output=True,
        )
    yield {wheel.name.split("-")[0]: wheel for wheel in (source / "dist").glob("*.whl")}
    shutil.rmtree(source)


def test_the_wheels_hold_tables_pages_and_licences_and_no_tests(wheels: dict[str, Path]) -> None:
    assert wheels.keys() == {"misstep", "misstep_sdk"}
    held = {name: set(zipfile.ZipFile(wheel).namelist()) for name, wheel in wheels.items()}
    for name, files in (
        ("misstep", [
            "schemas/taxonomy.toml", "schemas/sources/codex.toml", "schemas/transcripts/claude-code.toml",
            "schemas/agents/codex.md", "collector/query/sql/groups.sql", "dashboard/main.py",
            "dashboard/parts/link_table.js",
        ]),
        ("misstep_sdk", ["misstep_sdk/py.typed", "misstep_sdk/facts.py", "misstep_sdk/adapters/mcp.py"]),
    ):  # fmt: skip
        assert {file for file in files if file not in held[name]} == set()
        assert any(file.endswith("licenses/LICENSE") for file in held[name])
        assert not any(file.startswith(("tests/", "benchmarks/")) for file in held[name])


def test_the_base_package_starts_in_an_empty_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Without the pages' extra: what pages need is hidden, the libraries of the base are those of this environment."""
    packages = tmp_path / "packages"
    for wheel in wheels.values():
        zipfile.ZipFile(wheel).extractall(packages)
    hidden = ("streamlit", "altair", "polars", "pyarrow", "mcp", "pytest", "tests")
    (tmp_path / "start.py").write_text(
        f"""
import sys
for name in {hidden!r}:
    sys.modules[name] = None
import collector, misstep_sdk
assert collector.__file__.startswith({str(packages)!r}), collector.__file__
assert misstep_sdk.__file__.startswith({str(packages)!r}), misstep_sdk.__file__
from collector.cli.main import main
main()
"""
    )
    address, grpc = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MISSTEP_", "OTEL_"))}
    environment |= {"PYTHONPATH": str(packages), "MISSTEP_STORE": f"duckdb:///{tmp_path}/misstep.duckdb"}
    command = [sys.executable, str(tmp_path / "start.py")]
    with subprocess.Popen(
        [*command, "collector", "--http", address, "--grpc", grpc],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
    ) as started:
        try:
            wait_until(lambda: _ready(address), lambda: "the collector is not ready")
            demo = subprocess.run(
                [*command, "demo", "--to", f"http://{address}", "--sessions", "2"],
                cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert demo.returncode == 0, demo.stderr
            found = httpx.get(f"http://{address}/api/v1/events", params={"from": "-8d"}, timeout=30).json()
            assert found["rows"], json.dumps(found)
        finally:
            started.terminate()
            started.wait(30)


@pytest.mark.deep
def test_uvx_starts_the_wheel(wheels: dict[str, Path]) -> None:
    """With everything that it needs from the registry, in an environment of its own."""
    wheel = wheels["misstep"]
    for extra, command in (("", ["misstep", "--version"]), ("[dashboard]", ["misstep", "up", "--help"])):
        run = subprocess.run(
            [
                _uv(),
                "tool",
                "run",
                "--python",
                sys.executable,
                "--find-links",
                wheel.parent,
                "--from",
                f"misstep{extra} @ {wheel.as_uri()}",
                *command,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr


@pytest.mark.deep
def test_the_library_works_on_every_python_that_is_here(wheels: dict[str, Path], tmp_path: Path) -> None:
    listed = subprocess.run(
        [_uv(), "python", "list", "--only-installed", "--output-format", "json"], capture_output=True, check=True
    )
    pythons = {
        f"{each['version_parts']['major']}.{each['version_parts']['minor']}": each for each in json.loads(listed.stdout)
    }
    tried = {version: each["path"] for version, each in pythons.items() if version in SUPPORTED}
    assert tried
    for version, python in tried.items():
        environment = tmp_path / version
        own = environment / "bin/python"
        subprocess.run([_uv(), "venv", "--quiet", "--python", python, environment], check=True)
        subprocess.run([_uv(), "pip", "install", "--quiet", "--python", own, wheels["misstep_sdk"]], check=True)
        run = subprocess.run([own, ROOT / "examples/agent_loop.py"], capture_output=True, text=True, check=False)
        assert run.returncode == 0, (version, run.stderr)


def _uv() -> str:
    """The project's own uv, as make uses it."""
    return subprocess.run([ROOT / ".ci/uv"], capture_output=True, text=True, check=True).stdout.strip()


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False
