"""Trying rules, conditions and receivers before they are in force."""
