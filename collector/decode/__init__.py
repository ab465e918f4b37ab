"""Bytes of a request to records, whatever the encoding."""
