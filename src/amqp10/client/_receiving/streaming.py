"""Receiving a message while it comes in (§2.6.14): deliveries with a head and a body to read, and their receiver.

    engine ──parts──> StreamedDelivery ──StreamDecoder──> message (the head), then body()
                      handed out by `receive` once the head is there

What was not read stays in the engine and holds the session's window back, so that the peer stops: that is what bounds
the memory. A streaming receiver therefore has a session of its own, unless it was made on one.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.lowlevel

from ...engine import LinkTerms, ReceiverLink
from ...errors import AmqpError, DecodeError, DeliveryAborted, LocalProtocolError
from ...messaging import DeliveryState, Message, StreamDecoder, TransactionalState
from ...types import encode
from .._core.states import State
from .._errors import busy, fresh
from .consumer import YIELD_AFTER_MESSAGES
from .core import ReceiverCore
from .delivery import ReceiverDelivery, is_stale, not_data, wake_if_settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ...engine import IncomingDelivery
    from .._core.connection import ConnectionCore, SessionCore

STREAM_WINDOW: Final = 64
"""Transfer frames that a streaming receiver's own session takes ahead: 8 MiB of the largest frames, 128 KiB each."""


class StreamedDelivery(ReceiverDelivery):
    """A delivery of a streaming receiver. See `Delivery`, whose every method it has."""

    __slots__ = ("_arrival", "_decoder", "_ended", "_failure", "_given_up", "_since_yield")
    state: DeliveryState | None

    def __init__(self, link: ReceiverLink, delivery_id: int, tag: bytes, payload: bytes, settled: bool) -> None:
        super().__init__(link, delivery_id, tag, payload, settled)
        self._decoder = StreamDecoder()
        self._failure: DecodeError | None = None
        self._arrival: anyio.Event | None = None
        self._ended = False  # the decoder knows that there is no more
        self._given_up = False
        self._since_yield = 0  # pieces handed out since other tasks could run

    @property
    def message(self) -> Message:
        if self._failure is not None:
            raise copy.copy(self._failure)
        return self._decoder.message

    def iter_body(self) -> AsyncIterator[bytes]:
        if not self._decoder.has_data:
            raise not_data(self.message.body)
        return BodyIterator(self)

    # What the engine has

    def has_head(self) -> bool:
        """Return whether the delivery can be handed out: its head is here, or is malformed."""
        try:
            while not self._decoder.read_head():
                if not self._feed():
                    return False
        except DecodeError as error:
            self._failure = error
        return True

    def _feed(self) -> bool:
        """Give the decoder the next part, or the end; False if there is neither yet."""
        if is_stale(self):
            return False
        part = self.link.read(self)
        receiver: StreamReceiverCore = self.link.owner  # type: ignore[assignment]
        receiver.wake()
        if part is not None:
            self._decoder.feed(part)
        elif self.stream.whole and not self._ended:
            self._ended = True
            self._decoder.end()
        else:
            return False
        return True

    async def next_piece(self) -> bytes | None:
        """Return the next piece of the body; None at its end."""
        if self._arrival is not None:
            raise busy("reading this body")
        decoder = self._decoder
        self._since_yield += 1
        if self._since_yield > YIELD_AFTER_MESSAGES:
            self._since_yield = 0
            await anyio.lowlevel.checkpoint()
        while not decoder.finished:
            if self.stream.aborted:
                raise DeliveryAborted("the sender aborted the delivery before its end")
            if self._given_up:
                raise LocalProtocolError("the delivery has an outcome, and the rest of its body was discarded")
            if self._failure is not None:
                raise copy.copy(self._failure)
            try:
                piece = decoder.read()
            except DecodeError as error:
                self._failure = error
                raise
            if piece is not None:
                return piece
            if not decoder.finished and not self._feed():
                await self._more()
        return None

    async def _more(self) -> None:
        """Wait until something came, or nothing more can come."""
        receiver: StreamReceiverCore = self.link.owner  # type: ignore[assignment]
        if is_stale(self) and receiver.loss is not None and not receiver.closed:
            raise fresh(receiver.loss)
        if not receiver.open and (receiver.closed or not receiver.interrupted):
            raise receiver.gone()
        self._since_yield = 0
        self._arrival = arrival = anyio.Event()
        receiver.readers.add(self)
        try:
            await arrival.wait()
        finally:
            self._arrival = None
            receiver.readers.discard(self)

    def wake_reader(self) -> None:
        """Wake the task that waits for the next piece."""
        if self._arrival is not None:
            self._arrival.set()

    # Settling

    def _settle(self, state: DeliveryState) -> None:
        self.check_accepted(state)
        receiver: StreamReceiverCore = self.link.owner  # type: ignore[assignment]
        if is_stale(self) or self.stream.whole or self.local_settled or receiver.connection.profile.early_outcomes:
            super()._settle(state)
        elif isinstance(state, TransactionalState):
            raise LocalProtocolError(
                "in a transaction a delivery can be settled only when all of it has arrived: read it first"
            )
        elif receiver.open and self.delivery_id is not None:
            encode(state)
            receiver.deferred.setdefault(self, state)
            self.state = receiver.deferred[self]
        elif receiver.open or (receiver.interrupted and not receiver.closed):
            encode(state)  # what cannot be told is refused here, and does not fail the attach
            self.state = self.state if self.state is not None else state  # the attach tells it, or told it
        else:
            raise receiver.gone()
        if not self._decoder.finished and not is_stale(self):
            self._given_up = True
            self.link.discard(self)
            receiver.wake()
            self.wake_reader()

    def __repr__(self) -> str:
        how = "settled" if self.local_settled else "unsettled"
        came = f"{self.stream.size} bytes{'' if self.stream.whole else ' so far'}"
        return f"<Delivery {self.delivery_id} tag={self.tag.hex()} {came}, {how}>"


