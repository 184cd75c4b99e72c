"""Filters of a source: their base class, and the kinds that brokers implement."""
