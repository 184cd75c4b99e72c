"""What is sent and acknowledged on a transacted channel, until it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ....messaging import DeliveryState, Error
from ....types import Symbol

MAX_OCTETS: Final = 1 << 26
MAX_MESSAGES: Final = 100_000
"""Octets that the transactions of a connection may have together, and messages that one transaction may have."""


class SendingLink(Protocol):
    """The link that messages of a transaction came on."""

    def take(
        self,
        payload: bytes,
        message_format: int,
        confirm_tag: int,
        *,
        state: DeliveryState | None = None,
        on_outcome: Callable[[DeliveryState | None], None] | None = None,
    ) -> None: ...


class ChannelWork:
    """The messages and acknowledgments since the last commit.

    Attributes:
        sent: for each message, the link that it came on, its payload and its message-format.
        acknowledged: the number up to which the client has acknowledged messages; None if it has not.
        spoiled: the error for which the work cannot be committed; None if it can be.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[SendingLink, bytes, int]] = []
        self.octets = 0
        self.acknowledged: int | None = None
        self.spoiled: Error | None = None
        self.tag = 0


def too_much() -> Error:
    """Return the error for transactions that are too large."""
    return Error(
        Symbol("amqp:resource-limit-exceeded"),
        f"more than {MAX_OCTETS} octets or {MAX_MESSAGES} messages in uncommitted transactions",
    )
