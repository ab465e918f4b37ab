"""The group of an event: one fingerprint per class, tool and message template.

A template is the message with what differs from call to call replaced: paths, quoted text, numbers, ids, times. Words
stay, and so do exit codes, errno and HTTP status codes: `exit code 1` and `exit code 127` are different errors.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

TEMPLATE_CHARS = 300
LOOKED_AT = 1024  # characters of a message: what follows the first lines of an error is mostly output
REMEMBERED = 2048  # distinct messages; each is at most a few KiB by the bounds of the event

EXTENSIONS = (
    "py|pyi|js|jsx|mjs|ts|tsx|json|jsonl|md|rs|go|java|kt|swift|c|cc|cpp|h|hpp|cs|rb|php|sh|sql|html|css|xml|csv|"
    "toml|yaml|yml|ini|cfg|env|lock|log|txt|pdf|png|jpg|ipynb"
)

# Tried from left to right; the name of the group that matches is the placeholder, `keep` stays. The first alternative
# takes plain words and what is between them: without it a message costs three times as much.
TOKENS = re.compile(
    r"(?P<keep>[\s,;:!?()=]+|(?<!\w)(?:[^\W\d]+(?:'[a-z]+)?[ ,]+)*[^\W\d]+(?:'[a-z]+)?(?=[\s,;!?)]|[.:](?:\s|$)|$)"
    r"|<(?:num|path|str|url|uuid|hex|time|email|ip|json|id)>|\[redacted:[\w.:-]{1,64}\]|\"exit_?code\"\s?:\s?-?\d{1,5})"
    r"|(?P<url>\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"`<>]{1,500})"
    r"|(?P<email>\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}\b)"
    r"|(?P<uuid>\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?\b"
    r"|\b\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?\b"
    r"|\b\d{1,12}(?:\.\d{1,9})? ?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?|days?)\b)"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|\[[0-9a-f]{0,4}:[0-9a-f:]{1,36}\](?::\d{1,5})?)"
    r"|(?P<json>\{(?![^{}]{0,400}exit_?code)\s?(?:\"|<str>)[^{}]{0,400}\}|\{\}|\[(?:[\"'{\[]|<(?:str|json)>)[^\[\]]{0,400}\])"
    r"|(?P<str>\"[^\"\n]{0,400}\"|(?<!\w)'[^'\n]{0,400}'(?!\w)|`[^`\n]{0,400}`)"
    r"|(?P<path>(?<![\w<.~/\\])(?:[a-z]:[\\/]|~?/|\.{1,2}/)[\w.@%+=~\\/-]{1,400}(?<!\.)(?::\d{1,7}){0,2}"
    r"|(?<![\w<./\\])[\w.@-]{1,80}(?:[/\\][\w.@-]{1,80}){2,30}(?::\d{1,7}){0,2}"
    r"|(?<![\w<./\\])(?:[\w@-][\w.@-]{0,80}[/\\])?[\w-]{1,80}(?:\.[\w-]{1,20}){0,3}"
    rf"\.(?:{EXTENSIONS})\b(?::\d{{1,7}}){{0,2}})"
    r"|(?P<hex>\b0x[0-9a-f]{1,32}\b|\b(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])[0-9a-f]{6,64}\b)"
    r"|(?P<id>\b[a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,40}){0,6}[_-](?=[a-z]{0,40}\d)[a-z0-9]{2,64}\b"
    r"|\b(?=[a-z]{0,40}\d)(?=\d{0,40}[a-z])[a-z0-9]{12,80}\b)"
    r"|(?P<num>[+-]?\b\d{1,40}(?:[.,]\d{1,40}){0,8}\b)",
    re.IGNORECASE,
)
# What stands before a number that names an error instead of counting something.
CODE_BEFORE = re.compile(
    r"(?:\b(?:exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)|status(?:[ _]code)?|https?|returned|errno|code|error"
    r"|signal)[\"']?\W{0,3}|failed: |\()$",
    re.IGNORECASE,
)
CODE = re.compile(r"\d{1,3}|-32\d{3}")
# An error inside a JSON object: without it all such messages would be one `<json>`.
JSON_ERROR = re.compile(
    r"\{.{0,200}?\"(?:error|message|error_message|detail|reason)\"\s?:\s?\"((?:[^\"\\]|\\.){1,2000})", re.DOTALL
)
SPLIT_PLACEHOLDER = re.compile(r"\s?<[a-z]{0,5}$")


@lru_cache(maxsize=REMEMBERED)
def template(message: str) -> str:
    """The message without what differs from call to call, at most TEMPLATE_CHARS long; its own template is itself."""
    inside = JSON_ERROR.match(message[:LOOKED_AT])
    return _settled(_once(inside[1] if inside else message[:LOOKED_AT]))


def fingerprint(error_class: str, tool: str, template: str) -> int:
    """The group's id: 64 bits over class, tool and template."""
    words = "\x1f".join((error_class, tool, template)).encode("utf-8", "replace")
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "big")


@lru_cache(maxsize=REMEMBERED)
def _settled(text: str) -> str:
    """The text cut, and passed again until nothing changes: each change leaves less outside placeholders."""
    while True:
        cut = SPLIT_PLACEHOLDER.sub("", text[:TEMPLATE_CHARS]) if len(text) > TEMPLATE_CHARS else text
        again = _once(cut)
        if again == text:
            return text
        text = again


def _once(text: str) -> str:
    """One pass of replacements, white space collapsed."""
    return " ".join(TOKENS.sub(_placeholder, text).split())


def _placeholder(found: re.Match[str]) -> str:
    """What stands for a token: itself where it is to be kept."""
    kind, token = found.lastgroup, found[0]
    if kind == "keep":
        return token
    if kind == "num" and CODE.fullmatch(token):
        start = found.start()
        if CODE_BEFORE.search(found.string, max(0, start - 24), start):
            return token
    return f"<{kind}>"
