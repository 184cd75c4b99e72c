"""What only this family of dialects can be asked for, besides what all dialects with queues and exchanges have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...engine import Request

if TYPE_CHECKING:
    from ...engine import ReceiverLink


@dataclass(frozen=True, slots=True)
class Got:
    """A message that was taken from a queue.

    Attributes:
        payload: encoded, as AMQP 1.0 has it.
        left: how many messages were left in the queue, as far as the peer knows.
    """

    payload: bytes
    left: int


@dataclass(frozen=True, slots=True)
class GetMessage(Request["Got | None"]):
    """Take one message from a queue, if there is one (basic.get); it is acked when it is here."""

    queue: str


@dataclass(frozen=True, slots=True)
class Recover(Request[None]):
    """Have all that a receiver has and has not settled sent again (basic.recover)."""

    link: ReceiverLink


@dataclass(frozen=True, slots=True)
class LimitUnsettled(Request[None]):
    """Let a receiver have `count` deliveries unsettled (basic.qos), even where its credit is less."""

    link: ReceiverLink
    count: int


@dataclass(frozen=True, slots=True)
class UpdateSecret(Request[None]):
    """Give the peer a new secret, such as a token, before the one that was given expires (connection.update-secret)."""

    secret: str = field(repr=False)
    reason: str = ""
