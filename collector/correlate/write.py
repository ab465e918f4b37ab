"""Folds the reports of each call, new and stored, into events, and says what becomes of the stored ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from collector.correlate.attempts import attempts
from collector.correlate.changes import Changes
from collector.correlate.fold import adding, as_bytes, first_received, fold, oldest
from collector.correlate.join import JoinedReports, Joiner
from collector.report import Report


def write(joiner: Joiner, looked_up: Mapping[int, list[Report]], changes: Changes) -> dict[int, list[Report]]:
    """Adds the events of all that is joined to the changes; returns the stored reports of each that is replaced.

    `looked_up` are the stored reports of the events, by their ids.
    """
    stored, old = {**looked_up, **joiner.loaded}, {**looked_up, **joiner.old}
    owner: dict[int, int] = {}
    replaced: dict[int, list[Report]] = {}
    for joined in joiner:
        event_id, gone = _write(joined, stored, old, changes, joiner.loaded)
        owner.update(dict.fromkeys(joined.keys, event_id))
        replaced.update(gone)
    changes.keys.update({key: owner[key] for key in changes.keys if key in owner})
    changes.waiting = [(ref, owner.get(key, key)) for ref, key in changes.waiting]
    changes.below = [(key, owner.get(own, own)) for key, own in changes.below]
    return replaced


def _write(
    joined: JoinedReports,
    stored: Mapping[int, list[Report]],
    old: Mapping[int, Sequence[Report]],
    changes: Changes,
    reloaded: Mapping[int, list[Report]],
) -> tuple[int, dict[int, list[Report]]]:
    """Returns the event of these reports, and the stored reports of those that it replaces."""
    ids = joined.event_ids
    before = [report for event_id in ids for report in stored.get(event_id, ())]
    told = {as_bytes(report): report for report in before}
    count = len(told)
    for report in adding(joined.reports, before):
        told.setdefault(as_bytes(report), report)
    event_id = oldest(ids, stored) if ids else changes.new_id(joined.keys[0])
    again = not ids.isdisjoint(reloaded)
    if ids and not (again or len(told) > count or len(ids) > 1):
        return event_id, {}
    reports = list(told.values())
    gone = _replaced(ids, old, changes)
    new = attempts(event_id, reports)
    changes.redirects.update(dict.fromkeys(gone.keys() - new.keys(), event_id))
    if len(new) == 1:
        changes.add(fold(reports), event_id, reports)
        return event_id, gone
    changes.several.add(event_id)
    if len(gone) > 1 and event_id not in reloaded and ids == {event_id}:
        for one in [one for one in new if new[one] == gone.get(one)]:  # most of them, in a long session
            del new[one], gone[one], changes.replaced[one]
    changes.events += [fold(some) | {"event_id": one} for one, some in new.items()]
    changes.reports += [(event_id, one) for one in (reports if event_id in new else reports[count:])]
    return event_id, gone


def _replaced(ids: Set[int], old: Mapping[int, Sequence[Report]], changes: Changes) -> dict[int, list[Report]]:
    """Notes that these events and their attempts are replaced; returns the stored reports of each."""
    gone: dict[int, list[Report]] = {}
    for event_id in ids:
        reports = old.get(event_id, ())
        some = attempts(event_id, reports)
        changes.replaced.update(dict.fromkeys(some, first_received(reports)))
        gone |= some
    return gone
