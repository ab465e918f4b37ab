"""A ClickHouse cluster beside the local store (MISSTEP_CLUSTER): nothing else knows ClickHouse."""
