"""A client's end of a session, its links, requests and transactions."""
