"""Secrets and personal data out, before anything is stored or said."""
