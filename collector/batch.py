"""A request, what the pipeline makes of it, and the answer to its sender."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collector.report import Report
else:
    Report = dict[str, Any]  # the journal decodes by these types, and would leave users' dimensions out

Sender = tuple[str, str]  # source ("" if none claims it), service
Switch = tuple[str, str, str]  # source, service, name of a setting of the agent that shows in its records
Unread = tuple[str, str, str, str]  # source, service, scope, attribute by which its unread records speak a convention
Sampling = tuple[float | None, str]  # the share that was kept (None: unknown), and what says so

SENDERS = 1_000  # in each table that notes them: random names of services cannot grow it


class Body(NamedTuple):
    """A request body, decompressed. `signal` is logs, traces, metrics, or events for plain JSON; `project` is that of
    the token with which it came, empty without one.
    """

    content: bytes
    media_type: str
    signal: str
    project: str = ""


@dataclass(slots=True)
class Batch:
    """A decoded request: sanitised reports, sessions of traces, and dropped records by reason."""

    identity: bytes
    received_ns: int
    reports: list[Report]
    sessions: dict[str, str]
    dropped: Counter[str]
    records: int = 0  # in the request
    warning: str = ""
    kept: int = 0  # of `records`, those that became reports
    failed: int = 0  # of `records`, those lost to a defect of ours
    rejected: int = 0  # of `records`, those that are unreadable; dropped as "malformed"
    redacted: Counter[str] = field(default_factory=Counter)  # number of secrets removed, by rule
    senders: dict[Sender, str] = field(default_factory=dict)  # senders of metrics, with the metrics' names
    sampled: dict[Sender, Sampling] = field(default_factory=dict)
    told_ns: dict[int, int] = field(default_factory=dict)  # tool results that can be skipped once stored: digest, time
    # Of model requests that name no session: trace, when it began, keys that others of the conversation share.
    retold: list[tuple[str, int, list[int]]] = field(default_factory=list)
    named_ns: dict[str, int] = field(default_factory=dict)  # when what names the session of each trace began, if known
    switches: list[Switch] = field(default_factory=list)
    unread: list[tuple[Unread, int]] = field(default_factory=list)  # and how many there are
    project: str | None = None


@dataclass(slots=True)
class Receipt:
    """What the door needs of a batch: for the answer, for metrics, and for `Readers.stored`."""

    records: int
    dropped: Counter[str]
    warning: str
    failed: int
    rejected: int
    told_ns: dict[int, int] = field(default_factory=dict)
