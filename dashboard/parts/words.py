"""Texts for people: help texts, and numbers, durations, ages and untrusted text in readable form. No Streamlit here."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

NEAR = 0.05  # largest share of a length that rounding may change: an hour and a half is 90 min, not 2 h
UNCERTAIN_BELOW = 20  # calls; a rate of fewer is marked as uncertain

HELP: Mapping[str, str] = {
    "error rate": (
        "Errors ÷ (ok + errors); cancelled and denied calls are left out, and those of which nothing tells how they "
        "ended; below 20 calls the rate is marked as uncertain."
    ),
    "only errors": (
        "No call that went well matches the filters: there is no rate, because all that match are errors, "
        "cancelled, denied or unknown."
    ),
    "unknown": (
        "Calls of which the telemetry does not say how they ended: in no rate, and neither a success nor a failure "
        "in a streak. Sources says what would tell."
    ),
    "mistake": (
        "An error that the model could have avoided, such as a missing parameter or a file that does not exist; "
        "a timeout or a rate limit is not one."
    ),
    "streak": (
        "Mistakes in a row in one session (or one tool, or one target) with no success between them; "
        "a success ends it, an idle hour closes it."
    ),
    "hazard": (
        "Of the streaks that reached n mistakes, the share that went on to n + 1: "
        "when it climbs with n, waiting longer seldom helps."
    ),
    "limit simulator": (
        "If the agent had stopped and asked after n mistakes in a row: how many sessions that would have stopped, "
        "and how many of those recovered by themselves anyway."
    ),
    "retryable, declared": (
        "Whether the agent said that another attempt may succeed; "
        '"table" marks classes where only Misstep\'s taxonomy says so.'
    ),
    "retryable, observed": (
        "Of the errors that were tried again within 30 minutes, the share where a later attempt succeeded."
    ),
    "recovery": (
        "Errors followed by a success of the same tool on the same target in the same session within 30 minutes "
        "÷ errors that were tried again."
    ),
    "said and seen": (
        "✕ where at least 20 errors were tried again and the whole 95 % interval of their recovery lies below 20 % "
        "although retrying was said to help, or above 50 % although it was said not to."
    ),
    "to 1,000 calls": (
        "Errors of the class per 1,000 calls of its side, to any tool: "
        "a side with fewer calls has fewer errors without being better."
    ),
    "class": (
        "How the class was found: the agent named it, or gave it another name that the taxonomy knows, "
        "or the status, the words of the message or other fields of the record tell it."
    ),
    "spread": (
        "Sessions with this error ÷ sessions that used the tool: "
        "high means that the tool is broken, low that it was used badly."
    ),
    "attribution": (
        "Who has to act so that this stops: "
        "the model, the tool, its environment, the provider, the user, or the agent's own code."
    ),
    "unclassified": (
        "Errors that Misstep could not name (`UnknownError`): counted, but without a known cause, fault or advice."
    ),
    "agents' own counts": (
        "Some agents count their failures in a row and stop at a limit. Beside each such number stands what Misstep "
        "counts at that moment: mistakes of tools in one session and sub-agent since the last success."
    ),
    "sampled": (
        "Somebody between the agent and Misstep keeps only a part of its records: counts are too small by that factor, "
        "rates are those of what was kept, and streaks and retries may miss calls."
    ),
    "lasting errors": (
        "Errors that no later attempt repaired; what is left when everything the agent fixed by itself is taken away. "
        "Not known yet are those whose attempts may still succeed, until their agent has sent something half an hour "
        "later or nothing for an hour, and those of agents that report no successes."
    ),
}

# Why an agent's own count differs from ours, by the API's word for it.
WHY: Mapping[str, str] = {
    "repeats": "it counts equal calls in a row, also successful ones",
    "no_mistakes": "it also counts errors that are not mistakes, such as a timeout",
    "model_errors": "it also counts failed model requests",
    "reset": "it starts again from zero after asking its user; we count on until a success",
    "failures_only": "it reports no successes, so the one that reset its count is not known here",
    "own_rule": "it leaves out errors that we count",
    "not_seen": "some failures that it counts did not arrive here, or are not tool errors",
    "no_number": "it gave no number",
}
# Why an accepted record is no event, by the API's word for it.
DROPPED: Mapping[str, str] = {
    "no_event": "tells of no call", "unread": "speaks a convention, but no table reads it",
    "metric": "numbers without single calls",
    "duplicate_twin": "says again what another record says", "malformed": "not readable",
    "unstorable": "could not be stored, set aside",
}  # fmt: skip
# Of these, what might have told of a call, and what becomes of it.
NOT_STORED: Mapping[str, str] = {
    "malformed": "that cannot be read (whose senders were told)",
    "unstorable": "set aside (which `misstep replay --refused` stores)",
}  # fmt: skip
# How the class of an error was found, by the API's word for it.
CLASSIFIED: Mapping[str, str] = {
    "reported": "named by the agent", "alias": "from the agent's name for it", "status": "from its status",
    "message": "from its message", "shape": "from its record", "none": "unknown: nothing tells it",
}  # fmt: skip
# What was said about retrying against what was seen, by the API's verdict.
RETRIED: Mapping[str, str] = {
    "seldom_works": "✕ says retry, seldom works", "often_works": "✕ says do not retry, often works",
    "agrees": "agrees", "unclear": "unclear",
}  # fmt: skip
# What a rule's value is measured on, where that is not calls.
MEASURED_ON: Mapping[str, str] = {
    "failing_sessions": "session", "unclassified_rate": "error", "recovery_rate": "retried error",
}  # fmt: skip
# What a rule's value leaves out, where that is not clear from its condition.
MEASURED_OF: Mapping[str, str] = {
    "new_groups": "of known services",
    "regressed_groups": "after a fix or a week without",
}
SIGNALS: Mapping[str, str] = {"count": "its count", "limit": "its limit was reached", "loop": "it found a loop"}

NONE = "–"
_NB = "\u00a0"  # a number and its unit stay on one line


def count(number: float | None) -> str:
    """2,310; from 100,000 on 123 k, 1.2 M."""
    if number is None:
        return NONE
    if abs(number) < 100_000:
        return f"{number:,.0f}"
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(number) >= size:
            return f"{number / size:,.1f}{_NB}{unit}"
    return f"{number / 1000:,.0f}{_NB}k"


def lasting(certain: float | None, not_known: float | None, errors: float | None, *, short: bool = False) -> str:
    """How many errors last: `27 lasting · 202 not known yet of 250 errors`, `5 of 9 errors lasting`; in short without
    the number of errors where some are not known yet.
    """
    if not not_known:
        return f"{count(certain)} of {plural(errors, 'error')} lasting"
    said = f"{count(certain)} lasting · {count(not_known)} not known yet"
    return said if short else f"{said} of {plural(errors, 'error')}"


def may_last(certain: float | None, not_known: float | None) -> str:
    """How many errors last, as a range where some are not known yet: `27`, `0 to 14`."""
    return f"{count(certain)} to {count((certain or 0) + not_known)}" if not_known else count(certain)


def plural(number: float | None, one: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{count(number)} {one if number == 1 else one + 's'}"


def dollars(amount: float | None) -> str:
    """`$1,234.50`; amounts of a few cents with more digits."""
    return NONE if amount is None else f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def rate(value: float | None) -> str:
    """A share of 1 as a percentage with one decimal; only exactly 0 and 1 are shown as 0 % and 100 %."""
    if value is None:
        return NONE
    if value <= 0 or value >= 1:
        return f"{value * 100:.0f}{_NB}%"
    if value < 0.001:
        return f"<{_NB}0.1{_NB}%"
    return f">{_NB}99.9{_NB}%" if value > 0.999 else f"{value * 100:.1f}{_NB}%"


def classified(by: str) -> str:
    """How the class of an error was found; a word of a newer API as it is."""
    return CLASSIFIED.get(by) or plain(by)


def part(share: float) -> str:
    """A part of a net change, a sum of floats: more than all of it where other parts went the other way."""
    return f">{_NB}100{_NB}%" if share >= 1.0005 else rate(round(share, 9))


def uncertain(of: float | None) -> bool:
    """Whether a rate of this many calls must be marked as uncertain."""
    return (of or 0) < UNCERTAIN_BELOW


def rate_of(value: float | None, of: float | None, one: str = "") -> str:
    """A rate with its denominator: `9.8 % of 2,310`, below 20 calls `~ 33 % of 6`; `one` is what is counted."""
    if value is None or not of:
        return "no rate"
    return f"{rough(value, of)} of {plural(of, one) if one else count(of)}"


def rough(value: float | None, of: float | None) -> str:
    """A rate, marked as uncertain and rounded if it is of fewer than 20 calls."""
    return f"~{_NB}{value * 100:.0f}{_NB}%" if value is not None and uncertain(of) else rate(value)


def share_kept(kept: float) -> str:
    """`1 in 10`, `75 %`."""
    return f"1 in {count(round(1 / kept))}" if kept < 0.4 else f"{kept * 100:.0f}{_NB}%"


def sampled(kept: float | None) -> str:
    """The note on a rate of sampled calls: `sampled upstream, about 1 in 10 kept`."""
    return f"sampled upstream, {f'about {share_kept(kept)} kept' if kept else 'share not told'}"


def points(difference: float) -> str:
    """A change of a rate: `+1.2 pts`."""
    return f"{difference * 100:+.1f}{_NB}pts"


def duration(ms: float | None) -> str:
    """< 1 ms, 840 ms, 2.1 s, 4 m 10 s, 3 h 05 m, 2 d 4 h."""
    if ms is None:
        return NONE
    if 0 < ms < 0.5:
        return f"<{_NB}1{_NB}ms"
    if ms < 999.5:
        return f"{ms:.0f}{_NB}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}{_NB}s"
    total = round(ms / 1000)
    if total < 3600:
        return _joined(total // 60, "m", f"{total % 60:02d}", "s")
    if total < 86_400:
        return _joined(total // 3600, "h", f"{total % 3600 // 60:02d}", "m")
    return _joined(total // 86_400, "d", total % 86_400 // 3600, "h")


def size(number: float | None) -> str:
    """A number of bytes: 43 MB."""
    if number is None:
        return NONE
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= limit:
            return _joined(f"{number / limit:.3g}", unit)
    return _joined(f"{number:.0f}", "B")


def _joined(*parts: object) -> str:
    return _NB.join(map(str, parts))


def age(then: datetime | None, now: datetime, zone: tzinfo = UTC) -> str:
    """How long ago: `now`, `12 s ago`, `12 min ago`, `5 h ago`; from 24 h on the date (see `day_form`)."""
    if then is None:
        return NONE
    seconds = (now - then).total_seconds()
    if seconds >= 86_400:
        return then.astimezone(zone).strftime(f"{day_form(then, now, zone)} %H:%M")
    if seconds < 5:
        return "now"
    if seconds < 60:
        return _joined(f"{seconds:.0f}", "s", "ago")
    return _joined(*(f"{seconds // 60:.0f}", "min") if seconds < 3600 else (f"{seconds // 3600:.0f}", "h"), "ago")


def elapsed(then: datetime, now: datetime) -> str:
    """How long something has lasted: `31 s`, `12 min`, `3 h`, `2 d`."""
    seconds = max((now - then).total_seconds(), 0)
    if seconds < 3600:
        return _joined(f"{seconds // 1:.0f}", "s") if seconds < 60 else _joined(f"{seconds // 60:.0f}", "min")
    return _joined(f"{seconds // 3600:.0f}", "h") if seconds < 2 * 86_400 else _joined(f"{seconds // 86_400:.0f}", "d")


def clock(then: datetime | None, zone: tzinfo = UTC, *, now: datetime | None = None) -> str:
    """A time of day, with the date if it is not the day of `now`, and its year if that is another."""
    if then is None:
        return NONE
    local = then.astimezone(zone)
    same_day = now is not None and local.date() == now.astimezone(zone).date()
    return local.strftime("%H:%M:%S" if same_day else f"{day_form(then, now or then, zone)} %H:%M:%S")


def began(then: datetime, now: datetime, zone: tzinfo = UTC) -> str:
    """When something began: `began 14:06:37, 2 h ago`, `began 24 Nov 16:34:27`."""
    said = f"began {clock(then, zone, now=now)}"
    return f"{said}, {age(then, now, zone)}" if (now - then).total_seconds() < 86_400 else said


def day_form(then: datetime, now: datetime, zone: tzinfo) -> str:
    """The form of a date for `strftime`, with the year if it is not the present one."""
    return "%d %b" if then.astimezone(zone).year == now.astimezone(zone).year else "%d %b %Y"


def span(length: timedelta | float) -> str:
    """The length of a range: `24 h`, `7 d`, `15 min`, `3 h 46 min`."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        least = 2 * unit if name == "d" else unit
        if seconds >= least and abs(seconds - round(seconds / unit) * unit) <= NEAR * seconds:
            if name == "min" and (minutes := round(seconds / 60)) >= 120:
                return _joined(minutes // 60, "h", minutes % 60, "min")
            return _joined(f"{seconds / unit:.0f}", name)
    return _joined(f"{seconds:.0f}", "s")


def clip(text: str, limit: int) -> str:
    """At most `limit` characters of text, with `…` if it was cut."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


_PUNCTUATION = re.compile(r"""([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])""")
# Streamlit replaces emoji and icon short codes, and links bare addresses, after it has parsed the Markdown: a backslash
# does not prevent that, an invisible word joiner does.
_LATE = re.compile(r"(:)(?=\S)|(www)(?=\.)|(?<=\S)(@)", re.IGNORECASE)
_JOINER = "\u2060"
# A number after right-to-left text would be drawn on the text's other side: such text is isolated, and characters that
# would change the direction of what follows are removed.
_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]")
_TURNING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


_BLANK = " \u115f\u1160\u2800\u3164\uffa0"  # no control characters, and yet nothing is drawn


def line(text: str, limit: int = 200) -> str:
    """Agent text on one line, cut to `limit`, without characters that turn the direction of what follows.

    Text of which nothing can be seen is quoted, with codes in place of its characters.
    """
    said = clip(" ".join(_TURNING.sub("", text).split()), limit)
    seen = any(sign.isprintable() and sign not in _BLANK for sign in said)
    return said if seen else clip(ascii(text[:limit]), limit)


def plain(text: str | None, limit: int = 200) -> str:
    """Agent text that is safe in a Streamlit label: as from `line`, with every Markdown character escaped."""
    if not text:
        return NONE
    said = line(text, limit)
    safe = _PUNCTUATION.sub(r"\\\1", _LATE.sub(rf"\g<0>{_JOINER}", said))
    return f"\u2068{safe}\u2069" if _LEFTWARD.search(said) else safe
