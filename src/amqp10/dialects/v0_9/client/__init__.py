"""A client's end: its connection, its sessions, and a channel for each of its links."""
