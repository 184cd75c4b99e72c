"""Receivers, and what a receiver holds."""
