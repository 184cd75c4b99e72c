"""Requests and messages that the broker refuses."""

from __future__ import annotations

from typing import Any

from ..messaging import Error


class Refused(Exception):
    """The broker refuses a peer's request or message; `error` is what to tell the peer.

    Args:
        reply_code: for dialects with reply codes, where the condition alone would give a coarser one.
        info: the info of the error.
    """

    def __init__(
        self, condition: str, description: str, *, reply_code: int | None = None, info: dict[str, Any] | None = None
    ) -> None:
        super().__init__(description)
        self.error = Error(condition, description, info if reply_code is None else {"reply-code": reply_code})
