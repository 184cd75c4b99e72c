"""Sending: `send`, `submit`, `send_many`, `stream`; outcomes come back by deliveries (§2.6.7, §2.6.12).

The path of a message: encode, `link.send`, then the connection's writer; a task that sends alone writes by itself. No
event, lock or checkpoint is spent on it as long as there is credit, the window is open and the output is not full (else
`send_queue`); every 64 messages or 256 KiB other tasks run. benchmarks/budget.py, "send": with a checkpoint for each,
five times the steps.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..._arguments import Renamed, checked, counted, current_names, made_by
from ...errors import Unsupported
from ...messaging import Message, Target
from .._core.body_files import CHUNK, BodySource, chunks, size_of
from .._core.transaction_work import TransactionFace as Transaction
from .._errors import fresh
from .._links.link import Link
from .body_writer import BodyWriter
from .core import SenderCore
from .delivery import unknown
from .delivery_face import SentDelivery
from .encoding import encoded_body
from .send_many import Pipeline, check_messages


@made_by("connection.sender(address)", "SenderCore")
class Sender(Link):
    """The sending end of a link. `connection.sender()` makes it, and `async with` attaches it.

    Any number of tasks may send at once. Tasks that wait for credit get it in the order in which they came.

    Leaving the block waits for missing outcomes, at most `close_timeout` seconds. If deliveries still have no outcome
    then, the exit raises: the cause if the link ended and no call has raised it yet, otherwise TimeoutError. An
    exception of the block itself has precedence.
    """

    _core: SenderCore

    def __init__(self, core: SenderCore) -> None:
        super().__init__(core)

    async def __aenter__(self) -> Self:
        """Attach the link.

        Raises:
            LinkDetached: the peer refused the link; `condition` and `description` say why (§2.6.3).
            SessionEnded, ConnectionClosed, ConnectionLost: what the link needs is gone.
            Unsupported: the dialect cannot do what the link asks for.
            LocalProtocolError: the peer takes no further link, or the name is in use.

        Cancelling: the link is detached as soon as the peer's answer to the attach comes.
        """
        await self._core.attach()
        return self

    # Facts

    @property
    def address(self) -> str | None:
        """The address of the peer's target (§3.5.4); None for an anonymous sender."""
        target = self.remote.target
        return target.address if isinstance(target, Target) else None

    @property
    def credit(self) -> int:
        """How many messages may be sent now without waiting for the receiver (§2.6.7)."""
        return self._core.link.credit if self._core.link is not None else 0

    @property
    def unsettled(self) -> int:
        """How many deliveries have no outcome yet."""
        return self._core.unsettled

    @property
    def recovered(self) -> tuple[SentDelivery, ...]:
        """Messages that an earlier connection sent on this link, whose outcome is unknown (`delivery_store`).

        This connection resumes them or sends them again. `await delivery.outcome()` returns the outcome of each.
        """
        return self._core.resumption.recovered if self._core.resumption is not None else ()

    # Sending

    async def send(self, message: object, *, settled: bool = False, transaction: Transaction | None = None) -> None:
        """Send a message and wait until the receiver has accepted it. Sent settled, it is only handed to the wire.

        Args:
            message: a `Message`; any other value is sent as the body of one.
            settled: send it settled, at most once, without an outcome; for `settle_mode="mixed"` (with
                "settled" every message is).
            transaction: send it as part of this transaction: it arrives at the commit (§4.4.1). The outcome is the one
                that it will have then.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the receiver gave another outcome.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended. If the message was handed
                over before, it is unknown whether it was processed.
            EncodeError, LocalProtocolError: see `submit`.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: while the call waits to send, nothing is sent and no credit is used. After that the message stays
            on its way, and only the waiting ends. Use `submit` to keep the delivery.
        """
        payload = message.encode() if isinstance(message, Message) else encoded_body(message)
        await self._core.send(payload, settled, transaction)

    async def submit(
        self, message: object, *, settled: bool = False, transaction: Transaction | None = None
    ) -> SentDelivery:
        """Hand a message to the wire; `await delivery.outcome()` later returns its outcome.

        It waits only for link credit, the session's window and room in the output. Other tasks run at the latest after
        every 64 messages or 256 KiB.

        Args:
            message, settled, transaction: as for `send`.

        Raises:
            EncodeError: the message holds a value without an AMQP encoding; nothing was sent.
            LocalProtocolError: the message is larger than the peer accepts (`remote.max_message_size`), or is sent
                settled on a link whose settle mode forbids it, or the transaction has ended or cannot cover this link;
                nothing was sent.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended; nothing was sent.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: nothing was sent and no credit used.
        """
        payload = message.encode() if isinstance(message, Message) else encoded_body(message)
        core = self._core
        link = core.queue.free_link(len(payload)) or await core.queue.wait_sendable()
        return core.send_on(link, payload, settled, transaction)

    async def send_encoded(
        self,
        payload: bytes,
        *,
        message_format: int = 0,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> None:
        """Send an encoded message, and wait until the receiver has accepted it; otherwise like `send`.

        Args:
            payload: its sections (§3.2), or the content that the message-format defines.
            message_format: 0 for a standard message; the two ends agree on others (§2.8.11).
            settled, transaction: as for `send`.

        Raises:
            Unsupported: the dialect has no message-formats, and one is given.
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, LocalProtocolError, anyio.ClosedResourceError: see `send`.

        Cancelling: as for `send`.
        """
        core = self._core
        if message_format and "message-formats" not in core.connection.capabilities:
            raise Unsupported(
                f"dialect {core.connection.dialect!r} has no message-format, so message_format must be 0, not "
                f"{message_format}"
            )
        await core.send(payload, settled, transaction, message_format)

    @checked
    async def send_many(
        self,
        messages: Iterable[object] | AsyncIterable[object],
        *,
        window: int = 1000,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> int:
        """Send messages one after the other, wait for all outcomes, and return how many were accepted: all of them.

        After the first message that is not accepted, no more are taken. The call still waits for the outcomes of those
        in flight, and then raises the exception of the first. So every message taken from `messages` has an outcome
        when the call returns or raises, unless the link ended or the call was cancelled, and you can continue with the
        same iterator. A note on the exception has the numbers.

        Args:
            messages: any iterable or async iterable of what `send` takes; it is read as fast as messages can be sent.
            window: the maximum number of messages without an outcome.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified: the first outcome that was not Accepted.
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link has ended; it is unknown whether the
                messages in flight were processed.
            EncodeError, LocalProtocolError: see `submit`. They are raised after the messages in flight have their
                outcomes, and so is anything that `messages` itself raises.
            TypeError: `messages` is one message, such as a str or a dict.
            anyio.ClosedResourceError: the sender was closed here.

        Cancelling: no further message is sent. Those in flight stay on their way, and closing the sender waits for
            them.
        """
        check_messages(messages)
        core = self._core
        core.connection.check_loop()
        pipeline = Pipeline(core, window, settled=settled or core.presettled)
        if transaction is None and core.store is None:
            return await pipeline.run(messages, None)

        def submit(message: object) -> Awaitable[Any]:
            # Not that of a subclass, which might report each message as an operation of its own.
            return Sender.submit(self, message, settled=settled, transaction=transaction)

        return await pipeline.run(messages, submit)

    def traced(self, message: Message) -> Message:
        """Return a message to put inside another one, such as a batch: with telemetry it has the context of a trace.

        What `send` and its kin take needs no such call: they add the context themselves.
        """
        return message

    if not TYPE_CHECKING:
        prepared = Renamed("traced")

    def __dir__(self) -> list[str]:
        return current_names(type(self))

    @checked
    def stream(
        self,
        message: Message | None = None,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> BodyWriter:
        """Send a message while its body is being made, in bounded memory.

            async with sender.stream(Message(content_type="video/mp4")) as body:
                await body.send(chunk)

        Other messages of this sender wait until the block is left.

        Args:
            message: the header, annotations, properties and footer; its body must be None.
            size: the number of bytes of the body, if it is known. The body is then one data section, which every
                receiver can read. Otherwise each chunk is a data section.
            settled: as for `send`.
            transaction: as for `send`; leave this block before that of the transaction.

        Raises:
            ValueError: the message has a body, or `size` is negative.
            Unsupported: the dialect has no streaming.
        """
        message = message if message is not None else Message()
        if message.body is not None:
            raise ValueError("the message of a stream must have no body: send the body with the stream")
        if size is not None and size < 0:
            raise ValueError(f"size must not be negative, not {size}")
        self._core.require("streaming", "streaming")
        return BodyWriter(self._core, message, size, settled or self._core.presettled, transaction)

    async def send_stream(
        self,
        message: Message | None,
        source: BodySource,
        *,
        size: int | None = None,
        settled: bool = False,
        transaction: Transaction | None = None,
    ) -> int:
        """Send a message whose body comes from a file or an iterator; return the bytes of the body.

        Args:
            message: as for `stream`.
            source: a path; a binary file, which is read to its end; anything else with a `read`, a coroutine or not;
                an iterable or async iterable of bytes; or the bytes themselves.
            size: as for `stream`; of a path and of bytes it is known.
            settled, transaction: as for `send`.

        Raises:
            MessageRejected, MessageReleased, MessageModified, LinkDetached, SessionEnded, ConnectionClosed,
                ConnectionLost, EncodeError, LocalProtocolError, anyio.ClosedResourceError: as for `stream` and what is
                called on it.
            OSError: the file cannot be read; the delivery is aborted, as with whatever else `source` raises.
            TypeError: `source` is of another type.

        Cancelling: the delivery is aborted as long as its end is not handed to the wire; after that only the waiting
            for the outcome ends. A file's `read` that blocks is waited for.
        """
        if size is None:
            size = await size_of(source)
        async with self.stream(message, size=size, settled=settled, transaction=transaction) as body:
            # As many bytes as fill whole frames.
            room = max(1, body.frame_room)
            async with aclosing(chunks(source, room * max(1, CHUNK // room))) as pieces:
                async for piece in pieces:
                    await body.send(piece)
        return body.sent

    # Closing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the outcomes that are out, then detach.

        Raises:
            LinkDetached, SessionEnded, ConnectionClosed, ConnectionLost: the link ended with deliveries in flight, and
                no call has said so yet.
            DeliveryUncertain: of a delivery it is not known whether it arrived, and no call has said so yet.
            TimeoutError: deliveries had no outcome when `close_timeout` seconds had passed.

        Cancelling: is not noticed; it takes `close_timeout` seconds at most.
        """
        core = self._core
        await core.leave(closed=not core.outlives_link())
        for delivery in core.unreported:
            error = unknown(delivery)
            if error is not None and exc is None:
                raise fresh(error)
        left = core.without_outcome
        if left and exc is None and not core.cause_reported:
            core.cause_reported = True
            if core.cause is not None:
                raise core.lost()
            raise TimeoutError(f"{counted(left, 'delivery')} had no outcome when close_timeout had passed")
