"""Receiving a message while it comes in (§2.6.14): deliveries with a head and a body to read, and their receiver.

    engine ──parts──> StreamedDelivery ──StreamDecoder──> message (the head), then body()
                      handed out by `receive` once the head is there

What was not read stays in the engine and holds the session's window back, so that the peer stops: that is what bounds
the memory. A streaming receiver therefore has a session of its own, unless it was made on one.
"""

from __future__ import annotations

import copy
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.lowlevel

from ..engine import LinkTerms, ReceiverLink
from ..errors import AmqpError, DecodeError, DeliveryAborted, LocalProtocolError
from ..messaging import DeliveryState, Message, StreamDecoder, TransactionalState
from ..types import encode
from ._delivery import Delivery, is_stale, not_data
from ._endpoint import busy, fresh
from ._receiver import BURST, Receiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from ..engine import IncomingDelivery
    from ._connection import Connection
    from ._session import Session

STREAM_WINDOW: Final = 64
"""Transfer frames that a streaming receiver's own session takes ahead: 8 MiB of the largest frames, 128 KiB each."""


class StreamedDelivery(Delivery):
    """A delivery of a streaming receiver. See `Delivery`, whose every method it has."""

    __slots__ = ("_arrival", "_decoder", "_ended", "_failure", "_given_up", "_run")

    def __init__(self, link: ReceiverLink, delivery_id: int, tag: bytes, payload: bytes, settled: bool) -> None:
        super().__init__(link, delivery_id, tag, payload, settled)
        self._decoder = StreamDecoder()
        self._failure: DecodeError | None = None
        self._arrival: anyio.Event | None = None
        self._ended = False  # the decoder knows that there is no more
        self._given_up = False
        self._run = 0  # pieces handed out since other tasks could run

    @property
    def message(self) -> Message:
        if self._failure is not None:
            raise copy.copy(self._failure)
        return self._decoder.message

    def body(self) -> AsyncIterator[bytes]:
        if not self._decoder.has_data:
            raise not_data(self.message.body)
        return Pieces(self)

    # What the engine has

    def _open(self) -> bool:
        """Whether the delivery can be handed out: its head is here, or will never be understood."""
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
        self.link.context._wake()
        if part is not None:
            self._decoder.feed(part)
        elif self.stream.whole and not self._ended:
            self._ended = True
            self._decoder.end()
        else:
            return False
        return True

    async def _next_piece(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        if self._arrival is not None:
            raise busy("reading this body")
        decoder = self._decoder
        self._run += 1
        if self._run > BURST:
            self._run = 0
            await anyio.lowlevel.checkpoint()
        while not decoder.finished:
            if self.stream.aborted:
                raise DeliveryAborted("the sender aborted the delivery before its end")
            if self._given_up:
                raise LocalProtocolError("the delivery has its outcome: the rest of its body was given up with that")
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
        """Until something came, or nothing can come any more."""
        receiver: StreamReceiver = self.link.context
        if is_stale(self) and receiver._loss is not None and not receiver._closed:
            raise fresh(receiver._loss)
        if not receiver.open and (receiver._closed or not receiver._interrupted):
            raise receiver._gone()
        self._run = 0
        self._arrival = arrival = anyio.Event()
        receiver._readers.add(self)
        try:
            await arrival.wait()
        finally:
            self._arrival = None
            receiver._readers.discard(self)

    # Settling

    def _settle(self, state: DeliveryState) -> None:
        receiver: StreamReceiver = self.link.context
        if is_stale(self) or self.stream.whole or self.local_settled or receiver.connection.profile.early_outcomes:
            super()._settle(state)
        elif isinstance(state, TransactionalState):
            raise LocalProtocolError("in a transaction a delivery is settled when all of it is here: read it first")
        elif receiver.open and self.delivery_id is not None:
            encode(state)
            receiver._deferred.setdefault(self, state)
            self.state = receiver._deferred[self]
        elif receiver.open or (receiver._interrupted and not receiver._closed):
            encode(state)  # what cannot be told is refused here, and does not fail the attach
            self.state = self.state if self.state is not None else state  # the attach tells it, or told it
        else:
            raise receiver._gone()
        if not self._decoder.finished and not is_stale(self):
            self._given_up = True
            self.link.discard(self)
            self.link.context._wake()
            if self._arrival is not None:
                self._arrival.set()

    def __repr__(self) -> str:
        how = "settled" if self.local_settled else "unsettled"
        came = f"{self.stream.size} bytes{'' if self.stream.whole else ' so far'}"
        return f"<Delivery {self.delivery_id} tag={self.tag.hex()} {came}, {how}>"


class Pieces:
    """The rest of a delivery's body. The position is the delivery's: another one goes on where this one is."""

    def __init__(self, delivery: StreamedDelivery) -> None:
        self._delivery = delivery

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._delivery._next_piece()
        if piece is None:
            raise StopAsyncIteration
        return piece


class StreamReceiver(Receiver):
    """A receiver that hands deliveries out once their head is there. See `Receiver`, whose every method it has.

    On leaving in the middle of a delivery nothing is drained, for that would bring the rest of it: the link is
    detached, and the delivery is the peer's to send again.

    Args:
        own: the session is this receiver's own: begun and ended with it.
    """

    _session: Session

    def __init__(
        self,
        connection: Connection,
        session: Session,
        terms: LinkTerms,
        credit: int,
        *,
        require_filters: bool,
        own: bool,
    ) -> None:
        super().__init__(connection, session, terms, credit, require_filters=require_filters)
        self._own = own
        self._opening: deque[StreamedDelivery] = deque()  # their heads are to come
        self._readers: set[StreamedDelivery] = set()
        self._deferred: dict[StreamedDelivery, DeliveryState] = {}  # outcomes to be told when the deliveries are whole
        self._latest: IncomingDelivery | None = None

    # Attaching

    async def _attach(self) -> None:
        if not self._own or self._entered:
            await super()._attach()
            return
        await self.connection._ready()
        session = self._session
        self._require_capabilities()
        session._begin()
        try:
            await super()._attach()
        except BaseException:
            session._closed = True
            session._end()
            raise

    def _require_capabilities(self) -> None:
        super()._require_capabilities()
        self._require("streaming", "streaming")

    def _attach_to(self, session: Session) -> ReceiverLink:
        link = super()._attach_to(session)
        link.delivery_type = StreamedDelivery
        link.streaming = True
        link.by_portions = False
        link.incoming = deque()  # deliveries of which not even the head is here
        session._in_engine.strict_window = self.connection.profile.keeps_window
        return link

    def _interrupt(self, error: AmqpError | None) -> None:
        self._deferred.clear()  # they are told by the attach, or never
        super()._interrupt(error)

    def _on_resumed(self, deliveries: Iterable[IncomingDelivery]) -> None:
        super()._on_resumed(deliveries)
        self._hand_out()

    def _to_come(self, delivery: IncomingDelivery) -> bool:
        return delivery in self._opening or super()._to_come(delivery)

    def _give_up(self, deliveries: Iterable[Any]) -> None:
        deliveries = list(deliveries)
        super()._give_up(deliveries)
        self._opening = deque(delivery for delivery in self._opening if not is_stale(delivery))
        if self._latest in deliveries:
            self._latest = None
        self._wake_readers()

    # What came

    def _on_deliveries(self) -> None:
        assert self._link is not None
        incoming: deque[Any] = self._link.incoming
        self._latest = incoming[-1]
        self._opening.extend(incoming)
        incoming.clear()
        self._hand_out()
        if self._closed and self._unfinished():
            self._drained = True  # it would take the rest of this one
            self._changed()

    def _on_parts(self, delivery: StreamedDelivery) -> None:
        """A delivery went on."""
        if delivery in self._deferred and (delivery.stream.whole or delivery.stream.aborted):
            state = self._deferred.pop(delivery)
            if delivery.link.attached:
                delivery.link.settle(delivery, state)
                delivery._told()
                self._wake()
            else:
                delivery.state = state  # the next attach tells it, if there is one
        if delivery.stream.aborted and (delivery in self._opening or delivery in self._incoming):
            (self._opening if delivery in self._opening else self._incoming).remove(delivery)
            self._grant_again(1)
        elif delivery in self._opening:
            self._hand_out()
        elif delivery._arrival is not None:
            delivery._arrival.set()

    def _hand_out(self) -> None:
        """Those of which the head is here."""
        if self._closed:
            self._release_buffered()
            return
        while self._opening and self._opening[0]._open():
            self._incoming.append(self._opening.popleft())
        if self._incoming and self._waiter is not None:
            self._waiter.set()

    def _unfinished(self) -> bool:
        latest = self._latest
        return latest is not None and not (latest.stream.whole or latest.stream.aborted)

    # Closing

    def _stop(self) -> None:
        super()._stop()
        self._wake_readers()

    def _wake_readers(self) -> None:
        for delivery in self._readers:
            if delivery._arrival is not None:
                delivery._arrival.set()

    async def _finish(self) -> None:
        if self._unfinished():
            self._release_buffered()
        else:
            await super()._finish()

    def _wrap_up(self) -> None:
        for delivery, state in self._deferred.items():
            delivery.link.settle(delivery, state)
        self._deferred.clear()
        super()._wrap_up()

    def _release_buffered(self) -> None:
        self._incoming.extend(self._opening)
        self._opening.clear()
        for delivery in self._incoming:
            delivery.link.discard(delivery)
        super()._release_buffered()
        self._wake()

    async def _leave(self, closed: bool, deadline: float | None = None) -> None:
        await super()._leave(closed, deadline)
        if not self._own or not self._session._entered:
            return
        if deadline is None:
            await self._session.__aexit__(None, None, None)
        else:
            await self._session._leave(deadline)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await super().__aexit__(exc_type, exc, traceback)
        if self._over:
            self._opening.clear()
