"""Values announced by a key: where they begin and end, in any notation.

Starts where hyperscan found a telling word: in JSON at any escape depth, YAML, TOML, INI, .env, XML, query strings,
flags, code, calls, tables and prose. Reads at most REACH bytes from there. `keys` decides whether the key announces a
secret, `plausible` whether the value is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from collector.sanitise.keys import Keys
from collector.sanitise.plausible import WORDS, keyed_secret, looks_random, placeholder, prose_secret
from collector.sanitise.redactions import Rule

REACH = 4096
_LONGEST_NAME = 80
_KEY_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$"
_Q = r"\\{0,15}[\"'`]"
_VALUE = r"(?i:[a-z]{1,16}_?)??(?i:value|val|v|text|contents?|default|data|string|secret_string|token|fill)"
_SAID = "|".join(WORDS["said"])  # between a key and its value in running text
_LABELS = (
    r"(?:name|key|id|field|label|header|variable|var|parameter|param|selector|element|ref|k|property|placeholder|attr"
    r"|target|locator)"
)


def _pattern(text: str) -> re.Pattern[bytes]:
    return re.compile(text.encode(), re.VERBOSE)


# The text between a key and its value; the name of the matched group is the notation.
_AFTER_KEY = _pattern(
    rf"""[\w\-]{{0,40}}+ (?:\.[\w\-]{{1,40}}+){{0,3}}+ (?P<rest>) (?:
      (?P<pair> {_Q} \s{{0,4}},?\s{{0,8}}
        (?: (?:{_Q})?\w{{1,16}}(?:{_Q})?\s{{0,2}}[:=]\s{{0,2}}(?:{_Q})?[\w\ ./-]{{0,40}}(?:{_Q})?\s{{0,4}},?\s{{0,8}}
        ){{0,3}}?
        (?:{_Q})?{_VALUE}(?:{_Q})?\s{{0,4}}[:=]\s{{0,4}} )
    | (?P<block> {_Q}\s{{0,3}}\{{
        (?:\s{{1,40}}(?!default)[\w-]{{1,20}}\s{{0,8}}=\s{{0,3}}[^\r\n{{}}]{{1,80}}){{0,4}}
        \s{{1,40}}default\s{{0,8}}=\s{{0,3}} )
    | (?P<yaml> \s{{0,8}}\r?\n[\ ]{{0,24}}(?:value|val|text|content)\s{{0,2}}:[\ ]{{1,4}} )
    | (?P<form> {_Q}\r?\n (?:Content-[^\r\n]{{1,80}}\r?\n)? \r?\n )
    | (?P<assign> (?:\\{{0,15}}[\"'`*]{{1,2}})?(?:\[\d{{0,6}}\])?\s{{0,3}}\]?\)?\s{{0,24}}[?!]?
        (?: :\s{{0,3}}&?[A-Za-z_][\w<>\[\]|'?.&\ ]{{0,30}}?\s{{0,3}}=(?=\s{{0,3}}[bBfFrRuU]?{_Q})  # `: str = "x"`
          | \s(?:string|[a-zA-Z]\w{{2,12}}\(\d{{1,4}}\))\s{{0,3}}:?=  # `string =`, `varchar(50) =`
          | :\*\*|:=|=>|->|[=!]==?|\\{{0,4}}[=:]|\|\|=|\?= ) (?!=)\s{{0,40}} )
    | (?P<comma> (?:(?:{_Q})?\])?{_Q}\s{{0,3}},\s{{0,40}} )
    | (?P<typed> (?i: {_Q}\]?{_Q}? (?:\s?\}})? \)\)? \.(?:first\(\)\.)?
        (?:send_?keys|fill|type|press_?sequentially|set_?value|val|set|input_text|(?:enter|type|replace)Text)\(\s{{0,8}}
        (?={_Q})) )
    | (?P<call> \(\s{{0,8}} )
    | (?P<fallback> (?:\\{{0,15}}[\"'])?[\])]{{0,2}}\s{{1,3}}(?:\|\||\?\?|or|\?:)\s{{1,3}} )
    | (?P<table> [\"'`*]{{0,2}}\s{{0,24}}\|\s{{0,24}} )
    | (?P<prose> [\"'`*]{{0,2}}\s{{1,4}}
        (?:(?:{_SAID}|for\ (?:the\ )?[\w@.\-]{{2,40}}):?\s{{1,3}}){{1,4}}:?\s{{0,3}} )
    | (?P<space> [\ \t]{{1,24}} )
    )"""
)
_AFTER_TAG = _pattern(
    rf"""[\w.:-]{{0,40}}+ (?:{_Q})? (?:\s[^<>\n]{{0,80}})?>\s{{0,16}}
    (?:</(?:name|key)>\s{{0,40}}<(?:value|string)[^<>]{{0,20}}>\s{{0,16}})? (?P<cdata><!\[CDATA\[)?"""
)
_PLACEHOLDER_TAG = re.compile(rb"<[A-Za-z][\w -]{0,40}>")
_IN_TAG = re.compile(rb"<[^<>]*\Z|<(?:name|key)>\Z")
_HEADER = _pattern(r"[\w\-]{0,20}+(?P<rest>)(?:\\{0,15}[\"'])?\s{0,3}(?:=>|(?P<colon>:)|[=,])\s{0,3}")
_WORD_BEFORE = re.compile(rb"[A-Za-z]{2,12} \Z")
_KEY_REST = re.compile(rb"[\w.\-]{0,40}")
_LABEL = _pattern(
    rf"""(?i)(?:\b|_)[a-z]{{0,16}}?{_LABELS} \\{{0,15}}[\"']?\s{{0,3}}[:=]\s{{0,3}}\\{{0,15}}[\"']?
    [\#.\[\w=*^$\ ,:()-]{{0,40}} \\{{0,15}}[\"']?\Z"""
)
_LABEL_BEFORE = _pattern(rf"(?i)[\"'][a-z]{{0,16}}?{_LABELS}\\{{0,15}}[\"']\s{{0,3}}:\s{{0,3}}\\{{0,15}}[\"']\Z")
_VALUE_BEFORE = _pattern(
    rf"""(?i)[\"'](?:[a-z]{{0,16}}_?value|val|v|text|content)\\{{0,15}}[\"']\s{{0,3}}:\s{{0,3}}\\{{0,15}}[\"']
    (?P<value>[^\"'\\\r\n]{{1,400}})
    \\{{0,15}}[\"']\s{{0,8}},\s{{0,40}}\\{{0,15}}[\"'][a-z]{{0,16}}?{_LABELS}\\{{0,15}}[\"']\s{{0,3}}:\s{{0,3}}\\{{0,15}}[\"']\Z"""
)
# Calls that wrap a literal, YAML anchors and tags, string prefixes; then the quote.
_OPEN = _pattern(
    rf"""(?:(?:String::from|Some|Ok|Buffer\.from|(?:pydantic\.)?SecretStr|Secret|SecretString(?:::new)?|String|str|bytes
        |(?:base64\.)?b64decode|atob|Password|Token|Zeroizing::new|new\s\w{{1,30}}|std::string|encodeURIComponent|default|cast)\(\s{{0,3}})?
    (?:&[\w-]{{1,20}}\s | !{{1,2}}\w{{1,12}}\s | [bBrRuUfFlLN@$]{{1,2}}(?={_Q}))?
    (?P<quote>\\{{0,15}}(?:\"\"\"|'''|[\"'`]))"""
)
_BLOCK = re.compile(rb"[|>][-+]?\d?[ ]*\r?\n[ ]+")
# A bare word: a comma or ampersand ends it only if another pair or a space follows.
_WORD = _pattern(
    r"""(?: [^\s\"'`\\,;&<>(){}\[\]|\xe2] | ,(?=[^\s\"'`\\,;)}\]])(?![\w.\-]{1,40}\s{0,3}[=:])
      | &(?!amp;|[\w.%\-]{1,40}=|\s|&|$) | \\(?=[^\s\"'nrtu\\/]) ){1,4096}+"""
)
_LINE_WORD = _pattern(
    r"(?: [^\s\"\\`,;&] | [,;&](?!amp;|[\w.%\-]{1,40}\s{0,3}[=:]|\s|$) | \\(?=[^\s\"'nrtu\\/]) ){1,4096}+"
)
_LINE_START = _pattern(
    r"""(?:^|[\r\n\"]|\\n|\\r)[\ \t+>|\#;-]{0,24}(?:\d{1,5}[:|\t\ ]\s{0,4})?
    (?:export|set|setx|ENV|ARG|declare\s-x|-\s|\$env:)?\s{0,8}\Z"""
)
_NEXT_LINE = re.compile(rb":[ \t]*(?:\r?\n){1,2}(?P<value>[^\s\"'`:=,;(){}<>\\]{5,100})[ \t]*(?:[\r\n\"']|\Z)")
_DIFF_LINE = re.compile(rb"[^\\](?:\n|\\n)-\Z")  # after a backslash it is a flag: the command goes on
_TEST = re.compile(rb":(?:\w+::.*|[A-Za-z]+_\w+|Tests?[A-Z]\w*)(?:\[.*)?")  # test_token.py::test_x, auth::tests::x
_ARN = re.compile(rb"arn:aws[\w-]{0,12}:secretsmanager:[\w-]{0,20}:\d{0,12}:\Z")  # followed by secret:name
_PASSED = re.compile(rb"PASS Test[A-Z]\w*")
_ENVIRONMENT_FLAG = re.compile(rb"(?:-e|--env) \Z")
_AFTER_FLAG = frozenset(word.encode() for word in WORDS["after_flag"])
_NAME = re.compile(rb"[A-Za-z_][\w.:>#-]*")
_NAME_OR_CALL = re.compile(rb"[A-Za-z_][A-Za-z_.]*\d{0,2},?|[A-Za-z_][\w.]*[\[(].*")
_KEBAB = re.compile(rb"\w+(?:-\w+)+")
_FEW_DIGITS_NAME = re.compile(rb"[A-Za-z_][A-Za-z_.-]*\d{0,2}")


class Span(NamedTuple):
    """A part to cut, from `start` up to `end`, by which rule, and what replaces it if not a mark."""

    start: int
    end: int
    rule: Rule
    becomes: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A key in a text that announces a secret: where it starts, what follows it, and its rule."""

    text: bytes
    key: int
    after: re.Match[bytes]
    rule: Rule

    @property
    def notation(self) -> str:
        return self.after.lastgroup or ""

    @property
    def name(self) -> bytes:
        return self.text[self.key : self.after.start("rest")]

    @property
    def between(self) -> bytes:
        return self.text[self.after.start("rest") : self.after.end()]

    @property
    def is_flag(self) -> bool:
        """Whether it is an option of a command, rather than a removed line of a diff: `-password = None`."""
        text, dash = self.text, self.key - (self.text[self.key : self.key + 1] != b"-")
        if text[dash : dash + 1] != b"-":
            return False
        return text[dash + 1 : dash + 2] == b"-" or not _DIFF_LINE.search(text, max(0, dash - 3), dash + 1)

    @property
    def in_prose(self) -> bool:
        """Whether the next word follows the key, as in a sentence."""
        return self.notation in ("prose", "space") and not self.is_flag

    @property
    def is_variable(self) -> bool:
        """Whether it stands for a value set elsewhere: `$PASS host:9200`, `${TOKEN:?must be set}`."""
        opened = self.text[max(0, self.key - 2) : self.key] == b"${"
        return opened or b"$" in self.text[max(0, self.key - 1) : self.after.start("rest")]

    @property
    def starts_a_line(self) -> bool:
        """Whether it looks like a line of .env, INI or YAML."""
        quoted = self.between[:1] in (b"\\", b'"', b"'")
        return not quoted and bool(_LINE_START.search(self.text, max(0, self.key - 48), self.key))


def announced(text: bytes, hit: int, keys: Keys) -> Iterator[Span]:
    """The secrets announced by the telling word that ends at `hit`, except those of parsed headers."""
    window = text[max(0, hit - 80) : hit]
    start = hit - (len(window) - len(window.rstrip(_KEY_BYTES)))
    tag = _AFTER_TAG.match(text, hit, hit + 300) if b"<" in window else None
    if tag and _IN_TAG.search(text, max(0, hit - 80), start):
        yield from _element(text, start, tag, keys)
    if text[start - 1 : start] in (b'"', b"'") and _LABEL_BEFORE.search(text, max(0, start - 40), start):
        yield from _value_first(text, start, hit, keys)
    after = _AFTER_KEY.match(text, hit, hit + 600)
    rule = _rule(text, start, after.start("rest"), keys) if after else None
    if after and rule and not rule.value:
        place = _Place(text, start, after, rule)
        opened = _OPEN.match(text, after.end())
        if not _means_something_else(place, keys):
            yield from _quoted(place, opened) if opened else _bare(place)


def header(text: bytes, hit: int, keys: Keys) -> tuple[Rule, int] | None:
    """The rule of a parsed header whose name ends at `hit`, and where its value begins."""
    found = _HEADER.match(text, hit)
    if found is None:
        return None
    window = text[max(0, hit - 80) : hit]
    start = hit - (len(window) - len(window.rstrip(_KEY_BYTES)))
    rule = keys.telling(_key(text[start : found.start("rest")]))
    if rule is None or not rule.value:
        return None
    at = found.end()
    return (rule, at) if rule.value != "cookie" or found["colon"] or _OPEN.match(text, at) else None


def opening(text: bytes, at: int) -> tuple[int, int] | None:
    """The span of the quoted value at `at`; None without a quote."""
    opened = _OPEN.match(text, at)
    return (opened.end(), closing(text, opened.end(), opened["quote"])) if opened else None


def closing(text: bytes, start: int, quote: bytes) -> int:
    """The end of the quoted value that begins at `start` after `quote`, at any escape depth."""
    mark = quote.lstrip(b"\\")
    depth = len(quote) - len(mark)
    stop = min(len(text), start + REACH)
    if mark in (b'"', b"'"):
        line = text.find(b"\n", start, stop)
        stop = line if line >= 0 else stop
    at = start
    while (found := text.find(mark, at, stop)) >= 0:
        before = text[max(start, found - 32) : found]
        slashes = len(before) - len(before.rstrip(b"\\"))
        if slashes % 2 == 0 if depth == 0 else slashes <= depth:
            return found - (slashes if depth else 0)
        at = found + 1
    word = _WORD.match(text, start)
    return word.end() if word else start


def trimmed(text: bytes, start: int, end: int, signs: bytes = b",;:.)?") -> int:
    """The end without punctuation that belongs to the surrounding sentence or code."""
    return start + len(text[start:end].rstrip(signs))


def _key(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").removeprefix("-D").strip("-$.").rpartition("$")[2]


def _rule(text: bytes, start: int, end: int, keys: Keys) -> Rule | None:
    """The rule of the key in this span; with the word before it, because `API key` is two words."""
    key = _key(text[start:end])
    word = _WORD_BEFORE.search(text, max(0, start - 16), start)
    return keys.telling(key) or (keys.telling(word[0].decode() + key) if word else None)


def _means_something_else(place: _Place, keys: Keys) -> bool:
    if _ARN.search(place.text, max(0, place.key - 70), place.key):
        return True
    following = place.text[place.after.end() : place.after.end() + 1]
    if place.is_variable and (place.notation == "space" or following in (b"?", b"+")):
        return True
    if place.in_prose:
        if _ENVIRONMENT_FLAG.search(place.text, max(0, place.key - 6), place.key):
            return True  # `docker run -e DB_PASSWORD app:v2` passes the variable on
        return keys.is_short(place.name.decode("utf-8", "replace"))
    if place.notation in ("pair", "yaml", "form"):
        return not _LABEL.search(place.text, max(0, place.key - 64), place.key)
    if place.notation == "comma" and b"]" in place.between.partition(b",")[0]:  # input[name=password]
        return not place.text[max(0, place.key - 18) : place.key].rstrip(b"\\\"'`").endswith(b"=")
    return False


def _value_first(text: bytes, start: int, hit: int, keys: Keys) -> Iterator[Span]:
    """`{"value": "x", "name": "API_KEY"}`."""
    before = _VALUE_BEFORE.search(text, max(0, start - 600), start)
    rest = _KEY_REST.match(text, hit)
    rule = keys.telling(_key(text[start : rest.end()])) if before and rest else None
    if before and rule and not rule.value and keyed_secret(before["value"], rule.proof, True):
        yield Span(*before.span("value"), rule)


def _element(text: bytes, start: int, tag: re.Match[bytes], keys: Keys) -> Iterator[Span]:
    """`<password>x</password>`, `<entry key="password">x</entry>`, `<name>password</name><value>x</value>`."""
    rule = keys.telling(_key(re.split(rb"[\s\"'<>\\]", text[start : tag.end()], maxsplit=1)[0]))
    at = tag.end()
    end = text.find(b"]]>" if tag["cdata"] else b"<", at, at + REACH)
    if rule is None or rule.value or end < 0:
        return
    if _PLACEHOLDER_TAG.match(text, end):
        return  # `user:<password>@host or <token>`
    at = end - len(text[at:end].lstrip())
    value = text[at:end].rstrip()
    if value[:1] != b"{" and keyed_secret(value, rule.proof, True):
        yield Span(at, at + len(value), rule)


def _quoted(place: _Place, opened: re.Match[bytes]) -> Iterator[Span]:
    """The value in quotes."""
    text = place.text
    if opened["quote"].endswith((b'"""', b"'''")) and b"\n" in place.between:
        return  # a docstring after `def f(password):`
    start, end = opened.end(), closing(text, opened.end(), opened["quote"])
    value = text[start:end]
    if _says_its_key(place, value):
        return
    if place.notation == "prose":
        secret = prose_secret(value, place.rule.proof)
    else:
        secret = keyed_secret(value, place.rule.proof, _is_sure(place, value))
    if secret:
        yield Span(start, end, place.rule)


def _is_sure(place: _Place, value: bytes) -> bool:
    """Whether a quoted value belongs to the key, where its notation alone does not say so."""
    notation = place.notation
    if notation == "comma" and value.isalpha():  # a list of names
        return False
    if notation not in ("comma", "call", "fallback", "space") or (notation == "space" and place.is_flag):
        return True
    if place.rule.proof == "given":
        plain = _FEW_DIGITS_NAME.fullmatch(value) is not None
    else:
        plain = _KEBAB.fullmatch(value) is None
    return not plain or looks_random(value)


def _bare(place: _Place) -> Iterator[Span]:
    """The unquoted value: data in some notations, in others possibly code or part of a sentence."""
    if place.notation in ("comma", "call", "fallback"):
        return
    block = _BLOCK.match(place.text, place.after.end()) if place.notation == "assign" else None
    if place.notation == "assign" and not block and b"\n" in place.between:
        yield from _line_below(place)
    else:
        yield from _bare_at(place, block)


def _bare_at(place: _Place, block: re.Match[bytes] | None) -> Iterator[Span]:
    text, proof = place.text, place.rule.proof
    start = block.end() if block else place.after.end()
    tight = line = False
    if place.notation == "assign":
        tight = place.after["assign"].strip(b"\"'`]\\") in (b"=", b":", b": ")
        line = place.starts_a_line
    end = bare_end(text, start, line=line)
    if _is_no_value(place, text[start:end], end):
        return
    end = trimmed(text, start, end, b",;" if line and tight else b",;:.)?")
    value = text[start:end]
    if _says_its_key(place, value):
        return
    if place.in_prose:
        secret = prose_secret(value, proof)
    else:
        secret = keyed_secret(value, proof, block is not None or _is_data(place, value, line, tight))
    if secret:
        yield Span(start, end, place.rule)


def _is_no_value(place: _Place, value: bytes, end: int) -> bool:
    """Whether the word after a key is something else: the next flag, a test, a call, where an address begins."""
    text, flag = place.text, place.is_flag
    if value[:1] == b"-" and (flag or place.in_prose):
        return True
    if flag and place.between[-1:] == b" " and value.lower() in _AFTER_FLAG:
        return True
    if _names_a_test(place, value):
        return True
    if text[place.key - 2 : place.key] == b"//" and placeholder(value.rpartition(b"@")[0]):
        return True  # https://x-access-token:***@github.com
    return text[end : end + 1] in (b"(", b"[") and _NAME.fullmatch(value) is not None


def _says_its_key(place: _Place, value: bytes) -> bool:
    """Whether the value is the key in another case style, as constants have it: `OTP_SECRET = "otpSecret"`."""
    said = value.translate(None, b"_-. ").lower()
    return len(value) <= _LONGEST_NAME and said.isalpha() and said == place.name.translate(None, b"_-.$ ").lower()


def _names_a_test(place: _Place, value: bytes) -> bool:
    """Whether it is the outcome or the name of a test: `PASS: TestTokens`, `test_token.py::test_rotation_2`."""
    return bool(place.between == b":" and _TEST.fullmatch(value)) or bool(_PASSED.fullmatch(place.name + b" " + value))


def _line_below(place: _Place) -> Iterator[Span]:
    """A password alone on the line below `Password:`."""
    line = _NEXT_LINE.match(place.text, place.after.start("assign"))
    if line and place.starts_a_line and place.rule.proof == "given" and prose_secret(line["value"], "given"):
        yield Span(*line.span("value"), place.rule)


def bare_end(text: bytes, start: int, *, line: bool) -> int:
    """The end of the unquoted value that begins at `start`; with `line` it may extend to the end of the line."""
    if text[start : start + 2] in (b"${", b"{{", b"$(", b"#{") or text[start : start + 1] in (b"<", b"{", b"[", b"("):
        return start
    word = (_LINE_WORD if line else _WORD).match(text, start)
    return word.end() if word else start


def _is_data(place: _Place, value: bytes, line: bool, tight: bool) -> bool:
    """Whether this unquoted value is data rather than code."""
    if place.is_flag or place.notation in ("yaml", "pair", "block", "form"):
        return True
    if place.rule.proof == "word-proof" and place.notation == "assign" and _KEBAB.fullmatch(value):
        return True
    if not tight:
        return False
    if place.name.rpartition(b".")[2].isupper():
        return True
    in_query = place.text[place.key - 1 : place.key] in (b"?", b"&", b";")
    return (line or in_query) and not _NAME_OR_CALL.fullmatch(value)
