"""The connection that the options describe, and receiving over it."""
