"""A pipeline with the tables and keys that settings name: what the collector and some commands begin with."""

from __future__ import annotations

from typing import NamedTuple

from collector import columns
from collector.classify.classify import load_taxonomy
from collector.hash_key import hash_key, sanitiser_of
from collector.pipeline import Pipeline
from collector.query import filters
from collector.recognise.examples import check_examples
from collector.recognise.source_tables import load_sources
from collector.sanitise.examples import check_cuts
from collector.sanitise.redactions import Rule, load_rules
from collector.settings import Settings


class Made(NamedTuple):
    """A pipeline and the rules of its sanitiser."""

    pipeline: Pipeline
    rules: tuple[Rule, ...]


def pipeline_of(settings: Settings, key: bytes | None = None) -> Made:
    """The pipeline with the tables and keys that these settings name, or with another `key`. Raises TableError or
    StoreError.
    """
    columns.add_dimensions(settings.dimensions)
    filters.add_dimensions(settings.dimensions)
    rules = load_rules(*settings.own("redactions.toml"))
    key = key or hash_key(settings)
    sources = load_sources(*settings.own("sources"))
    check_examples(sources, settings.own("sources"))
    sanitiser = sanitiser_of(settings, rules, key)
    check_cuts(sanitiser, settings.own("redactions.toml"))
    taxonomy = load_taxonomy(*settings.own("taxonomy.toml"))
    return Made(Pipeline(sources, taxonomy, sanitiser, key, settings.dimensions), rules)