class BodyIterator:
    """The rest of a delivery's body. The position is the delivery's: another one goes on where this one is."""

    def __init__(self, delivery: StreamedDelivery) -> None:
        self._delivery = delivery

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._delivery.next_piece()
        if piece is None:
            raise StopAsyncIteration
        return piece


class StreamReceiverCore(ReceiverCore):
    """The core of a receiver that hands deliveries out once their head is there. Its `Receiver` is like any other.

    On leaving in the middle of a delivery nothing is drained, for that would bring the rest of it: the link is
    detached, and the delivery is the peer's to send again.

    Attributes:
        readers: deliveries whose next piece is waited for.
        deferred: outcomes to be told when the deliveries are whole.
    """

    delivery_type: type[ReceiverDelivery] = StreamedDelivery

    def __init__(
        self,
        connection: ConnectionCore,
        session: SessionCore,
        terms: LinkTerms,
        credit: int,
        *,
        require_filters: bool,
        own: bool,
    ) -> None:
        """Make the core; `own`: the session is this receiver's own, begun and ended with it."""
        super().__init__(connection, session, terms, credit, require_filters=require_filters)
        self._own_session = session if own else None
        self._opening: deque[StreamedDelivery] = deque()  # their heads are to come
        self.readers: set[StreamedDelivery] = set()
        self.deferred: dict[StreamedDelivery, DeliveryState] = {}
        self._latest: IncomingDelivery | None = None

    # Attaching

    async def attach(self) -> None:
        session = self._own_session
        if session is None or self.state is not State.NEW:
            await super().attach()
            return
        await self.connection.ready()
        self.require_capabilities()
        session.begin()
        try:
            await super().attach()
        except BaseException:
            session.end()
            raise

    def require_capabilities(self) -> None:
        super().require_capabilities()
        self.require("streaming", "streaming")

    def attach_to(self, session: SessionCore) -> ReceiverLink:
        link = super().attach_to(session)
        link.streaming = True
        link.lazy = False
        link.incoming = deque()  # deliveries that have not begun to arrive
        session.in_engine.strict_window = self.connection.profile.keeps_window
        return link

    def interrupt(self, error: AmqpError | None) -> None:
        self.deferred.clear()  # they are told by the attach, or never
        super().interrupt(error)

    def on_resumed(self, deliveries: Sequence[IncomingDelivery]) -> None:
        super().on_resumed(deliveries)
        self._hand_out()

    def is_untaken(self, delivery: IncomingDelivery) -> bool:
        return delivery in self._opening or super().is_untaken(delivery)

    def drop(self, deliveries: Sequence[Any]) -> None:
        super().drop(deliveries)
        self._opening = deque(delivery for delivery in self._opening if not is_stale(delivery))
        if self._latest in deliveries:
            self._latest = None
        self._wake_readers()

    # What came

    def on_deliveries(self) -> None:
        assert self.link is not None
        incoming: deque[Any] = self.link.incoming
        self._latest = incoming[-1]
        self._opening.extend(incoming)
        incoming.clear()
        self._hand_out()
        if self.closed and self._unfinished():
            self.credit.end_drain()  # it would take the rest of this one

    def on_parts(self, delivery: StreamedDelivery) -> None:
        """Read on in a delivery that goes on."""
        if delivery in self.deferred and (delivery.stream.whole or delivery.stream.aborted):
            state = self.deferred.pop(delivery)
            if delivery.link.attached:
                delivery.link.settle(delivery, state)
                wake_if_settled(delivery)
                self.wake()
            else:
                delivery.state = state  # the next attach tells it, if there is one
        incoming = self.consumer.incoming
        if delivery.stream.aborted and (delivery in self._opening or delivery in incoming):
            (self._opening if delivery in self._opening else incoming).remove(delivery)
            self.credit.grant_again(1)
        elif delivery in self._opening:
            self._hand_out()
        else:
            delivery.wake_reader()

    def _hand_out(self) -> None:
        """Hand out the deliveries whose head is here."""
        if self.closed:
            self.release_buffered()
            return
        while self._opening and self._opening[0].has_head():
            self.consumer.incoming.append(self._opening.popleft())
        if self.consumer.incoming:
            self.consumer.wake_waiting()

    def _unfinished(self) -> bool:
        latest = self._latest
        return latest is not None and not (latest.stream.whole or latest.stream.aborted)

    # Closing

    def wake_all(self) -> None:
        super().wake_all()
        self._wake_readers()

    def _wake_readers(self) -> None:
        for delivery in self.readers:
            delivery.wake_reader()

    async def drain_work(self) -> None:
        if self._unfinished():
            self.release_buffered()
        else:
            await super().drain_work()

    def before_detach(self) -> None:
        for delivery, state in self.deferred.items():
            delivery.link.settle(delivery, state)
        self.deferred.clear()
        super().before_detach()

    def release_buffered(self) -> None:
        incoming = self.consumer.incoming
        incoming.extend(self._opening)
        self._opening.clear()
        for delivery in incoming:
            delivery.link.discard(delivery)
        super().release_buffered()
        self.wake()

    async def leave(self, closed: bool, deadline: float | None = None) -> None:
        await super().leave(closed, deadline)
        if self.over:
            self._opening.clear()
        session = self._own_session
        if session is None:
            return
        if deadline is None:
            await session.__aexit__(None, None, None)
        else:
            await session.leave(deadline)
