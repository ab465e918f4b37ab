"""Turns records into reports: source, call, outcome."""
