"""What a message says went wrong: without the frames, echoes and objects around it, and without names in bare words.

Every step first looks for a word that its pattern needs, so that most messages pay for none of them.
"""

from __future__ import annotations

import re

from collector.tables import load_toml, schemas

# A traceback up to the line that names the exception; frames below one; source with a caret below it.
PYTHON_FRAMES = re.compile(
    r"(?:Traceback \(most recent call last\):|^[ \t]*File \"[^\"\n]*\", line \d.*)\s*\n(?:[ \t].*\n|\s*\n)*",
    re.MULTILINE,
)
FRAMES = re.compile(r"(?:\r?\n[ \t]+at .*)+|(?:\r?\n- (?:/|[A-Z]:\\).*)+")
TWICE = re.compile(r"\A([^\n]{8,400})\n+\w*Error: \1")  # a stack begins with the message
CARET = re.compile(r"\n.*\n[ \t|]*[\^~]+[ \t]*(?=\n|$)")

# What a shell, an edit tool or a database repeats of the text that it was given; the id of this one request.
GIVEN = re.compile(r"(?<=\bString: )(?s:.+)|(?<=\bCommand: ).+(?=\n)")
SQL = re.compile(
    r"\bLINE \d+: .*|\[(?:SQL|parameters): .*|\b(?:SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET)\b [^\"'`)\n]{3,400}"
)
SQL_WORDS = ("LINE ", "[SQL", "SELECT ", "INSERT ", "DELETE ", "UPDATE ")
REQUEST = re.compile(r",? \(?request[ _-]id:? ?[\w-]+\)?", re.IGNORECASE)

# One error inside a JSON or Python object, at the start or after a status, not among arguments; a page's title.
OBJECT = re.compile(
    r"((?:(?!argument|input|param|kwarg|call|value|text)[^{\n]){0,80})\{.{0,200}?"
    r"[\"'](?:error|message|error_?message|detail|reason)[\"']\s?:\s?([\"'])((?:(?!\2)[^\\]|\\.){1,2000})",
    re.DOTALL | re.IGNORECASE,
)
STATUS = re.compile(r"[\"'](?:code|status|status_?code)[\"']\s?:\s?(\d{3}|-32\d{3})\b", re.IGNORECASE)
ESCAPED = re.compile(r"\\([\"'\\])")
PAGE = re.compile(r"<(?:!doctype|html)\b.{0,100}?<title>(.{1,200}?)</title>", re.DOTALL | re.IGNORECASE)

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DATE = re.compile(
    r"\[?\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:\d{1,2}[ /-])?"
    rf"(?:{'|'.join(MONTHS)})[a-z]{{0,6}}[ /-]{{1,2}}(?:\d{{4}}|\d{{1,2}}(?:,? \d{{4}})?)[ :T]"
    r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?[AP]M)?(?: (?:[A-Z]{3,4}|[+-]\d{4})\b)?(?: \d{4}\b)?\]?",
    re.IGNORECASE,
)


def _names() -> list[tuple[frozenset[str], str, re.Pattern[str]]]:
    """The rows of `schemas/names.toml`: telling words, replacement, pattern."""
    table = load_toml(schemas() / "names.toml")
    rows = []
    for row in table["name"]:
        pattern = row["pattern"]
        for part, text in table["parts"].items():
            pattern = pattern.replace(f"{{{part}}}", text)
        rows.append((frozenset(row["words"].split()), rf"\1<{row['is']}>", re.compile(pattern)))
    return rows


NAMES = [(frozenset([*MONTHS, *(f"[{month}" for month in MONTHS)]), "<time>", DATE), *_names()]
TELLING = frozenset[str]().union(*(words for words, _, _ in NAMES))


def essence(message: str) -> str:
    """The message's error alone, what repeats the call's input as placeholders; white space as it was."""
    text = message
    if "\n" in text:
        text = _without_frames(text)
    if "String: " in text or "Command: " in text:
        text = GIVEN.sub("<str>", text)
    if "{" in text and (found := OBJECT.match(text)):
        status = STATUS.search(text, found.end(1))
        number = f"code {status[1]} " if status and status[1] not in found[1] else ""
        text = found[1] + number + ESCAPED.sub(r"\1", found[3])
    if "<title>" in text and (found := PAGE.search(text)):
        text = text[: found.start()] + found[1]
    if any(word in text for word in SQL_WORDS):
        text = SQL.sub("<sql>", text)
    if "equest" in text:
        text = REQUEST.sub("", text)
    if telling := TELLING.intersection(text.lower().split()):
        for words, replacement, pattern in NAMES:
            if not words.isdisjoint(telling):
                text = pattern.sub(replacement, text)
    return text


def _without_frames(text: str) -> str:
    if '", line ' in text:
        text = PYTHON_FRAMES.sub("", text)
    if "^" in text:
        text = CARET.sub("", text)
    if "at " in text or "\n- " in text:
        text = TWICE.sub(r"\1", FRAMES.sub("", text))
    return text
