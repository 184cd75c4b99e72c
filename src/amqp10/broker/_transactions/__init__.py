"""Transactions: local ones, and prepared branches that no connection holds any longer."""
