"""Transactions that no connection holds any longer."""
