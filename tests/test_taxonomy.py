"""The table of classes: complete, without contradictions, each row with evidence; and errors in wrong tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.classify.classify import Evidence, load_taxonomy
from collector.classify.taxonomy import RETRYABLE, Table, automaton, build
from collector.tables import TableError, load_toml, schemas

CLASSES = """
InvalidStream ChunkParse ChunkHandler StreamAborted UserInterrupt StreamProvider Token ContextOverflow OutputLimit
MissingParameter InvalidParameter InvalidTool MalformedToolCall FileNotFound FileExists NotAFile PermissionDenied
IgnoreViolation SandboxViolation DiskFull ContentNotFound ContentMismatch DuplicateMatch NoChange EditWithoutRead
CommandTimeout CommandFailed CommandNotFound ToolTimeout DiffApplyFailed BrowserAction McpTool McpResource McpConnection
ToolExecution ToolRepetition ConsecutiveMistake ToolAuthentication ToolPermission ResourceNotFound RateLimit Overloaded
Quota Authentication Timeout Connection Server InvalidResponse Api ModelNotFound Refused StorageNotFound
StorageAlreadyExists StorageParse Sqlite Io Serialization InvalidTransition MaxIterations ParentNotFound
ArtifactNotFound LoopInvalidated ValidationFailed WorktreeLost WorktreeCreation WorktreeRemoval MergeConflict
BranchNotFound GitCommandFailed ConfigFileNotFound InvalidConfig MissingField InvalidValue EnvNotSet Unknown
"""
SEEDS = {"roo-code", "roo-code-ja", "kode-sdk", "loopr", "openagents"}
BUILT_IN = schemas() / "taxonomy.toml"
TAXONOMY = load_taxonomy()
TABLE, MISTAKES = build(load_toml(BUILT_IN))
ROWS = TABLE.messages


def test_every_class_is_there_once_and_no_other() -> None:
    assert sorted(TAXONOMY.classes) == sorted(f"{name}Error" for name in CLASSES.split())
    assert not MISTAKES


@pytest.mark.parametrize("name", TAXONOMY.classes)
def test_a_class_agrees_with_itself(name: str) -> None:
    row = TAXONOMY.classes[name]
    assert row.retryable == (row.recovery in RETRYABLE)
    assert not row.mistake or (row.attribution == "model" and row.category != "state")
    assert set(row.seeds) <= SEEDS
    for text in (row.title, row.advice_model, row.advice_person):
        assert text[0].isupper()
    for advice in (row.advice_model, row.advice_person):
        assert advice.endswith((".", "`."))


@pytest.mark.parametrize("name", TAXONOMY.classes)
def test_a_class_can_be_reached(name: str) -> None:
    row = TAXONOMY.classes[name]
    by_text = any(message.error_class == name for message in ROWS)
    assert by_text or row.aliases or row.aliases_of or row.shapes or row.status or name == "UnknownError"
    assert TAXONOMY.classify(Evidence(operation="agent", reported=name))[0] == row.becomes.get("agent", name)


@pytest.mark.parametrize(("name", "source"), TABLE.meant_by)
def test_an_override_names_its_seed_and_changes_or_confirms_something(name: str, source: str) -> None:
    override = TAXONOMY.classes[name].overrides[source]
    assert override.because.split(":")[0].split(",")[0] in SEEDS
    assert source in SEEDS
    assert set(TAXONOMY.classes[name].seeds) & {source, f"{source}-ja"}, "the row must list the seed it quotes"


def test_examples_come_to_their_class_and_counter_examples_do_not() -> None:
    """`load_taxonomy` runs all of them; this only tests that there are some."""
    assert all(row.examples and row.counter_examples for row in ROWS)
    assert sum(len(row.examples) + len(row.counter_examples) for row in ROWS) > 700


def patterns_without_example(table: Table) -> Iterator[str]:
    patterns = [(row, pattern) for row in table.messages for pattern in row.match]
    database = automaton([*enumerate(pattern for _, pattern in patterns)])
    hits: dict[int, set[int]] = {}
    for row in table.messages:
        found = hits[id(row)] = set()
        for text in row.examples:
            plain = text.replace('\\"', '"').replace("\\n", "\n")
            database.scan(plain.encode(), lambda number, *_, found=found: found.add(number))
    for number, (row, pattern) in enumerate(patterns):
        if number not in hits[id(row)]:
            yield f"{row.error_class}: {pattern}"


def test_every_pattern_has_an_example_that_it_matches() -> None:
    assert [*patterns_without_example(TABLE)] == []


GUIDE = Path(__file__).parent.parent / "docs" / "taxonomy.md"


def test_a_users_file_as_the_guide_shows_it_adds_classes_names_and_texts_that_are_asked_first(tmp_path: Path) -> None:
    own = tmp_path / "taxonomy.toml"
    own.write_text(GUIDE.read_text().split("```toml\n")[1].split("```")[0])
    taxonomy = load_taxonomy(own)
    assert taxonomy.classify(Evidence(reported="acme.FreezeException")) == ("DeployFrozenError", "alias")
    assert taxonomy.classify(Evidence(reported="OurFileMissing")) == ("FileNotFoundError", "alias")
    assert taxonomy.classify(Evidence(reported="ENOENT")) == ("FileNotFoundError", "alias")
    text = "no such file or directory: deploys are frozen until 2027"
    assert taxonomy.classify(Evidence(text=text)) == ("DeployFrozenError", "message")
    assert TAXONOMY.classify(Evidence(text=text)) == ("FileNotFoundError", "message")


def test_a_later_file_replaces_fields(tmp_path: Path) -> None:
    own = tmp_path / "taxonomy.toml"
    own.write_text('[classes.FileNotFoundError]\nseverity = "error"\n')
    assert load_taxonomy(own).defaults("FileNotFoundError", "").severity == "error"
    assert TAXONOMY.defaults("FileNotFoundError", "").severity == "warn"


WRONG = """
colour = 1
[classes.Lost]
domain = "tool"
category = "x"
attribution = "modle"
mistake = "yes"
recovery = "retry"
retryable = true
fatal = false
severity = "warn"
title = "Lost"
advice_model = "Look."
advise_person = "Look."

