"""Who may see the pages."""
