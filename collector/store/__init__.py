"""Reports to events, once each, in the database file."""
