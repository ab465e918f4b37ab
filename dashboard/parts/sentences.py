"""Verdicts and summaries as whole sentences, in Markdown. Pure functions, no Streamlit."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

import polars as pl
import yaml

from dashboard.parts import words

SILENT = timedelta(minutes=2)  # twice the pause that ends a storm

# Outcomes that are in no rate, in words.
APART: Mapping[str, str] = {"cancelled": "cancelled", "denied": "denied", "unknown": "with an unknown outcome"}
NAMED = 3  # names in a sentence


def verdict(now: dict[str, Any], before: str, most: str = "") -> str:
    """One sentence: better, worse or not clearly different from the period before, and what explains most of it."""
    rate, was = now.get("error_rate"), now.get("previous_error_rate")
    if rate is None and not now.get("errors"):
        return f"No rate: none of {words.plural(now.get('calls'), 'call')} ended as ok or as an error."
    if rate is None:
        return f"{words.plural(now.get('errors'), 'error')}; no rate, because only failures are reported here."
    said = f"**{words.rate_of(rate, now.get('rated'))}** {'call' if now.get('rated') == 1 else 'calls'} failed"
    if was is None:
        return f"{said}. Nothing to compare with in the {before} before."
    if not clear(now):
        return f"≈ No clear change: {said}, {words.rate_of(was, now.get('previous_rated'))} in the {before} before."
    word, more = VERDICTS[now["verdict"]], f" {most}." if most else ""
    return f"{word} than the {before} before: {words.rate(was)} → {said}.{more}"


def counted(now: dict[str, Any], before: str, most: str = "") -> str:
    """As `verdict`, of the number of errors instead of their rate."""
    if not now.get("errors") and not now.get("previous_errors"):
        return f"No rate: none of {words.plural(now.get('calls'), 'call')} ended as ok or as an error."
    said, was = f"**{words.plural(now.get('errors'), 'error')}**", now.get("previous_errors")
    if was is None:
        return f"{said}. Nothing to compare with in the {before} before."
    if not clear(now):
        return f"≈ No clear change: {said}, {words.count(was)} in the {before} before."
    more = f" {most}." if most else ""
    return f"{VERDICTS[now['verdict']]} than the {before} before: {words.count(was)} → {said}.{more}"


def clear(now: dict[str, Any]) -> bool:
    """Whether the API says that the difference from the period before is statistically clear."""
    return now.get("verdict") in {"worse", "better"}


def change(now: float | None, before: float | None) -> str | None:
    """How a count changed: `+22`."""
    return None if now is None or before is None else f"{now - before:+,.0f}"


def settled_change(lasting: Mapping[str, Any], not_known: Mapping[str, Any]) -> str | None:
    """How the number of lasting errors changed, if it will have changed that way whatever becomes of those that are not
    known yet; else None. Both are answers of compare.
    """
    least = (lasting["b_part"] or 0) - (lasting["a_part"] or 0) - (not_known["a_part"] or 0)
    most = (lasting["b_part"] or 0) + (not_known["b_part"] or 0) - (lasting["a_part"] or 0)
    return change(lasting["b_part"], lasting["a_part"]) if least == most or least > 0 or most < 0 else None


VERDICTS: Mapping[str, str] = {
    "worse": ":red[▲ Worse]", "better": ":green[▼ Better]", "more": "▲ More", "fewer": "▼ Fewer",
    "unclear": ":gray[≈ No clear change]", "too_few": ":gray[Too few to compare]",
}  # fmt: skip


def compared(verdict: str | None, sentence: str | None) -> str:
    """A verdict of the API as Markdown: its word, then the rest of its sentence."""
    head, _, rest = (sentence or "").partition(": ")
    return f"{VERDICTS.get(verdict or '', '')} \u2002 {words.plain(rest or head, 300)}"


def storm(state: str | None, started: datetime, ended: datetime, now: datetime, zone: tzinfo) -> str:
    """Whether a burst is over: `ended 12:41:03, 19 min ago`.

    The API calls it ongoing until a later event arrives: as long as none does, nobody knows.
    """
    ago = words.elapsed(ended, now)
    if state != "ongoing":
        return f"ended {words.clock(ended, zone, now=now)}, {ago} ago"
    since = f"since {words.clock(started, zone, now=now)}"
    return f"{since}, silent for {ago}" if now - ended > SILENT else f"ongoing {since}"


def limit(n: int, row: dict[str, float | None]) -> str:
    """What a limit of n mistakes would have done."""
    sessions = words.plural(row.get("sessions"), "session")
    stopped, recovered = row.get("interrupted") or 0, row.get("recovered") or 0
    if stopped and row.get("rated") is None:  # an older collector does not say
        return f"A limit of **{n}** would have stopped **{words.count(stopped)}** of {sessions}."
    rated = row.get("rated") or 0
    share = "" if words.uncertain(rated) else f" ({words.rate(row.get('recovery_rate'))})"
    them = "them" if rated == stopped else f"the {words.count(rated)} whose agents also report successes"
    itself = "itself" if recovered == 1 else "themselves"
    repaired = f"{words.count(recovered)} of {them}{share} recovered by {itself}."
    open_ = row.get("not_known_yet") or 0
    if stopped == rated == 1:
        repaired = "It recovered by itself." if recovered else "It did not recover by itself."
        repaired = "Whether it recovers is not known yet." if open_ else repaired
    elif open_:
        repaired += f" Of {words.count(open_)} it is not known yet."
    return (
        f"A limit of **{n}** would have stopped **{words.count(stopped)}** of {sessions}. {repaired} "
        f"This limit would have saved {words.plural(row.get('mistakes_saved') or 0, 'failed call')}."
    )


def sampled(senders: pl.DataFrame) -> str:
    """The note on a rate over these senders (`source`, `service`, `sampled`, `kept`); empty if none is sampled."""
    marked = senders.filter(pl.col("sampled").fill_null(False))
    if marked.is_empty():
        return ""
    said = {words.sampled(kept) for kept in marked["kept"]}
    if marked.height == senders.height and len(said) == 1:
        return said.pop()
    named = [f"{words.plain(service or source, 30)}: {words.sampled(kept)}"
             for source, service, kept in marked.select("source", "service", "kept").head(3).iter_rows()]  # fmt: skip
    more = f"; {words.count(marked.height - 3)} more" if marked.height > 3 else ""
    return "; ".join(named) + more


def apart(totals: Mapping[str, Any], senders: pl.DataFrame) -> str:
    """What a rate of errors leaves out of the calls of the same selection; empty if that is nothing.

    `totals`: calls, ok, errors, cancelled, denied, unknown, rated; `senders`: source, reports_ok, errors.
    """
    number = {name: int(totals.get(name) or 0) for name in ("calls", "ok", "errors", "rated", *APART)}
    parts = [f"{words.count(number[name])} {said}" for name, said in APART.items() if number[name]]
    if unrated := number["ok"] + number["errors"] - number["rated"]:
        parts.append(f"{words.plural(unrated, 'error')} of {_failures_only(senders)}")
    if not parts:
        return ""
    of = f"{words.count(number['rated'])} of the {words.plural(number['calls'], 'call')}"
    return f"Rates are of {of}, without {words.joined(parts)}."


def _failures_only(senders: pl.DataFrame) -> str:
    silent = senders.filter(~pl.col("reports_ok").fill_null(True) & (pl.col("errors") > 0))
    names = silent["source"].unique().sort().to_list()
    return f"{_named(names) or 'senders'}, which tell{'s' if len(names) == 1 else ''} only of failures"


def tokens(cost: Mapping[str, Any], prefix: str = "") -> float | None:
    """Of input and output; None if neither is reported."""
    told = [cost.get(f"{prefix}{name}") for name in ("input_tokens", "output_tokens")]
    known = [number for number in told if number is not None]
    return sum(known) if known else None


def failing_cost(cost: Mapping[str, Any]) -> str:
    """What streaks of failures cost, as far as it is reported; empty if there was none."""
    if not cost.get("streaks"):
        return ""
    known, money = tokens(cost), cost.get("cost_usd")
    untold = len(cost.get("money_not_told_by") or ())
    spent = [f"**{words.plural(cost['calls'], 'call')}**"]
    spent += [words.duration(cost["seconds"] * 1000)] if cost.get("seconds") else []
    spent += [] if known is None else [words.plural(known, "token")]
    if money is not None:
        partly = f" (not told by {words.plural(untold, 'service')})" if untold else ""
        spent.append(f"**{words.dollars(money)}**{partly}")
    missing = [name for name, told in (("tokens", known), ("money", money)) if told is None]
    left_out = f" The agents do not tell {words.joined(missing)}." if missing else ""
    return f"Failing cost {words.joined(spent)}.{left_out}"


def not_told(services: Sequence[str] | None) -> str:
    """Which services tell nothing that a figure counts; empty if there are none."""
    return f"not told by: {_named(services)}" if services else ""


def _named(names: Sequence[str]) -> str:
    """The first of these names, and how many there are besides."""
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return words.joined([*(words.plain(name, 30) for name in names[:NAMED]), *more])


def agreement(compared: float, equal: float) -> str:
    """How often agents' own counts agree with ours."""
    if not compared:
        return "The agents said that they stopped or found a loop, but gave no number to compare."
    told = words.plural(compared, "number")
    return f"Agents told {told} of their own: **{words.rate_of(equal / compared, compared)}** agree with ours."


