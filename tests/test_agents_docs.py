"""Every source has a page that says what to paste, and the pages agree with the tables."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.doors import pipeline, taken

PAGES = Path(__file__).parent.parent / "docs/agents"
SOURCES = {source.id: source for source in pipeline().sources.sources}
OF: dict[str, Path] = {
    name: page
    for page in sorted(PAGES.glob("*.md"))
    for line in re.findall(r"^Sources?: (.+)$", page.read_text(), re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", line)
}
BLOCKS = [
    (page.name, language, text)
    for page in sorted(PAGES.glob("*.md"))
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]


def test_every_source_has_a_page_and_every_page_a_source() -> None:
    assert OF.keys() == SOURCES.keys()
    assert {page.name for page in OF.values()} == {page.name for page in PAGES.glob("*.md")} - {"README.md"}


def test_the_index_links_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (PAGES / "README.md").read_text()))
    assert linked == {page.name for page in OF.values()}


@pytest.mark.parametrize("name", SOURCES)
def test_a_page_names_every_switch_that_the_table_knows(name: str) -> None:
    text = OF[name].read_text()
    switches = {mark: value for mark, value in SOURCES[name].coverage.items() if isinstance(value, str)}
    assert {mark: value for mark, value in switches.items() if value.partition(" (")[0] not in text} == {}


@pytest.mark.parametrize("page", sorted({page.name for page in OF.values()}))
def test_a_page_says_what_to_paste(page: str) -> None:
    assert any(
        ":4318" in text or ":4317" in text or "telemetry" in text.lower() for name, _, text in BLOCKS if name == page
    )


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, language, text in BLOCKS if language == "json"])
def test_settings_in_json_are_json(page: str, text: str) -> None:
    assert isinstance(json.loads(text), dict), page


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, language, text in BLOCKS if language == "toml"])
def test_settings_in_toml_are_toml(page: str, text: str) -> None:
    assert tomllib.loads(text), page


@pytest.mark.parametrize(
    ("page", "body"),
    [(page, body) for page, _, text in BLOCKS for body in re.findall(r"/v1/events -d '(\{.*?\})'", text, re.DOTALL)],
)
def test_what_is_posted_in_an_example_becomes_an_event(page: str, body: str) -> None:
    reports = taken(body.encode(), "events").reports
    assert [report["source"] for report in reports] == [page.removesuffix(".md")]
