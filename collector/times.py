"""Times as others write them, in nanoseconds since 1970, and as every answer writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
UNITS = {"ms": 1_000_000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK}
EARLIEST_NS = 1_420_070_400_000_000_000  # 2015-01-01: before OpenTelemetry, so a wrong clock
MAX_NS = 2**63 - 1
DURATION = "([0-9]{1,9}(ms|s|m|h|d|w))+"
LONGEST = 36_525 * DAY  # longer durations are cut to this, so that they can be added to a time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS = re.compile(r"[.,]\d{6}(\d{1,3})")  # of a second, beyond what `fromisoformat` keeps
# Below which a number is in s (up to the year 5138), ms, µs, ns.
_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3), (10**20, 1))


def length_ns(text: str) -> int:
    """`90s`, `5m`, `1h30m`, `7d` in nanoseconds, at most a hundred years. Raises ValueError."""
    if not re.fullmatch(DURATION, text):
        raise ValueError("not a duration")
    return min(sum(int(number) * UNITS[unit] for number, unit in re.findall("([0-9]+)([a-z]+)", text)), LONGEST)


def iso_ns(text: str) -> int:
    """Nanoseconds since 1970, below 0 before it, of an ISO 8601 text such as RFC 3339 (UTC where it names no zone).

    Raises ValueError where it is none.
    """
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows t and z
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    rest = int(beyond[1].ljust(3, "0")) if (beyond := _NANOSECONDS.search(text)) else 0
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000 + rest


def time_of(value: Any) -> int:
    """Nanoseconds since 1970 of an ISO 8601 text or of a number of s, ms, µs or ns, told by its magnitude; 0 for
    anything else.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text) if "." in text else int(text)
        except ValueError:
            return _iso(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 63:
        return 0
    unit = next(unit for limit, unit in _UNITS if value < limit)
    return value * unit if isinstance(value, int) else round(value * unit / 1000) * 1000


def _iso(text: str) -> int:
    try:
        return max(0, iso_ns(text))
    except ValueError:
        return 0


def local_ns(text: str) -> int:
    """As `time_of`, but a text without a zone is of this machine's, as it was at that date."""
    try:
        moment = datetime.fromisoformat(text.strip().upper())
        return time_of(text) if moment.tzinfo else max(0, iso_ns(moment.astimezone().isoformat()))
    except (ValueError, OSError, OverflowError):  # before or after what a platform's clock knows
        return time_of(text)


def retry_after_s(text: str, now_s: float) -> float | None:
    """Seconds from now of an HTTP `Retry-After`, a number or a date (RFC 9110, section 10.2.3); None for anything
    else.
    """
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text.strip()):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, TypeError):
        return None


def lasting(ms: float) -> str:
    """A duration for people: `840 ms`, `2.1 s`, `4 m 10 s`, `3 h 05 m`, `2 d 4 h`; as in the dashboard."""
    if 0 < ms < 0.5:
        return "< 1 ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    total = round(ms / 1000)
    if total < 3600:
        return f"{total // 60} m {total % 60:02d} s"
    if total < 86_400:
        return f"{total // 3600} h {total % 3600 // 60:02d} m"
    return f"{total // 86_400} d {total % 86_400 // 3600} h"


def rfc3339(at_ns: int) -> str:
    """UTC with nanoseconds."""
    seconds, rest = divmod(at_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
