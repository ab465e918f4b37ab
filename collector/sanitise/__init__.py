"""Removes secrets and personal data before anything is stored, logged or sent."""
