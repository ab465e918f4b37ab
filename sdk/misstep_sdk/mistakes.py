"""Counts mistakes in a row as the collector does, so that an agent can stop or ask before it goes on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["ok", "error", "cancelled", "denied", "unknown"]
IDLE_NS = 3_600 * 1_000_000_000  # a pause longer than this ends every streak of the session
SESSION_LIMIT = 3  # Roo Code asks the person after three mistakes
TARGET_LIMIT = 2  # and shows the error of a diff after two on one file
MOST_SESSIONS = 10_000  # that are remembered


@dataclass(frozen=True)
class Limit:
    """A limit was reached: `count` mistakes in a row in one session, or there with one tool on one target."""

    session: str
    count: int
    tool: str | None = None
    target: str | None = None
    subagent: str | None = None


@dataclass(frozen=True)
class Counts:
    """Mistakes in a row after a call, in its session and with its tool on its target."""

    session: int
    target: int


class MistakeTracker:
    """Mistakes in a row per session, and per tool and target inside it; a sub-agent's are its own.

    A success of the scope ends its streak; a pause of more than an hour of the session ends all; other errors, denied
    and cancelled calls change nothing. `on_limit` is called each time that a limit is reached. With `file` the counts
    survive a crash: they are written after each call that changes them, beside the file and renamed. Of the sessions
    that had a call most recently, 10,000 are remembered.
    """

    def __init__(
        self,
        *,
        session_limit: int = SESSION_LIMIT,
        target_limit: int = TARGET_LIMIT,
        on_limit: Callable[[Limit], Any] | None = None,
        file: str | os.PathLike[str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.session_limit = session_limit
        self.target_limit = target_limit
        self._on_limit = on_limit
        self._clock = clock
        self._file = Path(file) if file else None
        self._counts: dict[str, dict[str, int]] = {}  # session → scope → mistakes in a row
        self._newest: dict[str, int] = {}  # session → time of its newest call
        if self._file and self._file.exists():
            self._load(self._file)

    def record(
        self,
        session: str,
        outcome: Outcome,
        *,
        tool: str,
        mistake: bool = False,
        target: str | None = None,
        subagent: str | None = None,
        time_ns: int | None = None,
    ) -> Counts:
        """Takes one call that ended now, or at `time_ns`; `mistake`: the model could have avoided the error."""
        now_ns = self._clock() if time_ns is None else time_ns
        if now_ns - self._newest.get(session, now_ns) > IDLE_NS:
            self._counts.pop(session, None)
        self._newest[session] = max(now_ns, self._newest.pop(session, now_ns))  # the last in the dictionary now
        if len(self._newest) > MOST_SESSIONS:
            self._counts.pop(longest_ago := next(iter(self._newest)), None)
            del self._newest[longest_ago]
        scopes = [_scope(subagent)] + ([_scope(subagent, tool, target)] if target is not None else [])
        counts = self._counts.setdefault(session, {})
        missed = outcome == "error" and mistake
        for scope in scopes:
            if outcome == "ok":
                counts.pop(scope, None)
            elif missed:
                counts[scope] = counts.get(scope, 0) + 1
        after = Counts(counts.get(scopes[0], 0), counts.get(scopes[-1], 0) if target is not None else 0)
        if outcome == "ok" or missed:
            self._save()
        if missed:
            self._tell(session, after, tool, target, subagent)
        return after

    def count(self, session: str, subagent: str | None = None) -> int:
        """Mistakes in a row of this session."""
        return self._counts.get(session, {}).get(_scope(subagent), 0)

    def asked(self, session: str) -> None:
        """A person was asked: counting begins anew, as Roo Code does after its question."""
        self._counts.pop(session, None)
        self._save()

    def forget(self, session: str) -> None:
        """The session ended: nothing of it is remembered."""
        self._newest.pop(session, None)
        self.asked(session)

    def _tell(self, session: str, after: Counts, tool: str, target: str | None, subagent: str | None) -> None:
        if not self._on_limit:
            return
        if after.session >= self.session_limit:
            self._on_limit(Limit(session, after.session, subagent=subagent))
        if target is not None and after.target >= self.target_limit:
            self._on_limit(Limit(session, after.target, tool, target, subagent))

    def _save(self) -> None:
        if not self._file:
            return
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}.part")
        beside.write_text(json.dumps({"counts": self._counts, "newest": self._newest}))
        os.replace(beside, self._file)

    def _load(self, file: Path) -> None:
        try:
            state = json.loads(file.read_text())
            self._counts, self._newest = dict(state["counts"]), dict(state["newest"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} is not a file of a MistakeTracker ({error}); remove it to begin anew") from None


@lru_cache(maxsize=4_096)
def _scope(*parts: str | None) -> str:
    return json.dumps(parts)
