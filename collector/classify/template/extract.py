"""Extracts the error from a message: without frames, echoes and objects around it, and with names masked.

What a pattern alone can do is a row of `schemas/templates.toml`. Each step first looks for a word that its pattern
needs, so that most messages skip most steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple

from collector.classify.template.strip import undressed
from collector.tables import load_toml, schemas

WRAPPED = re.compile(r"\A<(?!html)(\w+)>(.*)</\1>\s*\Z", re.DOTALL)
# pydantic: any number of fields with the same error are one error.
FIELDS = re.compile(r"\A((?s:.{0,300}?)\b)\d+ (validation error)s? for [^\n]+\n")
FIELD = re.compile(r"^ {2,}(\S[^\n]*? \[type=\w+)", re.MULTILINE)
# A first line that says more than what follows: `error: …`, `fatal: …`.
SAYS_MORE = re.compile(r"(?i:error|fatal|err|failed|failure)(?:\[\w+\])?: .{16,}")
QUOTED = re.compile(r"[\s>]*([\"'])(?=[^\n]+ [^\n]+ )((?:(?!\1)[^\n]|(?<=\w)'(?=\w)){12,})\1[\s.>]*\Z")

# An error inside a JSON or Python object, at the start or after a status, not among arguments.
OBJECT = re.compile(
    r"((?:(?!(?<!INVALID_)argument|input|param|kwarg|call|value|text)[^{\n]){0,160})(?<![.!] \[)\{.{0,200}?"
    r"[\"'](?:error|message|e?(?:rr)?(?:or)?_?msg|error_?message|detail|reason)[\"']\s?:\s?([\"'])((?:(?!\2)[^\\]|\\.){1,2000})",
    re.DOTALL | re.IGNORECASE,
)
CODE = re.compile(r"[a-z]+(?:_[a-z]+)+")  # of an error: no name to be replaced
BARE_STATUS = re.compile(r"[45]\d\d\s")
# A nested error message.
INNER = re.compile(r"[\[{][^\[]{0,300}?\"message\": ?\"([^\"]{10,400})\"(?s:.*)")
# Sentences among the values of an object without a known error field.
SENTENCE = re.compile(r"(?<![\w\\])\"((?:[^\"\\\s]|\\.){1,100}(?:\s+(?:[^\"\\\s]|\\.){1,100}){2,60})\"(?!\s?:)")
STATUS = re.compile(r"[\"'](?:code|status|status_?code)[\"']\s?:\s?(\d{3}|-32\d{3})\b", re.IGNORECASE)
EXIT = re.compile(r"[\"']exit_?code[\"']\s?:\s?(-?\d{1,5})\b", re.IGNORECASE)
ESCAPED = re.compile(r"\\([\"'\\])")

# Words of a line that reports an error (TELLS), and of one whose error is on the lines after it (LEADS_ON).
TELLS = re.compile(
    r"error|exception|fail|fatal|panic|abort|would be|no such|denied|forbidden|refused|cannot|can only|could not"
    r"|unable|timed? ?out|missing|exceed|must |invalid|un(?:expected|defined|supported|declared)|conflict|violat"
    r"|already|reject|\bnot (?:[a-z]+(?:ed|able|id|nd|st|ly)|a|an|be|have|in)\b|n't\b|too (?:many|long|large)",
    re.IGNORECASE,
)
# A line with only a location or a count.
BANNER = re.compile(
    r"\s*(?:FAIL|PASS|[●✕×✗\u276f]|Tests?:)\s|\s*ERROR at Row:\d+:Column:\d+|\s*[\w./-]+\.\w+(?: > .+)?\s*\Z"
)
LEADS_ON = re.compile(
    r"[:\[{(]\s*\Z|following (?:error|issue)|Timeout [\d.]+m?s exceeded|validation error|panicked at|fetch failed"
    r"|multiple|compilation (?:error|failure)|(?<!\d)\d+ (?:errors?|problems?|issues?)\b|===|___|\A[^\"]*\"[^\"]*\Z",
    re.IGNORECASE,
)

# The subject of a message, repeated at its end.
ASIDE = re.compile(r"(?<=[.}]) \([\w.:/ -]{1,60}\)\s*\Z")
# Only names after the last colon (LAST); words before the colon after which they are the reason (BEFORE_REASON).
LAST = re.compile(r"(?![a-z]*(?:err|fail|invalid|unavail|timeout)|[a-z]+ed\b)[a-z_][\w-]+(?:, ?[\w.-]+)*[.!]?")
BEFORE_REASON = re.compile(
    r"(?:ed|[Ee]rrors?|[Ee]xception|[Ff]ailure|[Rr]easons?|[Ss]tatus|[Cc]ode|[Ss]tate|[Cc]ause|[Tt]ype"
    r"|[Rr]esult|[Mm]essage|[Ff]atal)\Z"
)

# Scripts other than Latin; Chinese and Japanese have no spaces between words, and wide punctuation.
SCRIPT = r"[\u0370-\u1fff\u3040-\ud7ff]"
HAN = r"[\u3040-\u30ff\u3400-\u9fff]"
IN_SCRIPT = re.compile(SCRIPT)
LATIN = re.compile(r"(?<!\S)[a-z]+(?!\S)")  # more than a few: a sentence that quotes another script
BESIDE = re.compile(rf"(?<={SCRIPT})(?=[A-Za-z0-9/])|(?<=[A-Za-z0-9])(?={SCRIPT})")
# A single Chinese word after a colon that is not a reason: `没有权限访问文件夹: 财务`.
VALUE = re.compile(
    rf"(?<={HAN}{{3}})(?<!错误)(?<!失败)(?<!失敗)(?<!异常)(?<!原因)(?<!エラー): "
    rf"(?!.*[不無无超错誤误失限未断])({HAN}{{1,8}})\Z"
)
WIDE = {0xFF1A: ": ", 0xFF0C: ", ", 0xFF08: " (", 0xFF09: ") ", 0xFF01: "! ", 0xFF1B: "; ", 0xFF1F: "? "}
# Lower-case Latin words, numbers with letters, or a separate Chinese word after others.
APART = re.compile(
    rf"(?<![\w<./:\\-])(?:[a-z][\w.-]*|[A-Z]{{1,3}}-?\d\w*)(?![\w>/:(\\])|(?<={HAN} ){HAN}{{2,}}( {HAN}|\Z)"
)

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DATE = (
    r"()(?i:\[?\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:\d{1,2}[ /-])?"
    rf"(?:{'|'.join(MONTHS)})[a-z]{{0,6}}[ /-]{{1,2}}(?:\d{{4}}|\d{{1,2}}(?:,? \d{{4}})?)[ :T]"
    r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?[AP]M)?(?: (?:[A-Z]{3,4}|[+-]\d{4})\b)?(?: \d{4}\b)?\]?)"
)


def _names() -> tuple[list[tuple[str, str]], dict[str, list[int]]]:
    """Pattern and kind of each row of `schemas/names.toml`; by word, the rows to try for it."""
    table = load_toml(schemas() / "names.toml")
    rows: list[tuple[str, str]] = [(DATE, "time")]
    by_word = {word: [0] for month in MONTHS for word in (month, f"[{month}")}
    for row in table["name"]:
        pattern, words = row["pattern"], row["words"].split()
        for part, text in table["parts"].items():
            pattern = pattern.replace(f"{{{part}}}", text)
        if "{WORD}" not in pattern:
            rows.append((pattern, row["is"]))
            _add(by_word, words, len(rows) - 1)
            continue
        for word in words:
            # The character set comes first, with the look-behind after it: such a pattern is searched faster.
            alone = rf"[{word[0].upper()}{word[0]}]{word[1:]}(?<![\w</.-].{{{len(word)}}})s?"
            rows.append((pattern.replace("{WORD}", alone), row["is"]))
            _add(by_word, (word, f"{word}s"), len(rows) - 1)
    return rows, by_word


def _add(by_word: dict[str, list[int]], words: Iterable[str], row: int) -> None:
    for word in words:
        by_word.setdefault(word, []).append(row)


NAMES, BY_WORD = _names()
KNOWN_WORDS = frozenset(BY_WORD)


@cache
def _replace(row: int) -> Callable[[str], str]:
    """Replaces matches of a row by its placeholder; the pattern is compiled when a message first needs it."""
    pattern, kind = NAMES[row]
    return substitution(pattern, rf"\1<{kind}>")


def substitution(pattern: str, becomes: str) -> Callable[[str], str]:
    """Replaces the matches of a pattern; one that begins with \\A is tried only at the start, not at every position."""
    compiled = re.compile(pattern)
    if not pattern.startswith((r"\A", r"(\A")):
        return partial(compiled.sub, becomes)

    def at_the_start(text: str) -> str:
        found = compiled.match(text)
        return found.expand(becomes) + text[found.end() :] if found else text

    return at_the_start


class Step(NamedTuple):
    """A row of `schemas/templates.toml`."""

    words: Sequence[str]  # without any of which there is nothing to replace
    replace: Callable[[str], str]


TABLE = load_toml(schemas() / "templates.toml")
OPENING, FRAME, ECHO, INSIDE, MASK = (
    [Step(row["words"], substitution(row["pattern"], row["becomes"])) for row in TABLE[name]]
    for name in ("opening", "frame", "echo", "inside", "mask")
)


def applied(steps: Iterable[Step], text: str) -> str:
    """The text after the steps of a table."""
    for words, replace in steps:
        for word in words:
            if word in text:
                text = replace(text)
                break
    return text


def essence(message: str) -> str:
    """The error of the message alone, with placeholders for repeated input; white space stays."""
    text = _fields_as_one(applied(OPENING, message))
    text = applied(ECHO, _without_frames(text))
    text = _out_of_object(text)
    text = undressed(_first_line(applied(INSIDE, text)))
    if text.startswith(('"', "'")) and (found := QUOTED.match(text)):
        text = found[2]
    return _masked(text)


def _fields_as_one(text: str) -> str:
    """pydantic's list of fields as the kinds of errors in it, each once."""
    found = FIELDS.match(text) if "validation error" in text else None
    if found is None:
        return text
    kinds = sorted(set(FIELD.findall(text)))
    return f"{found[1]}{found[2]}: {'; '.join(kinds)}]" if kinds else text


