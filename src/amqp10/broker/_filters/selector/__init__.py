"""Selectors: SQL conditions on the fields of a message."""
