"""The base of the client: life cycles, close deadlines, and the cores of connections, sessions and links."""
