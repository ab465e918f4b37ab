"""What alerting keeps in the store: the tables of schemas/alerts.sql as types. All SQL of alerting is here.

Each method that writes does so in one transaction, however many rows and tables it changes. Rows are passed as one JSON
parameter. What a cluster's collectors share is given to the others first: what they cannot get is not written here.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from collector.alerts.state import Alert, Notified, State, seen_as
from collector.alerts.together import ALONE, AWAY, Together
from collector.columns import ALERTS_DDL, tables_of
from collector.measures.measure import Labels
from collector.times import DAY, MAX_NS, SECOND, WEEK

if TYPE_CHECKING:
    from collector.engine.duckdb.store import Store

Key = tuple[str, Labels]  # of an alert: rule and label set

UNTIL_RESOLVED = MAX_NS  # as the end of a silence: it ends once no alert that it mutes is pending or firing
KEEP_SAMPLES_NS = WEEK
KEEP_HISTORY_NS = 90 * DAY

_SHAPES = tables_of(ALERTS_DDL)  # as from_json wants it
KEYS = {  # of the tables that all collectors have alike
    "alerts": ("rule", "labels"),
    "alert_history": ("rule", "labels", "fired_ns"),
    "alert_notifications": ("receiver", "rule", "labels"),
    "alert_silences": ("id",),
}
OF_ALERTS = ("alert_notifications", "alerts")
THESE = "rule || chr(10) || labels in (select unnest($keys))"
KEPT_S = {"alert_history": KEEP_HISTORY_NS // SECOND}


@dataclass(frozen=True, slots=True)
class Silence:
    """No notifications for alerts of `rule` (empty: of any rule) that have these labels, between the two times."""

    id: str
    rule: str
    labels: Labels
    author: str
    reason: str
    starts_ns: int
    ends_ns: int

    def mutes(self, alert: Alert, now_ns: int, seen: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Whether this alert is silenced now. All have begun: a later start means that the clock was set back."""
        return now_ns < self.ends_ns and self.about(alert, seen)

    def about(self, alert: Alert, seen: Mapping[str, str]) -> bool:
        """Whether it matches this alert, at any time; `seen` are its labels as receivers see them."""
        own = {(seen_as(name), value) for name, value in alert.labels}
        told = {*own, *alert.rule_labels, ("alertname", alert.rule), *seen.items()}
        return self.rule in ("", alert.rule) and told.issuperset(self.labels)

    def over(self, alerts: Iterable[tuple[Alert, Mapping[str, str]]]) -> bool:
        """Whether it lasts until its alerts are resolved, and none of them is pending or firing."""
        active = (pair for pair in alerts if pair[0].state is not State.INACTIVE)
        return self.ends_ns == UNTIL_RESOLVED and not any(self.about(*pair) for pair in active)


