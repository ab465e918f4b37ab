"""Alerting: rules are measured, their states stored, receivers notified.

Read rules, state, engine, notify in this order.
"""
