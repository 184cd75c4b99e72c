"""How an entity treats its messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MAX_ID_LENGTH: Final = 128
"""The most characters of a message-id, and of a session's id."""

Status = Literal["Active", "Disabled", "SendDisabled", "ReceiveDisabled"]


@dataclass(frozen=True, slots=True)
class EntityTerms:
    """How an entity treats its messages; times are in seconds, None: no limit.

    Attributes:
        duplicate_window: how long the id of a message is remembered; None: not at all.
        requires_session: whether each message belongs to a session, and is received with it.
        most_octets: octets of all messages, beyond which messages are refused.
        sendable: whether senders may send to it.
    """

    lock_duration: float = 60.0
    max_delivery_count: int | None = None
    ttl: float | None = None
    dead_letter_expired: bool = False
    duplicate_window: float | None = None
    requires_session: bool = False
    most_octets: int | None = None
    sendable: bool = True
