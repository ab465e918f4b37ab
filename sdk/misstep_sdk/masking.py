"""Secrets out of parameters before they leave the program: by the names of keys and by vendors' prefixes.

The collector looks more closely at everything that arrives; this is for logs and for what travels to it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

MASK = "[redacted]"
DEEPEST = 8  # levels of nesting; deeper values are replaced by their type
LONGEST = 16_384  # characters of a text

_SECRET_KEY = re.compile(
    r"pass(?:word|wd|phrase|code)?$|pwd$|secret|credential|authorization|cookie|private.?key|api.?key|access.?key"
    r"|auth.?token|bearer|signature|(?:^|[_.-])token$|(?:access|refresh|id|session|api|bot|oauth|csrf)[_-]?token$|[a-z]Token$"
)
_SECRET_VALUE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,512}|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{20,128}|AKIA[A-Z0-9]{16}"
    r"|ASIA[A-Z0-9]{16}|AIza[\w-]{30,64}|xox[abeprs]-[\w-]{10,256}|hf_[A-Za-z0-9]{20,64}|npm_[A-Za-z0-9]{30,64}|pypi-[\w-]{40,512}"
    r"|mst_[\w-]{20,128}|SG\.[\w-]{16,64}\.[\w-]{16,64}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,128}"
    r"|eyJ[\w-]{10,2048}\.[\w-]{10,4096}\.[\w-]{10,1024})"
    r"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[\s\S]{0,8192}?-----END"
    r"|(?<=://)[^\s/@:]{0,128}:[^\s/@]{1,256}(?=@)|(?i:(?<=bearer )[\w.~+/=-]{8,4096})"
)


def masked(value: Any, deep: int = 0) -> Any:
    """The value as JSON can hold it, secrets replaced, long texts cut."""
    if isinstance(value, str):
        return _SECRET_VALUE.sub(MASK, value[:LONGEST])
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if deep >= DEEPEST:
        return f"<{type(value).__name__}>"
    if isinstance(value, dict):
        return {str(key): MASK if _names_secret(key, held) else masked(held, deep + 1) for key, held in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [masked(held, deep + 1) for held in value]
    return masked(str(value), deep + 1)


def _names_secret(key: Any, held: Any) -> bool:
    """Numbers and flags are no secrets: `max_token: 4096`, `password: true`."""
    return isinstance(held, (str, bytes, dict, list)) and bool(held) and _is_secret(str(key)[:200])


@lru_cache(maxsize=1_024)  # tools have few parameters
def _is_secret(name: str) -> bool:
    # Lower but for the capital that begins a last word, so that `sessionToken` ends in a word.
    lowered = name if name.endswith("Token") and name != "Token" else name.lower()
    return bool(_SECRET_KEY.search(lowered))
