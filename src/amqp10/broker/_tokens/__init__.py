"""Tokens that peers show: whether they are right, what they allow, and for how long."""
