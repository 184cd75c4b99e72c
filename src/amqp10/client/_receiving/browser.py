"""Looking at what waits in a queue, and leaving it there (§3.5.7 "copy")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._arguments import made_by
from ...errors import AmqpError, Unsupported
from ...messaging import RELEASED, DeliveryState, Outcome
from .core import ReceiverCore
from .delivery import ReceiverDelivery, receiver_delivery
from .delivery_face import Delivery
from .receiver import Receiver

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, LinkTerms
    from .._core.connection import ConnectionCore, SessionCore


class BrowsedDelivery(ReceiverDelivery):
    """A message that was only looked at: outcomes have no effect on it."""

    __slots__ = ()

    def _settle(self, state: DeliveryState) -> None:
        """Say nothing: a broker that lends what it was asked to copy would obey, and the message be gone."""

    def _has(self, outcome: Outcome) -> bool:
        return True  # as nothing is said


class BrowserCore(ReceiverCore):
    """The core of a browser."""

    delivery_type: type[ReceiverDelivery] = BrowsedDelivery

    def __init__(
        self, connection: ConnectionCore, session: SessionCore | None, terms: LinkTerms, credit: int, **how: bool
    ) -> None:
        super().__init__(connection, session, terms, credit, **how)
        self.restorable = False

    def examine(self) -> AmqpError | None:
        source = self.remote.source
        granted = source.distribution_mode if source is not None else None
        if granted != "copy":
            return Unsupported(f"the peer does not browse {self.address!r}: it answered {granted or 'nothing'}")
        return super().examine()

    def seen(self, delivery: ReceiverDelivery) -> None:
        """Give a copy back at once. What is only lent goes back at the end, else it would come again at once."""
        if self.connection.profile.copies:
            self._give_back(delivery)

    def _give_back(self, delivery: IncomingDelivery) -> None:
        link = self.link
        if link is not None and not self.over and not delivery.local_settled:
            link.settle(delivery, RELEASED, settled=True)
            self.wake()

    def before_detach(self) -> None:
        """Released, not just left to the detach: that might count as a failed attempt."""
        super().before_detach()
        if self.link is not None:
            for delivery in list(self.link.unsettled.values()):
                self._give_back(delivery)


@made_by("connection.browser(address)", "BrowserCore")
class Browser(Receiver):
    """A receiver that looks at a queue and leaves it as it is; made by `connection.browser()`.

    `async for delivery in browser` ends when all that waits has been seen, and may be started again for what came
    meanwhile; `receive` waits for it. Outcomes have no effect on these deliveries, `with delivery as message:` neither.

    A broker that takes messages although it said to copy them (`profile.copies`: RabbitMQ) has them back when the block
    is left; until then they are here, and nobody else gets them, and a quorum queue drops what was taken 20 times. A
    browser that is lost with its connection is over: what was seen would all be seen again.
    """

    _core: BrowserCore

    def __init__(self, core: BrowserCore) -> None:
        super().__init__(core)

    async def receive(self) -> Delivery:
        """Return the next message, waiting for it to come if need be; see `Receiver.receive`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over, and why.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.

        Cancelling: no delivery is lost: one that came stays for the next call.
        """
        delivery = await super().receive()
        self._core.seen(receiver_delivery(delivery))
        return delivery

    async def receive_batch(self, size: int, *, max_wait: float | None = None) -> list[Delivery]:
        """Receive several messages at once; see `Receiver.receive_batch`.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over and nothing is left here.
            anyio.BusyResourceError: another task is receiving from this receiver.
            anyio.ClosedResourceError: the receiver was closed here.
            ValueError: `size` is not positive.

        Cancelling: no delivery is lost: those that came stay for the next call.
        """
        batch = await super().receive_batch(size, max_wait=max_wait)
        for delivery in batch:
            self._core.seen(receiver_delivery(delivery))
        return batch

    async def __anext__(self) -> Delivery:
        """Return the next message, while one waits.

        Raises:
            StopAsyncIteration: all was seen.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost, Unsupported: as `receive` and `drain`.

        Cancelling: no delivery is lost: one that came stays for the next call.
        """
        if not self.buffered:
            if self.credit <= 0:
                self._core.credit.refill()
            await self.drain()
            if not self.buffered:
                raise StopAsyncIteration
        return await self.receive()
