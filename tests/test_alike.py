"""Texts that differ in a number inside a name are read once, and mean what each of them means by itself."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from collector.alike import alike
from collector.classify.template import fingerprint
from collector.recognise import settle as settling
from collector.recognise.readings import Rules
from collector.recognise.settle import Said, settle, settled

DATA = Path(__file__).parent / "data"
FILES = [tomllib.loads(path.read_text()) for path in sorted(DATA.glob("*-groups.toml"))]
GROUPED = [text for file in FILES for texts in file.values() for text in texts if isinstance(text, str)]
RECORDED = [json.loads(line)["text"] for line in (DATA / "recorded-errors.jsonl").read_text().splitlines()]
NUMBERED = sorted({text for text in (*GROUPED, *RECORDED) if alike(text) != text})

PLAIN = Rules()
SHELL = Rules(exit_header=(re.compile(r"^Process exited with code_(\d+)", re.M),))


def with_other_numbers(text: str) -> str:
    return re.sub(r"(?<=_)\d+", lambda found: "7" * len(found[0]), text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("no file src/module_17.py", "no file src/module_98.py"),
        ("column user_1_2 is missing", "column user_9_8 is missing"),
        ("no job build_2026", "no job build_1999"),
        ("no ключ_17", "no ключ_18"),
    ],
)
def test_numbers_inside_names_make_no_difference(text: str, other: str) -> None:
    assert alike(text) == alike(other)
    assert len(alike(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("exit code 1", "exit code 2"),
        ("HTTP 404", "HTTP 500"),
        ("no file src/module_17.py", "no file src/module_170.py"),
        ("error TS2304", "error TS2305"),
        ("v1 is gone", "v2 is gone"),
        ("at 11/21/2026", "at 12/21/2026"),
    ],
)
def test_other_numbers_do(text: str, other: str) -> None:
    assert alike(text) != alike(other)


def test_a_template_is_that_of_the_text_whatever_was_read_before() -> None:
    assert len(NUMBERED) > 40
    read_alone = fingerprint._template.__wrapped__
    for text in NUMBERED:
        fingerprint.template(with_other_numbers(text))
        assert fingerprint.template(text) == read_alone(text)


def test_a_name_that_stays_in_a_template_keeps_its_number() -> None:
    for number in (101, 202, 101):
        assert f"limit_exceeded_{number}" in fingerprint.template(f"call ended with limit_exceeded_{number}")


SIGNS: list[dict[str, list[Any]]] = [{}, {"errors": ["Failed"]}, {"flags": [False]}, {"statuses": [500]}]


@pytest.mark.parametrize("rules", [PLAIN, SHELL])
@pytest.mark.parametrize("signs", SIGNS)
def test_an_outcome_is_that_of_the_text_whatever_was_settled_before(signs: dict[str, list[Any]], rules: Rules) -> None:
    texts = [*NUMBERED[:60], "Process exited with code_0", "denied by the user: run_12", "Error executing tool_4: no"]
    for text in texts:
        for said in (Said(message=text), Said(status=2, status_message=text), Said("E_1", text, 2, "other_3 text_4")):
            told = said.message and with_other_numbers(said.message)
            settled(signs, rules, Said(said.reported, told, said.status, with_other_numbers(said.status_message)))
            assert settled(signs, rules, said) == settle(signs, rules, said)


def test_failures_that_are_alike_are_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"no such file: part_{number:04}.py (of this test alone)" for number in range(50)]
    looked_at: list[str] = []

    def looking(signs: Any, rules: Rules, said: Said) -> settling.Settled:
        looked_at.append(said.status_message)
        return settle(signs, rules, said)

    monkeypatch.setattr(settling, "settle", looking)
    found = [settled({}, PLAIN, Said(status=2, status_message=text)) for text in texts]
    assert [one.text for one in found] == [one.message for one in found] == texts
    assert looked_at == texts[:1]
