"""Every address of the API."""
