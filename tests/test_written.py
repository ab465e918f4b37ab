"""Changes of a rule file's text: one part changes, every other byte stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.alerts import written
from collector.alerts.rulefile import parse_rules, read_values
from collector.errors import Rejected

EXAMPLE = (Path(__file__).parents[1] / "examples" / "alerts.yaml").read_text()
NEW: dict[str, Any] = {"name": "new-one", "measure": "errors", "where": {"fingerprint": "7"}, "condition": "> 12"}
A = {"name": "a", "measure": "errors", "condition": "> 2", "for": "1m"}
ADDED = "- name: new-one\n  measure: errors\n  where: {fingerprint: '7'}\n  condition: '> 12'\n"


def indented(text: str, by: str) -> str:
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def add(text: str) -> str:
    return written.with_rule(text, NEW)


def alter(text: str) -> str:
    return written.with_changed_rule(text, "a", A)


def remove(text: str) -> str:
    return written.without_rule(text, "a")


def receive(text: str) -> str:
    return written.with_receiver(text, "x", {"webhook": "https://y"})


ONE = "rules:\n- name: a # it\n  measure: errors\n  condition: '> 1'  # why\n  # deeper\n\n# end\n"
LAST = "rules:\n  - name: a\n    measure: errors\n    condition: '> 1'\n    description: |\n      text\n\n  # after"

CASES: list[tuple[Callable[[str], str], str, str]] = [
    (add, ONE, ONE.replace("# deeper\n", f"# deeper\n{ADDED}")),
    (alter, ONE, ONE.replace("> 1", "> 2").replace("# why\n", "# why\n  for: 1m\n")),
    (remove, ONE, "rules: []  # why\n  # deeper\n\n# end\n"),
    (receive, ONE, f"{ONE}\nreceivers:\n  x: {{webhook: 'https://y'}}\n"),
    (add, ONE.replace("\n", "\r\n"), ONE.replace("# deeper\n", f"# deeper\n{ADDED}").replace("\n", "\r\n")),
    (alter, "\ufeff" + ONE, "\ufeff" + ONE.replace("> 1", "> 2").replace("# why\n", "# why\n  for: 1m\n")),
    (add, LAST, LAST.replace("text\n", f"text\n{indented(ADDED, '  ')}")),
    (alter, LAST, LAST.replace("    description: |\n      text\n", "    for: 1m\n").replace("> 1", "> 2")),
    (add, "rules: []  # none yet\ntests: []\n", f"rules:   # none yet\n{indented(ADDED, '  ')}tests: []\n"),
    (receive, "rules: []\nreceivers:\n    t: {webhook: 'https://t'} # us",
     "rules: []\nreceivers:\n    t: {webhook: 'https://t'} # us\n    x: {webhook: 'https://y'}\n"),
    (receive, '{"rules": []}', "{\"rules\": [], receivers: {x: {webhook: 'https://y'}}}"),
    (receive, "receivers: {}\n", "receivers: {x: {webhook: 'https://y'}}\n"),
    (add, '{"rules": []}',
     "{\"rules\": [{name: new-one, measure: errors, where: {fingerprint: '7'}, condition: '> 12'}]}"),
    (alter, "rules: [{name: a, measure: errors, condition: '> 1'}, ]\n",
     "rules: [{name: a, measure: errors, condition: '> 2', for: 1m}, ]\n"),
    (remove, "rules: [{name: a, measure: errors, condition: '> 1'}, {name: b, measure: calls, condition: '> 1'}] # x\n",
     "rules: [{name: b, measure: calls, condition: '> 1'}] # x\n"),
    (remove, "rules: [{name: b, measure: errors, condition: '> 1'}, {name: a, measure: calls, condition: '> 1'}] # x\n",
     "rules: [{name: b, measure: errors, condition: '> 1'}] # x\n"),
    (remove, "rules:\n# of a\n- {name: a, measure: errors, condition: '> 1'}\n"
     "- {name: b, measure: calls, condition: '> 1'}",
     "rules:\n# of a\n- {name: b, measure: calls, condition: '> 1'}"),
    (alter, "rules:\n- measure: errors\n  name: a\n  where:\n    tool: x\n    # which\n"
     "  condition:\n    '> 1'\n  for: 1m\n",
     "rules:\n- measure: errors\n  name: a\n  condition:\n    '> 2'\n  for: 1m\n"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "before", "after"), CASES)
def test_one_part_changes_and_every_other_byte_stays(edit: Callable[[str], str], before: str, after: str) -> None:
    assert edit(before) == after


@pytest.mark.parametrize("edit", [add, alter, remove])
@pytest.mark.parametrize("before", ["", "# mine\n", "receivers:\n  team: {webhook: 'https://t'}  # us\n"])
def test_a_file_without_rules_gets_the_default_ones_with_their_comments(
    edit: Callable[[str], str], before: str
) -> None:
    names = [rule.name for rule in parse_rules("receivers: {}").rules]
    if edit is not add:
        with pytest.raises(Rejected, match=f"there is no rule 'a'; there are: {names[0]}"):
            edit(before)
        return
    after = edit(before)
    assert after.startswith(before)
    assert "# Roo Code stops and asks its user after three" in after
    assert [rule.name for rule in parse_rules(after).rules] == [*names, "new-one"]


def test_the_example_keeps_its_comments() -> None:
    added = written.with_rule(EXAMPLE, NEW)
    place = added.index("  - name: new-one")
    assert added[:place] + added[added.index("\n\n", place) + 2 :] == EXAMPLE
    assert written.without_rule(added, "new-one").replace("\n\n\n", "\n\n") == EXAMPLE
    received = written.with_receiver(EXAMPLE, "chat: #1", {"apprise": ["slack://a/b/c/#d"]})
    assert written.without_receiver(received, "chat: #1") == EXAMPLE
    changed = written.with_changed_rule(EXAMPLE, "diff-tool-failing", {
        **read_values(EXAMPLE)["rules"][1], "condition": "> 40 %",
    })  # fmt: skip
    assert changed == EXAMPLE.replace('condition: "> 30 %"', "condition: '> 40 %'")
    assert written.rule_text(EXAMPLE, "lasting-failures").endswith("previous version.\nnotify: [team, pager]")


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (remove, "rules:\n- &r\n  name: a\n  measure: errors\n  condition: '> 1'\n- {<<: *r, name: b}\n"),
        (alter, "rules:\n- &r\n  name: a\n  measure: errors\n  condition: '> 1'\n- {<<: *r, name: b}\n"),
        (receive, "---\nrules: []\n...\n"),
        (add, "- a\n"),
    ],
)
def test_what_cannot_be_changed_in_place_is_refused(edit: Callable[[str], str], text: str) -> None:
    with pytest.raises(Rejected, match="change it by hand"):
        edit(text)


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@given(summary=TEXT, value=TEXT, label=TEXT)
def test_any_text_is_read_as_it_was_meant(summary: str, value: str, label: str) -> None:
    rule = {**NEW, "where": {"tool": value}, "summary": summary, "labels": {"team": label}}
    after = written.with_rule(ONE, rule)
    assert read_values(after)["rules"][1] == rule
    assert after.replace(after[after.index("- name: new-one") : after.index("\n# end")], "") == ONE
