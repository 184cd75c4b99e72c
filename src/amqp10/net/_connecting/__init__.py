"""The client's way to a server: addresses, options, proxies, TLS, WebSocket."""
