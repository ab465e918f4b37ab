"""Rule files: what they mean, and that every mistake in them is reported."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from collector.alerts import rulefile, summary
from collector.alerts.notify import format_condition
from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import RuleError, default_rules, parse_rules
from collector.alerts.rules import MEASURES, Condition, Rule, contradicts, parse_condition
from collector.query.filters import DIMENSIONS
from collector.times import HOUR, SECOND
from tests.cpu import cpu_seconds

# Before Python 3.13, a service of Apprise imports it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

ROOT = Path(__file__).parent.parent
MINUTE = 60 * SECOND

GOOD = """
rules:
  - name: diff-tool-failing
    measure: error_rate
    where: {tool: apply_diff, mistake: true, service: "!test", error_class: [A, B]}
    by: [service, model]
    window: 15m
    condition: "> 0.3"
    recover: "< 0.2"
    min_calls: 20
    for: 5m
    keep_firing_for: 10m
    severity: critical
    labels: {team: agents}
    summary: "apply_diff fails {{ value | percent }} for {{ service }} on {{ model }}"
    notify: [team]
  - {name: everything, measure: errors, condition: ">= 3"}
receivers:
  team: {apprise: ["json://127.0.0.1/a", "json://127.0.0.1/b"], group_by: [name, team], group_wait: 30s, repeat: 4h}
  pager: {webhook: "https://example.org/hook"}
