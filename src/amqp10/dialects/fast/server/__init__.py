"""A server's end: its connection, channels and handles, and a link on each."""
