"""docs/seeds.md: each behaviour names code that is there and a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/seeds.md").read_text()
ROWS = re.findall(r"^\| (?!behaviour|---)(.+) \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


def test_every_seed_has_its_rows() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == [
        "Roo Code: an architecture of errors", "Roo Code: handling of errors", "KODE SDK", "Loopr", "OpenAgents",
    ]  # fmt: skip
    assert len(ROWS) == len(re.findall(r"^\| (?!behaviour|---)", PAGE, re.MULTILINE)) > 40


@pytest.mark.parametrize(("behaviour", "code", "test"), ROWS)
def test_a_row_opens_code_and_a_test(behaviour: str, code: str, test: str) -> None:
    assert (ROOT / code).is_file(), behaviour
    file, _, name = test.partition("::")
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), behaviour