def streak(row: Mapping[str, Any]) -> str:
    """A streak in a sentence: what failed, how long, how it ended."""
    what = words.plain(row.get("tool"), 60) if row.get("tool") else "several tools"
    lasted = words.duration((row["ended"] - row["started"]).total_seconds() * 1000)
    ends = {
        "recovered": "a success ended it",
        "open": "it is still open",
        "ended": "no success followed: the session ended with it",
    }
    stopped = " The agent stopped there by itself." if row.get("agent_stopped") else ""
    many = words.plural(row["length"], "mistake" if row.get("kind") == "mistake" else "call")
    return f"{many} in a row of {what} in {lasted}; {ends.get(row['state'], row['state'])}.{stopped}"


def rule_value(row: Mapping[str, Any]) -> str:
    """A rule's last value, with the number of calls that it rests on where the rule asks for a least one."""
    value = row.get("value_text")
    if not value:
        return words.NONE
    least = _least(row)
    few = ": too few to fire" if (row.get("calls") or 0) < least else ""
    if not least or (row.get("unit") != "share" and not few):
        return str(value)
    of = f" of {words.count(row['calls'])}" if row.get("unit") == "share" else f", {words.plural(row['calls'], 'call')}"
    return f"{value}{of}{few}"


def fires_at(row: Mapping[str, Any]) -> str:
    """A rule's condition, and what else it asks for: `> 50 % of 5 or more`, `> 30 min after 200 calls or more`."""
    condition = str(row.get("condition_text") or row.get("condition") or "")
    if least := _least(row):
        how = "of" if row.get("unit") == "share" else "after" if row.get("measure") == "silent" else "in"
        calls = "" if row.get("unit") == "share" else " calls"
        condition += f" {how} {words.count(least)}{calls} or more"
    only = words.MEASURED_OF.get(str(row.get("measure")), "")
    return f"{condition} {only}".strip()


