"""A link on which a peer takes messages of a node: what such links have in common, whatever the node is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine import LinkOwner
from ..types import Symbol
from ._queues.node import Taker

if TYPE_CHECKING:
    from ..engine import SenderLink
    from ..messaging import Error
    from ._peer import Peer

MESSAGE_TOO_LARGE = Symbol("amqp:link:message-size-exceeded")


class LinkTaker(Taker, LinkOwner):
    """A link that takes messages as long as it has credit, and its peer reads."""

    def __init__(self, peer: Peer, link: SenderLink) -> None:
        self._peer = peer
        self._link = link
        self._largest = (link.remote.max_message_size if link.remote is not None else None) or None

    def ready(self) -> bool:
        # A peer that does not read fills its window or its output, and is then left alone until it does.
        link = self._link
        return link.credit > 0 and link.session.sendable and not self._peer.full and link.attached

    def fed(self) -> None:
        link = self._link
        if link.drain and link.credit == 0:
            link.drained()
        self._peer.wake()

    def exhausted(self) -> None:
        link = self._link
        if link.drain and link.attached:
            link.drained()
            self._peer.wake()

    def node_deleted(self, error: Error) -> None:
        self._detach(error)

    def _detach(self, error: Error) -> None:
        """End the link for a reason that the peer is told."""
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()
