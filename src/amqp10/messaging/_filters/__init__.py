"""Filters of a source: what all have in common, and the kinds that brokers are known to have."""
