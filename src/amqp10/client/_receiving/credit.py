"""Credit: how much a peer may send, granted as it is taken or by hand, and drained (§2.6.7)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.lowlevel

from .._errors import busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...engine import ReceiverLink
    from .._core.transaction_work import TransactionCore
    from .consumer import Consumer

MAX_CREDIT = 0xFFFF_FFFF
# Seconds without an answer to a drain after which it is asked for again.
DRAIN_AGAIN = 0.5


def checked_credit(credit: int) -> int:
    """Return the credit of a receiver.

    Raises:
        ValueError: `credit` is not in 0..4294967295.
    """
    if not 0 <= operator.index(credit) <= MAX_CREDIT:
        raise ValueError(f"credit must be in 0..{MAX_CREDIT}, not {credit}")
    return credit


class CreditedLink(Protocol):
    """A receiver's core, as its credit knows it; see `ReceiverCore`."""

    open: bool
    over: bool
    closed: bool
    interrupted: bool
    link: ReceiverLink | None
    consumer: Consumer
    acquirer: TransactionCore | None
    wake: Callable[[], None]

    @property
    def buffered(self) -> int: ...

    @property
    def taking_again(self) -> int: ...

    def changed(self) -> None: ...

    def gone(self) -> Exception: ...

    async def until(self, condition: Callable[[], bool]) -> None: ...


class Credit:
    """The credit of one receiver.

    Attributes:
        automatic: what the peer may send and what waits here is never more than this together; 0: it is granted by
            hand.
        granted: while the link is lost: what it had, and what was added.
        flow_properties: what the next flow says of transactions.
        drain_running: a drain was asked for, and has no answer.
        drained: the last drain has ended.
    """

    __slots__ = (
        "_receiver",
        "_returned",
        "_used_up",
        "automatic",
        "drain_running",
        "drained",
        "flow_properties",
        "granted",
    )

    def __init__(self, receiver: CreditedLink, automatic: int) -> None:
        self._receiver = receiver
        self.automatic: int = automatic
        self.granted: int = 0
        self.flow_properties: dict[Any, Any] | None = None
        self.drain_running: bool = False
        self.drained: bool = False
        self._returned = 0  # in this drain
        self._used_up = False  # the last drain ended by deliveries, without an answer

    @property
    def left(self) -> int:
        """How many deliveries the peer may still send."""
        link = self._receiver.link
        return link.credit if link is not None else 0

    def refill(self) -> None:
        """Grant anew the credit of deliveries that were taken.

        Deliveries on their way still count as granted. So does a delivery received in part.
        """
        receiver = self._receiver
        link = receiver.link
        # In one pass with what is told just now the peer may have detached already.
        if link is not None and receiver.open and link.attached and not self.drain_running:
            most = self.automatic - receiver.buffered + receiver.taking_again
            credit = min(link.credit + receiver.consumer.taken, most)
            receiver.consumer.taken = 0
            link.flow(max(0, credit))
            receiver.wake()

    def grant_anew(self) -> None:
        """Grant all of the automatic credit on a link that was just attached."""
        self._receiver.consumer.taken = self.automatic + self._receiver.taking_again
        self.refill()

    def flow(self, credit: int, *, drain: bool = False) -> None:
        """Say the credit, and in which transaction messages are acquired on it."""
        receiver = self._receiver
        assert receiver.link is not None
        receiver.link.flow(credit, drain=drain, properties=self.flow_properties)
        if receiver.acquirer is None:
            self.flow_properties = None
        receiver.wake()

    def grant_again(self, wasted: int) -> None:
        """Give back credit that produced no delivery: an aborted one, for example."""
        receiver = self._receiver
        link, consumer = receiver.link, receiver.consumer
        if self.automatic:
            consumer.taken += wasted
            if consumer.taken >= consumer.refill_at:
                self.refill()
        elif link is None or not link.attached:
            self.granted += wasted
        elif receiver.open and not self.drain_running:
            self.flow(link.credit + wasted)

    def flow_received(self, drained: bool, wasted: int) -> None:
        """Act on the peer's flow for this link."""
        if self.drain_running:
            self._returned += wasted
        elif wasted:
            self.grant_again(wasted)
        if drained:
            self.end_drain()

    def link_lost(self) -> None:
        """Forget what was of the link: there is no credit any more."""
        self.flow_properties = None
        self.drained = True

    # Draining

    async def drain(self) -> None:
        """Ask the peer to use the credit now or give it back; see `Receiver.drain`.

        Cancelling: the credit that is left is the peer's again, as before.
        """
        receiver = self._receiver
        if self.drain_running:
            raise busy("draining this receiver")
        await anyio.lowlevel.checkpoint()
        if receiver.interrupted and not receiver.closed:
            self.granted = 0
            return
        if not receiver.open:
            raise receiver.gone()
        try:
            await self.take_back()
        except BaseException:
            if receiver.link is not None and receiver.open and receiver.link.attached:
                if not self.drained:
                    self.flow(receiver.link.credit)
                self.grant_again(self._returned)
            raise
        if not self.drained and not receiver.open:
            raise receiver.gone()
        if receiver.open:
            receiver.consumer.taken = max(0, self.automatic - receiver.buffered)

    async def take_back(self) -> None:
        """Drain, whoever asked for it, if there is credit.

        Cancelling: the peer may still use the credit, or give it back.
        """
        receiver = self._receiver
        link = receiver.link
        if link is None or not link.attached or link.credit <= 0:
            self.drained = True
            return
        self.drain_running, self._returned = True, 0
        try:
            granted, here = link.credit, receiver.buffered
            await self._use_up(granted)
            if self._used_up and receiver.open and receiver.buffered == here:
                # The drain before needed no answer, for deliveries used up the credit. Artemis may give one all the
                # same, so late that it gives this one's credit back.
                await self._use_up(granted)
            self._used_up = receiver.buffered - here >= granted
        finally:
            self.drain_running = False

    async def _use_up(self, credit: int) -> None:
        receiver = self._receiver
        self.drained = False
        while not self.drained and not receiver.over:
            self.flow(credit, drain=True)
            # Artemis overlooks a drain while it ends the one before: after a while it is asked again.
            with anyio.move_on_after(DRAIN_AGAIN):
                await self.drain_ended()
            credit = self.left

    async def drain_ended(self) -> None:
        """Wait until the drain that runs has ended."""
        await self._receiver.until(lambda: self.drained or self._receiver.over)

    def end_drain(self) -> None:
        """End the drain that runs: there is no credit any more, or none that is waited for."""
        self.drained = True
        self._receiver.changed()
