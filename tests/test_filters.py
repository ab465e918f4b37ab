"""The filter grammar: what each form means, what is refused and how, and that SQL agrees with plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.api.endpoints import ENDPOINTS
from collector.api.parameters import read
from collector.engine.duckdb.store import Store
from collector.query.filters import (
    BY_NAME,
    DIMENSIONS,
    BadParameter,
    Selection,
    Term,
    duration_ns,
    select,
    split_values,
    terms_of,
    terms_of_rule,
    time_ns,
)
from collector.times import HOUR, SECOND, rfc3339
from tests.recorded import NOW, SILENT, event, failed, holding, mixed
from tests.search import searching


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store.open("duckdb://:memory:")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("word", "ago"),
    [
        ("now", 0),
        ("-24h", 24 * HOUR),
        ("-7d", 7 * 24 * HOUR),
        ("-1h30m", 90 * 60 * SECOND),
        ("-250ms", SECOND // 4),
        ("-2w", 14 * 24 * HOUR),
        ("2026-11-21T21:41:51.123456789Z", 0),
        ("2026-11-21t21:41:51.123456789z", 0),
        ("2026-11-21T22:41:51.123456789+01:00", 0),
        ("2026-11-21T22:41:51.123456789 01:00", 0),
        ("2026-11-21 22:41:51.123456789 01:00", 0),
        ("2026-11-21T20:41:51.123456789-01:00", 0),
        ("2026-11-21T21:41:51.123Z", 456_789),
        ("2026-11-21T21:41:51", 123_456_789),
        ("2026-11-21 21:41", 51 * SECOND + 123_456_789),
        ("2026-11-21", ((21 * 60 + 41) * 60 + 51) * SECOND + 123_456_789),
    ],
)
def test_a_time_is_rfc_3339_or_relative(word: str, ago: int) -> None:
    assert time_ns("from", word, NOW) == NOW - ago


def test_a_relative_time_before_1970_is_1970() -> None:
    assert time_ns("from", "-999999999d", NOW) == 0


@pytest.mark.parametrize(
    "word",
    [
        "",
        "yesterday",
        "-24",
        "-h",
        "24h",
        "- 1h",
        "2026-13-01",
        "2026-11-21T25:00:00Z",
        "1950-01-01",
        "9999-01-01",
        "12",
    ],
)
def test_what_is_no_time_is_refused_by_name(word: str) -> None:
    with pytest.raises(BadParameter) as refused:
        time_ns("to", word, NOW)
    assert refused.value.parameter == "to"
    assert refused.value.value == word


@pytest.mark.parametrize("word", ["", "5", "5x", "m", "-5m", "5m!", "1.5h"])
def test_what_is_no_duration_is_refused(word: str) -> None:
    with pytest.raises(BadParameter):
        duration_ns("bucket", word)


@pytest.mark.parametrize(
    ("name", "text", "wanted", "unwanted"),
    [
        ("tool", "apply_diff", ["apply_diff"], []),
        ("tool", "a,b", ["a", "b"], []),
        ("tool", "!a,b", ["b"], ["a"]),
        ("tool", "!a,!b", [], ["a", "b"]),
        ("tool", "", [None], []),
        ("tool", "!", [], [None]),
        ("target", r"a\,b", ["a,b"], []),
        ("target", r"\!a", ["!a"], []),
        ("target", r"!\!a", [], ["!a"]),
        ("target", r"C:\temp", [r"C:\temp"], []),
        ("target", r"C:\\,b", ["C:\\", "b"], []),
        ("mistake", "true", [True], []),
        ("mistake", "!true,", [None], [True]),
        ("status_code", "429,500", [429, 500], []),
        ("fingerprint", str(2**64 - 1), [2**64 - 1], []),
    ],
)
def test_values_of_a_filter(name: str, text: str, wanted: list[Any], unwanted: list[Any]) -> None:
    found = {term.negated: list(term.values) for term in terms_of(name, text)}
    assert found.get(False, []) == wanted
    assert found.get(True, []) == unwanted


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("mistake", "yes", ("true", "false")),
        ("outcome", "failed", ("ok", "error", "cancelled", "denied", "unknown")),
        ("operation", "tool,!agents", ("tool", "model", "agent")),
        ("status_code", "4x", ("-2147483648 to 2147483647",)),
        ("status_code", "99999999999", ("-2147483648 to 2147483647",)),
        ("fingerprint", "-1", ("0 to 18446744073709551615",)),
        ("fingerprint", str(2**64), ("0 to 18446744073709551615",)),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_what_is_allowed(
    name: str, text: str, allowed: tuple[str, ...]
) -> None:
    with pytest.raises(BadParameter) as refused:
        terms_of(name, text)
    assert (refused.value.parameter, refused.value.allowed) == (name, allowed)
    assert name in refused.value.message


@given(st.lists(st.text().filter(lambda text: text == "" or text[0] != "!"), min_size=1))
def test_any_list_of_values_can_be_written(values: list[str]) -> None:
    written = ",".join(value.replace("\\", "\\\\").replace(",", "\\,") for value in values)
    assert [value or "" for term in terms_of("tool", written) for value in term.values] == values


@given(st.text())
def test_splitting_loses_nothing(text: str) -> None:
    assert ",".join(split_values(text)) == text


def test_values_of_a_rule_are_whole_words() -> None:
    where: dict[str, list[str] | str | bool] = {"target": ["a,b", r"!c\d"], "mistake": True}
    assert terms_of_rule(where) == (
        Term(BY_NAME["target"], ("a,b",)),
        Term(BY_NAME["target"], (r"c\d",), negated=True),
        Term(BY_NAME["mistake"], (True,)),
    )


def test_the_range_is_the_last_day_and_reaches_past_clocks_that_are_ahead() -> None:
    selection = select({}, NOW)
    assert (selection.start_ns, selection.end_ns) == (NOW - 24 * HOUR, NOW)
    assert selection.until_ns == NOW + HOUR
    assert select({"to": rfc3339(NOW)}, NOW).until_ns == NOW


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(BadParameter, match="is after"):
        select({"from": "-1h", "to": "-2h"}, NOW)


def test_the_denominator_of_a_share_keeps_only_filters_on_the_call() -> None:
    selection = select({"tool": "a", "outcome": "error", "q": "x"}, NOW)
    assert [term.dimension.name for term in selection.about_call().terms] == ["tool"]
    assert selection.about_call().text == ""


VALUES: dict[str, list[Any]] = {"flag": [True, False, None], "integer": [0, 429, None], "id": [0, 2**64 - 1, None]}
STORED = [dimension for dimension in DIMENSIONS if dimension.name != "recovered"]


def column_values(name: str) -> list[Any]:
    dimension = BY_NAME[name]
    return VALUES.get(dimension.type, [*(dimension.allowed or ("a", "B", "a,b", "!x")), None])


@st.composite
def row_and_terms(draw: st.DrawFn) -> tuple[dict[str, Any], list[Term]]:
    names = draw(st.lists(st.sampled_from([each.name for each in STORED]), min_size=1, max_size=4, unique=True))
    row = {name: draw(st.sampled_from(column_values(name))) for name in names}
    terms = [
        Term(
            BY_NAME[name], tuple(draw(st.lists(st.sampled_from(column_values(name)), min_size=1))), draw(st.booleans())
        )
        for name in names
    ]
    return row, terms


@searching(0.6)
@given(row_and_terms())
def test_the_statement_agrees_with_the_words(store: Store, case: tuple[dict[str, Any], list[Term]]) -> None:
    """`a,b` is any of them, `!a` is everything else including null, and an empty value is null."""
    row, terms = case
    holding(store, [event(1, **row)])
    kept = event(1, **row)
    meets = all((kept.get(term.dimension.name) in term.values) != term.negated for term in terms)
    selection = Selection(0, NOW, tuple(terms))
    sql = f"select count(*) as n from events where {selection.where()}"
    assert store.rows(sql, selection.params())[0]["n"] == meets


@pytest.mark.parametrize(("text", "found"), [("DOES NOT", 1), ("%", 0), ("/a", 1), ("no such", 0), ("", 2)])
def test_q_is_text_in_the_message(store: Store, text: str, found: int) -> None:
    holding(store, [failed(1), event(2)])
    selection = select({"q": text, "from": "-1d"}, NOW)
    sql = f"select count(*) as n from events where {selection.where()}"
    assert store.rows(sql, selection.params())[0]["n"] == found


@pytest.mark.parametrize("words", ["recovered=true", "recovered=false,", "recovered=!false"])
def test_every_address_takes_the_filter_that_is_no_column(store: Store, words: str) -> None:
    """Whether an error was recovered from is told by its chain, which a statement has to join."""
    holding(store, mixed(100))
    [one] = store.rows("select event_id, session, fingerprint from events where fingerprint is not null limit 1")
    names = {**one, "dimension": "tool", "id": "00000000"}
    asked = 0
    for each in (each for each in ENDPOINTS if each.filters):
        named = {name: str(value) for name, value in names.items() if f"{{{name}" in each.path}
        needed = {"/check": "command=ls&", "/search": "q=x&"}.get(each.path, "")
        parsed = read((needed + words).encode(), each.takes, named, NOW + 1000, filters=True, failure_only=SILENT)
        each.ask(parsed.selection, parsed.options).rows(store, 60)
        asked += 1
    assert asked > 20
