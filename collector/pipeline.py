"""Turns the bytes of a request into a batch of sanitised reports, in one pass; no raw text leaves this module.

decode → recognise (and settle) → classify → hash the parameters → sanitise → cut to bounds → target → fingerprint.
Classifying needs the raw text, so it comes before sanitising; templates are stored, so fingerprinting comes after it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_128_digest, xxh32_intdigest

from collector.batch import SENDERS, Batch, Sender
from collector.classify.classify import Evidence, Taxonomy
from collector.classify.target import TARGET_CHARS, command_in, extract_target, target_from_params
from collector.classify.template.fingerprint import fingerprint, template
from collector.columns import COLUMNS, INTEGERS, TEXTS, Row
from collector.decode import otlp, plain
from collector.decode.record import Metrics, Request, joined
from collector.decode.salvage import salvage
from collector.errors import Rejected
from collector.recent import Recent
from collector.recognise.identify import canonical, key64
from collector.recognise.readers import as_text
from collector.recognise.recognise import Recognised, recognise
from collector.recognise.sources import Sources
from collector.report import HASHED, RAW, Report, as_report, as_row
from collector.sanitise.bounds import beginning, bounded, cut, json_text
from collector.sanitise.sanitise import Sanitiser, written
from collector.times import EARLIEST_NS, HOUR

AHEAD_NS = HOUR
FITS = {"integer": range(-(1 << 31), 1 << 31), "bigint": range(-(1 << 63), 1 << 63), "ubigint": range(1 << 64)}
# Of one call. Sums over two thousand million calls fit into 64 bits.
AMOUNTS = {"input_tokens": range(1 << 32), "output_tokens": range(1 << 32)}
MOST = {"duration_ms": 1e12, "cost_usd": 1e9}  # 30 years

JSON_BYTES = {"params": 16 << 10, "attributes": 8 << 10}
READ_BYTES = 64 << 10  # of a JSON value that may contain a secret: the rest would be cut anyway, and costs 1 µs a byte
MESSAGE_CHARS, STACK_CHARS, ASKED_CHARS = 4 << 10, 16 << 10, 8 << 10
NAMES_REMEMBERED = 1_000  # sets of column names cached, limited because senders may use random names
TOLD_REMEMBERED = 100_000  # every model request repeats the tool results of its whole conversation
NAME_CHARS = 512  # names and ids

IDS = frozenset(("session", "call_id", "turn", "subagent", "service_instance"))

BOUNDS = {"message": MESSAGE_CHARS, "suggestion": MESSAGE_CHARS, "stack": STACK_CHARS, "asked": ASKED_CHARS}
# Texts that a sender can choose; the others come from our own tables or are hex.
SCRUBBED = frozenset((*TEXTS, "params", "attributes")).difference(
    ("source", "source_signal", "session_source", "trace_id", "span_id", "parent_span_id", "operation", "outcome"),
    ("phase", "domain", "category", "error_class", "classified_by", "severity", "attribution", "recovery", "template"),
    ("model_from",),
)


class Held(NamedTuple):
    """The columns to check in reports with one set of names: texts, JSON values and user-defined attributes, integers,
    other numbers; whether anything tells what they acted on or what went wrong.
    """

    texts: tuple[str, ...]
    values: tuple[str, ...]
    integers: tuple[str, ...]
    amounts: tuple[str, ...]
    described: bool


@dataclass(slots=True)
class Pipeline:
    """The tables and keys for reading requests. One per thread: a sanitiser cannot be shared."""

    sources: Sources
    taxonomy: Taxonomy
    sanitiser: Sanitiser
    hash_key: bytes
    dimensions: tuple[str, ...] = ()  # user-defined attributes that become columns
    seen: Recent[int] = field(default_factory=lambda: Recent(TOLD_REMEMBERED))
    _names: dict[tuple[str, ...], Held] = field(default_factory=dict, init=False)

    def process(self, body: bytes, media_type: str, signal: str, received_ns: int) -> Batch:
        """One request body as a batch, without records that can never be read; `signal` is logs, traces, metrics, or
        events for plain JSON.

        Raises Rejected if none can be read.
        """
        if signal == "events":
            objects = plain.decode(body)
            batch = self.batch(objects, _identity_of(objects, body, received_ns), received_ns)
            if lost := batch.dropped["no_event"]:
                said = f"{lost} of {batch.records} are no events: they name no tool, or do not say how the call ended"
                batch.warning = joined(batch.warning, said)
            return batch

        def read(part: bytes) -> Batch:
            return self.batch(otlp.decode(part, media_type, signal), identity(signal, body), received_ns)

        try:
            return read(body)
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, one bad record must not cost the others
            if isinstance(error, Rejected) and error.status != 400:  # the request as a whole is refused, e.g. too large
                raise
            return salvage(body, media_type, signal, read, error)

    def batch(self, request: Request, identity: bytes, received_ns: int) -> Batch:
        """One decoded request as a batch."""
        if request.metrics is not None:
            dropped = Counter({"metric": request.records})
            batch = Batch(identity, received_ns, [], {}, dropped, request.records, request.warning)
            batch.senders = self._senders(request.metrics, batch)
            return batch
        found: Recognised = recognise(request.scopes, self.sources, self.seen.get, self.dimensions)
        batch = Batch(identity, received_ns, [], {}, found.dropped, request.records, request.warning, found.kept)
        batch.told_ns = found.told_ns
        batch.retold = [(trace, began_ns, [key64(*key) for key in keys]) for trace, began_ns, keys in found.retold]
        if request.rejected:
            batch.rejected = batch.dropped["malformed"] = request.rejected
        batch.reports = found.reports
        for report in batch.reports:
            self._finish(report, received_ns)
        self._sanitise(batch.reports, batch)
        for (source, service), sampled in found.sampled.items():
            service = cut(str(self._scrub({"service": service}, batch)["service"]), NAME_CHARS)
            batch.sampled[source, service] = sampled.kept, ", ".join(sorted(sampled.signs))
        for source, service, name in sorted(found.switches):
            service = cut(str(self._scrub({"service": service}, batch)["service"]), NAME_CHARS)
            batch.switches.append((source, service, name))
        for (source, service, scope, key), records in sorted(found.unread.items()):
            told = self._scrub({"service": service, "scope": scope}, batch)
            sender = source, cut(str(told["service"]), NAME_CHARS), cut(str(told["scope"]), NAME_CHARS), key
            batch.unread.append((sender, records))
        clean: dict[str, str] = {}
        for trace, (began_ns, session) in found.links.items():
            if (known := clean.get(session)) is None:
                known = clean[session] = self._cut("session", str(self._scrub({"session": session}, batch)["session"]))
            batch.sessions[trace], batch.named_ns[trace] = known, began_ns
        return batch

    def again(self, report: Report, redacted: Counter[str]) -> Report:
        """A stored report sanitised with the rules in force; the same object if nothing was cut. Counts the cuts.

        `report` may have any subset of its fields.
        """
        batch = Batch(b"", 0, [], {}, Counter())
        clean = as_report({name: value for name, value in report.items() if value is not None})
        self._sanitise([clean], batch)
        if not batch.redacted:
            return report
        redacted.update(batch.redacted)
        if secrets := self.sanitiser.secrets(batch.redacted.elements()):
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
            teller = plan.sources[0] if plan.claimed else plan.named
            source = teller.id if teller else ""
            if (source or service) and len(found) < SENDERS:
                found.setdefault((source, service), set()).update(names)
        senders = {}
        for (source, service), known in found.items():
            clean = self._scrub({"service": service, "metrics": ", ".join(sorted(known))}, batch)
            senders[source, cut(clean["service"], NAME_CHARS)] = cut(clean["metrics"], NAME_CHARS)
        return senders

    def _finish(self, report: Report, received_ns: int) -> None:
        """Does everything that needs the raw texts."""
        report["received_ns"] = received_ns
        report["time_ns"] = sane_time(report.get("time_ns"), received_ns, report.get("_observed"))
        if "model" in report:
            report["model_from"] = "record"
        params = report.get("params")
        if params is not None and not report.get("target") and (target := target_from_params(params)):
            report["target"] = target
        self._classify(report)
        if params is not None:  # those of a transcript come without what they wrote
            report["params_hash"] = params_hash(report.get("_digest", params), self.hash_key)
        row = as_row(report)
        for name in HASHED:
            if name in row:
                row[name] = [key64(*map(str, key)) for key in row[name]]
        for name in RAW:
            row.pop(name, None)

    def _classify(self, report: Report) -> None:
        """Adds the class and what follows from it; for cancelled and denied calls only if there is evidence for one."""
        outcome = report.get("outcome")
        if outcome in ("ok", "unknown", None):
            return
        source, text = report.get("source", ""), report.get("_text") or report.get("message")
        name, by = self.taxonomy.classify(
            Evidence(
                source,
                report.get("operation", "tool"),
                report.get("tool_kind") if outcome == "error" else None,  # what usually fails in such a tool did not
                report.get("reported_class"),
                report.get("_shape") or (),
                report.get("status_code"),
                text,
                _ran(report, text),
            )
        )
        if outcome != "error" and by == "none":
            return
        facts = self.taxonomy.defaults(name, source)
        if outcome == "cancelled" and facts.attribution == "model":
            return  # a stopped call may print anything: the model did nothing wrong
        if facts.category == "state":  # it concerns the agent: repetition, a limit reached
            report["operation"] = "agent"
        declared = report.get("retryable_declared")
        report.update(
            {"domain": facts.domain, "category": facts.category, "error_class": name, "classified_by": by,
             "attribution": facts.attribution, "recovery": facts.recovery,
             "mistake": facts.mistake and outcome == "error",
             "retryable": facts.retryable if declared is None else declared}
        )  # fmt: skip
        report.setdefault("severity", facts.severity)
        report.setdefault("fatal", facts.fatal)
        if facts.retry_after_ms is not None and outcome == "error":
            report.setdefault("retry_after_ms", facts.retry_after_ms)
        if facts.advice_model:
            report.setdefault("suggestion", facts.advice_model)

    def _scrub(self, texts: dict[str, Any], batch: Batch) -> dict[str, Any]:
        """The texts without secrets. An id that had one gets a keyed hash, so that it stays distinct."""
        clean, rules = self.sanitiser.scrub_report(texts)
        if not rules:
            return clean
        batch.redacted.update(rules)
        for name in IDS.intersection(texts):
            if clean[name] != texts[name]:
                clean[name] = f"{clean[name]} {params_hash(texts[name], self.hash_key):016x}"
        secrets = self.sanitiser.secrets(rules)
        return {**clean, "redactions": secrets} if secrets else clean

    def _sanitise(self, reports: Iterable[Report], batch: Batch) -> None:
        """Cuts secrets and excess length from all texts of the reports, column by column of those with equal names;
        equal texts are checked once.
        """
        lots: dict[tuple[str, ...], list[Row]] = {}
        for report in reports:
            lots.setdefault(tuple(report), []).append(as_row(report))
        held = [(lot, self._held(names)) for names, lot in lots.items()]
        columns = [[[row[name] for row in lot] for name in names.texts] for lot, names in held]
        texts: set[str] = set().union(*(column for part in columns for column in part))
        values = [_value(name, row[name]) for lot, names in held for name in names.values for row in lot]
        documents = written([*texts, *values])
        suspects = self.sanitiser.suspects(documents)
        stopped = {text for place, text in enumerate(texts) if place in suspects}
        touched = stopped.union(text for text in texts if len(text) > NAME_CHARS)
        doubts = map(suspects.__contains__, range(len(texts), len(documents)))
        searched = zip(values, documents[len(texts) :], doubts, strict=True)
        for (lot, names), part in zip(held, columns, strict=True):
            doubtful: defaultdict[int, dict[str, tuple[Any, int]]] = defaultdict(dict)
            for name, column in zip(names.texts, part, strict=True):
                if touched.isdisjoint(column):
                    continue
                for one, text in enumerate(column):
                    if text in stopped:
                        doubtful[one][name] = text, 0
                    elif text in touched:
                        lot[one][name] = self._cut(name, text)
            for name in names.values:
                for one, (row, (value, document, doubt)) in enumerate(zip(lot, searched, strict=False)):
                    if document is None or doubt:
                        doubtful[one][name] = value, len(document or b"")
                    elif name in JSON_BYTES:
                        row[name] = bounded(document.decode(), JSON_BYTES[name])
                    else:
                        row[name] = self._cut(name, row[name])
            for one, fields in doubtful.items():
                self._redact(lot[one], fields, batch)
            _complete(lot, names)

    def _redact(self, row: Row, doubtful: Mapping[str, tuple[Any, int]], batch: Batch) -> None:
        """The slow path, for fields that may contain a secret, each with its size as JSON; of those larger than
        READ_BYTES only the beginning stays.
        """
        large = {name: size for name, (_, size) in doubtful.items() if size > READ_BYTES}
        values = {
            name: beginning(value, READ_BYTES) if name in large else value for name, (value, _) in doubtful.items()
        }
        row.update(self._scrub(values, batch))
        for name in values:
            if name in JSON_BYTES:
                row[name] = json_text(row[name], JSON_BYTES[name], large.get(name, 0))
            else:
                row[name] = self._cut(name, _text(row[name]))

    def _cut(self, name: str, text: str) -> str:
        """A text cut to its bound; an id that is cut gets a keyed hash of the whole, so that it stays distinct."""
        most = BOUNDS.get(name, NAME_CHARS)
        if name in IDS and len(text) > most:
            return f"{cut(text, most)} {params_hash(text, self.hash_key):016x}"
        return cut(text, most)

    def _held(self, names: tuple[str, ...]) -> Held:
        """The columns to check in reports with these names, from a cache: most reports repeat them."""
        found = self._names.get(names)
        if found is None:
            found = Held(
                tuple(name for name in names if name in SCRUBBED and name not in JSON_BYTES),
                tuple(name for name in names if name in JSON_BYTES or name in self.dimensions),
                tuple(INTEGERS.intersection(names)),
                tuple(MOST.keys() & names),
                not {"target", "message", "error_class"}.isdisjoint(names),
            )
            if len(self._names) >= NAMES_REMEMBERED:
                self._names.clear()
            self._names[names] = found
        return found


def _ran(report: Report, text: str | None) -> bool | None:
    """Whether a command ran: its exit code says so, or its arguments; a text, where these are not told."""
    if any(flag.startswith("exit") for flag in report.get("_shape") or ()):
        return True
    told = command_in(report.get("params"))
    return True if told is None and (text or " " in report.get("reported_class", "")) else told


def _complete(lot: list[Row], names: Held) -> None:
    """Removes numbers that do not fit, and adds what follows from clean texts."""
    for name in names.integers:
        _fit([row[name] for row in lot], lot, name)
    for name in names.amounts:
        for row in lot:
            if not 0 <= (row[name] or 0) <= MOST[name]:
                del row[name]
    if names.described:
        for row in lot:
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
        report["fingerprint"] = fingerprint(report["error_class"], report.get("tool") or "", report["template"])


def _fit(column: list[Any], lot: list[Row], name: str) -> None:
    """Replaces values of an integer column that are no integers, or do not fit into the column's type."""
    fits = AMOUNTS.get(name) or FITS[COLUMNS[name]]
    if set(map(type, column)) != {int} or min(column) not in fits or max(column) not in fits:
        for row, value in zip(lot, column, strict=True):
            row[name] = _integer(value, fits)


