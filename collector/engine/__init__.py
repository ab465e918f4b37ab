"""Where events are stored."""
