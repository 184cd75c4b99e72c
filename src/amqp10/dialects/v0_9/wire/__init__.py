"""Frames, methods, properties and tables as octets; `bulk` reads many at a time."""
