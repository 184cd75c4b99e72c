"""Frames and performatives as octets; `bulk` reads many at a time."""
