"""Input and output of the correlator: batches of reports, and everything that one transaction writes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from collector.store.batch import Report
from collector.store.senders import Sampling, Sender


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
    told: set[int] = field(default_factory=set)  # digests of tool results that can be skipped once they are stored


@dataclass(slots=True)
class Receipt:
    """What the door needs of a batch: for the answer, for metrics, and for `Readers.stored`."""

    records: int
    dropped: Counter[str]
    warning: str
    failed: int
    rejected: int
    told: set[int]


@dataclass(slots=True)
class Changes:
    """Everything one transaction writes."""

    received_ns: int
    identities: list[bytes] = field(default_factory=list)
    duplicates: set[int] = field(default_factory=set)  # indexes of batches that were stored before
    events: list[Report] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)  # events whose row and reports are removed and written again
    reports: list[tuple[int, Report]] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    redirects: dict[int, int] = field(default_factory=dict)
    # Keys of calls that were not reported yet, each with an event that refers to it.
    waiting: list[tuple[int, int]] = field(default_factory=list)
    twins: list[Report] = field(default_factory=list)  # which units are in which event because they are twins
    position: int = 0  # in the journal, of the last batch
    accepted: int = 0  # records in these requests
    accounting: Counter[str] = field(default_factory=Counter)  # what became of them
    senders: dict[Sender, str] = field(default_factory=dict)
    sampled: dict[Sender, Sampling] = field(default_factory=dict)
