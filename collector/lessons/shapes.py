"""The shape of a call: what is the same in its repetitions, so that they count together.

Of a command, its program and first sub-command; of a path, the path below the repository; of parameters, the name that
the message complains of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

READ_CHARS = 1_000  # of a command or a message
REMEMBERED = 8_192  # shapes: the same few commands and paths are asked about again and again
MOST_WORDS = 40
# Between commands of one line; a pipe's first command is the one whose result counts.
BETWEEN = re.compile(r"&&|\|\||[;|\n]")
SETTING = re.compile(r"[A-Za-z_]\w*=\S*")
PREPARING = ("cd", "export", "source", ".", "set", "pushd", "popd", "true", "echo")
IN_FRONT = ("sudo", "env", "time", "nohup", "exec", "command", "timeout", "nice")
NUMBER = re.compile(r"\d+(?:\.\d+)?[smhd]?")
WORD = re.compile(r"[A-Za-z][\w:.@/+-]{0,60}")
# Of one run, not of the project: the next one has another.
PASSING = re.compile(r"(?i)\b[0-9a-f]{8,}\b|\b\d{4}-\d\d-\d\d\b|\b\d{6,}\b|(?:^|/)(?:tmp|temp|var/folders)/")
VERSION = "0123456789."
IN_QUOTES = re.compile(r"['\"`]([A-Za-z_][\w.-]{0,60})['\"`]")
NAMED = re.compile(r"\b(?:parameter|argument|property|field|key|option) ([A-Za-z_][\w.-]{0,60})\b", re.IGNORECASE)
HOST = re.compile(r"(?<![\w.-])((?:localhost|[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}):\d{2,5})\b")


@dataclass(frozen=True, slots=True)
class Commands:
    """What is known of programs: `runners` start another program, `with_sub_command` say what they do in their next
    word, `deeper` in the one after it. The next word of each of `valued` is its value. Each of `alike` is a set of
    programs that do the same.
    """

    runners: frozenset[tuple[str, ...]] = frozenset()
    with_sub_command: frozenset[str] = frozenset()
    deeper: frozenset[tuple[str, str]] = frozenset()
    valued: frozenset[str] = frozenset()
    alike: tuple[frozenset[str], ...] = ()

    @staticmethod
    def of(table: Mapping[str, Sequence[object]]) -> Commands:
        """From `[commands]` of `schemas/lessons.toml`."""
        return Commands(
            frozenset(tuple(str(words).split()) for words in table["runners"]),
            frozenset(str(word) for word in table["with_sub_command"]),
            frozenset(_pair(str(words)) for words in table["deeper"]),
            frozenset(str(word) for word in table["valued"]),
            tuple(frozenset(str(words).split(",")) for words in table["alike"]),
        )

    def shape(self, command: str) -> str | None:
        """`cd web && CI=1 pnpm test -- a.ts` is `pnpm test`; None if there is no program in it."""
        return _shape(self, command[:READ_CHARS])

    def run(self, words: list[str]) -> tuple[list[str], list[str]]:
        """The program with the runners before it, and the words after it that may name what it does."""
        found: list[str] = []
        while words:
            runner = next((each for each in self.runners if tuple(words[: len(each)]) == each), None)
            if runner is None or len(words) == len(runner):
                break
            found += runner
            words = words[len(runner) :]
        plain = list(self._without_options(words))
        return found + plain[:1], [word for word in plain[1:] if WORD.fullmatch(word)]

    def _without_options(self, words: Sequence[str]) -> Iterator[str]:
        for before, word in zip(["", *words], words, strict=False):
            if not word.startswith("-") and before not in self.valued:
                yield word

    def same_goal(self, one: str, other: str) -> bool:
        """Whether two shapes try the same: the last word is equal, or the programs are alike."""
        last, others = (shape.split()[-1].rstrip(VERSION) or shape for shape in (one, other))
        return last == others or any({last, others} <= each for each in self.alike)


@lru_cache(REMEMBERED)
def _shape(commands: Commands, command: str) -> str | None:
    words = _program(command)
    if not words:
        return None
    found, rest = commands.run(words)
    if found and found[-1] in commands.with_sub_command:
        found, rest = [*found, *rest[:1]], rest[1:]
    if tuple(found[-2:]) in commands.deeper:
        found += rest[:1]
    return " ".join(found) or None


def _pair(words: str) -> tuple[str, str]:
    first, second = words.split()
    return first, second


def _program(command: str) -> list[str]:
    """The words of the first command of a line that does something, without settings and what only starts it."""
    for part in BETWEEN.split(command):
        words = part.split()[:MOST_WORDS]
        while words and (SETTING.fullmatch(words[0]) or words[0] in IN_FRONT):
            timed = words[0] in ("timeout", "nice")
            words = words[1:]
            while timed and words and (NUMBER.fullmatch(words[0]) or words[0].startswith("-")):
                words = words[1:]
        if words and words[0] not in PREPARING:
            program = words[0].strip("'\"()").replace("\\", "/")
            name = program if program.startswith("./") else program.rsplit("/", 1)[-1]
            return [name, *words[1:]] if name else []
    return []


@lru_cache(REMEMBERED)
def path(target: str, scope: str) -> str | None:
    """The path below the repository; None if it is of one run only, such as a temporary file, or a command."""
    inside = target.removeprefix(scope).lstrip("/") if scope and target.startswith(scope + "/") else target
    whole = inside.strip()
    return None if not whole or len(whole) > 200 or "\n" in whole or PASSING.search(whole) else whole


def parameter(message: str, tool: str) -> str | None:
    """The name of a parameter that a message complains of."""
    text = message[:READ_CHARS]
    found = [*NAMED.findall(text), *IN_QUOTES.findall(text)]
    return next((name for name in found if name not in (tool, "required", "undefined", "null", "string")), None)


def host(target: str, message: str) -> str | None:
    """Host and port that could not be reached."""
    found = HOST.search(message[:READ_CHARS]) or HOST.search(target[:READ_CHARS])
    return found[1] if found else None
