"""What events say about each other: batches become changes, whatever the engine."""
