"""Judges whether a value could be a secret, by the value alone: placeholders, references and words are none.

Values are bytes without quotes. Words such as "example" count only if the whole value is made of such words
(`schemas/harmless_words.toml`): otherwise an attacker could add "test" to lower suspicion. Every pattern here is
anchored at both ends, so that the time is linear in the value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import lru_cache

from collector.tables import load_toml, schemas

REMEMBERED_BYTES = 256  # longest value whose result is cached
WORDS: dict[str, list[str]] = load_toml(schemas() / "harmless_words.toml")
MARK = re.compile(rb"\[redacted:[a-z0-9-]+(?::[0-9a-f]{1,12})?\]")


def _any_of(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _pattern(text: str) -> re.Pattern[bytes]:
    return re.compile(text.encode(), re.VERBOSE | re.DOTALL)


# The beginning that the keys of a vendor share: what follows it makes the secret.
_VENDOR = (
    "(?:sk|pk|rk|whsec|gh[opsur]|github_pat|glpat|hf|gsk|xox[abp]|AKIA|ASIA|AIza|SG|eyJ|npm|pypi)"
    r"(?:[-_](?:proj|ant|live|test|or|svcacct|admin|api\d\d|v1))*[-_.]?"
)
_PLACEHOLDER = _pattern(
    rf"""(?i)
      <[^<>]*> | \[[^\[\]]*\] | \{{+[^{{}}]*\}}+ | \#\{{[^{{}}]*\}} | \$\{{[^{{}}]*\}}? | \$\{{\{{.*\}}\}}
    | \$\([^()]*\)?
    | \$\d+ | \$[a-z_][\w.:>-]*(?:[\[{{]['"]?[\w.-]*['"]?[\]}}]){{0,4}} | \$:{{0,2}}env\(\w+\)(?:\\{{1,4}}[rn])?
    | \$env:\w+ | %[A-Z_][A-Z0-9_]*% | %\([^()]*\)[sdr] | %[sdvrqx@]
    | @{{1,2}}[A-Z_]+@{{1,2}} | @[a-z_]\w* | @[\w./~-]*[/.][a-z]{{1,5}} | (?::[a-z_]+){{1,4}}:?
    | \?+ | __\w+__ | !{{1,2}}[a-z]+
      # masked
    | [x*.\-_\#0=~\s]+ | (?:\xe2\x80[\xa2\xa6]|\xe2\x97\x8f)+ | (?:x{{3,}}|\*{{2,}}|\.{{3,}})[\w-]{{0,4}}
    | (?:%[sdr][:@/\ ]?){{2,4}} | :?[\w-]{{0,8}}(?:\*{{3,}}|\.{{3,}}|x{{6,}}|\xe2\x80\xa6)[\w-]{{0,4}}
    | {_VENDOR}(?:[x*.\#]{{2,}}|\xe2\x80\xa6)?[-_]? | \$2[aby]?\$(?:\d\d\$)?\.{{3}}
      # a reference to a secret elsewhere
    | (?:op|vault|ssm|secretsmanager|keyvault|arn|env|file|ref|gcpsm|awssm|azurekv|keychain|keyring|secret|secretref
        |sops|bws|aws-sm|doppler|sha1|sha224|sha256|sha384|sha512|md5|blob|data):.*
    | (?:process\.env|import\.meta|os\.environ|env|secrets|vars?|config|settings|self|this|local|data|module|steps
        |inputs|github|params|props|state|ctx|req|request|args|options|opts|event|response|res|body|form|user|node
        |parsed) [.\[][\w.\[\]"']*!?
    | [a-z]{{2,8}}_ | [a-z]{{2,16}}= | [A-Z][A-Z0-9_]{{1,60}}_\*
    | (?:id|type|src|source|username|user)=[a-z_.-]+\d? | [A-Z][A-Z0-9_]*=\$(?:\{{?[A-Za-z_]\w*\}}?)?
      # a call without a literal of its own, a regular expression, a range of versions
    | [a-z]{{3,}}(?:(?:_|\.|::)[a-z]{{2,}}){{0,8}}+\((?:["'][\w./-]*["'])?\)?
    | [A-Za-z_.|()?]{{0,60}}[.]\*[A-Za-z_.*|()?]{{0,60}}(?:/[gimsu]{{0,3}})?
    | [.][*+]\??(?:\)?[/|\#"'][a-z_]*[=:]?(?:[*x.]+|\$\{{?\w+\}}?|\\\d|[<\[][\w\ ]+[>\]])?[/|\#]?[gi]{{0,2}}["']?)?
    | \^?(?:\[[^\[\]]*\](?:[*+?]|\{{\d+,?\d*\}})?){{1,8}}+\$? | [\^~]\d+(?:\.\d+){{1,2}}
    | sha(?:1|256|384|512)-[\w+/=]+ | (?:required|nullable|sometimes)(?:\|[\w:,]+)+
    | A\d{{3}}(?:CBC|GCM|KW|GCMKW)(?:-HS\d{{3}})?
    | (?:scram-|hmac-)?(?:aes|sha|rsa|ecdsa|hmac|md|utf|iso|tls)-?\d{{1,4}}(?:[-_][a-z0-9]{{1,8}}){{0,3}}
    | (?:\[\]|[&*]\ ?|const\ )?(?:{_any_of(WORDS["type"])})(?:\ ?\*|\(\d{{1,4}}\))?
    | (?:Option|Optional|Maybe|Nullable)[\[<](?:{_any_of(WORDS["type"])})[\]>]
    | {_any_of(WORDS["default_password"])}"""
)
_SAYS_PLACEHOLDER = _pattern(
    rf"(?i)[\s(-]*+(?>(?>{_any_of(WORDS['placeholder'])})(?>s(?![a-z]))?[-_.\ /*]*+)+\d?[.:?\s]*\)?"
)
_INTERPOLATION = re.compile(rb"\$?(?<!\{)\{++[^{}]*+\}++|%\(\w+\)s|<[A-Za-z_ -]+>|\$\([^()]*\)|\$[A-Z_]{2,}\b")
_NUMBER = _pattern(
    r"""[-+]?\d[\d_,]*(?:\.\d+)*(?:e[-+]?\d+)?[a-zA-Z%]{0,3} | 0x[0-9a-fA-F]{1,16} | \#[0-9a-fA-F]{3,8}
    | v\d+(?:\.\d+)*[\w.+-]{0,16} | \d+(?:\.\d+){1,3}[\w.+-]{0,16} | \d{4}-\d\d-\d\d(?:[T\ ][\d:.+Z-]*)?"""
)
_PATH = _pattern(
    r"""(?:[.~]{1,2}|[A-Za-z]:)?[/\\][\w@.{}$+%,:\ /\\-]* | [\w@.-]+(?:[/\\][\w@.{}-]+)+[/\\]?
    | [A-Za-z_@.-]+/ | [\w./\\-]+\.[a-z]{1,5} | (?:https?|file|ssh|git|s3|gs|wss?|ftp)://.* | [\w-]+(?:\.[\w-]+)+/.*"""
)
_SEGMENT = _pattern(
    r"""[a-z][a-z_.@-]*\d{0,4} | (?:[A-Z][a-z]+)+ | [A-Z_]+ | \d{1,4} | [\w.-]+\.[a-z]{1,5}
    | [a-z0-9]+(?:[-_.][a-z0-9]+)+ | """
)
_CODE = _pattern(
    r"""[\w.:>$\#-]*\w\((?:[^)\#^%~|]* | .*\)(?:[^\w\#^%~@].*)?)
    | [!&*]+[A-Za-z_$][\w$]*(?:(?:\?\.|->|[.:])[\w$.:]*)? | [a-z_-]+(?::[a-z_-]+)+:\d+
    | [A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)\#?[A-Za-z_$][\w$]*)+ | [A-Za-z_][\w.]*\[.*
    | [-!&*]?[\w.]+\s(?:\+|\|\||&&|\?\?|==|!=|=>|or|if)\s.*
    | (?:new|await|not|lambda|function|async|return|None|null|nil)\b.*"""
)
_OPTION = re.compile(rb"[a-z]{2,16}=(?P<value>[^=]+)")  # --api-key provider=<key>
_EMPHASIS = re.compile(rb"[*_]{0,3}[A-Za-z]+(?:-[A-Za-z]+)*:?[*_]{2,3}:?")  # a word of a heading: **override**
_UUID = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEX = re.compile(rb"[0-9a-fA-F]{16,}")
_LETTERS = re.compile(rb"[A-Za-z]+")
_WORDY = re.compile(rb"(?:[A-Za-z]+\d{0,3}|\d{1,4})(?:[-_./:](?:[A-Za-z]+\d{0,3}|\d{1,4}))*+")
_IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$.-]*")
_RUNS = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|\d+")
_CONSONANTS = re.compile(rb"(?i)[bcdfghjklmnpqrstvwxz]{6,}")
_PAIRS = frozenset((row[0] + letter).encode() for row in WORDS["pairs"] for letter in row[1:])
# A step of a scale, a constant of an enum, a name with a date.
_NAME_OF_ONE = re.compile(rb"[a-z-]+-(?:[1-9]50|\d{1,2}00)|[A-Z_]+_\d+|.*\d{4}-\d\d-\d\d.*")
_COUNTED = re.compile(rb"1234?5?6?7?8?9?0?|20\d\d|\d\d?(?!\d)")  # as in test-key-12345
_DIGITS = re.compile(rb"\d+")
_TELLING = re.compile(rb"(?i)pass|pwd|secret|token|key|cred|auth")
# A telling word that is a part of its own in a name: user_password2, apiKey; not monkey, turkey.
_TELLING_PART = _pattern(
    r"""(?: (?<![A-Za-z\d]) | (?<=[a-z\d])(?=[A-Z]) | (?=[A-Z][a-z]) )
    (?i: (?: pass(?:word|wd|phrase|code|key)? | pwd | secret | token | key | cred(?:ential)?
        | auth(?:entication|orization)? ) s? )
    (?! [a-z] | (?<=[A-Z])[A-Z] )"""
)
_SIGN = re.compile(rb"[0-9!#%^*~@$&+]|=\Z")
_PLAIN_WORDS = re.compile(rb"[a-z]{3,12}(?: [a-z]{3,12}){2,9}")
_PHRASE = re.compile(rb"[a-z]{3,8}(?: [a-z]{3,8}){11,23}")
_REGEX = re.compile(rb"\\[wdsbWDS]")


def placeholder(value: bytes) -> bool:
    """Whether the value stands for a secret that is elsewhere, or for none."""
    value = value.rstrip(b"`")  # of Markdown
    if _PLACEHOLDER.fullmatch(value) or _SAYS_PLACEHOLDER.fullmatch(value) or MARK.fullmatch(value):
        return True
    if (option := _OPTION.fullmatch(value)) and placeholder(option["value"]):
        return True
    rest = _INTERPOLATION.sub(b"", value)
    return len(rest) < len(value) and (len(rest) < 6 or not looks_random(rest.strip(b"-_./:=")))


def harmless(value: bytes) -> bool:
    """Whether the value is a placeholder, number, version, colour, date, path, address or code."""
    if placeholder(value) or _NUMBER.fullmatch(value) or _CODE.fullmatch(value):
        return True
    return bool(_PATH.fullmatch(value)) and not _random_path(value)


def looks_random(value: bytes) -> bool:
    """Whether letters and digits are mixed as in no name or word."""
    return _looks_random(value) if len(value) <= REMEMBERED_BYTES else _looks_random.__wrapped__(value)


@lru_cache(maxsize=4096)
def _looks_random(value: bytes) -> bool:
    if len(value) < 8 or b" " in value or b"\n" in value or value.isdigit():
        return False
    if _UUID.fullmatch(value):
        return True
    if _HEX.fullmatch(value):
        return _digits(value) > 0
    if _WORDY.fullmatch(value):
        return any(_random_letters(part) for part in _LETTERS.findall(value))
    return not _identifier(value)


def keyed_secret(value: bytes, check: str, sure: bool) -> bool:
    """Whether `value` is the secret that its key announces. `sure`: the value is quoted, or data rather than code.

    `check` comes from the rule of the key: `given` (a password: any value), `word-proof` (not a word, name or number),
    `random` (long and mixed).
    """
    if not value or _harmless_under_key(value, check, sure):
        return False
    if check == "given":
        return _password(value, sure)
    if check == "random" and _basic(value):
        return True
    if looks_random(value):
        return len(value) >= (8 if sure or check == "word-proof" else 10)
    return sure and check == "word-proof" and _is_chosen(value)


def _is_chosen(value: bytes) -> bool:
    """Whether somebody made it up, though it is not random."""
    return _made_up(value) or _odd(value) or _PHRASE.fullmatch(value) is not None


def prose_secret(value: bytes, check: str) -> bool:
    """The same in running text, where the value may just be the next word: it must not look like a word."""
    if _EMPHASIS.fullmatch(value):
        return False
    if check == "given":
        return len(value) >= 5 and _strong(value)
    return len(value) >= (10 if check == "word-proof" else 16) and looks_random(value) and not harmless(value)


def _harmless_under_key(value: bytes, check: str, sure: bool) -> bool:
    """Like `harmless`, but a password may be a number, and a quoted one may look like code."""
    if placeholder(value):
        return True
    if check == "given" and value.isdigit():
        return len(value) < (4 if sure else 6)
    if check != "given" and _SAYS_PLACEHOLDER.fullmatch(_COUNTED.sub(b"", value)):
        return True
    if check == "given" and sure:
        return bool(_PATH.fullmatch(value)) and b"/" in value and not _random_path(value)
    return harmless(value)


def _password(value: bytes, sure: bool) -> bool:
    words = value.split()
    if len(words) > 1:
        phrase = len(words) >= 3 and _PLAIN_WORDS.fullmatch(value) and not _TELLING.search(value)
        return sure and (any(map(_strong, words)) or bool(phrase))
    if sure or value.isdigit():
        return len(value) >= 3
    if len(value) < 5 or not (_strong(value) or looks_random(value) or _gibberish(value)):
        return False
    return not _names_a_secret(value)


def _names_a_secret(value: bytes) -> bool:
    """Whether it is a variable for a secret: names end in one digit at most, passwords in several."""
    return bool(_TELLING_PART.search(value)) and not value[-2:].isdigit() and _identifier(value)


def _random_path(value: bytes) -> bool:
    """Whether what looks like a path is random: base64 secrets may contain slashes, but paths consist of words."""
    if b"://" in value or b"\\" in value or value[:2] in (b"./", b"..", b"~/"):
        return False
    if b"/" not in value:
        return looks_random(value.rpartition(b".")[0]) and len(value) >= 24
    odd = sum(len(part) for part in value.split(b"/") if not _SEGMENT.fullmatch(part))
    return len(value) >= 20 and odd * 2 > len(value)


def _random_letters(value: bytes) -> bool:
    """Whether case or consonants are unlike any language; short runs cannot be judged."""
    if len(value) < 16:
        return len(value) >= 10 and _gibberish(value)
    mixed = not (value.islower() or value.isupper() or value[1:].islower())
    return (mixed and len(value) < 3.3 * len(_RUNS.findall(value))) or bool(_CONSONANTS.search(value[:128]))


def _gibberish(value: bytes, share: int = 3) -> bool:
    """Whether at least one in `share` letter pairs occurs in no word."""
    low = value[:64].lower()
    odd = sum(low[at : at + 2] not in _PAIRS for at in range(len(low) - 1))
    return len(low) >= 8 and low.isalpha() and odd * share >= len(low) - 1


def _made_up(value: bytes) -> bool:
    """Whether it is made of words and digits like invented keys: blue-falcon-42, tiger25077; not gray-100, gpt-4o."""
    words = _DIGITS.sub(b"", value)
    digits, letters = len(value) - len(words), words.translate(None, b"-_.")
    if len(value) < 8 or not letters[:1].isalpha() or b" " in value or _NAME_OF_ONE.fullmatch(value):
        return False
    return digits >= 2 or (digits == 1 and _gibberish(letters, 4))


def _identifier(value: bytes) -> bool:
    """Whether it is a name with a few digits: toBase64String, utf8_decode_v2, sha256_hash."""
    if len(value) > 80 or not _IDENTIFIER.fullmatch(value) or _CONSONANTS.search(value):
        return False
    runs = _RUNS.findall(value)
    numbers = [run for run in runs if run.isdigit()]
    words = [run for run in runs if not run.isdigit()]
    return len(numbers) <= 2 and sum(map(len, numbers)) <= 4 and sum(map(len, words)) >= 4 * len(words)


def _odd(value: bytes) -> bool:
    """Whether a quoted value is none of these: a name, a sentence, a regular expression, a word with a number."""
    if len(value) < 6 or b" " in value or _REGEX.search(value):
        return False
    return not (_WORDY.fullmatch(value) or _identifier(value))


def _strong(value: bytes) -> bool:
    """Whether it looks like a typed password: letters with a digit or a sign."""
    return not harmless(value) and bool(_SIGN.search(value)) and bool(re.search(rb"[A-Za-z]", value))


def _mixed(value: bytes) -> bool:
    letters = min(len(re.findall(rb"[a-z]", value)), len(re.findall(rb"[A-Z]", value)))
    return letters >= 2 and (_digits(value) > 1 or looks_random(value))


def says_placeholder_pair(value: bytes) -> bool:
    """Whether it is base64 of a user name with a placeholder: `user:password`."""
    return placeholder(_decoded(value).partition(b":")[2] or b"a1")


def _basic(value: bytes) -> bool:
    """base64 of printable `user:password`."""
    text = _decoded(value)
    if b":" not in text[1:] or len(text) <= 3 or says_placeholder_pair(value):
        return False
    return all(byte >= 0x20 and byte != 0x7F for byte in text)


def _decoded(value: bytes) -> bytes:
    """What is in the base64; nothing if it is none."""
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _digits(value: bytes) -> int:
    return sum(48 <= byte <= 57 for byte in value)


# Checks that a rule may require of a found value; `alone` concerns the surrounding text and is done in `find`.
CHECKS: dict[str, Callable[[bytes], bool]] = {
    "given": lambda value: not placeholder(value.strip(b" '\"")),
    "word-proof": lambda value: looks_random(value) and not placeholder(value),
    "random": lambda value: len(value) >= 12 and looks_random(value) and not harmless(value),
    "strong": _strong,
    "mixed": _mixed,
    "digit": lambda value: _digits(value) > 0,
    "basic": _basic,
    "not-uuid": lambda value: not _UUID.fullmatch(value),
    "plain": lambda value: not harmless(value),
    "alone": lambda _value: True,
}
