"""Tokens that are renewed: to log in with, and to put at `$cbs`."""
