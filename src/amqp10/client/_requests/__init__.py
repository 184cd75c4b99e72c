"""Requests and replies over two links."""
