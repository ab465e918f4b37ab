"""An error without a class as a row for a taxonomy.toml of one's own; the format is in docs/taxonomy.md."""

import json
import re

EXAMPLE_CHARS = 400
# A class of the built-in table to start from, by operation: whoever pastes the row puts a better one there.
CLASSES = {"tool": "ToolExecutionError", "model": "ApiError", "agent": "InvalidConfigError"}
SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
PLACEHOLDER = re.compile(r"<[a-z]{1,8}>")


def message_row(operation: str, template: str | None, sample: str | None) -> str | None:
    """The `[[messages]]` row that matches a group's template, its sample as the example; None where no word is left.

    Args:
        operation: tool, model or agent; the row is for errors of that operation only.
        template: the group's, in which `<path>` and the like stand for what differs from call to call.
        sample: a message of the group.
    """
    if not template or not sample or not _says(_pattern(template)):
        return None
    read = _as_read(sample)
    lines = (line.strip() for line in read.splitlines())
    candidates = (_pattern(_as_read(template)), _pattern(max(lines, key=len, default="")))
    found = ((text, re.search(text, read, re.IGNORECASE | re.MULTILINE)) for text in candidates if _says(text))
    text, match = next(((text, match) for text, match in found if match), ("", None))
    if match is None:
        return None
    example = sample if match.end() > EXAMPLE_CHARS else sample[:EXAMPLE_CHARS]
    return "\n".join(
        (
            "[[messages]]",
            f"class = {_quoted(CLASSES.get(operation, CLASSES['agent']))}   # or a class that says more, or your own",
            f"where = [{_quoted(operation)}]",
            f"match = [{_quoted(text)}]",
            f"examples = [{_quoted(example)}]",
        )
    )


def alias_row(operation: str, reported: str | None) -> str | None:
    """The row that makes what the agent called an error, which has no message, another name of a class."""
    if not reported:
        return None
    name = CLASSES.get(operation, CLASSES["agent"])
    return f"[classes.{name}]   # or the class that it is\naliases = [{_quoted(reported)}]"


def _as_read(text: str) -> str:
    """The text as the collector looks at it: quotes and line ends of JSON inside a string are what they stand for."""
    return text.replace('\\"', '"').replace("\\n", "\n")


def _pattern(text: str) -> str:
    """A pattern without look-around or back-references for a template: any text for its placeholders."""
    parts = (SPECIAL.sub(r"\\\g<0>", part) for part in PLACEHOLDER.split(text.strip()))
    return ".+".join(r"\s+".join(re.split(r"\s+", part)) for part in parts)


def _says(pattern: str) -> bool:
    """Whether there are words in it: what only has placeholders would match everything."""
    return len(re.findall(r"[^\W\d_]", re.sub(r"\\s", "", pattern))) >= 4


def _quoted(text: str) -> str:
    """A TOML string: literal where it can be, so that a pattern stays readable."""
    if "'" not in text and text.isprintable():
        return f"'{text}'" if "\\" in text or '"' in text else f'"{text}"'
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
