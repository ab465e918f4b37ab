"""Changes the rule file for the API: only what somebody has seen, only to what is valid, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collector.alerts.rulebook import RuleBook
from collector.alerts.rulefile import RuleError, parse_rules
from collector.errors import Rejected
from collector.files import Changed, is_writable, read, write

CHANGED = "has changed since you read it: read it again, then change it"

_TURN = threading.Lock()  # one change at a time


@dataclass(frozen=True, slots=True)
class File:
    """The rule file as it is; its `revision` is another one as soon as a byte of it is."""

    path: Path
    text: str

    @property
    def revision(self) -> str:
        return hashlib.blake2b(self.text.encode(), digest_size=12).hexdigest()


def file_of(book: RuleBook) -> File:
    """The file whose rules are in force, empty if there is none. Raises Rejected where it cannot be read."""
    if book.path is None:
        raise Rejected("this collector has no rule file: set MISSTEP_RULES", 409)
    try:
        return File(book.path, read(book.path))
    except OSError as error:
        raise Rejected(f"{book.path}: cannot be read: {_reason(error)}", 409) from None


def check(file: File) -> None:
    """Raises Rejected 409 where the file has mistakes; an empty one has none."""
    try:
        if file.text.strip():
            parse_rules(file.text, file.path.name)
    except RuleError as error:
        first = f"{file.path.name}:{error.mistakes[0]}"
        raise Rejected(f"the rule file has mistakes already; mend these first: {first}", 409) from None


def change(book: RuleBook, revision: str, edit: Callable[[str], str]) -> File:
    """The file after this edit, which was made for this revision of it.

    Raises Rejected where the file is another one by now, has mistakes, or cannot be written, and RuleError with the
    mistakes that the edit would make.
    """
    with _TURN:
        before = file_of(book)
        if revision != before.revision:
            raise Rejected(f"{before.path}: {CHANGED}", 412)
        _check_before(book, before)
        text = edit(before.text)
        parse_rules(text, before.path.name)
        try:
            with book.given(before.text, text):
                write(before.path, text, before.text)
        except Changed:
            raise Rejected(f"{before.path}: {CHANGED}", 412) from None
        except OSError as error:
            remedy = "give the collector a folder that it may write, and name the file there with MISSTEP_RULES"
            raise Rejected(f"{before.path}: cannot be written: {_reason(error)}; {remedy}", 409) from None
        return File(before.path, text)


def _check_before(book: RuleBook, file: File) -> None:
    if not file.text.strip() and book.file.path == str(file.path):
        raise Rejected(f"{file.path}: is gone, and its rules are still in force: bring it back, then change it", 409)
    if not is_writable(Path(os.path.realpath(file.path))):
        raise Rejected(f"{file.path}: is read-only: allow the collector to write it, or change it by hand", 409)
    check(file)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
