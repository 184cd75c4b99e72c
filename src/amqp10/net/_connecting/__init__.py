"""Connecting to a server: addresses, options, proxies, TLS, WebSocket."""
