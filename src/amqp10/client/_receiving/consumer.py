"""The one task that receives on a link: what waits for it, its turn, and how it waits.

benchmarks/budget.py, "receive": as long as deliveries wait in `Consumer.incoming`, `Receiver.receive` takes them
without a call of anything here.
"""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.lowlevel

from .._errors import busy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...engine import IncomingDelivery, ReceiverLink
    from .._core.connection import ConnectionCore
    from .._links.link import Link

_log = logging.getLogger("amqp10.connection")

# `receive` lets other tasks run when it has handed out this number of deliveries in a row, and this number of seconds
# has passed: a pass of the scheduler, and what is written in it, costs as much as twenty messages, which is a sixth of
# "receive" in benchmarks/run.py.
YIELD_AFTER_MESSAGES: Final = 64
TURN = 0.0005
# Seconds that a receiver by hand waits without credit before the log says so.
NO_CREDIT = 5.0


class ConsumedLink(Protocol):
    """A receiver's core, as its consumer knows it; see `ReceiverCore`."""

    face: Link
    connection: ConnectionCore
    open: bool
    closed: bool
    link: ReceiverLink | None

    @property
    def buffered(self) -> int: ...

    @property
    def without_credit(self) -> bool: ...

    @property
    def peers_credit(self) -> int: ...

    def expect_arrival(self) -> None: ...

    def release_buffered(self) -> None: ...


class Consumer:
    """Hands the deliveries of one link to the task that receives. It is no consumer in the sense of a protocol.

    Attributes:
        incoming: deliveries that wait, the oldest first; the engine appends to it.
        collected: those that `collect` has taken aside meanwhile.
        turn: how many may still be taken before other tasks are to run; 0 while a task waits.
        taken: how many were taken since credit was granted last.
        refill_at: when `taken` reaches this number, more credit is granted.
        waiter: what wakes the task that waits; None if none does.
    """

    __slots__ = (
        "_receiver",
        "_turn_ends",
        "_warned",
        "collected",
        "incoming",
        "refill_at",
        "taken",
        "turn",
        "waiter",
    )

    def __init__(self, receiver: ConsumedLink, refill_at: int) -> None:
        self._receiver = receiver
        self.incoming: deque[Any] = deque()
        self.collected: list[Any] = []
        self.turn: int = YIELD_AFTER_MESSAGES
        self.taken: int = 0
        self.refill_at: int = refill_at
        self.waiter: anyio.Event | None = None
        self._turn_ends = 0.0
        self._warned = False  # that it waits without credit

    def check_free(self) -> None:
        """Raise if another task receives."""
        if self.waiter is not None:
            raise busy("receiving from this receiver")

    def use_turn(self, count: int) -> bool:
        """Count deliveries that are to be taken at once; return whether other tasks should run before that."""
        over = count > self.turn
        self.turn = max(0, self.turn - count)
        return over

    def fill(self, enough: int) -> None:
        """Fetch until `enough` deliveries are in the deque, if that many are here."""
        link = self._receiver.link
        if link is not None:
            link.materialize(enough - len(self.incoming))

    def insert(self, delivery: IncomingDelivery) -> None:
        """Put a delivery among those that wait, before the newer ones that came in the same pass."""
        incoming, newer = self.incoming, []
        link: ReceiverLink = delivery.link  # type: ignore[assignment]
        link.materialize(link.unmaterialized)
        while incoming and incoming[-1].link is link and follows(incoming[-1], delivery):
            newer.append(incoming.pop())
        incoming.append(delivery)
        incoming.extend(reversed(newer))

    def withdraw(self, deliveries: Sequence[IncomingDelivery]) -> int:
        """Hand these out no more; return how many of them waited here."""
        self.fill(self._receiver.buffered)
        gone = set(deliveries)
        before = len(self.incoming) + len(self.collected)
        for waiting in (self.incoming, self.collected):
            kept = [delivery for delivery in waiting if delivery not in gone]
            waiting.clear()
            waiting.extend(kept)
        return before - len(self.incoming) - len(self.collected)

    def wake_waiting(self) -> None:
        """Wake the task that waits for something to take."""
        if self.waiter is not None:
            self.waiter.set()

    # Waiting

    async def wait(self) -> None:
        """Wait until there is something to take, and let others run, unless they could a moment ago."""
        self.check_free()
        receiver = self._receiver
        if not receiver.buffered or monotonic() >= self._turn_ends:
            self.turn = 0
            try:
                if receiver.buffered:
                    self.waiter = anyio.Event()
                    await anyio.lowlevel.checkpoint()
                while not receiver.buffered:
                    await self._next_arrival()
            finally:
                self.waiter = None
                self.turn = YIELD_AFTER_MESSAGES
            self._turn_ends = monotonic() + TURN
        else:
            self.turn = YIELD_AFTER_MESSAGES
            await anyio.lowlevel.checkpoint_if_cancelled()
        self.fill(YIELD_AFTER_MESSAGES)

    async def collect(self, size: int) -> None:
        """Wait until `size` deliveries are here, or no more can come.

        The engine tells of arrivals when the deque was empty, so what is here is held aside meanwhile.
        """
        receiver, incoming, held = self._receiver, self.incoming, self.collected
        self.turn = 0
        try:
            while True:
                self.fill(receiver.buffered)
                held.extend(incoming)
                incoming.clear()
                enough = len(held) >= size or not receiver.open or receiver.peers_credit <= 0
                if held and not receiver.closed and enough:
                    self.waiter = anyio.Event()
                    await anyio.lowlevel.checkpoint()
                    return
                await self._next_arrival()
        finally:
            self.waiter = None
            self.turn = YIELD_AFTER_MESSAGES
            incoming.extendleft(reversed(held))
            held.clear()
            if receiver.closed:
                receiver.release_buffered()

    async def _next_arrival(self) -> None:
        """Wait for deliveries; raise if none can come any more."""
        receiver = self._receiver
        receiver.connection.check_loop()
        receiver.expect_arrival()
        self.waiter = waiter = anyio.Event()
        if receiver.without_credit and not self._warned:
            with anyio.move_on_after(NO_CREDIT):
                await waiter.wait()
            if not waiter.is_set() and receiver.without_credit:
                self._warned = True
                _log.warning("%r waits for messages, and none may come: say by add_credit() how many", receiver.face)
        await waiter.wait()


def follows(one: IncomingDelivery, other: IncomingDelivery) -> bool:
    """Return whether the delivery-id of `one` is later in serial arithmetic (§2.8.8)."""
    assert one.delivery_id is not None
    assert other.delivery_id is not None
    return 0 < (one.delivery_id - other.delivery_id) % (1 << 32) < 1 << 31
