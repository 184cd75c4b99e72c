"""What programs hold of a message that was sent. `SenderDelivery` of `delivery.py` is the object behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...messaging import Outcome


class SentDelivery(ABC):
    """A message that was sent, and the promise of its outcome.

    The link keeps it even if the program does not: closing the sender waits for unsettled deliveries.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """List what a program uses, as an editor does, and not what the engine's object has beside."""
        return dir(SentDelivery)

    @property
    @abstractmethod
    def tag(self) -> bytes:
        """The delivery-tag, at most 32 bytes, unique among the unsettled deliveries of its link (§2.6.12)."""

    @property
    @abstractmethod
    def payload(self) -> bytes:
        """The encoded message, as `Message.decode` takes it; kept at least until the delivery is settled."""

    @property
    @abstractmethod
    def local_settled(self) -> bool:
        """Whether this side has settled the delivery. So it has from the start if the message was sent settled."""

    @property
    @abstractmethod
    def remote_settled(self) -> bool:
        """Whether the receiver has settled the delivery."""

    @abstractmethod
    async def outcome(self) -> Outcome:
        """Wait for the receiver's outcome: Accepted, Rejected, Released or Modified (§3.4).

        A message that was sent settled is Accepted at once, as the receiver sends no outcome. A receiver that settles
        without an outcome has used the source's default outcome (§3.5.3), else it may or may not have processed the
        message, which is Modified(delivery_failed=True).

        Does not yield to other tasks when the outcome is known already.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended first; whether the message
                was processed is not known.
            DeliveryUncertain: the link was lost, and it is not known either, and it is not to be sent again
                (`Reconnect.on_uncertain`).
            anyio.ClosedResourceError: the sender was closed here first, and did not get the outcome in time.
            LocalProtocolError: the connection was opened in another event loop; the message may be on its way.

        Cancelling: only stops the waiting; the outcome is not lost, ask again.
        """
