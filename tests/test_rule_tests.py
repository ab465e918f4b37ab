"""Tests that users write in their rule files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector.alerts.rulefile import RuleError, parse_rules
from collector.alerts.trying.ruletest import failures, run, unfolded
from tests.conftest import misstep

RULES = """
rules:
  - {name: broken, measure: error_rate, condition: "> 0.5", recover: "< 0.3", min_calls: 20, for: 2m}
  - {name: twice, measure: errors, condition: "> 2x previous 7d"}
tests:
"""


@pytest.mark.parametrize(
    ("test", "states"),
    [
        ("rule: broken, values: '0.2 0.6x4 0.4 0.2x2', states: '. P P F F F R .'", ".PPFFFR."),
        ("rule: broken, values: '0.6/5x4', states: '....'", "...."),
        ("rule: broken, values: '0.6x4', states: '....', calls: 19", "...."),
        ("rule: broken, values: '0.6x3', states: 'Px2 F', interval: 1m", "PPF"),
        ("rule: broken, values: '0.6x3', states: 'PFF', interval: 2m", "PFF"),
        ("rule: broken, values: '0.6x3 - 0.6 ?', states: 'PPF R P .'", "PPFRP."),
        ("rule: twice, values: '5~2 5~3 5', states: 'F R .'", "FR."),
    ],
)
def test_a_rule_goes_through_the_states_that_its_test_expects(test: str, states: str) -> None:
    found = parse_rules(f"{RULES}  - {{name: it works, {test}}}")
    rules = {rule.name: rule for rule in found.rules}
    assert [run(one, rules[one.rule]) for one in found.tests] == [states]
    assert unfolded(found.tests[0].states) == states
    assert list(failures(found)) == []


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("rule: brokn, values: '1', states: '.'", "field 'rule': \"brokn\": is no rule of this file; there are broken"),
        ("rule: broken, values: '1 2', states: '.'", "has 1 state for 2 values"),
        ("rule: broken, values: '1 b', states: '..'", "value 'b' is not known; write 0.4"),
        ("rule: broken, values: '1', states: 'X'", "state 'X' is not known; write . (none)"),
        ("rule: broken, values: '1x999999', states: '.'", "values are at most"),
        ("rule: broken, values: '1', states: '.', interval: 0s", "must be longer than nothing"),
        ("rule: broken, values: '1'", "field 'states': is missing"),
        ("rule: broken, values: '1', states: '.', vals: '1'", "did you mean 'values'?"),
    ],
)
def test_a_mistake_in_a_test_is_named_with_its_line_and_remedy(test: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rules(f"{RULES}  - {{name: it works, {test}}}")
    (mistake,) = str(caught.value).splitlines()
    assert mistake.startswith("alerts.yaml:6: test 'it works'")
    assert message in mistake


def test_the_test_in_the_documentation_passes(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    rules, _, _ = (root / "examples/alerts.yaml").read_text(encoding="utf-8").partition("tests:")
    [shown] = re.findall(r"```yaml\n(tests:.*?)```", (root / "docs/alerts.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "alerts.yaml").write_text(f"{rules}{shown}", encoding="utf-8")
    done = misstep("rules", "test", "alerts.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_rules_of_the_cookbook_are_valid() -> None:
    section = (Path(__file__).parent.parent / "docs/alerts.md").read_text(encoding="utf-8").partition("## Cookbook")[2]
    rows = re.findall(r"^\| .+ \| `(\{.+\})` \|$", section, re.MULTILINE)
    assert len(rows) == section.partition("\n## ")[0].count("\n| ") - 2
    parse_rules("rules:\n" + "".join(f"  - {row}\n" for row in rows))


def test_the_command_says_where_a_test_fails(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(RULES + "  - {name: waits, rule: broken, values: '0.6x3', states: 'PFF'}\n")
    done = misstep("rules", "test", path, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{path}:6: test 'waits' of rule 'broken' fails at value 2:",
        "  expected PFF",
        "  found    PPF",
        "            ^",
        f"{path}: 1 test, 1 failed",
    ]
    path.write_text(path.read_text().replace("PFF", "PPF"))
    done = misstep("rules", "test", path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{path}: 1 test, 0 failed\n")
