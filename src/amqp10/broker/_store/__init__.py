"""The store: what has to survive the broker, in SQLite."""
