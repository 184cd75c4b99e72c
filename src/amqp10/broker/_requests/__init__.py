"""Requests that come in on one link and are answered on another, at any node of the broker."""