[classes.TokenError]
recovery = "retry"
aliases = ["ENOENT"]
gives_way_to = ["nothing"]
becomes = { tool = "NoSuchError" }

[[messages]]
class = "NoSuchError"
match = ['lost']
examples = []
"""


def test_every_mistake_is_named_with_file_row_and_field(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(WRONG)
    with pytest.raises(TableError) as wrong:
        load_taxonomy(own)
    text = str(wrong.value)
    for expected in (
        "colour: is not known; known are generic, kinds, refused, classes, messages",
        "classes.Lost: attribution: Invalid enum value 'modle'",
        "classes.Lost: mistake: Expected `bool`, got `str`; got 'yes'",
        "classes.Lost: advise_person: is not known",
        "classes.Lost: advice_person: is missing",
        "classes.TokenError: retryable: False contradicts recovery 'retry'",
        "classes.TokenError: gives_way_to: no class, category or domain is named 'nothing'",
        "classes.TokenError: becomes: no class is named 'NoSuchError'",
        "'enoent' already means",
        "messages[1]: class: no class is named 'NoSuchError'",
        "messages[1]: examples: needs at least one text",
    ):
        assert expected in text
    assert all(line.startswith(str(own)) for line in text.splitlines())


@pytest.mark.parametrize(
    ("row", "complaints"),
    [
        ("match = ['(unclosed']\nexamples = ['x']", ["'(unclosed' is no Hyperscan pattern"]),
        (
            "match = ['frobnicate']\nexamples = ['frozen']\ncounter_examples = ['frobnicates']",
            [
                "'frozen' must come to DiskFullError, but comes to UnknownError",
                "'frobnicates' must not come to DiskFullError",
            ],
        ),
    ],
)
def test_a_message_row_that_does_not_do_what_it_says_is_refused(
    tmp_path: Path, row: str, complaints: list[str]
) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(f'[[messages]]\nclass = "DiskFullError"\n{row}\n')
    with pytest.raises(TableError, match="messages\\[1\\]") as wrong:
        load_taxonomy(own)
    assert [each for each in complaints if each not in str(wrong.value)] == []


def test_a_row_that_is_no_table_is_named(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text("[classes]\nFrozenError = 1\n")
    with pytest.raises(TableError, match=r"classes\.FrozenError: must be a table, not 1"):
        load_taxonomy(own)
