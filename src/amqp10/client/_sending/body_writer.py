"""Sending a message while its body is made: the head first, then data as it comes, the footer last (§2.6.14, §3.2).

    sender.stream(message) ──> its turn, credit ──> head ──> send(chunk), send(chunk) ──> footer ──> outcome
                                                        └──> left by an exception: aborted

Every frame waits for the peer's session window and for room in the output, so that no more than one chunk and what the
output takes is ever in memory.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.lowlevel

from ..._arguments import made_by
from ...errors import LocalProtocolError
from ...messaging import Accepted, Message, data_head
from .._core.transaction_work import work_of
from .delivery import known_outcome, not_accepted

if TYPE_CHECKING:
    from ...engine import OutgoingDelivery, SenderLink
    from ...messaging import Outcome
    from .._core.transaction_work import TransactionFace as Transaction
    from .core import SenderCore

# A header that says nothing (§3.2.1), for a message without any head: some bytes have to go first.
EMPTY_HEADER: Final = b"\x00\x53\x70\x45"
SECTION_HEAD: Final = 8  # bytes, of a data section that is not short
MAX_SECTION_SIZE: Final = 0xFFFF_FFFF


@made_by("sender.stream()", "SenderCore")
class BodyWriter:
    """Writes the body of one message; made by `sender.stream()`, begun and ended by `async with`.

    While it is open the sender's link is its own: other messages of the same sender wait until it ends. Leaving the
    block sends the message's footer, which may be set in the block, and waits for the outcome as `Sender.send` does.
    Leaving it by an exception, cancellation among them, aborts the delivery: the receiver forgets it (§2.6.14).

    Attributes:
        message: the head and the footer.
        sent: bytes of the body that were sent.
    """

    def __init__(
        self,
        sender: SenderCore,
        message: Message,
        size: int | None,
        settled: bool,
        transaction: Transaction | None,
    ) -> None:
        self.message = message
        self.sent: int = 0
        self._sender = sender
        self._size = size
        self._one_section = size is not None and size <= MAX_SECTION_SIZE
        self._message_format = 0
        self._settled = settled
        self._transaction = transaction
        self._delivery: OutgoingDelivery | None = None
        self._over = "the stream is not open yet: open it with `async with`"
        self._link: SenderLink

    def __repr__(self) -> str:
        return f"<BodyWriter: {self.sent} bytes sent>"

    @property
    def frame_room(self) -> int:
        """The bytes of a chunk that fill one frame of the connection; of use to who makes chunks of any size."""
        return self._link.frame_room - (0 if self._one_section else SECTION_HEAD)

    async def __aenter__(self) -> Self:
        """Wait for the sender's other messages, link credit, window and output, then send the head.

        Raises:
            EncodeError: the head holds a value without an AMQP encoding.
            LocalProtocolError: as for `Sender.submit`, for one that the transaction is over; or the stream was opened
                before.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over; nothing was sent.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: nothing was sent and no credit used.
        """
        if self._delivery is not None:
            raise LocalProtocolError("a stream can be opened by `async with` only once; make a new one")
        head = self._head()
        self._link = link = await self._sender.queue.wait_sendable()
        transaction = self._transaction
        try:
            state = work_of(transaction).post(self._sender) if transaction is not None else None
            self._delivery = link.send(
                head, settled=self._settled, message_format=self._message_format, state=state, more=True
            )
        except BaseException:
            self._sender.queue.pass_on()
            raise
        if transaction is not None:
            work_of(transaction).streams[self] = self._abort
        self._over = ""
        self._sender.begin_stream(self._delivery)
        return self

    def _head(self) -> bytes:
        """Return what comes before the body."""
        head = self.message.encode_head() or EMPTY_HEADER
        return head + data_head(self._size or 0) if self._one_section else head

    async def send(self, chunk: bytes | bytearray | memoryview) -> None:
        """Send a piece of the body, of any size; returns when all of it is handed to the wire.

        Without a `size` each chunk becomes a data section of its own, so that chunks of many kilobytes are better than
        many small ones.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the receiver has settled before the end; leaving the
                block aborts what is left.
            LocalProtocolError: the message becomes larger than the peer takes (`remote.max_message_size`) or than
                `size`; or the delivery was aborted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over; the receiver drops what it
                has of the message.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: nothing of the chunk was sent, or else, where some of its frames were, the delivery is aborted.
        """
        size = len(chunk) if isinstance(chunk, bytes | bytearray) else memoryview(chunk).nbytes
        if self._size is not None and self.sent + size > self._size:
            raise LocalProtocolError(f"the body must have {self._size} bytes as announced, not {self.sent + size}")
        if not size:
            self._check()
            await anyio.lowlevel.checkpoint()
            return
        head = b"" if self._one_section else data_head(size)
        if self._delivery is None:
            raise LocalProtocolError(self._over)
        room = self._link.frame_room
        data = memoryview(chunk).cast("B")
        at = 0
        try:
            while at < size:
                end = min(size, at + room - len(head))
                await self._wait_sendable(end - at)
                whole = not head and end - at == size and type(chunk) is bytes
                self._put(chunk if whole else head + data[at:end], more=True)  # type: ignore[arg-type]
                head = b""
                at = end
        except BaseException:
            if at:
                self._abort("the delivery was aborted, for a chunk of it was cut off")
            raise
        self.sent += size

    async def _wait_sendable(self, size: int) -> None:
        """Wait until a frame may be handed to the wire."""
        sender, link = self._sender, self._link
        if sender.queue.time_to_yield(size):
            await anyio.lowlevel.checkpoint()
        while True:
            self._check()
            if not link.session.sendable:
                await sender.until(lambda: link.session.sendable or not link.attached or self._refused() is not None)
            elif sender.connection.output_full:
                await sender.connection.output_drained()
            else:
                return

    def _check(self) -> None:
        if self._over:
            raise LocalProtocolError(self._over)
        if not self._sender.open or self._sender.link is not self._link:
            raise self._sender.report_stream_lost()
        outcome = self._refused()
        if outcome is not None:
            raise not_accepted(outcome, self._sender.connection.profile)

    def _refused(self) -> Outcome | None:
        """Return the receiver's outcome if it is known already and is not Accepted, else None."""
        delivery = self._delivery
        assert delivery is not None
        if not delivery.remote_settled and delivery.remote_state is None:
            return None
        outcome: Outcome | None = known_outcome(delivery)
        return None if type(outcome) is Accepted else outcome

    def _put(self, payload: bytes, more: bool) -> None:
        assert self._delivery is not None
        self._link.send_more(self._delivery, payload, more=more)
        self._sender.connection.wake()

    # The end

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the footer and wait for the outcome; after an exception, abort.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the outcome was not Accepted.
            LocalProtocolError: less was sent than `size` said, or the delivery was aborted by a `send` that was cut
                off; it is aborted.
            EncodeError: the footer holds a value without an AMQP encoding; the delivery is aborted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link is over. If the end of the message
                was handed over before, whether it was processed is not known.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: as long as the end of the message is not handed to the wire, the delivery is aborted. After that
            the message is on its way and stays so; only the waiting ends.
        """
        if exc is not None:
            self._abort("the delivery was aborted")
            return
        try:
            await self._finish()
        except BaseException:
            self._abort("the delivery was aborted")
            raise
        assert self._delivery is not None
        outcome = await self._delivery.outcome()  # type: ignore[attr-defined]
        if type(outcome) is not Accepted:
            raise not_accepted(outcome, self._sender.connection.profile)

    async def _finish(self) -> None:
        self._check()
        if self._size is not None and self.sent < self._size:
            raise LocalProtocolError(f"the body must have {self._size} bytes as announced, not {self.sent}")
        last = self.message.encode_footer()
        if not self.sent and not self._one_section:
            last = data_head(0) + last  # a message has a body, which may be empty
        await self._wait_sendable(len(last))
        self._put(last, more=False)
        self._ended("the stream has ended")
        if self._transaction is not None:
            work_of(self._transaction).add(self._delivery)  # type: ignore[arg-type]
        self._sender.end_stream()

    def _abort(self, why: str) -> None:
        if self._over:
            return
        self._ended(why)
        assert self._delivery is not None
        try:
            self._link.abort(self._delivery)
        except LocalProtocolError:
            pass  # the link is gone, and the delivery with it
        if self._sender.link is self._link and not self._sender.interrupted:
            self._sender.connection.wake()
            self._sender.end_stream(aborted=self._delivery)

    def _ended(self, why: str) -> None:
        self._over = why
        if self._transaction is not None:
            work_of(self._transaction).streams.pop(self, None)
