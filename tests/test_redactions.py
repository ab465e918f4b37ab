"""Every redaction rule against its own examples, and what the loader reports about a wrong table."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import hyperscan
import pytest

from collector.sanitise.examples import check_cuts
from collector.sanitise.redactions import Rule, compile_patterns, load_rules, shortest, word_pattern
from collector.sanitise.sanitise import Sanitiser
from collector.tables import TableError
from tests.secrets import OWN_RULE, assemble

RULES = load_rules()


@cache
def sanitiser() -> Sanitiser:
    return Sanitiser(RULES)


def _ids(rule: Rule) -> str:
    return rule.id


def test_there_are_rules_for_more_than_a_hundred_formats() -> None:
    assert len([rule for rule in RULES if rule.family == "token"]) >= 150
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=_ids)
def test_examples_are_cut_and_counter_examples_are_not(rule: Rule) -> None:
    rng = random.Random(rule.id)
    assert rule.examples
    assert rule.counter_examples
    for example in rule.examples:
        for _ in range(3):
            text = assemble(example, rng)
            assert sanitiser().scrub(text)[1], text
    for example in rule.counter_examples:
        text = assemble(example, rng)
        assert rule.id not in sanitiser().scrub(text)[1], text


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.family == "token" and rule.keywords], ids=_ids)
def test_every_match_contains_one_of_its_keywords(rule: Rule) -> None:
    rng = random.Random(rule.id)
    assert all(any(word in assemble(example, rng) for word in rule.keywords) for example in rule.examples)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.pattern], ids=_ids)
def test_every_pattern_is_linear_in_hyperscan(rule: Rule) -> None:
    compile_patterns.__wrapped__((shortest(rule.pattern),), (hyperscan.HS_FLAG_SINGLEMATCH,))


def test_telling_words_take_every_case_style() -> None:
    assert word_pattern("api key") == r"api[_\-. ]?key"
    for key in ("apiKey", "API_KEY", "api-key", "APIKEY", "x-api-key", "openai.api.key", "ApiKey"):
        assert sanitiser().scrub_value({key: "5f" * 16})[1] == ("api-key",), key


def test_a_user_adds_rules_words_and_exceptions(tmp_path: Path) -> None:
    own = tmp_path / "redactions.toml"
    own.write_text(
        OWN_RULE
        + """
        [[rule]]
        id = "acme-german"
        title = "The same in German"
        family = "token"
        pattern = '(?:schlüssel|ключ)-[A-Z0-9]{12}'
        [[rule]]
        id = "acme-door"
        title = "A word without a check takes whatever is said"
        family = "keyed"
        words = ["door code"]
        [[rule]]
        id = "acme-word"
        title = "What we call a password"
        family = "keyed"
        words = ["sesame"]
        check = ["given"]
        [allow]
        values = ["5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f"]
        keys = ["fixture_token"]
        """
    )
    scrub = Sanitiser(load_rules(own)).scrub_value
    token = assemble("{alnum:32}", random.Random(3))
    assert scrub("use acme_a1b2c3d4e5f6 here")[0] == "use [redacted:acme-key] here"
    for word in ("schlüssel", "ключ"):
        assert scrub(f"ein {word}-A1B2C3D4E5F6 hier")[0] == "ein [redacted:acme-german] hier"
    for door in ({"doorCode": "1234abcd", "path": "a.py"}, {"args": [{"name": "doorCode", "value": "1234abcd"}]}):
        assert scrub(door)[1] == ("acme-door",)
    assert scrub({"text": '{"value": "1234abcd", "name": "doorCode"}'})[1] == ("acme-door",)
    assert scrub("<doorCode>1234abcd</doorCode> and doorCode=1234abcd")[1] == ("acme-door", "acme-door")
    assert scrub({"sesame": "0pen-now"})[0] == {"sesame": "[redacted:acme-word]"}
    for value in ({"token": "5f" * 16}, f"token={'5f' * 16}", {"fixture_token": token}, f"fixture_token={token}"):
        assert scrub(value)[0] is value
    assert scrub({"token": token})[1] == ("token",)


def test_a_users_form_is_cut_whatever_its_characters(tmp_path: Path) -> None:
    own = tmp_path / "redactions.toml"
    forms = {"ssn": ("[0-9]{3}-[0-9]{2}-[0-9]{4}", ""), "employee": ("E[0-9]{6}", "E")}
    own.write_text(
        "\n".join(
            f'[[rule]]\nid = "{name}"\ntitle = "t"\nfamily = "token"\npattern = "{form}"\nkeywords = ["{word}"]'
            for name, (form, word) in forms.items()
        ).replace('[""]', "[]")
    )
    scrub = Sanitiser(load_rules(own)).scrub
    few = "ssn {}-12-{} of E1{}".format("123", "1234", "12233")
    assert scrub(few) == ("ssn [redacted:ssn] of [redacted:employee]", ("ssn", "employee"))


@pytest.mark.parametrize("number", [4, 40])
def test_a_user_may_add_many_words(number: int) -> None:
    names = [f"{first}{second}door" for first in "abcdefg" for second in "uvwxyz"][:number]
    words = tuple(f"{name} code" for name in names)
    own = Rule("acme-door", "Codes of doors", "keyed", words=words, check=("given",))
    scrub = Sanitiser((*RULES, own), personal="keep").scrub_value
    assert all(scrub({f"{name}Code": "kitty-42"})[1] == ("acme-door",) for name in names)


def test_examples_of_a_users_rules_are_run(tmp_path: Path) -> None:
    own = tmp_path / "redactions.toml"
    rule = OWN_RULE + 'examples = ["acme_a1b2c3d4e5f6"%s]\ncounter_examples = ["acme_tool"%s]'
    own.write_text(rule % ("", ""))
    check_cuts(Sanitiser(load_rules(own)), [own])
    own.write_text(rule % (', "acme-a1b2c3d4e5f6"', ', "acme_z9y8x7w6v5u4"'))
    with pytest.raises(TableError) as error:
        check_cuts(Sanitiser(load_rules(own)), [own])
    assert error.value.mistakes == (
        "rule 'acme-key': examples: number 2 must be cut, but is not",
        "rule 'acme-key': counter_examples: 'acme_z9y8x7w6v5u4' must not be cut by this rule, but is",
    )


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"', "rule 'x': pattern: must be given"),
        ('[[rule]]\nid = "X_1"\ntitle = "t"\nfamily = "token"\npattern = "abc"', "rule 'X_1': id"),
        (
            '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "tokens"\npattern = "abc"',
            "family: 'tokens' is not one of token",
        ),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "(a+)+b"', "not linear"),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "a(?=b)"', "no look-around"),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "a*"', "matches the empty text"),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "a["', "pattern"),
        (
            '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "abc"\ncheck = ["strange"]',
            "check: 'strange'",
        ),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "keyed"', "words"),
        (
            '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "keyed"\nwords = ["schlüssel"]',
            "'schlüssel': only letters a to z",
        ),
        (
            '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "keyed"\nwords = ["a"]\ncheck = ["digit"]',
            "['digit'] is not one of given",
        ),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "k[äö]"', "write (?:ä|ö)"),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "kä+"', "write (?:ä|ö)"),
        (
            '[[rule]]\nid = "home"\ntitle = "t"\nfamily = "token"\npattern = "abc"',
            "rule 'home': family: must stay",
        ),
        ('[[rule]]\nid = "x"\ntitle = 3\nfamily = "keyed"\nwords = "a"', "words: must be a list of texts, not 'a'"),
        (
            '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "abc"\nkeyword = ["a"]',
            "keyword: is not known",
        ),
        ('[[rule]]\nid = "x"\ntitle = "t"\nfamily = "command"\npattern = "abc"\nvalue = "all"', "value: 'all'"),
        ("[allow]\nvalues = 3", "[allow]"),
        ("[rules]", "'rules' is not known"),
        (
            2 * '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\npattern = "abc"\n',
            "used more than once",
        ),
    ],
)
def test_a_bad_table_names_row_field_value_and_remedy(tmp_path: Path, table: str, says: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(table)
    with pytest.raises(TableError) as error:
        load_rules(own)
    assert says in str(error.value)
    assert str(own) in str(error.value)


def test_every_mistake_of_a_table_is_told_at_once(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[rule]]\nid = "x"\ntitle = "t"\nfamily = "token"\n[[rule]]\nid = "y"\ntitle = "t"\nfamily = "keyed"\n'
    )
    with pytest.raises(TableError) as error:
        load_rules(own)
    assert len(error.value.mistakes) == 2