def _out_of_object(text: str) -> str:
    """The error inside a JSON or Python object."""
    if "{" in text and (found := OBJECT.match(text)):
        return _error_of(found)
    return _sentences(text) if text.startswith(("{", "[{")) else text


def _error_of(found: re.Match[str]) -> str:
    """What stands before an object, its status and its error."""
    front, said, text = found[1], found[3], found.string
    if CODE.fullmatch(said) and " " in front:
        said = said.replace("_", " ")
    status = STATUS.search(text, found.end(1))
    number = f"code {status[1]} " if status and status[1] not in front else ""
    if BARE_STATUS.fullmatch(front) and said[0].islower():
        front = f"code {front}"
    text = front + number + ESCAPED.sub(r"\1", said)
    return INNER.sub(r"\1", text) if '"message":' in text else text


def _first_line(text: str) -> str:
    """The first line alone where it says more than what follows: `error: …`, `fatal: …`."""
    if "\n" not in text:
        return text
    first = text.lstrip().partition("\n")[0]
    return first if SAYS_MORE.match(first) and not LEADS_ON.search(first) else text


def _masked(text: str) -> str:
    """The error of a text without anything around it, with placeholders."""
    if not text.isascii():
        text = _narrow(text)
    text = applied(MASK, text)
    if "\n" in text:
        text = _headline(text)
    return _name_after_colon(ASIDE.sub(" (<name>)", _without_known_names(text)))


