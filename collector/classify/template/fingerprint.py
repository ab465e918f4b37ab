"""Computes the group of an event: one fingerprint per class, tool and message template.

A template is the message with everything that differs between calls replaced: paths, quoted text, names, numbers, ids,
times. Words stay, and so do exit codes, errno and HTTP status codes: `exit code 1` and `exit code 127` are different
errors. The fingerprint uses only the template's words: quoted or bare, a path or a name, one or many are the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from collector.alike import alike
from collector.classify.template.extract import MONTHS, TELLS, essence
from collector.classify.template.mask import without_names
from collector.projects import within

TEMPLATE_CHARS = 300
LOOKED_AT = 1024  # characters of a message: after the first lines of an error comes mostly output
DEEPEST = 8  # levels of nested objects that are replaced, from the innermost outwards
REMEMBERED = 2048  # distinct messages, each at most a few KiB long

EXTENSIONS = (
    "py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|vue|svelte|json|jsonl|md|rst|rs|go|java|kt|scala|swift|c|cc|cpp|h|hpp|cs|rb|php|"
    "lua|ex|exs|sh|ps1|bat|mk|gradle|tf|proto|graphql|sql|html|css|scss|xml|csv|tsv|xlsx|docx|parquet|toml|yaml|yml|ini|"
    "cfg|conf|env|lock|log|txt|pdf|png|jpe?g|gif|webp|svg|ico|mov|mp[34]|wasm|woff2?|pem|crt|db|"
    "sqlite|zip|apk|aab|ipa|iso|heic|tar|gz|tgz|deb|rpm|whl|jar|exe|dll|o|bak|tmp"
)
DOMAINS = "com|org|net|io|dev|ai|co|app|cloud|edu|gov|local|internal|lan|test|example|invalid"
MODELS = "gpt|claude|gemini|gemma|llama|mistral|mixtral|codestral|qwen|deepseek|grok|command|kimi|glm|phi|nova"
UNITS = "ns|us|µs|ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|秒|毫秒|分钟|小时|時間"
UNITS += "|sekunden?|minuten?|stunden?|secondes?|segundos?|minutos?"
MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?|januar|februar|märz|mai|juni|juli|oktober|dezember"
)
CLOCK = r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?[ap]m)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
LENGTH = rf"\d{{1,12}}(?:\.\d{{1,9}})? ?(?:{UNITS})"
LINE_COLUMN = r"(?:::[\w\[\].:-]{1,200}|(?::\w[\w.-]{0,60}){0,2})"
# A word of a sentence: not `snake_case` or `camelCase`.
PLAIN = r"(?!(?-i:[A-Z]?[a-z]+[A-Z]))[^\W\d_]+(?:'[a-z]+)?"
# What must follow a possible name: the end of the clause, a verb, a preposition.
GOES_ON = (
    r"(?=[.,;)]?\s*\Z|[.,;)]\s|\s(?:is|was|has|does|did|can|could|cannot|must|should|not|already|returned|failed|timed|exited"
    r"|in|on|of|at|to|from|for|with|by|and|or)\b)"
)
IDENTIFIER = (
    r"(?<![\w./:@-])(?<!code = )(?<!type=)(?<!code=)(?=[@a-z_])"
    r"(?!(?:\A|(?<=rror: |rred: |code: |type: |ason: ))\S+\Z)(?:"
    # owner/name:tag; a.b, a::b; a_b, aB; a("b")
    r"@?(?!(?:and|or|i|input|read|client|ssl|tcp|yes|on)/)[a-z][\w.-]{0,60}/[\w./-]{0,60}\w(?::[\w.-]{1,60})?"
    r"|[a-z_]\w{0,60}(?:(?:\[\w{1,20}\])?(?:\.|::?|->|#)(?=[a-z_])[\w-]{1,60}){1,9}(?::\d[\w.-]{0,40})?"
    r"|(?=[a-z\d]{0,40}_|(?-i:[a-z]{1,40}[A-Z]))\w{0,20}(?-i:[a-z])\w{0,60}"
    r"|[a-z]\w{0,60}(?=\([\"')])"
    # A_B is, a-b is, to AaBb
    rf"|(?:(?<=[a-z:] )|\A)(?<!is )(?<!be )(?<!ot )(?<!re )[a-z][a-z\d]{{0,40}}(?:[_-][a-z\d]{{1,40}}){{1,6}}{GOES_ON}"
    rf"|(?<=[a-z] )(?-i:[A-Z][a-z\d]{{1,40}}[A-Z]\w{{0,60}}){GOES_ON}"
    r")(?![\w=])(?:\(\))?"
)

# Placeholder of each kind of token, with its patterns, tried from left to right; `keep` stays unchanged.
KINDS = {
    "keep": (
        # Plain words and what is between them: without these two a message costs three times as much.
        rf"(?<![\w=])(?:{PLAIN}[,;:.!?)]{{0,2}}(?:\s+\(?(?!\d)|\Z))+",
        # The text of a pair, or after a list, is the error, not a name: (1146, "Table 'x' …", "['a'] not in index".
        r"\(\d{1,6}, [\"'](?=\w)|\"(?=\[[^\]\n]{1,200}\] \w)",
        r":?[\s,;!?()=]+|:(?!:)",
        rf"(?<![\w=]){PLAIN}(?=[\s,;!?)]|[.:](?:\s|$)|$)",
        r"<(?:num|size|path|str|url|host|email|id|name|time|json|sql)>|\[redacted:[\w.:-]{1,64}\]",
        r"\"exit_?code\"\s?:\s?-?\d{1,5}|[\"'][45]\d\d [\w ]{3,30}[\"']",
    ),
    "url": (r"\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"`<>]{1,500}", r"\barn:[^\s'\"`<>]{1,300}"),
    "email": (r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}\b",),
    "time": (
        r"(?=\[?\d)(?:"
        rf"\[?\b\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]{CLOCK})?\b\]?",
        r"\b\d{8}T\d{6}Z?\b",
        rf"\b\d{{1,2}}/(?:\d{{1,2}}|{'|'.join(MONTHS)})/\d{{2,4}}(?:[ :]{CLOCK})?\b",
        rf"\b\d{{1,2}}\.\d{{1,2}}\.\d{{4}}(?: {CLOCK})?\b",
        r"\b\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?\b",
        r"\b1[4-9]\d{8}(?:\d{3})?(?:\.\d{1,9})?\b",  # seconds or milliseconds since 1970
        rf"\b\d{{1,2}}\.? (?:{MONTH})(?:,? \d{{4}})?\b",
        r"\b\d\d?(?::\d\d)? ?[ap]m\b",
        rf"\b(?:{LENGTH}(?![a-z]) ?){{0,3}}{LENGTH}\b(?!-\w)(?: ago\b)?)",
    ),
    "size": (r"(?=\d)\b\d{1,20}(?:[.,]\d{0,9})? ?(?:[kmgtp]i?b|[kmgtp]i|bytes?)\b",),
    "json": (
        r"\{(?![^{}]{0,400}exit_?code)\s?(?:[\"']|<str>|\w+: )[^{}]{0,400}\}|\{\}|\{(?:[\"']|<str>)[^{}]{0,400}\Z",
        r"\[(?:[\"'{\[]|<(?:str|json)>)[^\[\]]{0,400}\]|\[\]",
    ),
    "str": (
        r"'\[[^\]\n]{0,400}\]'",
        r"\"(?:[^\"\\\n]|\\.){0,400}\"|\"[^\"\n]{0,400}\"",
        r"(?<!\w)'(?:[^'\n]|'(?=\w)){0,400}'(?!\w)",
        r"`[^`'\s]{0,100}'(?!\w)|`[^`]{0,400}`",
        r"<(?P<tag>[a-z][\w-]{0,20})(?: [^<>]{0,200})?>[^<>]{0,100}</(?P=tag)>|<[a-z][\w-]{0,20} [^<>]{1,200}>",
        "«[^»\n]{0,400}»|\u2018[^\u2019\n]{0,400}\u2019|“[^”\n]{0,400}”|„[^“”\n]{0,400}[“”]|「[^」\n]{0,400}」",
    ),
    "path": (
        r"(?<![\w<.~/\\])(?:[a-z]:[\\/]|\\\\|~?/|\.{1,2}/|\*{1,2}/)[\w.@%+=*~\\/-]{1,400}(?<!\.)"
        r"(?:\[redacted:[\w.:-]{1,64}\][\w.@%+=*~\\/-]{0,200}|\?[^\s'\"`<>)]{1,300}|" + LINE_COLUMN + ")",
        rf"(?<![\w<./\\])[\w.@-]{{1,80}}(?:[/\\][\w.@-]{{1,80}}){{2,30}}{LINE_COLUMN}",
        r"(?<![\w<./\\])(?:[\w@-][\w.@-]{0,80}[/\\])?[\w-]{1,80}(?:\.[\w-]{1,20}){0,3}"
        rf"\.(?:{EXTENSIONS})\b{LINE_COLUMN}",
        r"(?<=: )\*(?=\s|\Z)",  # on resource: *
        r"(?=[\w./-]{0,60}\*)(?<![\w*])[\w./-]{0,60}(?:\*[./]|[./]\*)[\w./*{},-]{0,200}",
        r"(?<![\w<./\\-])[\w.-]{1,60}[/\\](?=\s|\Z)",
        r"<(?:string|stdin|anonymous|eval|module|unknown)>",
        r"(?<=: )/(?![\w/])|(?<![\w.)\]])\.(?:env|[a-z]{2,20}(?:rc|ignore))\b",
    ),
    "host": (
        r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b",
        r"\[(?=[0-9a-f]{0,4}:[0-9a-f]{0,4}:)[0-9a-f:]{2,39}\](?::\d{1,5})?",
        r"\b(?:[0-9a-f]{1,4}:){7,8}[0-9a-f]{1,5}\b",
        r"(?<![\w:])(?=[0-9a-f:]{0,30}::)(?:[0-9a-f]{0,4}:){2,8}[0-9a-f]{1,5}\b",
        rf"\blocalhost:\d{{1,5}}\b|\b(?:[a-z0-9-]{{1,63}}\.){{1,5}}(?:{DOMAINS})\b(?!\.\w)(?::\d{{1,5}})?",
    ),
    "name": (
        r"\$(?:[a-z_]\w{0,80}|(?:\.\w{1,80}|\[\w{1,20}\]){1,9})|(?<![\w#])#[a-z][\w-]{1,60}|(?<![\w-])--?[a-z][\w-]{0,60}",
        r"(?:\b[a-z_][\w.]{0,60}|(?<=<name>))\(\w[\w. ]{0,40}(?:, ?\w[\w. ]{0,40}){1,9}\)",  # a call
        r"(?<=\))(?:\.[a-z]\w{0,40}\([^()\n]{0,60}\)){1,6}",  # what is called on a call's result
        r"[a-z][\w.#-]{0,60}\[[a-z][\w-]{0,40}[~|^$*]?=[^\]\n]{1,100}\]",  # a selector
        r"(?:(?<=[(,])|(?<=, ))[a-z]\w{0,40}=(?=[\"'<])",  # the name of an argument
        r"\[(?:sender|receiver|generator|client|server)=v?\d[\w.]{0,40}\]",  # of rsync
        r"(?<!\w)(?!error|warning|code|reason|status|rule|lint|fatal|note|index)"
        r"[a-z][\w.-]{1,60}\[[a-z][\w,-]{0,60}\](?=\s|[,.;:)]|\Z)",  # uvicorn[standard]
        r"\A[a-z]\w{0,40}(?:\.\w{1,60}){1,9}\.(?-i:[A-Z])\w{0,60}\Z",  # nothing but the name of a class
        r"\(intermediate value\)(?:\.\w{1,60})?",
        r"[a-z_$][\w$.]{0,60}(?:\(\.\.\.\)(?:\.[\w$]{1,60})?){1,6}",
        IDENTIFIER,
        r"(?<=: )\[[\w ]{1,60}(?:, ?[\w ]{1,60}){0,20}\](?=\s*\Z|[.;])|(?<=[a-z] )\[\w{2,60}\]|(?<=\binput_type=)\w+",
        r"\b[a-z][\w.-]{0,60}(?:(?:==|>=|<=|~=|!=) ?|@[\^~]?)v?\d[\w.*-]{0,40}",  # a requirement
        r"(?<=\w=|[\"'>]=)(?<!type=)(?<!code=)(?<!rror=)(?<!ason=)(?<!atus=)[a-z][\w.-]{0,60}(?=[\s,;)\]]|\Z)",
        rf"\b(?:{MODELS})-?(?=[\w.:-]{{0,60}}\d)[\w.:-]{{0,60}}\w\b|\bo[134](?:-[\w.-]{{1,60}}\w)?\b",
    ),
    "id": (
        r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
        r"\b[0-9a-z]{3,40}::[0-9a-z]{3,40}\b(?=:)",
        r"\b0x[0-9a-f]{1,32}\b|\b[0-9a-f]{32}(?:[0-9a-f]{8}|[0-9a-f]{32})?\b",
        r"\b(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])(?!e\d+\b)[0-9a-f]{6,64}\b",  # E11000 is an error, not an id
        r"\b(?!utf|sha|iso|base)[a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,40}){0,6}[_-](?=[a-z]{0,40}\d)[a-z0-9]{1,64}\b",
        r"\b(?=[a-z]{0,40}\d)(?=\d{0,40}[a-z])[a-z0-9]{12,80}\b",
        r"\b(?!utf|sha|md5|base|u?int|float|ipv|http|oauth)(?-i:[a-z]{2,20}\d[a-zA-Z\d]{0,12})\b",  # eth0, web1
    ),
    "num": (
        r"(?<!\w)\+\d[\d ()/-]{6,20}\d\b",  # a telephone number
        r"(?=[-+$€£¥<>=~^v\d])(?:(?<!\w)[+-])?(?:[$€£¥] ?|[<>=~]= ?|[~^])?\bv?\d{1,40}(?:x\d{1,9})?"
        r"(?:[.,]\d{1,40}){0,8}(?:e[+-]?\d{1,4}|[-+][a-z]{2,8}(?:\.\d{1,9})?|(?:alpha|beta|rc)\d{0,3})?\b"
        r"(?: ?(?:[€£¥%]|°[CF]?|(?:EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|BRL|SEK|PLN)\b))?",
    ),
}
TOKENS = re.compile("|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in KINDS.items()), re.IGNORECASE)
# Identifiers that say what went wrong, and are not names.
WRONG = re.compile(
    "err|fail|exception|invalid|denied|not_?found|exceed|time_?d?_?out|unauth|forbid|unavail|missing|exist|refused|expired|"
    r"unsupported|unknown|unexpected|overload|throttl|limit_|quota|violat|conflict|insufficient|revoked|disabled|signals\.",
    re.IGNORECASE,
)
# Numbers that identify an error instead of counting something, by what is before or after them.
CODE_BEFORE = re.compile(
    r"(?:(?:\b(?:exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)|status(?:[ _]code)?|https?|errno|code|error"
    r"|error response|signal|fehler|erreur)|コード|状态码|错误码)[\"']?[^\w,]{0,3}|curl: \()$",
    re.IGNORECASE,
)
CODE = re.compile(r"\d{1,3}|-32\d{3}")
STATUS = re.compile(
    r"(?<!\bof )(?<!\bvon )(?<!\bto )[45]\d\d(?= [A-Z]\w| \{)|(?<=\()(?:4[0-3]\d|451|50\d|52\d)(?=\))|(?<=: )[45]\d\d\Z"
    r"|(?:(?<=returned )|(?<=failed: ))\d{1,3}\b(?! [a-z])"
)
SPLIT_PLACEHOLDER = re.compile(r"\s?<[a-z]{0,5}$")
PLACEHOLDERS = re.compile(
    r"<[a-z]{2,5}>[\w./@*%+~!\\-]*(?:(?:,? (?:(?:and|or) )?|[,:=]| ?\()?<[a-z]{2,5}>[\w./@*%+~!\\-]*\)?)*",
    re.ASCII,
)
# Prefixes attached to a name: `O'<name>`, `App\<name>`.
BEFORE = re.compile(r"['\\!&/]<")
JOINED = re.compile(r"(?<!\w)\w++['\\!&/](?=<)")
# The location of an error, which only some of its messages have (WHERE); parts by which it is noticed (PLACES).
WHERE = re.compile(
    r"(?<!:),? (?:(?:characters )?(?:at|on|near|in) )?\(?(?:line|column|position|character|char|offset|byte) <>"
    r"(?: (?:line|column|col|char) <>)*\)?|(?<=<>) (?:on|at) <>| at <>\Z|(?<=exist) <>\Z"
)
PLACES = (
    "line <",
    "column <",
    "position <",
    "char <",
    "character <",
    "offset <",
    "byte <",
    "at <",
    "exist <",
    "> on <",
)
# What else a test runner counts.
COUNTS = re.compile(
    r"(<> (?:failed|errors?))"
    r"(?:,? (?:and )?<> (?:passed|skipped|todo|total|warnings?|deselected|xfailed|xpassed|pending|flaky))+"
)
SHORT = re.compile(r"\b\w{2,8}n't\b|\bcannot\b")  # of not
SHORTENED = {"can't": "can", "cannot": "can", "won't": "will"}
# What helps a reader and is not the error: the next step (ADVICE), an aside in brackets that tells no error (ASIDE),
# the status of an API before the error (ANSWERED), except before "error", which alone says nothing.
ADVICE = re.compile(
    r"[.!?] (?:(?:Please|Try|Retry|Use|To \S+|Visit|See|Check|Make sure|Ensure|Learn|Consider|Run|Upgrade|Contact"
    r"|Wait|You (?:can|must|should|may)|For|If)\b[^.!?]*(?:[.!?]+(?![\s.!?]|\Z)[^.!?]*){0,9}|<json>\Z)"
    r"|, (?:please )?(?:try|retry|check)\b[^.!?]*"
)
ASIDE = re.compile(r"(?<=[\w>] )\((?=<[a-z]+> [a-z]|[A-Za-z]+[ ,])[^()\d]*\) ?")
ANSWERED = re.compile(
    rb"(?:api error |error )?(?:code )?(?:[45]\d\d (?=\w)(?!.*\berror\b)|(?=[45]\d\d ))"
    rb"|\w+(?:error|exception) (?:<> )?(?=[a-z]+ [a-z])"
)
LAST_NUMBER = re.compile(r"(?<=\w) \(<>\)\Z")  # the code of a library: `database is locked (5)`
REDACTED = re.compile(r"\[redacted:[\w.:-]{1,64}\]")
PUNCTUATION = bytes.maketrans(b".,;:!?()[]'\"`-=|#", b" " * 17)
LITERAL = re.compile(r"(?<![<\w])[^\W\d_]{2,}(?![>\w])")
SENTENCES = re.compile(r"(?<![\w\\])[\"']([^\"'\s{}]+(?: [^\"\s{}]+){3,60})[\"'](?!\w)")
LIST = re.compile(r"(<[a-z]{2,5}>)(?:(?:, (?:and |or )?| and | or | )\1)+")


def template(message: str) -> str:
    """The message without what differs between calls, at most TEMPLATE_CHARS long."""
    found = _template(alike(message))
    return found if "_0" not in found else _template(message)  # a name that stays keeps its number


@lru_cache(maxsize=REMEMBERED)
def _template(message: str) -> str:
    text = _masked(essence(message))
    if len(list(islice(LITERAL.finditer(text), 2))) < 2:  # everything it says is in quotes
        for quoted in sorted(SENTENCES.findall(message[:LOOKED_AT]), key=len, reverse=True)[:2]:
            if len(LITERAL.findall(inner := _masked(essence(quoted)))) > 2:
                return inner
    return text


def _masked(text: str) -> str:
    text, before = text[:LOOKED_AT], ""
    for _ in range(DEEPEST):  # from the innermost outwards
        text, before = " ".join(TOKENS.sub(_placeholder, text).split()), text
        if "> <" in text or ">, <" in text or "> and <" in text or "> or <" in text:
            text = LIST.sub(r"\1", text)
        if text == before or ("{" not in text and "[<" not in text):
            break
    text = without_names(text[: TEMPLATE_CHARS + 100])  # cut late, so that names of any length leave the same words
    return text if len(text) <= TEMPLATE_CHARS else SPLIT_PLACEHOLDER.sub("", text[:TEMPLATE_CHARS])


@lru_cache(maxsize=REMEMBERED)
def fingerprint(error_class: str, tool: str, template: str, project: str | None = None) -> int:
    """The id of the group: a 64-bit hash of class, tool and the template's words, within the project."""
    named = f"{within(project, error_class)}\x1f{tool}"
    words = b"\x1f".join((named.encode("utf-8", "replace"), _words(template)))
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "big")


