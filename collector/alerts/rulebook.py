"""The alert rules in force, as their file was last read without a mistake."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from collector.alerts.rulefile import Mistake, RuleError, default_rules, load_rules

GONE = "is gone: what was read from it stays in force until it is back; without it, a restart takes the default rules"


class RuleBook:
    """The rules in force: the user's file, else the default ones. A file that breaks or vanishes changes nothing, and
    the error is kept: an unmounted disk must not switch to the default rules.

    Other collectors are told of a change first, from which text to which, by `given`, a block in which it is written
    here; it raises Changed where they have another one.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.given: Callable[[str, str], AbstractContextManager[None]] = lambda before, text: nullcontext()
        self.file = default_rules()
        self.error: RuleError | None = None
        self._read: tuple[int, int] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Reads the file again if it changed; true if other rules are in force now."""
        version = self._version()
        if version == self._read:
            return False
        self._read = version
        try:
            if self.path and version:
                self.file = load_rules(self.path)
            elif self.file is not default_rules():
                raise RuleError(str(self.path), [Mistake(1, "", "", "", GONE)])
        except RuleError as error:
            self.error = error
            return False
        self.error = None
        return True

    def _version(self) -> tuple[int, int] | None:
        try:
            stat = self.path.stat() if self.path else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size) if stat else None
