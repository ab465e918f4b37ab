"""Times in every format and unit, to the nanosecond, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.times import iso_ns, retry_after_s, rfc3339, time_of

MOMENT = 1_795_297_311_123_000_000


@pytest.mark.parametrize(
    ("value", "time_ns"),
    [
        ("2026-11-21T21:41:51.123Z", MOMENT),
        ("2026-11-21T21:41:51.123", MOMENT),
        ("2026-11-21t21:41:51.123z", MOMENT),
        (" 20261121T214151.123Z ", MOMENT),
        ("2026-11-21 22:41:51.123+0100", MOMENT),
        ("2026-11-21T22:41:51.123+01:00", MOMENT),
        ("2026-11-21T21:41:51.123000007Z", MOMENT + 7),
        ("2026-11-21T22:41:51.12300004+01:00", MOMENT + 40),
        ("2026-11-21T21:41:51,1230000078", MOMENT + 7),
        (1_795_297_311, MOMENT // 10**9 * 10**9),
        (1_795_297_311.123, MOMENT),
        (1_795_297_311_123, MOMENT),
        (1_795_297_311_123.0, MOMENT),
        (1_795_297_311_123_000, MOMENT),
        (MOMENT + 7, MOMENT + 7),
        (str(MOMENT), MOMENT),
        ("1795297311.123", MOMENT),
        (True, 0),
        (-1, 0),
        (0, 0),
        (1 << 70, 0),
        (float("inf"), 0),
        (float("nan"), 0),
        ("soon", 0),
        ("0001-01-01T00:00:00", 0),
        ("0001-01-01T00:00:00+23:59", 0),
        ("9" * 5000, 0),
        ("1e400.", 0),
        ([], 0),
        (None, 0),
    ],
)
def test_times_of_every_unit(value: object, time_ns: int) -> None:
    assert time_of(value) == time_ns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0), (" 7 ", 7.0), ("1.5", 1.5), ("0", 0.0),
        ("Sat, 21 Nov 2026 21:42:00 GMT", 9.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        *((wrong, None) for wrong in ("", "soon", "-1", "inf", "nan", "1e9", "1" * 400, "Sat, 99 Nov 2026 21:42:00")),
    ],
)  # fmt: skip
def test_a_delay_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_s(text, MOMENT // 10**9) == seconds


@given(st.integers(0, 2**63 - 1))
def test_a_written_time_reads_back_to_the_nanosecond(at: int) -> None:
    assert iso_ns(rfc3339(at)) == at


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_none(text: str) -> None:
    assert time_of(text) >= 0
