"""The store: what must survive the broker, in SQLite."""
