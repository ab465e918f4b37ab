"""Makes a row for the user's own taxonomy.toml from an unclassified error; docs/taxonomy.md has the format."""

import json
import re

EXAMPLE_CHARS = 400
# A built-in class to start from, by operation: people replace it with the right one.
CLASSES = {"tool": "ToolExecutionError", "model": "ApiError", "agent": "InvalidConfigError"}
SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
PLACEHOLDER = re.compile(r"<[a-z]{1,8}>")


def message_row(operation: str, template: str | None, sample: str | None) -> str | None:
    """The `[[messages]]` row that matches a group's template, with a sample as example; None if no words are left.

    Args:
        operation: tool, model or agent; the row is only for errors of that operation.
        template: the group's, in which `<path>` and the like stand for the parts that differ between calls.
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
    """The row that makes the agent's own name of an error, for errors without a message, an alias of a class."""
    if not reported:
        return None
    name = CLASSES.get(operation, CLASSES["agent"])
    return f"[classes.{name}]   # or the class that it is\naliases = [{_quoted(reported)}]"


def _as_read(text: str) -> str:
    """The text as the collector matches it: with JSON's escaped quotes and line ends decoded."""
    return text.replace('\\"', '"').replace("\\n", "\n")


def _pattern(text: str) -> str:
    """The pattern of a template, without look-around or back-references; placeholders match any text."""
    parts = (SPECIAL.sub(r"\\\g<0>", part) for part in PLACEHOLDER.split(text.strip()))
    return ".+".join(r"\s+".join(re.split(r"\s+", part)) for part in parts)


def _says(pattern: str) -> bool:
    """Whether a pattern has words: one with only placeholders would match everything."""
    return len(re.findall(r"[^\W\d_]", re.sub(r"\\s", "", pattern))) >= 4


def _quoted(text: str) -> str:
    """A TOML string, literal if possible, so that patterns stay readable."""
    if "'" not in text and text.isprintable():
        return f"'{text}'" if "\\" in text or '"' in text else f'"{text}"'
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
