"""Questions about stored events: the API and the SQL behind it."""
