"""Recurring mistakes that a sentence, a permission or a setting would prevent, with their evidence."""
