"""Requests that the broker refuses."""

from __future__ import annotations

from ..messaging import Error
from ..types import Symbol


class Refused(Exception):
    """The broker refuses a peer's request; `error` is what to tell the peer.

    Args:
        reply_code: for dialects with reply codes, where the condition alone would give a coarser one.
    """

    def __init__(self, condition: str, description: str, *, reply_code: int | None = None) -> None:
        super().__init__(description)
        info = None if reply_code is None else {Symbol("reply-code"): reply_code}
        self.error = Error(condition, description, info)
