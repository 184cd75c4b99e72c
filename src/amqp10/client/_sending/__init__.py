"""Senders, and what a sender holds."""
