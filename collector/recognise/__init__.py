"""Records to reports: which source, which call, how it ended."""
