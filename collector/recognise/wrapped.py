"""Takes texts out of what frameworks write around them, and knows those that say nothing.

Results and messages arrive as Python's words for an object, as the JSON of a result, or as a word in place of what was
hidden (`schemas/placeholders.toml`).
"""

from __future__ import annotations

import ast
import re
from typing import Any

from collector.recognise.readers import is_hidden, parsed
from collector.recognise.reasons import unrepresented

# What JavaScript, Python and Go write where there is nothing, or an object that is no text.
NOTHING = re.compile(
    r"\W{0,9}(?:(?:uncaught |unhandled )?(?:\w{0,40}error|exception|failed)\W{1,4})?"
    r"(?:\[object \w{1,40}\]|undefined|null|none|nil|<nil>|nan|\{\}|\[\])\W{0,9}",
    re.IGNORECASE,
)
NOTHING_CHARS, LITERAL_CHARS, TAIL_CHARS = 100, 1 << 16, 400
MESSAGE = re.compile(r"(?:(?:Tool|AI|Function)Message\()?content=(?=['\"\[])")
WORDED = ("content=", "meta=", "_meta=")
BEHIND = ("additional_kwargs", "response_metadata", "name", "id", "tool_call_id", "artifact", "status")
STATUS = re.compile(r"[ ,(]status='(\w{1,20})'")
RESULT = re.compile(r"(?:\w{1,40}\()?(?:(?:_?meta|type)=\S{1,40} ?)*content=\[")
RESULT_ERROR = re.compile(r"[ ,]is_?[eE]rror=(True|False)\b")
BLOCK_TEXT = re.compile(r"\btext=('(?:[^'\\]|\\.){0,4096}'|\"(?:[^\"\\]|\\.){0,4096}\")", re.DOTALL)


def object_in(text: str) -> dict[str, Any] | None:
    """The map that Python's words stand for: LangChain's `content='…' tool_call_id='…' status='error'`, MCP's
    `content=[TextContent(text='…')] isError=True`; None for any other text.
    """
    if not (text.startswith(WORDED) or text[:40].partition("(")[0].isidentifier()):
        return None
    tail = max(0, len(text) - TAIL_CHARS)
    if RESULT.match(text) and (flag := RESULT_ERROR.search(text, tail)):
        blocks = [_literal(block) for block in BLOCK_TEXT.findall(text[:LITERAL_CHARS])]
        return {"content": "\n".join(blocks), "isError": flag[1] == "True"}
    start = MESSAGE.match(text)
    end = _content_end(text, start.end()) if start and "tool_call_id=" in text else 0
    if start is None or not end:
        return None
    content = {"content": _literal(text[start.end() : end])}
    status = STATUS.search(text, max(end, tail))
    return {**content, "status": status[1]} if status else content


def _content_end(text: str, start: int) -> int:
    """Where the content of a message ends that begins at `start`: before the next of its fields; 0 if there is none."""
    closing = "]" if text[start] == "[" else text[start]
    ends = [text.find(f"{closing}{comma} {name}=") for name in BEHIND for comma in ("", ",")]
    return min((end for end in ends if end > 0), default=-1) + 1


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text) if len(text) <= LITERAL_CHARS else text[1:-1]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text[1:-1]


def said(text: str) -> Any:
    """What an error's text says: the text, or the content of the result that it is the JSON or Python's words of; ""
    for words that say nothing.
    """
    text = unrepresented(text)
    if len(text) <= NOTHING_CHARS and (NOTHING.fullmatch(text) or is_hidden(text.strip())):
        return ""
    if (held := object_in(text)) is not None:
        return held
    if text[:1] in ("[", "{") and _is_content(value := parsed(text)):
        return value
    return text


def _is_content(value: Any) -> bool:
    """Whether a value is a result of MCP or its blocks. Errors of other forms have codes and delays beside the text."""
    if isinstance(value, dict):
        return isinstance(value.get("content"), (list, str)) and value.keys() <= {
            "content", "isError", "is_error", "structuredContent", "_meta", "meta", "type", "status",
        }  # fmt: skip
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "text" in one for one in value)
