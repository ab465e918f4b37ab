"""The charts of the pages."""
