"""Tokens of peers: whether they are valid, what they allow, and for how long."""
