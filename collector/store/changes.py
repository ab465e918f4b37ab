"""What goes into the correlator and what comes out: a request that was read, and all that one transaction writes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from collector.store.batch import Report
from collector.store.senders import Sampling, Sender


@dataclass(slots=True)
class Batch:
    """What one request came to: sanitised reports, sessions of traces, and what was no report, by reason."""

    identity: bytes
    received_ns: int
    reports: list[Report]
    sessions: dict[str, str]
    dropped: Counter[str]
    records: int = 0  # as the door found them in the request
    warning: str = ""
    kept: int = 0  # of `records`, as counted where they are read, those of which a report came
    failed: int = 0  # of `records`, those that we failed on
    rejected: int = 0  # of `records`, those that nobody can read; dropped as "malformed"
    redacted: Counter[str] = field(default_factory=Counter)  # secrets cut, by rule
    senders: dict[Sender, str] = field(default_factory=dict)  # of metrics, with the names of these
    sampled: dict[Sender, Sampling] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)  # digests of tool results that need no second report once stored


@dataclass(slots=True)
class Receipt:
    """What of a batch its sender is told, and what is counted and remembered at the door."""

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
    duplicates: set[int] = field(default_factory=set)  # positions of batches that were stored before
    events: list[Report] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)  # event ids whose row and single reports go, to be written anew
    reports: list[tuple[int, Report]] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    redirects: dict[int, int] = field(default_factory=dict)
    waiting: list[tuple[int, int]] = field(default_factory=list)  # (key of a call not told of yet, event that is of it)
    twins: list[Report] = field(default_factory=list)  # which events (units) are one with others for want of an id
    position: int = 0  # in the journal, of the last batch
    accepted: int = 0  # records in these requests
    accounting: Counter[str] = field(default_factory=Counter)  # what became of them
    senders: dict[Sender, str] = field(default_factory=dict)
    sampled: dict[Sender, Sampling] = field(default_factory=dict)
