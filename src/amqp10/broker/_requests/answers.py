"""Answers to requests, which wait until the peer gives credit for them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ...errors import LocalProtocolError
from ...messaging import AmqpValue, Error, Message

if TYPE_CHECKING:
    from ...engine import SenderLink
    from .._peer import Peer

MAX_WAITING: Final = 1000
"""Answers that may wait on one link; then requests are refused."""
MAX_OCTETS: Final = 1_048_576
"""Octets of all answers that may wait on one connection; then requests are refused."""


class Answers:
    """The answers that wait to be sent on one link."""

    def __init__(self, peer: Peer, link: SenderLink) -> None:
        self._peer = peer
        self._link = link
        self._waiting: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether too many answers wait, so that further requests must be refused."""
        return len(self._waiting) >= MAX_WAITING or self._peer.unread_octets >= MAX_OCTETS

    def add(self, answer: bytes) -> None:
        """Add an encoded answer; `send` sends it."""
        self._waiting.append(answer)
        self._peer.unread_octets += len(answer)

    def send(self) -> None:
        """Send the answers that there is credit and room for."""
        link, waiting = self._link, self._waiting
        while waiting and link.attached and link.sendable and not self._peer.full:
            answer = waiting.popleft()
            self._peer.unread_octets -= len(answer)
            try:
                link.send(answer, settled=True)
            except LocalProtocolError as error:  # the answer exceeds the peer's max-message-size
                link.detach(closed=True, error=Error("amqp:link:message-size-exceeded", str(error)))

    def clear(self) -> None:
        """Drop all answers, because the link is over."""
        self._peer.unread_octets -= sum(map(len, self._waiting))
        self._waiting.clear()


def answer_to(request: Message, body: object, properties: dict[str, Any]) -> Message:
    """Return the answer to a request: its correlation-id is the message-id of the request, or its correlation-id."""
    correlation = request.message_id if request.message_id is not None else request.correlation_id
    return Message(AmqpValue(body), correlation_id=correlation, application_properties=properties)
