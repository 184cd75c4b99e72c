"""A server's end of a session, its links and transactions."""