class Ledger:
    """The tables of alerting in one store. Any thread may call it. What writes raises Unavailable where `together`
    cannot take what is written.
    """

    def __init__(self, store: Store, together: Together = ALONE) -> None:
        self._store = store
        self._together = together

    def alerts(self) -> dict[Key, Alert]:
        """All alerts that were saved."""
        rows = self._store.rows("select * from alerts")
        return {(row["rule"], labels_from(row["labels"])): _alert(row) for row in rows}

    def save(self, changed: Iterable[Alert], gone: Iterable[Key]) -> None:
        """Saves changed alerts and removes those that are gone, with the record of what was sent about them."""
        rows = [
            {**asdict(alert), "labels": labels_text(alert.labels), "rule_labels": labels_text(alert.rule_labels)}
            for alert in changed
        ]
        keys = {"keys": [rule + "\n" + labels_text(labels) for rule, labels in gone]}
        self._share("alerts", rows)
        self._unshare(keys)
        statements = [_put("alerts", rows)] if rows else []
        if keys["keys"]:
            statements += [(f"delete from {table} where {THESE}", keys) for table in OF_ALERTS]
        if statements:
            self._store.execute_all(statements)

    def sent(self) -> dict[tuple[str, Key], Notified]:
        """The last notification of each receiver (by its key) about each alert."""
        rows = self._store.rows("select * from alert_notifications")
        return {
            (row["receiver"], (row["rule"], labels_from(row["labels"]))): Notified(
                row["fired_ns"], row["resolved"], row["sent_ns"]
            )
            for row in rows
        }

    def record_sent(self, receiver: str, sent: Mapping[Key, Notified]) -> None:
        """Records what was sent to a receiver. To be called only after it was delivered."""
        self._put(
            "alert_notifications",
            [
                {"receiver": receiver, "rule": rule, "labels": labels_text(labels), **asdict(one)}
                for (rule, labels), one in sent.items()
            ],
        )

    def record_history(self, rows: Iterable[tuple[Alert, str, str]]) -> None:
        """Writes firings, with severity and summary; the same firing again replaces what was written."""
        self._put(
            "alert_history",
            [
                {
                    "rule": alert.rule,
                    "labels": labels_text(alert.labels),
                    "fired_ns": alert.fired_ns,
                    "resolved_ns": alert.resolved_ns,
                    "severity": severity,
                    "value": alert.value,
                    "threshold": alert.threshold,
                    "summary": summary,
                }
                for alert, severity, summary in rows
            ],
        )

    def close_history(self, now_ns: int) -> None:
        """Ends firings whose alert is gone because of a crash between `record_history` and `save`."""
        rows = self._store.rows(
            """select h.* from alert_history h where resolved_ns = 0 and not exists
               (from alerts a where a.rule = h.rule and a.labels = h.labels and a.fired_ns = h.fired_ns)"""
        )
        self._put("alert_history", [{**row, "resolved_ns": now_ns} for row in rows])

    def history(self, since_ns: int, limit: int) -> list[dict[str, Any]]:
        """Firings that lasted beyond `since_ns`, newest first."""
        return self._store.rows(
            """from alert_history where resolved_ns = 0 or resolved_ns >= $since
               order by fired_ns desc, rule, labels limit $limit""",
            {"since": since_ns, "limit": limit},
        )

    def record_samples(self, rows: Collection[Mapping[str, Any]]) -> None:
        """Appends values of rules, as columns of alert_samples."""
        if rows:
            self._together.append([*rows])
        self._put("alert_samples", rows)

    def samples(self, rule: str, start_ns: int, end_ns: int, limit: int) -> list[dict[str, Any]]:
        """The newest values of a rule in a period, oldest first."""
        return self._store.rows(
            """from (from alert_samples where rule = $rule and time_ns >= $start and time_ns < $end
               order by time_ns desc limit $limit) order by time_ns, labels""",
            {"rule": rule, "start": start_ns, "end": end_ns, "limit": limit},
        )

    def silences(self, now_ns: int) -> list[Silence]:
        """The silences that have not ended."""
        rows = self._store.rows("from alert_silences where ends_ns > $now order by ends_ns", {"now": now_ns})
        return [Silence(**{**row, "labels": labels_from(row["labels"])}) for row in rows]

    def add_silence(self, silence: Silence) -> None:
        """Saves a silence."""
        self._put("alert_silences", [{**asdict(silence), "labels": labels_text(silence.labels)}])

    def end_silence(self, id: str, now_ns: int) -> None:
        """Ends a silence now; it stays readable in the table."""
        rows = self._store.rows("from alert_silences where id = $id and ends_ns > $now", {"id": id, "now": now_ns})
        self._put("alert_silences", [{**row, "ends_ns": now_ns} for row in rows])

    def prune(self, now_ns: int) -> None:
        """Removes what no page shows any more."""
        before = {"before": now_ns - KEEP_HISTORY_NS}
        self._store.execute_all(
            (
                ("delete from alert_samples where time_ns < $before", {"before": now_ns - KEEP_SAMPLES_NS}),
                ("delete from alert_history where resolved_ns > 0 and resolved_ns < $before", before),
                ("delete from alert_silences where ends_ns < $before", before),
            )
        )

    def take(self, table: str, rows: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Writes what another collector changed: rows of one of KEYS by their keys, None where one is gone."""
        there = [row for row in rows.values() if row is not None]
        statements = [_put(table, there)] if there else []
        where = " and ".join(f"{name} = ${name}" for name in KEYS[table])
        for key in (key for key, row in rows.items() if row is None):
            given = dict(zip(KEYS[table], json.loads(key), strict=True))
            statements.append((f"delete from {table} where {where}", given))
        self._store.execute_all(statements)

    def take_samples(self, rows: Collection[Mapping[str, Any]]) -> None:
        """Adds what another collector recorded, unless it is here."""
        if not rows:
            return
        _, given = _put("alert_samples", rows)
        sql = f"""insert into alert_samples by name select s.* from (select {_READ["alert_samples"]}) s
                  where not exists (from alert_samples t where t.time_ns >= $first and t.time_ns = s.time_ns
                                    and t.rule = s.rule and t.labels = s.labels)"""
        self._store.execute(sql, {**given, "first": min(row["time_ns"] for row in rows)})

    def newest_sample_ns(self) -> int:
        """The time of the last of all samples; 0 without one."""
        [found] = self._store.rows("select coalesce(max(time_ns), 0) as newest from alert_samples")
        return int(found["newest"])

    def give(self, known: Collection[tuple[str, str]]) -> None:
        """Gives all collectors the rows that are here alone: those whose table and key are not `known`."""
        for table in KEYS:
            rows = self._store.rows(f"from {table}")
            self._share(table, [row for row in rows if (table, _key(table, row)) not in known])

    def _put(self, table: str, rows: Collection[Mapping[str, Any]]) -> None:
        if rows:
            self._share(table, rows)
            self._store.execute(*_put(table, rows))

    def _share(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        if table in KEYS:
            others = ((_key(table, row), row) for row in rows if row.get("rule") != AWAY.name)
            self._together.put(table, others, KEPT_S.get(table, 0))

    def _unshare(self, keys: Mapping[str, list[str]]) -> None:
        """Removes alerts from all, with what was sent about them."""
        for table in OF_ALERTS if keys["keys"] else ():
            rows = self._store.rows(f"from {table} where {THESE}", keys)
            self._together.remove(table, (_key(table, row) for row in rows if row["rule"] != AWAY.name))


_READ = {
    table: f"unnest(from_json($rows, '{json.dumps([shape])}'), recursive := true)" for table, shape in _SHAPES.items()
}


def _key(table: str, row: Mapping[str, Any]) -> str:
    return json.dumps([row[name] for name in KEYS[table]], ensure_ascii=False)


def _put(table: str, rows: Collection[Mapping[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The statement that writes these rows, with its parameters."""
    verb = "insert" if table == "alert_samples" else "insert or replace"
    sql = f"{verb} into {table} by name select {_READ[table]}"
    return sql, {"rows": json.dumps(rows, ensure_ascii=False)}


def new_id() -> str:
    """An id for a silence that nobody can guess."""
    return secrets.token_hex(8)


def labels_text(labels: Labels) -> str:
    """Labels as they are stored: a JSON object with sorted keys."""
    return json.dumps(dict(labels), ensure_ascii=False, sort_keys=True)


def labels_from(text: str) -> Labels:
    """The reverse of `labels_text`."""
    return tuple(sorted(json.loads(text).items()))


def _alert(row: Mapping[str, Any]) -> Alert:
    texts = {name: labels_from(row[name]) for name in ("labels", "rule_labels")}
    return Alert(**{**row, **texts, "state": State(row["state"])})