"""


def test_every_word_of_a_rule_is_taken() -> None:
    found = parse_rules(GOOD)
    rule, plain = found.rules
    assert rule.condition == Condition("> 0.3", ">", 0.3)
    assert rule.recover == Condition("< 0.2", "<", 0.2)
    assert rule.where == {"tool": "apply_diff", "mistake": True, "service": "!test", "error_class": ["A", "B"]}
    assert (rule.by, rule.window_ns, rule.min_calls) == (("service", "model"), 15 * MINUTE, 20)
    assert (rule.for_ns, rule.keep_firing_ns, rule.severity) == (5 * MINUTE, 10 * MINUTE, "critical")
    assert (rule.labels, rule.notify, rule.line) == ({"team": "agents"}, ("team",), 3)
    assert (plain.window_ns, plain.for_ns, plain.recover, plain.severity) == (HOUR, 0, None, "warning")
    assert plain.notify == ("team", "pager"), "a rule that does not say whom tells everybody"


def test_a_receiver_with_two_addresses_is_told_by_each_on_its_own() -> None:
    team, second, pager = parse_rules(GOOD).receivers
    assert (team.key, second.key, pager.key) == ("team", "team/2", "pager")
    assert (team.name, team.group_wait_ns, team.repeat_ns) == (second.name, 30 * SECOND, 4 * HOUR)
    assert (pager.kind, team.kind) == ("webhook", "apprise")
    assert "example.org" not in repr(pager)


@pytest.mark.parametrize(
    ("text", "measure", "operator", "number", "previous"),
    [
        ("> 0.3", "error_rate", ">", 0.3, 0),
        (">=3", "streak", ">=", 3, 0),
        ("< 1", "calls", "<", 1, 0),
        ("<= 30 %", "recovery_rate", "<=", 0.3, 0),
        ("> 30%", "error_rate", ">", 0.3, 0),
        ("> 15m", "silent", ">", 900, 0),
        ("> 90s", "p95_ms", ">", 90_000, 0),
        ("> 850", "p95_ms", ">", 850, 0),
        ("> 2x previous 7d", "errors", ">", 2, 7 * 24 * HOUR),
        ("> 1.5x previous 1h", "error_rate", ">", 1.5, HOUR),
    ],
)
def test_conditions_are_in_the_unit_of_the_measure(
    text: str, measure: str, operator: str, number: float, previous: int
) -> None:
    found = parse_condition(text, measure)
    assert found.number == pytest.approx(number)
    assert (found.operator, found.previous_ns) == (operator, previous)


@pytest.mark.parametrize(
    ("text", "measure", "remedy"),
    [
        ("0.3", "error_rate", "write a comparison"),
        ("> -1", "errors", "write a comparison"),
        ("== 3", "errors", "write a comparison"),
        ("> 3 or > 4", "errors", "write a comparison"),
        ("> 30", "error_rate", "write 0.3 or 30 %"),
        ("> 3 %", "errors", "write a plain number"),
        ("> 3m", "streak", "write a plain number"),
        ("> 2x previous 7d", "streak", "write a number"),
        ("> 2x previous 7d", "silent", "write a number"),
        ("> 100 %", "error_rate", "never holds: error_rate is at most 1"),
        ("< 0", "calls", "never holds: calls is not below 0"),
        ("< 0x previous 7d", "calls", "never holds: calls is not below 0"),
    ],
)
def test_conditions_that_can_never_be_meant_are_refused(text: str, measure: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parse_condition(text, measure)


@pytest.mark.parametrize("written", ["010", "1:30", "0x1F", "1_000", "7"])
def test_numbers_to_filter_by_stay_as_they_are_written(written: str) -> None:
    where = f"{{tool: {written}, session: [{written}, a]}}"
    file = parse_rules(f"rules:\n  - {{name: a, measure: errors, condition: '> 1', where: {where}}}")
    assert file.rules[0].where == {"tool": written, "session": [written, "a"]}


@pytest.mark.parametrize(
    ("condition", "recover", "wrong"),
    [
        ("> 0.3", "< 0.2", False),
        ("> 0.3", "<= 0.3", False),
        (">= 3", "< 3", False),
        (">= 3", "<= 3", True),
        ("> 0.3", "< 0.4", True),
        ("> 0.3", "> 0.2", True),
        ("< 0.5", "> 0.6", False),
        ("< 0.5", "> 0.4", True),
    ],
)
def test_no_value_may_fire_and_recover_at_once(condition: str, recover: str, wrong: bool) -> None:
    one, other = (parse_condition(text, "p95_ms") for text in (condition, recover))
    assert bool(contradicts(one, other)) is wrong


def test_a_condition_without_its_baseline_does_not_hold() -> None:
    condition = parse_condition("> 2x previous 7d", "errors")
    assert not condition.holds(5, None)
    assert condition.holds(5, 2.0)
    assert not condition.holds(4, 2.0)
    assert not condition.holds(None, 2.0)


RULE = "rules:\n  - name: a\n    measure: errors\n    condition: '> 1'\n"

# (what is appended to a good rule, line, what the message must contain)
BAD_LINES = [
    ("    windwo: 5m", 5, "rule 'a', field 'windwo': is not known here; did you mean 'window'?"),
    ("    window: 15 minutes", 5, "field 'window': \"15 minutes\": write a duration such as 30s, 15m"),
    ("    window: 15", 5, "field 'window': 15: write a duration"),
    ("    window: 0s", 5, "field 'window': \"0s\": must be longer than nothing"),
    ("    severity: warn", 5, "\"warn\": is none of info, warning, critical; did you mean 'warning'?"),
    ("    severity: x", 5, '"x": is none of info, warning, critical'),
    ("    min_calls: many", 5, "field 'min_calls': \"many\": must be a whole number"),
    ("    min_calls: -1", 5, "must be at least 0"),
    ("    by: [service, servce]", 5, "field 'by.2': \"servce\": is no dimension; did you mean 'service'?"),
    ("    by: service", 5, "field 'by': \"service\": must be a list"),
    ("    where: {toool: x}", 5, "field 'where.toool': \"x\": is no dimension; did you mean 'tool'?"),
    ("    where: {mistake: maybe}", 5, "mistake is true or false"),
    ("    where: {outcome: failed}", 5, "outcome is one of ok, error, cancelled, denied, unknown"),
    ("    where: {status_code: 4xx}", 5, "status_code is a whole number"),
    ("    where: {tool: yes}", 5, "put it in quotes"),
    ("    where: {tool: }", 5, "write a value, a list of values, or"),
    ("    recover: '> 3'", 5, "points the same way as the condition"),
    ("    recover: '< 5'", 5, "choose a number on the other side of it"),
    ("    notify: [teem]", 5, "field 'notify.1': \"teem\": is no receiver of this file"),
    ("    inhibits: [a]", 5, "field 'inhibits.1': \"a\": would hold back this rule itself"),
    ("    inhibits: [b]", 5, "field 'inhibits.1': \"b\": is no rule of this file; known are a"),
    (
        "    inhibits: [b]\n  - {name: b, measure: errors, condition: '> 1', inhibits: [a]}",
        5,
        "rule 'a', field 'inhibits.1': \"b\": would",
    ),
    ("    labels: {severity: high}", 5, "is set by Misstep; choose another name"),
    ("    by: [service]\n    labels: {service: all}", 6, "is what tells the alerts of this rule apart (by)"),
    ("    labels: {a b: high}", 5, "use letters, digits and underscores"),
    ("    summary: '{{ value | percent'", 5, "is not a template"),
    ("    summary: '{{ servce }}'", 5, "uses the unknown name 'servce'; it may use value, threshold"),
    ("    summary: '{{ value | sum }}'", 5, "uses the unknown filter 'sum'; there are default, duration"),
    ("    name: b", 5, "field 'name': is written twice; keep one"),
    ("    1: b", 5, "a key must be text; put it in quotes"),
    ("    on: b", 5, "a key must be text; put it in quotes"),
    ("  - {name: a, measure: errors, condition: '> 1'}", 5, "is the name of an earlier rule"),
    ("  - {name: A B, measure: errors, condition: '> 1'}", 5, "use small letters, digits and hyphens"),
    ("  - {measure: errors, condition: '> 1'}", 5, "rule 2, field 'name': is missing"),
    ("  - {name: b, measure: errs, condition: '> 1'}", 5, "did you mean 'errors'?"),
    ("  - {name: b, measure: error_rate, condition: '> 30'}", 5, "write 0.3 or 30 %"),
    ("  - nothing", 5, "rule 2: must be a mapping"),
    ("receivers: [a]", 5, "field 'receivers': must be a mapping"),
    ("receivers:\n  a: {}", 6, "receiver 'a': give one of apprise: [addresses], webhook: address, pagerduty: key"),
    ("receivers:\n  a: {webhook: 'ftp://x'}", 6, "write an http:// or https:// address"),
    ("receivers:\n  a: {webhook: 'http://x:99999/'}", 6, "names no host and port that can be reached"),
    ("receivers:\n  a: {webhook: 'http://[::1/'}", 6, "names no host and port that can be reached"),
    ("receivers:\n  a: {webhook: 'http://:80/'}", 6, "names no host and port that can be reached"),
    ("receivers:\n  a: {apprise: ['slak://x/y/z']}", 6, "is no address that Apprise knows"),
    ("receivers:\n  a: {apprise: ['json://x/a, json://x/b']}", 6, "names several recipients"),
    (
        "receivers:\n  a: {apprise: ['json://x', 'mailto://x?from=a@x.org&to=b@x.org,c@x.org']}",
        6,
        "write one address each",
    ),
    ("receivers:\n  a: {apprise: 'json://x'}", 6, "field 'apprise': \"json://…\": must be a list"),
    (
        "receivers:\n  a: {webhook: 'http://x', group_by: [servce]}",
        6,
        "is no label of any rule; did you mean 'service'?",
    ),
    ("receivers:\n  a: {webhook: 'http://x', repeat: 4 h}", 6, "write a duration"),
    ("rulez: []", 5, "did you mean 'rules'?"),
    ("    summary: [", 5, "is not YAML"),
    ("    summary: !!python/object:os.system x", 5, "has the tag 'python/object:os.system'"),
]


@pytest.mark.parametrize(
    ("measure", "text", "said"),
    [
        ("failing_sessions", "> 0.5", "> 50 %"),
        ("streak", ">= 3", "≥ 3"),
        ("silent", "> 30m", "> 30 min"),
        ("p95_ms", "> 2s", "> 2.0 s"),
        ("error_rate", "> 2x previous 7d", "> 2 × the 7 d before"),
    ],
)
def test_a_condition_is_written_in_the_unit_of_its_values(measure: str, text: str, said: str) -> None:
    assert format_condition(Rule("name", measure, parse_condition(text, measure), {})) == said


@pytest.mark.parametrize(("line", "number", "message"), BAD_LINES)
def test_a_mistake_is_named_with_its_line_and_remedy(line: str, number: int, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rules(RULE + line)
    (mistake,) = [one for one in str(caught.value).splitlines() if message in one]
    assert mistake.startswith(f"alerts.yaml:{number}: ")
    assert mistake.count("critical") < 2  # what is allowed is listed once


@pytest.mark.parametrize("text", ["", "[]", "text", "rules: {}", "rules:", "\t", "- " * 2000, "[" * 3000, "\x00"])
def test_what_is_no_rule_file_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        parse_rules(text)


def test_every_mistake_of_a_file_is_named_at_once() -> None:
    text = dedent("""
        rules:
          - {name: a, measure: errors, condition: "> 1", by: [x]}
          - {name: b, measure: errors, condition: "1", where: {y: 1}}
          - {name: c, measure: errors, condition: "> 1", notify: [z]}
          - {name: d, measure: errs, condition: "2", window: 0s, windwo: 5m, inhibits: [e], notify: [z]}
          - {name: [d], measure: errors, condition: "> 1", by: [5], where: {y: 1}}
          - 5
        receivers:
          r: {webhook: nowhere, group_by: [x]}
    """)
    with pytest.raises(RuleError) as caught:
        parse_rules(text)
    assert [(mistake.line, mistake.rule, mistake.field) for mistake in caught.value.mistakes] == [
        (3, "rule 'a'", "by.1"),
        (4, "rule 'b'", "condition"),
        (4, "rule 'b'", "where.y"),
        (5, "rule 'c'", "notify.1"),
        (6, "rule 'd'", "condition"),
        (6, "rule 'd'", "inhibits.1"),
        (6, "rule 'd'", "measure"),
        (6, "rule 'd'", "notify.1"),
        (6, "rule 'd'", "window"),
        (6, "rule 'd'", "windwo"),
        (7, "rule 5", "by.1"),
        (7, "rule 5", "name"),
        (7, "rule 5", "where.y"),
        (8, "rule 6", ""),
        (10, "receiver 'r'", "group_by.1"),
        (10, "receiver 'r'", "webhook"),
    ]


def test_mistakes_do_not_repeat_the_secrets_of_addresses() -> None:
    secret = "s3cr" + "et"
    for receiver in (
        f"web_hook: 'https://{secret}'",
        f"webhook: 'ftp://u:{secret}@h'",
        f"apprise: ['slak://{secret}/a b']",
        f"webhook: example.org/hook/{secret}",
        f"webhook: 'http:/example.org/{secret}'",
        f"webhook: [{secret}]",
        f"webhook: {{url: {secret}, 1{secret}: x}}",
        f"apprise: ['tgram:/110201543:{secret}/1']",
        f"apprise: tgram:/110201543:{secret}/1",
        f"apprise: [{{{secret}: x}}]",
        f"apprise: [{{? [{secret}] : x}}]",
        f"telegram: {{token: {secret}}}",
    ):
        with pytest.raises(RuleError) as caught:
            parse_rules(f"{RULE}receivers:\n  a: {{{receiver}}}")
        assert secret not in str(caught.value)


def test_aliases_that_unfold_without_end_are_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(RuleError, match="use fewer aliases"):
        parse_rules("\n".join(lines))


def test_anchors_and_merge_keys_may_be_used() -> None:
    text = "rules:\n  - &a {name: a, measure: errors, condition: '> 1'}\n  - {<<: *a, name: b}\n"
    assert [rule.name for rule in parse_rules(text).rules] == ["a", "b"]


def test_a_file_of_receivers_alone_sends_them_the_default_rules() -> None:
    found = parse_rules("receivers:\n  pager: {webhook: 'http://127.0.0.1:1/'}\n")
    assert [rule.name for rule in found.rules] == [rule.name for rule in default_rules().rules]
    assert {rule.notify for rule in found.rules} == {("pager",)}


@pytest.mark.parametrize("path", ["schemas/rules.default.yaml", "examples/alerts.yaml"])
def test_the_files_that_come_with_the_program_have_no_mistake(path: str) -> None:
    found = parse_rules((ROOT / path).read_text())
    assert len(found.rules) >= 5
    for rule in found.rules:
        values = dict.fromkeys(rule.by, "x") | {
            "value": 1.0,
            "threshold": 1.0,
            "calls": 7,
            "name": "n",
            "severity": "info",
        }
        assert "{" not in summary.render(rule.summary, values)


def test_the_schema_names_what_the_code_knows() -> None:
    schema = json.loads((ROOT / "schemas/rules.schema.json").read_text())
    rule = schema["$defs"]["rule"]["properties"]
    assert set(schema["$defs"]["dimension"]["enum"]) == {dimension.name for dimension in DIMENSIONS}
    assert set(rule["measure"]["enum"]) == set(MEASURES)
    text = yaml.safe_load((ROOT / "schemas/rules.default.yaml").read_text())
    assert {key for one in text["rules"] for key in one} <= set(rule)


def test_a_changed_file_is_taken_and_a_broken_one_keeps_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    book = RuleBook(path)
    assert len(book.file.rules) == len(default_rules().rules)

    path.write_text(RULE)
    assert book.refresh()
    assert [rule.name for rule in book.file.rules] == ["a"]
    assert not book.refresh(), "nothing changed"

    path.write_text(RULE + "    windwo: 5m")
    assert not book.refresh()
    assert [rule.name for rule in book.file.rules] == ["a"]
    assert "windwo" in str(book.error)

    path.write_text(RULE.replace("name: a", "name: bb"))
    assert book.refresh()
    assert book.error is None
    assert [rule.name for rule in book.file.rules] == ["bb"]


def test_a_file_that_vanishes_keeps_its_rules_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(RULE)
    book = RuleBook(path)
    path.unlink()
    assert not book.refresh()
    assert [rule.name for rule in book.file.rules] == ["a"]
    assert str(book.error).startswith(f"{path}:1: is gone: what was read from it stays in force")

    path.write_text(RULE)
    assert book.refresh()
    assert book.error is None


def test_a_broken_file_that_is_removed_is_no_mistake_any_more(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text("rules: [")
    book = RuleBook(path)
    said = [str(book.error)]
    path.unlink()
    assert book.refresh()
    said.append(str(book.error))
    assert (said[0] != "None", said[1], book.file) == (True, "None", default_rules())


def test_a_file_that_is_broken_at_the_start_leaves_the_default_rules(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    book = RuleBook(path)
    assert "cannot be read" in str(book.error)
    assert book.file.rules


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ value | percent }}", "34 %"),
        ("{{ 0.041 | percent }} {{ 1.0 | percent }} {{ 0 | percent }}", "4.1 % 100 % 0 %"),
        ("{{ 12345.678 | number }} {{ 3.0 | number }} {{ 100 | number }}", "12,345.68 3 100"),
        (
            "{{ 5400 | duration }} {{ 59.6 | duration }} {{ 0.2 | duration }} {{ 90061 | duration }}",
            "1 h 30 min 1 min 0 s 1 d 1 h",
        ),
        ("{{ service if service else 'nobody' }}", "api"),
        ("{{ service.__class__.__mro__ }}", "{{ service.__class__.__mro__ }}"),
        ("{{ value / 0 }}", "{{ value / 0 }}"),
        ("{{ value + service }}", "{{ value + service }}"),
    ],
)
def test_templates_render_or_stay_as_they_are(template: str, text: str) -> None:
    assert summary.render(template, {"value": 0.344, "service": "api"}) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10 ** 12 }}{% for i in range(10 ** 12) %}{{ i }}{% endfor %}",
        "{{ 'a' * 1000000000 }}", "{{ 1000000000 * 'a' }}", "{{ service * calls }}", "{{ [1] * 1000000000 }}",
        "{% for a in 'aa' %}{% for b in 'aa' %}{{ a }}{% endfor %}{% endfor %}", "{{ 'a'.ljust(1000000000) }}",
        "{{ '{:>1000000000}'.format(1) }}", "{{ '%1000000000d' % 1 }}", "{{ 9 ** 9 ** 9 }}",
        "{{ range(1000000000) | list }}", "{% set a = service %}{% set a = a ~ a %}{{ a }}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "{{ 'a' | center(1000000000) }}", "{{ lipsum(1000) }}",
        "{% with a = service %}{{ a ~ a }}{% endwith %}", "{% include 'a' %}",
        "{{ " + "(" * 900 + "1" + ")" * 900 + " }}",
        "{{ " + "-" * 900 + "1 }}", "{% if 1 %}" * 200 + "{% endif %}" * 200, "a" * 4001,
    ],
)  # fmt: skip
def test_a_template_that_could_grow_is_refused_and_never_run(template: str) -> None:
    values = {"value": 0.3, "calls": 10**9, "service": "api"}

    def shown() -> None:
        assert summary.mistakes(template, values)
        assert summary.render(template, values) == template[: summary.LIMIT]

    assert cpu_seconds(shown, enough=0.5) < 2


@pytest.mark.parametrize("digits", ["1000000000", "-1000000000"])
def test_no_number_of_digits_is_too_large_to_round(digits: str) -> None:
    assert cpu_seconds(lambda: summary.render(f"{{{{ 5 | round({digits}) }}}}", {}), enough=0.1) < 0.5


def test_rule_files_are_bounded() -> None:
    with pytest.raises(RuleError, match="larger than 256 KiB"):
        parse_rules("#" * (rulefile.MAX_BYTES + 1))


def test_the_documentation_names_every_word() -> None:
    text = (ROOT / "docs/alerts.md").read_text()
    schema = json.loads((ROOT / "schemas/rules.schema.json").read_text())["$defs"]
    words = [*schema["rule"]["properties"], *schema["receiver"]["properties"], *MEASURES]
    assert [word for word in words if f"`{word}`" not in text and f"`{word}:" not in text] == []


HOSTILE = {
    "a number of base 60": "rules: " + ":".join(["1"] * 100_000),
    "its fraction": "rules: " + ":".join(["1"] * 100_000) + ".5",
    "a long hex number": "rules: 0x" + "f" * 6000,
    "a tagged number": "rules: !!int '" + ":".join(["1"] * 50_000) + "'",
    "an object": "rules: !!python/object/apply:os.system [x]",
    "a date that is none": "rules: !!timestamp 2026-99-99",
    "a number beyond all": "rules: [{name: a, measure: errors, condition: '> 1', min_calls: .inf}]",
    "aliases of aliases": "a: &a [x, x]\n" + "".join(
        f"a{i}: &a{i} [*a{i - 1 or ''}, *a{i - 1 or ''}]\n" for i in range(1, 30)
    ),
    "an alias of itself": "rules: &a {<<: *a}",
    "lists in lists": "[" * 200_000,
    "dashes": "- " * 100_000,
    "many parts": "- a\n" * 60_000,
    "many names": "rules:\n  - {name: a, " + ", ".join(f"nam{i}: 1" for i in range(4000)) + "}",
    "a list of many kinds": "rules:\n  - {name: a, by: [" + ", ".join(["a", "1"] * 4500) + "]}",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_rule_file_takes_long_to_refuse(kind: str) -> None:
    def refused() -> None:
        with pytest.raises(RuleError):
            parse_rules(HOSTILE[kind])

    assert cpu_seconds(refused, enough=1) < 3
