"""Routing: from the address of a message to its queues."""
