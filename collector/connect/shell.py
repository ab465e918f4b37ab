"""A function in a shell's profile that starts an agent with variables of its own, and no other program with them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from collector.connect.document import MISSING

PROFILES = {
    "zsh": ("$ZDOTDIR/.zshrc", "~/.zshrc"),
    "bash": ("~/.bashrc",),
    "fish": ("$XDG_CONFIG_HOME/fish/config.fish", "~/.config/fish/config.fish"),
}


def profile(shell: str) -> tuple[str, ...]:
    """The places of the profile of a shell, given by its path; empty if none is known."""
    return PROFILES.get(Path(shell).name, ())


class Profile:
    """A profile with a block between two marks for each command: its value, at the command's name, is the variables."""

    def __init__(self, text: str, fish: bool = False) -> None:
        self.text = text
        self._fish = fish

    def get(self, path: tuple[str, ...]) -> Any:
        """The variables of the command; MISSING if there is no block, or one that somebody changed."""
        found = self._block(path[0]).search(self.text)
        if not found:
            return MISSING
        words = [word.partition("=") for word in shlex.split(found["variables"])]
        variables = {name: value for name, _, value in words}
        return variables if found[0] == self._written(path[0], variables) else found[0]

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Writes the command's block; it replaces an earlier one."""
        block = self._written(path[0], value)
        pattern = self._block(path[0])
        if pattern.search(self.text):
            self.text = pattern.sub(lambda _: block, self.text, count=1)
        else:
            apart = "" if not self.text or self.text.endswith("\n") else "\n"
            self.text += apart + block

    def remove(self, path: tuple[str, ...]) -> None:
        """Takes the block out."""
        self.text = self._block(path[0]).sub("", self.text, count=1)

    def append(self, path: tuple[str, ...], item: Any) -> None:
        """No profile has lists."""
        raise NotImplementedError

    discard = append

    def _written(self, command: str, variables: dict[str, str]) -> str:
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        if self._fish:
            lines = f"function {command}\n  env {given} {command} $argv\nend\n"
        else:
            lines = f'function {command} {{\n  env {given} {command} "$@"\n}}\n'
        return f"# >>> misstep connect {command}\n{lines}# <<< misstep connect {command}\n"

    def _block(self, command: str) -> re.Pattern[str]:
        name = re.escape(command)
        start = rf"^# >>> misstep connect {name}\n[^\n]*\n"
        end = rf"(?:(?!# <<<)[^\n]*\n)*# <<< misstep connect {name}\n"
        return re.compile(rf"{start}  env (?P<variables>[^\n]*) {name} [^\n]*\n{end}", re.MULTILINE)
