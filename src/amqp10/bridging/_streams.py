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
from ._forwarding import for_next_hop
from ._links import SourceLink, SourceLinkCore
from ._mover import Mover

if TYPE_CHECKING:
    from ..client import Connection
    from ..client.internals import SenderDelivery
    from ..messaging import Source
    from ._in_flight import InFlightMessage
    from ._links import TargetLink


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


class StreamingSourceLinkCore(SourceLinkCore, StreamReceiverCore):
    """The core of the receiving end, at the source."""

    delivery_type = PartedDelivery


class StreamingSourceLink(SourceLink):
    """The receiving end, at the source."""

    _core: StreamingSourceLinkCore


class PartWriter(BodyWriter):
    """Sends an encoded message part by part."""

    def __init__(self, sender: TargetLink, first: bytes, message_format: int) -> None:
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

    async def _send(self, message: InFlightMessage) -> None:
        self.in_flight.queue.popleft()
        source: Any = message.source
        try:
            await self._pace()
            await self._forward_parts(message, source)
        except MessageNotAccepted as error:
            outcome: Any = error.outcome
            self._on_refused(message, outcome)
        except DeliveryAborted:
            self.in_flight.drop(message)  # which settles it
        except DeliveryUncertain:
            self.in_flight.duplicates += not message.stale
            await self._release(message)
        except (AmqpError, anyio.ClosedResourceError) as error:
            most = self._target.remote.max_message_size
            if isinstance(error, LocalProtocolError) and most and source.stream.size > most:
                self._on_refused(message, Rejected(Error("amqp:link:message-size-exceeded", str(error))))
            elif self._target.over or self._source.over:
                raise
            else:
                await self._release(message)
        else:
            self._on_accepted(message)
            self.in_flight.moved_size += source.stream.size
        self._free_place()

    async def _forward_parts(self, message: InFlightMessage, source: PartedDelivery) -> None:
        first = await source.part() or b""
        if not source.message_format:
            first = for_next_hop(first, anyio.current_time() - message.received_at)
        writer = PartWriter(self._target, first, source.message_format)
        try:
            async with writer:
                while (part := await source.part()) is not None:
                    await writer.send(part)
        except anyio.get_cancelled_exc_class():
            if writer.whole is not None:  # its outcome will come
                self.in_flight.record_sent(message, writer.whole)
                writer.whole.waiter = message
            raise

    async def _release(self, message: InFlightMessage) -> None:
        """Release a message that was not passed on, so that the source delivers it again."""
        if not message.stale:
            try:
                message.source.release()
            except (AmqpError, anyio.ClosedResourceError):
                pass  # its link was lost, too
        self.in_flight.drop(message)
        await self._target.wait_restored()


def make_streaming_source_link(connection: Connection, source: Source) -> StreamingSourceLink:
    """Make the receiving end for a source."""
    plain = connection.receiver(source, stream=True, credit=1)
    session = own_session(connection, SessionTerms(incoming_window=STREAM_WINDOW))
    core = StreamingSourceLinkCore(
        core_of(connection), session, core_of(plain).terms, 0, require_filters=True, own=True
    )
    return core_of(connection).link_type(StreamingSourceLink)(core)
