"""Decides the class, target and group of every error."""
