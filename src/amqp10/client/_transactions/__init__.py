"""Transactions, and the link to the peer's coordinator."""
