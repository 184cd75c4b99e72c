"""Messages as rows, and rows as messages."""
