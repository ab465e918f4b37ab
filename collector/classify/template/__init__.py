"""Reduces an error text to the template that alike texts share."""
