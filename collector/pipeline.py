"""Turns the bytes of a request into a batch of sanitised reports, in one pass; no raw text leaves this module.

decode → recognise (and settle) → classify → hash the parameters → sanitise → cut to bounds → target → fingerprint.
Classifying needs the raw text, so it comes before sanitising; templates are stored, so fingerprinting comes after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xxhash import xxh3_128_digest, xxh32_intdigest

from collector.batch import SENDERS, Batch, Sender
from collector.classify.classify import Taxonomy
from collector.classify.reports import add_class
from collector.classify.target import TARGET_CHARS, extract_target, target_from_params
from collector.classify.template.fingerprint import fingerprint, template
from collector.columns import COLUMNS, INTEGERS, Row
from collector.decode import otlp, plain
from collector.decode.record import Metrics, Request, joined
from collector.decode.salvage import salvage
from collector.errors import Rejected
from collector.projects import within
from collector.recent import Recent
from collector.recognise.identify import key64
from collector.recognise.readers import as_text
from collector.recognise.recognise import Recognised, recognise
from collector.recognise.sources import Sources
from collector.report import HASHED, RAW, Report, as_report, as_row
from collector.sanitise.bounds import cut
from collector.sanitise.sanitise import Sanitiser
from collector.scrub import NAME_CHARS, Scrubber, params_hash
from collector.times import EARLIEST_NS, HOUR

AHEAD_NS = HOUR
FITS = {"integer": range(-(1 << 31), 1 << 31), "bigint": range(-(1 << 63), 1 << 63), "ubigint": range(1 << 64)}
# Of one call. Sums over two thousand million calls fit into 64 bits.
AMOUNTS = {"input_tokens": range(1 << 32), "output_tokens": range(1 << 32)}
TOLD_REMEMBERED = 100_000  # every model request repeats the tool results of its whole conversation
MOST = {"duration_ms": 1e12, "cost_usd": 1e9}  # 30 years
TOLD_INTEGERS = INTEGERS.difference(("time_ns", "received_ns", "params_hash", "redactions"))  # these are ours
DESCRIBED = frozenset(("target", "message", "error_class"))  # say what a call acted on, or what went wrong


@dataclass(slots=True)
class Pipeline:
    """The tables and keys for reading requests. One per thread: a sanitiser cannot be shared."""

    sources: Sources
    taxonomy: Taxonomy
    sanitiser: Sanitiser
    hash_key: bytes
    dimensions: tuple[str, ...] = ()  # user-defined attributes that become columns
    seen: Recent[int] = field(default_factory=lambda: Recent(TOLD_REMEMBERED))
    scrubber: Scrubber = field(init=False)

    def __post_init__(self) -> None:
        self.scrubber = Scrubber(self.sanitiser, self.hash_key, self.dimensions)

    def process(self, body: bytes, media_type: str, signal: str, received_ns: int, project: str | None = None) -> Batch:
        """One request body as a batch, without records that can never be read; `signal` is logs, traces, metrics, or
        events for plain JSON; `project` is whose it is, whatever the sender says.

        Raises Rejected if none can be read.
        """
        if signal == "events":
            objects = plain.decode(body)
            batch = self.batch(objects, _identity_of(objects, body, received_ns, project), received_ns, project)
            if lost := batch.dropped["no_event"]:
                said = f"{lost} of {batch.records} are no events: they name no tool, or do not say how the call ended"
                batch.warning = joined(batch.warning, said)
            return batch

        def read(part: bytes) -> Batch:
            request = otlp.decode(part, media_type, signal)
            return self.batch(request, identity(signal, body, project), received_ns, project)

        try:
            return read(body)
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, one bad record must not cost the others
            if isinstance(error, Rejected) and error.status != 400:  # the request as a whole is refused, e.g. too large
                raise
            return salvage(body, media_type, signal, read, error)

    def batch(self, request: Request, identity: bytes, received_ns: int, project: str | None = None) -> Batch:
        """One decoded request as a batch."""
        if request.metrics is not None:
            dropped = Counter({"metric": request.records})
            batch = Batch(identity, received_ns, [], {}, dropped, request.records, request.warning)
            batch.project = project
            batch.senders = self._senders(request.metrics, batch)
            return batch
        found: Recognised = recognise(request.scopes, self.sources, self.seen.get, self.dimensions, project)
        batch = Batch(identity, received_ns, [], {}, found.dropped, request.records, "", found.kept)
        batch.project = project
        batch.warning = joined(request.warning, *sorted(request.mended.difference((request.warning,))))
        batch.told_ns = found.told_ns
        batch.retold = [(trace, began_ns, [key64(*key) for key in keys]) for trace, began_ns, keys in found.retold]
        if request.rejected:
            batch.rejected = batch.dropped["malformed"] = request.rejected
        batch.reports = found.reports
        for report in batch.reports:
            self._finish(report, received_ns)
        self._sanitise(batch.reports, batch.redacted)
        self._add_senders(found, batch)
        clean: dict[str, str] = {}
        for trace, (began_ns, session) in found.links.items():
            if session not in clean:
                named = self.scrubber.scrub({"session": session}, batch.redacted)
                clean[session] = self.scrubber.cut("session", str(named["session"]))
            batch.sessions[trace], batch.named_ns[trace] = clean[session], began_ns
        return batch

    def _add_senders(self, found: Recognised, batch: Batch) -> None:
        """What is known of senders besides their reports: sampling, switches, records that no table takes."""
        for (source, service), sampled in found.sampled.items():
            batch.sampled[source, self._clean(service, batch)] = sampled.kept, ", ".join(sorted(sampled.signs))
        for source, service, name in sorted(found.switches):
            batch.switches.append((source, self._clean(service, batch), name))
        for (source, service, scope, key), records in sorted(found.unread.items()):
            sender = source, self._clean(service, batch), self._clean(scope, batch, "scope"), key
            batch.unread.append((sender, records))

    def _clean(self, text: str, batch: Batch, name: str = "service") -> str:
        """A name without secrets, cut to its bound."""
        return cut(str(self.scrubber.scrub({name: text}, batch.redacted)[name]), NAME_CHARS)

    def again(self, report: Report, redacted: Counter[str]) -> Report:
        """A stored report sanitised with the rules in force; the same object if nothing was cut. Counts the cuts.

        `report` may have any subset of its fields.
        """
        cuts: Counter[str] = Counter()
        clean = as_report({name: value for name, value in report.items() if value is not None})
        self._sanitise([clean], cuts)
        if not cuts:
            return report
        redacted.update(cuts)
        if secrets := self.sanitiser.secrets(cuts.elements()):
            clean["redactions"] = (report.get("redactions") or 0) + secrets
        return clean

    def stored(self, told_ns: Mapping[int, int]) -> None:
        """Remembers tool results that are stored, so that repetitions are skipped. To be called after the commit."""
        for digest, time_ns in told_ns.items():
            self.seen.put(digest, min(time_ns, self.seen.get(digest) or time_ns))

    def _senders(self, metrics: Iterable[Metrics], batch: Batch) -> dict[Sender, str]:
        """Senders of metrics, with the metrics' names; those with neither service nor source are left out."""
        found: dict[tuple[str, str], set[str]] = {}
        for name, scope, names in metrics:
            service = as_text(name) or ""
            plan = self.sources.plan(service, scope)
            source = plan.sources[0] if plan.claimed else plan.named
            sender = source.id if source else "", service
            if any(sender) and len(found) < SENDERS:
                found.setdefault(sender, set()).update(names)
        return {
            (source, self._clean(service, batch)): self._clean(", ".join(sorted(names)), batch, "metrics")
            for (source, service), names in found.items()
        }

    def _sanitise(self, reports: Iterable[Report], redacted: Counter[str]) -> None:
        for names, rows in self.scrubber.reports(reports, redacted).items():
            _complete(names, rows)

    def _finish(self, report: Report, received_ns: int) -> None:
        """Does everything that needs the raw texts."""
        report["received_ns"] = received_ns
        report["time_ns"] = sane_time(report.get("time_ns"), received_ns, report.get("_observed"))
        if "model" in report:
            report["model_from"] = "record"
        params = report.get("params")
        if params is not None and not report.get("target") and (target := target_from_params(params)):
            report["target"] = target
        add_class(self.taxonomy, report)
        if params is not None:  # those of a transcript come without what they wrote
            report["params_hash"] = params_hash(report.get("_digest", params), self.hash_key)
        row = as_row(report)
        for name in HASHED:
            if name in row:
                row[name] = [key64(*map(str, key)) for key in row[name]]
        for name in RAW:
            row.pop(name, None)


