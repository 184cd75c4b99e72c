"""Unsettled deliveries kept beyond a connection."""
