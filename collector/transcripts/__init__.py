"""Reads what agents keep on disk of their sessions; never writes, locks or migrates it."""
