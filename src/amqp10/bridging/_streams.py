"""Passes messages on while they arrive, one after the other, so that they may be larger than the memory.

Unread parts of a message use up the source's session window, and reading waits for the target. So at most that window,
of 64 frames, and the output buffer are here at a time. No one has the whole message, so only the source can send it
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ..client.internals import (
    STREAM_WINDOW,
    BodyWriter,
    StreamedDelivery,
    StreamReceiverCore,
    core_of,
    is_stale,
    own_session,
)
from ..engine import SessionTerms
from ..errors import AmqpError, DeliveryAborted, DeliveryUncertain, LocalProtocolError, MessageNotAccepted
from ..messaging import Error, Message, Rejected
from ._ends import Ending, EndingCore
from ._mover import Mover
from ._onward import onward

if TYPE_CHECKING:
    from ..client import Connection
    from ..client.internals import SenderDelivery
    from ..messaging import Source
    from ._ends import Outlet
    from ._transit import Transit


class PartedDelivery(StreamedDelivery):
    """An undecoded delivery, whose payload is read part by part."""

    __slots__ = ()

    def has_head(self) -> bool:
        return bool(self.stream.parts) or self.stream.whole

    async def part(self) -> bytes | None:
        """Return the next part of the payload; None at its end.

        Raises:
            DeliveryAborted: the sender aborted the delivery.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link was lost, and the delivery with it.
            anyio.ClosedResourceError: the receiver was closed here.

        Cancelling: nothing is lost.
        """
        while True:
            if self.stream.aborted:
                raise DeliveryAborted("the sender aborted the delivery before its end")
            if not is_stale(self):
                part = self.link.read(self)
                receiver: StreamReceiverCore = self.link.owner  # type: ignore[assignment]
                receiver.wake()
                if part is not None:
                    return part
                if self.stream.whole:
                    return None
            await self._more()


class StreamIntakeCore(EndingCore, StreamReceiverCore):
    """The core of the receiving end, at the source."""

    delivery_type = PartedDelivery


class StreamIntake(Ending):
    """The receiving end, at the source."""

    _core: StreamIntakeCore


class PartWriter(BodyWriter):
    """Sends an encoded message part by part."""

    def __init__(self, sender: Outlet, first: bytes, message_format: int) -> None:
        super().__init__(core_of(sender), Message(), None, False, None)
        self._first = first
        self._message_format = message_format
        self._one_section = True  # parts are sent unchanged

    def _head(self) -> bytes:
        return self._first

    @property
    def whole(self) -> SenderDelivery | None:
        """The delivery, once its last part was sent."""
        delivery: Any = self._delivery
        return delivery if delivery is not None and delivery.handed_over else None


class StreamMover(Mover):
    """Moves messages part by part."""

    async def _send(self, transit: Transit) -> None:
        self.flight.queue.popleft()
        source: Any = transit.source
        try:
            await self._pace()
            await self._pass(transit, source)
        except MessageNotAccepted as error:
            outcome: Any = error.outcome
            self._refused(transit, outcome)
        except DeliveryAborted:
            self.flight.drop(transit)  # which settles it
        except DeliveryUncertain:
            self.flight.duplicates += not transit.stale
            await self._give_back(transit)
        except (AmqpError, anyio.ClosedResourceError) as error:
            most = self._target.remote.max_message_size
            if isinstance(error, LocalProtocolError) and most and source.stream.size > most:
                self._refused(transit, Rejected(Error("amqp:link:message-size-exceeded", str(error))))
            elif self._target.over or self._source.over:
                raise
            else:
                await self._give_back(transit)
        else:
            self._accepted(transit)
            self.flight.moved_size += source.stream.size
        self._free()

    async def _pass(self, transit: Transit, source: PartedDelivery) -> None:
        first = await source.part() or b""
        if not source.message_format:
            first = onward(first, anyio.current_time() - transit.came)
        writer = PartWriter(self._target, first, source.message_format)
        try:
            async with writer:
                while (part := await source.part()) is not None:
                    await writer.send(part)
        except anyio.get_cancelled_exc_class():
            if writer.whole is not None:  # its outcome will come
                self.flight.sent(transit, writer.whole)
                writer.whole.waiter = transit
            raise

    async def _give_back(self, transit: Transit) -> None:
        """Release a message that was not passed on, so that the source delivers it again."""
        if not transit.stale:
            try:
                transit.source.release()
            except (AmqpError, anyio.ClosedResourceError):
                pass  # its link was lost, too
        self.flight.drop(transit)
        await self._target.restored()


def stream_intake(connection: Connection, source: Source) -> StreamIntake:
    """Make the receiving end for a source."""
    plain = connection.receiver(source, stream=True, credit=1)
    session = own_session(connection, SessionTerms(incoming_window=STREAM_WINDOW))
    core = StreamIntakeCore(core_of(connection), session, core_of(plain).terms, 0, require_filters=True, own=True)
    return core_of(connection).link_type(StreamIntake)(core)
