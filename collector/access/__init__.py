"""Tokens: who may send, read, change alerts and administer, for which project."""
