"""Alerting: rules are measured, their states kept, receivers told. Read rules, state, engine, notify in this order."""
