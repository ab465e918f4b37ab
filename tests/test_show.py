"""`misstep show`: a call that was imported, with what stood around it in the person's own file, masked."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import RunningCollector, misstep
from tests.test_report import home


def test_a_call_is_shown_with_what_stood_around_it(collector: RunningCollector, tmp_path: Path) -> None:
    ann = home(tmp_path / "ann", range(1, 2))
    [file] = ann.rglob("*.jsonl")
    secret = "sk-" + "ant-api03-" + "Zk3" * 31 + "-AAAAAAAA"
    file.write_text(file.read_text().replace("pytest: command not found", f"pytest: command not found {secret}"))

    def asked(*arguments: object) -> subprocess.CompletedProcess[str]:
        to = {"COLLECTOR_URL": collector.url}
        return misstep(*arguments, cwd=tmp_path, settings=to, environ={"HOME": str(ann)})

    done = asked("import", "claude-code", "--yes", "--to", collector.url)
    assert done.returncode == 0, done.stderr
    collector.kept_up()
    done = asked("show", "toolu_010")
    assert done.returncode == 0, done.stderr
    assert "error_class  CommandNotFoundError" in done.stdout
    [it] = [line for line in done.stdout.splitlines() if line.startswith("→ ")]
    assert "toolu_010" in it
    after = done.stdout.partition(it)[2]
    assert "pytest: command not found" in after
    assert "uv run pytest" in after
    assert secret not in done.stdout
    file.unlink()
    assert "is not there any more" in asked("show", "toolu_010").stdout


def test_a_call_that_nobody_told(shared: RunningCollector, tmp_path: Path) -> None:
    done = misstep("show", "toolu_none", cwd=tmp_path, settings={"COLLECTOR_URL": shared.url})
    assert done.returncode == 2
    assert "no call with the id 'toolu_none' is stored" in done.stderr