def identity(signal: str, body: bytes) -> bytes:
    """The identity of a request: 16 bytes over its signal and decoded bytes."""
    return xxh3_128_digest(body, xxh32_intdigest(signal.encode()))


def _identity_of(objects: Request, body: bytes, received_ns: int) -> bytes:
    """The identity of a body of plain JSON.

    An object without a time, repeated in another body, cannot be told from a second failure of the same kind, so such a
    body is never a repetition.
    """
    timed = all(record.time_ns for scope in objects.scopes for record in scope.records)
    return identity("events", body if timed else b"%d " % received_ns + body)


def sane_time(time_ns: Any, received_ns: int, observed_ns: Any) -> int:
    """The first of these that is present and plausible (not before 2015, at most an hour ahead): the record's time,
    its observed time, the receive time.
    """
    for told in (time_ns, observed_ns):
        if isinstance(told, int) and EARLIEST_NS <= told <= received_ns + AHEAD_NS:
            return told
    return received_ns


def params_hash(params: object, key: bytes) -> int:
    """Keyed blake2b-64 of the arguments as canonical JSON: keys sorted, a JSON text parsed first."""
    return int.from_bytes(hashlib.blake2b(canonical(_parsed(params)), digest_size=8, key=key).digest(), "big")


def _parsed(value: object) -> object:
    """The value of a JSON text; any other value unchanged."""
    if isinstance(value, str):
        with suppress(msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return msgspec.json.decode(value)
    return value


def _value(name: str, value: object) -> object:
    """What to search of a column: its JSON value; a user-defined attribute with its name, which may tell a secret."""
    if name in JSON_BYTES:
        return _parsed(value)
    return {name: _parsed(value) if str(value)[:1] in ("[", "{") else value}


def _text(clean: Any) -> str:
    """The text of a column searched as `_value` gives it."""
    if isinstance(clean, dict):
        [clean] = clean.values()
    return clean if isinstance(clean, str) else as_text(clean) or ""


def _integer(value: Any, fits: range) -> int | None:
    """The value as one of the integers that fit; None for anything else."""
    if isinstance(value, (int, float)) and value == value // 1 and (whole := int(value)) in fits:
        return whole
    return None
