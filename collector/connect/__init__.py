"""Edits of agents' settings that keep everything else in them as it was."""
