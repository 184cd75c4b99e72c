"""Streams of bytes: sockets, TLS, WebSocket, and what traces them."""
