"""Connections: where they are accepted, who may log in, and their engines."""
