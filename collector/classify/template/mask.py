"""Masks names in prose: words that are not in `schemas/words.toml`, in messages that mostly consist of such words."""

from __future__ import annotations

import re
from functools import lru_cache

from collector.tables import load_toml, schemas

WORDS = frozenset(load_toml(schemas() / "words.toml")["words"].split())
KNOWN = WORDS | {word + "s" for word in WORDS}
ENDINGS = ("'s", "s", "ed", "d", "ing", "es", "ly", "able")
REMEMBERED = 8192  # tokens that are not literally in the table

# Words without a digit, an underscore or a point, not in paths, placeholders or brackets.
WORD = re.compile(r"(?<![\w<\[@/.#$-])(?<!\w\()[^\W\d_]+(?:[-'][a-z]+)*(?![\w>/\]]|[.@:(]\w|-\w)")
SMALL = re.compile(r"[^\W\d_]?[^\W\d_A-Z]+(?:[-'][a-z]+)*")
# Capitals inside a clause: `of group Billing`, `execute INSERT`, `passenger AB12`; not `Server Error`, `error TS2304`.
CAPITALS = re.compile(
    r"((?<![^\s(])(?:(?!error|warning|rule|code|reason|status|type|signal)[a-z]+|This|The(?= \w+ <str>)) )"
    r"(?!\w*(?:Error|Exception|Failure|Warning)\b|(?:The|This|An?|It|You|Your|If|No|Not) )"
    r"(?:(?:[A-Z]{2,} )?[A-Z]\w*[^\W\d_A-Z]\w*(?: (?:[A-Z][\w&-]*|<name>|<num>))*|[A-Z]{1,3}\d[A-Z\d]*"
    r"|(?!E[A-Z]{3}|SIG)[A-Z]{2,}(?:_[A-Z]+)*(?: [A-Z]{2,})*(?= [a-z<]|[.,;)]|\Z))"
    r"(?![\w'-])"
)
INSIDE = re.compile(r"[a-z] [A-Z]")
# A file name with spaces, alone after the last colon: `: photo <path>`, not `: cannot open <path>`.
SPACED = re.compile(
    r"(?<=: )(?!(?:open|l?stat|access|read|write|create|unlink|mkdir|scandir|copyfile|rename|load|see|execute|find"
    r"|import|parse|in|at|from|to|with|of|for|and|or|not|the|file|directory|path|folder|module|line)\b|\w+(?:ed|ing) )"
    r"(?:[^\W\d][\w&'-]* |<num> ){1,3}<path>(?=[.)]?\Z)"
)
# Continuations of a name: `<name> Plan` (GOES_ON); a name at the start, after its kind: `Room Blue Lake is` (TITLE).
GOES_ON = re.compile(
    r"<name>(?: (?:(?!\w*Error)[A-Z][\w&-]*|<num>|<name>))+"
    r"(?=[.,;)]|\Z| (?:is|was|has|does|did|not|cannot|could|already|needs|in|on|of|for|from|to|at|by|and)\b)"
    r"|<name>(?: <name>)+"
)
TITLE = re.compile(
    r"((?!The|This|No|Not|An?|Your|Invalid|Unknown|Missing|Unable|[A-Z]+\b|\w*(?:Error|ed|ing)\b)[A-Z][a-z]+)"
    r" (?:[A-Z]\w*|<name>|<num>)(?: (?:[A-Z]\w*|<name>|<num>)){1,3}"
    r"(?= (?:is|was|has|does|did|cannot|could|not|already)\b)"
)


def without_names(text: str) -> str:
    """The text with `<name>` for unknown words, if most of its words are known."""
    if text.endswith(("<path>", "<path>.")):
        text = SPACED.sub("<path>", text)
    tokens = text.split()
    rest = [token for token in tokens if token not in KNOWN]
    known, unknown = len(tokens) - len(rest), set[str]()
    for token in rest:
        more, names = _read(token)
        known += more
        unknown.update(names)
    if known < 2 or known < len(unknown):
        return text
    if unknown:
        text = WORD.sub(lambda found: _named(found, unknown), text)
    if INSIDE.search(text):
        text = CAPITALS.sub(_capitals, text)
    if found := TITLE.match(text):
        text = f"{found[1]} <name>{text[found.end() :]}"
    return GOES_ON.sub("<name>", text) if "<name> " in text else text


@lru_cache(maxsize=REMEMBERED)
def _read(token: str) -> tuple[int, tuple[str, ...]]:
    """The number of known words in it, and the others."""
    words = WORD.findall(token)
    names = tuple(word for word in words if not _known(word))
    return len(words) - len(names), names


def _known(word: str) -> bool:
    """Whether it is known in lower case, without an ending or part by part, or is a code: `ENOENT`, `NoSuchKey`."""
    small = word.lower()
    if small in KNOWN or not SMALL.fullmatch(word):
        return True
    if "-" in small:
        return all(_known(part) for part in small.split("-"))
    stems = [
        small.removesuffix(ending) for ending in ENDINGS if small.endswith(ending) and len(small) > len(ending) + 2
    ]
    return any(stem in WORDS or stem + "e" in WORDS for stem in stems)


def _capitals(found: re.Match[str]) -> str:
    """The word before, and a placeholder, except for known abbreviations and labels: `in JSON`, `Note:`."""
    name = found[0].removeprefix(found[1])
    stays = (len(name) < 5 and name.isupper()) or found.string.startswith(":", found.end())
    return found[0] if stays and name.lower() in KNOWN else f"{found[1]}<name>"


def _named(found: re.Match[str], unknown: set[str]) -> str:
    """The placeholder of an unknown word; a word that begins a clause before a number or name stays."""
    word, text = found[0], found.string
    if word not in unknown:
        return word
    begins = found.start() == 0 or text[found.start() - 2 : found.start()] in (": ", ". ", "! ")
    return word if begins and text.startswith((" <", " #", ": "), found.end()) else "<name>"
