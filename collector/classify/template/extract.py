"""Extracts the error from a message: without frames, echoes and objects around it, and with names masked.

Each step first looks for a word that its pattern needs, so that most messages skip most steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from collector.classify.template.strip import undressed
from collector.tables import load_toml, schemas

# A traceback up to the line that names the exception; frames below one; source with a caret below it.
PYTHON_FRAMES = re.compile(
    r"(?:Traceback \(most recent call last\):|^[ \t]*File \"[^\"\n]*\", line \d.*)\s*\n(?:[ \t].*\n|\s*\n)*",
    re.MULTILINE,
)
FRAMES = re.compile(r"(?:\r?\n[ \t]+at .*)+|(?:\r?\n- (?:/|[A-Z]:\\).*)+")
TWICE = re.compile(r"\A([^\n]{8,400})\n+\w*Error: \1")  # a stack begins with the message
ECHO = re.compile(r"\n[ \t│>]*\d+[ \t]*[|│].*|\n[ \t│]{2,}\d+: .*")  # a line of source, after its number
CARET = re.compile(r"\n.*\n[ \t|]*[\^~]+[ \t]*(?=\n|$)")

# The input that a shell, an edit tool or a database repeats; the id of the request.
GIVEN = re.compile(r"(?<=\bString: )(?s:.+)|(?<=\bCommand: )(?:(?!\bCommand: ).)+(?=\n)|(?<=match for edit:\n)(?s:.+)")
SQL = re.compile(
    r"\bLINE \d+: .*|\bin scope (?=SELECT |WITH )[^\n]+?(?=\. \([A-Z]|\s*\(version |\Z)"
    r"|\[(?:SQL|parameters): .*"
    r"|(?<=, SQL: )(?i:select|insert|update|delete|with|create|alter|drop)\b[^\n]*(?=\)\s*\Z)"
    r"|\b(?:SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET)\b [^\"'`)\n]{3,400}"
)
WRAPPED = re.compile(r"\A<(?!html)(\w+)>(.*)</\1>\s*\Z", re.DOTALL)
# A separate line with a circumstance in one word: `Location: EU`.
CIRCUMSTANCE = re.compile(
    r"(?<=\n)([ \t]*(?!Code|Status|Error|Reason|Exit)[A-Z][\w ]{1,20}: +)(?!\w+(?:Error|Exception)\b|\d+\b)"
    r"[\w.:@/+-]{1,80}(?=\r?\n|\Z)"
)
USAGE = re.compile(r"\Ausage: (?s:.*?)\n(?=\S+: error: )")
HINT = re.compile(
    r"(?<=[\w.;,!])\s+(?:Did you (?:mean|forget):? [^?\n]{1,200}\?|HINT: [^\n]+|DETAIL: +Failing row [^\n]+)"
)
REPOSITORY = re.compile(
    r"(?<![\w/:.@-])(?:[\w.-]{1,40}@)?[a-zA-Z][\w.-]{1,80}:(?!//)[\w./~-]{1,200}\.git(?![\w.])"
)  # host:path.git
# A shell, with or without its line number.
SHELL = re.compile(
    r"(?<![^\n])(?:(?:/[\w/]*/)?(?:ba|z|da)?sh: (?:-c: )?(?:(?:\w+ )?\d+: *)?|(?:\(eval\)|zsh):\d+: )(?=\S)"
)
REQUEST = re.compile(r",? \(?request[ _-]id:? ?[\w:-]+\)?|\ARequest req_\w+: ", re.IGNORECASE)
# Words of which a pattern needs one, the pattern, and what stays of its matches, in this order.
MASKS = (
    (("LINE ", "[SQL", ", SQL: ", "SELECT ", "INSERT ", "DELETE ", "UPDATE "), SQL, "<sql>"),
    (("Did you", "HINT: ", "DETAIL: "), HINT, ""),
    ((".git",), REPOSITORY, "<url>"),
    (("equest",), REQUEST, ""),
    (("sh: ", "(eval):", "zsh:"), SHELL, "bash: line 1: "),
)
# pydantic: any number of fields with the same error are one error.
FIELDS = re.compile(r"\A((?s:.{0,300}?)\b)\d+ (validation error)s? for [^\n]+\n")
FIELD = re.compile(r"^ {2,}(\S[^\n]*? \[type=\w+)", re.MULTILINE)
NAMES_BELOW = re.compile(r"(?<=:\n)(?:[\w.-]{1,60}\n){1,40}")  # each on a line of its own
# A first line that says more than what follows: `error: …`, `fatal: …`.
TOLD_FIRST = re.compile(r"(?i:error|fatal|err|failed|failure)(?:\[\w+\])?: .{16,}")

NPM = re.compile(r"^npm (?:ERR!|error) ?(?:[45]\d\d )?", re.MULTILINE)

# An answer that a client quotes: `<HttpError 404 when requesting … returned "…">`, `HTTP response body: {…}`.
GIVEN_BACK = re.compile(
    r"\A(?s:.{0,4000}?)(?:\breturned \"(?=[^\"\n]+ [^\"\n]+ )([^\"\n]{8,})\"(?s:.*)"
    r"|\b(?:HTTP response body|[Rr]esponse content|[Rr]esponse body):\s*(?:b')?(?=\{)"
    r"|\b[Ss]erver responded with:\s*(?=\{[^\n]{0,200}?[\"'](?:error|message|detail|reason)[\"']))"
)
QUOTED = re.compile(r"[\s>]*([\"'])(?=[^\n]+ [^\n]+ )((?:(?!\1)[^\n]|(?<=\w)'(?=\w)){12,})\1[\s.>]*\Z")

# An error inside a JSON or Python object, at the start or after a status, not among arguments; the title of a page.
OBJECT = re.compile(
    r"((?:(?!(?<!INVALID_)argument|input|param|kwarg|call|value|text)[^{\n]){0,160})(?<![.!] \[)\{.{0,200}?"
    r"[\"'](?:error|message|e?(?:rr)?(?:or)?_?msg|error_?message|detail|reason)[\"']\s?:\s?([\"'])((?:(?!\2)[^\\]|\\.){1,2000})",
    re.DOTALL | re.IGNORECASE,
)
CODE = re.compile(r"[a-z]+(?:_[a-z]+)+")  # of an error: no name to be replaced
BARE_STATUS = re.compile(r"[45]\d\d\s")
# A nested error message.
INNER = re.compile(r"[\[{][^\[]{0,300}?\"message\": ?\"([^\"]{10,400})\"(?s:.*)")
# A list of issues of a validator, printed on several lines: the first tells what kind of mistake it is.
ISSUES = re.compile(r"(?:\w+: )?\[\s+\{(?s:.{0,600}?)\"message\":\s?\"((?:[^\"\\]|\\.){4,300})\"")
STRUCT = re.compile(r"\[\{(?:\w+:[^{}]{0,200} )?Message:(\w+ [^{}]{1,400})\}(?s:.*)")  # as Go prints it
# Sentences among the values of an object without a known error field; an error in XML.
SENTENCE = re.compile(r"(?<![\w\\])\"((?:[^\"\\\s]|\\.){1,100}(?:\s+(?:[^\"\\\s]|\\.){1,100}){2,60})\"(?!\s?:)")
TAGGED = re.compile(r"<(?i:Code)>([\w.]{1,80})</.{0,200}?<(?i:Message)>(.{1,500}?)</(?i:Message)>", re.DOTALL)
STATUS = re.compile(r"[\"'](?:code|status|status_?code)[\"']\s?:\s?(\d{3}|-32\d{3})\b", re.IGNORECASE)
EXIT = re.compile(r"[\"']exit_?code[\"']\s?:\s?(-?\d{1,5})\b", re.IGNORECASE)
ESCAPED = re.compile(r"\\([\"'\\])")
PAGE = re.compile(r"<(?:!doctype|html)\b.{0,100}?<title>(.{1,200}?)</title>", re.DOTALL | re.IGNORECASE)

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
# Only names after the last colon (LAST); words before the colon after which they are the reason (TOLD_WHY).
LAST = re.compile(r"(?![a-z]*(?:err|fail|invalid|unavail|timeout)|[a-z]+ed\b)[a-z_][\w-]+(?:, ?[\w.-]+)*[.!]?")
TOLD_WHY = re.compile(
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
    told = {word: [0] for month in MONTHS for word in (month, f"[{month}")}
    for row in table["name"]:
        pattern, words = row["pattern"], row["words"].split()
        for part, text in table["parts"].items():
            pattern = pattern.replace(f"{{{part}}}", text)
        of_each = "{WORD}" in pattern
        for word in words:
            if of_each or word is words[0]:
                # The character set comes first, with the look-behind after it: such a pattern is searched faster.
                alone = rf"[{word[0].upper()}{word[0]}]{word[1:]}(?<![\w</.-].{{{len(word)}}})s?"
                rows.append((pattern.replace("{WORD}", alone), row["is"]))
            for form in (word, f"{word}s") if of_each else (word,):
                told.setdefault(form, []).append(len(rows) - 1)
    return rows, told


NAMES, TOLD = _names()
TELLING = frozenset(TOLD)


@cache
def _replace(row: int) -> Callable[[str], str]:
    """Replaces matches of a row by its placeholder; the pattern is compiled when a message first needs it."""
    pattern, kind = NAMES[row]
    placeholder, compiled = f"<{kind}>", re.compile(pattern)
    if not pattern.startswith(r"(\A"):
        return partial(compiled.sub, lambda found: found[1] + placeholder)

    def at_the_start(text: str) -> str:  # `sub` would try every position
        found = compiled.match(text)
        return f"{found[1]}{placeholder}{text[found.end() :]}" if found else text

    return at_the_start


def essence(message: str) -> str:
    """The error of the message alone, with placeholders for repeated input; white space stays."""
    text = message
    if text.startswith("<") and (found := WRAPPED.match(text)):
        text = found[2]
    if '"message":' in text and (found := ISSUES.match(text)):
        text = found[1]
    if "npm " in text:
        text = NPM.sub("", text)
    if "validation error" in text and (found := FIELDS.match(text)) and (kinds := FIELD.findall(text)):
        text = f"{found[1]}{found[2]}: {'; '.join(sorted(set(kinds)))}]"
    if "ConnectionPool(" in text:
        text = text.replace("HTTPSConnectionPool(", "HTTPConnectionPool(")
    if "\n" in text:
        text = NAMES_BELOW.sub("<name>\n", text)
        text = CIRCUMSTANCE.sub(r"\1<name>", USAGE.sub("", _without_frames(text)))
    if "String: " in text or "Command: " in text or "for edit:" in text:
        text = GIVEN.sub("<str>", text)
    if 'eturned "' in text or "esponse body:" in text or "esponse content:" in text or "responded with:" in text:
        text = GIVEN_BACK.sub(r"\1", text)
    if "{" in text and (found := OBJECT.match(text)):
        status = STATUS.search(text, found.end(1))
        number = f"code {status[1]} " if status and status[1] not in found[1] else ""
        said = found[3].replace("_", " ") if CODE.fullmatch(found[3]) and " " in found[1] else found[3]
        front = f"code {found[1]}" if BARE_STATUS.fullmatch(found[1]) and said[0].islower() else found[1]
        text = front + number + ESCAPED.sub(r"\1", said)
        if '"message":' in text:
            text = INNER.sub(r"\1", text)
    elif text.startswith(("{", "[{")):
        text = _sentences(text)
    if " Message:" in text:
        text = STRUCT.sub(r"\1", text)
    if "essage>" in text and (found := TAGGED.search(text)):
        text = f"{found[1]}: {found[2]}"
    if "<title>" in text and (found := PAGE.search(text)):
        text = text[: found.start()] + found[1]
    if "\n" in text:
        first = text.lstrip().partition("\n")[0]
        text = first if TOLD_FIRST.match(first) and not LEADS_ON.search(first) else text
    text = undressed(text)
    if text.startswith(('"', "'")) and (found := QUOTED.match(text)):
        text = found[2]
    return _masked(text)


def _masked(text: str) -> str:
    """The error of a text without anything around it, with placeholders."""
    if not text.isascii():
        text = _narrow(text)
    for words, pattern, rest in MASKS:
        if any(map(text.__contains__, words)):
            text = pattern.sub(rest, text)
    if "\n" in text:
        text = _headline(text)
    if telling := TELLING.intersection(text.lower().split()):
        for row in sorted({row for word in telling for row in TOLD[word]}):
            text = _replace(row)(text)
    text = ASIDE.sub(" (<name>)", text)
    head, colon, last = text.rpartition(": ")
    if head.endswith((" error", " Error", "rror occurred")) and CODE.fullmatch(last):
        return last
    if colon and " " in head and LAST.fullmatch(last) and not TOLD_WHY.search(head, max(0, len(head) - 12)):
        text = f"{head}: <name>"
    return text


def _headline(text: str) -> str:
    """The first line that reports an error; all lines if it leads on to the next one, or if none does."""
    lines = [line for line in text.splitlines() if line.strip()]
    told = next((line for line in lines if " " in line.strip() and TELLS.search(line) and not BANNER.match(line)), None)
    return text if told is None or LEADS_ON.search(told) else undressed(told)


def _sentences(text: str) -> str:
    """The exit code or status of an object and the sentences among its values; the object itself if it has none."""
    found = [ESCAPED.sub(r"\1", one.replace("\\n", "\n")) for one in SENTENCE.findall(text[:2048])]
    if not found:
        return text
    code, said = EXIT.search(text) or STATUS.search(text), ". ".join(found)
    if inner := WRAPPED.match(said):
        said = inner[2]
    return (f"code {code[1]} " if code else "") + _without_frames(said)


def _narrow(text: str) -> str:
    """A text in another script, with its Latin parts separated and masked; any text with narrow punctuation."""
    text = text.translate(WIDE)
    if not IN_SCRIPT.search(text) or len(LATIN.findall(text)) > 3:
        return text
    return VALUE.sub(": <name>", APART.sub(r"<name>\1", BESIDE.sub(" ", text)))


def _without_frames(text: str) -> str:
    text = text.partition("\n\ngoroutine ")[0]
    if '", line ' in text:
        text = PYTHON_FRAMES.sub("", text)
    if "|" in text or "│" in text or ":   " in text:
        text = ECHO.sub("", text)
    if "^" in text:
        text = CARET.sub("", text)
    if "at " in text or "\n- " in text:
        text = TWICE.sub(r"\1", FRAMES.sub("", text))
    return text
