"""Users of the broker: their passwords, permissions and limits."""
