"""The class of every error, what it acted on, and the group it belongs to."""
