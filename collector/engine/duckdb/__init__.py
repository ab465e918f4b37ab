"""The DuckDB file: nothing else knows it."""
