"""Filters of a source: which messages a consumer asks for."""
