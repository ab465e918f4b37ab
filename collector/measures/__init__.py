"""What alert rules measure, many at once."""
