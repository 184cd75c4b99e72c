"""A server's end: its connection, and each channel as a session with its links."""
