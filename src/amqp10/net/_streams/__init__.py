"""Byte streams: sockets, TLS, WebSocket, and tracing."""