def _without_known_names(text: str) -> str:
    """Names replaced by the rows of `schemas/names.toml` for the words of this text."""
    words = KNOWN_WORDS.intersection(text.lower().split())
    for row in sorted({row for word in words for row in BY_WORD[word]}):
        text = _replace(row)(text)
    return text


def _name_after_colon(text: str) -> str:
    """Names alone after the last colon are masked, unless they are the reason; a code there is the error."""
    head, _, last = text.rpartition(": ")
    if head.endswith((" error", " Error", "rror occurred")) and CODE.fullmatch(last):
        return last
    if " " in head and LAST.fullmatch(last) and not BEFORE_REASON.search(head, max(0, len(head) - 12)):
        return f"{head}: <name>"
    return text


def _headline(text: str) -> str:
    """The first line that reports an error; all lines if it leads on to the next one, or if none does."""
    for line in text.splitlines():
        if " " in line.strip() and TELLS.search(line) and not BANNER.match(line):
            return text if LEADS_ON.search(line) else undressed(line)
    return text


def _sentences(text: str) -> str:
    """The exit code or status of an object and the sentences among its values; the object itself if it has none."""
    sentences = [sentence.replace("\\n", "\n") for sentence in SENTENCE.findall(text[:2048])]
    if not sentences:
        return text
    said = ". ".join(ESCAPED.sub(r"\1", sentence) for sentence in sentences)
    if inner := WRAPPED.match(said):
        said = inner[2]
    code = EXIT.search(text) or STATUS.search(text)
    return (f"code {code[1]} " if code else "") + _without_frames(said)


def _narrow(text: str) -> str:
    """A text in another script, with its Latin parts separated and masked; any text with narrow punctuation."""
    text = text.translate(WIDE)
    if not IN_SCRIPT.search(text) or len(LATIN.findall(text)) > 3:
        return text
    return VALUE.sub(": <name>", APART.sub(r"<name>\1", BESIDE.sub(" ", text)))


def _without_frames(text: str) -> str:
    return applied(FRAME, text) if "\n" in text else text