def _complete(names: Collection[str], rows: list[Row]) -> None:
    """Removes numbers that do not fit, and adds what follows from clean texts; all rows have these columns."""
    for name in TOLD_INTEGERS.intersection(names):
        _fit([row[name] for row in rows], rows, name)
    for name in MOST.keys() & names:
        for row in rows:
            if not 0 <= (row[name] or 0) <= MOST[name]:
                del row[name]
    if not DESCRIBED.isdisjoint(names):
        for row in rows:
            _describe(as_report(row))


def _describe(report: Report) -> None:
    """Adds target, template and fingerprint.

    From clean text only: a part of a secret, as between two slashes, would no longer be recognised.
    """
    # A model request acts on nothing, and its retries must share a chain with it.
    message = report.get("message") if report.get("operation") != "model" else None
    if target := report.get("target"):
        report["target"] = target[:TARGET_CHARS]
    elif message and (target := extract_target(message)):
        report["target"], report["target_guessed"] = target[:TARGET_CHARS], True
    if report.get("error_class"):
        report["template"] = template(report.get("message") or "")
        report["fingerprint"] = fingerprint(
            report["error_class"], report.get("tool") or "", report["template"], report.get("project")
        )


def _fit(column: list[Any], lot: list[Row], name: str) -> None:
    """Replaces values of an integer column that are no integers, or do not fit into the column's type."""
    fits = AMOUNTS.get(name) or FITS[COLUMNS[name]]
    if set(map(type, column)) != {int} or min(column) not in fits or max(column) not in fits:
        for row, value in zip(lot, column, strict=True):
            row[name] = _integer(value, fits)


def identity(signal: str, body: bytes, project: str | None = None) -> bytes:
    """The identity of a request: 16 bytes over its project, signal and decoded bytes."""
    return xxh3_128_digest(body, xxh32_intdigest(within(project, signal).encode()))


def _identity_of(objects: Request, body: bytes, received_ns: int, project: str | None) -> bytes:
    """The identity of a body of plain JSON.

    An object without a time, repeated in another body, cannot be told from a second failure of the same kind, so such a
    body is never a repetition.
    """
    timed = all(record.time_ns for scope in objects.scopes for record in scope.records)
    return identity("events", body if timed else b"%d " % received_ns + body, project)


def sane_time(time_ns: Any, received_ns: int, observed_ns: Any) -> int:
    """The first of these that is present and plausible (not before 2015, at most an hour ahead): the record's time,
    its observed time, the receive time.
    """
    for told in (time_ns, observed_ns):
        if isinstance(told, int) and EARLIEST_NS <= told <= received_ns + AHEAD_NS:
            return told
    return received_ns


def _integer(value: Any, fits: range) -> int | None:
    """The value as one of the integers that fit; None for anything else."""
    if isinstance(value, (int, float)) and value == value // 1 and (whole := int(value)) in fits:
        return whole
    return None
