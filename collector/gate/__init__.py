"""Is this run of an evaluation worse than its baseline? Trials paired by task, a verdict, and its presentations."""
