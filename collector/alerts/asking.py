"""What a rule asks at an evaluation, and what the answers say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from collector.alerts.rules import Rule
from collector.measures.all import Measured
from collector.measures.families import First, MeasureQuery, nearest
from collector.measures.measure import Sample, labels_of
from collector.query.filters import terms_of_rule


def queries(rule: Rule, now_ns: int) -> list[MeasureQuery]:
    """The queries of a rule: over its window and, if it has a baseline, over the period before."""
    terms, end_ns = terms_of_rule(rule.where), now_ns - rule.lateness_ns
    start_ns = end_ns - rule.window_ns
    spans = [(start_ns, end_ns)]
    if rule.condition.previous_ns:
        spans.append((start_ns - rule.condition.previous_ns, start_ns))
    found = [MeasureQuery(rule.measure, terms, rule.by, *span) for span in spans]
    if len(found) > 1:  # each label set is compared with itself
        return found
    return [nearest(found[0], First(rule.min_calls, not rule.condition.upward))]


def samples(rule: Rule, answers: Sequence[Measured]) -> list[Sample]:
    """The samples for a rule, each with its baseline."""
    now, *before = ([_finite(one) for one in answer.samples] for answer in answers)
    if not before:
        return now
    earlier = {labels_of(one.labels): one.value * rule.scale for one in before[0] if one.value is not None}
    return [replace(one, baseline=earlier.get(labels_of(one.labels))) for one in now]


def _finite(sample: Sample) -> Sample:
    finite = sample.value is None or math.isfinite(sample.value)
    return sample if finite else replace(sample, value=None)
