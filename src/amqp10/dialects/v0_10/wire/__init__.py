"""Frames, controls, commands, structs and typed values as octets."""