def _least(row: Mapping[str, Any]) -> int:
    return int(row.get("min_calls") or 0) if row.get("calls") is not None else 0


def even(said: Mapping[str, Any]) -> bool:
    """Whether everything that was accepted is accounted for."""
    return not said.get("unaccounted")


def account(said: Mapping[str, Any], dropped: Mapping[str, float]) -> str:
    """Whether anything has been lost, in a sentence, and the account of records that shows it."""
    accepted, stored, duplicate = (f"{said.get(name) or 0:,.0f}" for name in ("accepted", "stored", "duplicate"))
    aside = {why: dropped[why] for why in words.NOT_STORED if dropped.get(why)}
    parts = [f"stored {stored}", f"received twice {duplicate}"]
    parts.append(f"no call {sum(dropped.values()) - sum(aside.values()):,.0f}")
    parts += [f"{words.DROPPED[why]} {number:,.0f}" for why, number in aside.items()]
    parts += [f"waiting {said['waiting']:,.0f}"] if said.get("waiting") else []
    records = "record" if said.get("accepted") == 1 else "records"
    line = f"{accepted} {records} accepted {'=' if even(said) else '≠'} {' + '.join(parts)}."
    return f"{_lost(said, aside)} {line}"


def _lost(said: Mapping[str, Any], aside: Mapping[str, float]) -> str:
    wrong = said.get("unaccounted") or 0
    if wrong:
        what = f"{wrong:,.0f} lost" if wrong > 0 else f"{-wrong:,.0f} counted twice"
        return f"**{what}: a defect of the collector; please report it with its log.**"
    if not said.get("accepted"):
        return "**Nothing has been received yet.**"
    but = [f"{words.plural(number, 'record')} {words.NOT_STORED[why]}" for why, number in aside.items()]
    return f"**Nothing has been lost but {words.joined(but)}.**" if but else "**No, nothing has been lost.**"


def alone(text: str) -> str:
    """A rule file without what its rules say of other rules, which are not in it."""
    try:
        said = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # of dates and numbers: the collector says what is wrong
        return text
    rules = said.get("rules") if isinstance(said, dict) else None
    held = [rule for rule in rules if isinstance(rule, dict) and "inhibits" in rule] if isinstance(rules, list) else []
    for rule in held:
        del rule["inhibits"]
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True) if held else text


def failed_rules(rules: pl.DataFrame) -> list[str]:
    """One sentence for each rule whose last evaluation failed. `rules`: name, error (null if it did not fail)."""
    return [
        f"The rule **{words.plain(name)}** could not be evaluated, its alerts stay as they were: "
        f"{words.plain(error, 300)}"
        for name, error in rules.select("name", "error").iter_rows()
        if error
    ]
