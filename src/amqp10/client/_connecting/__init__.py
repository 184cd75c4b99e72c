"""Connecting: to which host, as whom, when again; a connection's transports, one after the other."""
