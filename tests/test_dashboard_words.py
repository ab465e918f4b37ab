"""Words for people: exact help texts, numbers, durations, ages, and hostile text made harmless."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.times import lasting
from dashboard.parts import words

NOW = datetime(2026, 11, 21, 21, 41, 51, tzinfo=UTC)


def spaced(text: str) -> str:
    """The text with ordinary spaces in place of non-breaking ones."""
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (None, "sampled upstream, share not told"),
        (0.1, "sampled upstream, about 1 in 10 kept"),
        (0.0999, "sampled upstream, about 1 in 10 kept"),
        (0.00005, "sampled upstream, about 1 in 20,000 kept"),
        (0.75, "sampled upstream, about 75 % kept"),
    ],
)
def test_a_rate_of_sampled_calls_is_marked(kept: float | None, said: str) -> None:
    assert spaced(words.sampled(kept)) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (None, "–"),
        (0, "0"),
        (2310, "2,310"),
        (99_999, "99,999"),
        (123_400, "123 k"),
        (1_234_567, "1.2 M"),
        (4.2e9, "4.2 G"),
    ],
)
def test_counts(number: float | None, said: str) -> None:
    assert spaced(words.count(number)) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0, "0 %"),
        (0.0004, "< 0.1 %"),
        (0.0416, "4.2 %"),
        (0.9996, "> 99.9 %"),
        (1, "100 %"),
    ],
)
def test_rates(value: float | None, said: str) -> None:
    assert spaced(words.rate(value)) == said


@pytest.mark.parametrize(
    ("value", "of", "said"),
    [
        (0.098, 2310, "9.8 % of 2,310"),
        (1 / 3, 6, "~ 33 % of 6"),
        (0.5, 19, "~ 50 % of 19"),
        (0.5, 20, "50.0 % of 20"),
        (None, 20, "no rate"),
        (0.5, 0, "no rate"),
    ],
)
def test_a_rate_has_its_denominator_and_is_marked_below_20_calls(value: float | None, of: float, said: str) -> None:
    assert spaced(words.rate_of(value, of)) == said


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.4, "< 1 ms"),
        (840, "840 ms"),
        (999.6, "1.0 s"),
        (2100, "2.1 s"),
        (59_940, "59.9 s"),
        (59_960, "1 m 00 s"),
        (250_000, "4 m 10 s"),
        (11_100_000, "3 h 05 m"),
        (187_200_000, "2 d 4 h"),
    ],
)
def test_durations(ms: float | None, said: str) -> None:
    assert spaced(words.duration(ms)) == said
    assert ms is None or lasting(ms) == said  # what the collector writes reads the same


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=2), "now"),
        (timedelta(seconds=-30), "now"),
        (timedelta(seconds=12), "12 s ago"),
        (timedelta(minutes=12, seconds=50), "12 min ago"),
        (timedelta(hours=5, minutes=59), "5 h ago"),
        (timedelta(hours=24), "20 Nov 22:41"),
        (timedelta(days=364), "22 Nov 2025 22:41"),
    ],
)
def test_ages_become_dates_after_a_day_in_the_readers_zone(ago: timedelta, said: str) -> None:
    assert spaced(words.age(NOW - ago, NOW, ZoneInfo("Europe/Berlin"))) == said


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(minutes=12), "began 22:29:51, 12 min ago"),
        (timedelta(hours=23), "began 20 Nov 23:41:51, 23 h ago"),
        (timedelta(hours=25), "began 20 Nov 21:41:51"),
    ],
)
def test_a_beginning_is_told_with_its_day_unless_that_is_today(ago: timedelta, said: str) -> None:
    assert spaced(words.began(NOW - ago, NOW, ZoneInfo("Europe/Berlin"))) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (90, "90 s"),
        (900, "15 min"),
        (3600, "1 h"),
        (5400, "90 min"),
        (8400, "2 h 20 min"),
        (13_560, "3 h 46 min"),
        (13_589, "3 h 46 min"),
        (86_400, "24 h"),
        (216_000, "60 h"),
        (600_000, "7 d"),
    ],
)
def test_lengths_of_a_range(seconds: float, said: str) -> None:
    assert spaced(words.span(seconds)) == said


def test_a_clock_names_the_day_only_when_it_is_another_one() -> None:
    assert words.clock(NOW, now=NOW) == "21:41:51"
    assert words.clock(NOW - timedelta(days=1), now=NOW) == "20 Nov 21:41:51"
    assert words.clock(NOW - timedelta(days=364), now=NOW) == "22 Nov 2025 21:41:51"
    new_year = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
    assert words.clock(new_year, ZoneInfo("Europe/Berlin"), now=new_year - timedelta(days=1)) == "01 Jan 2027 00:30:00"
    assert words.clock(None) == "–"


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0 s"), (31, "31 s"), (60, "1 min"), (1800, "30 min"), (7200, "2 h"), (172_800, "2 d")]
)
def test_how_long_it_lasts(seconds: float, said: str) -> None:
    assert spaced(words.elapsed(NOW - timedelta(seconds=seconds), NOW)) == said


@pytest.mark.parametrize(("number", "said"), [(None, "–"), (12, "12 B"), (43_000_000, "43 MB"), (81.2e9, "81.2 GB")])
def test_sizes(number: float | None, said: str) -> None:
    assert spaced(words.size(number)) == said


def test_small_words() -> None:
    assert spaced(words.points(0.0124)) == "+1.2 pts"
    assert spaced(words.points(-0.05)) == "-5.0 pts"
    assert (words.plural(1, "error"), words.plural(2, "error")) == ("1 error", "2 errors")
    assert words.clip("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.5, "50.0 %"), (0.9996, "> 99.9 %"), (1 - 2e-16, "100 %"), (1.0, "100 %"), (1 + 4e-16, "100 %"),
        (1.001, "> 100 %"), (5.35, "> 100 %"),
    ],
)  # fmt: skip
def test_a_part_of_a_change_is_at_most_more_than_all_of_it(share: float, said: str) -> None:
    assert spaced(words.part(share)) == said


def test_how_a_class_was_found_is_told_in_words() -> None:
    assert words.classified("alias") == "from the agent's name for it"
    assert words.classified("*new*") == r"\*new\*"


@pytest.mark.parametrize("name", list(words.HELP))
def test_each_help_text_is_one_sentence_that_ends(name: str) -> None:
    assert words.HELP[name].endswith(".")


def test_when_an_error_is_lasting_is_told_alike_in_help_and_docs() -> None:
    docs = " ".join((Path(__file__).parents[1] / "docs" / "dashboard.md").read_text().split())
    for text in (words.HELP["lasting errors"], docs):
        assert "not known yet" in text.lower().replace("`", "")
        assert "until its agent has sent something half an hour later" in text.replace("their agent", "its agent")
        assert "or nothing for an hour" in text


def test_what_lasts_and_what_is_not_known_yet_stand_apart() -> None:
    assert words.lasting(27, 202, 250) == "27 lasting · 202 not known yet of 250 errors"
    assert words.lasting(5, 0, 9) == "5 of 9 errors lasting"
    assert words.lasting(1, None, 1) == "1 of 1 error lasting"
    assert words.may_last(0, 14) == "0 to 14"
    assert words.may_last(3, 0) == words.may_last(3, None) == "3"


MARKDOWN = re.compile(r"(?<!\\)[!\"#$%&'()*+,\-./:;<=>?@\[\]^_`{|}~]")


@given(st.text())
def test_no_character_of_agent_text_acts_as_markdown(text: str) -> None:
    said = words.plain(text).replace("\\\\", "")
    assert MARKDOWN.search(said) is None
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "never"),
    [
        (":material/bolt:", ":material"),
        (":smile:", ":smile"),
        ("see http://evil.example", "http://"),
        ("www.evil.example", "www."),
        ("ann@evil.example", "@evil"),
    ],
)
def test_what_is_replaced_after_parsing_is_broken_up(text: str, never: str) -> None:
    assert never not in words.plain(text).replace("\\", "")


def test_agent_text_is_cut_and_missing_text_is_a_dash() -> None:
    assert words.plain("abcdef", 4) == "abc…"
    assert words.plain(None) == words.plain("") == "–"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  ", "'  '"),
        ("\u200b", r"'\u200b'"),
        ("\u202e", r"'\u202e'"),
        ("\u3164\n", r"'\u3164\n'"),
        ("a\u200b", "a\u200b"),
    ],
)
def test_text_of_which_nothing_can_be_seen_is_quoted(text: str, said: str) -> None:
    assert re.sub(r"\\([^\w\s])", r"\1", words.plain(text)) == said


def test_text_from_right_to_left_does_not_move_the_numbers_beside_it() -> None:
    arabic = "\u0627\u0642\u0631\u0623"
    assert words.plain(arabic) == f"\u2068{arabic}\u2069"
    assert words.plain("a\u202eb\u2066c") == "abc"