@lru_cache(maxsize=REMEMBERED)
def _words(template: str) -> bytes:
    """The template's words without punctuation, capitals and plurals; all placeholders are equal."""
    text = ADVICE.sub("", template)
    if " (" in text:
        text = ASIDE.sub(_aside, text)
    text = text.lower()
    if "[redacted" in text:
        text = REDACTED.sub("<str>", text)
    if "<" in text:
        if BEFORE.search(text):
            text = JOINED.sub("", text)
        text = PLACEHOLDERS.sub("<>", text)
        if "<> failed" in text or "<> error" in text:
            text = COUNTS.sub(r"\1", text)
        if any(map(text.__contains__, PLACES)):
            text = WHERE.sub("", text)
    if "n't" in text or "cannot" in text:
        text = SHORT.sub(lambda found: SHORTENED.get(found[0], found[0][:-3]) + " not", text)
    text = LAST_NUMBER.sub("", text)
    words = b" ".join(text.encode("utf-8", "replace").translate(PUNCTUATION).split())
    for several in (b"<> of <>", b"<> out of <>", b"<> <>"):
        while several in words:
            words = words.replace(several, b"<>")
    words = (words + b" ").replace(b" were ", b" was ").replace(b"s ", b" ")
    return words[found.end() :] if (found := ANSWERED.match(words)) else words.removeprefix(b"error ")


def _aside(found: re.Match[str]) -> str:
    """An aside that tells the error, or stands after a name alone; nothing for others."""
    return found[0] if TELLS.search(found[0]) or " " not in found.string[: found.start() - 1] else ""


def _placeholder(found: re.Match[str]) -> str:
    """The placeholder of a token, or the token itself if it is kept."""
    kind = found.lastgroup
    if kind == "keep":
        return found[0]
    if kind == "name" and WRONG.search(found[0].partition("(")[0]):
        return found[0]
    if kind == "num":
        token, start = found[0], found.start()
        if CODE.fullmatch(token) and (
            CODE_BEFORE.search(found.string, max(0, start - 24), start) or STATUS.match(found.string, start)
        ):
            return token
    return f"<{kind}>"
